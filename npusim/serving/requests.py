"""What is asked: when each request comes, how long its prompt is, how many tokens it wants."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from npusim.reading.limits import MOST_SERVED
from npusim.values.errors import ArgumentError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PREFIX_TOKENS: Final = 512
"""Tokens that a name of a trace's prefixes stands for (Mooncake's traces)."""


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

    def every(self, groups: int) -> Requests:
        """What the first of `groups` gets when they take turns."""
        return Requests(
            self.arrival_ms[::groups],
            self.input_tokens[::groups],
            self.output_tokens[::groups],
            self.prefixes and self.prefixes[::groups],
        )


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
            f"{input_tokens} tokens in and {output_tokens} out", "Say 1 or more of each."
        )
    if not 0 <= spread < 1:
        raise ArgumentError(f"a spread of {spread:g}", "Say 0 to less than 1.")
    if rate_per_s is not None and not 0 < rate_per_s < float("inf"):
        raise ArgumentError(f"{rate_per_s:g} requests a second", "Say more than 0.")
    if seed < 0:
        raise ArgumentError(f"--seed {seed}", "Say 0 or more.")
    rng = np.random.default_rng(seed)
    arrivals = np.zeros(count)
    if rate_per_s is not None:
        arrivals = np.cumsum(rng.exponential(1e3 / rate_per_s, count))

    def lengths(mean: int) -> NDArray[np.int64]:
        drawn = mean * (1 + spread * rng.uniform(-1, 1, count))
        return np.maximum(1, np.rint(drawn)).astype(np.int64)

    return Requests(arrivals, lengths(input_tokens), lengths(output_tokens))


def read_requests(path: Path) -> Requests:
    """A trace in the format of Azure LLM, BurstGPT or Mooncake (JSON lines).

    Raises FileError for a file that is none of them.
    """
    if path.name.endswith(".jsonl"):
        return _mooncake(path)
    from npusim.capacity.traces import read_trace

    trace = read_trace(path)
    import numpy as np

    return Requests(
        trace.arrival_s * 1e3,
        trace.input_tokens.astype(np.int64),
        np.maximum(1, trace.output_tokens).astype(np.int64),
    )


def _mooncake(path: Path) -> Requests:
    """``{"timestamp": ms, "input_length": tokens, "output_length": tokens, "hash_ids": [...]}``."""
    import numpy as np

    from npusim.reading.files import read_text
    from npusim.reading.markup import json_value
    from npusim.values.errors import FileError

    rows = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        if not line.strip():
            continue
        found = json_value(line, path)
        names = ("timestamp", "input_length", "output_length")
        values = [found.get(name) if isinstance(found, dict) else None for name in names]
        if not all(isinstance(value, int | float) and value >= 0 for value in values):
            raise FileError(path, f"line {number} lacks one of {', '.join(names)}")
        contents = found.get("hash_ids", [])
        if not isinstance(contents, list) or not all(isinstance(each, int) for each in contents):
            raise FileError(path, f"line {number} has hash_ids that are no list of whole numbers")
        rows.append((values, tuple(contents)))
    if not rows:
        raise FileError(path, "has no requests")
    rows.sort()
    table = np.array([values for values, _ in rows], dtype=np.float64)
    lengths = np.maximum(1, table[:, 1:]).astype(np.int64)
    prefixes = tuple(contents for _, contents in rows)
    return Requests(
        table[:, 0] - table[0, 0],
        lengths[:, 0],
        lengths[:, 1],
        prefixes if any(prefixes) else None,
    )
