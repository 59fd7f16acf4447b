"""What the aclnn functions do on the host where data decide: indices, masks, repetitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy import broadcast_shapes

from npusim.ops.indexing.host import number_scattered, rows_added, scattered
from npusim.values.dtypes import BOOL, FLOAT, INT32, INT64
from npusim.values.errors import KernelError, RefusedTaskError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npusim.ascendc import GlobalTensor
    from npusim.operators.host import Host, ScalarValue
    from npusim.values.dtypes import DType


def _room(host: Host, name: str, shape: Sequence[int], kind: DType) -> GlobalTensor:
    """A result as large as the caller's tensor, by default as large as it can get."""
    told = host.told(name)
    return host.empty(told.shape if told else shape, kind, name)


def places(host: Host, x: GlobalTensor) -> Any:
    """The place of every element that isn't zero, a row each."""
    out = _room(host, "out", (x.numel, max(1, len(x.shape))), INT64)
    return host.run("NonZero", x, outputs=(out,), transpose=False)


def places_in_columns(host: Host, x: GlobalTensor) -> Any:
    """The place of every element that isn't zero, a column each."""
    out = _room(host, "out", (max(1, len(x.shape)), x.numel), INT64)
    return host.run("NonZero", x, outputs=(out,), transpose=True)


def masked(host: Host, x: GlobalTensor, mask: GlobalTensor) -> Any:
    """The elements that a mask is true for; there is room for all of them."""
    told = host.told("out")
    size = told.numel if told else max(x.numel, mask.numel)
    return host.run("MaskedSelectV3", x, mask, outputs=(host.empty((size,), x.dtype),))


def put_by_mask(host: Host, x: GlobalTensor, mask: GlobalTensor, source: GlobalTensor) -> Any:
    """The next element of a source wherever a mask is true."""
    if mask.dtype is not BOOL:
        mask = host.cast(mask, BOOL)
    return host.run("MaskedScatter", x, mask, source, outputs=(host.empty(x.shape, x.dtype),))


def different(
    host: Host, x: GlobalTensor, *, is_sorted: bool = True, inverse: bool = False,
    counts: bool = True, axis: int | None = None, op_type: str = "UniqueWithCountsExt2",
) -> Any:  # fmt: skip
    """The different rows (or numbers), which of them each one is, and how many there are."""
    del is_sorted, inverse, counts
    rank = len(x.shape)
    axis = axis % rank if axis is not None and -rank <= axis < rank and rank else None
    length = x.numel if axis is None else x.shape[axis]
    outputs = (
        _room(host, "valueOut", (x.numel,) if axis is None else x.shape, x.dtype),
        _room(host, "inverseOut", (length,), INT64),
        _room(host, "countsOut", (length,), INT64),
    )
    return host.run(op_type, x, outputs=outputs, axis=axis)


def different_numbers(host: Host, x: GlobalTensor, *, is_sorted: bool, inverse: bool) -> Any:
    """The different numbers, and which of them each one is."""
    return different(host, x, is_sorted=is_sorted, inverse=inverse)[:2]


def runs(host: Host, x: GlobalTensor, *, inverse: bool, counts: bool, axis: int) -> Any:
    """What differs from what is in front of it; of all numbers in a row for an axis that isn't."""
    along = axis if -len(x.shape) <= axis < len(x.shape) else None
    return different(host, x, inverse=inverse, counts=counts, axis=along,
                     op_type="UniqueConsecutive")  # fmt: skip


def _in_front(
    host: Host, x: GlobalTensor, indices: Sequence[GlobalTensor]
) -> tuple[GlobalTensor, list[GlobalTensor], list[int], list[int]]:
    """x with the indexed axes in front, the lists that index them, those axes, and the others."""
    there = [axis for axis, each in enumerate(indices) if each.numel]
    if not there:
        raise RefusedTaskError("Index", "no axis is indexed")
    if any(each.dtype is BOOL for each in indices):
        raise KernelError(
            "Index", "masks among the indices are turned into places by NonZero first"
        )
    rest = [axis for axis in range(len(x.shape)) if axis not in there]
    if there + rest != sorted(there + rest):
        x = host.run("Transpose", x, perm=there + rest)
    return x, [indices[axis] for axis in there], there, rest


def _sizes(host: Host, count: int) -> tuple[GlobalTensor, GlobalTensor]:
    """The two tensors by which a kernel knows the indexed axes: here the first ones."""
    return host.constant([1] * count, INT64, "sizes"), host.constant([1], INT64, "strides")


def indexed(host: Host, x: GlobalTensor, indices: Sequence[GlobalTensor]) -> Any:
    """Elements at places along some axes, whole along the others."""
    turned, lists, there, rest = _in_front(host, x, indices)
    shape = broadcast_shapes(*(each.shape for each in lists))
    out = host.empty((*shape, *(x.shape[axis] for axis in rest)), x.dtype)
    found = host.run("Index", turned, *_sizes(host, len(lists)), *lists, outputs=(out,))
    at = there[0] if there == list(range(there[0], there[0] + len(there))) else 0
    if not at:
        return found
    count = len(shape)
    order = [*range(count, count + at), *range(count), *range(count + at, len(found.shape))]
    return host.run("Transpose", found, perm=order)


def indices_put(
    host: Host, x: GlobalTensor, indices: Sequence[GlobalTensor], values: GlobalTensor, *,
    accumulate: bool, is_unsafe: bool = False,
) -> Any:  # fmt: skip
    """Values put at places along some axes, or added to what is there.

    In place: one kernel, and none beside it where nothing is to be spread.
    """
    del is_unsafe
    turned, lists, there, rest = _in_front(host, x, indices)
    if there != list(range(len(there))):
        raise KernelError("IndexPutV2", "places along other than the first axes aren't modelled")
    shape = broadcast_shapes(*(each.shape for each in lists))
    wanted = (*shape, *(x.shape[axis] for axis in rest))
    if values.shape != wanted:
        values = host.run("BroadcastTo", values, shape=list(wanted))
    found = host.own(turned)
    host.run("IndexPutV2", found, values, *_sizes(host, len(lists)), *lists, outputs=(found,),
             accumulate=accumulate)  # fmt: skip
    return found


def rows_added_by(
    host: Host, x: GlobalTensor, index: GlobalTensor, source: GlobalTensor, *,
    dim: int, alpha: ScalarValue = 1, mode: int = 0,
) -> Any:  # fmt: skip
    """Rows added to a copy; both modes, precise and fast, are one sum here."""
    del mode
    return rows_added(host, x, index, source, dim=dim, alpha=alpha)


def filled_rows(
    host: Host, x: GlobalTensor, index: GlobalTensor, *, dim: int, value: ScalarValue
) -> Any:
    """One number in every row along an axis that is named."""
    number = host.constant(value, x.dtype)
    out = host.empty(x.shape, x.dtype)
    return host.run("IndexFill", x, index, number, outputs=(out,), axis=dim)


def filled_places(
    host: Host, x: GlobalTensor, *, dim: int, index: Sequence[int], value: ScalarValue
) -> Any:
    """One number in every row along an axis that the host names."""
    return filled_rows(host, x, host.constant(list(index), INT64), dim=dim, value=value)


def repeated(
    host: Host, x: GlobalTensor, counts: GlobalTensor, *, size: int, dim: int | None = None
) -> Any:
    """Rows along an axis as often as they say; of all numbers in a row without one."""
    if dim is None:
        x, dim = x.view(x.numel), 0
    axis = dim % max(1, len(x.shape))
    order = [axis, *(each for each in range(len(x.shape)) if each != axis)]
    turned = host.run("Transpose", x, perm=order) if axis else x
    out = host.empty((size, *turned.shape[1:]), x.dtype)
    found = host.run("RepeatInterleave", turned, counts, outputs=(out,))
    if not axis:
        return found
    return host.run("Transpose", found, perm=[order.index(each) for each in range(len(order))])


def places_repeated(host: Host, counts: GlobalTensor, *, size: int) -> Any:
    """The place of each count, as often as it says."""
    limits = (host.constant(each, FLOAT) for each in (0, counts.numel, 1))
    places = host.run("Range", *limits, outputs=(host.empty((counts.numel,), FLOAT),))
    return repeated(host, host.cast(places, counts.dtype), counts, size=size)


def value_scattered(
    host: Host, x: GlobalTensor, index: GlobalTensor, *, dim: int, value: ScalarValue, reduce: int
) -> Any:
    """One number at every place that is named, in a copy."""
    return number_scattered(host, x, index, dim=dim, value=value, reduce=reduce)


def reduced_by_places(
    host: Host, x: GlobalTensor, index: GlobalTensor, source: GlobalTensor, *,
    dim: int, reduce: int, include: bool,
) -> Any:  # fmt: skip
    """Elements added to what is at their places, which is all that these products do."""
    del include
    return scattered(host, x, index, source, dim=dim, reduce=reduce)


def bags(
    host: Host, weight: GlobalTensor, indices: GlobalTensor, offsets: GlobalTensor,
    shares: GlobalTensor | None = None, *, by_frequency: bool, mode: int, is_sparse: bool,
    last: bool, padding: int,
) -> Any:  # fmt: skip
    """Sums, means or largest elements of the rows of every bag."""
    del by_frequency, is_sparse
    count = max(0, offsets.numel - last)
    shape = (count, weight.shape[1])
    places = shape if mode == 2 else (count,)
    outputs = (
        host.empty(shape, weight.dtype), host.empty((indices.numel,), indices.dtype, "of"),
        host.empty((count,), indices.dtype, "sizes"), host.empty(places, indices.dtype, "largest"),
    )  # fmt: skip
    return host.run("EmbeddingBag", weight, indices, offsets, shares, outputs=outputs, mode=mode,
                    padding_idx=padding, include_last_offset=last)  # fmt: skip


def renormed(host: Host, x: GlobalTensor, *, p: ScalarValue, dim: int, most: ScalarValue) -> Any:
    """Slices along an axis scaled down to a norm where theirs is larger."""
    if p.real <= 0:
        raise RefusedTaskError("Renorm", f"p should be above 0, but is {p.real}")
    told: dict[str, Any] = {"p": float(p.real), "dim": dim, "maxnorm": float(most.real)}
    spread = host.run("BroadcastTo", host.run("Renorm", x, **told), shape=list(x.shape))
    return host.run("Mul", x, spread)


def rows_renormed(
    host: Host, x: GlobalTensor, indices: GlobalTensor, *, most: float, power: float
) -> Any:
    """The rows that indices name, scaled down to a norm where theirs is larger."""
    if power <= 0:
        raise RefusedTaskError("Renorm", f"normType should be above 0, but is {power}")
    places = indices.view(indices.numel)
    rows = host.run("GatherV2", x, places, axis=0)
    shrinks = host.run("Renorm", rows, p=power, dim=0, maxnorm=most)
    limits = (host.constant(each, FLOAT) for each in (0, places.numel, 1))
    in_order = host.run("Range", *limits, outputs=(host.empty((places.numel,), FLOAT),))
    order = host.cast(in_order, INT32)
    shrunk = host.run("Mul", rows, host.run("GatherV2", shrinks, order, axis=0))
    found = host.own(x)
    host.run("ScatterUpdate", found, places, shrunk, outputs=(found,))
    return found
