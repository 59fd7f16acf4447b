"""The largest element of windows of volumes (NDC1HWC0): along the depth first, then on planes.

Two kernels in turn: maxima of whole planes, element by element, then windows on what is left. Where
windows are one plane deep the first isn't needed.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NamedTuple

from npusim.ascendc.task import made
from npusim.operators.results import numbers
from npusim.operators.tasks import Tasks
from npusim.schedules.rows.formula import Form
from npusim.schedules.rows.kernel import RowOperator, kernel_of

if TYPE_CHECKING:
    from npusim.ascendc import Kernel
    from npusim.ascendc.task import Task

_AXES = 6

PlaneMaxima = kernel_of(
    RowOperator("MaxPool3D", lambda f, x: (f.largest(x),), results=(Form.COLUMN,), raw=True)
)


def max_pool_3d(task: Task) -> tuple[Kernel, ...]:
    """x to y, both NDC1HWC0."""
    x, y = task.present(1, 1)
    if len(x.shape) != _AXES or len(y.shape) != _AXES:
        raise task.refused(f"{x.shape} and {y.shape} aren't NDC1HWC0")
    ksize, strides, pads = (numbers(task.first(name)) for name in ("ksize", "strides", "pads"))
    if not ksize or not strides or len(pads or ()) != _AXES:
        raise task.unsaid("a record without ksize, strides and six pads")
    (images, depth, *plane), planes = x.shape, x
    way = _Line(ksize[-3], strides[-3], *(pads or ())[:2])
    tasks = Tasks(task.profile)
    if way.window > 1 or way.stride > 1:
        planes = made((images, y.shape[1], *plane), x.dtype)
        if way.parts(depth, y.shape[1]):
            sides = (images * y.shape[1], way.window, prod(plane))
            folded = planes.view(sides[0], sides[2])
            tasks.kernels.append(PlaneMaxima(task.profile, x.view(*sides), folded, axis=1))
        else:
            # Planes as lines of an image: whole ones are compared, as rows of pixels are.
            line = prod(plane[:-1])
            tasks.run("MaxPoolV3", x.view(images, 1, depth, line, plane[-1]),
                out=planes.view(images, 1, y.shape[1], line, plane[-1]),
                ksize=[1, 1, way.window, 1], strides=[1, 1, way.stride, 1],
                pads=[way.before, way.behind, 0, 0])  # fmt: skip
    tasks.run("MaxPoolV3", planes.view(images * y.shape[1], *plane),
        out=y.view(images * y.shape[1], *y.shape[2:]), ksize=[1, 1, *ksize[-2:]],
        strides=[1, 1, *strides[-2:]], pads=list(pads or ())[2:])  # fmt: skip
    return tuple(tasks.kernels)


class _Line(NamedTuple):
    """Windows along the depth."""

    window: int
    stride: int
    before: int
    behind: int

    def parts(self, depth: int, count: int) -> bool:
        """Whether every plane is in one window."""
        return self.stride == self.window and depth == count * self.window and not self.before
