"""What the aclnn functions of CTC do on the host. Source: ops-nn loss/ctc_loss_v2 (op_api)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npusim.values.arithmetic import round_up
from npusim.values.dtypes import INT32, INT64

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor
    from npusim.operators.host import Host


def aligned(host: Host, probs: GlobalTensor, targets: GlobalTensor, **given: Any) -> Any:
    """Losses of sequences and their alphas."""
    wide, told, named = _told(host, probs, targets, **given)
    steps, batch, _ = wide.shape
    width = round_up(2 * max(given["labels"], default=0) + 1, 8)
    outputs = (
        host.empty((batch,), wide.dtype, "loss"),
        host.empty((batch, steps, width), wide.dtype),
    )
    loss, alphas = host.run("CTCLossV3", wide, *told, outputs=outputs, **named)
    return loss.view(*probs.shape[1:-1]), alphas


def aligned_gradient(
    host: Host,
    grad: GlobalTensor,
    probs: GlobalTensor,
    targets: GlobalTensor,
    loss: GlobalTensor,
    alphas: GlobalTensor,
    **given: Any,
) -> Any:
    """The gradient of the log probabilities."""
    wide, told, named = _told(host, probs, targets, **given)
    out = host.empty(wide.shape, wide.dtype)
    tensors = (grad, wide, *told, loss, alphas)
    return host.run("CTCLossV3Grad", *tensors, outputs=(out,), **named).view(*probs.shape)


def _told(
    host: Host,
    probs: GlobalTensor,
    targets: GlobalTensor,
    *,
    lengths: tuple[int, ...],
    labels: tuple[int, ...],
    blank: int,
    zero: bool,
) -> tuple[GlobalTensor, list[GlobalTensor], dict[str, Any]]:
    """Probabilities of a batch, labels and lengths as tensors, and attributes by name."""
    targets = targets if targets.dtype is INT32 else host.cast(targets, INT64)
    wide = probs if len(probs.shape) > 2 else probs.view(probs.shape[0], 1, probs.shape[1])
    told = [host.constant(each, targets.dtype, "lengths") for each in (lengths, labels)]
    return wide, [targets, *told], {"blank": blank, "zero_infinity": zero}
