"""Gradients that pass the gradient of a batch normalisation on their way into L1, in UB.

The gradient of the output of a convolution is made there from that of the normalisation behind it,
piece by piece: stored for the gradient of the input, and taken to L1 for that of the weights.
Source: the vendor's graph pass resnet50_dbn_dw_fusion_pass (BNTrainingReduceGrad in front of
Conv2DBackpropFilter).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from npusim.ascendc.events import Event
from npusim.ascendc.loops import first_of
from npusim.ascendc.queues import BUFFER_NUM, TBuf, TPosition, TQue
from npusim.ascendc.rounding import RoundMode
from npusim.engine.program import Pipe
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from npusim.ascendc.core import Core
    from npusim.ascendc.gm import GlobalTensor
    from npusim.ascendc.gm_slices import GmSlice
    from npusim.ascendc.tensors import LocalTensor
    from npusim.library.operands import GmMatrix, Span, Tile
    from npusim.values.dtypes import DType


class Normalisation(NamedTuple):
    """What a gradient of batch normalisation reads, a number for each channel but for the first.

    y = (grads - diff_offset / n - (x - mean) * rstd * diff_scale / n) * rstd * scale.
    """

    x: GlobalTensor
    diff_scale: GlobalTensor
    diff_offset: GlobalTensor
    scale: GlobalTensor
    mean: GlobalTensor
    variance: GlobalTensor
    epsilon: float = 1e-4


class Normalising:
    """The buffers in UB of a core, and what it knows of ``rows`` channels from one on."""

    def __init__(self, core: Core, of: Normalisation, first: int, rows: int, room: int) -> None:
        self._core, self._first = core, first
        self._given = [TQue(TPosition.VECIN, BUFFER_NUM, name) for name in ("grads", "x")]
        self._made = TQue(TPosition.VECOUT, BUFFER_NUM, "y")
        self._wide = [TBuf(name) for name in ("wide_grads", "wide_x")]
        self._known = [TBuf(name) for name in ("slope", "offset", "factor", "ones")]
        size, wide = of.x.dtype.itemsize, FLOAT.itemsize
        lanes = of.x.shape[-1]
        row = lanes * ((len(self._given) + 1) * BUFFER_NUM * size + len(self._wide) * wide)
        left = room - (len(self._known) + 1) * rows * wide
        self.positions = max(1, left // row)
        for queue in (*self._given, self._made):
            core.pipe.init_buffer(queue, BUFFER_NUM, self.positions * lanes * size)
        for buffer in self._wide:
            core.pipe.init_buffer(buffer, 1, self.positions * lanes * wide)
        for buffer in self._known:
            core.pipe.init_buffer(buffer, 1, rows * wide)
        self._there = Event(core, Pipe.MTE3, Pipe.MTE1)
        self._lanes = lanes
        self._rows = self._prepared(of, rows)

    def _prepared(self, of: Normalisation, rows: int) -> tuple[LocalTensor, ...]:
        """What x is multiplied by, what is added then, and what the sum is multiplied by."""
        core, count = self._core, of.x.numel / prod(of.mean.shape)
        loads = TQue(TPosition.VECIN, 1, "per_channel")
        core.pipe.init_buffer(loads, 1, rows * FLOAT.itemsize)
        slope, offset, factor, ones = (each.get(FLOAT, rows) for each in self._known)

        def load(tensor: GlobalTensor) -> LocalTensor:
            return loads.copy_in(tensor.view(tensor.numel).span(self._first, rows))

        def use(tensor: GlobalTensor, into: LocalTensor, by: LocalTensor) -> None:
            given = load(tensor)
            core.mul(into, given, by)
            loads.free_tensor(given)

        variance = load(of.variance)
        core.adds(factor, variance, of.epsilon)
        loads.free_tensor(variance)
        core.sqrt(factor, factor)
        core.duplicate(ones, 1.0)
        core.div(factor, ones, factor)
        use(of.diff_scale, slope, factor)
        core.muls(slope, slope, -1.0 / count)
        use(of.mean, offset, slope)
        core.muls(offset, offset, -1.0)
        given = load(of.diff_offset)
        core.muls(ones, given, -1.0 / count)
        loads.free_tensor(given)
        core.add(offset, offset, ones)
        use(of.scale, factor, factor)
        return slope, offset, factor

    def make(
        self, target: LocalTensor, given: Sequence[GmSlice], stored: GmSlice, channel: int
    ) -> None:
        """Bring a piece of a slice from ``channel`` on to L1 and to memory."""
        core, count = self._core, target.numel
        tiles = [
            queue.copy_in(source, (count,))
            for queue, source in zip(self._given, given, strict=True)
        ]
        grads, x = (buffer.get(FLOAT, count) for buffer in self._wide)
        for wide, tile, queue in zip((grads, x), tiles, self._given, strict=True):
            core.cast(wide, tile)
            queue.free_tensor(tile)
        slope, offset, factor = (each.stretch(channel, self._lanes) for each in self._rows)
        core.by_lanes("vmul", x, x, slope)
        core.add(grads, grads, x)
        core.by_lanes("vadd", grads, grads, offset)
        core.by_lanes("vmul", grads, grads, factor)
        made = self._made.alloc_tensor(target.dtype, count)
        core.cast(made, grads, RoundMode.CAST_RINT)
        self._made.enque(made)
        core.copy_to_l1(target, self._made.deque(made))
        core.copy_runs(stored, made)
        self._made.free_tensor(made)

    def done(self) -> None:
        """MTE1 waits for what MTE3 was given."""
        self._there.set()
        self._there.wait()


@dataclass(frozen=True, slots=True)
class Normalised:
    """What is made of ``given``, the gradient and the normalised tensor, and stored in ``made``.

    A row for each channel, a column for each position of all images.
    """

    given: tuple[GmMatrix, GmMatrix]
    made: GmMatrix
    through: Normalising

    @property
    def dtype(self) -> DType:
        return self.made.dtype

    def tile_shape(self, rows: int, columns: int) -> tuple[int, ...]:
        """As the gradient lies there: positions by channels."""
        return self.made.tile_shape(rows, columns)

    def load_l1(self, core: Core, tile: LocalTensor, rows: Span, columns: Span) -> None:
        """Made in UB, a slice of channels after the other."""
        lanes, step = self.made.lanes, self.through.positions if core.recording else columns[1]
        for channel in range(0, rows[1], lanes):
            for start in range(0, columns[1], step):
                count = min(step, columns[1] - start)
                place = rows[0] + channel, lanes, columns[0] + start, count
                sources = [matrix.block(*place) for matrix in self.given]
                target = tile[start : start + count, channel : channel + lanes]
                self.through.make(
                    target, sources, self.made.block(*place), first_of(rows[0]) + channel
                )
        self.through.done()

    @property
    def moves_as(self) -> Hashable:
        """As what it makes."""
        return self.made.moves_as

    def load_l0(
        self, core: Core, piece: LocalTensor, tile: Tile, rows: Span, columns: Span
    ) -> None:
        """Turned on the way."""
        self.made.load_l0(core, piece, tile, rows, columns)
