"""What the aclnn functions of losses do on the host: the loss, then its mean or its sum.

Gradients are divided by what the mean is over in the kernel itself. Source: ops-nn loss (op_api).
"""

from __future__ import annotations

from collections.abc import Callable
from math import nan, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.values.dtypes import FLOAT, INT32, INT64, UINT8
from npusim.values.errors import KernelError
from npusim.values.formats import Format

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor
    from npusim.operators.host import Host

_PLAIN = (Format.UNDEFINED, Format.ND, Format.NCL)
NONE, MEAN, SUM, BATCH_MEAN = range(4)  # reductions


def _reduced(host: Host, losses: GlobalTensor, reduction: int) -> GlobalTensor:
    """All losses as they are, their mean or their sum."""
    if reduction == NONE:
        return losses
    axes = list(range(len(losses.shape)))
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


_WORDS = ("none", "mean", "sum", "batchmean")  # reductions as operators have them


def _loss(op_type: str) -> Callable[..., GlobalTensor]:
    """A loss of an input, a target, and perhaps weights, which its operator reduces."""

    def found(
        host: Host, *given: GlobalTensor | None, reduction: int = MEAN, **more: Any
    ) -> GlobalTensor:
        operands = _alike(host, *given)
        x, name = operands[0], op_type
        if x is not None and not x.numel and reduction != NONE:  # the host fills in what is left
            value = 0.0 if reduction == SUM or (reduction == BATCH_MEAN and x.shape[0]) else nan
            filled: GlobalTensor = host.run("Fill", None, host.constant(value, x.dtype), dims=[1])
            return filled.view()
        if name == "MseLoss" and _is_v2(host, *given):
            name = "MSELossV2"
        result: GlobalTensor = host.run(name, *operands, reduction=_WORDS[reduction], **more)
        return result

    return found


def _alike(host: Host, *given: GlobalTensor | None) -> list[GlobalTensor | None]:
    """Operands of one dtype and shape: those of another are cast, then broadcast by a task each."""
    present = [each for each in given if each is not None]
    shape = np.broadcast_shapes(*(each.shape for each in present))
    kind = host.joint_dtype(*present)
    cast = (each if each is None else host.cast(each, kind) for each in given)
    return [each if each is None else _spread(host, each, shape) for each in cast]


def _spread(host: Host, x: GlobalTensor, shape: tuple[int, ...]) -> GlobalTensor:
    """The operand in a shape that it broadcasts to, by a task where it has another."""
    if x.shape == shape:
        return x
    found: GlobalTensor = host.run("BroadcastTo", x, shape=list(shape))
    return found


def _is_v2(host: Host, *given: GlobalTensor | None) -> bool:
    """Whether the mean squared error is MSELossV2: of like operands without a format of images.

    Source: ops-nn loss/mse_loss (op_api/mse_loss.cpp).
    """
    shapes = {each.shape for each in given if each is not None}
    specs = (host.told("self"), host.told("target"))
    plain = all(spec is None or spec.format in _PLAIN for spec in specs)
    return host.profile.family != "910" and plain and len(shapes) == 1


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


def mse_out(
    host: Host, x: GlobalTensor, target: GlobalTensor, *, reduction: int = MEAN
) -> GlobalTensor:
    """The mean squared error that another operator reduces."""
    return _reduced(host, mse(host, x, target, reduction=NONE), reduction)


def with_logits(
    host: Host, *given: GlobalTensor | None, reduction: int = MEAN, **more: Any
) -> GlobalTensor:
    """Weighted cross entropies, which another operator reduces."""
    losses = host.run("SigmoidCrossEntropyWithLogitsV2", *given, **more)
    return _reduced(host, losses, reduction)


mse, soft_margin = _loss("MseLoss"), _loss("SoftMarginLoss")
binary_cross_entropy = _loss("BinaryCrossEntropy")
mse_backward = _gradient("MseLossGrad", (1, 2, 0))
l1_backward = _gradient("L1LossGrad", (0, 1, 2))
soft_margin_backward = _gradient("SoftMarginLossGrad", (1, 2, 0))
with_logits_backward = _gradient("SigmoidCrossEntropyWithLogitsGradV2", (1, 2, 0, 3, 4))


def smooth_l1(
    host: Host, x: GlobalTensor, target: GlobalTensor, *, reduction: int, beta: float
) -> GlobalTensor:
    """Without a smooth part it is the L1 loss."""
    if not beta:
        return l1(host, x, target, reduction=reduction)
    return _loss("SmoothL1LossV2")(host, x, target, reduction=reduction, sigma=beta)


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
    return _loss("KLDivV2")(host, x, target, reduction=reduction, log_target=log_target)


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
    target = _spread(host, target, x.shape)
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
    """The gradient of the target, in float32: (ln t + t / t - x) grad, or e**t (t - x + 1) grad.

    Source: ops-nn loss/kl_div_target_loss_grad (op_api); its kernel is for later chips.
    """
    grad, x, target = (host.cast(each, FLOAT) for each in (grad, x, target))
    shape = np.broadcast_shapes(x.shape, target.shape)
    spread = _spread(host, target, shape)
    divisor = 1 / _scale(reduction, x, target)
    if reduction in (MEAN, BATCH_MEAN):
        grad = host.run("RealDiv", grad, host.constant(divisor, FLOAT))
    if log_target:
        power = host.run("Exp", spread)
        slope = host.run("Mul", grad, host.run("Sub", spread, x))
        found: GlobalTensor = host.run(
            "Add", host.run("Mul", slope, power), host.run("Mul", grad, power)
        )
    else:
        known = host.run("Mul", grad, x)
        slope = host.run("Sub", host.run("Mul", grad, host.run("Log", spread)), known)
        found = host.run("Add", slope, host.run("RealDiv", host.run("Mul", grad, spread), spread))
    if shape == target.shape:
        return found
    extra = len(shape) - len(target.shape)
    sizes = (1,) * extra + target.shape
    axes = [axis for axis, size in enumerate(shape) if axis < extra or sizes[axis] != size]
    total: GlobalTensor = host.run("ReduceSum", found, axes=axes, keep_dims=True)
    return total.view(*target.shape)


def with_logits_target_backward(
    host: Host,
    grad: GlobalTensor,
    x: GlobalTensor,
    target: GlobalTensor,
    weight: GlobalTensor | None,
    pos_weight: GlobalTensor | None,
    *,
    reduction: int,
) -> GlobalTensor:
    """(ln sigmoid(-x) - p ln sigmoid(x)) grad w; weights that are left out are made of ones.

    Source: ops-nn activation/log_sigmoid (op_api).
    """
    kind = host.joint_dtype(grad, x, target, weight, pos_weight)
    grad, x = host.cast(grad, kind), host.cast(x, kind)
    ones = [
        host.run("OnesLike", x) if each is None else host.cast(each, kind)
        for each in (weight, pos_weight)
    ]
    below = host.run("LogSigmoid", host.run("Sub", host.run("ZerosLike", x), x))
    above = host.run("Mul", host.run("LogSigmoid", x), ones[1])
    slope = host.run("Mul", grad, host.run("Sub", below, above))
    found: GlobalTensor = host.run("Mul", slope, ones[0])
    return host.run("Muls", found, value=1 / target.numel) if reduction == MEAN else found


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
