"""Softmax kernels: rows are shifted by their largest element, so that nothing overflows.

Source of the formulas: public operator sources (impl/softmax_v2.py, log_softmax_v2.py,
softmax_grad.py, log_softmax_grad.py). Code for any shape has one buffer for each value, so that
longer rows fit (op_tiling/norm.cc, whose tiling key never asks for two).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.schedules.rows.formula import Form, RowFormula
from npusim.schedules.rows.kernel import RowOperator, kernel_of
from npusim.values.dtypes import FLOAT, FLOAT16

if TYPE_CHECKING:
    from npusim.schedules.formula import Number, Term
    from npusim.schedules.rows.program import Results


def _shifted(f: RowFormula, x: Term) -> Term:
    """x less its row's largest element, in float32; what the chip compares in halves stays so."""
    if not f.profile.supports_vector("vmax", x.dtype.intrinsic):
        x = f.cast(x, FLOAT)
    return f.cast(f.sub(x, f.largest(x)), FLOAT)


def _softmax(f: RowFormula, x: Term) -> Results:
    """In fractals of halves the sums are turned into factors, which are a few numbers a row.

    On Atlas inference products they are everywhere. Source: tbe/impl/dynamic/softmax_v2.py, which
    kernels for one shape are compiled from there (aic-ascend310p-ops-info.json,
    dynamicCompileStatic).
    """
    powers = f.exp(_shifted(f, x))
    total = f.sum(powers)
    if f.profile.family == "310P" or (f.in_fractals and x.dtype is FLOAT16):
        return (f.mul(powers, f.reciprocal(total)),)
    return (f.div(powers, total),)


def _log_softmax(f: RowFormula, x: Term) -> Results:
    shifted = _shifted(f, x)
    return (f.sub(shifted, f.ln(f.sum(f.exp(shifted)))),)


def _softmax_grad(f: RowFormula, y: Term, grad: Term) -> Results:
    products = f.mul(y, grad)
    return (f.sub(products, f.mul(y, f.sum(products))),)


def _softmax_grad_ext(f: RowFormula, grad: Term, y: Term, scale: Number | None) -> Results:
    """Products in the tensors' own type, where the chip has them; sums in float32."""
    if not f.profile.supports_vector("vmul", grad.dtype.intrinsic):
        grad, y = f.cast(grad, FLOAT), f.cast(y, FLOAT)
    total = f.cast(f.sum(f.cast(f.mul(grad, y), FLOAT)), grad.dtype)
    factor = y if scale is None else f.mul(y, scale)
    return (f.mul(f.sub(grad, total), factor),)


_TILES = (Form.TILE, Form.TILE)

Softmax = kernel_of(RowOperator("Softmax", _softmax, depth=1, raw=True, compares=True))
LogSoftmax = kernel_of(RowOperator("LogSoftmax", _log_softmax, depth=1, raw=True, compares=True))
SoftmaxGrad = kernel_of(RowOperator("SoftmaxGrad", _softmax_grad, operands=_TILES, depth=1))
LogSoftmaxGrad = kernel_of(
    RowOperator(
        "LogSoftmaxGrad",
        lambda f, grad, y: (f.sub(grad, f.mul(f.exp(y), f.sum(grad))),),
        operands=_TILES,
        depth=1,
    )
)
SoftmaxGradExt = kernel_of(
    RowOperator("SoftmaxGradExt", _softmax_grad_ext, operands=(*_TILES, Form.NUMBER), raw=True)
)
