"""What matrices have to fulfil."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.operators.checks import each_tensor, sizes

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
