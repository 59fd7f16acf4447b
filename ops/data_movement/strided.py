"""Copies between strided views of one shape, tile by tile.

Runs that are contiguous on both sides pass from one transfer engine to the other. Where the two
sides run along different axes, tiles are turned in UB by vnchwconv. A side that has one element for
many repeats it on chip. Anything more scattered moves element by element, each in a block of its
own.
"""

from __future__ import annotations

from functools import partial
from math import ceil, prod
from typing import TYPE_CHECKING, Any, ClassVar

from npusim.ascendc import Core, GlobalTensor, GmSlice, Kernel, LocalTensor, TPosition, TQue
from npusim.ascendc.costs import TURNED_LINES
from npusim.ascendc.queues import footprint_bytes
from npusim.engine.program import Pipe
from npusim.ops.data_movement.turned import Room, TurnedTile, turned_tile
from npusim.schedules.tile_grid import Box, BoxTile, BoxTiling, Grid, whole_axes
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT16

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.hardware.profile import Profile
    from npusim.schedules.tile_grid import Extent

_LINE_BYTES = 32


class StridedCopy(Kernel):
    """dst = src, both of one shape (src may broadcast), either of them strided.

    ``spaces`` says that a chip that can't turn the dtype spreads 16 lines of it over a buffer 16
    times as large, ``parameters`` how many numbers the kernel reads before it starts, one by one.
    """

    spaces: ClassVar[bool] = True
    overlaps: bool = True  # loads, work on chip and stores of different tiles
    reserved_bytes: int = 0  # of UB, for what isn't a tile
    by_halves: bool = False  # turns numbers of several halves in two passes, moving blocks between
    row_operations: int = 0  # of the scalar unit, for every row that is a transfer of its own
    one_buffer: bool = False  # a tile is loaded when the one before it has left
    pads: bool = False  # rows that aren't whole blocks go in one transfer
    by_line: bool = False  # and no rows do

    def __init__(self, profile: Profile, src: GlobalTensor, dst: GlobalTensor) -> None:
        self.reads, self.writes = (src,), (dst,)
        self.dst, self.src = dst, src
        self.profile = profile
        self.box = Box.of(src, dst)
        self.itemsize = dst.dtype.itemsize
        self.block = profile.buffers.block_bytes // self.itemsize
        axes = unit_axes(self.box)
        self.spreads = not all(_steps(self.box)) and self.box.numel > 1
        turns_axes = axes is not None and axes[0] != axes[1] and not self.spreads
        self.through_vector = turns_axes or self.spreads
        compiled = profile.software.compiled_for_shape and self.spaces
        turns = not compiled or turns_whole(profile, self.itemsize)
        self.spaced = turns_axes and not turns
        self.depth = self.buffer_num if self.overlaps and not self.spaced else 1
        self.core_count = self._most_cores()
        self.turned = self._turned_tile(axes) if axes is not None and turns_axes else None
        extent = self.turned.extent if self.turned else self._extent()
        self.tiling = BoxTiling(self.box, self._grid(extent))
        self.division = self.tiling.grid
        self.block_dim = self.tiling.grid.used_cores

    def process(self, core: Core) -> None:
        nbytes = max(self._tile_bytes(), 1)
        consumer = Pipe.VECTOR if self.through_vector else Pipe.MTE3
        in_que = TQue(TPosition.VECIN, self.depth, "in", consumer=consumer)
        out_que = TQue(TPosition.VECOUT, self.depth, "out")
        core.pipe.init_buffer(in_que, self.depth, nbytes * (TURNED_LINES if self.spaced else 1))
        if self.through_vector:
            core.pipe.init_buffer(
                out_que, self.depth, nbytes * (TURNED_LINES if self.spaced else 1)
            )
        self._begin(core)
        orders = self._orders() if self.turned else None
        for cut in self.tiling.tiles(core, orders):
            tile = cut._replace(src=self._moved(cut.src, core), dst=self._moved(cut.dst, core))
            if not self.through_vector:
                self._find_rows(core, tile.src)
                x = in_que.copy_in(tile.src)
                self._find_rows(core, tile.dst)
                core.copy_runs(tile.dst, x)
                in_que.free_tensor(x)
                continue
            if self.turned:
                self._turn(core, in_que, out_que, tile)
                if self.one_buffer:
                    core.pipe_barrier()
                continue
            out = out_que.alloc_tensor(self.dst.dtype, *tile.shape)
            x = self._spread(core, in_que, tile, out)
            in_que.free_tensor(x)
            out_que.copy_out(tile.dst, out)

    def _begin(self, core: Core) -> None:
        """What a kernel does before its first tile."""

    # -- tiles ------------------------------------------------------------------------------------

    def _most_cores(self) -> int:
        least = self.profile.launch.elementwise_core_bytes
        return max(1, min(self.profile.cores.vector_cores, ceil(self.dst.nbytes / least)))

    def _limit(self) -> int:
        """Elements that a tile may have."""
        slots = (
            self.depth * (2 if self.through_vector else 1) * (TURNED_LINES if self.spaced else 1)
        )
        room = self.profile.buffers.ub_bytes - self.reserved_bytes
        return room // slots // self.itemsize - self.block

    def _extent(self) -> Extent:
        """What a tile that isn't turned covers."""
        sizes, cores, block = self.box.sizes, self.core_count, self.block
        return whole_axes(sizes, self._limit(), cores, multiple=block, padded=block)

    def _turned_tile(self, axes: tuple[int, int]) -> TurnedTile:
        room = Room.of(self._limit(), self.block, self.itemsize, self.core_count)
        return turned_tile(self.box, axes, room, square=self.spaced)

    def _grid(self, extent: Extent) -> Grid:
        """The tiles, and which core has which."""
        return Grid(self.box.sizes, extent, self.core_count, self._axis(), evenly=True)

    def _axis(self) -> int | None:
        """Kernels compiled for a shape deal out the outermost axis, if it is long enough.

        Evenly: profiled ones run on all cores where its elements are no multiple of these.
        """
        enough = self.box.sizes[0] >= self.core_count
        outside = self.turned is not None and 0 not in (*self.turned.source, *self.turned.target)
        return 0 if self.spaced and enough and outside else None

    def _tile_bytes(self) -> int:
        """Bytes of the largest tile on either side, as it lies in UB."""
        if self.turned is None:
            extent = self.tiling.extent
            return footprint_bytes(self.dst.dtype, extent, self.profile.buffers.block_bytes)
        source, target = self.turned.runs
        step = max(TURNED_LINES, self.block)
        planes = prod(self.turned.extent) // (source * target)
        return planes * round_up(source, step) * round_up(target, step) * self.itemsize

    # -- what happens to a tile -------------------------------------------------------------------

    def _turn(self, core: Core, in_que: TQue, out_que: TQue, tile: BoxTile) -> None:
        """Load runs of the source, store runs of the target."""
        assert self.turned is not None
        loaded, stored = self.turned.shapes(tile.shape)
        self._find_rows(core, tile.src)
        x = in_que.copy_in(tile.src, loaded)
        out = out_que.alloc_tensor(self.dst.dtype, *stored)
        lines = prod(round_up(run, TURNED_LINES) for run in (loaded[1], stored[1]))
        count = prod(tile.shape)
        planes = ceil(count / (loaded[1] * stored[1]))
        if self.itemsize == 1 and not self.profile.software.compiled_for_shape:
            core.wait_vector()  # bytes are moved one by one
            core.move_elements(out, x, count)
        elif self.spaced:
            halves = ceil(count * self.itemsize / _LINE_BYTES)
            core.turn_lines(out, x, halves)
            core.move_bursts(x, out, count, ceil(self.itemsize / FLOAT16.itemsize))
            core.turn_lines(out, x, halves)
        else:
            nbytes = planes * lines * self.itemsize
            repeats = ceil(nbytes / (TURNED_LINES * _LINE_BYTES))
            core.turn_lines(out, x, repeats)
            halves = self.itemsize // FLOAT16.itemsize
            if halves > 1 and (self.by_halves or not turns_whole(self.profile, self.itemsize)):
                core.move_bursts(x, out, nbytes // (halves * _LINE_BYTES), halves, stride=halves)
                core.turn_lines(out, x, repeats)
        core.arrange(out, x, how=partial(_turned, core.depth, tile.shape, self._orders()))
        in_que.free_tensor(x)
        self._find_rows(core, tile.dst)
        out_que.copy_out(tile.dst, out)

    def _moved(self, cut: GmSlice, core: Core) -> GmSlice:
        """A side of a tile as transfers move it."""
        if self.by_line:
            return cut.by_rows()
        return cut if self.pads else by_rows(cut, core)

    def _find_rows(self, core: Core, cut: GmSlice) -> None:
        """The scalar unit computes the address of every row that isn't whole blocks."""
        run, runs = cut.bursts()
        ragged = any(each % self.block for each in (run, *cut.steps[:-1]))
        if self.row_operations and runs > 1 and (self.by_line or (ragged and not self.pads)):
            core.scalar_alu("address", runs * self.row_operations)

    def _orders(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The axes as they follow each other in the memory of the source and of the target."""
        return _descending(self.box.src.steps), _descending(self.box.dst.steps)

    def _spread(self, core: Core, in_que: TQue, tile: BoxTile, out: LocalTensor) -> LocalTensor:
        """Repeat what the source has over the tile: a number, a column, or rows."""
        source = tile.src
        if source.numel == 1:
            x = in_que.copy_in(source, (1,))
            core.duplicate(out, core.get_value(x))
            return x
        if source.shape[-1] == 1 and tile.shape[-1] > 1:
            x = in_que.copy_in(source, source.shape[:-1])
            core.copy(out, core.broadcast_column(x))
            return x
        x = in_que.copy_in(source)
        core.copy(out, x)
        return x


def unit_axes(box: Box) -> tuple[int, int] | None:
    """The axes along which source and target are contiguous, None where one isn't anywhere."""
    found = []
    for tensor in (box.src, box.dst):
        axes = [
            axis
            for axis, (size, step) in enumerate(zip(box.sizes, tensor.steps, strict=True))
            if step == 1 and size > 1
        ]
        if not axes:
            return None
        found.append(axes[-1])
    return found[0], found[1]


def by_rows(cut: GmSlice, core: Core) -> GmSlice:
    """Where copies can't be padded, rows that don't start at blocks are transfers of their own."""
    block = core.block_bytes // cut.tensor.dtype.itemsize
    run, runs = cut.bursts()
    steps = [step for size, step in zip(cut.shape, cut.steps, strict=True) if size > 1]
    if runs > 1 and any(step % block for step in steps if step >= run):
        return cut.by_rows()
    return cut


def copy_tiles(core: Core, queue: TQue, tiling: BoxTiling) -> None:
    """Copy all tiles of a core as they are."""
    for tile in tiling.tiles(core):
        x = queue.copy_in(by_rows(tile.src, core))
        core.copy_runs(by_rows(tile.dst, core), x)
        queue.free_tensor(x)


def _steps(box: Box) -> list[int]:
    return [step for size, step in zip(box.sizes, box.src.steps, strict=True) if size > 1]


def turns_whole(profile: Profile, itemsize: int) -> bool:
    """True where vnchwconv turns elements of this size without spacing them."""
    wide = {1: "uint8", 2: "uint16", 4: "uint32"}.get(itemsize)
    return wide is not None and profile.supports_vector("vnchwconv", wide)


def _turned(
    depth: int,
    shape: tuple[int, ...],
    orders: tuple[tuple[int, ...], tuple[int, ...]],
    values: NDArray[Any],
) -> NDArray[Any]:
    """A tile of ``shape``, its axes in one order, in the other."""
    source, target = orders
    apart = values.reshape(*values.shape[:depth], *(shape[axis] for axis in source))
    return apart.transpose(*range(depth), *(depth + source.index(axis) for axis in target))


def _descending(steps: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(range(len(steps)), key=lambda axis: -steps[axis]))


class AsStrided(StridedCopy):
    """A view with any strides made contiguous."""

    op_type = "AsStrided"


class ViewCopy(StridedCopy):
    """A contiguous value written into a strided output."""

    op_type = "ViewCopy"
