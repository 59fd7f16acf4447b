"""What one rank keeps: weights, the cache, activations and an engine's buffers."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npusim.hardware import Profile
    from npusim.llm.architecture import Architecture
    from npusim.llm.engines import Engine
    from npusim.llm.layout import Layout
    from npusim.llm.precision import Precision
    from npusim.llm.workload import Batch

_ACTIVATIONS = 6  # tensors of a step's tokens and a layer's widest row that live at once


@dataclass(frozen=True)
class LlmMemory:
    """Bytes of one rank.

    `usable_bytes` is what the engine takes of the card; `kv_tokens` are the tokens that the cache
    has room for in one data-parallel group.
    """

    weights_bytes: int
    kv_bytes: int
    activation_bytes: int
    buffer_bytes: int
    capacity_bytes: int
    usable_bytes: int
    kv_bytes_per_token: float
    kv_tokens: int

    @property
    def total_bytes(self) -> int:
        """All of it, with the cache of this step."""
        return self.weights_bytes + self.kv_bytes + self.activation_bytes + self.buffer_bytes

    @property
    def fits(self) -> bool:
        """Whether the step fits into what the engine takes."""
        return self.total_bytes <= self.usable_bytes


def memory_of(
    model: Architecture,
    layout: Layout,
    precision: Precision,
    batch: Batch,
    chip: Profile,
    engine: Engine,
    *,
    most_tokens: int = 0,
) -> LlmMemory:
    """The memory of a rank; `most_tokens` are those of the engine's largest step, if larger."""
    layers = ceil(model.layers / layout.pp)
    per_token = cache_bytes_per_token(model, layout, precision)
    weights = weights_bytes(model, layout, precision)
    widest = max(model.width // layout.tp, model.hidden)
    tokens = max(batch.tokens, most_tokens)
    activations = _ACTIVATIONS * tokens * widest * precision.activations.itemsize
    capacity = chip.memory.capacity_bytes
    usable = round(capacity * engine.memory_share)
    free = usable - weights - activations - engine.buffer_bytes
    block = engine.block_tokens
    room = max(0, int(free / (per_token * layers) // block) * block)
    return LlmMemory(
        weights,
        ceil(batch.cached * per_token * layers),
        activations,
        engine.buffer_bytes,
        capacity,
        usable,
        per_token * layers,
        room,
    )


def cache_bytes_per_token(model: Architecture, layout: Layout, precision: Precision) -> float:
    """Bytes of a token in one layer's cache on one rank."""
    numbers: float = model.cached_per_token
    if model.latent is None:
        numbers = 2 * max(1, model.kv_heads // layout.tp) * model.head_dim
    return numbers * precision.cache.itemsize


def weights_bytes(model: Architecture, layout: Layout, precision: Precision) -> int:
    """Bytes of the weights of the rank with most of them: its layers, and one end of the model."""
    tp, plain, stored = layout.tp, precision.activations.itemsize, precision.weight_bytes
    over = layout.experts if layout.experts > 1 else tp
    attention = model.attention_weights / tp
    dense = model.dense_layers * (attention + model.dense_weights / tp)
    beside = model.beside_experts / (1 if layout.experts > 1 else tp)
    mixed = model.expert_layers * (attention + model.expert_weights / over + beside)
    ends = model.vocabulary * model.hidden / tp
    ends *= 1 if model.tied or layout.pp > 1 else 2
    return round((dense + mixed) / layout.pp * stored + ends * plain)
