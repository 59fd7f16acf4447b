"""Products with weights of int8 or int4 that vector cores turn into numbers beside the cube cores.

Every cluster has some columns. Its vector cores widen a chunk of the weight's rows for a block of
columns, half of them each, and hand it over in workspace that stays in L2; the cube core multiplies
chunk after chunk. Source: ops-nn matmul/weight_quant_batch_matmul_v2, the custom kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import ceil, gcd
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
from npusim.values.dtypes import FLOAT, FLOAT16, INT8, INT32

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator
    from typing import Any

    from numpy.typing import NDArray

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
_PACKED = 8  # numbers of int4 in one of INT32
_LEAST_GROUP, _MOST_GROUPS = 32, 8  # rows of a group; groups whose scales are in UB
_HOST_ELEMENTS = 1 << 22  # of the weight computed at once


class WeightQuantMatMul(Kernel):
    """c = a @ ((w + offset) * scale) + bias; scales and offsets of columns, or of groups of rows.

    Eight numbers of int4 are in one of INT32, the lowest bits first. A ``group`` of rows has a line
    of scales; without groups it is all of them.
    """

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
        weight: GlobalTensor,
        group: int = 0,
    ) -> None:
        self.op_type, self.problem, self.group = op_type, problem, group
        self.scale, self.offset, self.bias = scale, offset, bias
        self.weight, self.kind = weight, problem.a.tensor.dtype
        self.packed = _PACKED if weight.dtype is INT32 else 1
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
        if group:
            step = max(group, self.tiling.step_k // group * group)
            base_k = gcd(group, self.tiling.base_k)
            self.tiling = replace(self.tiling, base_k=base_k, step_k=step)
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
        high, group = 1, kernel.group
        if group:
            high = max(1, min(_MOST_GROUPS, kernel.tiling.step_k // kernel.lanes // group))
        core.pipe.init_buffer(self._queue, len(lines), high * width * kernel.kind.itemsize)
        self._float = kernel.kind is not FLOAT16
        self._line_bufs = [TBuf(f"line{number}") for number in range(len(lines))]
        for buffer in self._line_bufs:
            core.pipe.init_buffer(buffer, 1, high * width * FLOAT.itemsize)
        element = _SLOTS * (INT8.itemsize + kernel.kind.itemsize) + FLOAT16.itemsize
        element += FLOAT.itemsize if self._float else 0
        room = core.capacity_bytes("UB") - len(lines) * high * width * (
            FLOAT.itemsize + kernel.kind.itemsize
        )
        most = int(room // (width * element))
        self._rows = max(1, min(most, ceil(kernel.tiling.step_k / kernel.lanes)))
        if group:
            self._rows = min(high, self._rows // group) * group or _part(group, self._rows)
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
            lines = [] if kernel.group else self._load_lines(part)
            for first, length in core.tiles(0, kernel.problem.k, step):
                place = kernel.place(core, self._number, (first, length), part)
                self._number += 1
                half = round_up(ceil(length / kernel.lanes), kernel.group or 1)
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
            lines = [] if kernel.group else self._load_lines(part)
            place = kernel.place(core, 0, (0, kernel.problem.k), part)
            step = round_up(max(1, _HOST_ELEMENTS // columns), kernel.group or 1)
            for start, count in core.tiles(0, kernel.problem.k, step):
                self._tile(place, (0, start), count, part, lines)
        core.cross_core_set_flag(_FULL, Pipe.MTE3)

    def _load_lines(
        self, part: Span, rows: tuple[Index, ...] = (), high: int = 1
    ) -> list[LocalTensor]:
        """Offsets and scales of a block's columns, in the type that is computed in.

        With groups those of ``high`` of them, from the one of some rows on.
        """
        first, _ = self._kernel.span(self._core.get_block_idx())
        kind, found, n = FLOAT if self._float else FLOAT16, [], self._kernel.problem.n
        for tensor, buffer in zip(self._lines, self._line_bufs, strict=True):
            alone = tensor.numel == 1
            count = 1 if alone else part[1]
            places = () if alone else ((first, 1), (part[0], 1))
            of_rows = tuple((row // self._kernel.group, n) for row in rows)
            window = tensor.window((*places, *of_rows), (high, count), (n if rows else count, 1))
            tile = self._queue.copy_in(window.by_rows() if high > 1 else window)
            line = buffer.get(kind, high, count)
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
        packed = kernel.packed
        n, first = kernel.problem.n // packed, kernel.span(core.get_block_idx())[0] // packed
        column = part[0] // packed if packed > 1 else part[0]
        source = kernel.weight.window(
            ((rows[0], n), (rows[1], n), (first, 1), (column, 1)),
            (count, columns // packed), (n, 1),
        )  # fmt: skip
        narrow = self._in.copy_in(source.by_rows() if count > 1 else source)
        half = self._half.get(FLOAT16, count, columns)
        given = narrow
        if packed > 1:  # converted as fast as numbers of eight bits
            given = narrow.same_place(count, columns, dtype=INT8)
            if core.numerics:
                given.alias(_unpacked(narrow.values(narrow.depth)))
        core.cast(half, given)
        self._in.free_tensor(narrow)
        wide = core.cast(self._wide.get(FLOAT, count, columns), half) if self._float else half
        group = kernel.group or count
        if kernel.group:
            lines = self._load_lines(part, rows, ceil(count / group))
        *offset, scale = lines
        for at in range(0, count, group):
            piece = wide if group >= count else wide[at : min(count, at + group)]
            which = slice(at // group, at // group + 1)
            for line in offset:
                core.add(piece, piece, line[which] if kernel.group else line)
            core.mul(piece, piece, scale[which] if kernel.group else scale)
        out = self._out.alloc_tensor(kernel.kind, count, columns)
        if self._float:
            core.cast(out, wide, RoundMode.CAST_RINT)
        else:
            core.move(out, wide)
        target = place.block(rows[1], count, 0, columns)
        self._out.copy_out(target.by_rows() if count > 1 else target, out)


def _part(group: int, most: int) -> int:
    """Rows of a group that are worked on at a time: a half of it, of that, and so on."""
    while group > most:
        group //= 2
    return group


def _unpacked(words: NDArray[Any]) -> NDArray[Any]:
    """Eight numbers of four bits in each, from the lowest bits on, with their signs."""
    bits = words.view(np.uint32)[..., None] >> np.arange(0, 32, 4, dtype=np.uint32) & 15
    found = bits.astype(np.int8)
    found -= (found > 7).astype(np.int8) * 16
    return found.reshape(*words.shape[:-1], -1)


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
    known = b.dtype in (INT8, INT32)
    if profile.paths.l0c_to_gm is None or not known or a.dtype.itemsize != 2:
        raise task.refused(f"{profile.name} has no kernel for {a.dtype} times {b.dtype}")
    weight = b
    if b.dtype is INT32:
        b = replace(b, dtype=INT8, shape=(*b.shape[:-1], b.shape[-1] * _PACKED))
    offset = offset if offset is not None and offset.shape else None
    bias = bias if bias is not None and bias.shape else None
    turned = bool(task.attributes.get("transpose_x", False)), False
    if task.attributes.get("transpose_weight", False):
        raise task.refused("weights that lie turned aren't modelled")
    c = task.outputs[0] if task.outputs else made(result_shape(a.shape, b.shape, turned), a.dtype)
    problem = Problem.of(task.op_type, a, b, c, turned)
    if problem.batch > 1 or problem.m > _MOST_ROWS or not problem.k:
        raise task.refused(f"more than {_MOST_ROWS} rows, or a batch, aren't modelled")
    group = task.whole_number("antiquant_group_size", 0)
    if group and (weight.dtype is not INT32 or group < _LEAST_GROUP or group % _LEAST_GROUP):
        raise task.refused(f"groups of {group} rows of {weight.dtype} aren't modelled")
    fitting = (ceil(problem.k / group) * problem.n,) if group else (1, problem.n)
    for line in (scale, offset):
        if line is not None and (line.numel not in fitting or line.dtype is not a.dtype):
            raise task.refused(f"{line.numel} scales or offsets for {problem.n} columns")
    if bias is not None and bias.numel != problem.n:
        raise task.refused(f"a bias of {bias.numel} for {problem.n} columns")
    given = profile, problem, scale, offset, bias, task.op_type, weight, group
    return (WeightQuantMatMul(*given),)
