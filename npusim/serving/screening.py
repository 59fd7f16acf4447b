"""What a layout does in steady state, by a few steps: what a search orders its candidates by.

Answers: so many sequences as decode within the limit. Prompts: as many in a step as leave the first
token most of its time. Both by the same cards: a prompt stops those who decode, in every group that
shares experts with its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from npusim.llm import Batch, step

if TYPE_CHECKING:
    from npusim.hardware import Profile
    from npusim.llm import LanguageModel, Layout
    from npusim.serving.bounds import Bound

_OF_TTFT: Final = 0.6  # of the limit a step of prompts may take; the rest is waiting
_LEAST: Final = 1e-9


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
    """Time three steps and work out what they give. Raises ArgumentError for what can't be."""
    most = max(1, bound.sequences)
    few = max(1, most // 4)
    low_ms, high_ms = (
        step(model, chip, layout, Batch(count, asked.context), **options).step_ms
        / asked.tokens_per_step
        for count in (few, most)
    )
    slope_ms = max(_LEAST, (high_ms - low_ms) / max(1, most - few))
    base_ms = low_ms - slope_ms * few

    def fitting(more_ms: float) -> int:
        """Sequences whose step is in time where each costs so much more."""
        found = (asked.tpot_ms - base_ms) / (slope_ms + more_ms)
        return max(0, min(most, int(found)))

    count = max(1, asked.max_tokens // asked.input_tokens)
    chunk = min(asked.input_tokens, asked.max_tokens)
    read = {**options, "graph": None if options.get("graph") == "full" else options.get("graph")}
    prompts_ms = step(model, chip, layout, Batch(prompts=count, chunk=chunk), **read).step_ms
    each_ms = prompts_ms / count * asked.input_tokens / chunk
    at_once = max(1, min(count, int(_OF_TTFT * asked.ttft_ms / each_ms)))
    together = layout.dp if layout.shares_experts else 1
    alone, beside = fitting(0.0), fitting(together * each_ms / asked.output_tokens)
    tokens_ms = asked.output_tokens * max(_LEAST, base_ms + slope_ms * alone)
    in_time = each_ms * at_once <= asked.ttft_ms
    return Steady(
        alone * layout.dp / tokens_ms * 1e3,
        layout.dp / each_ms * 1e3 if in_time else 0.0,
        beside * layout.dp / (asked.output_tokens * asked.tpot_ms) * 1e3 if in_time else 0.0,
        alone,
        beside,
    )
