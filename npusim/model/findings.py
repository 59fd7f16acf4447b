"""What is odd about the kernels of a profile, whatever their time: findings and remedies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from npusim.catalogue import facts, operators
from npusim.model.communication import expected
from npusim.model.fusing import Fused, fused
from npusim.model.missed_fusions import missed
from npusim.model.results import How
from npusim.model.step import AI_CPU
from npusim.model.waits import Cause, waits_of
from npusim.values.display import latency, part_of
from npusim.values.language import say

if TYPE_CHECKING:
    from npusim.hardware import Profile
    from npusim.model.judging import Comparison, Launch

_FOR: Final = {
    Cause.HOST: "the host",
    Cause.COLLECTIVE: "collectives",
    Cause.STREAM: "other streams",
}
_TRANS_DATA: Final = ("TransData", "TransDataRNN")


class Oddity(Enum):
    """What is odd; the value is what JSON calls it."""

    AI_CPU = "ai_cpu"
    FUSION = "missing_fusion"
    CONVERSION = "conversion_there_and_back"
    ESTIMATE = "estimate_too_long"
    HOST_GAP = "host_gap"
    COLLECTIVE = "waits_for_a_collective"
    STREAM = "waits_for_another_stream"
    NOT_PRICED = "not_priced"


_WAITS: Final = {
    Cause.HOST: Oddity.HOST_GAP,
    Cause.COLLECTIVE: Oddity.COLLECTIVE,
    Cause.STREAM: Oddity.STREAM,
}


@dataclass(frozen=True)
class Finding:
    """What is odd about some kernels, whatever their time: `us` is the time that it is about.

    `saved_us` is what the remedy saves of their estimates, None where that isn't known.
    """

    kind: Oddity
    text: str
    launches: tuple[Launch, ...]
    us: float
    saved_us: float | None = None


def findings(comparison: Comparison) -> tuple[Finding, ...]:
    """What is odd whatever the times: the most time first."""
    every = (_on_ai_cpu, _fusions, _conversions, _waits, _estimates, _without_a_price)
    found = [each for kind in every for each in kind(comparison)]
    return tuple(sorted(found, key=lambda each: -each.us))


def _on_ai_cpu(comparison: Comparison) -> Iterator[Finding]:
    groups: dict[tuple[str, tuple[str, ...]], list[Launch]] = {}
    for each in comparison.launches:
        if each.timed.item.engine == AI_CPU:
            dtypes = tuple(dict.fromkeys(spec.dtype.name for spec in each.timed.item.inputs))
            groups.setdefault((each.timed.item.op, dtypes), []).append(each)
    for (op, dtypes), launches in groups.items():
        taken = _ai_core_dtypes(op, comparison.profile)
        of = say(" of {dtypes}").format(dtypes=", ".join(dtypes)) if dtypes else ""
        if not taken:
            remedy = say("{product_line} has no AI Core kernel for it").format(
                product_line=comparison.profile.product_line
            )
        elif others := [name for name in dtypes if name not in taken]:
            remedy = say("the AI Core's kernel takes {taken}, not {others}").format(
                taken=", ".join(taken), others=", ".join(others)
            )
        else:
            remedy = say(
                "its dtypes aren't why, the AI Core's kernel takes {value} "
                "too: look at its shapes and attributes, or at what the "
                "operator library was built with"
            ).format(value="them" if dtypes else "it")
        text = say("{op}{of} runs on the AI CPU; {remedy}").format(op=op, of=of, remedy=remedy)
        yield Finding(Oddity.AI_CPU, text, tuple(launches), _measured_us(launches))


def _ai_core_dtypes(op: str, profile: Profile) -> tuple[str, ...]:
    found = operators.on_ai_core(facts.catalogue(), op, profile.family)
    return tuple(sorted({name for each in found for name in each.dtypes}))


def _fusions(comparison: Comparison) -> Iterator[Finding]:
    """Tasks that the graph compiler, or a fused operator, would make one of; what that saves."""
    launches = comparison.launches
    timed = [each.timed for each in launches]
    groups: dict[tuple[str, str], list[Fused]] = {}
    for each in fused(comparison.step, timed, comparison.profile):
        groups.setdefault((each.name, each.by), []).append(each)
    priced = {place for found in groups.values() for each in found for place in each.places}
    for place, fusion in missed([each.item.op for each in timed]):
        places = tuple(range(place, place + len(fusion.tasks)))
        if priced.isdisjoint(places):
            chain = Fused(fusion.fused, fusion.call, False, places, None)
            groups.setdefault((fusion.fused, fusion.call), []).append(chain)
    for found in groups.values():
        rows = tuple(launches[place] for each in found for place in each.places)
        saved = [each.saved_us for each in found if each.saved_us is not None]
        saved_us = sum(saved) if saved else None
        first, *behind = [launches[place].timed.item.op for place in found[0].places]
        if found[0].is_compiled:
            text = say("{found} {behind} behind {first}: {by} fuses them").format(
                found=len(found), behind=" and ".join(behind), first=first, by=found[0].by
            )
        else:
            names = ", ".join((first, *behind))
            text = say("{names} in a row, {times}: {one_task}").format(
                names=names, times=_times(len(found)), one_task=_one_task(found[0])
            )
        yield Finding(Oddity.FUSION, text + _saves(saved_us), rows, _measured_us(rows), saved_us)


def _one_task(each: Fused) -> str:
    return say("{name} is one task ({by})").format(name=each.name, by=each.by)


def _times(number: int) -> str:
    return "once" if number == 1 else say("{number} times").format(number=number)


def _saves(us: float | None) -> str:
    if us is None:
        return ""
    if us <= 0:
        return say("; by our estimates that saves nothing")
    return say("; by our estimates that saves {us}").format(us=latency(us))


def _conversions(comparison: Comparison) -> Iterator[Finding]:
    """TransData of a tensor, and of its result back again."""
    made: dict[tuple[object, ...], Launch] = {}
    groups: dict[tuple[str, str], list[Launch]] = {}
    for each in comparison.launches:
        item = each.timed.item
        if item.op not in _TRANS_DATA or not item.inputs or not item.outputs:
            continue
        source, target = item.inputs[0], item.outputs[0]
        there = made.pop((source.shape, source.format, target.format), None)
        if there is None:
            made[target.shape, target.format, source.format] = each
        else:
            groups.setdefault((target.format.name, source.format.name), []).extend((there, each))
    for (before, between), launches in groups.items():
        text = say(
            "{launches} tensors go from {before} to {between} and back, "
            "the first in lines {line} and {next_line}: let the operators "
            "between them take {before}"
        ).format(
            launches=len(launches) // 2,
            before=before,
            between=between,
            line=launches[0].kernel.line,
            next_line=launches[1].kernel.line,
        )
        saved_us = sum(each.timed.timing.duration_us for each in launches)
        us = _measured_us(launches)
        text += say("; they take {us}, by our estimates {saved_us}").format(
            us=latency(us), saved_us=latency(saved_us)
        )
        yield Finding(Oddity.CONVERSION, text, tuple(launches), us, saved_us)


def _estimates(comparison: Comparison) -> Iterator[Finding]:
    """Kernels that took far less than npusim says: the fault of an estimate or an assumption."""
    groups: dict[str, list[Launch]] = {}
    for each in comparison.overestimated:
        groups.setdefault(each.timed.item.op, []).append(each)
    for op, launches in groups.items():
        measured_us = _measured_us(launches)
        estimated_us = sum(each.timed.timing.duration_us for each in launches)
        text = (
            f"npusim is too slow for {op}, {_times(len(launches))}: {latency(measured_us)} "
            f"measured, {latency(estimated_us)} estimated; it does less than its shapes say, or "
            "our estimate is wrong; not judged"
        )
        if assumption := launches[0].timed.item.operation.assumption:
            text += f" ({assumption})"
        yield Finding(Oddity.ESTIMATE, text, tuple(launches), measured_us)


def _waits(comparison: Comparison) -> Iterator[Finding]:
    """Where the main stream waited longer than a host takes to launch an operator, by its cause."""
    found = waits_of(comparison)
    for cause, kind in _WAITS.items():
        gaps = found.of(cause)
        if not gaps:
            continue
        first, us = gaps[0], found.us(cause)
        text = say(
            "the device waits {part_of} for {cause}, {times}; the longest, "
            "{parts_us}, is before line {line}"
        ).format(
            part_of=part_of(us, found.whole_us),
            cause=_FOR[cause],
            times=_times(len(gaps)),
            parts_us=latency(first.parts_us[cause]),
            line=first.before.kernel.line,
        )
        text += _advice(comparison, cause, first.running(cause))
        if cause is Cause.COLLECTIVE and len(by_name := found.by_operation()) > 1:
            sums = (f"{name} {latency(us)}" for name, us in by_name.items())
            text += say(". By operation: {sums}").format(sums=", ".join(sums))
        yield Finding(kind, text, tuple(each.before for each in gaps), us)


def _advice(comparison: Comparison, cause: Cause, running: Launch | None) -> str:
    """What runs meanwhile, and what to do or to ask."""
    if running is None:
        return say(": capture a graph, or keep the host from waiting for results")
    kernel = running.kernel
    name = kernel.name or kernel.op
    text = say(": {name} in line {line} takes {value}").format(
        name=name, line=kernel.line, value=latency(running.measured_us or 0.0)
    )
    if cause is Cause.STREAM:
        return say("{text} on stream {value}").format(text=text, value=kernel.stream or "?")
    more = expected(kernel, comparison.profile)
    return f"{text}; {more}" if more else text


def _without_a_price(comparison: Comparison) -> Iterator[Finding]:
    """Rows whose tensors no call has, or that leave out what decides their time."""
    groups: dict[tuple[str, str], list[Launch]] = {}
    for each in comparison.launches:
        if each.timed.item.work is not None and each.timed.timing.how is How.NOTHING:
            groups.setdefault((each.timed.item.op, each.timed.timing.note), []).append(each)
    for (op, why), launches in groups.items():
        more = (
            say(" and {launches} more").format(launches=len(launches) - 1)
            if len(launches) > 1
            else ""
        )
        text = say("{op} in line {line}{more}: {why}").format(
            op=op, line=launches[0].kernel.line, more=more, why=why
        )
        yield Finding(Oddity.NOT_PRICED, text, tuple(launches), _measured_us(launches))


def _measured_us(launches: Sequence[Launch]) -> float:
    return sum(each.measured_us or 0.0 for each in launches)
