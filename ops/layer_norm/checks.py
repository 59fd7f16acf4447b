"""Which axes make a row, and which lines belong to an image."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.operators.checks import invalid, sizes

if TYPE_CHECKING:
    from npusim.operators.contract import Call, Check, Finding


def image_lines(x: str, *lines: str) -> Check:
    """161002 for lines that aren't one for each image of x: its axes without the last but one."""

    def test(call: Call) -> Finding:
        whole = call.spec(x).shape
        wanted = ((*whole[:-2], whole[-1]), (*whole[:-2], 1, whole[-1]))
        for name, spec in call.given(*lines):
            if spec.shape not in wanted:
                return f"{name} {sizes(spec.shape)} should have sizes {sizes(wanted[0])}."
        return None

    return invalid(f"{', '.join(lines)} aren't one line for each image of {x}", test)


def ends_in(shape: str, x: str, *rows: str) -> Check:
    """161002 for a shape of rows that x doesn't end in, or that a gain or shift hasn't."""

    def test(call: Call) -> Finding:
        if not call.is_given(shape):
            return None
        wanted = call.ints(shape)
        for name, spec in call.given(x, *rows):
            end = spec.shape[max(0, spec.rank - len(wanted)) :]
            if not wanted or (end if name == x else spec.shape) != wanted:
                return f"{name} {sizes(spec.shape)} doesn't end in {shape} {sizes(wanted)}."
        return None

    return invalid(f"{x} doesn't end in {shape}", test)
