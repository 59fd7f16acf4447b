"""What is asked: when each request comes, how long its prompt is, how many tokens it wants."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from npusim.reading.limits import MOST_SERVED
from npusim.values.errors import ArgumentError, FileError
from npusim.values.language import say
from npusim.values.takes import takes, tells

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PREFIX_TOKENS: Final = 512
"""Tokens that a name of a trace's prefixes stands for (Mooncake's traces)."""


@tells
@dataclass(frozen=True, eq=False)
class Requests:
    """Requests in the order in which they come; milliseconds and tokens.

    `prefixes`, where a trace has them, names the contents of every `PREFIX_TOKENS` of a prompt:
    prompts that begin with the same names begin with the same tokens.
    """

    arrival_ms: NDArray[np.float64]
    input_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    prefixes: tuple[tuple[int, ...], ...] | None = None

    def __len__(self) -> int:
        return len(self.arrival_ms)

    @takes()
    def first(self, count: int) -> Requests:
        """The first so many."""
        return Requests(
            self.arrival_ms[:count],
            self.input_tokens[:count],
            self.output_tokens[:count],
            self.prefixes and self.prefixes[:count],
        )

    @takes()
    def every(self, groups: int) -> Requests:
        """What the first of `groups` gets when they take turns."""
        return Requests(
            self.arrival_ms[::groups],
            self.input_tokens[::groups],
            self.output_tokens[::groups],
            self.prefixes and self.prefixes[::groups],
        )


@takes()
def even_lengths(
    count: int,
    input_tokens: int,
    output_tokens: int,
    *,
    rate_per_s: float | None = None,
    spread: float = 0.0,
    seed: int = 0,
) -> Requests:
    """Requests of about one length: within `spread` (a share of it) evenly around the means.

    They come at a rate, Poisson, or all at once without one. Raises ArgumentError.
    """
    import numpy as np

    if not 1 <= count <= MOST_SERVED:
        raise ArgumentError(f"{count} requests", f"Say 1 to {MOST_SERVED}.")
    if input_tokens < 1 or output_tokens < 1 or max(input_tokens, output_tokens) > 1 << 24:
        raise ArgumentError(
            say("{input_tokens} tokens in and {output_tokens} out").format(
                input_tokens=input_tokens, output_tokens=output_tokens
            ),
            say("Say 1 or more of each."),
        )
    if not 0 <= spread < 1:
        raise ArgumentError(
            say("a spread of {spread:g}").format(spread=spread), say("Say 0 to less than 1.")
        )
    rng = _dice(seed)
    at_ms = _arrivals(count, rate_per_s, rng)

    def lengths(mean: int) -> NDArray[np.int64]:
        drawn = mean * (1 + spread * rng.uniform(-1, 1, count))
        return np.maximum(1, np.rint(drawn)).astype(np.int64)

    return Requests(at_ms, lengths(input_tokens), lengths(output_tokens))


@takes()
def read_requests(
    path: Path, *, rate_per_s: float | None = None, seed: int = 0, output_tokens: int = 256
) -> Requests:
    """Requests of a file in any form that `npusim.serving.request_files` names.

    Where it says no times they come at a rate, Poisson, or all at once without one; where it says
    none of an answer, that has `output_tokens`. Raises FileError for a file that is none of them,
    ArgumentError for a rate beside times.
    """
    import numpy as np

    times, lengths, contents = (_json if _is_json(path) else _table)(path, output_tokens)
    if times is None:
        times = _arrivals(len(lengths), rate_per_s, _dice(seed))
    elif rate_per_s is not None:
        raise ArgumentError(
            say("{rate_per_s:g} requests a second, and {name} says when each comes").format(
                rate_per_s=rate_per_s, name=path.name
            ),
            say("Leave --rate away, or the times in the file."),
        )
    order = np.argsort(times, kind="stable")
    times, lengths = times[order], lengths[order]
    prefixes = contents and tuple(contents[at] for at in order.tolist())
    return Requests(times - times[0], lengths[:, 0], lengths[:, 1], prefixes)


def _is_json(path: Path) -> bool:
    from npusim.reading.tables import lines_of

    if path.name.endswith((".json", ".jsonl", ".jsonl.gz")):
        return True
    with lines_of(path) as lines:
        try:
            return next((line for line in lines if line.strip()), "").lstrip()[:1] in ("{", "[")
        except FileError:
            return False


_Read = tuple["NDArray[np.float64] | None", "NDArray[np.int64]", tuple[tuple[int, ...], ...] | None]


def _table(path: Path, _: int) -> _Read:
    """A trace in the columns of Azure LLM or BurstGPT."""
    import numpy as np

    from npusim.capacity.traces import read_trace

    trace = read_trace(path, max_rows=MOST_SERVED)
    lengths = np.stack([trace.input_tokens, trace.output_tokens], axis=1).astype(np.int64)
    return trace.arrival_s * 1e3, np.maximum(1, lengths), None


def _json(path: Path, output_tokens: int) -> _Read:
    import numpy as np

    from npusim.serving.request_files import json_requests

    found = json_requests(path, output_tokens)
    lengths = np.array([(each.input_tokens, each.output_tokens) for each in found], np.int64)
    contents = tuple(each.contents for each in found)
    at_ms = [each.at_ms for each in found if each.at_ms is not None]
    return (
        np.array(at_ms, np.float64) if at_ms else None,
        lengths,
        contents if any(contents) else None,
    )


def _dice(seed: int) -> np.random.Generator:
    import numpy as np

    if seed < 0:
        raise ArgumentError(f"--seed {seed}", say("Say 0 or more."))
    return np.random.default_rng(seed)


def _arrivals(
    count: int, rate_per_s: float | None, rng: np.random.Generator
) -> NDArray[np.float64]:
    """When requests come in ms: Poisson at a rate, all at once without one."""
    import numpy as np

    if rate_per_s is None:
        return np.zeros(count)
    if not 0 < rate_per_s < float("inf"):
        raise ArgumentError(
            say("{rate_per_s:g} requests a second").format(rate_per_s=rate_per_s),
            say("Say more than 0."),
        )
    return np.cumsum(rng.exponential(1e3 / rate_per_s, count))
