"""Shapes of counts and places, and which numbers are looked up in which row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npusim.operators.checks import invalid, sizes
from npusim.operators.results import described
from npusim.values.dtypes import INT32, INT64

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from npusim.operators.contract import Call, Check, Finding
    from npusim.values.tensors import TensorSpec


def places(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec]:
    """A place for every value."""
    return [described(given[1].shape, INT32 if attributes.get("out_int32") else INT64)]


def rows_alike(sequence: str, values: str) -> Check:
    """161002 for values with other axes in front than the rows they are looked up in."""

    def test(call: Call) -> Finding:
        specs = dict(call.given(sequence, values))
        if len(specs) < 2 or specs[sequence].rank == 1:
            return None
        rows, asked = specs[sequence].shape, specs[values].shape
        if rows[:-1] == asked[:-1] and rows:
            return None
        return f"{values} {sizes(asked)} should have the axes of {sequence} {sizes(rows)} in front."

    return invalid(f"{values} has other rows than {sequence}", test)
