"""BinaryCrossEntropyGrad.

The vendor's elementwise vector kernel, computed in float32 and rounded once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.ascendc import (
    Core,
    GlobalTensor,
    LocalTensor,
    Pipe,
    RoundMode,
    Scalar,
    TBuf,
    TPosition,
    TQue,
    TQueBind,
)
from npusim.schedules.elementwise import ElementwiseKernel, Tile
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from npusim.ascendc.kernel import Kernel
    from npusim.ascendc.task import Task
    from npusim.hardware.profile import Profile

EPSILON = 1e-12  # what x * (1 - x) is clamped to; the device holds it as float32


class BinaryCrossEntropyGrad(ElementwiseKernel):
    """out = gradOutput * weight * (x - y) / max(x * (1 - x), eps) * scale, element by element.

    ``scale`` is 1 / numel for the mean, else 1. x, y, weight and out have one shape; gradOutput
    broadcasts to it. UB holds x and y twice, three slots that weight and gradOutput pass through in
    turn, and the work in place of y. Source of order and buffer count: TBE
    binary_cross_entropy_grad, liveness of the expression.
    """

    op_type = "BinaryCrossEntropyGrad"
    independent = True
    fills_cores = False  # as in the published host code of this schedule

    def __init__(
        self,
        profile: Profile,
        x: GlobalTensor,
        y: GlobalTensor,
        grad_output: GlobalTensor,
        weight: GlobalTensor,
        out: GlobalTensor,
        *,
        scale: float,
    ) -> None:
        self.scale = scale
        self.coexisting = 4 if out.dtype is FLOAT else 5
        super().__init__(profile, (x, y, grad_output, weight), out)

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        """The kernel of a recorded task: a mean, the operator's default, unless it says other."""
        tensors = [tensor for tensor in task.inputs if tensor is not None]
        if len(tensors) != 4:
            raise task.refused("x, y, grad_output and weight are needed")
        is_mean = task.attributes.get("reduction", "mean") == "mean"
        scale = 1.0 / max(1, task.outputs[0].numel) if is_mean else 1.0
        x, y, grad_output, weight = tensors
        return (cls(task.profile, x, y, grad_output, weight, task.outputs[0], scale=scale),)

    def init_buffers(self, core: Core) -> None:
        wide = self.tile_elements * FLOAT.itemsize
        narrow = self.tile_elements * self.output.dtype.itemsize
        self.x_que = TQue(TPosition.VECIN, self.depth, "x")
        self.factor_que = TQue(TPosition.VECIN, self.depth + self.depth // 2, "factor")
        self.work_buf = TBuf("work")
        core.pipe.init_buffer(self.x_que, self.depth, narrow)
        core.pipe.init_buffer(self.factor_que, self.factor_que.depth, narrow)
        core.pipe.init_buffer(self.work_buf, 1, wide)
        if self.output.dtype is FLOAT:
            self.y_que: TQue = TQueBind(self.depth, "y")
            core.pipe.init_buffer(self.y_que, self.depth, wide)
        else:
            self.y_que = TQue(TPosition.VECIN, self.depth, "y")
            self.out_que = TQue(TPosition.VECOUT, self.depth, "out")
            self.wide_bufs = [TBuf(name) for name in ("x32", "y32")]
            core.pipe.init_buffer(self.y_que, self.depth, narrow)
            core.pipe.init_buffer(self.out_que, self.depth, narrow)
            for buffer in self.wide_bufs:
                core.pipe.init_buffer(buffer, 1, wide)

    def compute(self, core: Core, tile: Tile) -> None:
        x = self._tile_in(core, tile, 0, self.x_que)
        y = self._tile_in(core, tile, 1, self.y_que)
        denominator = self.work_buf.get(FLOAT, *tile.shape)
        result = core.sub(y, x, y)
        core.muls(denominator, x, -1.0)
        core.adds(denominator, denominator, 1.0)
        core.mul(denominator, denominator, x)
        if self.output.dtype is FLOAT:
            self.x_que.free_tensor(x)
        core.maxs(denominator, denominator, EPSILON)
        core.div(result, result, denominator)
        self._times(core, result, tile, 3)
        self._times(core, result, tile, 2)
        if self.scale != 1.0:
            core.muls(result, result, self.scale)
        self._store(core, tile, result)

    def _tile_in(self, core: Core, tile: Tile, index: int, queue: TQue) -> LocalTensor:
        """x or y in float32."""
        loaded = self.load(core, queue, tile, index)
        if isinstance(loaded, Scalar):  # a target of a single element, repeated
            loaded = core.duplicate(queue.alloc_tensor(self.output.dtype, *tile.shape), loaded)
        if loaded.dtype is FLOAT:
            return loaded
        wide = self.wide_bufs[index].get(FLOAT, *tile.shape)
        core.cast(wide, loaded, RoundMode.CAST_NONE)
        queue.free_tensor(loaded, by=Pipe.VECTOR)
        return wide

    def _times(self, core: Core, result: LocalTensor, tile: Tile, index: int) -> None:
        """result *= operand ``index``, in float32."""
        factor = self.load(core, self.factor_que, tile, index)
        if isinstance(factor, Scalar):
            core.muls(result, result, factor)
            return
        if factor.dtype is not FLOAT:
            wide = self.work_buf.get(FLOAT, *factor.shape)
            core.cast(wide, factor, RoundMode.CAST_NONE)
            core.mul(result, result, wide)
        else:
            core.mul(result, result, factor)
        self.factor_que.free_tensor(factor)

    def _store(self, core: Core, tile: Tile, result: LocalTensor) -> None:
        if self.output.dtype is FLOAT:
            self.y_que.copy_out(tile.target, result)
            return
        out = self.out_que.alloc_tensor(self.output.dtype, *tile.shape)
        core.cast(out, result, RoundMode.CAST_RINT)
        self.out_que.copy_out(tile.target, out)
