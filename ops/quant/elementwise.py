"""Numbers to int8 by given scales, and back: AscendQuantV2, AscendAntiQuantV2, AscendDequant.

Source: ops-nn quant/ascend_quant_v2; prototypes of the operators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.ops.quant.rows import to_int8
from npusim.schedules.formula_classes import kernel_of
from npusim.schedules.formula_row import Compute
from npusim.values.dtypes import FLOAT, FLOAT16, INT8

if TYPE_CHECKING:
    from npusim.schedules.formula import Formula, Operand, Term


def _scaled(f: Formula, x: Term, scale: Operand, *, sqrt_mode: bool) -> Term:
    """x times its scale, twice where the scale is the root of what is meant."""
    wide = f.cast(scale, FLOAT)
    x = f.mul(x, wide)
    return f.mul(x, wide) if sqrt_mode else x


def _quant(f: Formula, x: Term, scale: Operand, offset: Operand | None, sqrt_mode: bool) -> Term:
    y = _scaled(f, f.cast(x, FLOAT), scale, sqrt_mode=sqrt_mode)
    return to_int8(f, y if offset is None else f.add(y, f.cast(offset, FLOAT)))


def _anti_quant(
    f: Formula, x: Term, scale: Operand, offset: Operand | None, sqrt_mode: bool
) -> Term:
    wide = f.cast(f.cast(x, FLOAT16), FLOAT)
    wide = wide if offset is None else f.add(wide, f.cast(offset, FLOAT))
    return _scaled(f, wide, scale, sqrt_mode=sqrt_mode)


def _dequant(f: Formula, x: Term, scale: Operand, sqrt_mode: bool, relu_flag: bool) -> Term:
    y = _scaled(f, f.cast(x, FLOAT), scale, sqrt_mode=sqrt_mode)
    return f.relu(y) if relu_flag else y


_ROOT = {"sqrt_mode": False}

AscendQuantV2 = kernel_of(
    Compute(
        "AscendQuantV2",
        _quant,
        raw=(0, 1, 2),
        result=INT8,
        like=(0,),
        attributes=_ROOT,
        generated=False,
    )
)
AscendAntiQuantV2 = kernel_of(
    Compute(
        "AscendAntiQuantV2",
        _anti_quant,
        raw=(0, 1, 2),
        result=FLOAT16,
        like=(0,),
        attributes=_ROOT,
    )
)
AscendDequant = kernel_of(
    Compute(
        "AscendDequant",
        _dequant,
        raw=(0, 1),
        result=FLOAT16,
        like=(0,),
        attributes={**_ROOT, "relu_flag": False},
    )
)
