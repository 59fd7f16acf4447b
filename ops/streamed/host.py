"""What the aclnn functions do on the host that call streamed operators, or others for them."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from npusim.values.errors import RefusedTaskError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npusim.ascendc import GlobalTensor
    from npusim.operators.host import Host, ScalarValue


def running_sums(
    host: Host, x: GlobalTensor, *, dim: int, exclusive: bool = False, reverse: bool = False
) -> Any:
    """Sums of all up to each place; from the end, or without the place itself."""
    told = host.told("out")
    x = x if told is None else host.cast(x, told.dtype)
    if not x.shape:
        return host.run("TensorMove", x)  # of one number
    axis = dim % max(1, len(x.shape))
    return host.run("Cumsum", x, axis=axis, exclusive=exclusive, reverse=reverse)


def counted(host: Host, x: GlobalTensor, *, bins: int, low: ScalarValue, high: ScalarValue) -> Any:
    """How many numbers each of some intervals alike has."""
    least, most = float(low.real), float(high.real)
    if least > most:
        raise RefusedTaskError("HistogramV2", f"min {least:g} is above max {most:g}")
    out = host.empty((bins,), x.dtype)
    return host.run("HistogramV2", x, outputs=(out,), bins=bins, low=least, high=most)


def modulated(
    host: Host, x: GlobalTensor, scale: GlobalTensor | None = None,
    shift: GlobalTensor | None = None,
) -> Any:  # fmt: skip
    """Rows stretched by 1 + scale and moved by shift, image by image."""
    if scale is None and shift is None:
        return host.run("TensorMove", x)
    return host.run("Modulate", x, scale, shift)


def stretched(
    host: Host, x: GlobalTensor, scale: GlobalTensor, bias: GlobalTensor | None = None, *,
    axis: int, count: int, whole_blob: bool,
) -> Any:  # fmt: skip
    """x times a scale that runs along some axes, and a shift."""
    del count, whole_blob
    return host.run("Scale", x, scale, bias, axis=axis)


def _unpooled(host: Host, grad: GlobalTensor, indices: GlobalTensor, axes: int) -> Any:
    planes = prod(grad.shape[:-axes])
    rows = grad.view(planes, prod(grad.shape[-axes:]))
    places = indices.view(planes, prod(indices.shape[-axes:]))
    return host.run("GatherElements", rows, places, dim=1).view(*indices.shape)


def unpooled(host: Host, grad: GlobalTensor, x: GlobalTensor, indices: GlobalTensor) -> Any:
    """The gradient at the place that each element went to."""
    del x
    return _unpooled(host, grad, indices, 2)


def unpooled_volume(host: Host, grad: GlobalTensor, x: GlobalTensor, indices: GlobalTensor) -> Any:
    """The same of volumes."""
    del x
    return _unpooled(host, grad, indices, 3)


def unpooled_forward(
    host: Host, x: GlobalTensor, indices: GlobalTensor, *, sizes: Sequence[int]
) -> Any:
    """Elements back at the places of their planes that they were taken from, zeros elsewhere."""
    axes = len(sizes)
    planes = prod(x.shape[:-axes])
    shape = (planes, prod(sizes))
    zeros = host.run("ZerosLike", host.empty(shape, x.dtype), outputs=(host.empty(shape, x.dtype),))
    rows = (each.view(planes, prod(x.shape[-axes:])) for each in (indices, x))
    found = host.run("ScatterElements", zeros, *rows, axis=1)
    return found.view(*x.shape[:-axes], *sizes)


def split_heads(host: Host, qkv: GlobalTensor, bias: GlobalTensor, *, heads: int) -> Any:
    """Queries, keys and values with their shifts, by heads; the queries scaled."""
    batch, steps, width = qkv.shape
    shape = (batch, heads, steps, width // 3 // heads)
    outputs = [host.empty(shape, qkv.dtype, name) for name in "qkv"]
    return host.run("TransformBiasRescaleQkv", qkv, bias, outputs=outputs, heads=heads)


def unfolded(
    host: Host, grad: GlobalTensor, *, sizes: Sequence[int], dim: int, size: int, step: int
) -> Any:
    """The gradients of all windows summed where they overlap."""
    out = host.empty(sizes, grad.dtype)
    return host.run("UnfoldGrad", grad, outputs=(out,), sizes=list(sizes), dim=dim, size=size,
                    step=step)  # fmt: skip


def side_by_side(host: Host, tensors: Sequence[GlobalTensor], *, dim: int, chunks: int) -> Any:
    """Tensors in parts along an axis, the parts with the same number in one row."""
    told = host.told("out")
    width = sum(-(-each.shape[dim] // chunks) * prod(each.shape[dim + 1 :]) for each in tensors)
    kind = told.dtype if told else tensors[0].dtype
    out = host.empty((*tensors[0].shape[:dim], chunks, width), kind)
    return host.run("ChunkCat", *tensors, outputs=(out,), dim=dim, chunks=chunks)
