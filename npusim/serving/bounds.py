"""What no layout beats: weights and cache read once a step, products at the matrix units' peak."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf
from typing import TYPE_CHECKING, Final

from npusim.llm.memory import cache_of

if TYPE_CHECKING:
    from npusim.hardware import Profile
    from npusim.llm import LanguageModel, Layout
    from npusim.llm.architecture import Architecture
    from npusim.llm.memory import LlmMemory
    from npusim.llm.precision import Precision

MOST_SEQUENCES: Final = 1024


@dataclass(frozen=True)
class Bound:
    """Tokens a second of one rank at most, decoding in time and reading prompts.

    `sequences` are those of a data-parallel group with which decoding gets there.
    """

    decode_tok_s: float
    prompt_tok_s: float
    sequences: int

    def ranks(self, layout: Layout, prompt_tok_s: float, answer_tok_s: float) -> float:
        """Ranks at least that do so much, in whole instances of the layout."""
        needed = prompt_tok_s / self.prompt_tok_s
        if answer_tok_s:
            if not self.sequences:
                return inf
            needed += answer_tok_s / self.decode_tok_s
        return ceil(needed / layout.cards) * layout.cards


def bound_of(
    model: LanguageModel,
    chip: Profile,
    layout: Layout,
    precision: Precision,
    memory: LlmMemory,
    *,
    context: int,
    tpot_ms: float,
) -> Bound:
    """The bound of a layout, for sequences of `context` tokens and a limit of a token's time."""
    sizes = model.architecture
    kept = cache_of(sizes, layout, precision)
    each = context * kept.per_token + min(context, kept.window) * kept.window_per_token + kept.state
    rate = chip.hbm_sustained_gbps * 1e6  # bytes a millisecond

    def step_ms(sequences: int) -> float:
        return (_read_bytes(sizes, layout, precision, sequences) + sequences * each) / rate

    most = min(MOST_SEQUENCES, memory.kv_tokens // context)
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if step_ms(middle) <= tpot_ms else (low, middle - 1)
    decoded = low / step_ms(low) * 1e3 / layout.tp / layout.pp if low else 0.0
    peak = chip.cube_peak_tops("int8" if precision.quantised else "float16") * 1e12
    return Bound(decoded, peak / (2 * _active(sizes)), low)


def _read_bytes(model: Architecture, layout: Layout, precision: Precision, sequences: int) -> float:
    """Bytes of the weights that a rank reads in a step of so many sequences of every group."""
    stored, tp = precision.weight_bytes, layout.tp
    found = (model.all_mixers + model.dense_layers * model.dense_weights) / tp * stored
    if (experts := model.experts) is not None:
        tokens = sequences * (layout.dp if layout.experts > 1 else 1)
        hit = 1 - (1 - experts.active / experts.count) ** tokens
        shared = 1 if layout.experts > 1 else tp
        over = layout.experts if layout.experts > 1 else tp
        each = model.expert_weights * hit / over + model.beside_experts / shared
        found += model.expert_layers * each * stored
    ends = model.vocabulary * model.hidden / tp * precision.activations.itemsize
    return found + (ends if model.head else 0.0)


def _active(model: Architecture) -> float:
    """Weights that every token of a prompt is multiplied by."""
    found = model.all_mixers + model.dense_layers * model.dense_weights
    if (experts := model.experts) is not None:
        taken = model.expert_weights // experts.count * experts.active
        found += model.expert_layers * (taken + model.beside_experts)
    return found
