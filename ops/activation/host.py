"""What the aclnn functions of activations do on the host beside calling one operator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor
    from npusim.operators.host import Host


def log_sigmoid_forward(host: Host, x: GlobalTensor) -> tuple[GlobalTensor, GlobalTensor]:
    """The function, and a buffer that nobody reads."""
    buffer = host.run("ZerosLike", x)
    return host.run("LogSigmoid", x), buffer


def log_sigmoid_backward(
    host: Host, grad: GlobalTensor, x: GlobalTensor, buffer: GlobalTensor
) -> Any:
    """The gradient; the buffer isn't read."""
    del buffer
    return host.run("LogSigmoidGrad", grad, x)


def swish_backward(host: Host, grad: GlobalTensor, x: GlobalTensor, *, scale: float = 1.0) -> Any:
    """By what the function itself gives."""
    y = host.run("Swish", x, scale=scale)
    return host.run("SwishGrad", grad, x, y, scale=scale)


def glu(host: Host, x: GlobalTensor, *, dim: int) -> Any:
    """The first half of an axis times the sigmoid of the second."""
    first, second = _halves(host, x, dim)
    return host.run("Mul", first, host.run("Sigmoid", second))


def glu_backward(host: Host, grad: GlobalTensor, x: GlobalTensor, *, dim: int) -> Any:
    """The gradients of both halves, joined."""
    first, second = _halves(host, x, dim)
    gate = host.run("Sigmoid", second)
    left = host.run("Mul", grad, gate)
    rest = host.run("Sub", gate, host.run("Mul", gate, gate))
    right = host.run("Mul", host.run("Mul", grad, first), rest)
    return host.run("ConcatD", left, right, concat_dim=dim)


def _halves(host: Host, x: GlobalTensor, dim: int) -> tuple[GlobalTensor, GlobalTensor]:
    axis = dim % max(1, len(x.shape))
    half = x.shape[axis] // 2
    first, second = host.run("SplitV", x, split_dim=axis, size_splits=[half, half], num_split=2)
    return first, second


def add_relu(host: Host, x: GlobalTensor, other: GlobalTensor, *, alpha: float = 1.0) -> Any:
    """What is above zero of x + alpha other."""
    if alpha != 1:
        other = host.together("Mul", other, alpha, dtype=host.joint_dtype(x, other))
    return host.run("Relu", host.together("Add", x, other))


def prelu(host: Host, x: GlobalTensor, weight: GlobalTensor) -> Any:
    """A slope for every channel, which is the second axis."""
    if weight.numel > 1:
        weight = weight.view(weight.numel, *(1,) * (len(x.shape) - 2))
    return host.run("PRelu", x, weight)
