"""Operators that aren't simulated: their measured time carried over, or a roofline.

A measured time is scaled by the ratio of the two chips' rooflines of the operator: what the
roofline doesn't know of a kernel is then the same on both.  Communication and the AI CPU are no
matter of AI Core and memory, so their measured times are kept as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.hardware import relative_uncertainty
from npusim.hardware.residuals import rooflines
from npusim.model.operator_class import kind_of
from npusim.model.results import How, Timing
from npusim.operators.tasks import TaskSpec
from npusim.validation.roofline import roofline_us

if TYPE_CHECKING:
    from npusim.hardware import Profile
    from npusim.model.step import Item


def carried_over(item: Item, profile: Profile, measured_on: Profile | None, reason: str) -> Timing:
    """The timing of an item that can't be simulated; `reason` says why it can't."""
    spec = _spec(item)
    if item.measured_us is not None:
        return _from_measured(item, item.measured_us, spec, profile, measured_on, reason)
    if spec is None:
        note = f"{reason}; the file has neither tensors nor a time"
        return Timing(0.0, (0.0, 0.0), "unknown", How.NOTHING, note=note)
    return _roofline(item, spec, profile, reason)


def _from_measured(
    item: Item,
    measured_us: float,
    spec: TaskSpec | None,
    profile: Profile,
    measured_on: Profile | None,
    reason: str,
) -> Timing:
    if measured_on is not None and measured_on.name == profile.name:
        return _timing(measured_us, 1, "measured", How.MEASURED, reason)
    if item.engine or spec is None:
        return _timing(measured_us, 2, "assumed", How.UNSCALED, reason)
    if measured_on is None:
        note = f"{reason}; say which chip the file was measured on to scale its time"
        return _roofline(item, spec, profile, note)
    ratio = roofline_us(profile, spec) / roofline_us(measured_on, spec)
    return _timing(measured_us * ratio, 1, "assumed", How.SCALED, reason)


def _roofline(item: Item, spec: TaskSpec, profile: Profile, note: str) -> Timing:
    """A roofline is nearly a lower bound: the band tells how far above it measured kernels were."""
    known = rooflines()
    spread = known.classes.get(kind_of(item.op, item.engine), known.everything)
    time_us = roofline_us(profile, spec)
    band_us = (time_us * min(spread.low, 1.0), time_us * max(spread.high, 1.0))
    return Timing(time_us, band_us, "not simulated", How.ROOFLINE, note=note)


def _timing(time_us: float, times: int, confidence: str, how: How, note: str) -> Timing:
    factor = 1 + times * relative_uncertainty(confidence)
    return Timing(time_us, (time_us / factor, time_us * factor), "not simulated", how, note=note)


def _spec(item: Item) -> TaskSpec | None:
    if isinstance(item.work, TaskSpec):
        return item.work
    if item.work is None or item.work.contract is None:
        return None  # of an operator without a kernel nobody knows which tensors it writes
    return TaskSpec(item.op.removeprefix("aclnn"), item.inputs, item.outputs)
