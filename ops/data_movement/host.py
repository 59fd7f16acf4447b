"""What the aclnn functions that cut, join and turn tensors do on the host."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

from npusim.ascendc import GlobalTensor
from npusim.values.dtypes import FLOAT
from npusim.values.errors import KernelError, RefusedTaskError
from npusim.values.tensors import contiguous_strides

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npusim.operators.host import Host


def split_evenly(host: Host, x: GlobalTensor, *, size: int, dim: int) -> Any:
    """Parts of one size along an axis; the last one may be shorter."""
    if size < 1:
        raise RefusedTaskError("SplitV", f"splitSections should be at least 1, but is {size}")
    length = x.shape[dim]
    sizes = [min(size, length - first) for first in range(0, length, size)]
    return split_into(host, x, sizes=sizes, dim=dim)


def split_into(host: Host, x: GlobalTensor, *, sizes: Sequence[int], dim: int) -> Any:
    """Parts along an axis."""
    axis = dim % max(1, len(x.shape))
    if sum(sizes) != x.shape[axis]:
        raise RefusedTaskError("SplitV", f"{list(sizes)} don't make up {x.shape[axis]}")
    if len(sizes) == 1:
        return host.run("TensorMove", x)
    return host.run("SplitV", x, split_dim=axis, size_splits=list(sizes), num_split=len(sizes))


def sliced(host: Host, x: GlobalTensor, *, dim: int, start: int, end: int, step: int) -> Any:
    """Every n-th element of a stretch of an axis."""
    return cut(host, x, starts=[start], ends=[end], axes=[dim], steps=[step])


def cut(
    host: Host,
    x: GlobalTensor,
    *,
    starts: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int],
    steps: Sequence[int],
) -> Any:
    """Every n-th element of stretches of some axes."""
    rank = len(x.shape)
    if axes and not rank:
        raise RefusedTaskError("StridedSlice", "a number has no axis to cut")
    begin, end, strides = [0] * rank, list(x.shape), [1] * rank
    for first, last, axis, step in zip(starts, ends, axes, steps, strict=True):
        place = range(*slice(first, last, step).indices(x.shape[axis]))
        begin[axis], end[axis], strides[axis] = place.start, place.stop, place.step
    return host.run("StridedSlice", x, begin=begin, end=end, strides=strides)


def copied(host: Host, target: GlobalTensor, source: GlobalTensor) -> Any:
    """The source in the target's dtype and shape."""
    value = host.cast(source, target.dtype)
    if value.shape != target.shape:
        return host.run("BroadcastTo", value, shape=list(target.shape))
    return value if value is not source else host.run("TensorMove", value)


def flattened(host: Host, x: GlobalTensor, *, axis: int) -> Any:
    """A matrix of what is in front of an axis and what is from it on."""
    place = axis % max(1, len(x.shape)) if axis < len(x.shape) else axis
    rows = prod(x.shape[:place])
    return host.run("TensorMove", x.view(rows, prod(x.shape[place:])))


def channels_shuffled(host: Host, x: GlobalTensor, *, groups: int) -> Any:
    """Channels of all groups in turn."""
    count, channels, *rest = x.shape
    if groups < 1 or channels % groups:
        problem = f"groups should divide {channels} channels, but is {groups}"
        raise RefusedTaskError("Transpose", problem)
    grouped = x.view(count, groups, channels // groups, prod(rest))
    return host.run("Transpose", grouped, perm=[0, 2, 1, 3]).view(*x.shape)


def repeated(host: Host, x: GlobalTensor, *, repeats: int, dim: int | None = None) -> Any:
    """Every element so often, along an axis or of all in a row."""
    shape = (x.numel,) if dim is None else x.shape
    axis = (dim or 0) % max(1, len(shape))
    outer, size, inner = prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])
    spread = host.run(
        "BroadcastTo", x.view(outer, size, 1, inner), shape=[outer, size, repeats, inner]
    )
    return spread.view(*shape[:axis], size * repeats, *shape[axis + 1 :])


def diagonal(host: Host, x: GlobalTensor, *, offset: int) -> Any:
    """The diagonal of a matrix, or a matrix of zeros with a row as its diagonal."""
    if len(x.shape) == 1:
        return diagonal_of(host, x, offset=offset)
    rows, columns = x.shape
    view = _diagonal(x, rows, columns, offset)
    return host.run("AsStrided", view, outputs=(host.empty(view.shape, x.dtype),))


def diagonal_of(host: Host, x: GlobalTensor, *, offset: int) -> Any:
    """A matrix of zeros with all elements as its diagonal."""
    size = x.numel + abs(offset)
    zeros = host.run("Fill", value=0.0, outputs=(host.empty((size, size), x.dtype),))
    host.run("ViewCopy", x.view(x.numel), outputs=(_diagonal(zeros, size, size, offset),))
    return zeros


def identity(host: Host, *, n: int, m: int) -> Any:
    """Ones on the diagonal."""
    zeros = host.run("Fill", value=0.0, outputs=(host.empty((n, m), FLOAT),))
    view = _diagonal(zeros, n, m, 0)
    ones = host.run("Fill", value=1.0, outputs=(host.empty(view.shape, FLOAT),))
    host.run("ViewCopy", ones, outputs=(view,))
    return zeros


def trace(host: Host, x: GlobalTensor) -> Any:
    """The sum of the diagonal."""
    return host.run("ReduceSum", diagonal(host, x, offset=0), axes=[0])


def assigned(
    host: Host, x: GlobalTensor, value: GlobalTensor, *, starts: Sequence[int],
    ends: Sequence[int], steps: Sequence[int], axes: Sequence[int] | None = None,
) -> Any:  # fmt: skip
    """A tensor with others in every n-th place of stretches of its axes: one copy to a view."""
    shape, strides, start = list(x.shape), list(contiguous_strides(x.shape)), x.start
    named = range(len(starts)) if axes is None else axes
    for first, last, axis, step in zip(starts, ends, named, steps, strict=True):
        place = range(*slice(first, last, step).indices(x.shape[axis]))
        start += place.start * strides[axis]
        shape[axis], strides[axis] = len(place), strides[axis] * step
    if tuple(shape) != value.shape:
        raise RefusedTaskError("StridedSliceAssignV2", f"{value.shape} doesn't fill {tuple(shape)}")
    view = GlobalTensor(x.buffer, x.dtype, tuple(shape), start, tuple(strides))
    host.chain.launch("ViewCopy", value, view)
    return x


def _diagonal(x: GlobalTensor, rows: int, columns: int, offset: int) -> GlobalTensor:
    """The diagonal of a contiguous matrix as a view."""
    row, column = max(0, -offset), max(0, offset)
    count = min(rows - row, columns - column)
    if count < 1:
        raise KernelError("DiagV2", f"a matrix of {rows} x {columns} has no diagonal {offset}")
    start = x.start + row * columns + column
    return replace(x, shape=(count,), start=start, strides=(columns + 1,))
