"""What the aclnn functions of batch normalisation do on the host."""

from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING, Any

from npusim.values.dtypes import FLOAT
from npusim.values.errors import RefusedTaskError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npusim.ascendc import GlobalTensor
    from npusim.operators.host import Host


def _lines(host: Host, x: GlobalTensor, count: int) -> list[GlobalTensor]:
    """A float32 for each channel, several times."""
    return [host.empty((x.shape[1],), FLOAT, f"line{number}") for number in range(count)]


def normalised(
    host: Host, x: GlobalTensor, weight: GlobalTensor | None = None,
    bias: GlobalTensor | None = None, mean: GlobalTensor | None = None,
    variance: GlobalTensor | None = None, *, training: bool, momentum: float, eps: float,
) -> Any:  # fmt: skip
    """Maps by their own mean and deviation in training, which the running ones follow."""
    if not training and (mean is None or variance is None):
        problem = "runningMean and runningVar are needed without training"
        raise RefusedTaskError("BatchNormV3", problem)
    outputs = [host.empty(x.shape, x.dtype), *_lines(host, x, 4)]
    y, new_mean, new_variance, own, rstd = host.run(
        "BatchNormV3", x, weight, bias, mean, variance, outputs=outputs, training=training,
        momentum=momentum, eps=eps,
    )  # fmt: skip
    moved = (new_mean if mean is not None else None, new_variance if variance is not None else None)
    return (y, *(moved if training else (mean, variance)), own, rstd)


def gradients(
    host: Host, grad: GlobalTensor, x: GlobalTensor, weight: GlobalTensor | None = None,
    mean: GlobalTensor | None = None, variance: GlobalTensor | None = None,
    own: GlobalTensor | None = None, rstd: GlobalTensor | None = None, *,
    training: bool, eps: float, mask: Sequence[bool], version: int = 0,
) -> Any:  # fmt: skip
    """Gradients of maps, gains and shifts, as far as they are wanted."""
    del version
    if not training:
        if mean is None or variance is None:
            raise RefusedTaskError("BatchNormGradV3", "runningMean and runningVar are needed")
        own = mean
        rstd = host.run("Rsqrt", host.together("Add", variance, eps, dtype=FLOAT))
    if own is None or rstd is None:
        raise RefusedTaskError("BatchNormGradV3", "saveMean and saveInvstd are needed in training")
    outputs = [host.empty(x.shape, x.dtype), *_lines(host, x, 2)]
    found = host.run("BatchNormGradV3", grad, x, weight, own, rstd, outputs=outputs,
                     training=training)  # fmt: skip
    return [each if wanted else None for each, wanted in zip(found, mask, strict=False)]


def statistics(host: Host, x: GlobalTensor, *, eps: float) -> Any:
    """The mean of every channel, and the reciprocal of its deviation.

    Nothing has a mean of 0 and no deviation (ops-math math/reduce_std_with_mean, op_api).
    """
    if not x.numel:
        lines = [x.shape[1]]
        return tuple(
            host.run("Fill", None, host.constant(value, FLOAT), dims=lines) for value in (0.0, nan)
        )
    wide, axes = host.cast(x, FLOAT), [0, *range(2, len(x.shape))]
    mean = host.run("ReduceMean", wide, axes=axes)
    line = mean.view(*(1 if axis in axes else size for axis, size in enumerate(x.shape)))
    spread = host.run("BroadcastTo", line, shape=list(x.shape))
    named: dict[str, Any] = {"axes": axes, "correction": 0, "invert": True, "epsilon": eps}
    return mean, host.run("ReduceStdWithMean", wide, spread, **named)


def sums(host: Host, x: GlobalTensor) -> Any:
    """The sum of every channel, and that of its squares."""
    return host.run("ReduceSumAndSquares", x, outputs=_lines(host, x, 2))


def elements(
    host: Host, x: GlobalTensor, weight: GlobalTensor | None = None,
    bias: GlobalTensor | None = None, mean: GlobalTensor | None = None,
    rstd: GlobalTensor | None = None, *, eps: float,
) -> Any:  # fmt: skip
    """Maps by a mean and deviation that are given."""
    del eps
    shape = (1, x.shape[1], *(1,) * (len(x.shape) - 2))
    found = host.cast(x, FLOAT)
    for op_type, line in (("Sub", mean), ("Mul", rstd), ("Mul", weight), ("Add", bias)):
        if line is not None:
            found = host.run(op_type, found, host.cast(line, FLOAT).view(*shape))
    return (host.cast(found, x.dtype), mean, rstd)


def gradient_sums(
    host: Host, grad: GlobalTensor, x: GlobalTensor, mean: GlobalTensor, rstd: GlobalTensor,
    weight: GlobalTensor | None = None, *, of_input: bool, of_gains: bool, of_shifts: bool,
) -> Any:  # fmt: skip
    """Sums of gradients for the cards together, as far as they are wanted."""
    found = host.run("SyncBatchNormBackwardReduce", grad, x, mean, rstd, weight,
                     outputs=_lines(host, x, 4))  # fmt: skip
    wanted = (of_input, of_input, of_gains, of_shifts)
    return [each if asked else None for each, asked in zip(found, wanted, strict=True)]


def elements_gradient(
    host: Host, grad: GlobalTensor, x: GlobalTensor, mean: GlobalTensor, rstd: GlobalTensor,
    weight: GlobalTensor | None, total: GlobalTensor, above: GlobalTensor, counts: GlobalTensor,
) -> Any:  # fmt: skip
    """The gradient of the maps by sums of all cards."""
    out = host.empty(x.shape, x.dtype)
    given = (grad, x, mean, rstd, weight, total, above, counts)
    return host.run("SyncBatchNormBackwardElemt", *given, outputs=(out,)), counts


def gathered(
    host: Host, x: GlobalTensor, means: GlobalTensor, rstds: GlobalTensor,
    mean: GlobalTensor | None, variance: GlobalTensor | None, counts: GlobalTensor, *,
    momentum: float, eps: float,
) -> Any:  # fmt: skip
    """Mean and deviation of all cards from those of each."""
    found = host.run("SyncBatchNormGatherStatsWithCounts", means, rstds, counts, mean, variance,
                     outputs=_lines(host, x, 4), momentum=momentum, eps=eps)  # fmt: skip
    total, rstd, moved, other = found
    return (total, rstd, moved if mean is not None else None,
            other if variance is not None else None)  # fmt: skip


def summed(
    host: Host, sums_: GlobalTensor, squares: GlobalTensor, counts: GlobalTensor,
    mean: GlobalTensor, variance: GlobalTensor, *, momentum: float, eps: float,
) -> Any:  # fmt: skip
    """Mean and deviation of all cards from their sums."""
    outputs = [host.empty(sums_.shape[1:], FLOAT, name) for name in ("mean", "rstd", "m", "v")]
    return host.run("SyncBatchNormGatherStats", sums_, squares, counts, mean, variance,
                    outputs=outputs, momentum=momentum, eps=eps)  # fmt: skip
