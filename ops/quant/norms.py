"""Normalisations whose rows leave as int8: by scales that are given, or by each row's own.

Source: ops-nn norm (host tilings, documents of the interfaces).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from npusim.ops.quant.rows import by_hand, by_largest, to_int8
from npusim.schedules.rows.formula import Form, RowFormula
from npusim.schedules.rows.kernel import kernel_of

if TYPE_CHECKING:
    from npusim.schedules.formula import Term
    from npusim.schedules.rows.program import Results

_T, _C, _L = Form.TILE, Form.COLUMN, Form.LINE
_EPSILON = {"epsilon": 1e-6}


def _mean_free(f: RowFormula, x: Term, epsilon: float) -> Term:
    """Rows without their mean, divided by their deviation."""
    centred = f.sub(x, f.mean(x))
    variance = f.mean(f.mul(centred, centred))
    return f.mul(centred, f.rsqrt(f.add(variance, epsilon)))


def _root_free(f: RowFormula, x: Term, epsilon: float) -> Term:
    """Rows divided by the root of their mean square."""
    mean_square = f.mean(f.mul(x, x))
    return f.mul(x, f.rsqrt(f.add(mean_square, epsilon)))


def _affine(f: RowFormula, x: Term, gain: Term | None, shift: Term | None) -> Term:
    x = x if gain is None else f.mul(x, gain)
    return x if shift is None else f.add(x, shift)


def _scaled(
    f: RowFormula, x: Term, scale: Term | None, offset: Term | None, *, divides: bool
) -> Term | None:
    """x by its scale, and its offset, as int8; None without a scale."""
    if scale is None:
        return None
    x = f.div(x, scale) if divides else f.mul(x, scale)
    return to_int8(f, x if offset is None else f.add(x, offset))


def _layer_norm_quant(
    f: RowFormula, x: Term, gamma: Term, beta: Term, scale: Term | None, offset: Term | None,
    epsilon: float, quant_mode: int,
) -> Results:  # fmt: skip
    y = _affine(f, _mean_free(f, x, epsilon), gamma, beta)
    if quant_mode:
        return by_largest(f, y, scale)
    return _scaled(f, y, scale, offset, divides=False), None


def _add_layer_norm_quant(
    f: RowFormula, x: Term, other: Term, gamma: Term, beta: Term, bias: Term | None,
    scale: Term | None, second: Term | None, offset: Term | None, shift: Term | None,
    epsilon: float, dynamic: bool, div_mode: bool,
) -> Results:  # fmt: skip
    total = f.add(x, other)
    total = total if bias is None else f.add(total, bias)
    y = _affine(f, _mean_free(f, total, epsilon), gamma, beta)
    if dynamic:
        first, own = by_largest(f, y, scale)
        last, other_own = (None, None) if second is None else by_largest(f, y, second)
        return first, last, total, y, own, other_own
    given = (
        _scaled(f, y, by, at, divides=div_mode) for by, at in ((scale, offset), (second, shift))
    )
    return *given, total, y, None, None


def _rms_norm_quant(
    f: RowFormula, x: Term, gamma: Term, beta: Term | None, scale: Term, offset: Term | None,
    epsilon: float,
) -> Results:  # fmt: skip
    y = _affine(f, _root_free(f, x, epsilon), gamma, beta)
    return (_scaled(f, y, scale, offset, divides=False),)


def _rms_norm_dynamic_quant(
    f: RowFormula, x: Term, gamma: Term, smooth: Term | None, beta: Term | None, epsilon: float
) -> Results:
    return by_largest(f, _affine(f, _root_free(f, x, epsilon), gamma, beta), smooth)


def _add_rms_norm_dynamic_quant(
    f: RowFormula, x: Term, other: Term, gamma: Term, smooth: Term | None, second: Term | None,
    beta: Term | None, epsilon: float,
) -> Results:  # fmt: skip
    total = f.add(x, other)
    y = _affine(f, _root_free(f, total, epsilon), gamma, beta)
    first, scale = by_largest(f, y, smooth)
    last, other_scale = (None, None) if second is None else by_largest(f, y, second)
    return first, last, total, scale, other_scale


def _add_rms_norm_quant(
    f: RowFormula, x: Term, other: Term, gamma: Term, scale: Term, second: Term | None,
    offset: Term | None, shift: Term | None, beta: Term | None, epsilon: float, div_mode: bool,
) -> Results:  # fmt: skip
    total = f.add(x, other)
    normal = _affine(f, _root_free(f, total, epsilon), gamma, None)
    y = normal if beta is None else f.add(normal, beta)
    first, last = (
        _scaled(f, y, by, at, divides=div_mode) for by, at in ((scale, offset), (second, shift))
    )
    return first, last, total, normal


_row = partial(by_hand, attributes=_EPSILON, most_columns=1)
LayerNormQuant = kernel_of(
    _row("LayerNormQuant", _layer_norm_quant, (_T, *(_L,) * 4), (_T, _C), wide=(1,), int8=(0,),
         attributes={**_EPSILON, "quant_mode": 0})
)  # fmt: skip
AddLayerNormQuant = kernel_of(
    _row("AddLayerNormQuant", _add_layer_norm_quant, (_T, _T, *(_L,) * 7), (*(_T,) * 4, _C, _C),
         wide=(4, 5), int8=(0, 1), attributes={**_EPSILON, "dynamic": False, "div_mode": True})
)  # fmt: skip
RmsNormQuant = kernel_of(_row("RmsNormQuant", _rms_norm_quant, (_T, *(_L,) * 4), (_T,), int8=(0,)))
RmsNormDynamicQuant = kernel_of(
    _row("RmsNormDynamicQuant", _rms_norm_dynamic_quant, (_T, *(_L,) * 3), (_T, _C),
         wide=(1,), int8=(0,))
)  # fmt: skip
AddRmsNormDynamicQuantV2 = kernel_of(
    _row("AddRmsNormDynamicQuantV2", _add_rms_norm_dynamic_quant, (_T, _T, *(_L,) * 4),
         (_T, _T, _T, _C, _C), wide=(3, 4), int8=(0, 1))
)  # fmt: skip
AddRmsNormQuantV2 = kernel_of(
    _row("AddRmsNormQuantV2", _add_rms_norm_quant, (_T, _T, *(_L,) * 6), (_T, _T, _T, _T),
         int8=(0, 1), attributes={**_EPSILON, "div_mode": True})
)  # fmt: skip
