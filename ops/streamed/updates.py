"""Steps of optimisers whose kernels pass weights, gradients and moments through UB once.

Source: ops-nn optim and foreach (documents of the interfaces; kernels for the order of decay, scale
and correction).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.schedules.streamed import Streamed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_MOMENTS = ("vmuls", "vmul", "vmuls", "vadd", "vmuls", "vadd", "vsqrt", "vadds", "vdiv", "vadd")
_MOMENTUM = ("vmuls", "vmuls", "vadd", "vmuls", "vadd", "vmuls", "vsub")
_SCALED = ("vmuls", "vcmpv_eq")


def _wide(*tensors: Array) -> list[Array]:
    return [each.astype(np.float64) for each in tensors]


def _moments(
    grad: Array, m: Array, v: Array, most: Array | None, step: float, *, beta1: float, beta2: float
) -> tuple[Array, Array, Array | None, Array, Any]:
    """Both moments, the largest of the second so far, and both corrected for their first steps."""
    m, v = beta1 * m + (1 - beta1) * grad, beta2 * v + (1 - beta2) * grad * grad
    most = None if most is None else np.maximum(most, v)
    second = v if most is None else most
    return m, v, most, m / (1 - beta1**step), second / (1 - beta2**step)


def _adam_w(
    var: Array, m: Array, v: Array, grad: Array, step: Array, most: Array | None = None, *,
    lr: float, beta1: float, beta2: float, decay: float, eps: float, ahead: int = 0,
    maximize: bool = False,
) -> tuple[Array, ...]:  # fmt: skip
    """Weights that decay by themselves; ``ahead`` is 1 where the step counts from nought."""
    var, m, v, grad = _wide(var, m, v, -grad if maximize else grad)
    count = float(step.reshape(-1)[0]) + ahead
    m, v, largest, first, second = _moments(grad, m, v, most, count, beta1=beta1, beta2=beta2)
    var = var * (1 - lr * decay) - lr * first / (np.sqrt(second) + eps)
    return (var, m, v) if largest is None else (var, m, v, largest)


def _ema_adam(
    grad: Array, var: Array, m: Array, v: Array, s: Array, step: Array, *, lr: float,
    ema_decay: float, beta1: float, beta2: float, eps: float, mode: int, correct: bool,
    decay: float,
) -> tuple[Array, ...]:  # fmt: skip
    """Adam with weights that are averaged over the steps as well."""
    grad, var, m, v, s = _wide(grad, var, m, v, s)
    grad = grad + decay * var if mode == 0 else grad
    count = float(step.reshape(-1)[0]) if correct else np.inf
    m, v, _, first, second = _moments(grad, m, v, None, count, beta1=beta1, beta2=beta2)
    update = first / (np.sqrt(second) + eps) + (decay * var if mode else 0)
    var = var - lr * update
    return var, m, v, ema_decay * s + (1 - ema_decay) * var


def _fused_adam_w(
    *tensors: Array, count: int, amsgrad: bool, has_scale: bool, has_found: bool, **numbers: Any
) -> tuple[Array, ...]:
    """A list of weights; nothing changes where the gradients were found to be infinite."""
    lists, more = _lists(tensors, count, 5 + amsgrad)
    scale = float(more.pop(0).reshape(-1)[0]) if has_scale else 1.0
    stopped = has_found and float(more.pop(0).reshape(-1)[0]) == 1
    found = []
    for var, grad, m, v, *most, step in zip(*lists, strict=True):
        if stopped:
            found.append((var, m, v, *most))
        else:
            found.append(_adam_w(var, m, v, grad / scale, step, *most, **numbers))
    return tuple(each for part in zip(*found, strict=True) for each in part)


def _fused_sgd(
    *tensors: Array, count: int, has_momentum: bool, has_scale: bool, decay: float,
    momentum: float, lr: float, dampening: float, nesterov: bool, maximize: bool, first: bool,
) -> tuple[Array, ...]:  # fmt: skip
    """A list of weights, their gradients by the scale, and their velocities."""
    lists, more = _lists(tensors, count, 2 + has_momentum)
    scale = float(more[0].reshape(-1)[0]) if has_scale else 1.0
    found = []
    for var, grad, *rest in zip(*lists, strict=True):
        scaled = grad.astype(np.float64) / scale
        change = (-scaled if maximize else scaled) + decay * var
        speeds = [change if first else momentum * v + (1 - dampening) * change for v in rest]
        for speed in speeds:
            change = change + momentum * speed if nesterov else speed
        found.append((var - lr * change, scaled, *speeds))
    return tuple(each for part in zip(*found, strict=True) for each in part)


def _unscaled(*tensors: Array, count: int) -> tuple[Array, ...]:
    """Gradients by what they were scaled with, and whether one of them is no finite number."""
    (grads,), (found, inverse) = _lists(tensors, count, 1)
    finite = all(np.isfinite(each.astype(np.float64)).all() for each in grads)
    number = inverse.reshape(-1)[0]
    return (*(each * number for each in grads), found if finite else np.ones_like(found))


def _lists(
    tensors: tuple[Array, ...], count: int, lists: int
) -> tuple[list[tuple[Array, ...]], list[Array]]:
    """Lists of so many tensors, and what comes behind them."""
    ends = range(0, count * lists, count)
    return [tensors[at : at + count] for at in ends], list(tensors[count * lists :])


def _row(name: str, compute: Any, steps: tuple[str, ...], **attributes: object) -> Any:
    return Streamed(name, compute, steps, attributes).from_task


_RATES = {"lr": 1e-3, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "decay": 0.0}
_GIVEN = {"count": 1, "has_scale": False}

adam_w = _row("ApplyAdamWV2", _adam_w, _MOMENTS, **_RATES, ahead=0, maximize=False)
ema_adam = _row("ApplyFusedEmaAdam", _ema_adam, (*_MOMENTS, "vmuls", "vadd"), **_RATES,
                ema_decay=0.9999, mode=1, correct=True)  # fmt: skip
fused_adam_w = _row("FusedAdamw", _fused_adam_w, _MOMENTS, **_RATES, **_GIVEN, amsgrad=False,
                    maximize=False, has_found=False)  # fmt: skip
fused_sgd = _row("FusedSgd", _fused_sgd, _MOMENTUM, **_GIVEN, lr=1e-3, decay=0.0, momentum=0.0,
                 dampening=0.0, nesterov=False, maximize=False, first=False,
                 has_momentum=False)  # fmt: skip
unscaled = _row("ForeachNonFiniteCheckAndUnscale", _unscaled, _SCALED, count=1)
