"""What the aclnn functions of pooling do on the host: places in the caller's dtype."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npusim.values.dtypes import INT64

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor
    from npusim.operators.host import Host


def largest(host: Host, x: GlobalTensor, **windows: Any) -> tuple[Any, Any]:
    """The largest of every window, and its place, which the kernel tells in int32."""
    values, places = host.run("MaxPool2dWithIndices", x, **windows)
    return values, places


def largest_evenly(host: Host, x: GlobalTensor, **size: Any) -> tuple[Any, Any]:
    """The same of windows that cover a tensor evenly; the place is of int64."""
    values, places = host.run("AdaptiveMaxPool2d", x, **size)
    return values, host.cast(places, INT64)
