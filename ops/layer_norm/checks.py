"""Which lines belong to an image: those that stretch and move its rows."""

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
