"""One step of a language model on a product: compute, communication and what the host adds."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import hypot
from typing import TYPE_CHECKING, Final

from npusim.cluster.collectives import band_factor, duration_us
from npusim.hardware.interconnect import interconnect_of, load_interconnect
from npusim.llm.decoder import work_of
from npusim.llm.engines import load_engine
from npusim.llm.memory import memory_of
from npusim.llm.precision import CONVERTED, UNREADABLE, precision_of
from npusim.llm.results import ExchangeTime, Guess, LlmStep
from npusim.llm.sampling import USUAL
from npusim.llm.work import Work
from npusim.model.cache_state import ORDER
from npusim.model.retiming import retime
from npusim.model.step import Step
from npusim.model.timing import Timer
from npusim.values.errors import ArgumentError
from npusim.values.language import say
from npusim.values.takes import takes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from npusim.hardware import Profile
    from npusim.hardware.interconnect import Interconnect
    from npusim.llm.architecture import Architecture
    from npusim.llm.config import LanguageModel
    from npusim.llm.engines import Engine
    from npusim.llm.layout import Layout
    from npusim.llm.popularity import Popularity
    from npusim.llm.precision import Precision
    from npusim.llm.sampling import Sampling
    from npusim.llm.work import Exchange, Part
    from npusim.llm.workload import Batch
    from npusim.model.results import StepResult

GRAPHS: Final = ("full", "piecewise", "eager")
"""How the host launches a step: one captured graph, graphs between attentions, or operators."""
_MOST_FUSED: Final = 8
_ENGINE: Final = "DSA"  # tasks of the engine that draws random numbers


@takes()
def step(
    model: LanguageModel,
    chip: Profile,
    layout: Layout,
    batch: Batch,
    *,
    dtype: str | None = None,
    graph: str | None = None,
    interconnect: str | None = None,
    sampling: Sampling = USUAL,
    overlap: bool | None = None,
    popularity: Popularity | None = None,
) -> LlmStep:
    """Time a step and weigh its memory.

    `dtype` is a quantisation, None for the config's own. `graph` is one of `GRAPHS`: by default
    decoding runs as one graph and prompts eagerly. With `overlap` every collective of a layer hides
    behind the product beside it (MC2, MindIE's default); without, none does; by default those of
    vllm-ascend's FlashComm do. The rank whose experts are most popular is the one that is timed.
    What was timed once is remembered. Raises ArgumentError for layouts and options that can't be.
    """
    sizes = model.architecture
    layout.check(sizes)
    batch = _readable(sizes, batch)
    chosen = graph or ("full" if batch.phase == "decode" else "eager")
    if chosen not in GRAPHS:
        raise ArgumentError(
            f"--graph {graph}", say("Say one of {graphs}.").format(graphs=", ".join(GRAPHS))
        )
    engine = load_engine()
    precision = precision_on(model, chip, dtype)
    links = load_interconnect(interconnect) if interconnect else interconnect_of(chip.name)
    if layout.cards > links.most_ranks:
        raise ArgumentError(
            f"{layout} takes {layout.cards} x {chip.name}",
            say("Links join {most_ranks} of them.").format(most_ranks=links.most_ranks),
        )
    work = work_of(
        model.architecture, chip, layout, precision,
        batch if chosen == "eager" else batch.captured(layout.tp if layout.sp else 1),
        block=engine.block_tokens, sampling=sampling, popularity=popularity,
    )  # fmt: skip
    device = device_time(work, chip)
    hides = _hiding(model.architecture, layout, links, chip, engine, overlap)
    exchanges = exchanged(work, links, in_graph=chosen == "full", hidden_us=hides)
    if chosen == "full" and layout.tp > 1:
        exchanges.append(_apart(layout, engine))
    communication_ms = sum(each.total_ms - each.hidden_ms for each in exchanges)
    busy_ms = device.device_us / 1e3 + communication_ms
    host_ms = _host_ms(
        chosen, engine, sizes, batch.texts if layout.tp > 1 else 0, device.step.launches
    )
    beside_ms = _beside_ms(device, busy_ms - host_ms)
    compute_ms = device.device_us / 1e3 - beside_ms
    waiting_ms = engine.graph_step_us / 1e3 + max(0.0, host_ms - busy_ms + beside_ms)
    total_ms = compute_ms + communication_ms + waiting_ms
    return LlmStep(
        model, chip.name, layout, precision, batch, chosen,
        total_ms, compute_ms, communication_ms, waiting_ms, beside_ms,
        _band_ms(total_ms, device, communication_ms, band_factor(links) - 1),
        memory_of(sizes, layout, precision, batch, chip, engine),
        device, tuple(exchanges), tuple(work.replaced.items()), _notes(model, chip, dtype),
        tuple(_guesses(sizes, work, device)),
    )  # fmt: skip


def _readable(model: Architecture, batch: Batch) -> Batch:
    """The batch, with what is heard by a model that hears; ArgumentError where it can't be."""
    if not model.causal and batch.sequences:
        raise ArgumentError(
            say("{name} reads texts and writes none").format(name=model.name),
            "Say --phase prefill.",
        )
    if model.crossed and model.tower is not None and batch.prompts:
        return replace(batch, pictures=batch.prompts, patches=model.tower.fixed)
    return batch


def _beside_ms(device: StepResult, ahead_ms: float) -> float:
    """Random numbers drawn on a stream of their own while the device still does what is ahead.

    The host has queued them when it is `ahead_ms` before the device is done.
    """
    drawn_ms = sum(
        each.total_us for each in device.items if each.item.op.startswith(_ENGINE)
    ) / 1e3  # fmt: skip
    return min(drawn_ms, max(0.0, ahead_ms - drawn_ms))


def _guesses(model: Architecture, work: Work, device: StepResult) -> Iterator[Guess]:
    """The parts whose time is a guess, with their share of compute; ``layers`` are all of them."""
    for name, why in model.approximated:
        ends = ("head", "embeddings") if name == "layers" else ()
        spent_us = sum(
            each.total_us
            for each, part in zip(device.items, work.parts, strict=True)
            if part == name or (ends and part not in ends)
        )
        yield Guess(name, why, spent_us / device.device_us if device.device_us else 0.0)


def _band_ms(
    total_ms: float, device: StepResult, communication_ms: float, spread: float
) -> tuple[float, float]:
    """The band of a step: compute and communication err independently of each other."""
    low_us, high_us = device.band_us
    below = hypot((device.device_us - low_us) / 1e3, communication_ms * spread / (1 + spread))
    above = hypot((high_us - device.device_us) / 1e3, communication_ms * spread)
    return total_ms - below, total_ms + above


@lru_cache(maxsize=8)
def _timer(chip: Profile) -> Timer:
    """Times every distinct kernel of a chip once, whichever steps it is in."""
    return Timer(chip, ORDER, None)


def precision_on(model: LanguageModel, chip: Profile, dtype: str | None) -> Precision:
    """The precision that a model has on a chip: float16 where there is no bfloat16.

    Weights in 8 bits of floating point are converted on the way. Raises ArgumentError for those in
    4, of which no published program makes anything that these chips take.
    """
    floating = model.dtype if chip.features.bfloat16 else "fp16"
    wanted = dtype or model.quantisation or floating
    if dtype is None and wanted in CONVERTED:
        wanted = floating
    if dtype is None and wanted in UNREADABLE:
        raise ArgumentError(
            say("{name} is published as {wanted}, which {chip} can't compute with").format(
                name=model.name, wanted=wanted, chip=chip.name
            ),
            say(
                "Convert its weights and say as what: --dtype {floating}, or w8a8 by msModelSlim."
            ).format(floating=floating),
        )
    if wanted.casefold() == "bf16" and floating == "fp16" and not chip.features.bfloat16:
        wanted = "fp16"
    return precision_of(wanted, floating)


def _notes(model: LanguageModel, chip: Profile, dtype: str | None) -> tuple[str, ...]:
    notes = []
    asked = "bf16" in (dtype, model.dtype if dtype != "fp16" else "")
    if asked and not chip.features.bfloat16:
        notes.append(say("{name} has no bfloat16: activations are float16").format(name=chip.name))
    if dtype is None and model.quantisation in CONVERTED:
        notes.append(
            say(
                "published as {quantisation}, which {name} can't compute with: weights are "
                "converted to {value} (or say --dtype w8a8)"
            ).format(
                quantisation=model.quantisation,
                name=chip.name,
                value="bf16" if chip.features.bfloat16 else "fp16",
            )
        )
    return tuple(notes)


def device_time(work: Work, chip: Profile) -> StepResult:
    """The tasks of some work on a chip; what was timed once is remembered."""
    return retime(Step("", "calls", tuple(work.items)), chip, timer=_timer(chip))


def _alone_us(task: Part, chip: Profile) -> float:
    """One task on a chip, by itself."""
    alone = Work(chip)
    alone.run(task)
    return device_time(alone, chip).device_us


def exchanged(
    work: Work,
    links: Interconnect,
    *,
    in_graph: bool,
    hidden_us: Callable[[Exchange, float], float] = lambda _, __: 0.0,
) -> list[ExchangeTime]:
    """The collectives of some work, each kind with its time, and what of it is hidden."""
    found = []
    for each in work.exchanges:
        if each.kernel is not None:
            once_us = _alone_us(each.kernel, work.chip)
        else:
            once_us = duration_us(
                each.operation, links, each.ranks, each.nbytes, in_graph=in_graph, apart=each.apart
            )
        found.append(
            ExchangeTime(
                each.operation, each.why, each.ranks, round(each.nbytes), each.count,
                once_us * each.count / 1e3, hidden_us(each, once_us) * each.count / 1e3,
            )
        )  # fmt: skip
    return found


def _hiding(
    model: Architecture,
    layout: Layout,
    links: Interconnect,
    chip: Profile,
    engine: Engine,
    overlap: bool | None,
) -> Callable[[Exchange, float], float]:
    """How much of a collective passes beside its product.

    FlashComm of vllm-ascend makes one operator of a dense model's product and its ReduceScatter, on
    up to 8 ranks (ops/linear_op.py, ascend_forward_context.py), where vector cores drive the links.
    """
    fused = model.experts is None and layout.tp <= _MOST_FUSED and "aiv" in links.engines

    def hidden_us(exchange: Exchange, once_us: float) -> float:
        chosen = exchange.operation == "reducescatter" and fused if overlap is None else overlap
        if not chosen or exchange.product is None:
            return 0.0
        return engine.overlap_share * min(once_us, _alone_us(exchange.product, chip))

    return hidden_us


def _apart(layout: Layout, engine: Engine) -> ExchangeTime:
    """How long a rank waits on average in a step's first collective for the last one to begin it.

    Of n that begin evenly spread over a time, the last one does after n/(n + 1) of it, any of them
    after half.
    """
    ranks = layout.tp
    waiting_ms = engine.rank_spread_us / 1e3 * (ranks - 1) / (ranks + 1) / 2
    return ExchangeTime("wait", "ranks begin apart", ranks, 0, 1, waiting_ms)


def _host_ms(graph: str, engine: Engine, model: Architecture, told: int, launches: int) -> float:
    """What the host needs to launch a step, beside the step's own start.

    Workers in processes of their own (TP) are `told` of every sequence in each step. Launching
    operators never takes less than launching graphs of several; those of experts are many, small
    ones of PyTorch among them that take the device no time.
    """
    if graph == "full":
        return 0.0
    layers_us = model.layers * engine.piecewise_layer_us
    if graph == "eager":
        more_us = engine.eager_experts_layer_us - engine.piecewise_layer_us
        layers_us += model.expert_layers * more_us
    host_ms = (layers_us + told * engine.piecewise_sequence_us) / 1e3
    if graph == "eager":
        host_ms = max(host_ms, launches * engine.eager_launch_us / 1e3)
    return host_ms
