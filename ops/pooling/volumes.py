"""The largest element of windows of volumes (NDC1HWC0): along the depth first, then on planes.

Two kernels in turn, where windows along the depth lie side by side: maxima of whole planes, element
by element, then windows on what is left. Where they are one plane deep the first isn't needed.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from npusim.ascendc.task import made
from npusim.operators.results import numbers
from npusim.ops.pooling.sliding import MaxPoolV3
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
    """x to y, both NDC1HWC0; KernelError for windows that overlap or are padded along the depth."""
    x, y = task.present(1, 1)
    if len(x.shape) != _AXES or len(y.shape) != _AXES:
        raise task.refused(f"{x.shape} and {y.shape} aren't NDC1HWC0")
    ksize, strides, pads = (numbers(task.first(name)) for name in ("ksize", "strides", "pads"))
    if not ksize or not strides or len(pads or ()) != _AXES:
        raise task.refused("a record without ksize, strides and six pads")
    deep, volumes = ksize[-3], x.shape[0] * y.shape[1]
    if deep > 1 and (strides[-3] != deep or x.shape[1] != deep * y.shape[1]):
        raise task.refused(f"windows {deep} deep every {strides[-3]} planes of {x.shape[1]}")
    found: tuple[Kernel, ...] = ()
    planes = x.view(x.shape[0] * x.shape[1], *x.shape[2:])
    if deep > 1:
        planes = made((volumes, *x.shape[2:]), x.dtype)
        whole = prod(x.shape[2:])
        parted, folded = x.view(volumes, deep, whole), planes.view(volumes, whole)
        found = (PlaneMaxima(task.profile, parted, folded, axis=1),)
    flat = replace(
        task,
        op_type="MaxPoolV3",
        inputs=(planes,),
        outputs=(y.view(volumes, *y.shape[2:]),),
        attributes={
            "ksize": [1, 1, *ksize[-2:]],
            "strides": [1, 1, *strides[-2:]],
            "pads": list(pads or ())[2:],
        },
    )
    return (*found, *MaxPoolV3.from_task(flat))
