"""Quantised products as calls and records have them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from npusim.ascendc.task import Task, made
from npusim.library.epilogue import Epilogue
from npusim.operators.tasks import kernels_on
from npusim.ops.matmul.dequantised import DequantMatMul
from npusim.ops.matmul.kernel import MatMul
from npusim.ops.matmul.operands import Problem, result_shape
from npusim.ops.matmul.quant_tiling import quant_partition
from npusim.values.dtypes import BFLOAT16, FLOAT, FLOAT16, INT8, INT32, INT64, UINT64, dtype
from npusim.values.formats import Format

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor, Kernel


def quant_batch_matmul(task: Task) -> tuple[Kernel, ...]:
    """x1, x2, scale, offset, bias, scales of rows."""
    a, b, scale, offset, bias, per_row = (*task.inputs, *[None] * 6)[:6]
    return _product(task, a, b, scale, offset, per_row, bias)


def quant_matmul(task: Task) -> tuple[Kernel, ...]:
    """x1, x2, scale, offset, scales of rows, bias: the order of the framework's records.

    Results say their dtype themselves or by ``output_dtype``. Scales in float32 are packed by a
    task of their own where the cube's output stage needs them. Source: Ascend/op-plugin,
    QuantMatmulKernelNpuOpApi.cpp.
    """
    a, b, scale, offset, per_row, bias = (*task.inputs, *[None] * 6)[:6]
    said = task.attributes.get("output_dtype")
    if isinstance(said, str) and not task.outputs and a is not None and b is not None:
        turned = tuple(bool(task.attributes.get(f"transpose_x{place}")) for place in (1, 2))
        shape = result_shape(a.shape, b.shape, (turned[0], turned[1]))
        task = replace(task, outputs=(made(shape, dtype(said)),))
    kind = task.outputs[0].dtype if task.outputs else FLOAT16
    whole = bias is None or bias.dtype is INT32
    if scale is None or scale.dtype is not FLOAT or per_row is not None or not whole:
        return _product(task, a, b, scale, offset, per_row, bias)
    if kind is not FLOAT16 or task.profile.paths.l0c_to_gm is None:
        return _product(task, a, b, scale, offset, per_row, bias)
    words = made(scale.shape, UINT64, "words")
    packing = kernels_on(Task(task.profile, "TransQuantParamV2", (scale,), (words,)))
    return *packing, *_product(task, a, b, words, offset, None, bias)


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
    if a.dtype is not INT8 or b.dtype is not INT8 or not profile.cube.dtypes.get(INT8.intrinsic):
        raise task.refused(f"{profile.name} has no kernel for {a.dtype} times {b.dtype}")
    if profile.paths.l0c_to_gm is None:
        return _on_the_way_out(task, (a, b), scale, (offset, per_row), bias)
    if offset is not None:
        raise task.refused("offsets aren't modelled")
    packed = scale.dtype in (INT64, UINT64)
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
    if packed and (per_row is not None or not whole or out.dtype is not FLOAT16 or not scaled):
        raise task.refused("packed scales: results in FLOAT16, biases in INT32, no scales of rows")
    if per_row is None and whole and scaled and (packed or scale.dtype is FLOAT):
        name, tiling = task.op_type, partial(quant_partition, scale=scale.dtype)
        given: dict[str, Any] = {"bias": bias, "scale": scale, "op_type": name, "tiling": tiling}
        return (MatMul(profile, problem, once=True, **given),)
    return (DequantMatMul(profile, problem, scale, per_row, bias, task.op_type),)


def _on_the_way_out(
    task: Task,
    factors: tuple[GlobalTensor, GlobalTensor],
    scale: GlobalTensor,
    others: tuple[GlobalTensor | None, GlobalTensor | None],
    bias: GlobalTensor | None,
) -> tuple[Kernel, ...]:
    """Where results leave L0C through UB: whole biases first, then packed scales of columns.

    Weights lie in fractals. Source: ops-nn matmul/quant_batch_matmul_v3, operator definition and
    kernels of arch20.
    """
    a, b = factors
    if any(each is not None for each in others):
        raise task.refused("offsets and scales of rows aren't modelled")
    if task.profile.cores.style == "split" or b.format is not Format.FRACTAL_NZ:
        raise task.refused("x2 has to be in FRACTAL_NZ")
    if scale.dtype not in (INT64, UINT64) or (bias is not None and bias.dtype is not INT32):
        raise task.refused(f"a scale in {scale.dtype}: int64 or uint64, and a bias in int32")
    turned = tuple(bool(task.attributes.get(f"transpose_x{place}", False)) for place in (1, 2))
    if not task.outputs:
        raise task.refused("say what comes out: its columns don't follow from fractals")
    out = task.outputs[0]
    if out.dtype is not FLOAT16:
        raise task.refused(f"results in {out.dtype} aren't modelled, only FLOAT16")
    problem = Problem.of(task.op_type, a, b, out, (turned[0], turned[1]))
    if scale.numel not in (1, problem.n) or (bias is not None and bias.numel != problem.n):
        raise task.refused(f"{scale.numel} scales for {problem.n} columns")
    epilogue = replace(Epilogue.plain(task.profile, out), scale=scale.dtype)
    return (
        MatMul(
            task.profile, problem, bias=bias, scale=scale, epilogue=epilogue, op_type=task.op_type
        ),
    )
