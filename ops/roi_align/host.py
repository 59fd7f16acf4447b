"""What the aclnn functions of RoI align do on the host.

Source: ops-cv objdetect/roi_align/op_host/op_api.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor
    from npusim.operators.host import Host


def of_images(
    host: Host,
    x: GlobalTensor,
    boxes: GlobalTensor,
    images: GlobalTensor,
    *,
    mode: str,
    **given: Any,
) -> Any:
    """The number of its image put before each box."""
    if mode == "max":
        raise KernelError("ROIAlign", "maxima of samples aren't modelled")
    if x.numel and boxes.numel:
        numbers = host.cast(images.view(images.numel, 1), boxes.dtype)
        boxes = host.run("ConcatD", numbers, boxes, concat_dim=1)
    return pooled(host, x, boxes, aligned=False, **given)


def pooled(
    host: Host,
    x: GlobalTensor,
    boxes: GlobalTensor,
    *,
    high: int,
    wide: int,
    scale: float,
    samples: int,
    aligned: bool,
) -> Any:
    """Means of samples in the bins of boxes; zeros of maps without channels."""
    out = host.empty((boxes.shape[0], x.shape[1], high, wide), x.dtype)
    if not x.numel or not boxes.numel:
        return host.run("Fill", None, host.constant(0.0, x.dtype), outputs=(out,))
    if not samples:
        raise KernelError("ROIAlign", "as many samples as each box is large aren't modelled")
    return host.run(
        "ROIAlign",
        x,
        boxes,
        outputs=(out,),
        outputHeight=high,
        outputWidth=wide,
        spatial_scale=scale,
        sampling_ratio=samples,
        aligned=aligned,
    )
