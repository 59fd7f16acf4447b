"""Which rows are normalised, and which lines belong to an image."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from npusim.operators.checks import invalid, sizes
from npusim.operators.shape_checks import entries

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


def row_of(shape: str, x: str, y: str, *lines: str) -> Check:
    """161002 for rows that x doesn't end with, gains and shifts of other sizes, another result.

    The row is what ``shape`` says, where it is told. Source: ops-nn norm/layer_norm_v4 (op_api).
    """

    def test(call: Call) -> Finding:
        whole, told = call.spec(x).shape, entries(call, shape)
        given = {name: spec.shape for name, spec in call.given(*lines)}
        row = told or next(iter(given.values()), None)
        if row is None:
            return f"{shape} should say which axes of {x} are normalised."
        if whole[len(whole) - len(row) :] != row or len(row) > len(whole):
            return f"{x} should end with {sizes(row)}, but has sizes {sizes(whole)}."
        for name, each in given.items():
            if each != row:
                return f"{name} should be {sizes(row)}, but has sizes {sizes(each)}."
        for name, spec in call.given(y):
            if spec.shape != whole:
                return f"{name} should be {sizes(whole)}, but has sizes {sizes(spec.shape)}."
        return None

    return invalid(f"{x} doesn't end with what is normalised, or {', '.join(lines)} don't", test)


def rows_of_shape(x: str, shape: str, *rows: str) -> Check:
    """161002 for means and spreads that aren't as many as rows of what is normalised."""

    def test(call: Call) -> Finding:
        whole, told = call.spec(x).shape, entries(call, shape) or ()
        count = prod(whole[: len(whole) - len(told)])
        for name, spec in call.given(*rows):
            if spec.numel != count:
                return f"{name} should have {count} elements, but has sizes {sizes(spec.shape)}."
        return None

    return invalid(f"{', '.join(rows)} aren't as many as rows of {x}", test)
