"""RmsNorm and AddRmsNorm: rows divided by the root of their mean square.

Rows of up to 2000 elements are worked on many at a time, longer ones one by one, those that don't
fit into UB in two passes. Source: ops-nn norm/rms_norm, host tiling and device schedule.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from npusim.schedules.rows.formula import Form, RowFormula
from npusim.schedules.rows.kernel import RowOperator, kernel_of

if TYPE_CHECKING:
    from npusim.schedules.formula import Term
    from npusim.schedules.rows.program import Results

_T, _C, _L = Form.TILE, Form.COLUMN, Form.LINE
_MOST_COLUMNS = 2000  # of rows that are worked on together


def _normalised(f: RowFormula, x: Term, gamma: Term, epsilon: float) -> tuple[Term, Term]:
    mean_square = f.mean(f.mul(x, x))
    rstd = f.rsqrt(f.add(mean_square, epsilon))
    return f.mul(f.mul(x, rstd), gamma), rstd


def _rms_norm(f: RowFormula, x: Term, gamma: Term, epsilon: float) -> Results:
    return _normalised(f, x, gamma, epsilon)


def _add_rms_norm(f: RowFormula, x: Term, other: Term, gamma: Term, epsilon: float) -> Results:
    return _add_rms_norm_bias(f, x, other, gamma, None, epsilon)


def _add_rms_norm_bias(
    f: RowFormula, x: Term, other: Term, gamma: Term, beta: Term | None, epsilon: float
) -> Results:
    total = f.add(x, other)
    y, rstd = _normalised(f, total, gamma, epsilon)
    return y if beta is None else f.add(y, beta), rstd, total


def _add_rms_norm_cast(f: RowFormula, x: Term, other: Term, gamma: Term, epsilon: float) -> Results:
    y, rstd, total = _add_rms_norm(f, x, other, gamma, epsilon)
    return y, y, rstd, total


def _gemma_rms_norm(f: RowFormula, x: Term, gamma: Term, epsilon: float) -> Results:
    """As RmsNorm, the gain counted from one."""
    return _rms_norm(f, x, f.add(gamma, 1.0), epsilon)


_norm = partial(
    RowOperator,
    wide=(1,),
    attributes={"epsilon": 1e-6},
    most_columns=_MOST_COLUMNS,
    generated=False,
    depth=1,
)
RmsNorm = kernel_of(_norm("RmsNorm", _rms_norm, operands=(_T, _L), results=(_T, _C)))
AddRmsNorm = kernel_of(
    _norm("AddRmsNorm", _add_rms_norm, operands=(_T, _T, _L), results=(_T, _C, _T), alone=True)
)
# As AddRmsNorm: vllm-ascend csrc/moe/add_rms_norm_bias, host tiling and device schedule.
AddRmsNormBias = kernel_of(
    _norm(
        "AddRmsNormBias",
        _add_rms_norm_bias,
        operands=(_T, _T, _L, _L),
        results=(_T, _C, _T),
        alone=True,
    )
)
GemmaRmsNorm = kernel_of(
    _norm("GemmaRmsNorm", _gemma_rms_norm, operands=(_T, _L), results=(_T, _C))
)
AddRmsNormCast = kernel_of(
    _norm(
        "AddRmsNormCast",
        _add_rms_norm_cast,
        operands=(_T, _T, _L),
        results=(_T, _T, _C, _T),
        wide=(0, 2),
    )
)
