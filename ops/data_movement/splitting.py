"""Splitting and unstacking: every output is a box of the input.

Kernels compiled for one shape move parts of a few elements one by one in UB, a segment of rows at
a time; the one for all shapes turns rows by vnchwconv where parts aren't whole blocks. Source:
public operator sources (split_last_dim.py, split_d.py, split_dsl.cc).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial
from itertools import accumulate
from math import ceil, prod
from typing import TYPE_CHECKING, Any, ClassVar

from npusim.ascendc import Core, GlobalTensor, Kernel, LocalTensor, TBuf, TPosition, TQue
from npusim.ascendc.costs import TURNED_LINES
from npusim.ascendc.intrinsics.copy import MOST_BLOCKS
from npusim.engine.program import Pipe
from npusim.ops.data_movement.boxed import BoxesCopy
from npusim.ops.data_movement.joining import cut_along, joined_axis, stacked_axis
from npusim.ops.data_movement.split_tiling import SplitTiling, WholeTiles
from npusim.schedules.rows.folds import planes
from npusim.schedules.rows.shares import RowShare
from npusim.values.dtypes import FLOAT, FLOAT16

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc.loops import Index
    from npusim.ascendc.task import Task
    from npusim.hardware.profile import Profile
    from npusim.ops.data_movement.join_tiling import TurnedRows
    from npusim.values.dtypes import DType

_SEGMENT_ROWS = 128  # rows that the vendor's schedule takes at a time
_LEFT_FREE = 8192  # bytes of UB that the schedule of equal parts leaves


class ElementSplit(Kernel):
    """Rows of a few elements taken apart by the scalar unit, segments of rows at a time."""

    op_type = "Split"

    def __init__(
        self, profile: Profile, src: GlobalTensor, outputs: tuple[GlobalTensor, ...]
    ) -> None:
        self.reads, self.writes = (src,), outputs
        self.width = src.shape[-1]
        rows = src.numel // self.width
        self.src, self.kind = src.view(src.numel), src.dtype
        self.outputs = [(out.view(out.numel), out.shape[-1]) for out in outputs]
        block = profile.buffers.block_bytes // src.dtype.itemsize
        self.division = self.share = RowShare.of(
            rows, profile.cores.vector_cores, _SEGMENT_ROWS, block
        )
        self.block_dim = profile.cores.vector_cores

    def process(self, core: Core) -> None:
        share = self.share
        tile = share.tile * self.kind.itemsize
        self.in_que = TQue(TPosition.VECIN, 1, "rows", consumer=Pipe.SCALAR)
        self.out_que = TQue(TPosition.VECOUT, 2, "part", producer=Pipe.SCALAR)
        core.pipe.init_buffer(self.in_que, 1, tile * self.width)
        core.pipe.init_buffer(self.out_que, 2, tile * max(width for _, width in self.outputs))
        for first, rows in share.tiles(core):
            self._segment(core, first, rows)

    def _segment(self, core: Core, first: Index, rows: int) -> None:
        x = self.in_que.copy_in(self.src.span(first * self.width, rows * self.width))
        begin = 0
        for target, width in self.outputs:
            out = self.out_que.alloc_tensor(self.kind, rows * width)
            core.move_elements(out, x, rows * width)
            core.arrange(out, x, how=partial(_columns, rows, slice(begin, begin + width)))
            self.out_que.copy_out(target.span(first * width, rows * width), out)
            begin += width
        self.in_que.free_tensor(x)


class TurnedSplit(Kernel):
    """Rows of two-byte elements taken apart by turning groups of them into lines and back.

    Source: public operator sources (split_dsl.cc): three tiles share UB.
    """

    op_type = "Split"
    generated = True

    def __init__(
        self,
        src: GlobalTensor,
        outputs: tuple[GlobalTensor, ...],
        widths: Sequence[int],
        lined: TurnedRows,
    ) -> None:
        self.reads, self.writes = (src,), outputs
        self.src, self.kind, self.lined = src.view(src.numel), src.dtype, lined
        self.width = sum(widths)
        flat = [out.view(out.numel) for out in outputs]
        self.outputs = list(zip(flat, widths, strict=True))
        self.division = self.share = lined.share
        self.block_dim = self.share.cores

    def process(self, core: Core) -> None:
        share = self.share
        nbytes = share.tile * self.width * self.kind.itemsize
        self.in_que = TQue(TPosition.VECIN, 1, "rows")
        self.out_que = TQue(TPosition.VECOUT, 1, "part")
        self.lines = TBuf("lines")
        core.pipe.init_buffer(self.in_que, 1, nbytes)
        core.pipe.init_buffer(self.lines, 1, nbytes)
        core.pipe.init_buffer(self.out_que, 1, nbytes)
        for first, rows in share.tiles(core):
            self._tile(core, first, rows)

    def _tile(self, core: Core, first: Index, rows: int) -> None:
        x = self.in_que.copy_in(self.src.span(first * self.width, rows * self.width))
        lines = self.lines.get(self.kind, rows * self.width)
        self._turn(core, lines, x, rows, self.width)
        core.wrote(lines)
        core.arrange(lines, x)
        self.in_que.free_tensor(x)
        begin = 0
        for target, width in self.outputs:
            out = self.out_que.alloc_tensor(self.kind, rows * width)
            self._turn(core, out, lines, rows, width)
            core.arrange(out, lines, how=partial(_columns, rows, slice(begin, begin + width)))
            self.out_que.copy_out(target.span(first * width, rows * width), out)
            begin += width

    def _turn(self, core: Core, dst: LocalTensor, src: LocalTensor, rows: int, width: int) -> None:
        nbytes = self.lined.padded(rows) * width * self.kind.itemsize
        core.turn_lines(dst, src, planes(nbytes), apart_bytes=nbytes // TURNED_LINES)


class WholeSplit(Kernel):
    """Rows cut into parts of whole blocks, tile by tile of all of UB.

    Nothing is loaded before all parts of the tile in front have left. Source: public tensor
    compiler and operator sources (split_schedule.py, ALL_ALIGN has one buffer; split_dsl.cc).
    """

    op_type = "Split"
    generated = True

    def __init__(
        self,
        src: GlobalTensor,
        outputs: tuple[GlobalTensor, ...],
        widths: Sequence[int],
        tiles: WholeTiles,
    ) -> None:
        self.reads, self.writes = (src,), outputs
        self.src, self.kind, self.tiles = src.view(src.numel), src.dtype, tiles
        self.width = sum(widths)
        self.rows = src.numel // self.width
        ends = list(accumulate(widths))
        flat = [out.view(out.numel) for out in outputs]
        self.parts = list(zip(flat, [0, *ends], ends, strict=False))
        self.block_dim = tiles.blocks

    def block_kind(self, block_idx: int) -> Hashable:
        """How many rows, of which columns."""
        down, beside = divmod(block_idx, self.tiles.across)
        return self._length(down), beside

    def _length(self, down: int) -> int:
        return min(self.tiles.per_rows, self.rows - down * self.tiles.per_rows)

    def process(self, core: Core) -> None:
        tiles = self.tiles
        down, beside = divmod(core.get_block_idx(), tiles.across)
        wide = min(tiles.tile_columns, self.width)
        queue = TQue(TPosition.VECIN, 1, "tile", consumer=Pipe.MTE3)
        core.pipe.init_buffer(queue, 1, tiles.tile_rows * wide * self.kind.itemsize)
        begin = beside * tiles.per_columns
        end = min(self.width, begin + tiles.per_columns)
        for first, rows in core.tiles(down * tiles.per_rows, self._length(down), tiles.tile_rows):
            for column in range(begin, end, wide):
                self._tile(core, queue, first, rows, column, min(end, column + wide))

    def _tile(self, core: Core, queue: TQue, first: Index, rows: int, begin: int, end: int) -> None:
        places = ((first, self.width), (begin, 1))
        x = queue.copy_in(self.src.window(places, (rows, end - begin), (self.width, 1)))
        for target, start, stop in self.parts:
            low, high = max(begin, start), min(end, stop)
            if low < high:
                at = ((first, stop - start), (low - start, 1))
                cut = target.window(at, (rows, high - low), (stop - start, 1))
                core.copy_runs(cut, x[:, low - begin : high - begin])
        queue.free_tensor(x)


class EqualSplit(Kernel):
    """Rows cut into equal parts of whole blocks, as many rows of a part as half of UB takes.

    Cores share whole rows. Two tiles take turns: a part is loaded while the one before it leaves.
    Source: public operator source (split_last_dim.py, data_move_with_blocks).
    """

    op_type = "Split"

    def __init__(
        self, profile: Profile, src: GlobalTensor, outputs: tuple[GlobalTensor, ...], rows: int
    ) -> None:
        self.reads, self.writes = (src,), outputs
        self.src, self.kind, self.rows = src.view(src.numel), src.dtype, rows
        self.outputs = [out.view(out.numel) for out in outputs]
        self.width = self.outputs[0].numel // rows
        each = ceil(rows / profile.cores.vector_cores)
        room = self.most_elements(profile, self.kind) // self.width
        self.division = self.share = RowShare(rows, each, min(each, room))
        self.block_dim = self.share.cores

    def process(self, core: Core) -> None:
        width = self.width
        queue = TQue(TPosition.VECIN, 2, "part", consumer=Pipe.MTE3)
        core.pipe.init_buffer(queue, 2, self.share.tile * width * self.kind.itemsize)
        for first, rows in self.share.tiles(core):
            for part, target in enumerate(self.outputs):
                places = ((first, width * len(self.outputs)), (part, width))
                steps = width * len(self.outputs), 1
                x = queue.copy_in(self.src.window(places, (rows, width), steps))
                core.copy_runs(target.window(((first, width),), (rows, width), (width, 1)), x)
                queue.free_tensor(x)

    @staticmethod
    def most_elements(profile: Profile, dtype: DType) -> int:
        """Elements of a tile."""
        return (profile.buffers.ub_bytes - _LEFT_FREE) // dtype.itemsize // 2

    @classmethod
    def fits(cls, profile: Profile, rows: int, widths: Sequence[int], dtype: DType) -> bool:
        """Whether the kernel for a shape takes such parts."""
        block = profile.buffers.block_bytes // dtype.itemsize
        whole = len(set(widths)) == 1 and widths[0] % block == 0
        near = widths[0] < cls.most_elements(profile, dtype)
        apart = sum(widths) // block < MOST_BLOCKS
        return rows > 1 and dtype in (FLOAT, FLOAT16) and whole and near and apart


class DealtSplit(Kernel):
    """Rows cut into parts, of which every core takes its piece, row by row, part after part.

    A piece is an equal share, or whole blocks and what is left over for the last core; cores that
    divide the rows take whole rows instead. Half of UB takes a tile.
    Source: public operator source (split_d.py, SplitMov).
    """

    op_type = "Split"

    def __init__(
        self,
        profile: Profile,
        src: GlobalTensor,
        outputs: tuple[GlobalTensor, ...],
        widths: Sequence[int],
    ) -> None:
        self.reads, self.writes = (src,), outputs
        self.src, self.kind, self.width = src.view(src.numel), src.dtype, sum(widths)
        self.rows, self.block_dim = src.numel // self.width, profile.cores.vector_cores
        self.block = profile.buffers.block_bytes // self.kind.itemsize
        self.tile = profile.buffers.ub_bytes // self.kind.itemsize // 2 - self.block
        begins = [0, *accumulate(widths)]
        flat = [out.view(out.numel) for out in outputs]
        self.parts = list(zip(flat, begins, widths, strict=False))

    @staticmethod
    def fits(profile: Profile, rows: int, widths: Sequence[int], dtype: DType) -> bool:
        """Whether the kernel for a shape deals parts out: two blocks of each for every core."""
        cores, block = profile.cores.vector_cores, profile.buffers.block_bytes // dtype.itemsize
        if rows == 1 or any(width % block for width in widths):
            return False
        return min(widths) // (cores if rows % cores else 1) >= 2 * block

    def block_kind(self, block_idx: int) -> Hashable:
        return tuple(self._piece(block_idx, width)[1] for _, _, width in self.parts)

    def _piece(self, block: int, width: int) -> tuple[int, int]:
        """Where a core's piece of a row begins, and its elements."""
        cores = self.block_dim
        if self.rows % cores == 0:
            return 0, width
        share = width // cores if width % cores == 0 else width // cores // self.block * self.block
        return block * share, share if block < cores - 1 else width - block * share

    def process(self, core: Core) -> None:
        block, cores = core.get_block_idx(), self.block_dim
        share = 0 if self.rows % cores else self.rows // cores
        queue = TQue(TPosition.VECIN, 2, "tile", consumer=Pipe.MTE3)
        longest = max(self._piece(block, width)[1] for _, _, width in self.parts)
        core.pipe.init_buffer(queue, 2, min(self.tile, longest) * self.kind.itemsize)
        for target, begin, width in self.parts:
            first, length = self._piece(block, width)
            for turn in core.loop(share or self.rows):
                row = turn + block * share
                for place, count in core.tiles(first, length, self.tile):
                    places = ((row, self.width), (begin, 1), (place, 1))
                    x = queue.copy_in(self.src.window(places, (count,), (1,)))
                    core.copy_runs(target.window(((row, width), (place, 1)), (count,), (1,)), x)
                    queue.free_tensor(x)


class Split(BoxesCopy):
    """A tensor cut along an axis."""

    op_type = "Split"
    deals: ClassVar[bool] = True  # whether its kernel for a shape deals large parts out

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        x = _cut_tensor(task)
        found = task.first(*_AXIS_NAMES)
        axis = joined_axis(task.op_type, [out.shape for out in task.outputs], x.shape, found)
        return (cls._of(task.profile, x, task.outputs, axis),)

    @classmethod
    def _of(
        cls, profile: Profile, x: GlobalTensor, outputs: tuple[GlobalTensor, ...], axis: int
    ) -> Kernel:
        rows, inner = prod(x.shape[:axis]), prod(x.shape[axis + 1 :])
        block = profile.buffers.block_bytes // x.dtype.itemsize
        widths = [out.shape[axis] * inner for out in outputs]
        if profile.software.compiled_for_shape and rows > 1 and max(widths) < block:
            flat = tuple(out.view(rows, width) for out, width in zip(outputs, widths, strict=True))
            return ElementSplit.called(cls.op_type)(profile, x.view(rows, sum(widths)), flat)
        deals = cls.deals and profile.software.compiled_for_shape
        if deals and EqualSplit.fits(profile, rows, widths, x.dtype):
            return EqualSplit.called(cls.op_type)(profile, x, outputs, rows)
        if deals and DealtSplit.fits(profile, rows, widths, x.dtype):
            return DealtSplit.called(cls.op_type)(profile, x, outputs, widths)
        pairs = zip(cut_along(x, axis, outputs), outputs, strict=True)
        blocks = None
        if not profile.software.compiled_for_shape:
            tiling = SplitTiling.of(profile, rows, widths, x.dtype.itemsize)
            if tiling.turned is not None:
                turned = TurnedSplit.called(cls.op_type)
                return turned(x, outputs, widths, tiling.turned)
            if tiling.whole is not None:
                whole = WholeSplit.called(cls.op_type)
                return whole(x, outputs, widths, tiling.whole)
            blocks = tiling.blocks
        return cls(profile, tuple(pairs), (x,), outputs, blocks)


class Unpack(Split):
    """A tensor taken apart along an axis that the parts don't have."""

    op_type = "Unpack"
    deals = False

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        x = _cut_tensor(task)
        shape = task.outputs[0].shape
        given = task.attributes.get("axis")
        axis = stacked_axis(task.op_type, shape, len(task.outputs), x.shape, given)
        thin = tuple(out.view(*shape[:axis], 1, *shape[axis:]) for out in task.outputs)
        return (cls._of(task.profile, x, thin, axis),)


def _columns(rows: int, cut: slice, values: NDArray[Any]) -> NDArray[Any]:
    """A few columns of rows that follow each other."""
    return values.reshape(*values.shape[:-1], rows, -1)[..., cut]


_AXIS_NAMES = ("split_dim", "axis", "dim")


def _cut_tensor(task: Task) -> GlobalTensor:
    """The tensor to cut, the largest one; beside it there may be an axis and sizes."""
    given = [x for x in task.inputs if x is not None]
    if not given:
        raise task.unfit("no tensor to cut")
    if not task.outputs:
        raise task.unsaid("the parts aren't recorded")
    return max(given, key=lambda x: x.nbytes)
