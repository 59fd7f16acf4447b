"""Which kernel changes one recorded layout into another; the shapes tell which layouts they are."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ops.data_movement import trans_data
from npusim.ops.data_movement.blocked import layout_of
from npusim.ops.data_movement.fractal import PlaneBlocks, RowBlocks
from npusim.ops.data_movement.permuting import Transpose
from npusim.schedules.on_ai_cpu import OnAiCpu
from npusim.values.errors import KernelError, RefusedTaskError
from npusim.values.formats import FRACTAL, Format

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from npusim.ascendc import GlobalTensor, Kernel
    from npusim.ascendc.task import Task


_VOLUMES = 5  # axes


class TransData(trans_data.TransData):
    """dst = src in the other layout."""

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        """Between NCHW, NHWC, HWCN, ND and NC1HWC0, FRACTAL_Z, FRACTAL_NZ, as the shapes say."""
        src, dst = task.present(1, 1)
        if src.format is dst.format is Format.FRACTAL_Z and src.shape != dst.shape:
            return OnAiCpu("TransData", _in_groups(task, src, dst), _moved).from_task(task)
        if len(src.shape) == len(dst.shape) and sorted(src.shape) == sorted(dst.shape):
            return Transpose.from_task(task)
        plain, blocked = _sides(src, dst)
        layout = layout_of(task.op_type, plain.shape, blocked.shape)
        # Planes of a channel each, be they of one place; fractals have two axes more than matrices.
        volumes = len(blocked.shape) == len(plain.shape) + 1 > _VOLUMES
        kind = RowBlocks if layout.plain[1] == 1 and not volumes else PlaneBlocks
        return (kind(task.profile, src, dst),)


def _sides(src: GlobalTensor, dst: GlobalTensor) -> tuple[GlobalTensor, GlobalTensor]:
    """The plain side and the blocked one."""
    for plain, blocked in ((src, dst), (dst, src)):
        if len(blocked.shape) < len(plain.shape) and len(plain.shape) != _VOLUMES:
            continue
        try:
            layout_of("TransData", plain.shape, blocked.shape)
        except KernelError:
            continue
        return plain, blocked
    raise RefusedTaskError("TransData", f"{src.shape} isn't {dst.shape} in another layout")


def _moved(task: Task) -> float:
    """The weights that find their places, one step for each: taps of all output channels."""
    src, _ = task.present(1, 1)
    return prod(src.shape[:3])


def _in_groups(
    task: Task, src: GlobalTensor, dst: GlobalTensor
) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """What brings weights of one input channel each, [taps, N1, 16, C0], into those of groups.

    Sixteen groups lie in one fractal of outputs by inputs, each on its diagonal. No AI core has a
    kernel for it. Source: operator information of TransData (op_info_cfg) has none from FRACTAL_Z
    to itself; hicann/ops-math conversion/trans_data, op_kernel_aicpu.
    """
    taps, high, _, lanes = src.shape
    slices = max(1, FRACTAL // lanes)
    if dst.shape != (high * slices * taps, 1, FRACTAL, lanes):
        raise task.refused(f"{src.shape} isn't {dst.shape} in groups of one channel")

    def regrouped(weights: NDArray[Any]) -> NDArray[Any]:
        found = np.zeros((high, slices, taps, FRACTAL, lanes), weights.dtype)
        for place in range(FRACTAL):
            found[:, place // lanes, :, place, place % lanes] = weights[:, :, place, 0].T
        return found.reshape(dst.shape)

    return regrouped
