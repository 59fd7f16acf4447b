"""Triangles of matrices: elements kept by their row and column, which the kernel reads."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from npusim.ascendc import CmpMode, GlobalTensor, GmBuffer
from npusim.schedules.formula import Term
from npusim.schedules.formula_classes import kernel_of
from npusim.schedules.formula_row import Compute
from npusim.schedules.on_ai_cpu import OnAiCpu
from npusim.values.dtypes import FLOAT, FLOAT16, INT16, INT32

if TYPE_CHECKING:
    from collections.abc import Callable

    from npusim.ascendc import Kernel
    from npusim.ascendc.task import Task
    from npusim.schedules.formula import Formula, Operand

_LONG = 8  # bytes, which no vector unit selects
_MATRIX = 2  # axes


def _kept(mode: CmpMode) -> Callable[..., Term]:
    """x where its column less its row is <mode> the diagonal, else 0."""

    def formula(f: Formula, x: Operand, row: Operand, column: Operand, diagonal: int) -> Term:
        apart = f.sub(
            *(each if isinstance(each, Term) else f.fill(each, FLOAT) for each in (column, row))
        )
        mask = f.compare(apart, float(diagonal), mode)
        whole = f.tile(x)
        if whole.dtype in (INT32, INT16):  # which have products, but no selection
            ones = f.select(mask, f.fill(1.0, FLOAT16), f.fill(0.0, FLOAT16))
            return f.mul(whole, f.cast(ones, whole.dtype))
        selects = f.profile.supports_vector("vsel", whole.dtype.intrinsic)
        number = whole if selects else f.cast(whole, FLOAT)
        return f.cast(f.select(mask, number, f.fill(0.0, number.dtype)), whole.dtype)

    return formula


def _triangle(
    op_type: str, mode: CmpMode, reference: Callable[..., object]
) -> Callable[[Task], tuple[Kernel, ...]]:
    row = Compute(op_type, _kept(mode), raw=(0, 1, 2), attributes={"diagonal": 0}, like=(0,))
    kernel = kernel_of(row)
    on_cpu = OnAiCpu(op_type, _named(reference), attributes={"diagonal": 0})

    def kernels(task: Task) -> tuple[Kernel, ...]:
        (x,) = task.present(1)
        if len(x.shape) < _MATRIX:
            raise task.unfit(f"{x.shape} are no matrices")
        if not task.outputs:
            task = replace(task, outputs=(_like(x),))
        if x.dtype.itemsize == _LONG:
            return on_cpu.from_task(task)
        rows, columns = (np.arange(size, dtype=np.float32) for size in x.shape[-2:])
        places = _numbers("rows", rows[:, None]), _numbers("columns", columns)
        return kernel.from_task(replace(task, inputs=(x, *places)))

    return kernels


def _named(reference: Callable[..., object]) -> Callable[..., object]:
    """NumPy's function, which calls the diagonal by another name."""

    def triangle(x: object, diagonal: int) -> object:
        return reference(x, diagonal)

    return triangle


def _numbers(name: str, values: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> GlobalTensor:
    return GlobalTensor(GmBuffer(name, values.nbytes, values.reshape(-1)), FLOAT, values.shape)


def _like(x: GlobalTensor) -> GlobalTensor:
    return GlobalTensor(GmBuffer("y", x.nbytes), x.dtype, x.shape)


tril = _triangle("Tril", CmpMode.LE, np.tril)
triu = _triangle("Triu", CmpMode.GE, np.triu)
