"""Tensors set into a larger one of zeros: padding, and the gradient of a slice.

Where the record has no paddings the input stands at the beginning. Kernels fill and copy row by row
in UB when rows aren't whole blocks, which would be stores of a few bytes each, and put rows of a
few elements together with vnchwconv. Compiled for a shape, whole blocks along one axis are the
work of cores image by image, each behind the one before it. Source: public operator sources
(pad_d.py, pad_align_reorder_ub.py, strided_slice_grad.py).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from npusim.ascendc import Core, GlobalTensor, GmBuffer, Kernel, TPosition, TQue
from npusim.ascendc.costs import TURNED_LINES
from npusim.ascendc.queues import footprint_bytes
from npusim.engine.program import Pipe
from npusim.ops.data_movement.joining import LINED_WIDTHS, Interleaved, along
from npusim.ops.data_movement.slicing import matched
from npusim.ops.data_movement.strided import by_rows, copy_tiles
from npusim.schedules.rows.shares import RowShare
from npusim.schedules.tile_grid import Box, BoxTiling, whole_axes
from npusim.values.dtypes import FLOAT, FLOAT16
from npusim.values.errors import RefusedTaskError

if TYPE_CHECKING:
    from npusim.ascendc.loops import Index
    from npusim.ascendc.task import Task
    from npusim.hardware.profile import Profile


class PaddedRows(Kernel):
    """Every row of dst is zeros but for one run: filled, then copied to, in UB."""

    op_type = "PadD"

    def __init__(
        self,
        profile: Profile,
        src: GlobalTensor,
        dst: GlobalTensor,
        start: int,
        value: float = 0.0,
    ) -> None:
        self.reads, self.writes, self.value = (src,), (dst,), value
        self.start, self.columns, self.width = start, src.shape[-1], dst.shape[-1]
        rows, self.kind = dst.numel // self.width, dst.dtype
        self.src, self.dst = src.view(src.numel), dst.view(dst.numel)
        block = profile.buffers.block_bytes // self.kind.itemsize
        room = profile.buffers.ub_bytes // self.kind.itemsize - 2 * block
        tile = max(block, room // (self.width + self.columns) // block * block)
        self.division = self.share = RowShare.of(rows, profile.cores.vector_cores, tile, block)
        self.block_dim = profile.cores.vector_cores

    def process(self, core: Core) -> None:
        share = self.share
        nbytes = share.tile * self.kind.itemsize
        self.in_que = TQue(TPosition.VECIN, 1, "runs")
        self.out_que = TQue(TPosition.VECOUT, 1, "rows")
        core.pipe.init_buffer(self.in_que, 1, nbytes * self.columns)
        core.pipe.init_buffer(self.out_que, 1, nbytes * self.width)
        for first, rows in share.tiles(core):
            self._tile(core, first, rows)

    def _tile(self, core: Core, first: Index, rows: int) -> None:
        columns, width = self.columns, self.width
        x = self.in_que.copy_in(self.src.span(first * columns, rows * columns))
        out = self.out_que.alloc_tensor(self.kind, rows * width)
        wide, narrow = out.view(rows, width), x.view(rows, columns)

        def row_by_row() -> None:
            for row in core.loop(rows):
                core.duplicate(wide[row], self.value)
                core.copy(wide[row].stretch(self.start, columns), narrow[row])

        def at_once() -> None:
            core.duplicate(out, self.value)
            core.copy(wide.stretch(self.start, columns), narrow)

        core.separately(row_by_row, at_once)
        self.in_que.free_tensor(x)
        self.out_que.copy_out(self.dst.span(first * width, rows * width), out)


class PaddedImages(Kernel):
    """Rows of dst are zeros but for one run of whole blocks; cores share them, one buffer is all.

    A row that fits into UB together with its run is put together there; all rows of a core at once
    where they do. Otherwise zeros are filled in anew for each row, as many as the frame has or UB
    takes, and stored before and behind the run, which follows in ``pieces``.
    Source: public operator source (pad_align_reorder_ub.py, pad_case0).
    """

    op_type = "PadD"

    def __init__(
        self, profile: Profile, src: GlobalTensor, dst: GlobalTensor, start: int, pieces: int
    ) -> None:
        self.reads, self.writes, self.start, self.kind = (src,), (dst,), start, dst.dtype
        self.columns, self.width, self.pieces = src.shape[-1], dst.shape[-1], pieces
        self.src, self.dst, self.rows = src.view(src.numel), dst.view(dst.numel), dst.shape[0]
        self.block_dim = profile.cores.vector_cores
        self.room = profile.buffers.ub_bytes // self.kind.itemsize

    def block_kind(self, block_idx: int) -> Hashable:
        return self._share(block_idx)[1]

    def process(self, core: Core) -> None:
        first, rows = self._share(core.get_block_idx())
        if not rows:
            return
        each = self.columns + self.width
        if each > self.room:
            self._framed(core, first, rows)
            return
        tile = rows if rows * each <= self.room else 1
        runs, whole = self._queues(core, tile * self.columns, tile * self.width)
        for row in core.loop(rows // tile):
            self._together(core, (runs, whole), row * tile + first, tile)

    def _together(self, core: Core, queues: tuple[TQue, TQue], first: Index, rows: int) -> None:
        """Rows put together in UB."""
        runs, whole = queues
        x = runs.copy_in(self.src.span(first * self.columns, rows * self.columns))
        out = whole.alloc_tensor(self.kind, rows * self.width)
        core.duplicate(out, 0.0)
        inside = out.view(rows, self.width).stretch(self.start, self.columns)
        core.copy(inside, x.view(rows, self.columns))
        runs.free_tensor(x)
        whole.copy_out(self.dst.span(first * self.width, rows * self.width), out)

    def _framed(self, core: Core, first: int, rows: int) -> None:
        """Rows that are larger than UB: zeros, then the run."""
        size = self.columns // self.pieces
        behind = self.start + self.columns
        frame = ((0, self.start), (behind, self.width - behind))
        zeros = min(max(length for _, length in frame), self.room - size)
        runs, whole = self._queues(core, size, max(zeros, size))
        for row in core.loop(rows):
            at, of = (row + first, self.width), (row + first, self.columns)
            filled = core.duplicate(whole.alloc_tensor(self.kind, zeros), 0.0)
            whole.enque(filled)
            whole.deque(filled)
            for begin, length in frame:
                for place, count in core.tiles(begin, length, zeros):
                    target = self.dst.window((at, (place, 1)), (count,), (1,))
                    core.copy_runs(target, filled[:count])
            whole.free_tensor(filled)
            for piece in core.loop(self.pieces):
                x = runs.copy_in(self.src.window((of, (piece, size)), (size,), (1,)))
                out = core.copy(whole.alloc_tensor(self.kind, size), x)
                runs.free_tensor(x)
                places = (at, (self.start, 1), (piece, size))
                whole.copy_out(self.dst.window(places, (size,), (1,)), out)

    def _queues(self, core: Core, run: int, whole: int) -> tuple[TQue, TQue]:
        queues = TQue(TPosition.VECIN, 1, "run"), TQue(TPosition.VECOUT, 1, "rows")
        for queue, elements in zip(queues, (run, whole), strict=True):
            core.pipe.init_buffer(queue, 1, elements * self.kind.itemsize)
        return queues

    def _share(self, block: int) -> tuple[int, int]:
        """The first row of a block, and how many it has: one more for those in front."""
        least, more = divmod(self.rows, self.block_dim)
        return block * least + min(block, more), least + (block < more)


class PaddedLines(Interleaved):
    """Rows of a few elements put together with zeros; nothing overlaps."""

    op_type = "PadD"
    depth = 1


class Padded(Kernel):
    """dst = src in a frame of zeros: runs are copied, zeros stored from a tile filled once."""

    op_type = "PadD"

    def __init__(
        self,
        profile: Profile,
        src: GlobalTensor,
        dst: GlobalTensor,
        start: tuple[int, ...],
        value: float = 0.0,
    ) -> None:
        self.reads, self.writes, self.value = (src,), (dst,), value
        self.kind = dst.dtype
        self.block = profile.buffers.block_bytes // self.kind.itemsize
        cores = profile.cores.vector_cores
        self.block_dim = max(1, min(cores, dst.nbytes // profile.launch.elementwise_core_bytes))
        limit = profile.buffers.ub_bytes // 4 // self.kind.itemsize - self.block
        inside = dst
        for axis, (first, size) in enumerate(zip(start, src.shape, strict=True)):
            inside = along(inside, axis, first, size)
        self.copied = self._tiling(Box.of(src, inside), limit, 0)
        self.frames = []
        first_core = self.copied.grid.tile_count
        for frame in _frames(dst, src.shape, start):
            tiling = self._tiling(Box.of(_zero(frame), frame), limit, first_core % self.block_dim)
            first_core += tiling.grid.tile_count
            self.frames.append(tiling)

    def block_kind(self, block_idx: int) -> Hashable:
        return tuple(each.grid.block_kind(block_idx) for each in (self.copied, *self.frames))

    def process(self, core: Core) -> None:
        queue = TQue(TPosition.VECIN, self.buffer_num, "tile", consumer=Pipe.MTE3)
        zeros = TQue(TPosition.VECOUT, 1, "zeros")
        self._reserve(core, queue, self.buffer_num, [self.copied])
        copy_tiles(core, queue, self.copied)
        if not self.frames:
            return
        largest = self._reserve(core, zeros, 1, self.frames)
        filled = zeros.alloc_tensor(self.kind, largest)
        core.duplicate(filled, self.value)
        zeros.enque(filled)
        zeros.deque(filled)
        for tiling in self.frames:
            for tile in tiling.tiles(core):
                target = by_rows(tile.dst, core)
                core.copy_runs(target, filled[: target.numel])
        zeros.free_tensor(filled)

    def _tiling(self, box: Box, limit: int, first: int) -> BoxTiling:
        extent = whole_axes(
            box.sizes, limit, self.block_dim, multiple=self.block, padded=self.block
        )
        return BoxTiling.of(box, extent, self.block_dim, first_core=first)

    def _reserve(self, core: Core, queue: TQue, depth: int, tilings: list[BoxTiling]) -> int:
        """UB for the largest tile; returns its elements."""
        nbytes = max(footprint_bytes(self.kind, each.extent, core.block_bytes) for each in tilings)
        core.pipe.init_buffer(queue, depth, nbytes)
        return nbytes // self.kind.itemsize


class Pad(Padded):
    """A tensor with zeros around it."""

    op_type = "Pad"

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        x, out = task.present(1, 1)
        profile, src = task.profile, x.view(*matched(task.op_type, out.shape, x.shape))
        start = _starts(task.op_type, task.attributes, src.shape, out.shape)
        value = task.number("value", 0.0)
        cut = [axis for axis, size in enumerate(out.shape) if src.shape[axis] != size]
        if len(cut) == 1:
            axis = cut[0]
            inner, rows = prod(out.shape[axis + 1 :]), prod(out.shape[:axis])
            columns, width = src.shape[axis] * inner, out.shape[axis] * inner
            block = profile.buffers.block_bytes // out.dtype.itemsize
            if width % block or columns % block:
                flat, whole = src.view(rows, columns), out.view(rows, width)
                parts = _lined(flat, whole, start[axis] * inner)
                if parts and not value:
                    return (PaddedLines.called(task.op_type)(profile, parts, whole),)
                room = profile.buffers.ub_bytes // out.dtype.itemsize
                if (width + columns + 4) * block <= room:
                    first = start[axis] * inner
                    return (PaddedRows.called(task.op_type)(profile, flat, whole, first, value),)
            elif rows > 1 and _by_images(task) and start[axis] * inner % block == 0:
                apart = inner % block == 0
                pieces, least = (src.shape[axis], 2 * inner) if apart else (1, width + columns)
                if least * out.dtype.itemsize <= profile.buffers.ub_bytes:
                    images = src.view(rows, columns), out.view(rows, width), start[axis] * inner
                    return (PaddedImages.called(task.op_type)(profile, *images, pieces),)
        return (cls(profile, src, out, start, value),)


def _by_images(task: Task) -> bool:
    """Whether the operator compiled for a shape has a kernel of its own for whole blocks."""
    named = task.op_type in ("PadD", "StridedSliceGrad")
    floats = task.outputs[0].dtype in (FLOAT, FLOAT16)
    return named and floats and task.profile.software.compiled_for_shape


def _lined(src: GlobalTensor, dst: GlobalTensor, start: int) -> list[GlobalTensor | None] | None:
    """Equal parts that make up short rows: the input and absent ones; None where it isn't that."""
    width, columns = dst.shape[-1], src.shape[-1]
    halves = width * dst.dtype.itemsize // FLOAT16.itemsize
    if columns not in LINED_WIDTHS or width % columns or start % columns or halves > TURNED_LINES:
        return None
    if dst.dtype.itemsize not in (2, 4) or TURNED_LINES % halves:
        return None
    parts: list[GlobalTensor | None] = [None] * (width // columns)
    parts[start // columns] = src
    return parts


def _frames(
    dst: GlobalTensor, inner: tuple[int, ...], start: tuple[int, ...]
) -> Iterator[GlobalTensor]:
    """The parts of dst around a box, axis by axis from the outside."""
    rest = dst
    for axis, (first, size) in enumerate(zip(start, inner, strict=True)):
        whole = dst.shape[axis]
        if first:
            yield along(rest, axis, 0, first)
        if first + size < whole:
            yield along(rest, axis, first + size, whole - first - size)
        rest = along(rest, axis, first, size)


def _zero(target: GlobalTensor) -> GlobalTensor:
    """A single element seen in the shape of a frame; it is never read."""
    return replace(target, buffer=GmBuffer("zero", 0), start=0, strides=(0,) * len(target.shape))


def _starts(
    op_type: str,
    attributes: Mapping[str, object],
    inner: tuple[int, ...],
    whole: tuple[int, ...],
) -> tuple[int, ...]:
    """Where the input begins along each axis."""
    found = attributes.get("paddings", attributes.get("begin"))
    start = (0,) * len(whole)
    if isinstance(found, list | tuple) and len(found) == 2 * len(whole):
        found = found[::2]  # before and after, axis by axis
    if isinstance(found, list | tuple) and len(found) == len(whole):
        start = tuple(int(each[0] if isinstance(each, list | tuple) else each) for each in found)
    for first, size, total in zip(start, inner, whole, strict=True):
        if first < 0 or first + size > total:
            raise RefusedTaskError(op_type, f"{size} elements from {first} don't fit into {total}")
    return start
