"""Layer normalisation without gains or shifts, and its gradients."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from npusim.ops.layer_norm.single_read import is_by_hand
from npusim.values.dtypes import FLOAT, INT64
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npusim.ascendc import GlobalTensor
    from npusim.operators.host import Host


def normalised(
    host: Host, x: GlobalTensor, weight: GlobalTensor | None = None,
    bias: GlobalTensor | None = None, *, shape: Sequence[int] = (), epsilon: float = 1e-5,
) -> Any:  # fmt: skip
    """Gains that are left out are ones, and shifts are zeros.

    Source: ops-nn norm/layer_norm_v4/op_host/op_api/aclnn_layer_norm.cpp.
    """
    like = weight or bias
    kind, sizes = like.dtype if like else x.dtype, list(like.shape if like else shape)
    if not sizes:
        raise KernelError("LayerNormV3", "which axes are normalised isn't told")
    gains, shifts = (
        each or host.run("Fill", None, host.constant(value, kind), dims=sizes)
        for each, value in ((weight, 1.0), (bias, 0.0))
    )
    if is_by_hand(host.profile, x, gains, prod(sizes)):
        axes = host.constant(sizes, INT64)
        return host.run("LayerNormV4", x, axes, gains, shifts, epsilon=epsilon)
    return host.run("LayerNormV3", x, gains, shifts, epsilon=epsilon)


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
    """Gains that are left out are ones; one task on Atlas A2 and A3, else two.

    The second of them runs where it is asked for. Source: ops-nn norm/layer_norm_grad_v3 (op_api).
    """
    split = host.profile.cores.style == "split"
    ones = host.constant(1.0, x.dtype if split else FLOAT)
    gains = weight or host.run("Fill", None, ones, dims=list(shape))
    if split:
        wide = host.cast(rstd, FLOAT), host.cast(mean, FLOAT)
        dx, *sums = host.run("LayerNormGradV3", grad, x, *wide, gains, output_mask=list(mask))
        return dx, *_asked(host, sums, gains, bias, mask)
    dx, residual = host.run("LayerNormXBackpropV3", grad, x, rstd, mean, gains)
    if not any(mask[1:]):
        return dx, None, None
    row = prod(gains.shape)  # as one axis
    rows = (each.view(each.numel // row, row) for each in (grad, residual))
    sums = host.run("LayerNormBetaGammaBackpropV2", *rows)
    return dx, *_asked(host, sums, gains, bias, mask)


def _asked(
    host: Host, sums: Sequence[GlobalTensor], gains: GlobalTensor, bias: GlobalTensor | None,
    mask: Sequence[bool],
) -> list[GlobalTensor | None]:  # fmt: skip
    """The gradients of gains and shifts that are asked for, in their dtypes."""
    kinds = gains.dtype, (bias or gains).dtype
    return [
        host.cast(each, kind).view(*gains.shape) if wanted else None
        for each, kind, wanted in zip(sums, kinds, mask[1:], strict=True)
    ]


def _parts(host: Host, grad: GlobalTensor, x: GlobalTensor, rstd: GlobalTensor,
           mean: GlobalTensor, gamma: GlobalTensor) -> tuple[Any, Any, Any]:  # fmt: skip
    """The gradients of x, gamma and beta."""
    dx, normal = host.run("LayerNormXBackpropV3", grad, x, rstd, mean, gamma)
    width = gamma.numel
    rows = [each.view(each.numel // width, width) for each in (grad, normal)]
    dgamma, dbeta = host.run("LayerNormBetaGammaBackpropV2", *rows)
    return dx, dgamma, dbeta


def gradient_of_sum(
    host: Host, grad: GlobalTensor, x: GlobalTensor, other: GlobalTensor, rstd: GlobalTensor,
    mean: GlobalTensor, gamma: GlobalTensor, more: GlobalTensor | None = None,
) -> Any:  # fmt: skip
    """Gradients of the norm of a sum; what comes another way is added to that of the sum."""
    dx, dgamma, dbeta = _parts(host, grad, host.run("Add", x, other), rstd, mean, gamma)
    return (dx if more is None else host.run("Add", dx, more)), dgamma, dbeta


def gradient_of_deep_norm(
    host: Host, grad: GlobalTensor, x: GlobalTensor, other: GlobalTensor, gamma: GlobalTensor,
    mean: GlobalTensor, rstd: GlobalTensor, *, alpha: float,
) -> Any:  # fmt: skip
    """Gradients of the norm of alpha x + other."""
    total = host.run("Axpy", other, x, alpha=alpha)
    dother, dgamma, dbeta = _parts(host, grad, total, rstd, mean, gamma)
    return host.run("Muls", dother, value=alpha), dother, dbeta, dgamma


def adapted(
    host: Host, x: GlobalTensor, scale: GlobalTensor, shift: GlobalTensor,
    weight: GlobalTensor | None = None, bias: GlobalTensor | None = None, *, epsilon: float,
) -> Any:  # fmt: skip
    """Rows normalised, then stretched by 1 + scale and moved by shift, image by image."""
    y, mean, rstd = host.run("LayerNormV3", x, weight, bias, epsilon=epsilon)
    lines = (*x.shape[:-2], 1, x.shape[-1])
    gain = host.together("Add", scale.view(*lines), 1.0, dtype=scale.dtype)
    return host.run("Add", host.run("Mul", y, gain), shift.view(*lines)), mean, rstd
