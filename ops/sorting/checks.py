"""How many numbers along an axis there can be, and what is left of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.operators.checks import each_tensor, invalid, sizes

if TYPE_CHECKING:
    from npusim.operators.contract import Call, Check, Finding
    from npusim.values.tensors import TensorSpec


def at_most_size(count: str, axis: str, of: str) -> Check:
    """161002 for more numbers than the axis has; ``axis`` has been checked."""

    def test(call: Call) -> Finding:
        there, wanted = _size(call, axis, of), call.arguments.get(count)
        if isinstance(wanted, int) and wanted > there:
            return f"{count} should be at most {there}, but is {wanted}."
        return None

    return invalid(f"{count} is more than {of} has along {axis}", test)


def parted(count: str, axis: str, of: str, *results: str) -> Check:
    """161002 for a result that hasn't ``count`` numbers along the axis, or another shape."""

    def objection(call: Call, name: str, spec: TensorSpec) -> Finding:
        shape, place = list(call.spec(of).shape), call.arguments.get(axis)
        if shape and isinstance(place, int):
            shape[place] = _count(call, count)
        if list(spec.shape) == shape:
            return None
        return f"{name} should be {sizes(shape)}, but has sizes {sizes(spec.shape)}."

    return each_tensor(f"{' or '.join(results)} hasn't {count} numbers", results, objection)


def _size(call: Call, axis: str, of: str) -> int:
    shape, place = call.spec(of).shape, call.arguments.get(axis)
    return shape[place] if shape and isinstance(place, int) else 1


def _count(call: Call, name: str) -> int:
    value = call.arguments.get(name)
    return value if isinstance(value, int) else 0
