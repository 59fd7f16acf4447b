"""How the operands of gated quantisation fit together."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from npusim.operators.checks import invalid, sizes

if TYPE_CHECKING:
    from npusim.operators.contract import Call, Check, Finding

_MODES = ("static", "dynamic")


def halves_fit(
    x: str, y: str, scale: str, halves: tuple[str, ...], wholes: tuple[str, ...], rows: str
) -> Check:
    """161002 for tensors that don't belong to the rows of x, or to their halves.

    ``halves`` have an element for each place in half a row, ``wholes`` for each in a row, and the
    tensor ``rows`` for each row.
    """

    def test(call: Call) -> Finding:
        shape = call.spec(x).shape
        if len(shape) < 2 or shape[-1] % 2 or not shape[-1]:
            return f"{x} should have rows of even length, but has sizes {sizes(shape)}."
        outer, half = shape[:-1], shape[-1] // 2
        counts = dict.fromkeys(halves, half) | dict.fromkeys(wholes, 2 * half) | {rows: prod(outer)}
        for name, spec in call.given(*counts):
            if spec.numel != counts[name]:
                found = f"but has sizes {sizes(spec.shape)}"
                return f"{name} should have {counts[name]} elements, {found}."
        for name, wanted in ((y, (*outer, half)), (scale, outer)):
            for _, spec in call.given(name):
                if spec.shape != wanted:
                    found = f"but has sizes {sizes(spec.shape)}"
                    return f"{name} should have sizes {sizes(wanted)}, {found}."
        return None

    return invalid(f"{y} and {scale} aren't those of halves of {x}", test)


def mode_known(attribute: str) -> Check:
    """161002 for a way of quantising that there isn't."""

    def test(call: Call) -> Finding:
        mode = call.arguments.get(attribute)
        if mode is None or mode in _MODES:
            return None
        return f"{attribute} should be {' or '.join(_MODES)}, but is {mode}."

    return invalid(f"{attribute} is neither {' nor '.join(_MODES)}", test)
