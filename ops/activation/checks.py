"""What gated activations have to be given."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from npusim.operators.checks import invalid, sizes
from npusim.operators.shape_checks import entries

_LINE = 64  # bytes

if TYPE_CHECKING:
    from npusim.operators.contract import Call, Check, Finding


def halved(attribute: str, of: str) -> Check:
    """161002 for an axis of an odd size, which has no halves."""

    def test(call: Call) -> Finding:
        for name, spec in call.given(of):
            for axis in entries(call, attribute) or ():
                if spec.rank and spec.shape[axis] % 2:
                    return f"Axis {axis} of {name} {sizes(spec.shape)} should have an even size."
        return None

    return invalid(f"axis {attribute} of {of} has an odd size", test)


def half_of(half: str, attribute: str, of: str) -> Check:
    """161002 for a tensor that isn't as large as half of another along an axis."""

    def test(call: Call) -> Finding:
        for _, spec in call.given(of):
            shape = list(spec.shape)
            if not shape:
                return f"{of} should have an axis to be halved, but has none."
            for axis in entries(call, attribute) or ():
                shape[axis] //= 2
            for name, found in call.given(half):
                if list(found.shape) != shape:
                    return f"{name} should have sizes {sizes(shape)}, but has {sizes(found.shape)}."
        return None

    return invalid(f"{half} isn't half of {of}", test)


def halves_fill(x: str, attribute: str) -> Check:
    """161002 for halves, from the split axis on, that don't fill whole lines of the cache.

    Source: hicann/ops-nn activation/swi_glu/op_host, tiling of Atlas inference products.
    """

    def test(call: Call) -> Finding:
        spec = call.spec(x)
        for axis in entries(call, attribute) or (-1,):
            half = prod(spec.shape[axis % spec.rank :]) // 2 if spec.rank else 0
            if half * spec.dtype.itemsize % _LINE or spec.is_empty:
                return f"Halves of {x} {sizes(spec.shape)} should fill whole {_LINE} bytes."
        return None

    return invalid(f"halves of {x} don't fill {_LINE} bytes", test)
