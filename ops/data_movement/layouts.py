"""Which kernel changes one recorded layout into another; the shapes tell which layouts they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.ops.data_movement import trans_data
from npusim.ops.data_movement.blocked import layout_of
from npusim.ops.data_movement.fractal import PlaneBlocks, RowBlocks
from npusim.ops.data_movement.permuting import Transpose
from npusim.values.errors import KernelError, RefusedTaskError

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor, Kernel
    from npusim.ascendc.task import Task


_VOLUMES = 5  # axes


class TransData(trans_data.TransData):
    """dst = src in the other layout."""

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        """Between NCHW, NHWC, HWCN, ND and NC1HWC0, FRACTAL_Z, FRACTAL_NZ, as the shapes say."""
        src, dst = task.present(1, 1)
        if len(src.shape) == len(dst.shape) and sorted(src.shape) == sorted(dst.shape):
            return Transpose.from_task(task)
        plain, blocked = _sides(src, dst)
        layout = layout_of(task.op_type, plain.shape, blocked.shape)
        kind = RowBlocks if layout.plain[1] == 1 else PlaneBlocks
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
