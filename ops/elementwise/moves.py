"""Copies of whole tensors: in on one transfer engine, out on the other, past the vector unit."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Final

from npusim.ascendc import Core, GlobalTensor, TPosition, TQue
from npusim.engine.program import Pipe
from npusim.schedules.elementwise import ElementwiseKernel, FlatTiling, Tile
from npusim.values.arithmetic import round_up
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.ascendc.kernel import Kernel
    from npusim.ascendc.task import Task
    from npusim.hardware.profile import Profile
    from npusim.schedules.block_split import BlockSplit

_RESERVED_BYTES: Final = 8 * 1024  # of UB, that tensor_move.py leaves alone


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
    """out = x.

    Segments of half of UB. A kernel for any shape loads and stores them in turn; one compiled for
    its shape has two buffers where a core has two segments or more. Source: public kernels and
    tiling (tbe/impl/tensor_move.py, tbe/impl/dynamic/tensor_move.py, op_tiling/tensor_move.cc); in
    the second the choice between one thread and two is made when the kernel is built, always for
    one.
    """

    op_type = "TensorMove"

    def _flat_tiling(self, profile: Profile, split: BlockSplit | None) -> FlatTiling:  # noqa: ARG002 - no axes here
        elements, itemsize = self.output.numel, self.output.dtype.itemsize
        block = profile.buffers.block_bytes // itemsize
        half = (profile.buffers.ub_bytes - _RESERVED_BYTES) // itemsize // 2
        segment = (ceil(half / block) - 1) * block
        cores = profile.cores.vector_cores
        if profile.software.compiled_for_shape:
            per_core = round_up(max(1, elements // cores), block)
            launched, two = ceil(elements / per_core), per_core >= 2 * segment
        else:
            launched, two = ceil(elements / round_up(ceil(elements / cores), block)), False
            # what doesn't divide is dealt out to all cores but one, which gets the rest
            sharing = launched if elements % launched == 0 else launched - 1
            per_core = round_up(max(1, elements // sharing), block)
        tile = min(segment, per_core)
        return FlatTiling(elements, per_core, tile, launched, double_buffer=two)


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
