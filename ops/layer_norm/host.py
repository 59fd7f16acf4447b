"""The gradients of a layer normalisation: of what was normalised, of gains and of shifts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npusim.ascendc import GlobalTensor
    from npusim.operators.host import Host


def backward(
    host: Host,
    grad: GlobalTensor,
    x: GlobalTensor,
    mean: GlobalTensor,
    rstd: GlobalTensor,
    weight: GlobalTensor | None,
    bias: GlobalTensor | None,
    *,
    shape: Sequence[int],
    mask: Sequence[bool],
) -> Any:
    """Two tasks; gains that are left out are ones, and the second runs where it is asked for."""
    gains = weight or host.run("Fill", None, host.constant(1.0, FLOAT), dims=list(shape))
    dx, residual = host.run("LayerNormXBackpropV3", grad, x, rstd, mean, gains)
    if not any(mask[1:]):
        return dx, None, None
    dgain, dshift = host.run("LayerNormBetaGammaBackpropV2", grad, residual)
    kinds = [gains.dtype, bias.dtype if bias else gains.dtype]
    found = [host.cast(each, kind) for each, kind in zip((dgain, dshift), kinds, strict=True)]
    return dx, *(
        each.view(*gains.shape) if wanted else None
        for each, wanted in zip(found, mask[1:], strict=True)
    )
