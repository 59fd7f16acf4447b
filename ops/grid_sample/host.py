"""What the aclnn functions of gradients do on the host beside calling the kernel."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from npusim.ascendc.task import made
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor
    from npusim.operators.host import Host


def _backward(
    host: Host,
    grad: GlobalTensor,
    x: GlobalTensor,
    grid: GlobalTensor,
    *,
    axes: int,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
    mask: list[bool],
) -> tuple[GlobalTensor | None, GlobalTensor | None]:
    """Channels last and float32, the kernel, and back. Source: aclnn_grid_sampler3d_backward."""
    last, front = [0, *range(2, axes + 2), 1], [0, axes + 1, *range(1, axes + 1)]
    turned = [host.cast(host.run("Transpose", each, perm=last), FLOAT) for each in (grad, x)]
    places = host.cast(grid, FLOAT)
    outputs = made(turned[1].shape, FLOAT, "dx"), made(places.shape, FLOAT, "dgrid")
    dx, dgrid = host.run(
        f"GridSampler{axes}DGrad",
        *turned,
        places,
        outputs=outputs,
        interpolation_mode=interpolation_mode,
        padding_mode=padding_mode,
        align_corners=align_corners,
    )
    image = host.run("Transpose", host.cast(dx, x.dtype), perm=front) if mask[0] else None
    return image, host.cast(dgrid, grid.dtype) if mask[1] else None


backward_2d, backward_3d = partial(_backward, axes=2), partial(_backward, axes=3)
