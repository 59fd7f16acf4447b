"""Operators that aren't simulated: their measured time carried over, or a roofline.

A measured time is scaled by the ratio of the two chips' rooflines of the operator: what the
roofline doesn't know of a kernel is then the same on both.  Communication and the AI CPU are no
matter of AI Core and memory, so their measured times are kept as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from npusim.hardware import relative_uncertainty
from npusim.hardware.residuals import calibration, rooflines
from npusim.model.results import How, Timing
from npusim.model.step import AclnnWork
from npusim.operators.tasks import TaskSpec
from npusim.validation.roofline import roofline_us
from npusim.validation.work import family_of
from npusim.values.language import say
from npusim.values.tensors import TensorSpec

if TYPE_CHECKING:
    from npusim.hardware import Profile
    from npusim.model.step import Item


NOT_PRICED: Final = "not priced"
"""How the note of an item ends that has no price."""


class Unsaid(str):
    """Why an item has no price: its record leaves out what decides the time."""

    __slots__ = ()


def carried_over(item: Item, profile: Profile, measured_on: Profile | None, reason: str) -> Timing:
    """The timing of an item that can't be simulated; `reason` says why it can't."""
    spec = _spec(item)
    if isinstance(reason, Unsaid):
        return _without_price(item, profile, measured_on, reason)
    if item.measured_us is not None:
        return _from_measured(item, item.measured_us, spec, profile, measured_on, reason)
    if spec is None:
        note = say("{reason}; the file has neither tensors nor a time").format(reason=reason)
        return Timing(0.0, (0.0, 0.0), "unknown", How.NOTHING, note=note)
    return _roofline(spec, profile, reason)


def _without_price(
    item: Item, profile: Profile, measured_on: Profile | None, reason: str
) -> Timing:
    """As measured: a roofline would take one window, or one axis, for another."""
    note = f"{reason}; {NOT_PRICED}"
    if item.measured_us is None:
        return Timing(0.0, (0.0, 0.0), "unknown", How.NOTHING, note=note)
    if measured_on is not None and measured_on.name == profile.name:
        return _timing(item.measured_us, 1, "measured", How.MEASURED, note)
    return _timing(
        item.measured_us,
        2,
        "assumed",
        How.UNSCALED,
        say("{note}, kept as measured").format(note=note),
    )


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
        note = say("{reason}; say which chip the file was measured on to scale its time").format(
            reason=reason
        )
        return _roofline(spec, profile, note)
    ratio = roofline_us(profile, spec) / roofline_us(measured_on, spec)
    return _timing(measured_us * ratio, 1, "assumed", How.SCALED, reason)


def _roofline(spec: TaskSpec, profile: Profile, note: str) -> Timing:
    """A roofline of the true work, raised as far as measured kernels of its family were above it.

    The band is theirs too, wider on a microarchitecture on which nothing was measured.
    """
    spread = rooflines().of(family_of(spec.op_type))
    known = calibration()
    measured = profile.architecture in known.architectures
    time_us = roofline_us(profile, spec) * spread.median
    widening = 1.0 if measured else known.unmeasured_widening
    low, high = ((end / spread.median) ** widening for end in (spread.low, spread.high))
    band_us = (time_us * min(low, 1.0), time_us * max(high, 1.0))
    return Timing(time_us, band_us, "not simulated", How.ROOFLINE, note=note)


def _timing(time_us: float, times: int, confidence: str, how: How, note: str) -> Timing:
    factor = 1 + times * relative_uncertainty(confidence)
    return Timing(time_us, (time_us / factor, time_us * factor), "not simulated", how, note=note)


def _spec(item: Item) -> TaskSpec | None:
    """The work as a recorded task, as far as its tensors are known."""
    if not isinstance(item.work, AclnnWork):
        return item.work
    if not item.inputs:
        return None
    words = {name: value for name, value in item.work.arguments.items()
             if not isinstance(value, TensorSpec)}  # fmt: skip
    return TaskSpec(item.op.removeprefix("aclnn"), item.inputs, item.outputs, words)
