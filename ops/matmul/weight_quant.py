"""Products with weights of int8 that vector cores turn into numbers beside the cube cores.

Every cluster has some columns. Its vector cores widen a chunk of the weight's rows for a block of
columns, half of them each, and hand it over in workspace that stays in L2; the cube core multiplies
chunk after chunk. Source: ops-nn matmul/weight_quant_batch_matmul_v2, the custom kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from npusim.ascendc import Core, GlobalTensor, Kernel, TBuf, TPosition, TQue
from npusim.ascendc.rounding import RoundMode
from npusim.ascendc.task import Task, made
from npusim.engine.program import Pipe
from npusim.library.block_matmul import BlockMatmul, Product, blocks_of
from npusim.library.matmul_tiling import MatmulTiling, grain_of
from npusim.library.operands import GmMatrix
from npusim.ops.matmul.operands import Problem, result_shape
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT, FLOAT16, INT8

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from npusim.ascendc import LocalTensor
    from npusim.ascendc.cluster import CoreWait
    from npusim.ascendc.loops import Index
    from npusim.engine.program import Barrier
    from npusim.hardware.profile import Profile
    from npusim.library.operands import Span, Tile
    from npusim.values.dtypes import DType

    Waits = Iterator[Barrier | CoreWait]

_FULL = 0  # flag: a chunk is there
_SLOTS = 2  # of workspace for a cluster, and of queues
_MOST_ROWS = 256  # of C that one block has
_RESULTS = 1 << 15  # elements of a block of C
_HOST_ELEMENTS = 1 << 22  # of the weight computed at once


class WeightQuantMatMul(Kernel):
    """c = a @ ((w + offset) * scale) + bias; scales and offsets of columns."""

    op_type: str = "WeightQuantBatchMatmulV2"
    is_mix = True

    def __init__(
        self,
        profile: Profile,
        problem: Problem,
        scale: GlobalTensor,
        offset: GlobalTensor | None,
        bias: GlobalTensor | None,
        op_type: str,
    ) -> None:
        self.op_type, self.problem = op_type, problem
        self.scale, self.offset, self.bias = scale, offset, bias
        self.weight, self.kind = problem.b.tensor, problem.a.tensor.dtype
        lines = (scale, offset, bias)
        given = (problem.a.tensor, self.weight, *lines)
        self.reads = tuple(each for each in given if each is not None)
        self.writes = (problem.c.tensor,)
        grain = grain_of(profile, self.kind)
        rows = round_up(problem.m, grain)
        wide = round_up(
            ceil(problem.n / profile.cores.cube_cores), max(grain, profile.buffers.block_bytes)
        )  # rows of the weight are cut between blocks
        self.columns = min(wide, round_up(problem.n, grain))
        base = rows, min(self.columns, _RESULTS // rows // grain * grain, _MOST_ROWS)
        spare = 0 if bias is None else base[1] * bias.dtype.itemsize
        self.tiling = MatmulTiling.of_blocks(profile, self.kind, base, rows, problem.k, spare)
        self.block_dim = ceil(problem.n / self.columns)
        self.lanes = profile.cores.vector_cores // profile.cores.cube_cores
        chunk = (self.block_dim, _SLOTS, self.tiling.step_k, base[1])
        self.slots = made(chunk, self.kind, "slots")
        self.wide = replace(self.slots, shape=(problem.k, problem.n))
        self.scratch = (self.slots,)

    @property
    def workspace_bytes(self) -> int:
        """What clusters hand over in; numbers are kept for the whole weight."""
        return self.slots.nbytes

    def block_kind(self, block_idx: int) -> Hashable:
        return self.span(block_idx)[1]

    def span(self, block: int) -> tuple[int, int]:
        """The first column of a cluster, and how many it has."""
        first = block * self.columns
        return first, min(self.columns, self.problem.n - first)

    def process(self, core: Core) -> Waits:
        """The cube core's side, or a vector core's."""
        slots = self.slots.buffer
        if core.numerics and (slots.data is None or slots.data.size < self.wide.numel):
            slots.data = np.zeros(self.wide.numel, self.kind.numpy)
        if core.unit.kind == "cube":
            yield from self._multiply(core)
        else:
            side = _VectorSide(core, self)
            core.separately(side.chunk_by_chunk, side.at_once)

    def _multiply(self, core: Core) -> Waits:
        problem, (first, columns) = self.problem, self.span(core.get_block_idx())
        bias = self.bias
        blocks = BlockMatmul(
            core, self.tiling, self.kind, problem.k, bias=None if bias is None else bias.dtype
        )
        row = None if bias is None else GmMatrix(bias, ((first, 1),), 0)
        a = problem.a.matrix(problem.turned_a, 0)
        c = problem.c.matrix(False, 0, 0, first)
        blocks.begin(Product(c, a, _Widened(core, self), problem.m, columns, problem.k, row))

        def schedule() -> Waits:
            for block in blocks.iterate():
                blocks.get_tensor_c(block, c)
            yield from ()

        def compute() -> Waits:
            yield core.cross_core_wait_flag(_FULL)
            for block in blocks.whole_rows():
                blocks.get_tensor_c(block, c)

        yield from core.separate_steps(schedule, compute)

    def place(self, core: Core, number: int, k: Span, columns: Span) -> GmMatrix:
        """Where a chunk is handed over; where everything is kept when slots aren't timed."""
        if core.recording and not core.reference:
            _, slots, rows, width = self.slots.shape
            start = (core.get_block_idx() * slots + number % slots) * rows * width
            return GmMatrix(self.slots, ((start, 1),), width)
        first, _ = self.span(core.get_block_idx())
        n = self.problem.n
        return GmMatrix(self.wide, ((first, 1), (columns[0], 1), (k[0], n)), n)


@dataclass(slots=True)
class _Widened:
    """The weight as the cube core sees it: chunks that it waits for, all but the first in turn."""

    core: Core
    kernel: WeightQuantMatMul
    number: int = field(default=0)

    @property
    def dtype(self) -> DType:
        return self.kernel.kind

    def tile_shape(self, rows: int, columns: int) -> tuple[int, ...]:
        """As it is in the product."""
        return rows, columns

    def load_l1(self, core: Core, tile: LocalTensor, rows: Span, columns: Span) -> None:
        """A chunk, once both vector cores have handed it over."""
        if core.recording:
            core.cross_core_wait_flag(_FULL)
        place = self.kernel.place(core, self.number, rows, columns)
        self.number += 1
        place.load_l1(core, tile, (0, rows[1]), (0, columns[1]))

    def load_l0(
        self, core: Core, piece: LocalTensor, tile: Tile, rows: Span, columns: Span
    ) -> None:
        """As it lies in L1."""
        core.load_data(piece, tile.tensor[tile.within(rows, columns)])


class _VectorSide:
    """Widens its rows of every chunk."""

    def __init__(self, core: Core, kernel: WeightQuantMatMul) -> None:
        self._core, self._kernel = core, kernel
        self._lane, self._number = core.get_sub_block_idx(), 0
        width = round_up(kernel.tiling.base_n, core.block_bytes)
        lines = [each for each in (kernel.offset, kernel.scale) if each is not None]
        self._queue, self._lines = TQue(TPosition.VECIN, len(lines), "lines"), lines
        core.pipe.init_buffer(self._queue, len(lines), width * kernel.kind.itemsize)
        self._float = kernel.kind is not FLOAT16
        self._line_bufs = [TBuf(f"line{number}") for number in range(len(lines))]
        for buffer in self._line_bufs:
            core.pipe.init_buffer(buffer, 1, width * FLOAT.itemsize)
        element = _SLOTS * (INT8.itemsize + kernel.kind.itemsize) + FLOAT16.itemsize
        element += FLOAT.itemsize if self._float else 0
        room = core.capacity_bytes("UB") - len(lines) * width * (
            FLOAT.itemsize + kernel.kind.itemsize
        )
        most = int(room // (width * element))
        self._rows = max(1, min(most, ceil(kernel.tiling.step_k / kernel.lanes)))
        tile = self._rows * width
        self._in, self._out = TQue(TPosition.VECIN, _SLOTS, "w"), TQue(TPosition.VECOUT, _SLOTS)
        self._half, self._wide = TBuf("half"), TBuf("wide")
        core.pipe.init_buffer(self._in, _SLOTS, tile)
        core.pipe.init_buffer(self._out, _SLOTS, tile * kernel.kind.itemsize)
        core.pipe.init_buffer(self._half, 1, tile * FLOAT16.itemsize)
        if self._float:
            core.pipe.init_buffer(self._wide, 1, tile * FLOAT.itemsize)

    def chunk_by_chunk(self) -> None:
        """In the order in which the cube core wants them."""
        core, kernel = self._core, self._kernel
        _, columns = kernel.span(core.get_block_idx())
        step = kernel.tiling.step_k
        for _, part in blocks_of(core, kernel.tiling, kernel.problem.m, columns):
            lines = self._load_lines(part)
            for first, length in core.tiles(0, kernel.problem.k, step):
                place = kernel.place(core, self._number, (first, length), part)
                self._number += 1
                half = ceil(length / kernel.lanes)
                begin = min(self._lane * half, length)
                for start, count in core.tiles(begin, min(half, length - begin), self._rows):
                    self._tile(place, (first, start), count, part, lines)
                core.cross_core_set_flag(_FULL, Pipe.MTE3)

    def at_once(self) -> None:
        """All rows by the first vector core."""
        core, kernel = self._core, self._kernel
        _, columns = kernel.span(core.get_block_idx())
        if not self._lane:
            part: Span = (0, columns)
            lines = self._load_lines(part)
            place = kernel.place(core, 0, (0, kernel.problem.k), part)
            for start, count in core.tiles(0, kernel.problem.k, max(1, _HOST_ELEMENTS // columns)):
                self._tile(place, (0, start), count, part, lines)
        core.cross_core_set_flag(_FULL, Pipe.MTE3)

    def _load_lines(self, part: Span) -> list[LocalTensor]:
        """Offsets and scales of a block's columns, in the type that is computed in."""
        first, _ = self._kernel.span(self._core.get_block_idx())
        kind, found = FLOAT if self._float else FLOAT16, []
        for tensor, buffer in zip(self._lines, self._line_bufs, strict=True):
            alone = tensor.numel == 1
            count = 1 if alone else part[1]
            places = () if alone else ((first, 1), (part[0], 1))
            tile = self._queue.copy_in(tensor.window(places, (1, count), (count, 1)))
            line = buffer.get(kind, 1, count)
            if tile.dtype is kind:
                self._core.move(line, tile)
            else:
                self._core.cast(line, tile)
            self._queue.free_tensor(tile)
            found.append(line)
        return found

    def _tile(
        self,
        place: GmMatrix,
        rows: tuple[Index, Index],
        count: int,
        part: Span,
        lines: list[LocalTensor],
    ) -> None:
        """Some rows: ``rows`` are those of the chunk, and of these in it."""
        core, kernel, columns = self._core, self._kernel, part[1]
        n, first = kernel.problem.n, kernel.span(core.get_block_idx())[0]
        source = kernel.weight.window(
            ((rows[0], n), (rows[1], n), (first, 1), (part[0], 1)), (count, columns), (n, 1)
        )
        narrow = self._in.copy_in(source.by_rows() if count > 1 else source)
        half = core.cast(self._half.get(FLOAT16, count, columns), narrow)
        self._in.free_tensor(narrow)
        wide = core.cast(self._wide.get(FLOAT, count, columns), half) if self._float else half
        *offset, scale = lines
        for line in offset:
            core.add(wide, wide, line)
        core.mul(wide, wide, scale)
        out = self._out.alloc_tensor(kernel.kind, count, columns)
        if self._float:
            core.cast(out, wide, RoundMode.CAST_RINT)
        else:
            core.move(out, wide)
        target = place.block(rows[1], count, 0, columns)
        self._out.copy_out(target.by_rows() if count > 1 else target, out)


def weight_quant_batch_matmul_v2(task: Task) -> tuple[Kernel, ...]:
    """x, weight, scale, offset, two parameters of another quantisation, bias."""
    a, b, scale, offset, *others, bias = (*task.inputs, *[None] * 7)[:7]
    if any(each is not None for each in others):
        raise task.refused("results that are quantised again aren't modelled")
    return _product(task, a, b, scale, offset, bias)


def weight_quant_batch_matmul(task: Task) -> tuple[Kernel, ...]:
    """x, weight, scale, offset, bias: the order of the framework's records."""
    a, b, scale, offset, bias = (*task.inputs, *[None] * 5)[:5]
    return _product(task, a, b, scale, offset, bias)


def _product(
    task: Task,
    a: GlobalTensor | None,
    b: GlobalTensor | None,
    scale: GlobalTensor | None,
    offset: GlobalTensor | None,
    bias: GlobalTensor | None,
) -> tuple[Kernel, ...]:
    profile = task.profile
    if a is None or b is None or scale is None:
        raise task.refused("x, weight and antiquant_scale are needed")
    if profile.paths.l0c_to_gm is None or b.dtype is not INT8 or a.dtype.itemsize != 2:
        raise task.refused(f"{profile.name} has no kernel for {a.dtype} times {b.dtype}")
    offset = offset if offset is not None and offset.shape else None
    bias = bias if bias is not None and bias.shape else None
    turned = bool(task.attributes.get("transpose_x", False)), False
    if task.attributes.get("transpose_weight", False):
        raise task.refused("weights that lie turned aren't modelled")
    c = task.outputs[0] if task.outputs else made(result_shape(a.shape, b.shape, turned), a.dtype)
    problem = Problem.of(task.op_type, a, b, c, turned)
    if problem.batch > 1 or problem.m > _MOST_ROWS or not problem.k:
        raise task.refused(f"more than {_MOST_ROWS} rows, or a batch, aren't modelled")
    for line in (scale, offset):
        if line is not None and (line.numel not in (1, problem.n) or line.dtype is not a.dtype):
            raise task.refused(f"{line.numel} scales or offsets for {problem.n} columns")
    if bias is not None and bias.numel != problem.n:
        raise task.refused(f"a bias of {bias.numel} for {problem.n} columns")
    return (WeightQuantMatMul(profile, problem, scale, offset, bias, task.op_type),)
