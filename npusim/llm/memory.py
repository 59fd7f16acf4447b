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

_NOTHING_GROWS = 1 << 24  # tokens that there is room for where none takes any
_STATE_BYTES = 4  # states are float32
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
    most_sequences: int = 0,
) -> LlmMemory:
    """The memory of a rank; `most_tokens` are those of the engine's largest step, if larger.

    Of `most_sequences` what doesn't grow with their tokens is set aside before the cache.
    """
    kept = cache_of(model, layout, precision)
    weights = weights_bytes(model, layout, precision)
    widest = max(model.width // layout.tp, model.hidden)
    tokens = max(batch.tokens, most_tokens)
    activations = _ACTIVATIONS * tokens * widest * precision.activations.itemsize
    capacity = chip.memory.capacity_bytes
    usable = round(capacity * engine.memory_share)
    free = usable - weights - activations - engine.buffer_bytes
    free -= round(most_sequences * kept.per_sequence)
    block = engine.block_tokens * layout.dcp
    most = free / kept.per_token if kept.per_token else _NOTHING_GROWS if free >= 0 else 0
    room = max(0, int(most // block) * block)
    return LlmMemory(
        weights,
        ceil(batch.cached * kept.per_token + kept.of_sequences(batch)),
        activations,
        engine.buffer_bytes,
        capacity,
        usable,
        kept.per_token,
        room,
    )


@dataclass(frozen=True)
class Kept:
    """What one rank keeps of sequences, in bytes.

    `per_token` grows with them; a layer with a window keeps `window_per_token` of its last `window`
    tokens, and one with a state `state` bytes of each sequence.
    """

    per_token: float
    window_per_token: float = 0.0
    window: int = 0
    state: float = 0.0

    @property
    def per_sequence(self) -> float:
        """At most, beside what grows with it."""
        return self.window * self.window_per_token + self.state

    def of_sequences(self, batch: Batch) -> float:
        """Of the sequences of a step, beside what grows with them."""
        lengths = (
            (batch.sequences, batch.context + batch.queries),
            (batch.prompts, batch.before + batch.chunk),
        )
        windows = sum(count * min(length, self.window) for count, length in lengths)
        return windows * self.window_per_token + batch.texts * self.state


def cache_of(model: Architecture, layout: Layout, precision: Precision) -> Kept:
    """What the rank with most layers keeps; a window's pages are given back when it has passed."""
    numbers: float = model.cached_per_token
    if model.latent is None and model.causal:
        numbers = 2 * max(1, model.kv_heads // layout.tp) * model.head_dim
    each = numbers * precision.cache.itemsize / layout.dcp
    stages, state = layout.pp, 0.0
    if model.state is not None:
        linear = ceil(model.layers_that("linear") / stages)
        state = linear * _STATE_BYTES * model.state.numbers / layout.tp
    if model.crossed and model.tower is not None:
        state += ceil(model.layers / stages) * each * model.tower.fixed
    windowed = ceil(model.layers_that("window") / stages)
    full = ceil(model.layers / stages) - windowed - ceil(model.layers_that("linear") / stages)
    return Kept(each * max(full, 0), each * windowed, model.window, state)


def weights_bytes(model: Architecture, layout: Layout, precision: Precision) -> int:
    """Bytes of the weights of the rank with most of them: its layers, and one end of the model."""
    tp, plain, stored = layout.tp, precision.activations.itemsize, precision.weight_bytes
    over = layout.experts if layout.experts > 1 else tp
    units = model.dense_layers * model.dense_weights / tp
    beside = model.beside_experts / (1 if layout.experts > 1 else tp)
    units += model.expert_layers * (model.expert_weights / over + beside)
    ends = model.vocabulary * model.hidden / tp
    ends *= 1 if model.tied or not model.head or layout.pp > 1 else 2
    ends += model.positions * model.hidden + model.tower_weights / tp
    return round((model.all_mixers / tp + units) / layout.pp * stored + ends * plain)
