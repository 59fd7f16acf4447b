"""What the aclnn functions of special convolutions do on the host beside calling the kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.ops.convolution.contract import ALLOW_FP32_DOWN_PRECISION, KEEP_DTYPE, USE_FP16
from npusim.values.dtypes import FLOAT, FLOAT16

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor
    from npusim.operators.host import Host


def depthwise(
    host: Host,
    x: GlobalTensor,
    weight: GlobalTensor,
    bias: GlobalTensor | None,
    *,
    strides: list[int],
    pads: list[int],
    dilations: list[int],
    cube_math_type: int = ALLOW_FP32_DOWN_PRECISION,
) -> GlobalTensor:
    """A group for every channel; in float16 where that is asked for."""
    kind = FLOAT16 if cube_math_type == USE_FP16 else x.dtype
    given = [None if each is None else host.cast(each, kind) for each in (x, weight, bias)]
    found: GlobalTensor = host.run(
        "DepthwiseConv2D",
        *given,
        strides=strides,
        pads=pads,
        dilations=dilations,
        groups=x.shape[1],
        enable_hf32=kind is FLOAT and cube_math_type != KEEP_DTYPE,
    )
    return host.cast(found, x.dtype)
