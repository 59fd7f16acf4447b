"""What products of groups ask of their lists: how they are split, sizes, dtypes and scales.

Source: hicann/ops-transformer gmm/grouped_matmul/op_host/op_api/aclnn_grouped_matmul.cpp, whose
refusals all return 161002.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from npusim.operators.checks import invalid, sizes
from npusim.ops.matmul.checks import LONGEST_AXIS, matrix_sizes
from npusim.ops.matmul.grouped_case import BY_TENSOR, EACH, ROWS, SUMS, Grouping
from npusim.ops.matmul.grouped_packed import on_page, packed, results, tuned
from npusim.values.dtypes import BFLOAT16, FLOAT, FLOAT16, INT4, INT8, INT32, INT64, UINT64
from npusim.values.formats import Format

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from npusim.operators.contract import Call, Check, Finding
    from npusim.values.tensors import TensorSpec

_MOST_TENSORS, _MOST_GROUPS = 128, 1024  # of a list; in groupList as a tensor
_SPARSE = 2  # groupListType: pairs of a group and its rows
_GELU_ERR, _ACTIVATIONS = 3, 6  # actType that isn't offered; how many there are
_BLOCKS = {INT8: (16, 32), INT4: (16, 64), INT32: (16, 64)}  # k and n of weights in FRACTAL_NZ
_HALVES = (FLOAT16, BFLOAT16)


def grouped(*names: tuple[str, ...], version: int) -> Check:
    """161002 for lists that are no products of groups; `names` in the order of :class:`Lists`."""

    def test(call: Call) -> Finding:
        case = Grouping.of(call, version, *names)
        if not case.lists.x or not case.lists.weight:
            return "x and weight should have tensors."
        for rule in (_numbers, tuned, _formats, _dtypes, results, packed, _shapes, _lines):
            found = next(rule(case), None)
            if found:
                return found
        return None

    return invalid("the lists aren't those of products of groups", test)


def grouped_as_on_page(*names: tuple[str, ...], version: int) -> Check:
    """161002 for lists that the page doesn't take and the host code does, with a warning."""

    def test(call: Call) -> Finding:
        return next(on_page(Grouping.of(call, version, *names)), None)

    return invalid("x in INT8 and weights of four bits aren't as on the page", test)


def _numbers(case: Grouping) -> Iterator[str]:
    """What the numbers of the call may be."""
    kind, split, told = case.group_type, case.split_item, case.told
    counts = {name: len(getattr(case.lists, name)) for name in ("x", "weight", "y")}
    if case.call.profile.family == "310P" and case.version < BY_TENSOR:
        yield "Only aclnnGroupedMatmulV3 and later ones are supported on Ascend310P."
    for name in ("x", "weight"):
        if counts[name] > _MOST_TENSORS:
            yield f"{name} should have at most {_MOST_TENSORS} tensors, but has {counts[name]}."
    if kind not in (EACH, ROWS, SUMS):
        yield f"groupType should be -1, 0 or 2, but is {kind}."
    if split in (2, 3) and kind == EACH and case.version > 1:
        yield "When splitItem is 2 or 3, groupType can not be -1."
    y_is_one = counts["y"] == 1 and kind != EACH
    if counts["y"] and kind != SUMS and split not in ((2, 3) if y_is_one else (0, 1)):
        wanted = "2 or 3 where y is one tensor" if y_is_one else "0 or 1 where y is a list"
        yield f"splitItem should be {wanted}, but is {split}."
    if case.call.profile.family == "310P" and (set(counts.values()) - {0, 1} or kind != ROWS):
        yield "Ascend310P takes one x, weight and y, with groupType 0."
    listed = case.number("groupListType", 0)
    if listed not in (0, 1, _SPARSE) or (listed == _SPARSE and kind != ROWS):
        yield f"groupListType should be 0, 1 or, for groupType 0, 2, but is {listed}."
    act = case.number("actType", 0)
    if not 0 <= act < _ACTIVATIONS or act == _GELU_ERR:
        yield f"actType should be 0, 1, 2, 4 or 5, but is {act}."
    yield from _told(case, told, kind, listed)


def _told(
    case: Grouping, told: tuple[int, ...] | TensorSpec | None, kind: int, listed: int
) -> Iterator[str]:
    """Where groups end, as numbers or as a tensor of them."""
    x, weight, y = case.lists.x, case.lists.weight, case.lists.y
    count = len(x) if kind == EACH or len(x) > 1 else len(weight)
    if kind == ROWS and count == 1 and weight[0].rank > 2:
        count = weight[0].shape[0]
    if kind == SUMS:
        count = y[0].shape[0] if len(y) == 1 and y[0].rank == 3 else 1
    if told is None:
        if (kind == ROWS and len(x) == 1) or kind == SUMS:
            yield "groupListOptional is required in this case, but got nullptr."
    elif isinstance(told, tuple):
        yield from _as_numbers(case, told, kind, count)
    else:
        yield from _as_tensor(told, listed, count)


def _as_numbers(case: Grouping, told: tuple[int, ...], kind: int, count: int) -> Iterator[str]:
    """Ends of groups, the last that of all rows."""
    x, y = case.lists.x, case.lists.y
    if kind == EACH and case.version > 1:
        yield "groupListOptional should be nullptr when groupType is -1."
    if not told or len(told) > _MOST_TENSORS:
        yield f"groupListOptional should have 1 to {_MOST_TENSORS} entries, not {len(told)}."
    if told[0] < 0 or any(after < before for before, after in pairwise(told)):
        yield f"groupListOptional {sizes(told)} should be non-negative and ascending."
    if count > 1 and len(told) != count:
        yield f"groupListOptional should have {count} entries, but has {len(told)}."
    axis = 1 if kind == SUMS else 0
    rows = x[0].shape[axis] if len(x) == 1 and x[0].rank > axis else told[-1]
    if kind != EACH and len(y) < 2 and told[-1] != rows:
        yield f"The last entry of groupListOptional should be {rows}, but is {told[-1]}."


def _as_tensor(told: TensorSpec, listed: int, count: int) -> Iterator[str]:
    """Numbers that only the device knows."""
    if told.rank != (2 if listed == _SPARSE else 1):
        yield f"groupListOptional has {told.rank} dimensions with groupListType {listed}."
    if told.dtype is not INT64:
        yield f"Only int64 is supported for groupListOptional, not {told.dtype.dt}."
    if not 1 <= told.shape[0] <= _MOST_GROUPS:
        yield f"groupListOptional has 1 to {_MOST_GROUPS} groups, but {told.shape[0]}."
    if count > 1 and told.shape[0] != count:
        yield f"groupListOptional should have {count} groups, but has {told.shape[0]}."


def _formats(case: Grouping) -> Iterator[str]:
    """Weights in FRACTAL_NZ are whole blocks."""
    for spec in case.lists.weight:
        if spec.format is not Format.FRACTAL_NZ or spec.is_in_blocks or spec.rank < 2:
            continue
        k, n = matrix_sizes(spec, turned=False)
        by_k, by_n = _BLOCKS.get(spec.dtype, (16, 16))
        if spec.is_turned:
            by_k, by_n = by_n, by_k
        if k % by_k or n % by_n:
            yield f"A weight in FRACTAL_NZ should have k % {by_k} and n % {by_n} 0, not {k}, {n}."


def _dtypes(case: Grouping) -> Iterator[str]:
    """Which dtypes go together, and which scales they need."""
    lists, x, weight = case.lists, case.lists.x[0].dtype, case.lists.weight[0].dtype
    quant, widened = any((lists.scale, lists.offset, lists.per_row)), lists.factors or lists.shifts
    pair = f"x in {x.dt} and weight in {weight.dt}"
    if x in (FLOAT16, BFLOAT16, FLOAT) and weight is x:
        if x is FLOAT and case.version == 1:
            yield f"{pair} aren't supported."
        if quant or widened:
            yield f"{pair} need no scales and offsets."
    elif x in _HALVES and weight in (INT8, INT4, INT32):
        if case.group_type == SUMS:
            yield f"{pair} don't go with groupType 2."
        if not lists.factors or not lists.shifts:
            yield f"{pair} need antiquantScaleOptional and antiquantOffsetOptional."
        if quant or any(each.dtype is not x for each in (*lists.factors, *lists.shifts)):
            yield f"{pair} need antiquant scales and offsets in {x.dt}, and no others."
    elif x is weight is INT8:
        yield from _quant(case)
    elif not (x in (INT8, INT4, INT32) and weight in (INT4, INT32)):
        yield f"{pair} don't go together."
    if case.call.profile.family == "310P" and (x is not FLOAT16 or weight is not FLOAT16):
        yield "Only float16 is supported on Ascend310P."


def _quant(case: Grouping) -> Iterator[str]:
    """Products of int8: scales, by the dtype of the result."""
    lists = case.lists
    y = lists.y[0].dtype if lists.y else None
    if y is INT32 or y is None:
        return
    if y not in (INT8, BFLOAT16, FLOAT16):
        yield f"y in {y.dt} isn't INT8, INT32, FLOAT16 or BFLOAT16."
    if any(each.dtype not in (INT32, BFLOAT16) for each in lists.bias):
        yield "biasOptional should be INT32 or BFLOAT16."
    if case.group_type == SUMS or lists.offset or not lists.scale or lists.factors:
        yield "x and weight in INT8 need scaleOptional, no other scales, and no groupType 2."
    by_column = {INT8: (INT64, UINT64), BFLOAT16: (BFLOAT16,), FLOAT16: (FLOAT,)}
    for each in lists.scale:
        if each.dtype not in by_column[y] or (lists.per_row and y is INT8):
            wanted = " or ".join(kind.dt for kind in by_column[y])
            yield f"scaleOptional should be {wanted} for y in {y.dt}, but is {each.dtype.dt}."
    if any(each.dtype is not FLOAT for each in lists.per_row):
        yield "perTokenScaleOptional should be FLOAT."


def _shapes(case: Grouping) -> Iterator[str]:
    """Rows and columns that fit, and axes that aren't too long."""
    lists, kind = case.lists, case.group_type
    x, weight, y = lists.x, lists.weight, lists.y
    if any(each.is_in_blocks for each in weight):
        return
    apart = len(weight) > 1 or kind == EACH
    axes = 2 if apart or kind == SUMS else 3
    if wrong := next((each for each in weight if each.rank != axes), None):
        yield f"weight should have {axes} dimensions here, but has sizes {sizes(wrong.shape)}."
    if kind == EACH and not len(x) == len(weight) == (len(y) or len(x)):
        yield f"{len(x)} tensors of x, {len(weight)} of weight and {len(y)} of y don't fit."
    if (kind == ROWS and len(x) not in (1, len(weight))) or (kind == SUMS and len(x) > 1):
        yield f"{len(x)} tensors of x don't go with {len(weight)} of weight and groupType {kind}."
    if kind == ROWS and len(y) > 1 and (len(weight) != len(y) or case.version >= BY_TENSOR):
        yield f"{len(y)} tensors of y don't go with {len(weight)} of weight and groupType 0."
    for each in x:
        if not 2 <= each.rank <= (6 if kind == EACH else 2):
            yield f"x has sizes {sizes(each.shape)}: too few or too many dimensions."
    if kind == SUMS:
        yield from _summed(case)
        return
    yield from _rows(case)


def _rows(case: Grouping) -> Iterator[str]:
    """Rows of x, each group of them with its matrix."""
    x, weight, y = case.lists.x, case.lists.weight, case.lists.y
    for place, matrix in enumerate(weight):
        rows = x[place if len(x) > 1 else 0]
        inner, n = matrix_sizes(matrix, turned=False)
        k = matrix_sizes(rows, turned=False)[1]
        if k != inner:
            yield f"x {sizes(rows.shape)} and weight {sizes(matrix.shape)} have another k."
        if rows.shape[-1] > LONGEST_AXIS or (not matrix.is_turned and n > LONGEST_AXIS):
            yield f"k and n should be at most {LONGEST_AXIS}, not {k} and {n}."
        if matrix.dtype is INT4 and matrix.shape[-1] % 2:
            yield f"weight {sizes(matrix.shape)} of int4 should be of even length."
        for result in y[place : place + 1] if len(y) > 1 else y:
            if result.shape[-1] != n or result.rank != rows.rank:
                yield f"y {sizes(result.shape)} isn't {n} columns for each row of x."
    totals = [sum(each.shape[0] for each in group if each.rank) for group in (x, y)]
    if y and totals[0] != totals[1]:
        yield f"y has {totals[1]} rows, x {totals[0]}."


def _summed(case: Grouping) -> Iterator[str]:
    """Groups of what is summed up: x lies turned."""
    x, weight = case.lists.x[0], case.lists.weight[0]
    if case.lists.bias:
        yield "When groupType is 2, bias must be empty."
    if not x.is_turned and min(x.shape) > 1:
        yield "When groupType is 2, x should be transposed: a view of turned memory."
    if len(case.lists.weight) > 1:
        return
    if x.shape[1] != weight.shape[0] or max(x.shape[0], weight.shape[1]) > LONGEST_AXIS:
        yield f"x {sizes(x.shape)} and weight {sizes(weight.shape)} are no product."
    for y in case.lists.y[:1] if len(case.lists.y) == 1 else ():
        if y.rank != 3 or y.shape[1:] != (x.shape[0], weight.shape[1]):
            yield f"y {sizes(y.shape)} isn't [groups, {x.shape[0]}, {weight.shape[1]}]."


def _lines(case: Grouping) -> Iterator[str]:
    """Biases and scales of columns, of every group; scales of rows."""
    lists = case.lists
    weight, x = lists.weight, lists.x
    if weight[0].is_in_blocks or weight[0].rank < 2 or x[0].dtype in (INT4, INT32):
        return
    packed = weight[0].dtype in (INT4, INT32)
    if packed and x[0].dtype is INT8:
        return
    for name, lines in (("biasOptional", lists.bias), ("scaleOptional", lists.scale),
        ("antiquantScaleOptional", lists.factors),
        ("antiquantOffsetOptional", lists.shifts)):  # fmt: skip
        yield from _columns(name, lines, weight, by_group=packed and "anti" in name)
    for line in lists.per_row:
        if len(lists.per_row) > 1 or len(x) > 1 or line.shape != x[0].shape[:1]:
            wanted = sizes(x[0].shape[:1])
            yield f"perTokenScaleOptional should be {wanted}, not {sizes(line.shape)}."


def _columns(
    name: str, lines: Sequence[TensorSpec], weight: Sequence[TensorSpec], *, by_group: bool
) -> Iterator[str]:
    if lines and len(lines) != len(weight):
        yield f"{name} should have {len(weight)} tensors, but has {len(lines)}."
    for line, matrix in zip(lines, weight, strict=False):
        k, n = matrix_sizes(matrix, turned=False)
        outer, inner = line.shape[:-1], line.shape[-1:]
        whole = matrix.shape[:-2]
        shared = by_group and len(outer) == len(whole) + 1 and outer[-1] and k % outer[-1] == 0
        if inner != (n,) or (outer[:-1] if shared else outer) != whole:
            yield f"{name} should be {sizes((*whole, n))}, but has sizes {sizes(line.shape)}."
