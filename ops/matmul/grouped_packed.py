"""What products of groups ask where weights are numbers of four bits, and of what comes out.

Source: hicann/ops-transformer gmm/grouped_matmul (docs of A2 and A3; op_api
aclnn_grouped_matmul.cpp, whose refusals return 161002, and which only warns of some rules).
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from npusim.operators.checks import sizes
from npusim.ops.matmul.grouped_fusions import stacked
from npusim.values.dtypes import BFLOAT16, FLOAT, FLOAT16, INT4, INT8, INT32, UINT64

if TYPE_CHECKING:
    from collections.abc import Iterator

    from npusim.ops.matmul.grouped_case import Grouping

_PACKED, _FLOATING = (INT4, INT32), (FLOAT16, BFLOAT16, FLOAT)
_GROUP, _MOST_K = 256, 18432  # rows of x in INT8 that share a scale; how long they are
_COLUMNS, _EVEN = 8, 2  # what N is a multiple of; and rows that share a scale where x is packed


def results(case: Grouping) -> Iterator[str]:
    """Dtypes of biases and results of products of floating numbers, which nothing follows."""
    lists = case.lists
    x, weight = lists.x[0].dtype, lists.weight[0].dtype
    if x not in _FLOATING:
        return
    bias = FLOAT if x is BFLOAT16 else x
    for name, found, wanted in (("biasOptional", lists.bias, bias), ("y", lists.y, x)):
        if any(each.dtype is not wanted for each in found):
            yield f"{name} should be {wanted.dt} for x in {x.dt}, but is {found[0].dtype.dt}."
    if act := case.number("actType", 0):
        pair = f"x in {x.dt} and weight in {weight.dt}"
        yield f"actType should be 0 for {pair}, but is {act}."


def tuned(case: Grouping) -> Iterator[str]:
    """The first entry of tuningConfig is a number of rows of x."""
    given = case.call.arguments.get("tuningConfigOptional")
    most = max((each.shape[0] for each in case.lists.x if each.rank), default=0)
    if isinstance(given, tuple) and given and not 0 <= given[0] <= most:
        yield f"tuningConfigOptional should begin with 0 to {most}, not {given[0]}."


def packed(case: Grouping) -> Iterator[str]:
    """Weights of four bits under x of eight or four."""
    x, weight = case.lists.x[0].dtype, case.lists.weight[0].dtype
    if weight not in _PACKED or x in _FLOATING:
        return
    if case.group_type != 0:
        yield f"groupType should be 0 for weights in {weight.dt}, but is {case.group_type}."
    if case.lists.factors or case.lists.shifts:
        yield f"x in {x.dt} and weight in {weight.dt} take no antiquant scales and offsets."
    yield from _alike(case) if x in _PACKED else _widened(case) if x is INT8 else ()


def _alike(case: Grouping) -> Iterator[str]:
    """x of four bits too: scales for each column, or for groups of an even number of rows."""
    lists = case.lists
    counts = [len(each) for each in (lists.x, lists.weight, lists.y)]
    if max(counts) > 1:
        yield f"x in INT4 takes one x, weight and y, not {counts}."
    if lists.bias or lists.offset:
        yield "x in INT4 takes neither biasOptional nor offsetOptional."
    for each in lists.y:
        if each.dtype not in (FLOAT16, BFLOAT16):
            yield f"y should be DT_FLOAT16 or DT_BFLOAT16 for x in INT4, but is {each.dtype.dt}."
    if not lists.scale or lists.scale[0].dtype is not UINT64:
        yield "x in INT4 needs scaleOptional in DT_UINT64."
    if any(each.dtype is not FLOAT for each in lists.per_row):
        yield "perTokenScaleOptional should be DT_FLOAT."
    scale, (count, k, n) = lists.scale[0], stacked(lists.weight)
    parts = scale.shape[1] if scale.rank == 3 else 1
    if scale.shape not in ((count, n), (count, parts, n)) or n % _COLUMNS:
        yield (
            f"scaleOptional should be [{count}, N] or [{count}, G, N] with N {n} a multiple of "
            f"{_COLUMNS}, but has sizes {sizes(scale.shape)}."
        )
    if scale.rank == 3 and (not parts or k % parts or k // parts % _EVEN):
        yield f"{parts} groups should divide k {k} into groups of an even size."


def _widened(case: Grouping) -> Iterator[str]:
    """x of eight bits with an offset: all else has its one shape."""
    lists = case.lists
    if not _is_shifted(case):
        return
    count, _, n = stacked(lists.weight)
    if any(each.dtype is not FLOAT16 for each in lists.y):
        yield f"y should be DT_FLOAT16 with offsetOptional, but is {lists.y[0].dtype.dt}."
    wanted = (
        ("offsetOptional", lists.offset, FLOAT, (count, 1, n)),
        ("biasOptional", lists.bias, FLOAT, (count, n)),
        ("scaleOptional", lists.scale, UINT64, (count, 1, n)),
    )
    for name, found, kind, shape in wanted:
        if not found or found[0].dtype is not kind or found[0].shape != shape:
            said = f"{found[0].dtype.dt}{sizes(found[0].shape)}" if found else "null"
            yield f"{name} should be {kind.dt}{sizes(shape)} with an offset, but is {said}."
    if not lists.per_row or lists.per_row[0].dtype is not FLOAT:
        yield "perTokenScaleOptional should be DT_FLOAT with offsetOptional."


def _is_shifted(case: Grouping) -> bool:
    """Whether the offset is one that the host code knows: else it only warns."""
    count, _, n = stacked(case.lists.weight)
    return any(each.shape == (count, 1, n) for each in case.lists.offset)


def on_page(case: Grouping) -> Iterator[str]:
    """What the page says of x in INT8 and weights of four bits, where the host code only warns."""
    x, weight = case.lists.x[0].dtype, case.lists.weight[0].dtype
    if x is INT8 and weight in _PACKED:
        for found in chain(_by_page(case), _turned(case)):
            yield f"{found} The host code of CANN warns of it and goes on."


def _by_page(case: Grouping) -> Iterator[str]:
    lists, (count, k, n) = case.lists, stacked(case.lists.weight)
    one = len(lists.weight) == 1
    if not lists.bias or lists.bias[0].dtype is not FLOAT:
        yield "biasOptional is needed, in DT_FLOAT."
    elif lists.bias[0].shape != ((count, n) if one else (n,)):
        yield f"biasOptional {sizes(lists.bias[0].shape)} should be {sizes((count, n))}."
    if not lists.scale or lists.scale[0].dtype is not UINT64:
        yield "scaleOptional is needed, in DT_UINT64."
    if not lists.per_row or lists.per_row[0].dtype is not FLOAT:
        yield "perTokenScaleOptional is needed, in DT_FLOAT."
    elif lists.per_row[0].shape[:1] != lists.x[0].shape[:1]:
        yield f"perTokenScaleOptional {sizes(lists.per_row[0].shape)} has no number for each row."
    if act := case.number("actType", 0):
        yield f"actType should be 0, but is {act}."
    if any(each.dtype not in (FLOAT16, BFLOAT16) for each in lists.y):
        yield f"y should be DT_FLOAT16 or DT_BFLOAT16, not {lists.y[0].dtype.dt}."
    if lists.offset:
        return
    if k % _GROUP or k > _MOST_K or n % _COLUMNS:
        yield (f"k {k} should be a multiple of {_GROUP} to {_MOST_K}, n {n} one of {_COLUMNS}.")
    outer = (count,) if one else ()
    if lists.scale and lists.scale[0].shape != (*outer, k // _GROUP, n):
        wanted = sizes((*outer, k // _GROUP, n))
        yield f"scaleOptional should be {wanted}, but has sizes {sizes(lists.scale[0].shape)}."
    if case.number("groupListType", 1) != 1:
        yield "groupListType is taken for 1."


def _turned(case: Grouping) -> Iterator[str]:
    both = (*case.lists.x, *case.lists.weight)
    if any(each.is_turned and not each.is_in_blocks for each in both):
        yield "x and weight aren't turned where weights have four bits."
