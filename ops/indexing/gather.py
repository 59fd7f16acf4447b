"""Rows picked by their numbers: one transfer per row, its address from the scalar unit.

Kernels compiled for one shape keep a small table on chip: in UB, or in L1 where rows are shorter
than a block, and loop over the elements of such rows. Otherwise every row is a transfer from device
memory, and the first axis of the result that is long enough is dealt out: planes, indices, or the
elements of the only row. What was gathered leaves in one piece. Rows of a table are taken to be
looked up as often as words are (frequencies), and loads from one line of L2 take turns. Source:
public operator sources (gather_v2_d.py, gather_dsl.cc).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod
from typing import TYPE_CHECKING

from npusim.ascendc import Core, GlobalTensor, Kernel, LocalTensor, Scalar, TPosition, TQue
from npusim.ascendc.task import Task, made
from npusim.engine.program import Pipe
from npusim.ops.indexing.elements import gather_elements
from npusim.ops.indexing.frequencies import most_used
from npusim.schedules.bounds import fault_outside
from npusim.schedules.rows.shares import RowShare
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import INT32, INT64, UINT32
from npusim.values.errors import KernelError, RefusedTaskError

if TYPE_CHECKING:
    from npusim.ascendc.loops import Index, LoopIndex
    from npusim.hardware.profile import Profile

INDEX_TYPES = (INT32, INT64, UINT32)

# Axes of the result that are dealt out.
_PLANES, _INDICES, _ELEMENTS = range(3)


class GatherRows(Kernel):
    """out[p, k, :] = table[p, indices[k], :]; ``table`` is (p, rows, width), ``indices`` flat."""

    op_type = "GatherV2"
    generated = True

    def __init__(
        self,
        profile: Profile,
        table: GlobalTensor,
        indices: GlobalTensor,
        out: GlobalTensor,
        shape: tuple[int, int, int],
        axes: tuple[int, ...] = (),
    ) -> None:
        if indices.dtype not in INDEX_TYPES:
            raise KernelError(self.op_type, f"indices of {indices.dtype}")
        if table.dtype is not out.dtype:
            raise KernelError(self.op_type, f"gathers {table.dtype} into {out.dtype}")
        self.reads, self.writes = (table, indices), (out,)
        self.outer, self.rows, self.width = shape
        # By tuples: the axes that their numbers count in, and how many rows a step in each is.
        self.axes = axes or (self.rows,)
        self.steps = tuple(prod(self.axes[place + 1 :]) for place in range(len(self.axes)))
        self.count = indices.numel // len(self.axes)
        self.table, self.indices = table.view(table.numel), indices.view(indices.numel)
        self.out, self.kind = out.view(out.numel), out.dtype
        self.compiled = profile.software.compiled_for_shape
        self.depth = 1 if self.compiled else self.buffer_num
        self.block = profile.buffers.block_bytes // self.kind.itemsize
        self.padded = round_up(self.width, self.block)
        # Short rows are put side by side by the scalar unit, unless transfers can pad them.
        self.packs = self.width < self.block and not profile.has("data_move_pad")
        self.tile_rows = self._room(profile)
        cores = profile.cores.vector_cores
        long = self.padded > self.longest
        self.share = self._dealt_out(cores) if long or not self.compiled else self._shared(cores)
        self.division = self.share
        self.in_ub = self._fits(profile.buffers.ub_bytes // 2) and self.compiled
        short = self.width < self.block
        self.in_l1 = self.compiled and short and self._fits(profile.buffers.l1_bytes)
        self.block_dim = self.share.cores
        if self.compiled and not long:
            self.block_dim = max(1, min(cores, self.count))
        line = profile.memory.l2_line_bytes / (self.width * self.kind.itemsize)
        shared = most_used(self.rows, line) / self.outer
        self.sharers = self.block_dim * shared if self.axis == _INDICES else 1.0

    def process(self, core: Core) -> None:
        """Indices to UB; for every tile of them row after row, then the tile to device memory."""
        fault_outside(core, self.op_type, self.indices, *self.axes)
        share, block = self.share, core.get_block_idx()
        size = self.kind.itemsize
        self.id_que = TQue(TPosition.VECIN, self.depth, "indices", consumer=Pipe.SCALAR)
        self.row_que = TQue(TPosition.VECIN, self.depth, "rows", consumer=Pipe.MTE3)
        tile = min(self.count, self.tile_rows) if self.axis != _INDICES else share.tile
        core.pipe.init_buffer(
            self.id_que, self.depth, tile * len(self.axes) * self.indices.dtype.itemsize
        )
        line = self.width if self.packs else self.padded
        elements = round_up(tile * line if self.axis != _ELEMENTS else share.tile, self.block)
        core.pipe.init_buffer(self.row_que, self.depth, elements * size)
        kept = self._load_table(core) if share.length(block) else None
        if self.axis == _PLANES:
            for plane, _ in share.tiles(core):
                for first, count in core.tiles(0, self.count, tile):
                    self._tile(core, plane, first, count)
        else:
            part = self._tile if self.axis == _INDICES else self._part
            for turn in core.loop(self.outer) if self.outer > 1 else (0,):
                for begin, number in share.tiles(core):
                    part(core, turn, begin, number)
        if kept is not None:
            kept.free_tensor(self.kept)

    def _part(self, core: Core, plane: Index, first: Index, count: int) -> None:
        """Some elements of the only row that is picked."""
        ids = self.id_que.copy_in(self.indices.span(0, len(self.axes)))
        tile = self.row_que.alloc_tensor(self.kind, count)
        row = self._address(core, ids, 0)
        self.id_que.free_tensor(ids)
        places = ((plane, self.rows * self.width), *row, (first, 1))
        core.copy_runs(tile, self.table.window(places, (count,), (1,)))
        self.row_que.enque(tile)
        self.row_que.deque(tile)
        core.copy_runs(self.out.window(((plane, self.width), (first, 1)), (count,), (1,)), tile)
        self.row_que.free_tensor(tile)

    def _tile(self, core: Core, plane: Index, first: Index, count: int) -> None:
        numbers = len(self.axes)
        ids = self.id_que.copy_in(self.indices.span(first * numbers, count * numbers))
        width = self.width
        ragged = self.padded != width and not self.packs
        if self.packs:
            tile = self.row_que.alloc_tensor(self.kind, count * width).view(count, width)
        else:
            tile = self.row_que.alloc_tensor(self.kind, count, width)
        for index in core.loop(count):
            self._row(core, tile, index, self._address(core, ids, index), plane)
        self.id_que.free_tensor(ids)
        self.row_que.enque(tile)
        self.row_que.deque(tile)
        places = ((plane, self.count * width), (first, width))
        if ragged:
            target = self.out.window(places, (count, width), (width, 1))
            core.copy_runs(target.by_rows(), tile)
        else:
            core.copy_runs(self.out.window(places, (count * width,), (1,)), tile)
        self.row_que.free_tensor(tile)

    def _address(self, core: Core, ids: LocalTensor, index: Index) -> list[tuple[Scalar, int]]:
        """The numbers of a row and the elements that a step of each is: a product for each."""
        numbers, found = len(self.axes), []
        for place, step in enumerate(self.steps):
            found.append((core.get_value(ids, (index * numbers + place) // 1), step * self.width))
            core.scalar_alu("mul")
        return found

    def _row(
        self,
        core: Core,
        tile: LocalTensor,
        index: LoopIndex,
        row: list[tuple[Scalar, int]],
        plane: Index,
    ) -> None:
        places = ((plane, self.rows * self.width), *row)
        source = self.table.window(places, (self.width,), (1,))
        if not (self.in_ub or self.in_l1):
            core.set_load_sharers(self.sharers)
            core.copy_runs(tile[index], source)
            core.set_load_sharers(1.0)
            if self.packs:
                core.move_elements(tile, tile, self.width)
            return

        def from_chip() -> None:
            if self.in_ub and self.width >= self.block:
                core.move_bursts(tile, tile, 1, ceil(self.width / self.block))
            else:
                if not self.in_ub:
                    core.fetch_element(tile)
                core.scalar_loop(self.width)
                core.move_elements(tile, tile, self.width)
            core.arrange(tile[index], core.at(self.kept, row[0][0]))

        core.separately(from_chip, lambda: core.copy_runs(tile[index], source))

    def _load_table(self, core: Core) -> TQue | None:
        """The whole table, once, where it has room on the chip; the queue that it is a tile of."""
        if not (self.in_ub or self.in_l1):
            return None
        position = TPosition.VECIN if self.in_ub else TPosition.A1
        queue = TQue(position, 1, "table", consumer=Pipe.SCALAR)
        core.pipe.init_buffer(queue, 1, self.table.nbytes)
        loaded = queue.copy_in(self.table.span(0, self.table.numel))
        self.kept = loaded.view(self.rows, self.width)
        return queue

    def _fits(self, nbytes: int) -> bool:
        aligned = self.width % self.block == 0 or self.width < self.block
        alone = self.outer == 1 == len(self.axes)
        return aligned and self.table.nbytes < nbytes and alone

    def _room(self, profile: Profile) -> int:
        """Rows that fit into UB at a time."""
        ub, size = profile.buffers.ub_bytes, self.kind.itemsize
        if self.compiled and self._fits(ub // 2):
            ub -= self.table.nbytes
        room = ub // self.depth - 4 * profile.buffers.block_bytes
        each = max(self.padded, 1) * size + self.indices.dtype.itemsize * len(self.axes)
        self.longest = (room - profile.buffers.block_bytes) // size // self.block * self.block
        if each > room and self.count == 1:
            return 1  # a part of the only row at a time
        if each > room:
            raise KernelError(self.op_type, f"a row of {self.width} elements doesn't fit into UB")
        return max(1, room // each)

    def _shared(self, cores: int) -> RowShare:
        """Indices in like shares, those of short rows so that they come to whole blocks."""
        self.axis = _INDICES
        multiple = 1 if self.width >= self.block else self.block
        return RowShare.of(self.count, cores, self.tile_rows, multiple)

    def _dealt_out(self, cores: int) -> RowShare:
        """Planes, where they are many or small; else indices, or elements where there is one.

        No core gets less than a block of the result, and what is less than a block for each core
        in a single plane goes to one.
        """
        outer, count, width, block = self.outer, self.count, self.width, self.block
        small = count * width < cores * block
        self.axis = _PLANES if outer >= cores // 2 or small else _INDICES
        if self.axis == _INDICES and count == 1:
            self.axis = _ELEMENTS
        number, each, tile = {
            _PLANES: (outer, count * width, 1),
            _INDICES: (count, width, self.tile_rows),
            _ELEMENTS: (width, 1, min(self.tile_rows * self.padded, self.longest)),
        }[self.axis]
        whole = min(ceil(block / each), number)
        per_core = max(ceil(number / cores), whole)
        return RowShare(number, per_core, min(tile, per_core))


class GatherV2(GatherRows):
    """Rows of a table along an axis, picked by their numbers."""

    op_type = "GatherV2"
    generated = True

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        """The axis as recorded, or the one that explains the result's shape."""
        table, indices = task.present(2)
        out = task.outputs[0] if task.outputs else None
        found = task.attributes.get("axis", task.attributes.get("dim"))
        axis = gathered_axis(task.op_type, table.shape, indices.shape, out, found)
        if out is None:
            shape = (*table.shape[:axis], *indices.shape, *table.shape[axis + 1 :])
            out = made(shape, table.dtype)
        if not table.numel:
            raise task.refused("results of tensors without elements aren't modelled")
        sizes = (prod(table.shape[:axis]), table.shape[axis], prod(table.shape[axis + 1 :]))
        return (cls(task.profile, table, indices, out, sizes),)


class GatherNd(GatherRows):
    """Parts of a tensor picked by the numbers of their leading axes."""

    op_type = "GatherNd"

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        """The address of a part takes a product for each number of its tuple."""
        table, indices = task.present(2)
        numbers = indices.shape[-1] if indices.shape else 0
        out = task.outputs[0] if task.outputs else None
        parts = (*indices.shape[:-1], *table.shape[numbers:])
        if out is None or not 0 < numbers <= len(table.shape) or out.numel != prod(parts):
            raise task.unfit(f"index tuples {indices.shape} into {table.shape}")
        axes = table.shape[:numbers]
        sizes = (1, prod(axes), prod(table.shape[numbers:]))
        return (cls(task.profile, table, indices, out, sizes, axes),)


def gather(task: Task) -> tuple[Kernel, ...]:
    """Rows of a table; or elements, as torch's gather has it, which names its axis ``dim``."""
    table, indices = task.present(2)
    if "dim" in task.attributes and len(table.shape) == len(indices.shape):
        return gather_elements(task)
    return GatherV2.called("Gather").from_task(task)


def gathered_axis(
    op_type: str,
    table: Sequence[int],
    indices: Sequence[int],
    out: GlobalTensor | None,
    given: object,
) -> int:
    """The axis that is indexed; the first that explains the result, 0 without one."""
    if isinstance(given, int) and -len(table) <= given < len(table):
        return given % len(table)
    if out is None:
        return 0
    for axis in range(len(table)):
        if (*table[:axis], *indices, *table[axis + 1 :]) == out.shape:
            return axis
    raise RefusedTaskError(op_type, f"{tuple(table)} by {tuple(indices)} doesn't give {out.shape}")
