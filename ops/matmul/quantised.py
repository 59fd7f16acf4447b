"""Quantised products as calls and records have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.ascendc.task import Task, made
from npusim.ops.matmul.dequantised import DequantMatMul
from npusim.ops.matmul.kernel import MatMul
from npusim.ops.matmul.operands import Problem, result_shape
from npusim.ops.matmul.quant_tiling import quant_partition
from npusim.values.dtypes import BFLOAT16, FLOAT, FLOAT16, INT8, INT32

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor, Kernel


def quant_batch_matmul(task: Task) -> tuple[Kernel, ...]:
    """x1, x2, scale, offset, bias, scales of rows."""
    a, b, scale, offset, bias, per_row = (*task.inputs, *[None] * 6)[:6]
    return _product(task, a, b, scale, offset, per_row, bias)


def quant_matmul(task: Task) -> tuple[Kernel, ...]:
    """x1, x2, scale, offset, scales of rows, bias: the order of the framework's records."""
    a, b, scale, offset, per_row, bias = (*task.inputs, *[None] * 6)[:6]
    return _product(task, a, b, scale, offset, per_row, bias)


def _product(
    task: Task,
    a: GlobalTensor | None,
    b: GlobalTensor | None,
    scale: GlobalTensor | None,
    offset: GlobalTensor | None,
    per_row: GlobalTensor | None,
    bias: GlobalTensor | None,
) -> tuple[Kernel, ...]:
    """On the cube cores alone where the fixpipe can do the rest."""
    profile = task.profile
    if a is None or b is None or scale is None:
        raise task.refused("x1, x2 and scale are needed")
    if a.dtype is not INT8 or b.dtype is not INT8 or profile.paths.l0c_to_gm is None:
        raise task.refused(f"{profile.name} has no kernel for {a.dtype} times {b.dtype}")
    if offset is not None or scale.dtype not in (FLOAT, BFLOAT16):
        raise task.refused("offsets and packed scales aren't modelled")
    turned = (
        bool(task.attributes.get("transpose_x1", False)),
        bool(task.attributes.get("transpose_x2", False)),
    )
    out = task.outputs[0] if task.outputs else None
    if out is None:
        broad = scale.dtype is BFLOAT16 or (bias is not None and bias.dtype is BFLOAT16)
        out = made(result_shape(a.shape, b.shape, turned), BFLOAT16 if broad else FLOAT16)
    problem = Problem.of(task.op_type, a, b, out, turned)
    if scale.numel not in (1, problem.n) or (bias is not None and bias.numel != problem.n):
        raise task.refused(f"{scale.numel} scales for {problem.n} columns")
    whole = bias is None or bias.dtype is INT32
    scaled = profile.supports_fixpipe(INT32.intrinsic, out.dtype.intrinsic, scaled=True)
    if per_row is None and whole and scaled and scale.dtype is FLOAT:
        name = task.op_type
        return (
            MatMul(profile, problem, bias=bias, scale=scale, op_type=name, tiling=quant_partition),
        )
    return (DequantMatMul(profile, problem, scale, per_row, bias, task.op_type),)
