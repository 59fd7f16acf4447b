"""What the aclnn functions of pooling do on the host: places in the caller's dtype."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npusim.ops.pooling.tables import mask_shape
from npusim.values.dtypes import INT8, INT32, INT64
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor
    from npusim.operators.host import Host


def largest(host: Host, x: GlobalTensor, **windows: Any) -> tuple[Any, Any]:
    """The largest of every window, and its place, which the kernel tells in int32."""
    values, places = host.run("MaxPool2dWithIndices", x, **windows)
    return values, places


def largest_with_mask(host: Host, x: GlobalTensor, **windows: Any) -> tuple[Any, Any]:
    """The largest of every window; its place in int32, in the first bytes of the mask.

    Chips with vector cores of their own compute places, as for indices; masks of bits are the
    others'. Source: aclnn_max_pool2d_with_indices.cpp of the public operator library.
    """
    if host.profile.cores.style != "split":
        raise KernelError("MaxPoolWithArgmaxV1", "masks of bits of plain images aren't modelled")
    values, places = host.described("MaxPool2dWithIndices", (x,), windows)
    shape = mask_shape(values.shape, windows["ksize"])
    told = host.told("indices") is not None
    mask = host.chain.output("indices") if told else host.empty(shape, INT8, "indices")
    held = mask.reinterpreted(INT32, *places.shape)
    host.run("MaxPool2dWithIndices", x, outputs=(values, held), **windows)
    return values, mask


def largest_evenly(host: Host, x: GlobalTensor, **size: Any) -> tuple[Any, Any]:
    """The same of windows that cover a tensor evenly; the place is of int64."""
    values, places = host.run("AdaptiveMaxPool2d", x, **size)
    return values, host.cast(places, INT64)
