"""Copies of whole tensors: in on one transfer engine, out on the other, past the vector unit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.ascendc import Core, GlobalTensor, TPosition, TQue
from npusim.engine.program import Pipe
from npusim.schedules.elementwise import ElementwiseKernel, Tile
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.ascendc.kernel import Kernel
    from npusim.ascendc.task import Task
    from npusim.hardware.profile import Profile


class Move(ElementwiseKernel):
    """dst = src, both contiguous and of one dtype."""

    coexisting = 1.0

    def __init__(self, profile: Profile, src: GlobalTensor, dst: GlobalTensor) -> None:
        if src.dtype is not dst.dtype:
            raise KernelError(self.op_type, f"copies {src.dtype} into {dst.dtype}")
        self.coexisting = dst.dtype.itemsize / 4
        if src.numel == dst.numel:
            src = src.view(*dst.shape)
        super().__init__(profile, (src,), dst)

    def init_buffers(self, core: Core) -> None:
        """Reserve queues and scratch."""
        self.queue = TQue(TPosition.VECIN, self.depth, "tile", consumer=Pipe.MTE3)
        core.pipe.init_buffer(
            self.queue, self.depth, self.tile_elements * self.output.dtype.itemsize
        )

    def compute(self, core: Core, tile: Tile) -> None:
        """One tile: load, compute, store."""
        source = tile.sources[0]
        if source is None:
            raise KernelError(self.op_type, "repeats no single element")
        tensor = self.queue.copy_in(source)
        core.copy_runs(tile.target, tensor)
        self.queue.free_tensor(tensor)


class TensorMove(Move):
    """out = x."""

    op_type = "TensorMove"


class Assign(Move):
    """ref = value; the old content isn't read."""

    op_type = "Assign"

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        """The kernel for a recorded task."""
        ref, value = task.inputs[:2]
        target = task.outputs[0] if task.outputs else ref
        if value is None or target is None:
            raise task.refused("needs a variable and a value")
        return (cls(task.profile, value, target),)
