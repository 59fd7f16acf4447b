"""UB of GroupNormGrad: float32 tiles of dy, x and dx, and a row per sum of channels."""

from __future__ import annotations

from npusim.ascendc import Core, Event, GmSlice, LocalTensor, RoundMode, TBuf, TPosition, TQue
from npusim.engine.program import Pipe
from npusim.ops.group_norm_backward.tiling import Mode, Tiling
from npusim.values.dtypes import FLOAT


class Buffers:
    """Loads tiles as float32, whatever the tensors' dtype, and stores results in that dtype.

    In float32 tiles are worked on where they were loaded, and the tile of dx serves as scratch
    until it is needed; half types have a float32 copy of each tile.
    """

    def __init__(self, core: Core, tiling: Tiling, buffer_num: int) -> None:
        self._core = core
        self._dtype = tiling.dtype
        # Only where two channels fit are they worked on alternately; all other modes wait for each
        # tile.
        depth = min(2, buffer_num) if tiling.mode is Mode.CHANNELS else 1
        tile = _tile_elements(tiling)
        loaded = tiling.size if tiling.refetches else tile
        self._dy_que, self._x_que = (
            TQue(TPosition.VECIN, depth, "dy"),
            TQue(TPosition.VECIN, depth, "x"),
        )
        self._out_que = TQue(TPosition.VECOUT, depth, "dx")
        self._part_done = Event(core, Pipe.VECTOR, Pipe.MTE3)
        self._reserve(self._dy_que, depth, loaded * self._dtype.itemsize)
        self._reserve(self._x_que, depth, loaded * self._dtype.itemsize)
        self._reserve(self._out_que, depth, tile * self._dtype.itemsize)
        self._group_que = TQue(TPosition.VECIN, 2, "group")
        if tiling.refetches:
            self._reserve(self._group_que, 2, tile * self._dtype.itemsize)
        self._wide = {name: TBuf(name) for name in ("dy32", "x32", "dx32")}
        if self._dtype is not FLOAT:
            for buffer in self._wide.values():
                self._reserve(buffer, depth, tile * FLOAT.itemsize)
        self._init_rows(tiling.group_channels)

    def _init_rows(self, channels: int) -> None:
        self._gamma_que, self._gamma32 = TQue(TPosition.VECIN, 1, "gamma"), TBuf("gamma32")
        self._sums_que, self._row_que = (
            TQue(TPosition.VECOUT, 1, "sums"),
            TQue(TPosition.VECOUT, 1, "row"),
        )
        self._small = TBuf("small")
        self._reserve(self._gamma_que, 1, channels * self._dtype.itemsize)
        if self._dtype is not FLOAT:
            self._reserve(self._gamma32, 1, channels * FLOAT.itemsize)
            self._reserve(self._row_que, 1, channels * self._dtype.itemsize)
        block = self._core.block_bytes
        row = -(-channels * FLOAT.itemsize // block) * block
        self._reserve(self._sums_que, 1, 2 * row)
        self._reserve(self._small, 1, 2 * block)

    def dy(self, source: GmSlice) -> LocalTensor:
        """A tile of gradOut."""
        return self._load(self._dy_que, self._wide["dy32"], source)

    def x(self, source: GmSlice) -> LocalTensor:
        """A tile of the input."""
        return self._load(self._x_que, self._wide["x32"], source)

    def gamma(self, source: GmSlice) -> LocalTensor:
        """The weights of a group's channels."""
        return self._load(self._gamma_que, self._gamma32, source)

    def fetch_group(self, *sources: GmSlice) -> None:
        """Bring in whole groups; only rows at block boundaries can be used as they lie."""
        for source in sources:
            self._group_que.free_tensor(self._group_que.copy_in(source))

    def drop(self, dy: LocalTensor, x: LocalTensor) -> None:
        """Done with a tile of gradOut and of the input."""
        self._release(self._dy_que, dy)
        self._release(self._x_que, x)

    def drop_gamma(self, gamma: LocalTensor) -> None:
        """Done with a group's weights."""
        self._release(self._gamma_que, gamma)

    def work_tile(self, *shape: int) -> LocalTensor:
        """Where dx is computed; scratch until then."""
        if self._dtype is FLOAT:
            return self._out_que.alloc_tensor(FLOAT, *shape)
        return self._wide["dx32"].get(FLOAT, *shape)

    def drop_work(self, work: LocalTensor) -> None:
        """A work tile that isn't stored after all."""
        if self._dtype is FLOAT:
            self._out_que.free_tensor(work, by=Pipe.VECTOR)

    def store_part(self, target: GmSlice, work: LocalTensor) -> None:
        """Store (part of) a work tile in the outputs' dtype."""
        if self._dtype is FLOAT:
            self._part_done.set()
            self._part_done.wait()
            self._core.copy_runs(target, work)
            return
        out = self._out_que.alloc_tensor(self._dtype, *work.shape)
        self._core.cast(out, work, RoundMode.CAST_ROUND)
        self._out_que.copy_out(target, out)

    def drop_stored(self, work: LocalTensor) -> None:
        """All parts of a work tile have been stored."""
        if self._dtype is FLOAT:
            self._out_que.enque(work)
            self._out_que.free_tensor(self._out_que.deque(work))

    def sums(self, channels: int) -> LocalTensor:
        """Two rows: sum(dy) and sum(dy * xh) of a group's channels."""
        return self._sums_que.alloc_tensor(FLOAT, 2, channels)

    def sums_written(self, sums: LocalTensor) -> LocalTensor:
        """The vector unit has written the sums; MTE3 may store them."""
        self._sums_que.enque(sums)
        return self._sums_que.deque(sums)

    def sums_stored(self, sums: LocalTensor) -> LocalTensor:
        """MTE3 has stored the sums: the vector unit may work on them in place from here on."""
        self._sums_que.free_tensor(sums)
        return self._sums_que.alloc_tensor(FLOAT, *sums.shape)

    def drop_sums(self, sums: LocalTensor) -> None:
        """The vector unit is done with the sums that :meth:`sums_stored` gave."""
        self._sums_que.free_tensor(sums, by=Pipe.VECTOR)

    def store_row(self, target: GmSlice, row: LocalTensor) -> None:
        """A row of sums in the outputs' dtype."""
        out = self._row_que.alloc_tensor(self._dtype, *row.shape)
        self._core.cast(out, row, RoundMode.CAST_ROUND)
        self._row_que.copy_out(target, out)

    def small(self, index: int) -> LocalTensor:
        """One of two single numbers."""
        return self._small.get(FLOAT, 2, 1)[index, 0]

    def _reserve(self, buffer: TQue | TBuf, num: int, nbytes: int) -> None:
        self._core.pipe.init_buffer(buffer, num, nbytes)

    def _load(self, queue: TQue, wide: TBuf, source: GmSlice) -> LocalTensor:
        if self._dtype is FLOAT:
            return queue.copy_in(source)
        # Half types lie packed: rows of a group need not be whole blocks until they are float32.
        packed = queue.copy_in(source, (source.numel,))
        converted = self._core.cast(wide.get(FLOAT, source.numel), packed, RoundMode.CAST_NONE)
        queue.free_tensor(packed)
        return converted.view(*source.shape)

    def _release(self, queue: TQue, tensor: LocalTensor) -> None:
        if self._dtype is FLOAT:
            queue.free_tensor(tensor)


def _tile_elements(tiling: Tiling) -> int:
    if tiling.mode in (Mode.GROUP, Mode.ELEMENTS):
        return tiling.group_channels * tiling.size
    return tiling.elements_per_pass if tiling.mode is Mode.PART_OF_CHANNEL else tiling.size
