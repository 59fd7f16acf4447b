"""The axis that an operator works along, and tasks that bring it to where its kernel wants it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.ascendc.task import Task, made
from npusim.operators.results import numbers
from npusim.operators.tasks import kernels_on

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor, Kernel


def axis_of(task: Task, rank: int, default: int = -1) -> int:
    """The axis of a task, counted from the front; refused where there is no such axis."""
    found = numbers(task.first("dim", "axis", "dimension")) or [default]
    axis = found[0]
    if not -rank <= axis < rank:
        raise task.unfit(f"axis {axis} of {rank}")
    return axis % rank


def moved(task: Task, x: GlobalTensor, axis: int, to: int) -> tuple[GlobalTensor, list[Kernel]]:
    """``x`` with an axis at another place, and the kernels that turn it, none where it is there."""
    order = [each for each in range(len(x.shape)) if each != axis]
    order.insert(to, axis)
    if _same_memory(x.shape, order):
        return x.view(*(x.shape[each] for each in order)), []
    turned = made(tuple(x.shape[each] for each in order), x.dtype)
    return turned, list(_turn(task, x, turned, order))


def moved_back(
    task: Task, turned: GlobalTensor, out: GlobalTensor, axis: int, at: int
) -> list[Kernel]:
    """The kernels that bring the axis of a result back from ``at``."""
    order = [each for each in range(len(out.shape)) if each != axis]
    order.insert(at, axis)
    back = [order.index(each) for each in range(len(order))]
    return list(_turn(task, turned, out, back))


def lies_there(out: GlobalTensor, axis: int, at: int) -> bool:
    """True where a result lies in memory as if its axis were at another place."""
    order = [each for each in range(len(out.shape)) if each != axis]
    order.insert(at, axis)
    return _same_memory(out.shape, order)


def cast(task: Task, x: GlobalTensor, out: GlobalTensor) -> list[Kernel]:
    """The kernels that convert ``x``."""
    return list(kernels_on(Task(task.profile, "Cast", (x,), (out,))))


def _turn(task: Task, x: GlobalTensor, out: GlobalTensor, order: list[int]) -> tuple[Kernel, ...]:
    return kernels_on(Task(task.profile, "Transpose", (x,), (out,), {"perm": order}))


def _same_memory(shape: tuple[int, ...], order: list[int]) -> bool:
    long = [each for each in order if shape[each] > 1]
    return long == sorted(long)
