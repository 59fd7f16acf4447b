"""Convolutions with what a graph compiler has fused to them, on chips where results pass UB."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.library.epilogue import Epilogue, Side
from npusim.operators.fusions import Part, epilogue_of, parts_of
from npusim.ops.convolution.forward import Conv2D
from npusim.ops.convolution.geometry import Geometry
from npusim.ops.convolution.volumes import Conv3D, as_images
from npusim.schedules.formula import Formula
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npusim.ascendc import GlobalTensor, Kernel
    from npusim.ascendc.task import Task

_SUMS = "BNTrainingReduce"
_SUMS_MADE = 2  # of the numbers and of their squares


def convolution(task: Task) -> tuple[Kernel, ...]:
    """x, the weight, a bias, and tensors like the result, in the order of the parts."""
    x, weight, y = task.present(2, 1)
    others = [each for each in task.inputs[2:] if each is not None]
    tiles = [each for each in others if each.shape in (y.shape, ())]
    rows = [each for each in others if not any(each is tile for tile in tiles)]
    if len(rows) > 1:
        shapes = ", ".join(str(each.shape) for each in rows)
        raise task.refused(f"operands {shapes} beside a result {y.shape}")
    head, parts = parts_of(task)
    if head == Conv3D.op_type:
        made = as_images(y)
        planes = [as_images(each) if each.shape else each for each in tiles]
        epilogue = epilogue_of(task.profile, made, parts, planes, (made,))
        return Conv3D.with_parts(task, rows[0] if rows else None, epilogue)
    kernel = Conv2D(
        task.profile,
        x,
        weight,
        y,
        Geometry.of(task.op_type, x, weight, y, task.attributes),
        bias=rows[0] if rows else None,
        epilogue=_epilogue(task, y, tiles),
        op_type=task.op_type,
    )
    return (kernel,)


def _epilogue(task: Task, y: GlobalTensor, tiles: Sequence[GlobalTensor]) -> Epilogue:
    """What the parts behind the convolution compute."""
    parts = parts_of(task)[1]
    if parts[-1].op_type != _SUMS:
        return epilogue_of(task.profile, y, parts, tiles, task.outputs)
    return _sums(task, y, parts[:-1], tiles)


def _sums(
    task: Task, y: GlobalTensor, parts: Sequence[Part], tiles: Sequence[GlobalTensor]
) -> Epilogue:
    """The result as it is, and the sums of it and of its squares for each channel, in float32."""
    totals = task.outputs[1:]
    channels = y.shape[1] * y.shape[-1]
    if parts or tiles or [each.numel for each in totals] != [channels] * _SUMS_MADE:
        raise task.refused(f"{_SUMS} behind a convolution alone, with two sums per channel, only")
    if any(each.dtype is not FLOAT for each in totals):
        raise task.refused(f"{_SUMS} sums in {FLOAT}")
    formula = Formula(task.profile, FLOAT)
    product = formula.operand(y.dtype)
    wide = formula.cast(product, FLOAT)
    terms = (wide, formula.mul(wide, wide))
    sums = (Side(each, term) for each, term in zip(totals, terms, strict=True))
    return Epilogue(formula, product, (), (Side(y, product),), totals=tuple(sums))
