"""What a layout does in steady state, by a few steps: what a search orders its candidates by.

Answers: so many sequences as decode within the limit. Prompts: as many in a step as leave the first
token most of its time. Both by the same cards: a prompt stops those who decode, in every group that
shares experts with its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from npusim.llm import Batch, step

if TYPE_CHECKING:
    from collections.abc import Callable

    from npusim.hardware import Profile
    from npusim.llm import LanguageModel, Layout
    from npusim.serving.bounds import Bound

_OF_TTFT: Final = 0.6  # of the limit a step of prompts may take; the rest is waiting
_LEAST: Final = 1e-9
_PLACES: Final = (1, 8, 32, 96, 256)
_Points = list[tuple[int, float]]


@dataclass(frozen=True)
class Asked:
    """Tokens of prompts that are computed and of answers, limits, and what a step may hold."""

    input_tokens: int
    output_tokens: int
    ttft_ms: float
    tpot_ms: float
    max_tokens: int
    tokens_per_step: float = 1.0

    @property
    def context(self) -> int:
        """Tokens of a sequence on average while it decodes."""
        return self.input_tokens + self.output_tokens // 2


@dataclass(frozen=True)
class Steady:
    """Requests a second of one instance: answered only, read only, and both by the same cards.

    `sequences` of a group decode in time where nothing else is done, `mixed_sequences` beside
    prompts.
    """

    decode_per_s: float
    prompt_per_s: float
    mixed_per_s: float
    sequences: int
    mixed_sequences: int


def steady(
    model: LanguageModel,
    chip: Profile,
    layout: Layout,
    bound: Bound,
    asked: Asked,
    **options: Any,
) -> Steady:
    """Time a few steps and work out what they give. Raises ArgumentError for what can't be."""

    @cache
    def step_ms(count: int) -> float:
        batch = Batch(count, asked.context)
        return step(model, chip, layout, batch, **options).step_ms / asked.tokens_per_step

    points = _around(asked.tpot_ms, max(1, bound.sequences), step_ms)
    count = max(1, asked.max_tokens // asked.input_tokens)
    chunk = min(asked.input_tokens, asked.max_tokens)
    read = {**options, "graph": None if options.get("graph") == "full" else options.get("graph")}
    prompts_ms = step(model, chip, layout, Batch(prompts=count, chunk=chunk), **read).step_ms
    each_ms = prompts_ms / count * asked.input_tokens / chunk
    at_once = max(1, min(count, int(_OF_TTFT * asked.ttft_ms / each_ms)))
    together = layout.dp if layout.shares_experts else 1
    alone, beside = (
        _fitting(points, asked.tpot_ms, max(1, bound.sequences), more_ms)
        for more_ms in (0.0, together * each_ms / asked.output_tokens)
    )
    tokens_ms = asked.output_tokens * _between(points, alone)
    in_time = each_ms * at_once <= asked.ttft_ms
    return Steady(
        alone * layout.dp / tokens_ms * 1e3,
        layout.dp / each_ms * 1e3 if in_time else 0.0,
        beside * layout.dp / (asked.output_tokens * asked.tpot_ms) * 1e3 if in_time else 0.0,
        alone,
        beside,
    )


def _around(limit_ms: float, most: int, step_ms: Callable[[int], float]) -> _Points:
    """Steps of sequences between which their time passes the limit, or of the most there can be.

    Numbers of sequences are those of all layouts: what ranks do alike in two is timed once then.
    """
    places = [*(each for each in _PLACES if each < most), most]
    low, high = 0, len(places) - 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if step_ms(places[middle]) <= limit_ms else (low, middle - 1)
    low = max(0, min(low, len(places) - 2))
    return [(each, step_ms(each)) for each in places[low : low + 2]]


def _between(points: _Points, sequences: int) -> float:
    """Milliseconds of a step, straight between the points and beyond them."""
    (low, low_ms), (high, high_ms) = points[0], points[-1]
    slope_ms = (high_ms - low_ms) / max(1, high - low)
    return max(_LEAST, low_ms + slope_ms * (sequences - low))


def _fitting(points: _Points, limit_ms: float, most: int, more_ms: float) -> int:
    """Sequences whose step is in time where each costs so much more."""
    base_ms = _between(points, 0)
    slope_ms = max(_LEAST, _between(points, 1) - base_ms)
    return max(0, min(most, int((limit_ms - base_ms) / (slope_ms + more_ms))))
