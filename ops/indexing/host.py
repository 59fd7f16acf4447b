"""What the aclnn functions that take and put elements do on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npusim.ascendc import GlobalTensor
from npusim.values.dtypes import FLOAT
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.operators.host import Host, ScalarValue


def scattered(
    host: Host, x: GlobalTensor, index: GlobalTensor, source: GlobalTensor, *,
    dim: int, reduce: int = 0,
) -> Any:  # fmt: skip
    """Elements put into a copy of a tensor, added to it, or multiplied with what is there.

    Of a source that is larger than the index, what has the same places.
    """
    if source.shape != index.shape:
        sizes = list(index.shape)
        source = host.run("Slice", source, offsets=[0] * len(sizes), size=sizes)
    outputs = (x,) if host.owns(x) else ()
    return host.run("ScatterElements", x, index, source, outputs=outputs, axis=dim, reduce=reduce)


def selected(host: Host, x: GlobalTensor, index: GlobalTensor, *, dim: int) -> Any:
    """Rows at places; one place is a row of one, and so is a single element."""
    rows = x if x.shape else x.view(1)
    found = host.run("GatherV2", rows, index if index.shape else index.view(1), axis=dim)
    return found if x.shape else found.view()


def encoded(
    host: Host, x: GlobalTensor, on: GlobalTensor, off: GlobalTensor, *, depth: int, axis: int
) -> Any:
    """Ones at places, by the first element of what they and the others are."""
    first = [_first(host, each) for each in (on, off)]
    return host.run("OneHot", x, *first, depth=depth, axis=axis)


def _first(host: Host, x: GlobalTensor) -> GlobalTensor:
    if x.numel == 1:
        return x
    found: GlobalTensor = host.run("Slice", x.view(x.numel), offsets=[0], size=[1])
    return found


def number_scattered(
    host: Host, x: GlobalTensor, index: GlobalTensor, *, dim: int, value: ScalarValue, reduce: int
) -> Any:
    """One number at every place that is named."""
    number = host.constant(value, x.dtype)
    source = host.run("Fill", None, number, outputs=(host.empty(index.shape, x.dtype),))
    return scattered(host, x, index, source, dim=dim, reduce=reduce)


def scatter_added(
    host: Host, x: GlobalTensor, index: GlobalTensor, source: GlobalTensor, *, dim: int
) -> Any:
    """Elements added to a copy of a tensor."""
    return scattered(host, x, index, source, dim=dim, reduce=1)


def rows_added(
    host: Host,
    x: GlobalTensor,
    index: GlobalTensor,
    source: GlobalTensor,
    *,
    dim: int,
    alpha: ScalarValue = 1,
) -> Any:
    """Rows times a number added to a copy of a tensor."""
    if alpha != 1:
        source = host.together("Mul", source, alpha, dtype=x.dtype)
    found = host.own(x)
    axis = dim % max(1, len(x.shape))
    host.run("IndexAdd", found, index, source, axis=axis, outputs=(found,))
    return found


def rows_copied(
    host: Host, x: GlobalTensor, index: GlobalTensor, source: GlobalTensor, *, dim: int
) -> Any:
    """Rows put into a copy of a tensor; another axis than the first is turned to the front."""
    axis = dim % max(1, len(x.shape))
    if not axis:
        found = host.own(x)
        host.run("ScatterUpdate", found, index, source, outputs=(found,))
        return found
    order = [axis, *(each for each in range(len(x.shape)) if each != axis)]
    found = host.run("Transpose", x, perm=order)
    rows = host.run("Transpose", source, perm=order)
    host.run("ScatterUpdate", found, index, rows, outputs=(found,))
    return host.run("Transpose", found, perm=[order.index(each) for each in range(len(order))])


def put(
    host: Host, x: GlobalTensor, index: GlobalTensor, source: GlobalTensor, *, accumulate: bool
) -> Any:
    """Elements put into a tensor, or added to it, at places among all its elements."""
    kind = "ScatterNdAdd" if accumulate else "ScatterNdUpdate"
    found = host.own(x)
    flat = found.view(x.numel)
    places, values = index.view(index.numel, 1), source.view(source.numel)
    host.run(kind, flat, places, values, outputs=(flat,))
    return found


def rows_put(host: Host, x: GlobalTensor, indices: GlobalTensor, updates: GlobalTensor) -> Any:
    """Rows put into a copy of a tensor, at places that name one axis or more."""
    found = host.own(x)
    host.run("ScatterNdUpdate", found, indices, updates, outputs=(found,))
    return found


def taken(host: Host, x: GlobalTensor, index: GlobalTensor) -> Any:
    """Elements from places among all elements."""
    found = host.run("GatherV2", x.view(x.numel), index.view(index.numel), axis=0)
    return found.view(*index.shape)


def rows_taken(
    host: Host, x: GlobalTensor, index: GlobalTensor, *, dim: int, batch_dims: int = 0
) -> Any:
    """Rows along an axis."""
    if batch_dims:
        raise KernelError("GatherV2", f"batchDims = {batch_dims} isn't modelled, only 0")
    return host.run("GatherV2", x, index, axis=dim)


def embedding_gradient(
    host: Host,
    grad: GlobalTensor,
    indices: GlobalTensor,
    *,
    rows: int,
    padding: int,
    by_frequency: bool = False,
) -> Any:
    """The sum of the gradients of every row in float32, none for the one that pads.

    ``by_frequency`` makes it the mean. Source: ops-nn index/embedding_dense_grad_v2/op_api.
    """
    width, places = grad.shape[-1], indices.view(indices.numel)
    gradients = host.cast(grad.view(indices.numel, width), FLOAT)
    sums = host.empty((rows, width), FLOAT)
    total = host.run("UnsortedSegmentSum", gradients, places, outputs=(sums,))
    if by_frequency:
        one = host.constant(1, FLOAT)
        ones = host.run("Fill", None, one, outputs=(host.empty((indices.numel, 1), FLOAT),))
        sums = host.empty((rows, 1), FLOAT)
        counts = host.run("UnsortedSegmentSum", ones, places, outputs=(sums,))
        total = host.run("RealDiv", total, host.together("Maximum", counts, 1.0))
    if 0 <= padding < rows:
        row = GlobalTensor(total.buffer, total.dtype, (width,), total.start + padding * width)
        host.run("Fill", value=0.0, outputs=(row,))
    return host.cast(total, grad.dtype)
