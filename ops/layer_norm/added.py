"""Norms of sums: AddLayerNorm and DeepNorm; source: ops-nn norm, documents of the interfaces."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from npusim.ops.layer_norm.kernel import normalised, scaled
from npusim.schedules.rows.formula import Form, RowFormula
from npusim.schedules.rows.kernel import RowOperator, kernel_of

if TYPE_CHECKING:
    from npusim.schedules.formula import Term
    from npusim.schedules.rows.program import Results

_T, _C, _L = Form.TILE, Form.COLUMN, Form.LINE


def _add_layer_norm(
    f: RowFormula, x: Term, other: Term, gamma: Term, beta: Term, bias: Term | None, epsilon: float
) -> Results:
    total = f.add(x, other)
    total = total if bias is None else f.add(total, bias)
    mean, _, rstd, y = normalised(f, total, epsilon)
    return scaled(f, y, gamma, beta), mean, rstd, total


def _deep_norm(
    f: RowFormula, x: Term, other: Term, beta: Term, gamma: Term, alpha: float, epsilon: float
) -> Results:
    mean, _, rstd, y = normalised(f, f.add(f.mul(x, alpha), other), epsilon)
    return mean, rstd, scaled(f, y, gamma, beta)


_by_hand = partial(RowOperator, generated=False, depth=1, most_columns=1)
AddLayerNorm = kernel_of(
    _by_hand(
        "AddLayerNorm",
        _add_layer_norm,
        (_T, _T, _L, _L, _L),
        (_T, _C, _C, _T),
        wide=(1, 2),
        attributes={"epsilon": 1e-5},
    )
)
DeepNorm = kernel_of(
    _by_hand(
        "DeepNorm",
        _deep_norm,
        (_T, _T, _L, _L),
        (_C, _C, _T),
        wide=(0, 1),
        attributes={"alpha": 0.3, "epsilon": 1e-6},
    )
)
