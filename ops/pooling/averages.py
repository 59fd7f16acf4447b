"""Means of windows of plain images, in one to three dimensions, and the gradients.

A mean is a mean along one axis after the other, divisors included, so its windows are tables of
each axis, and gradients have the transposed ones. Sources: ops-nn pooling/avg_pool3_d,
avg_pool3_d_grad, adaptive_avg_pool3d_grad (op_api: planes are volumes of one plane; gradients of
even windows lie with channels last); the divisors are those of the aclnn pages.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import TYPE_CHECKING

from npusim.ascendc.task import Task, made
from npusim.library.axis_maps import AxisMap
from npusim.library.mapping import Mapped
from npusim.operators.results import numbers
from npusim.operators.tasks import Tasks
from npusim.ops.pooling.adaptive import adaptive_avg_pool_3d
from npusim.ops.pooling.tables import even_means, lines_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npusim.ascendc import GlobalTensor, Kernel

_DEPTH_AND_PLANE = 3


def _means(task: Task, inside: Sequence[int]) -> list[AxisMap]:
    """The means along each axis; a divisor that is told takes the place of theirs."""
    windows = lines_of(task, inside)
    divisor = task.whole_number("divisor_override", 0)
    if divisor:
        first, *rest = (each.windows() for each in windows)
        return [first.scaled(1 / divisor), *rest]
    padding = bool(task.attributes.get("count_include_pad", True))
    return [each.means(with_padding=padding) for each in windows]


def _avg_pool(task: Task, axes: int) -> tuple[Kernel, ...]:
    """x to the means of its windows."""
    (x,) = task.present(1)
    maps = _means(task, x.shape[-axes:])
    shape = (*x.shape[:-axes], *(each.out for each in maps))
    out = task.outputs[0] if task.outputs else made(shape, x.dtype)
    return (Mapped.called("AvgPool3D")(task.profile, x, out, maps),)


def _avg_pool_grad(task: Task, axes: int) -> tuple[Kernel, ...]:
    """The gradient of the means, and x for its size, to that of x."""
    grads, x = task.present(2)
    maps = [each.transposed() for each in _means(task, x.shape[-axes:])]
    out = task.outputs[0] if task.outputs else made(x.shape, grads.dtype)
    return (Mapped.called("AvgPool3DGrad")(task.profile, grads, out, maps),)


avg_pool_2d, avg_pool_3d = partial(_avg_pool, axes=2), partial(_avg_pool, axes=3)
avg_pool_2d_grad, avg_pool_3d_grad = (partial(_avg_pool_grad, axes=axes) for axes in (2, 3))


def adaptive_avg_pool_2d(task: Task) -> tuple[Kernel, ...]:
    """Means of planes as those of volumes of one plane."""
    (x,) = task.present(1)
    size = numbers(task.first("output_size")) or []
    if len(x.shape) not in (3, 4) or len(size) != 2:
        raise task.unfit(f"{x.shape} to {size}")
    out = task.outputs[0] if task.outputs else made((*x.shape[:-2], *size), x.dtype)
    inside, outside = (each.view(*each.shape[:-2], 1, *each.shape[-2:]) for each in (x, out))
    said = {"output_size": [1, *size]}
    return adaptive_avg_pool_3d(Task(task.profile, task.op_type, (inside,), (outside,), said))


def _even_grad(task: Task, axes: int) -> tuple[Kernel, ...]:
    """Gradients of even windows, turned so that channels are last, and back."""
    grads, x = task.present(2)
    if grads.shape[:-axes] != x.shape[:-axes] or len(x.shape) <= axes:
        raise task.unfit(f"gradients {grads.shape} of {x.shape}")
    inside, outside = x.shape[-axes:], grads.shape[-axes:]
    planes = prod(x.shape[:-axes])
    out = task.outputs[0] if task.outputs else made(x.shape, grads.dtype)
    turned, summed = (made((*size, planes), grads.dtype) for size in (outside, inside))
    tasks = Tasks(task.profile)
    flat, result = grads.view(planes, *outside), out.view(planes, *inside)
    tasks.run("Transpose", flat, out=turned, perm=[*range(1, axes + 1), 0])
    tasks.kernels.append(_even_grad_kernel(task, turned, summed))
    tasks.run("Transpose", summed, out=result, perm=[axes, *range(axes)])
    return tuple(tasks.kernels)


def _even_grad_kernel(task: Task, grads: GlobalTensor, out: GlobalTensor) -> Kernel:
    """Gradients of even windows with channels last.

    All cores are launched, and share elements of planes. Source: public host tiling (ops-nn,
    pooling/adaptive_avg_pool3d_grad/op_host).
    """
    *inside, planes = out.shape
    maps = [
        even_means(size, count).transposed()
        for size, count in zip(inside, grads.shape[:-1], strict=True)
    ]
    kind = Mapped.called("AdaptiveAvgPool3dGrad")
    kernel = kind(task.profile, grads, out, [*maps, AxisMap.same(planes)])
    kernel.hard_sync = True  # uneven windows meet in one place
    if not task.profile.software.compiled_for_shape:
        kernel.block_dim = task.profile.cores.vector_cores
    return kernel


adaptive_avg_pool_2d_grad = partial(_even_grad, axes=2)


def adaptive_avg_pool_3d_grad(task: Task) -> tuple[Kernel, ...]:
    """The same of volumes; a record is of the kernel alone, with the channels of all images."""
    grads, x = task.present(2)
    if len(grads.shape) + 1 == len(x.shape) and task.outputs:
        out = task.outputs[0]
        if (
            len(out.shape) != len(grads.shape)
            or out.shape[_DEPTH_AND_PLANE:] != grads.shape[_DEPTH_AND_PLANE:]
        ):
            raise task.unfit(f"gradients {grads.shape} to {out.shape}")
        return (_even_grad_kernel(task, grads, out),)
    return _even_grad(task, _DEPTH_AND_PLANE)
