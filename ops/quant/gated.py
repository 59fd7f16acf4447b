"""One half of every row gates the other, and the results are quantised.

Before that, sums of a quantised product may become numbers again. Source: ops-nn
quant/dequant_swiglu_quant and quant/swi_glu_quant, host tilings and device schedules.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from npusim.ascendc.task import Task, made
from npusim.ops.quant.rows import by_hand, by_largest, to_int8
from npusim.schedules.rows.formula import Form, RowFormula
from npusim.schedules.rows.kernel import RowKernel, kernel_of
from npusim.values.dtypes import FLOAT, INT8, INT32

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor, Kernel
    from npusim.schedules.formula import Term
    from npusim.schedules.rows.program import Results

_T, _C, _L = Form.TILE, Form.COLUMN, Form.LINE
_MOST_COLUMNS = 1 << 14  # rows that fit are worked on together


def _gated(f: RowFormula, a: Term, b: Term) -> Term:
    """a / (1 + e**-a) * b."""
    return f.mul(b, f.div(a, f.add(f.exp(f.neg(a)), 1.0)))


def _quantised(
    f: RowFormula, x: Term, scale: Term | None, offset: Term | None, *, dynamic: bool
) -> Results:
    if dynamic:
        return by_largest(f, x, scale)
    x = x if scale is None else f.mul(x, scale)
    return to_int8(f, x if offset is None else f.add(x, offset)), None


def _swi_glu_quant(
    f: RowFormula,
    gate: Term,
    up: Term,
    scale: Term | None,
    offset: Term | None,
    dynamic: bool,
) -> Results:
    return _quantised(f, _gated(f, gate, up), scale, offset, dynamic=dynamic)


def _dequant_swi_glu_quant(
    f: RowFormula,
    gate: Term,
    up: Term,
    gate_scale: Term | None,
    up_scale: Term | None,
    per_row: Term | None,
    gate_bias: Term | None,
    up_bias: Term | None,
    scale: Term | None,
    offset: Term | None,
    dynamic: bool,
) -> Results:
    """Sums of a quantised product as numbers again, by scales of its columns and of its rows."""

    def numbers(x: Term, by: Term | None, bias: Term | None) -> Term:
        whole = bias is not None and bias.dtype is INT32
        if bias is not None and whole:
            x = f.add(x, bias)
        x = f.cast(x, FLOAT)
        for each in (by, per_row):
            x = x if each is None else f.mul(x, f.cast(each, FLOAT))
        return x if bias is None or whole else f.add(x, f.cast(bias, FLOAT))

    gated = _gated(f, numbers(gate, gate_scale, gate_bias), numbers(up, up_scale, up_bias))
    wide = [None if each is None else f.cast(each, FLOAT) for each in (scale, offset)]
    return _quantised(f, gated, *wide, dynamic=dynamic)


_gate = partial(
    by_hand,
    results=(_T, _C),
    wide=(1,),
    int8=(0,),
    attributes={"dynamic": False},
    most_columns=_MOST_COLUMNS,
    in_place=True,
)
_SwiGluQuant = kernel_of(_gate("SwiGluQuant", _swi_glu_quant, (_T, _T, _L, _L)))
_DequantSwigluQuant = kernel_of(
    _gate(
        "DequantSwigluQuant",
        _dequant_swi_glu_quant,
        (_T, _T, _L, _L, _C, _L, _L, _L, _L),
        raw=True,
    )
)


def swi_glu_quant(task: Task) -> tuple[Kernel, ...]:
    """Halves of the rows of x; scales and offsets of the result."""
    x, scale, offset = _known(task, 3)
    return _launch(task, _SwiGluQuant, x, scale, offset)


def dequant_swiglu_quant(task: Task) -> tuple[Kernel, ...]:
    """x, its scales by column and by row, its bias; scales and offsets of the result."""
    x, weight, per_row, bias, scale, offset = _known(task, 6)
    columns = x.shape[-1] if x is not None and x.shape else 0
    if bias is not None and scale is None and 2 * bias.numel == columns:
        bias, scale = None, bias  # lists of what is given leave out a bias that isn't
    if any(line is not None and line.numel != columns for line in (weight, bias)):
        raise task.refused(f"scales and biases of a product have {columns} numbers here")
    lines = (*_halves(weight, task), per_row, *_halves(bias, task))
    return _launch(task, _DequantSwigluQuant, x, *lines, scale, offset)


def _known(task: Task, count: int) -> tuple[GlobalTensor | None, ...]:
    """The operands of one group; several groups of rows have scales of their own each."""
    if any(each is not None for each in task.inputs[count:]):
        raise task.refused("groups of rows with scales of their own aren't modelled")
    return (*task.inputs, *[None] * count)[:count]


def _launch(
    task: Task, kernel: type[RowKernel], x: GlobalTensor | None, *others: GlobalTensor | None
) -> tuple[Kernel, ...]:
    """Rows of half the length; the half that gates comes first where it is the left one."""
    if x is None or not x.shape or x.shape[-1] % 2:
        raise task.refused("needs rows with two halves")
    columns = x.shape[-1] // 2
    rows = x.numel // (2 * columns)
    first, second = (
        replace(x, shape=(rows, columns), start=x.start + half * columns, strides=(2 * columns, 1))
        for half in (0, 1)
    )
    if not task.attributes.get("activate_left", False):
        first, second = second, first
    made_up = made((*x.shape[:-1], columns), INT8), made((rows,), FLOAT, "scale")
    y, scale = (*task.outputs, *made_up[len(task.outputs) :])[:2]
    dynamic = task.attributes.get("quant_mode", "dynamic") == "dynamic"
    return (
        kernel(task.profile, first, second, *others, y.view(rows, columns), scale, dynamic=dynamic),
    )


def _halves(
    line: GlobalTensor | None, task: Task
) -> tuple[GlobalTensor | None, GlobalTensor | None]:
    """What belongs to the half that gates, and to the other one."""
    if line is None:
        return None, None
    half = line.numel // 2
    first, second = (
        replace(line, shape=(half,), start=line.start + place * half) for place in (0, 1)
    )
    return (first, second) if task.attributes.get("activate_left", False) else (second, first)
