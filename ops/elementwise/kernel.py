"""Binary arithmetic and fills, one tiled kernel each."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable

from npusim.dialect import (
    Core,
    GlobalTensor,
    Kernel,
    LocalTensor,
    RoundMode,
    Scalar,
    TBuf,
    TPosition,
    TQue,
)
from npusim.dialect.elementwise import ElementwiseKernel, Tile, flat_tiling
from npusim.hardware.profile import Profile
from npusim.values.dtypes import BFLOAT16, FLOAT


class BinaryKernel(ElementwiseKernel):
    """out = a <op> b with broadcasting. bfloat16, which no vector unit computes in, goes through float32."""

    coexisting = 3

    def __init__(
        self, profile: Profile, a: GlobalTensor, b: GlobalTensor, out: GlobalTensor
    ) -> None:
        self.wide = out.dtype is BFLOAT16
        super().__init__(profile, (a, b), out)

    @abstractmethod
    def apply(self, core: Core, dst: LocalTensor, a: LocalTensor, b: LocalTensor) -> LocalTensor:
        """dst = a <op> b on tiles."""

    def init_buffers(self, core: Core) -> None:
        nbytes = self.tile_elements * self.output.dtype.itemsize
        self.queues = [TQue(TPosition.VECIN, self.depth, name) for name in ("a", "b")]
        self.out_que = TQue(TPosition.VECOUT, self.depth, "out")
        for queue in (*self.queues, self.out_que):
            core.pipe.init_buffer(queue, self.depth, nbytes)
        self.wide_bufs = [TBuf("a32"), TBuf("b32")] if self.wide else []
        for buffer in self.wide_bufs:
            core.pipe.init_buffer(buffer, 1, self.tile_elements * FLOAT.itemsize)

    def compute(self, core: Core, tile: Tile) -> None:
        a, b = (self._operand(core, tile, index) for index in (0, 1))
        out = self.out_que.alloc_tensor(self.output.dtype, *tile.shape)
        if self.wide:
            wide = [self._widen(core, index, tensor) for index, tensor in enumerate((a, b))]
            result = self.wide_bufs[0].get(FLOAT, *tile.shape)
            self.apply(core, result, *wide)
            core.cast(out, result, RoundMode.CAST_RINT)
        else:
            self.apply(core, out, a, b)
        for queue, tensor in zip(self.queues, (a, b), strict=True):
            queue.free_tensor(tensor)
        self.out_que.copy_out(tile.target, out)

    def _operand(self, core: Core, tile: Tile, index: int) -> LocalTensor:
        loaded = self.load(core, self.queues[index], tile, index)
        if isinstance(loaded, Scalar):
            return core.duplicate(
                self.queues[index].alloc_tensor(self.output.dtype, *tile.shape), loaded
            )
        return loaded

    def _widen(self, core: Core, index: int, tensor: LocalTensor) -> LocalTensor:
        wide = self.wide_bufs[index].get(FLOAT, *tensor.shape)
        return core.cast(wide, tensor, RoundMode.CAST_NONE)


class Add(BinaryKernel):
    """out = a + b."""

    op_type = "Add"

    def apply(self, core: Core, dst: LocalTensor, a: LocalTensor, b: LocalTensor) -> LocalTensor:
        return core.add(dst, a, b)


class Sub(BinaryKernel):
    """out = a - b."""

    op_type = "Sub"

    def apply(self, core: Core, dst: LocalTensor, a: LocalTensor, b: LocalTensor) -> LocalTensor:
        return core.sub(dst, a, b)


class Mul(BinaryKernel):
    """out = a * b."""

    op_type = "Mul"

    def apply(self, core: Core, dst: LocalTensor, a: LocalTensor, b: LocalTensor) -> LocalTensor:
        return core.mul(dst, a, b)


class RealDiv(BinaryKernel):
    """out = a / b."""

    op_type = "RealDiv"

    def apply(self, core: Core, dst: LocalTensor, a: LocalTensor, b: LocalTensor) -> LocalTensor:
        return core.div(dst, a, b)


class Fill(Kernel):
    """out = value everywhere: one tile filled once per core and stored as often as needed."""

    op_type = "Fill"

    def __init__(self, profile: Profile, out: GlobalTensor, *, value: float) -> None:
        self.output, self.value = out, value
        self.reads, self.writes = (), (out,)
        least = profile.launch.elementwise_core_bytes
        self.tiling = flat_tiling(profile, out.numel, out.dtype.itemsize, 1, least_bytes=least)
        self.block_dim = self.tiling.block_dim

    def work(self, block_idx: int) -> Hashable:
        return self.tiling.length(block_idx)

    def process(self, core: Core) -> None:
        tiling, block = self.tiling, core.get_block_idx()
        queue = TQue(TPosition.VECOUT, 1, "fill")
        longest = min(tiling.tile, tiling.length(block))
        core.pipe.init_buffer(queue, 1, longest * self.output.dtype.itemsize)
        filled = queue.alloc_tensor(self.output.dtype, longest)
        core.duplicate(filled, self.value)
        queue.enque(filled)
        queue.deque(filled)
        for first, length in core.tiles(block * tiling.per_core, tiling.length(block), tiling.tile):
            core.copy_runs(self.output.span(first, length), filled[:length])


class OnesLike(Fill):
    """out = 1 everywhere, shaped like an input that isn't read."""

    op_type = "OnesLike"

    def __init__(self, profile: Profile, like: GlobalTensor, out: GlobalTensor) -> None:
        super().__init__(profile, out, value=1.0)


class MemSet(Fill):
    """out = 0 everywhere, as a task of its own before a kernel that adds to its output."""

    op_type = "MemSet"

    def __init__(self, profile: Profile, out: GlobalTensor) -> None:
        super().__init__(profile, out, value=0.0)
