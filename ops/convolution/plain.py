"""Convolutions of images in NCHW: Conv2D between the tasks that change layouts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.ascendc.task import Task, made
from npusim.operators.tasks import kernels_on
from npusim.ops.convolution import geometry
from npusim.ops.convolution.forward import Conv2D
from npusim.ops.convolution.layouts import Layouts
from npusim.values.dtypes import FLOAT, FLOAT16

if TYPE_CHECKING:
    from npusim.ascendc import Kernel

PLANAR = 4  # dimensions of images


def convolution(task: Task) -> tuple[Kernel, ...]:
    """The kernels of a Conv2D, and of the tasks around one whose tensors are plain.

    Where a record of a plain one doesn't tell, the window moves by one and sees zeros all around,
    so that the result is as large as the plane.
    """
    x, weight = task.present(2)
    if len(x.shape) == PLANAR and len(weight.shape) == PLANAR - 1:  # a plane for each channel
        weight = weight.view(weight.shape[0], 1, *weight.shape[1:])
    if len(x.shape) != PLANAR or len(weight.shape) != PLANAR:
        return Conv2D.from_task(task)
    window = geometry.told_window(weight.shape[2:], task.attributes)
    positions = window.positions((x.shape[2], x.shape[3]))
    groups = task.whole_number("groups", x.shape[1] // max(1, weight.shape[1]))
    whole = groups > 0 and x.shape[1] == groups * weight.shape[1] and not weight.shape[0] % groups
    if not whole or min(positions) < 1:
        raise task.unfit(f"{x.shape} can't be convolved with {weight.shape}")
    shape = (x.shape[0], weight.shape[0], *positions)
    y = task.outputs[0] if task.outputs else made(shape, x.dtype)
    if y.shape != shape:
        raise task.unfit(f"{y.shape} isn't {shape}")
    bias = task.inputs[2] if len(task.inputs) > 2 else None
    kernels: list[Kernel] = []
    wide = task.profile.paths.l0c_to_gm is not None and x.dtype is not FLOAT16
    if bias is not None and wide and bias.dtype is not FLOAT:
        cast = made(bias.shape, FLOAT, "bias_float")
        kernels += kernels_on(Task(task.profile, "Cast", (bias,), (cast,)))
        bias = cast
    told = task.first("enable_hf32", "hf32")
    # Frameworks let convolutions round to HF32 unless they are told not to (allow_hf32).
    hf32 = x.dtype is FLOAT and (bool(told) if told is not None else True)
    layouts = Layouts(task.profile, window, groups, hf32=hf32)
    # A framework has halves stay as they are stored until somebody wants them otherwise. Source:
    # op-plugin (result_format), and no list of kernels of a convolution in float16 has a TransData
    # back (hicann/cann-bench, tasks/level3/conv_2d); those of groups aren't published.
    split = task.profile.cores.style == "split"
    stays = split and x.dtype is FLOAT16 and groups == 1 and not task.outputs
    return (*kernels, *layouts.forward("Conv2D", x, weight, bias, y, stays=stays))
