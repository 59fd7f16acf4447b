"""What a step costs, tabulated: a few steps are timed, and what lies between is interpolated.

A decoding step is a line in the tokens of all contexts together. A step with prompts costs what
its tokens cost as prompts, and on top what the decoding sequences' contexts cost; it is never
shorter than without prompts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from npusim.llm import Batch, step

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from npusim.hardware import Profile
    from npusim.llm import LanguageModel, Layout, LlmStep

_SEQUENCES: Final = (1, 8, 32, 96, 256, 1024)
_PROMPTS: Final = (64, 512, 2048, 4096)  # beyond, every token costs as much as the last ones
_FEW: Final = (1, 32, 256)
_FEW_PROMPTS: Final = (256, 2048)
_LEAST_CONTEXT: Final = 128


@dataclass(frozen=True)
class StepCosts:
    """Milliseconds by counts.

    ``decode[b]`` for b sequences without context, ``context[b]`` for each token of theirs
    together; ``prompt[t]`` for t tokens of prompts, ``behind[t]`` for each token in front of them.
    `band` are the factors of the 80 % band of a decoding step in the middle.
    """

    decode: Sequence[float]
    context: Sequence[float]
    prompt: Sequence[float]
    behind: Sequence[float]
    band: tuple[float, float] = (1.0, 1.0)

    def step_ms(self, sequences: int, tokens: float, prompts: int, before: float) -> float:
        """A step: `sequences` with `tokens` of context in all, `prompts` tokens behind `before`."""
        if not prompts:
            return self.decode[sequences] + self.context[sequences] * tokens
        both = min(prompts + sequences, len(self.prompt) - 1)
        further = self.context[sequences] * tokens
        read = self.prompt[both] + self.behind[both] * before
        return max(read, self.decode[sequences]) + further


def step_costs(
    model: LanguageModel,
    chip: Profile,
    layout: Layout,
    *,
    max_sequences: int,
    max_tokens: int,
    longest: int,
    prompt: int,
    draft: int = 0,
    tokens_per_step: float = 1.0,
    coarse: bool = False,
    progress: Callable[[str], None] | None = None,
    **options: Any,
) -> StepCosts:
    """Time what a deployment's steps lie between.

    `longest` is the longest context, `prompt` the usual length of a prompt; `options` are those
    of `npusim.llm.step`. With a `draft` of so many tokens a decoding step verifies one more than
    that for each sequence and gives `tokens_per_step` of them on average, so that a token costs
    that part of it; the draft itself costs nothing here. A `coarse` table has fewer places.
    """

    def timed(batch: Batch, **more: Any) -> LlmStep:
        if progress:
            progress(f"step of {batch.tokens} tokens")
        return step(model, chip, layout, batch, **{**options, **more})

    def decoded(size: int, context: int) -> LlmStep:
        if not draft:
            return timed(Batch(size, context))
        verified = Batch(prompts=size, chunk=1 + draft, before=context)
        return timed(verified, graph=options.get("graph") or "full")

    # A full graph holds steps that only decode: those with prompts are launched by operators.
    graph = "eager" if options.get("graph") == "full" else options.get("graph")

    def read(count: int, before: int) -> float:
        return timed(_prompts(count, prompt, before), graph=graph).step_ms

    sizes = _up_to(_FEW if coarse else _SEQUENCES, max_sequences)
    bases, slopes, band = _decoding(decoded, sizes, longest, tokens_per_step)
    return StepCosts(
        _table(sizes, bases, max_sequences),
        _shares(sizes, slopes, max_sequences),
        *_reading(
            read, _FEW_PROMPTS if coarse else _PROMPTS, prompt, max_tokens,
            max_tokens + max_sequences,
        ),
        band,
    )  # fmt: skip


def _shares(sizes: Sequence[int], slopes: Sequence[float], most: int) -> list[float]:
    """Milliseconds of a token of context by sequences: what all of them together take is even."""
    together = [slope * size for slope, size in zip(slopes, sizes, strict=True)]
    table = _table([0, *sizes], [0.0, *together], most)
    return [slopes[0], *(each / count for count, each in enumerate(table[1:], 1))]


def _decoding(
    decoded: Callable[[int, int], LlmStep],
    sizes: Sequence[int],
    longest: int,
    tokens_per_step: float,
) -> tuple[list[float], list[float], tuple[float, float]]:
    """Milliseconds of some numbers of sequences without context, and of a token of context.

    From steps with little and with the most context; the band is that of the middle one.
    """
    near, far = _LEAST_CONTEXT, max(2 * _LEAST_CONTEXT, longest)
    short, long = ([decoded(size, each) for size in sizes] for each in (near, far))
    slopes = [
        max(0.0, b.step_ms - a.step_ms) / (size * (far - near)) / tokens_per_step
        for size, a, b in zip(sizes, short, long, strict=True)
    ]
    bases = [
        a.step_ms / tokens_per_step - slope * size * near
        for size, a, slope in zip(sizes, short, slopes, strict=True)
    ]
    middle = long[len(long) // 2]
    return bases, slopes, (middle.band_ms[0] / middle.step_ms, middle.band_ms[1] / middle.step_ms)


def _reading(
    read: Callable[[int, int], float], places: Sequence[int], usual: int, largest: int, most: int
) -> tuple[list[float], list[float]]:
    """Milliseconds of prompts by their tokens, up to `most`, and of a token in front of them."""
    counts = _up_to(places, min(places[-1], largest))
    alone = [read(count, 0) for count in counts]
    further = max(0.0, read(counts[-1], usual) - alone[-1]) / usual / counts[-1]
    return _table(counts, alone, most), [further * count for count in range(most + 1)]


def _prompts(tokens: int, usual: int, before: int) -> Batch:
    """About so many tokens of prompts of the usual length."""
    chunk = min(tokens, usual)
    return Batch(prompts=max(1, round(tokens / chunk)), chunk=chunk, before=before)


def _up_to(sizes: Sequence[int], most: int) -> list[int]:
    return [*(size for size in sizes if size < most), most]


def _table(places: Sequence[int], values: Sequence[float], most: int) -> list[float]:
    """A value for every count from 0 to `most`: straight between the places, and beyond them."""
    import numpy as np

    counts = np.arange(most + 1)
    found = np.interp(counts, places, values)
    if len(places) > 1:
        (near, far), (low, high) = places[-2:], values[-2:]
        beyond = high + (counts - far) * (high - low) / (far - near)
        found = np.where(counts > far, beyond, found)
    table: list[float] = found.tolist()
    return table
