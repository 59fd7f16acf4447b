"""What the numbers of a call may be: limits in their order, counts of elements, exponents."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from npusim.operators.checks import each_tensor, invalid, sizes
from npusim.operators.dtype_checks import joint
from npusim.operators.shape_checks import entries

if TYPE_CHECKING:
    from npusim.operators.contract import Call, Check, Finding
    from npusim.values.tensors import TensorSpec


def _real(call: Call, name: str) -> float | None:
    value = call.arguments.get(name)
    return value if isinstance(value, int | float) else None


def in_order(low: str, high: str) -> Check:
    """161002 for a lower limit above the upper one."""

    def test(call: Call) -> Finding:
        first, last = _real(call, low), _real(call, high)
        if first is None or last is None or not first > last:
            return None
        return f"{low} should be no greater than {high}, but {low} is {first} and {high} is {last}."

    return invalid(f"{low} is greater than {high}", test)


def between(name: str, least: float, most: float) -> Check:
    """161002 for a number outside of two limits, or NaN."""

    def test(call: Call) -> Finding:
        value = _real(call, name)
        if value is None or least <= value <= most:
            return None
        return f"The value of {name} has to be between {least} and {most}, but current is {value}."

    return invalid(f"{name} isn't between {least} and {most}", test)


def zero_or_from(name: str, least: float) -> Check:
    """161002 for a number below a limit other than 0, which stands for none."""

    def test(call: Call) -> Finding:
        value = _real(call, name)
        if not value or not value < least:
            return None
        return f"The value of {name} has to be 0 or at least {least}, but current is {value}."

    return invalid(f"{name} is below {least}", test)


def steps_lead(start: str, end: str, step: str) -> Check:
    """161002 for steps of zero, or away from the end."""

    def test(call: Call) -> Finding:
        first, last, by = (_real(call, name) for name in (start, end, step))
        if first is None or last is None or by is None:
            return None
        if not by:
            return f"{step} must be nonzero."
        if (last - first) * by < 0:
            return f"Steps of {by} don't lead from {start} {first} to {end} {last}."
        return None

    return invalid(f"{step} doesn't lead from {start} to {end}", test)


def not_zero(name: str) -> Check:
    """161002 for a number that is zero or none at all."""

    def test(call: Call) -> Finding:
        value = _real(call, name)
        return None if value is None or value < 0 or value > 0 else f"{name} cannot be {value:g}."

    return invalid(f"{name} is zero", test)


def elements(attribute: str, *names: str) -> Check:
    """161002 for a tensor that hasn't as many elements as a number says."""

    def objection(call: Call, name: str, spec: TensorSpec) -> Finding:
        wanted = call.arguments.get(attribute)
        if not isinstance(wanted, int) or spec.numel == wanted:
            return None
        return f"{name} should have {wanted} elements, but has sizes {sizes(spec.shape)}."

    return each_tensor(f"{', '.join(names)} hasn't {attribute} elements", names, objection)


def axes_at_most(of: str, most: int) -> Check:
    """161002 for a tensor with an axis of more elements."""

    def objection(_: Call, name: str, spec: TensorSpec) -> Finding:
        if max(spec.shape, default=0) <= most:
            return None
        return f"No axis of {name} {sizes(spec.shape)} should have more than {most} elements."

    return each_tensor(f"{of} has an axis of more than {most}", (of,), objection)


def multiplied(size: str, times: str, of: str, axis: str = "") -> Check:
    """161002 for a size that isn't that of an axis, or of all elements, so many times."""

    def test(call: Call) -> Finding:
        told, factor = _real(call, size), _real(call, times)
        length = _length(call.spec(of), call, axis)
        if told is None or factor is None or told == length * factor:
            return None
        return f"{size} should be {length} * {factor}, but is {told}."

    return invalid(f"{size} isn't {times} times the size of {of}", test)


def resized(out: str, of: str, size: str, axis: str = "") -> Check:
    """161002 for a result that isn't as a tensor, with another size along an axis.

    Without an axis it is a row.
    """

    def objection(call: Call, name: str, spec: TensorSpec) -> Finding:
        wanted, told = list(call.spec(of).shape) if axis else [0], call.arguments.get(size)
        if not isinstance(told, int) or not wanted:
            return None
        wanted[(entries(call, axis) or (0,))[0] if axis else 0] = told
        if list(spec.shape) == wanted:
            return None
        return f"The shape of {name} should be {sizes(wanted)}, but got {sizes(spec.shape)}."

    return each_tensor(f"{out} isn't {of} with {size}", (out,), objection)


def _length(spec: TensorSpec, call: Call, axis: str) -> int:
    place = (entries(call, axis) or (0,))[0] if axis else None
    return spec.numel if place is None else spec.shape[place] if spec.rank else 1


def whole_power(exponent: str, *bases: str) -> Check:
    """161002 for powers of whole numbers to one that is negative, or that their dtype hasn't."""

    def test(call: Call) -> Finding:
        value = call.arguments.get(exponent)
        kind = joint(call, bases, (exponent,))
        if kind is None or kind.category not in ("int", "uint") or not isinstance(value, int):
            return None
        most = 2 ** (kind.bits - (kind.category == "int")) - 1
        if 0 <= value <= most:
            return None
        return f"{exponent} of powers in {kind.dt} should be from 0 to {most}, but is {value}."

    return invalid(f"{exponent} is negative, or more than whole numbers hold", test)


def aligned_bits(shape: str, *masks: str, bits: int) -> Check:
    """161002 for a mask without a bit for each element, filled up to a multiple of ``bits``."""

    def objection(call: Call, name: str, spec: TensorSpec) -> Finding:
        wanted = -(-math.prod(entries(call, shape) or ()) // bits) * bits // 8
        if spec.numel == wanted:
            return None
        return f"Size of {name} has to be {wanted}, but current is {spec.numel}."

    return each_tensor(f"{', '.join(masks)} hasn't a bit for each element", masks, objection)
