"""What the aclnn functions of optimisers do on the host: one kernel for what is updated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npusim.values.errors import RefusedTaskError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npusim.ascendc import GlobalTensor
    from npusim.operators.host import Host


def _room(host: Host, tensors: Sequence[GlobalTensor]) -> tuple[GlobalTensor, ...]:
    return tuple(host.empty(each.shape, each.dtype) for each in tensors)


def adam_w(
    host: Host, var: GlobalTensor, m: GlobalTensor, v: GlobalTensor, most: GlobalTensor | None,
    grad: GlobalTensor, step: GlobalTensor, *, amsgrad: bool, **numbers: Any,
) -> Any:  # fmt: skip
    """Weights, both moments, and the largest of the second where it is asked for."""
    changed = [var, m, v]
    if amsgrad:
        if most is None:
            raise RefusedTaskError("ApplyAdamWV2", "amsgrad needs maxGradNormOptionalRef")
        changed.append(most)
    tensors = (var, m, v, grad, step, *changed[3:])
    outputs = _room(host, changed)
    return host.run("ApplyAdamWV2", *tensors, outputs=outputs, ahead=1, **numbers)


def ema_adam(
    host: Host, grad: GlobalTensor, var: GlobalTensor, m: GlobalTensor, v: GlobalTensor,
    s: GlobalTensor, step: GlobalTensor, **numbers: Any,
) -> Any:  # fmt: skip
    """Weights, both moments and the average of the weights."""
    outputs = _room(host, (var, m, v, s))
    return host.run("ApplyFusedEmaAdam", grad, var, m, v, s, step, outputs=outputs, **numbers)


def fused_adam_w(
    host: Host, params: Sequence[GlobalTensor], grads: Sequence[GlobalTensor],
    first: Sequence[GlobalTensor], second: Sequence[GlobalTensor], most: Sequence[GlobalTensor],
    steps: Sequence[GlobalTensor], scale: GlobalTensor | None = None,
    found: GlobalTensor | None = None, *, amsgrad: bool, **numbers: Any,
) -> Any:  # fmt: skip
    """Lists of weights and moments."""
    largest = list(most) if amsgrad else []
    _alike(params, grads, first, second, steps, *([most] if amsgrad else []))
    given = [each for each in (scale, found) if each is not None]
    tensors = (*params, *grads, *first, *second, *largest, *steps, *given)
    return host.run(
        "FusedAdamw", *tensors, outputs=_room(host, (*params, *first, *second, *largest)),
        count=len(params), amsgrad=amsgrad, has_scale=scale is not None,
        has_found=found is not None, **numbers,
    )  # fmt: skip


def fused_sgd(
    host: Host, params: Sequence[GlobalTensor], grads: Sequence[GlobalTensor],
    speeds: Sequence[GlobalTensor], scale: GlobalTensor | None = None, **numbers: Any,
) -> Any:  # fmt: skip
    """Lists of weights, gradients and velocities."""
    _alike(params, grads, *([speeds] if speeds else []))
    changed = (*params, *grads, *speeds)
    given = () if scale is None else (scale,)
    return host.run(
        "FusedSgd", *changed, *given, outputs=_room(host, changed), count=len(params),
        has_momentum=bool(speeds), has_scale=scale is not None, **numbers,
    )  # fmt: skip


def unscaled(
    host: Host, grads: Sequence[GlobalTensor], found: GlobalTensor, inverse: GlobalTensor
) -> Any:
    """A list of gradients, and a number that says whether all are finite."""
    changed = (*grads, found)
    name = "ForeachNonFiniteCheckAndUnscale"
    return host.run(name, *changed, inverse, outputs=_room(host, changed), count=len(grads))


def _alike(*lists: Sequence[GlobalTensor]) -> None:
    if len({len(each) for each in lists}) > 1:
        problem = f"lists of {', '.join(str(len(each)) for each in lists)}"
        raise RefusedTaskError("optimiser", problem)
