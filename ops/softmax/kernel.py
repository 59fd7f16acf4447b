"""Softmax kernels: rows are shifted by their largest element, so that nothing overflows.

Source of the formulas: public operator sources (impl/softmax_v2.py, log_softmax_v2.py,
softmax_grad.py, log_softmax_grad.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.dialect.row_formulas import Form, RowFormula
from npusim.dialect.row_kernel import RowOperator, kernel_of

if TYPE_CHECKING:
    from npusim.dialect.formulas import Number, Term
    from npusim.dialect.row_program import Results


def _softmax(f: RowFormula, x: Term) -> Results:
    powers = f.exp(f.sub(x, f.largest(x)))
    return (f.div(powers, f.sum(powers)),)


def _log_softmax(f: RowFormula, x: Term) -> Results:
    shifted = f.sub(x, f.largest(x))
    return (f.sub(shifted, f.ln(f.sum(f.exp(shifted)))),)


def _softmax_grad(f: RowFormula, y: Term, grad: Term) -> Results:
    products = f.mul(y, grad)
    return (f.sub(products, f.mul(y, f.sum(products))),)


def _softmax_grad_ext(f: RowFormula, grad: Term, y: Term, scale: Number | None) -> Results:
    products = f.mul(y, grad)
    shifted = f.sub(grad, f.sum(products))
    result = f.mul(shifted, y)
    return (result if scale is None else f.mul(result, scale),)


def _log_softmax_grad(f: RowFormula, grad: Term, y: Term) -> Results:
    return (f.sub(grad, f.mul(f.exp(y), f.sum(grad))),)


_TILES = (Form.TILE, Form.TILE)

Softmax = kernel_of(RowOperator("Softmax", _softmax))
LogSoftmax = kernel_of(RowOperator("LogSoftmax", _log_softmax))
SoftmaxGrad = kernel_of(RowOperator("SoftmaxGrad", _softmax_grad, operands=_TILES))
LogSoftmaxGrad = kernel_of(RowOperator("LogSoftmaxGrad", _log_softmax_grad, operands=_TILES))
SoftmaxGradExt = kernel_of(
    RowOperator("SoftmaxGradExt", _softmax_grad_ext, operands=(*_TILES, Form.NUMBER))
)
