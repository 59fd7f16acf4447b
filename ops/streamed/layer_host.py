"""What the aclnn functions of layers' parts do on the host: one kernel, its results described."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npusim.values.dtypes import BFLOAT16, FLOAT16, INT32
from npusim.values.errors import RefusedTaskError

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor
    from npusim.operators.host import Host


def _like(host: Host, tensor: GlobalTensor) -> GlobalTensor:
    return host.empty(tensor.shape, tensor.dtype)


def lstm_cell(
    host: Host, given: GlobalTensor, hidden: GlobalTensor, cell: GlobalTensor,
    first: GlobalTensor | None = None, second: GlobalTensor | None = None,
) -> Any:  # fmt: skip
    """Hidden state, cell, and the gates for the gradient."""
    outputs = (_like(host, cell), _like(host, cell), _like(host, given))
    return host.run("ThnnFusedLstmCell", given, hidden, cell, first, second, outputs=outputs)


def lstm_cell_grad(
    host: Host, hidden: GlobalTensor | None, later: GlobalTensor | None, before: GlobalTensor,
    cell: GlobalTensor, gates: GlobalTensor, *, biased: bool,
) -> Any:  # fmt: skip
    """Of the gates, of the cell before, and of the bias where there is one."""
    bias = host.empty((gates.shape[-1],), gates.dtype)
    outputs = (_like(host, gates), _like(host, cell), bias)
    found = host.run("ThnnFusedLstmCellGrad", hidden, later, before, cell, gates, outputs=outputs)
    return found if biased else (*found[:2], None)


def cross_entropy(
    host: Host, x: GlobalTensor, target: GlobalTensor, weight: GlobalTensor | None = None, *,
    reduction: str = "mean", ignored: int,
) -> Any:  # fmt: skip
    """The loss and the logarithms of the shares; nothing for what isn't offered yet.

    The device makes both in one kernel, here they are two.
    """
    given = (x, target) if weight is None else (x, target, weight)
    shape = x.shape[:1] if reduction == "none" else (1,)
    loss = host.run(
        "CrossEntropyLoss", *given, outputs=(host.empty(shape, x.dtype),), reduction=reduction,
        ignore_index=ignored,
    )  # fmt: skip
    return loss, host.run("LogSoftmaxV2", x, axes=[1]), None, None


def cross_entropy_grad(
    host: Host, grad: GlobalTensor, logarithms: GlobalTensor, target: GlobalTensor,
    weight: GlobalTensor | None = None, grad_z: GlobalTensor | None = None,
    sums: GlobalTensor | None = None, *, reduction: str = "mean", ignored: int,
) -> Any:  # fmt: skip
    """The gradient of the input."""
    del grad_z, sums  # to be null by the page
    return host.run(
        "CrossEntropyLossGrad", grad, logarithms, target, weight,
        outputs=(_like(host, logarithms),), reduction=reduction, ignored=ignored,
    )  # fmt: skip


def modulated_grad(
    host: Host, grad: GlobalTensor, x: GlobalTensor, scale: GlobalTensor | None = None,
    shift: GlobalTensor | None = None,
) -> Any:  # fmt: skip
    """Of the input, and of scale and shift where there are such."""
    line = host.empty((x.shape[0], x.shape[2]), x.dtype)
    outputs = (_like(host, x), line, _like(host, line))
    found = host.run("ModulateGrad", grad, x, scale, outputs=outputs)
    return found[0], None if scale is None else found[1], None if shift is None else found[2]


def biased_softmax(
    host: Host, x: GlobalTensor, mask: GlobalTensor | None, bias: GlobalTensor, *, scale: float
) -> Any:
    """Shares of rows with a mask for each window and a bias for each head."""
    given = (x, bias) if mask is None else (x, mask, bias)
    return host.run(
        "MaskedSoftmaxWithRelPosBias", *given, outputs=(_like(host, x),), scale=scale,
        masked=mask is not None,
    )  # fmt: skip


def dequantised(
    host: Host, x: GlobalTensor, weight: GlobalTensor, rows: GlobalTensor | None = None,
    bias: GlobalTensor | None = None, *, kind: int,
) -> Any:  # fmt: skip
    """Whole sums by their scales; a whole bias is added before that, another behind it."""
    given = [each for each in (x, weight, rows, bias) if each is not None]
    out = host.empty(x.shape, BFLOAT16 if kind == BFLOAT16.acl else FLOAT16)
    return host.run(
        "DequantBias", *given, outputs=(out,),
        by_row=rows is not None, biased=bias is not None,
        whole=bias is not None and bias.dtype is INT32,
    )  # fmt: skip


def prelu_grad(host: Host, grad: GlobalTensor, x: GlobalTensor, weight: GlobalTensor) -> Any:
    """Of the input and of the slopes."""
    if weight.numel > 1 and (len(x.shape) < 2 or x.shape[1] != weight.numel):
        raise RefusedTaskError("PReluGrad", f"{weight.numel} slopes for {x.shape}")
    outputs = (_like(host, x), _like(host, weight))
    return host.run("PReluGrad", grad, x, weight, outputs=outputs)


def swish_norm(
    host: Host, x: GlobalTensor, gamma: GlobalTensor, beta: GlobalTensor, *, groups: int,
    eps: float, curved: bool, scale: float,
) -> Any:  # fmt: skip
    """Maps normalised by groups and bent, mean and deviation of each group."""
    line = host.empty((x.shape[0], groups), x.dtype)
    return host.run(
        "GroupNormSwish", x, gamma, beta, outputs=(_like(host, x), line, _like(host, line)),
        groups=groups, eps=eps, curved=curved, scale=scale,
    )  # fmt: skip


def swish_norm_grad(
    host: Host, dy: GlobalTensor, mean: GlobalTensor, rstd: GlobalTensor, x: GlobalTensor,
    gamma: GlobalTensor, beta: GlobalTensor, *, groups: int, scale: float, gains: bool,
    shifts: bool,
) -> Any:  # fmt: skip
    """Of the maps, and of gains and shifts as far as they are asked for."""
    outputs = (_like(host, x), _like(host, gamma), _like(host, beta))
    found = host.run(
        "GroupNormSwishGrad", dy, mean, rstd, x, gamma, beta, outputs=outputs, groups=groups,
        scale=scale,
    )  # fmt: skip
    return found[0], found[1] if gains else None, found[2] if shifts else None
