"""A step timed on a chip: operator by operator, then summed up with its band.

The band of a sum: operators of one class share what is wrong about their class, so within a class
the deviations add up; between classes they are taken as independent, so there their squares add
up.  What rests on the profile alone shares the profile's errors and counts as one class, and so
does what isn't simulated.  Where that is all there is, and rates of whole networks on the chip are
published, the band of a whole network is what these left over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import hypot
from typing import TYPE_CHECKING, Final

from npusim.hardware import Profile, load_profile
from npusim.hardware.residuals import networks
from npusim.model.cache_state import MODES, ORDER, Follower, readers_of
from npusim.model.feasibility import judge, together
from npusim.model.operator_class import kind_of
from npusim.model.results import (
    ClassTime,
    DtypeVerdict,
    Evidence,
    How,
    Memory,
    OperatorTime,
    StepResult,
    TimedItem,
)
from npusim.model.timing import Timer
from npusim.values.errors import UnknownNameError
from npusim.values.language import say

if TYPE_CHECKING:
    from npusim.engine import Memo
    from npusim.model.step import Step

BAND_BASIS: Final = (
    "80 %: deviations add up within an operator class (and over all that isn't simulated, or rests "
    "on the profile alone); their squares add up between classes"
)
NETWORKS_BASIS: Final = "80 %: what published rates of {networks} networks left over on {chip}"
CALIBRATED: Final = (Evidence.CHIP, Evidence.SISTER)
"""Evidence that makes a simulated operator a calibrated one."""

_SAY_EVERY: Final = 25
_WHOLE: Final = 10
"""Launches from which on a step counts as a whole network: the smallest published one has 12."""


def retime(
    step: Step,
    profile: Profile | str,
    *,
    l2: str = ORDER,
    measured_on: Profile | str | None = None,
    host_dispatch_us: float | None = None,
    progress: Callable[[int, int], None] | None = None,
    memo: Memo | None = None,
    timer: Timer | None = None,
) -> StepResult:
    """The step on one chip.

    `measured_on` is the chip that the file's times come from.  `host_dispatch_us` is what the host
    needs to launch one operator: None takes the model's own, or 0 (a graph, or a queue that never
    runs dry).  `progress` hears how many of how many operators are timed.  `memo` keeps what has
    been played, for steps that are timed one after the other; a `timer` of the chip keeps what has
    been timed, for many steps of one model.
    """
    chip = load_profile(profile) if isinstance(profile, str) else profile
    origin = load_profile(measured_on) if isinstance(measured_on, str) else measured_on
    if l2 not in MODES:
        raise UnknownNameError("state of L2", l2, MODES)
    dispatch_us = host_dispatch_us if host_dispatch_us is not None else step.host_dispatch_us or 0.0
    verdicts = judge(step, chip)
    timer = timer or Timer(chip, l2, origin, memo, one_shape=step.one_shape)
    items = _timed(step, timer, verdicts, l2 == ORDER, progress)
    return _summed(step, chip, l2, origin, dispatch_us, items, verdicts)


def _summed(
    step: Step,
    chip: Profile,
    l2: str,
    origin: Profile | None,
    dispatch_us: float,
    items: list[TimedItem],
    verdicts: dict[str, DtypeVerdict],
) -> StepResult:
    """The result of a step whose operators are timed: their sum, and what it is made of."""
    device_us = sum(each.total_us for each in items)
    low_us, high_us, basis = _band(items, device_us, chip)
    duration_us = with_dispatch(items, dispatch_us) + step.call_us
    idle_us = duration_us - device_us
    return StepResult(
        step=step,
        soc=chip.name,
        product_line=chip.product_line,
        l2=l2,
        measured_on="" if origin is None else origin.name,
        duration_us=duration_us,
        # What the device waits for the host isn't part of the estimate's uncertainty.
        band_us=(low_us + idle_us, high_us + idle_us),
        band_basis=basis,
        device_us=device_us,
        host_dispatch_us=dispatch_us,
        profile_dispatch_us=chip.launch.host_dispatch_us,
        eager_us=with_dispatch(items, chip.launch.host_dispatch_us) + step.call_us,
        items=tuple(items),
        classes=_classes(items, device_us),
        operators=_operators(items),
        bounds=_bounds(items, device_us),
        calibrated_share=_share(items, device_us, CALIBRATED),
        simulated_share=_share(items, device_us, tuple(set(Evidence) - {Evidence.NONE})),
        verdicts=together(verdicts),
        memory=_memory(step, items, chip),
        assumptions=tuple(
            dict.fromkeys((*step.assumptions, *(line for each in items for line in _assumed(each))))
        ),
        profile=chip,
    )


def _assumed(each: TimedItem) -> Iterator[str]:
    if each.item.operation.assumption:
        yield each.item.operation.assumption
    yield from each.timing.assumptions


def _band(items: Sequence[TimedItem], device_us: float, chip: Profile) -> tuple[float, float, str]:
    """The 80 % band of a step's device time, and what it rests on."""
    known = networks()
    spread, launches = known.chips.get(chip.name), sum(each.item.count for each in items)
    alone = all(each.timing.evidence is Evidence.PROFILE for each in items)
    if spread is None or not alone or launches < _WHOLE:
        return *band_of_sum(items), BAND_BASIS
    low, high = spread.at(device_us / launches, known.sizes_us)
    basis = NETWORKS_BASIS.format(networks=spread.cases or spread.rows, chip=chip.name)
    return device_us * low, device_us * high, basis


def band_of_sum(items: Iterable[TimedItem]) -> tuple[float, float]:
    """The 80 % band of the device time of several operators, in microseconds."""
    total_us = 0.0
    below: dict[str, float] = {}
    above: dict[str, float] = {}
    for each in items:
        timing, count = each.timing, each.item.count
        group = _group(each)
        total_us += each.total_us
        below[group] = below.get(group, 0.0) + count * (timing.duration_us - timing.band_us[0])
        above[group] = above.get(group, 0.0) + count * (timing.band_us[1] - timing.duration_us)
    return total_us - hypot(*below.values()), total_us + hypot(*above.values())


def with_dispatch(items: Iterable[TimedItem], dispatch_us: float) -> float:
    """The step's latency when the host launches one operator after the other.

    The host needs `dispatch_us` for each and runs ahead as far as it can; an operator starts when
    it has been launched and the one before it is done.
    """
    host_us = device_us = 0.0
    for each in items:
        count, each_us = each.item.count, each.timing.duration_us
        # The end is linear in the repetition that the host holds up last: the first or the last
        # one, if it holds up any.
        device_us = max(
            device_us + count * each_us,
            host_us + dispatch_us + count * each_us,
            host_us + count * dispatch_us + each_us,
        )
        host_us += count * dispatch_us
    return device_us


def _timed(
    step: Step,
    timer: Timer,
    verdicts: dict[str, DtypeVerdict],
    follow: bool,
    progress: Callable[[int, int], None] | None,
) -> list[TimedItem]:
    follower = Follower(timer.profile, planned_readers(step)) if follow else None
    times: Counter[str] = Counter()
    for item in step.items:
        times[item.operation.signature] += item.count
    found: list[TimedItem] = []
    for number, item in enumerate(step.items, 1):
        operation = item.operation
        residency = follower.pass_through(operation) if follower else ()
        write_back = follower.write_back if follower else None
        verdict, count = verdicts.get(operation.signature), times[operation.signature]
        timing = timer.time(item, residency, verdict, write_back, count)
        found.append(TimedItem(item, timing, kind_of(operation.op, operation.engine)))
        if progress and (number % _SAY_EVERY == 0 or number == len(step.items)):
            progress(number, len(step.items))
    return found


def planned_readers(step: Step) -> Mapping[int, int] | None:
    """How many operators read each tensor of a step whose memory is planned, None of others."""
    planned = step.kind == "graph" or step.one_shape
    if not planned or any(item.count > 1 for item in step.items):
        return None
    return readers_of(item.operation for item in step.items)


def _group(each: TimedItem) -> str:
    evidence = each.timing.evidence
    return each.kind if evidence in CALIBRATED else evidence.name


def _classes(items: Sequence[TimedItem], device_us: float) -> tuple[ClassTime, ...]:
    found = []
    for kind, members in _together(items, lambda each: each.kind):
        total_us = sum(each.total_us for each in members)
        found.append(
            ClassTime(
                kind,
                sum(each.item.count for each in members),
                total_us,
                band_of_sum(members),
                _measured_us(members),
                _ratio(total_us, device_us),
                _share(members, total_us, CALIBRATED),
                tuple(how for how in How if any(each.timing.how is how for each in members)),
            )
        )
    return tuple(sorted(found, key=lambda each: (-each.duration_us, each.kind)))


def _operators(items: Sequence[TimedItem]) -> tuple[OperatorTime, ...]:
    """One entry for each operator with its tensors, the most time-consuming first."""
    found = []
    for _, members in _together(items, lambda each: each.item.operation.signature):
        longest = max(members, key=lambda each: each.timing.duration_us)
        found.append(
            OperatorTime(
                longest.item.op,
                longest.item.operation.tensors,
                longest.kind,
                sum(each.item.count for each in members),
                sum(each.total_us for each in members),
                longest.timing,
                _measured_us(members),
            )
        )
    return tuple(sorted(found, key=lambda each: (-each.total_us, each.op, each.tensors)))


def _together(
    items: Iterable[TimedItem], key: Callable[[TimedItem], str]
) -> Iterable[tuple[str, list[TimedItem]]]:
    """The items with the same key, in the order in which keys come up."""
    groups: dict[str, list[TimedItem]] = {}
    for each in items:
        groups.setdefault(key(each), []).append(each)
    return groups.items()


def _measured_us(items: Iterable[TimedItem]) -> float | None:
    """The measured time of all items; None where one of them has none."""
    times = [each.measured_us for each in items]
    return None if None in times else sum(time or 0.0 for time in times)


def _bounds(items: Sequence[TimedItem], device_us: float) -> tuple[tuple[str, float], ...]:
    """What limits the operators, with the share of time for which it does."""
    found: dict[str, float] = {}
    for each in items:
        found[each.timing.bound] = found.get(each.timing.bound, 0.0) + each.total_us
    ranked = sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))
    return tuple((bound, _ratio(time_us, device_us)) for bound, time_us in ranked)


def _share(items: Iterable[TimedItem], total_us: float, evidence: Sequence[Evidence]) -> float:
    mine = sum(each.total_us for each in items if each.timing.evidence in evidence)
    return _ratio(mine, total_us)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _memory(step: Step, items: Sequence[TimedItem], chip: Profile) -> Memory:
    working = max(
        (each.item.operation.bytes_beside_weights + each.timing.workspace_bytes for each in items),
        default=0,
    )
    stated = step.weights_bytes
    marked = sum(each.item.count * each.item.operation.weights_bytes for each in items)
    weights = stated if stated is not None else marked or None
    activations = step.activation_bytes
    basis = [
        say("weights as the file states them")
        if stated is not None
        else say("weights: the tensors that the file marks as such, for every repetition")
        if weights
        else say("the file doesn't tell which tensors are weights"),
        say("activations as the file states them")
        if activations is not None
        else say(
            "activations: the largest operator's tensors and workspace, the least that is needed"
        ),
    ]
    return Memory(
        weights,
        activations if activations is not None else working,
        working,
        "; ".join(basis),
        chip.memory.capacity_bytes,
    )
