"""What the aclnn functions of order do on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npusim.ops.sorting.places import compares
from npusim.ops.sorting.top_k import sorted_in
from npusim.values.dtypes import FLOAT, FLOAT16, INT32, INT64

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor
    from npusim.operators.host import Host

_FEW, _FIRST = 8, 32  # results that are looked for among the first ones, and how many those are


def ordered(
    host: Host, x: GlobalTensor, *, dim: int, descending: bool, stable: bool = False
) -> Any:
    """All numbers along an axis in order, and where they were; equal ones stay as they come."""
    del stable
    _say_of_halves(host, x, x.shape[dim] if x.shape else 1)
    outputs = host.empty(x.shape, x.dtype), host.empty(x.shape, INT64, "places")
    return host.run("Sort", x, axis=dim, descending=descending, outputs=outputs)


def first_ones(
    host: Host, x: GlobalTensor, *, k: int, dim: int, largest: bool, is_sorted: bool
) -> Any:
    """The k largest or smallest along an axis, in order, and where they were."""
    del is_sorted  # they come in order anyhow
    axis = dim % max(1, len(x.shape))
    wide = x if x.shape else x.view(1)
    shape = tuple(k if each == axis else size for each, size in enumerate(wide.shape))
    outputs = host.empty(shape, x.dtype), host.empty(shape, INT64, "places")
    if not k:
        return outputs
    _say_of_halves(host, x, k)
    if k < _FEW and axis == len(wide.shape) - 1:
        found = _first_few(host, wide, outputs, k, largest=largest)
    else:
        found = host.run("TopKV2", wide, k=k, dim=axis, largest=largest, outputs=outputs)
    return found if x.shape else tuple(each.view() for each in found)


def _say_of_halves(host: Host, x: GlobalTensor, count: int) -> None:
    if x.dtype is FLOAT and sorted_in(host.profile, x, count) is FLOAT16:
        host.assume(
            f"{host.profile.name} sorts float32 as float16: values come out rounded to it, and "
            "numbers that are alike then stay as they come"
        )


def _first_few(
    host: Host, x: GlobalTensor, outputs: tuple[GlobalTensor, ...], k: int, *, largest: bool
) -> tuple[GlobalTensor, ...]:
    """The first of the first 32, whose places are looked up.

    Source: ops-nn index/gather_elements/op_api/aclnn_topk.cpp.
    """
    values, places = outputs
    shape = (*x.shape[:-1], min(_FIRST, x.shape[-1]))
    first = host.empty(shape, x.dtype), host.empty(shape, INT32, "first")
    some, where = host.run("TopKV2", x, k=shape[-1], dim=-1, largest=largest, outputs=first)
    among = host.empty(places.shape, INT32, "among")
    few = (values, among)
    values, among = host.run("TopKV2", some, k=k, dim=-1, largest=largest, outputs=few)
    found = host.run("GatherElements", where, among, dim=-1)
    return values, host.cast(found, INT64)


def order(host: Host, x: GlobalTensor, *, dim: int, descending: bool) -> Any:
    """Where the numbers along an axis are, in order."""
    return ordered(host, x, dim=dim, descending=descending)[1]


def kth(host: Host, x: GlobalTensor, *, k: int, dim: int, keep: bool) -> Any:
    """The k-th smallest along an axis, and where it is."""
    axis = dim % max(1, len(x.shape))
    begin = [k - 1 if each == axis else 0 for each in range(len(x.shape))]
    size = [1 if each == axis else length for each, length in enumerate(x.shape)]
    found = ordered(host, x, dim=axis, descending=False)
    return tuple(
        host.run("Slice", each, offsets=begin, size=size).view(*_without(x, axis, keep=keep))
        for each in found
    )


def median_along(host: Host, x: GlobalTensor, *, dim: int, keep: bool) -> Any:
    """The middle number along an axis, the smaller one of two, and where it is."""
    return kth(host, x, k=(x.shape[dim] - 1) // 2 + 1, dim=dim, keep=keep)


def median(host: Host, x: GlobalTensor) -> Any:
    """The middle one of all numbers."""
    return median_along(host, x.view(x.numel), dim=0, keep=False)[0]


def number_median_along(host: Host, x: GlobalTensor, *, dim: int, keep: bool) -> Any:
    """The middle one of what are numbers along an axis, and where it is; NaN where none is.

    What is no number comes last in order, so the place follows from how many others there are.
    """
    axis = dim % max(1, len(x.shape))
    found = ordered(host, x, dim=axis, descending=False)
    if not x.dtype.is_float:
        return median_along(host, x, dim=axis, keep=keep)
    there = host.cast(host.run("Equal", x, x), FLOAT)
    count = host.run("ReduceSum", there, axes=[axis], keep_dims=True)
    half = host.together("Mul", host.together("Sub", count, 1.0, dtype=FLOAT), 0.5, dtype=FLOAT)
    place = host.together("Maximum", host.run("Floor", half), 0.0, dtype=FLOAT)
    index = host.cast(place, INT64)
    shape = _without(x, axis, keep=keep)
    return tuple(host.run("GatherElements", each, index, dim=axis).view(*shape) for each in found)


def number_median(host: Host, x: GlobalTensor) -> Any:
    """The middle one of all that are numbers."""
    return number_median_along(host, x.view(x.numel), dim=0, keep=False)[0]


def place_of_largest(host: Host, x: GlobalTensor, *, dim: int, keep: bool) -> Any:
    """Where the largest number along an axis is."""
    return host.run("ArgMaxV2", x, axis=dim, outputs=(_places(host, x, dim, keep=keep),))


def place_of_smallest(host: Host, x: GlobalTensor, *, dim: int, keep: bool) -> Any:
    """Where the smallest number along an axis is."""
    return host.run("ArgMin", x, axis=dim, outputs=(_places(host, x, dim, keep=keep),))


def largest_and_place(host: Host, x: GlobalTensor, *, dim: int, keep: bool) -> Any:
    """The largest number along an axis, and where it is."""
    return _with_place(host, "ArgMaxWithValue", x, dim, keep=keep)


def smallest_and_place(host: Host, x: GlobalTensor, *, dim: int, keep: bool) -> Any:
    """The smallest number along an axis, and where it is."""
    return _with_place(host, "ArgMinWithValue", x, dim, keep=keep)


def running_largest(host: Host, x: GlobalTensor, *, dim: int) -> Any:
    """The largest number up to each, and where it is."""
    return _running(host, "Cummax", x, dim)


def running_smallest(host: Host, x: GlobalTensor, *, dim: int) -> Any:
    """The smallest number up to each, and where it is."""
    return _running(host, "Cummin", x, dim)


def _running(host: Host, op_type: str, x: GlobalTensor, dim: int) -> Any:
    outputs = host.empty(x.shape, x.dtype), host.empty(x.shape, INT64, "places")
    return host.run(op_type, x, axis=dim, outputs=outputs)


def _with_place(host: Host, op_type: str, x: GlobalTensor, dim: int, *, keep: bool) -> Any:
    held = compares(host.profile, x.dtype) and x.dtype in (FLOAT, FLOAT16, INT64)
    wide = x if held else host.cast(x, FLOAT)
    shape = _without(x, dim, keep=keep)
    outputs = host.empty(shape, INT32, "places"), host.empty(shape, wide.dtype)
    places, found = host.run(op_type, wide, axis=dim, outputs=outputs)
    return host.cast(found, x.dtype), places


def _places(host: Host, x: GlobalTensor, dim: int, *, keep: bool) -> GlobalTensor:
    return host.empty(_without(x, dim, keep=keep), INT64, "places")


def _without(x: GlobalTensor, dim: int, *, keep: bool) -> tuple[int, ...]:
    """The shape without an axis, or with it as one element."""
    axis = dim % max(1, len(x.shape))
    return (*x.shape[:axis], *((1,) if keep and x.shape else ()), *x.shape[axis + 1 :])
