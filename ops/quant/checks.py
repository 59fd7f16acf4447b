"""How the operands of gated quantisation fit together."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from npusim.operators.checks import invalid, sizes

if TYPE_CHECKING:
    from npusim.operators.contract import Call, Check, Finding

_MODES = ("static", "dynamic")


def halves_fit(
    x: str, y: str, scale: str, halves: tuple[str, ...], wholes: tuple[str, ...], rows: str,
    *, groups: tuple[str, ...] = (),
) -> Check:  # fmt: skip
    """161002 for tensors that don't belong to the rows of x, or to their halves.

    ``halves`` have an element for each place in half a row, ``wholes`` for each in a row, and the
    tensor ``rows`` for each row; with ``groups`` all but the last have these for each group, and
    ``halves`` may have one number for each.
    """

    def test(call: Call) -> Finding:
        shape = call.spec(x).shape
        if len(shape) < 2 or shape[-1] % 2 or not shape[-1]:
            return f"{x} should have rows of even length, but has sizes {sizes(shape)}."
        outer, half = shape[:-1], shape[-1] // 2
        counts = dict.fromkeys(halves, half) | dict.fromkeys(wholes, 2 * half) | {rows: prod(outer)}
        many = next((spec.shape[0] for _, spec in call.given(*groups) if spec.rank), 0)
        for name, spec in call.given(*counts):
            each = counts[name] * (many if many and name != rows else 1)
            if spec.numel != each and not (many and name in halves and spec.numel == many):
                found = f"but has sizes {sizes(spec.shape)}"
                return f"{name} should have {each} elements, {found}."
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


def one_or_alike(scale: str, offset: str) -> Check:
    """161002 for scales and offsets of different counts, unless one of them is a single number."""

    def test(call: Call) -> Finding:
        given = list(call.given(scale, offset))
        counts = {spec.numel for _, spec in given} - {1}
        if len(counts) > 1 or any(spec.is_empty for _, spec in given):
            shapes = " and ".join(f"{name} {sizes(spec.shape)}" for name, spec in given)
            return f"{shapes} should have as many elements, or one."
        return None

    return invalid(f"{scale} and {offset} don't fit", test)


def line_or_one(line: str, *others: str) -> Check:
    """161002 for tensors that have neither as many elements as a line nor one."""

    def test(call: Call) -> Finding:
        count = call.spec(line).numel
        for name, spec in call.given(*others):
            if spec.numel not in (1, count):
                found = f"{name} {sizes(spec.shape)}"
                return f"{found} should have one element, or {count} as {line}."
        return None

    return invalid(f"{', '.join(others)} don't fit {line}", test)


def one_for_each(line: str, x: str, axis: str) -> Check:
    """161002 for a line that has neither an element for each place along an axis nor one."""

    def test(call: Call) -> Finding:
        whole, at = call.spec(x), call.arguments.get(axis)
        place = at if isinstance(at, int) else 0
        count = whole.shape[place % whole.rank] if whole.rank else 1
        for name, spec in call.given(line):
            if spec.numel not in (1, count) or not spec.numel:
                return f"{name} {sizes(spec.shape)} should have one element, or {count}."
        return None

    return invalid(f"{line} has no element for each place along {axis}", test)
