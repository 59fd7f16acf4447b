"""What the aclnn functions of losses do on the host: the loss, then its mean or its sum.

Gradients are divided by what the mean is over in the kernel itself. Source: ops-nn loss (op_api).
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.values.dtypes import INT32, INT64, UINT8
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor
    from npusim.operators.host import Host

NONE, MEAN, SUM, BATCH_MEAN = range(4)  # reductions


def _reduced(host: Host, losses: GlobalTensor, reduction: int) -> GlobalTensor:
    """All losses as they are, their mean, their sum, or the sum over the batch's size."""
    if reduction == NONE:
        return losses
    axes = list(range(len(losses.shape)))
    if reduction == BATCH_MEAN:
        total = host.run("ReduceSum", losses, axes=axes, keep_dims=False)
        found: GlobalTensor = host.run("Muls", total, value=1 / max(1, losses.shape[0]))
        return found
    name = "ReduceMean" if reduction == MEAN else "ReduceSum"
    if not axes:
        return losses
    reduced: GlobalTensor = host.run(name, losses, axes=axes, keep_dims=False)
    return reduced


def _scale(reduction: int, *given: GlobalTensor | None) -> float:
    """What gradients are multiplied by."""
    shape = np.broadcast_shapes(*(each.shape for each in given if each is not None))
    if reduction == MEAN:
        return 1 / max(1, prod(shape))
    return 1 / max(1, shape[0]) if reduction == BATCH_MEAN and shape else 1.0


def _loss(op_type: str) -> Callable[..., GlobalTensor]:
    """A loss of an input, a target, and perhaps weights."""

    def found(
        host: Host, *given: GlobalTensor | None, reduction: int = MEAN, **more: Any
    ) -> GlobalTensor:
        return _reduced(host, host.run(op_type, *given, **more), reduction)

    return found


def _gradient(op_type: str, order: tuple[int, ...]) -> Callable[..., GlobalTensor]:
    """The gradient of a loss; ``order`` is where the kernel's inputs are among the caller's."""

    def found(
        host: Host, *given: GlobalTensor | None, reduction: int = MEAN, **more: Any
    ) -> GlobalTensor:
        scale = _scale(reduction, *given[1:])
        inputs = (given[place] for place in order)
        result: GlobalTensor = host.run(op_type, *inputs, scale=scale, **more)
        return result

    return found


def l1(host: Host, x: GlobalTensor, target: GlobalTensor, *, reduction: int = MEAN) -> GlobalTensor:
    """Distances; those of whole numbers are a difference and its size, and have no mean."""
    if INT64 not in (x.dtype, target.dtype):
        return _loss("LpLoss")(host, x, target, reduction=reduction)
    return _reduced(host, host.run("Abs", host.together("Sub", x, target)), reduction)


mse, soft_margin = _loss("MseLoss"), _loss("SoftMarginLoss")
binary_cross_entropy = _loss("BinaryCrossEntropy")
with_logits = _loss("SigmoidCrossEntropyWithLogitsV2")
mse_backward = _gradient("MseLossGrad", (1, 2, 0))
l1_backward = _gradient("L1LossGrad", (0, 1, 2))
soft_margin_backward = _gradient("SoftMarginLossGrad", (1, 2, 0))
with_logits_backward = _gradient("SigmoidCrossEntropyWithLogitsGradV2", (1, 2, 0, 3, 4))
with_logits_target_backward = _gradient("SigmoidCrossEntropyWithLogitsTargetGrad", (1, 0, 3, 4))


def smooth_l1(
    host: Host, x: GlobalTensor, target: GlobalTensor, *, reduction: int, beta: float
) -> GlobalTensor:
    """Without a smooth part it is the L1 loss."""
    if not beta:
        return l1(host, x, target, reduction=reduction)
    return _reduced(host, host.run("SmoothL1LossV2", x, target, sigma=beta), reduction)


def smooth_l1_backward(
    host: Host,
    grad: GlobalTensor,
    x: GlobalTensor,
    target: GlobalTensor,
    *,
    reduction: int,
    beta: float,
) -> GlobalTensor:
    """The gradient; without a smooth part that of the L1 loss."""
    if not beta:
        return l1_backward(host, grad, x, target, reduction=reduction)
    scale = _scale(reduction, x, target)
    found: GlobalTensor = host.run("SmoothL1LossGradV2", x, target, grad, sigma=beta, scale=scale)
    return found


def kl_div(
    host: Host, x: GlobalTensor, target: GlobalTensor, *, reduction: int, log_target: bool
) -> GlobalTensor:
    """The divergence; a target may be a logarithm."""
    return _reduced(host, host.run("KLDivV2", x, target, log_target=log_target), reduction)


def kl_div_backward(
    host: Host,
    grad: GlobalTensor,
    x: GlobalTensor,
    target: GlobalTensor,
    *,
    reduction: int,
    log_target: bool,
) -> GlobalTensor:
    """The gradient of the input."""
    if np.broadcast_shapes(x.shape, target.shape) != x.shape:
        raise KernelError("KlDivLossGrad", "gradients of an input that is spread aren't modelled")
    if target.shape != x.shape:
        target = host.run("BroadcastTo", target, shape=list(x.shape))
    scale = _scale(reduction, x)
    found: GlobalTensor = host.run(
        "KlDivLossGrad", grad, target, log_target=log_target, scale=scale
    )
    return found


def kl_div_target_backward(
    host: Host,
    grad: GlobalTensor,
    x: GlobalTensor,
    target: GlobalTensor,
    *,
    reduction: int,
    log_target: bool,
) -> GlobalTensor:
    """The gradient of the target."""
    scale = _scale(reduction, x, target)
    found: GlobalTensor = host.run(
        "KlDivTargetGrad", grad, x, target, log_target=log_target, scale=scale
    )
    return found


def nll(
    host: Host, x: GlobalTensor, target: GlobalTensor, weight: GlobalTensor, **said: Any
) -> Any:
    """Likelihoods of rows."""
    shape = (target.numel,) if said.get("reduction") == NONE else ()
    results = host.empty(shape, x.dtype, "losses"), host.empty((), x.dtype, "total")
    return host.run("NLLLoss", x, _labels(host, target), weight, outputs=results, **said)


def nll_backward(
    host: Host,
    x: GlobalTensor,
    grad: GlobalTensor,
    target: GlobalTensor,
    weight: GlobalTensor,
    total: GlobalTensor,
    **said: Any,
) -> Any:
    """The gradient of rows."""
    return host.run("NLLLossGrad", x, grad, _labels(host, target), weight, total, **said)


def _labels(host: Host, target: GlobalTensor) -> GlobalTensor:
    """Classes as the kernels take them: those of bytes in int32."""
    return host.cast(target, INT32) if target.dtype is UINT8 else target


def nll_2d(
    host: Host,
    x: GlobalTensor,
    target: GlobalTensor,
    weight: GlobalTensor,
    *,
    reduction: int,
    ignore_index: int,
) -> tuple[GlobalTensor, GlobalTensor]:
    """Likelihoods of images: classes brought to the back, a row for each pixel."""
    rows = _pixels(host, x)
    said = {"reduction": reduction, "ignore_index": ignore_index}
    kind = x.dtype
    shape = (target.numel,) if reduction == NONE else ()
    results = host.empty(shape, kind, "losses"), host.empty((), kind, "total")
    labels = _labels(host, target.view(target.numel))
    loss, total = host.run("NLLLoss", rows, labels, weight, outputs=results, **said)
    return (loss.view(*target.shape) if reduction == NONE else loss), total


def nll_2d_backward(
    host: Host,
    grad: GlobalTensor,
    x: GlobalTensor,
    target: GlobalTensor,
    weight: GlobalTensor,
    total: GlobalTensor,
    *,
    reduction: int,
    ignore_index: int,
) -> GlobalTensor:
    """The gradient of a row for each pixel, classes brought to the front again."""
    images, classes, *plane = x.shape
    rows = host.empty((target.numel, classes), x.dtype, "rows")
    said = {"reduction": reduction, "ignore_index": ignore_index}
    labels = _labels(host, target.view(target.numel))
    dx = host.run(
        "NLLLossGrad", rows, grad.view(grad.numel), labels, weight, total, outputs=(rows,), **said
    )
    turned = dx.view(images, *plane, classes)
    found: GlobalTensor = host.run("Transpose", turned, perm=[0, 3, 1, 2])
    return found


def _pixels(host: Host, x: GlobalTensor) -> GlobalTensor:
    """(pixels of all images, classes)."""
    turned = host.run("Transpose", x, perm=[0, 2, 3, 1])
    found: GlobalTensor = turned.view(x.numel // x.shape[1], x.shape[1])
    return found
