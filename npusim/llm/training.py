"""A training step: micro-batches through a pipeline, gradients exchanged, weights updated.

Stages work one forward, one backward (1F1B); ``virtual`` chunks of layers on each shorten what
stages wait at the ends. With ``zero`` ranks of a data-parallel group share the optimizer's states.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Final

from npusim.hardware.interconnect import interconnect_of, load_interconnect
from npusim.llm.backward import Trained
from npusim.llm.engines import load_engine
from npusim.llm.precision import precision_of
from npusim.llm.step import device_time, exchanged
from npusim.llm.work import Work, part, tensor
from npusim.values.display import latency
from npusim.values.dtypes import FLOAT
from npusim.values.errors import ArgumentError
from npusim.values.language import say
from npusim.values.takes import takes, tells

if TYPE_CHECKING:
    from collections.abc import Callable

    from npusim.hardware import Profile
    from npusim.hardware.interconnect import Interconnect
    from npusim.llm.architecture import Architecture
    from npusim.llm.config import LanguageModel
    from npusim.llm.layout import Layout

RECOMPUTE: Final = ("none", "full")
_MOST_TOKENS: Final = 1 << 20
_MOST_MICRO_BATCHES: Final = 1 << 20
_STATES: Final = 12  # bytes of a weight in float32 with its two moments
_GRADIENT: Final = 4
_SAVED: Final = 34  # bytes of a layer for each token and column of the hidden state, by Megatron-LM
_SAVED_INPUT: Final = 2


@tells
@dataclass(frozen=True)
class Training:
    """What is trained: tokens of a sequence, sequences of a micro-batch and of a whole step."""

    length: int
    micro_batch: int = 1
    global_batch: int = 1
    recompute: str = "none"
    zero: int = 0
    virtual: int = 1

    @takes()
    def micro_batches(self, layout: Layout) -> int:
        """Micro-batches of one rank; ArgumentError where the step isn't whole ones."""
        each = self.micro_batch * layout.dp
        if self.recompute not in RECOMPUTE:
            raise ArgumentError(f"--recompute {self.recompute}", say("Say none or full."))
        if min(self.length, self.micro_batch, self.global_batch, self.virtual) < 1:
            raise ArgumentError(say("a batch of nothing"), say("Say 1 or more of everything."))
        if self.length * self.micro_batch > _MOST_TOKENS:
            raise ArgumentError(
                say("{micro_batch} sequences of {length} tokens at once").format(
                    micro_batch=self.micro_batch, length=self.length
                ),
                say("A micro-batch has at most {most_tokens} tokens.").format(
                    most_tokens=_MOST_TOKENS
                ),
            )
        if self.zero not in (0, 1):
            raise ArgumentError(
                f"--zero {self.zero}", say("Say 0 or 1: the optimizer's states shared.")
            )
        if self.global_batch % each:
            raise ArgumentError(
                say(
                    "a batch of {global_batch} isn't whole micro-batches of {micro_batch} on "
                    "{dp} groups"
                ).format(
                    global_batch=self.global_batch, micro_batch=self.micro_batch, dp=layout.dp
                ),
                say("Choose a multiple of {each}.").format(each=each),
            )
        if (count := self.global_batch // each) > _MOST_MICRO_BATCHES:
            raise ArgumentError(
                say("a step of {count} micro-batches").format(count=count),
                say("It has at most {most_micro_batches}.").format(
                    most_micro_batches=_MOST_MICRO_BATCHES
                ),
            )
        return count


@dataclass(frozen=True)
class TrainingMemory:
    """Bytes of the rank with most: of the first stage, or of the last, which has the logits."""

    weights_bytes: int
    gradients_bytes: int
    optimizer_bytes: int
    activation_bytes: int
    buffer_bytes: int
    capacity_bytes: int

    @property
    def total_bytes(self) -> int:
        """All of it."""
        return (
            self.weights_bytes + self.gradients_bytes + self.optimizer_bytes
            + self.activation_bytes + self.buffer_bytes
        )  # fmt: skip

    @property
    def fits(self) -> bool:
        """Whether the card has so much."""
        return self.total_bytes <= self.capacity_bytes


@dataclass(frozen=True)
class TrainingStep:
    """The time of a step in parts that add up, milliseconds.

    `forward_ms` and `backward_ms` are those of one micro-batch on the slowest stage, communication
    within it included. `bubble_ms` is what stages wait at both ends, `exchange_ms` the gradients'
    exchange, `update_ms` the optimizer.
    """

    model: LanguageModel
    soc: str
    layout: Layout
    training: Training
    step_ms: float
    forward_ms: float
    backward_ms: float
    communication_ms: float
    bubble_ms: float
    exchange_ms: float
    update_ms: float
    band_ms: tuple[float, float]
    tok_s_per_card: float
    simulated_share: float
    memory: TrainingMemory
    replaced: tuple[tuple[str, str], ...]

    def __repr__(self) -> str:
        low, high = self.band_ms
        time = latency(self.step_ms * 1e3, (low * 1e3, high * 1e3))
        return f"<TrainingStep of {self.model.name} on {self.soc}, {self.layout}: {time}>"


@takes()
def train(
    model: LanguageModel,
    chip: Profile,
    layout: Layout,
    training: Training,
    *,
    dtype: str | None = None,
    interconnect: str | None = None,
) -> TrainingStep:
    """Time a training step and weigh its memory. Raises ArgumentError for what can't be."""
    sizes = model.architecture
    if not sizes.plain:
        raise ArgumentError(
            say("training of {name} isn't modelled").format(name=sizes.name),
            say("Its steps are: npusim llm step."),
        )
    layout.check(sizes)
    count = training.micro_batches(layout)
    if training.virtual > (most := ceil(sizes.layers / layout.pp)):
        raise ArgumentError(
            say("{virtual} chunks of a stage of {most} layers").format(
                virtual=training.virtual, most=most
            ),
            "Choose a smaller --virtual.",
        )
    links = load_interconnect(interconnect) if interconnect else interconnect_of(chip.name)
    floating = model.dtype if chip.features.bfloat16 else "fp16"
    kind = precision_of(dtype or floating, floating).activations
    work = Work(chip)

    def timed(write: Callable[[Trained], None]) -> _Part:
        work.items, work.exchanges, work.times = [], [], 1
        write(Trained(work, sizes, layout, kind, training.micro_batch, training.length))
        return _part_of(work, chip, links)

    def forward(of: Trained) -> None:
        _layers(of, layout.pp, back=False)

    def backward(of: Trained) -> None:
        if training.recompute == "full":
            _layers(of, layout.pp, back=False)
        _layers(of, layout.pp, back=True)

    there, back = timed(forward), timed(backward)
    ends = timed(_ends)
    update = timed(lambda of: _update(of, training))
    # The last stage has the loss on top; with several, others have the embedding, which is less.
    once_ms = there.total_ms + back.total_ms + ends.total_ms
    stages = layout.pp
    sent_ms = _sent_ms(sizes, training, layout, links, kind.itemsize) if stages > 1 else 0.0
    each_ms = once_ms + 2 * sent_ms
    bubble_ms = (stages - 1) / training.virtual * each_ms
    step_ms = count * each_ms + bubble_ms + update.total_ms
    spread = [part.band(once_ms) for part in (there, back, ends)]
    low, high = (sum(each[end] for each in spread) for end in (0, 1))
    tokens = training.global_batch * training.length
    return TrainingStep(
        model, chip.name, layout, training, step_ms, there.total_ms, back.total_ms,
        count * (there.communication_ms + back.communication_ms + 2 * sent_ms),
        bubble_ms, update.communication_ms, update.compute_ms, (step_ms * low, step_ms * high),
        tokens / step_ms * 1e3 / layout.cards, _simulated(there, back),
        memory_of(sizes, chip, layout, training, kind.itemsize), tuple(work.replaced.items()),
    )  # fmt: skip


@dataclass(frozen=True)
class _Part:
    compute_ms: float
    communication_ms: float
    host_ms: float
    low_ms: float
    high_ms: float
    simulated: float

    @property
    def total_ms(self) -> float:
        """The device's time, or the host's where it needs longer to launch."""
        return max(self.compute_ms + self.communication_ms, self.host_ms)

    def band(self, whole_ms: float) -> tuple[float, float]:
        """The ends of the band as shares of a whole."""
        beside = self.total_ms - self.compute_ms
        return (self.low_ms + beside) / whole_ms, (self.high_ms + beside) / whole_ms


def _simulated(*parts: _Part) -> float:
    """The share of their compute time that is simulated."""
    whole_ms = sum(part.compute_ms for part in parts)
    return sum(part.simulated * part.compute_ms for part in parts) / whole_ms


def _part_of(work: Work, chip: Profile, links: Interconnect) -> _Part:
    device = device_time(work, chip)
    communication_ms = sum(each.total_ms for each in exchanged(work, links, in_graph=False))
    host_ms = device.step.launches * chip.launch.host_dispatch_us / 1e3
    low_us, high_us = device.band_us
    return _Part(
        device.device_us / 1e3, communication_ms, host_ms, low_us / 1e3, high_us / 1e3,
        device.simulated_share,
    )  # fmt: skip


def _layers(of: Trained, stages: int, *, back: bool) -> None:
    """The layers of a stage, rounded up: the slowest one sets the pace."""
    for count, mixed in ((of.model.dense_layers, False), (of.model.expert_layers, True)):
        if count:
            of.work.times = ceil(count / stages)
            of.layer(back=back, mixed=mixed)
    of.work.times = 1


def _ends(of: Trained) -> None:
    of.loss(back=False)
    of.loss(back=True)


def _update(of: Trained, training: Training) -> None:
    """Gradients summed over the data-parallel group, weights updated, and spread again."""
    weights, dp, tp = _weights(of.model, of.layout), of.layout.dp, of.layout.tp
    if training.zero:
        mine = ceil(weights / dp)
        of.work.exchange("reducescatter", dp, mine * _GRADIENT, "gradients", apart=tp)
        of.work.exchange("allgather", dp, mine * of.kind.itemsize, "weights", apart=tp)
    else:
        mine = weights
        of.work.exchange("allreduce", dp, weights * _GRADIENT, "gradients", apart=tp)
    times = ceil(of.model.layers / of.layout.pp)  # tensor by tensor: about a layer's at a time
    each = ceil(mine / times)
    state, one = tensor(FLOAT, each), tensor(FLOAT, 1)
    scalars = (one,) * 7
    of.work.run(
        part("Mul", (state, state), (state,), count=times),  # the norm of gradients, to clip them
        part("ApplyAdamW", (state, state, state, *scalars, state), (state, state, state),
             count=times),
        part("Cast", (state,), (tensor(of.kind, each),), count=times),
    )  # fmt: skip


def _weights(model: Architecture, layout: Layout) -> int:
    """Weights of a rank."""
    over = layout.experts if layout.experts > 1 else layout.tp
    layers = model.layers * model.attention_weights + model.dense_layers * model.dense_weights
    mixed = model.expert_layers * (model.expert_weights / over + model.beside_experts / layout.tp)
    ends = model.vocabulary * model.hidden * (1 if model.tied or layout.pp > 1 else 2)
    return ceil((layers / layout.tp + mixed) / layout.pp + ends / layout.tp)


def _sent_ms(
    model: Architecture, training: Training, layout: Layout, links: Interconnect, size: int
) -> float:
    """Milliseconds of a micro-batch's way to the next stage."""
    from npusim.cluster.collectives import duration_us

    nbytes = training.micro_batch * training.length * model.hidden * size / layout.tp
    apart = layout.tp * layout.dp
    return duration_us("sendrecv", links, 2, nbytes, in_graph=False, apart=apart) / 1e3


def memory_of(
    model: Architecture, chip: Profile, layout: Layout, training: Training, size: int
) -> TrainingMemory:
    """What the stage with most keeps.

    The first one has activations of as many micro-batches as there are stages, the last one those
    of one, and logits.
    """
    weights = _weights(model, layout)
    tokens = training.micro_batch * training.length
    layers = ceil(model.layers / layout.pp)
    flying = min(layout.pp, training.micro_batches(layout))
    saved = _SAVED_INPUT if training.recompute == "full" else _SAVED
    kept = layers * tokens * model.hidden * saved / layout.tp
    logits = tokens * ceil(model.vocabulary / layout.tp) * (2 * FLOAT.itemsize + size)
    activations = kept + logits if layout.pp == 1 else max(kept * flying, kept + logits)
    if training.recompute == "full":
        activations += tokens * model.hidden * _SAVED / layout.tp
    return TrainingMemory(
        weights * size,
        weights * _GRADIENT,
        ceil(weights * _STATES / (layout.dp if training.zero else 1)),
        ceil(activations),
        load_engine().buffer_bytes,
        chip.memory.capacity_bytes,
    )
