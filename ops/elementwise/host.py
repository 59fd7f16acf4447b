"""What the aclnn functions of elementwise operators do on the host beside calling them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor
    from npusim.operators.host import Host, ScalarValue


def add(
    host: Host, x: GlobalTensor, other: GlobalTensor, *, alpha: ScalarValue = 1
) -> GlobalTensor:
    """x + alpha other."""
    return _scaled(host, "Add", x, other, alpha)


def sub(
    host: Host, x: GlobalTensor, other: GlobalTensor, *, alpha: ScalarValue = 1
) -> GlobalTensor:
    """x - alpha other."""
    return _scaled(host, "Sub", x, other, alpha)


def adds(
    host: Host, x: GlobalTensor, *, other: ScalarValue, alpha: ScalarValue = 1
) -> GlobalTensor:
    """x + alpha times a number, which the host multiplies."""
    found: GlobalTensor = host.together("Add", x, other * alpha)
    return found


def muls(host: Host, x: GlobalTensor, *, other: ScalarValue) -> GlobalTensor:
    """x times a number."""
    found: GlobalTensor = host.together("Mul", x, other)
    return found


def _scaled(
    host: Host, op_type: str, x: GlobalTensor, other: GlobalTensor, alpha: ScalarValue
) -> GlobalTensor:
    wanted = host.joint_dtype(x, other)
    if alpha != 1:
        other = host.together("Mul", other, alpha, dtype=wanted)
    found: GlobalTensor = host.together(op_type, x, other, dtype=wanted)
    return found
