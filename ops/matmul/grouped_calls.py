"""Grouped products as calls and records have them."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from npusim.ascendc.task import Task, made
from npusim.operators.tasks import kernels_on
from npusim.ops.matmul.grouped import GroupedMatMul, Groups, group_lengths
from npusim.ops.matmul.grouped_quant import GroupedDequantMatMul
from npusim.ops.matmul.grouped_widened import GroupedWidenedMatMul
from npusim.values.dtypes import BFLOAT16, FLOAT, FLOAT16, INT4, INT8, INT32, INT64, DType
from npusim.values.errors import RefusedTaskError
from npusim.values.formats import Format
from npusim.values.layouts import storage_shape

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor, Kernel

_FRACTAL_AXES = 5
_PACKED, _LEAST_GROUP = 8, 32  # numbers of int4 in one of INT32; rows that share a scale
_ROWS_SPLIT, _SUMS_SPLIT = 0, 2  # group_type: groups of rows, or of what is summed up


def grouped_matmul(task: Task) -> tuple[Kernel, ...]:
    """x, weight, bias, scale, four others, where groups end, scales of rows.

    Without the numbers of the list, groups are of one length.
    """
    x, weight, bias, scale, offset, factors, shifts, ends, per_row = (*task.inputs, *[None] * 9)[:9]
    if x is None or weight is None or len(x.shape) != 2:
        raise task.refused("needs x and weight as one tensor each")
    if offset is not None:
        raise task.refused("offsets of results aren't modelled")
    if factors is not None or shifts is not None:
        return _widened(task, (x, weight), (factors, shifts, bias), (scale, per_row), ends)
    through_ub = task.profile.paths.l0c_to_gm is None
    if through_ub and not (x.dtype is weight.dtype is FLOAT16 and bias is None):
        raise task.refused(f"{task.profile.name} takes FLOAT16, of which biases aren't modelled")
    of_sums = task.whole_number("group_type", _ROWS_SPLIT) == _SUMS_SPLIT
    (m, k), (inner, n), turned = _matrices(task, x, weight, 2 if of_sums else 3)
    if inner != k or (ends is not None and ends.dtype is not INT64):
        raise RefusedTaskError(task.op_type, f"{x.shape} by {weight.shape} is no product")
    count = ends.numel if ends is not None else weight.shape[0]
    if not of_sums and count != weight.shape[0]:
        raise task.refused(f"{count} groups for {weight.shape[0]} matrices")
    lengths = group_lengths(task, ends, k if of_sums else m, count)
    shape = (count, m, n) if of_sums else (m, n)
    y = task.outputs[0] if task.outputs else made(shape, _result_kind(x, scale))
    if y.shape != shape or (bias is not None and bias.numel != count * n):
        raise task.refused(f"{y.shape} isn't the result, or the bias not that of {count} groups")
    groups = Groups(lengths, m, n, k, of_sums)
    if ends is None:
        ends = made((count,), INT64, "ends")
        ends.buffer.data = np.cumsum(lengths, dtype=np.int64)
    if x.dtype is weight.dtype and (x.dtype.is_float or (x.dtype is INT8 and y.dtype is INT32)):
        tasks: tuple[Kernel, ...] = ()
        if through_ub and weight.format is not Format.FRACTAL_NZ:
            if of_sums or turned[1]:
                raise task.refused("groups of sums, or weights that lie turned, aren't modelled")
            tasks, weight = _in_fractals(task, weight)
        return (*tasks, GroupedMatMul(task.profile, x, weight, bias, ends, y, groups, turned))
    return _dequantised(task, (x, weight, y), (scale, per_row, bias), ends, groups, turned)


def _matrices(
    task: Task, x: GlobalTensor, weight: GlobalTensor, axes: int
) -> tuple[tuple[int, int], tuple[int, int], tuple[bool, bool]]:
    """Rows and columns of x and of a weight of so many axes, and which lie turned.

    In blocks (groups, across, down, rows, columns) the result tells how many columns there are.
    """
    turned_a = bool(task.attributes.get("transpose_x", False))
    m, k = (x.shape[1], x.shape[0]) if turned_a else x.shape
    if weight.format is Format.FRACTAL_NZ and len(weight.shape) == _FRACTAL_AXES:
        turned_b = bool(task.attributes.get("transpose_weight"))
        if turned_b or not task.outputs or x.dtype is not weight.dtype:
            raise task.refused("matrices in FRACTAL_NZ that lie turned, or are of another dtype")
        _, across, down, rows, lanes = weight.shape
        n = task.outputs[0].shape[-1]
        fits = ceil(k / rows) == down and ceil(n / lanes) == across
        return (m, k), (k if fits else down * rows, n), (turned_a, False)
    if len(weight.shape) != axes:
        raise task.refused(f"a weight {weight.shape}")
    high, wide = weight.shape[-2:]
    if _weight_turned(task, x, weight, turned_a):
        return (m, k), (wide, high), (turned_a, True)
    return (m, k), (high, wide), (turned_a, False)


def _widened(
    task: Task,
    tensors: tuple[GlobalTensor, GlobalTensor],
    lines: tuple[GlobalTensor | None, GlobalTensor | None, GlobalTensor | None],
    others: tuple[GlobalTensor | None, ...],
    ends: GlobalTensor | None,
) -> tuple[Kernel, ...]:
    """Rows in float16 or bfloat16 by matrices of int8, or of int4 in INT32."""
    (x, weight), (factors, shifts, bias) = tensors, lines
    if task.profile.paths.l0c_to_gm is None or x.dtype not in (FLOAT16, BFLOAT16):
        raise task.refused(f"{task.profile.name} has no kernel for {x.dtype} by {weight.dtype}")
    weight = weight.packed(INT32) if weight.dtype is INT4 else weight
    if weight.dtype not in (INT8, INT32) or any(each is not None for each in others):
        raise task.refused(f"{x.dtype} by {weight.dtype}, or its results scaled, isn't modelled")
    if task.whole_number("group_type", _ROWS_SPLIT) != _ROWS_SPLIT or len(weight.shape) != 3:
        raise task.refused(f"a weight {weight.shape}, or groups of what is summed up")
    (m, k), (count, inner, n) = x.shape, weight.shape
    n *= _PACKED if weight.dtype is INT32 else 1
    if inner != k or weight.format is Format.FRACTAL_NZ or not n or (ends and ends.numel != count):
        raise task.refused(f"{x.shape} by {weight.shape} is no product")
    if factors is None or not _shared(factors.numel, k, count * n):
        raise task.refused(f"scales for {weight.shape}: of columns, or of groups of 32 rows")
    y = task.outputs[0] if task.outputs else made((m, n), x.dtype)
    lined = [each for each in (factors, shifts) if each is not None]
    unlike = any(each.dtype is not x.dtype or each.numel != factors.numel for each in lined)
    if y.shape != (m, n) or y.dtype is not x.dtype or unlike:
        raise task.refused(f"{y.shape} isn't the result, or scales aren't like offsets")
    if bias is not None and bias.numel != count * n:
        raise task.refused(f"a bias of {bias.numel} for {count} times {n} columns")
    lengths = group_lengths(task, ends, m, count)
    if ends is None:
        ends = made((count,), INT64, "ends")
        ends.buffer.data = np.cumsum(lengths, dtype=np.int64)
    groups, given = Groups(lengths, m, n, k), (factors, shifts, bias)
    return (GroupedWidenedMatMul(task.profile, x, weight, given, ends, y, groups),)


def _shared(scales: int, rows: int, columns: int) -> bool:
    """Whether scales are one for each column, or for each of some groups of rows."""
    lines, rest = divmod(scales, columns)
    if rest or not lines or rows % lines:
        return False
    return lines == 1 or rows // lines % _LEAST_GROUP == 0


def _in_fractals(task: Task, weight: GlobalTensor) -> tuple[tuple[Kernel, ...], GlobalTensor]:
    """The matrices in FRACTAL_NZ, and the task that makes them so."""
    shape = storage_shape(weight.shape, weight.dtype, Format.FRACTAL_NZ)
    blocks = replace(made(shape, weight.dtype, "weight_nz"), format=Format.FRACTAL_NZ)
    return kernels_on(Task(task.profile, "TransData", (weight,), (blocks,))), blocks


def _result_kind(x: GlobalTensor, scale: GlobalTensor | None) -> DType:
    if x.dtype is not INT8:
        return x.dtype
    return INT32 if scale is None else BFLOAT16 if scale.dtype is BFLOAT16 else FLOAT16


def _dequantised(
    task: Task,
    tensors: tuple[GlobalTensor, GlobalTensor, GlobalTensor],
    others: tuple[GlobalTensor | None, GlobalTensor | None, GlobalTensor | None],
    ends: GlobalTensor,
    groups: Groups,
    turned: tuple[bool, bool],
) -> tuple[Kernel, ...]:
    """Products of int8, by scales of columns of each group and perhaps of rows."""
    (x, weight, y), (scale, per_row, bias) = tensors, others
    if x.dtype is not INT8 or weight.dtype is not INT8 or groups.of_sums or turned[0]:
        raise task.refused(f"{x.dtype} times {weight.dtype} isn't modelled")
    if scale is None or scale.dtype not in (FLOAT, BFLOAT16) or bias is not None:
        raise task.refused("needs scales in FLOAT or BFLOAT16, and no bias")
    if y.dtype not in (FLOAT16, BFLOAT16):
        raise task.refused(f"results in {y.dtype} aren't modelled")
    if scale.numel != len(groups.lengths) * groups.n:
        raise task.refused(f"{scale.shape} for {len(groups.lengths)} groups of {groups.n} columns")
    if per_row is not None and (per_row.numel != groups.m or per_row.dtype is not FLOAT):
        raise task.refused(f"{per_row.shape} for {groups.m} rows")
    return (GroupedDequantMatMul(task.profile, x, weight, scale, per_row, ends, y, groups, turned),)


def _weight_turned(task: Task, x: GlobalTensor, weight: GlobalTensor, turned_a: bool) -> bool:
    """As the record says, or else as the shapes do."""
    said = task.attributes.get("transpose_weight")
    k = x.shape[0 if turned_a else 1]
    return bool(said) if said is not None else weight.shape[-2] != k and weight.shape[-1] == k
