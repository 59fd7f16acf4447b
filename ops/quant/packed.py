"""Quantisation that data steer, and scales packed for the cube's output stage."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc import Core, GlobalTensor, Kernel, TPosition, TQue
from npusim.library.packed_scales import packed_scales
from npusim.schedules.streamed import Streamed
from npusim.values.dtypes import FLOAT, UINT64

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc.loops import Index
    from npusim.ascendc.task import Task
    from npusim.hardware.profile import Profile

    Array = NDArray[Any]

_WORDS = 65536 // 8  # of a tile


def _by_group(x: Array, scale: Array, ends: Array, offset: Array | None = None) -> Any:
    rows = np.searchsorted(ends.reshape(-1), np.arange(x.shape[0]), side="right")
    group = np.minimum(rows, scale.shape[0] - 1)
    found = x.astype(np.float32) * scale.astype(np.float32)[group]
    shift = np.float32(0) if offset is None else offset.astype(np.float32).reshape(-1)[0]
    return np.clip(np.rint(found + shift), -128, 127)


class TransQuantParam(Kernel):
    """y[i] = scale[i], cut to 19 bits, and offset[i], of nine bits, in one word of 64 bits.

    One core's scalar unit packs word after word: loaded, masked, marked and stored, in loops that
    the compiler unrolls, over loads that don't depend on each other. Source: ops-nn
    quant/trans_quant_param_v2, tiling and kernel.
    """

    op_type = "TransQuantParamV2"
    generated = False
    block_dim = 1

    def __init__(
        self,
        profile: Profile,  # noqa: ARG002 - as all kernels
        scale: GlobalTensor,
        offset: GlobalTensor | None,
        y: GlobalTensor,
        *,
        round_mode: int = 0,
    ) -> None:
        self.scale, self.offset, self.y, self.round_mode = scale, offset, y, round_mode
        self.reads = (scale,) if offset is None else (scale, offset)
        self.writes = (y,)
        self.tile = min(_WORDS, y.numel)

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        """Scales, offsets where there are some, and the words that come out."""
        (scale,) = task.present(1)
        if not task.outputs:
            raise task.refused("the shape of the result isn't known")
        offset = task.inputs[1] if len(task.inputs) > 1 else None
        offset = offset if offset is not None and offset.numel else None
        how = task.whole_number("round_mode", 0)
        return (cls(task.profile, scale, offset, task.outputs[0], round_mode=how),)

    def process(self, core: Core) -> None:
        """A tile of words after the other."""
        words_que, shift_que = TQue(TPosition.VECOUT, 1, "words"), TQue(TPosition.VECIN, 1, "shift")
        core.pipe.init_buffer(words_que, 1, self.tile * UINT64.itemsize)
        core.pipe.init_buffer(shift_que, 1, self.tile * FLOAT.itemsize)
        core.load_lines(1)
        for start, count in core.tiles(0, self.y.numel, self.tile):
            words = words_que.alloc_tensor(self.y.dtype, count)
            each = int(self.scale.numel > 1)
            core.emit_scalar("pack", loads=each * count, stores=count, operations=2 * each * count)
            if self.offset is not None:
                self._add_offsets(core, shift_que, start, count)
            core.filled(words)
            core.arrange(words, how=partial(self._packed, core, start, count))
            words_que.copy_out(self.y.view(self.y.numel).span(start, count), words)

    def _add_offsets(self, core: Core, queue: TQue, start: Index, count: int) -> None:
        """Offsets as whole numbers, put into the words that are there."""
        offset, loads = self.offset, count
        assert offset is not None
        if offset.numel > 1:
            shift = queue.copy_in(offset.view(offset.numel).span(start, count))
            for step in ("vconv", "vmaxs", "vmins"):
                core.record_vector(step, shift, count)
            core.wait_vector()
            queue.free_tensor(shift)
            loads += count
        core.emit_scalar("offset", loads=loads, stores=count, operations=count)

    def _packed(self, core: Core, start: Index, count: int) -> Array:
        """The words of a tile, for every turn of the loop at once."""
        scale, offset = self.scale.array, None if self.offset is None else self.offset.array
        assert scale is not None
        found = packed_scales(scale, offset, round_mode=self.round_mode)
        places = np.asarray(core.counter(start).values(core.depth))[..., None] + np.arange(count)
        return np.broadcast_to(found, (self.y.numel,))[places]


group_quant = Streamed("GroupQuant", _by_group, ("vconv", "vmul", "vadd", "vconv")).from_task
