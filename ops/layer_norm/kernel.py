"""LayerNorm and the gradient of its input, row by row.

Source of the formulas: public operator sources (impl/layer_norm.py, layer_norm_x_backprop_v2.py);
the gradient comes from the compiler's schedule of several reductions, LayerNorm from one of its own
that fuses the axes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.schedules.formula import Share
from npusim.schedules.rows.formula import Form, RowFormula
from npusim.schedules.rows.kernel import RowOperator, kernel_of

if TYPE_CHECKING:
    from npusim.schedules.formula import Term
    from npusim.schedules.rows.program import Results

_T, _C, _L = Form.TILE, Form.COLUMN, Form.LINE


def normalised(f: RowFormula, x: Term, epsilon: float) -> tuple[Term, Term, Term, Term]:
    """Mean, variance, reciprocal deviation, and x normalised."""
    share = Share(1.0)
    mean = f.sum(f.mul(x, share))
    centred = f.sub(x, mean)
    variance = f.sum(f.mul(f.mul(centred, centred), share))
    rstd = f.rsqrt(f.add(variance, epsilon))
    return mean, variance, rstd, f.mul(centred, rstd)


def scaled(f: RowFormula, x: Term, gamma: Term | None, beta: Term | None) -> Term:
    """x times a gain and moved, as far as they are there."""
    if gamma is not None:
        x = f.mul(x, gamma)
    return x if beta is None else f.add(x, beta)


def _layer_norm(
    f: RowFormula, x: Term, gamma: Term | None, beta: Term | None, epsilon: float
) -> Results:
    mean, variance, _, y = normalised(f, x, epsilon)
    return scaled(f, y, gamma, beta), mean, variance


def _layer_norm_v3(
    f: RowFormula, x: Term, gamma: Term | None, beta: Term | None, epsilon: float
) -> Results:
    mean, _, rstd, y = normalised(f, x, epsilon)
    return scaled(f, y, gamma, beta), mean, rstd


def _x_gradient(
    f: RowFormula, grad: Term, x: Term, rstd: Term, mean: Term, gamma: Term | None
) -> Results:
    """The gradient of x, and x normalised, which the gradient of gamma needs."""
    scaled = grad if gamma is None else f.mul(grad, gamma)
    centred = f.sub(x, mean)
    products = f.sum(f.mul(centred, scaled))
    cubed = f.mul(f.mul(rstd, rstd), rstd)
    slope = f.mul(f.mul(products, cubed), -0.5)
    shift = f.mul(f.mul(f.sum(scaled), rstd), Share(-1.0))
    # The share of a row is taken of whole tiles, as the vendor's operator does.
    falls = f.mul(f.mul(centred, slope), Share(2.0))
    result = f.add(f.add(f.mul(scaled, rstd), falls), shift)
    return result, f.mul(centred, rstd)


def _x_backprop_v2(
    f: RowFormula,
    grad: Term,
    x: Term,
    variance: Term,
    mean: Term,
    gamma: Term | None,
    epsilon: float,
) -> Results:
    rstd = f.exp(f.mul(f.ln(f.add(variance, epsilon)), -0.5))
    return _x_gradient(f, grad, x, rstd, mean, gamma)


LayerNorm = kernel_of(
    RowOperator(
        "LayerNorm",
        _layer_norm,
        operands=(_T, _L, _L),
        results=(_T, _C, _C),
        attributes={"epsilon": 1e-5},
    )
)
LayerNormV3 = kernel_of(
    RowOperator(
        "LayerNormV3",
        _layer_norm_v3,
        operands=(_T, _L, _L),
        results=(_T, _C, _C),
        wide=(1, 2),
        attributes={"epsilon": 1e-5},
    )
)
LayerNormXBackpropV2 = kernel_of(
    RowOperator(
        "LayerNormXBackpropV2",
        _x_backprop_v2,
        operands=(_T, _T, _C, _C, _L),
        results=(_T, _T),
        wide=(1,),
        attributes={"epsilon": 1e-12},
        by_lanes=True,
        fuses=False,
    )
)
LayerNormXBackpropV3 = kernel_of(
    RowOperator(
        "LayerNormXBackpropV3",
        _x_gradient,
        operands=(_T, _T, _C, _C, _L),
        results=(_T, _T),
        wide=(1,),
        by_lanes=True,
        fuses=False,
    )
)
