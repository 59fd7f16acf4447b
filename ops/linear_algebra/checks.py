"""What matrices have to fulfil."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from npusim.operators.checks import each_tensor, invalid, sizes

if TYPE_CHECKING:
    from npusim.operators.contract import Call, Check, Finding
    from npusim.values.tensors import TensorSpec


def square(*names: str) -> Check:
    """161002 for matrices with another number of rows than of columns."""

    def objection(_: Call, name: str, spec: TensorSpec) -> Finding:
        if spec.rank < 2 or spec.shape[-1] == spec.shape[-2]:
            return None
        return f"{name} should be square matrices, but has sizes {sizes(spec.shape)}."

    return each_tensor(f"{', '.join(names)} aren't square", names, objection)


def systems(right: str, matrix: str, *results: str) -> Check:
    """161002 for right-hand sides that don't belong to the matrices, or results of other shapes."""

    def test(call: Call) -> Finding:
        b, a = call.spec(right).shape, call.spec(matrix).shape
        if b[-2] != a[-1]:
            return f"{right} {sizes(b)} should have as many rows as {matrix} {sizes(a)}."
        try:
            batch = np.broadcast_shapes(b[:-2], a[:-2])
        except ValueError:
            return f"{right} {sizes(b)} and {matrix} {sizes(a)} can't be broadcast together."
        for (name, spec), shape in zip(call.given(*results), (b, a), strict=False):
            if spec.shape != (*batch, *shape[-2:]):
                wanted = sizes((*batch, *shape[-2:]))
                return f"{name} should be {wanted}, but has sizes {sizes(spec.shape)}."
        return None

    return invalid(f"{right} and {matrix} aren't systems of equations", test)
