"""Products with weights of int8 or int4 that vector cores turn into numbers beside the cube cores.

Every cluster has some columns. Its vector cores widen a chunk of the weight's rows for a block of
columns, half of them each, and hand it over in workspace that stays in L2; the cube core multiplies
chunk after chunk. A few rows are multiplied in other ways (multi_scale). Source: ops-nn
matmul/weight_quant_batch_matmul_v2, the custom kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import ceil, gcd
from typing import TYPE_CHECKING

import numpy as np

from npusim.ascendc import Core, GlobalTensor, Kernel
from npusim.ascendc.task import Task, made
from npusim.engine.program import Pipe
from npusim.library.block_matmul import BlockMatmul, Product
from npusim.library.block_order import blocks_of
from npusim.library.matmul_tiling import MatmulTiling, grain_of
from npusim.library.operands import AsItLies, GmMatrix
from npusim.ops.matmul.multi_scale import MultiScaleMatMul, splits_rows
from npusim.ops.matmul.operands import Problem, result_shape
from npusim.ops.matmul.widening import Widener
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import INT4, INT4_IN_INT32, INT8, INT32
from npusim.values.formats import Format

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from npusim.ascendc import LocalTensor
    from npusim.ascendc.cluster import CoreWait
    from npusim.engine.program import Barrier
    from npusim.hardware.profile import Profile
    from npusim.library.operands import Span
    from npusim.values.dtypes import DType

    Waits = Iterator[Barrier | CoreWait]

_FULL = 0  # flag: a chunk is there
_SLOTS = 2  # of workspace for a cluster
_MOST_ROWS = 256  # of C that one block has
_RESULTS = 1 << 15  # elements of a block of C
_LEAST_GROUP = 32  # rows of a group
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
        self.packed = INT4_IN_INT32 if weight.dtype is INT32 else 1
        self.matrices, self.depth, self.width = 1, problem.k, problem.n
        lines = (scale, offset, bias)
        given = (problem.a.tensor, self.weight, *lines)
        self.reads = tuple(each for each in given if each is not None)
        self.writes, self.cold = (problem.c.tensor,), (weight,)
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

    @property
    def chunk(self) -> int:
        """Rows of the weight that are handed over at a time."""
        return self.tiling.step_k

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
        kind = None if bias is None else bias.dtype
        blocks = BlockMatmul(core, self.tiling, self.kind, problem.k, bias=kind, unit_flag=False)
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
class _Widened(AsItLies):
    """The weight as the cube core sees it: chunks that it waits for, all but the first in turn."""

    core: Core
    kernel: WeightQuantMatMul
    number: int = field(default=0)

    @property
    def dtype(self) -> DType:
        return self.kernel.kind

    def load_l1(self, core: Core, tile: LocalTensor, rows: Span, columns: Span) -> None:
        """A chunk, once both vector cores have handed it over."""
        if core.recording:
            core.cross_core_wait_flag(_FULL)
        place = self.kernel.place(core, self.number, rows, columns)
        self.number += 1
        place.load_l1(core, tile, (0, rows[1]), (0, columns[1]))


class _VectorSide(Widener):
    """Widens its rows of every chunk."""

    def __init__(self, core: Core, kernel: WeightQuantMatMul) -> None:
        super().__init__(core, kernel)
        self._owner = kernel

    def chunk_by_chunk(self) -> None:
        """In the order in which the cube core wants them."""
        core, kernel = self._core, self._owner
        _, columns = kernel.span(core.get_block_idx())
        step = kernel.tiling.step_k
        for _, part in blocks_of(core, kernel.tiling, kernel.problem.m, columns):
            lines = [] if kernel.group else self.load_lines(part)
            for first, length in core.tiles(0, kernel.problem.k, step):
                place = kernel.place(core, self._number, (first, length), part)
                self._number += 1
                half = round_up(ceil(length / kernel.lanes), kernel.group or 1)
                begin = min(self._lane * half, length)
                for start, count in core.tiles(begin, min(half, length - begin), self._rows):
                    self.tile(place, (first, start), count, part, lines)
                core.cross_core_set_flag(_FULL, Pipe.MTE3)

    def at_once(self) -> None:
        """All rows by the first vector core."""
        core, kernel = self._core, self._owner
        _, columns = kernel.span(core.get_block_idx())
        if not self._lane:
            part: Span = (0, columns)
            lines = [] if kernel.group else self.load_lines(part)
            place = kernel.place(core, 0, (0, kernel.problem.k), part)
            step = round_up(max(1, _HOST_ELEMENTS // columns), kernel.group or 1)
            for start, count in core.tiles(0, kernel.problem.k, step):
                self.tile(place, (0, start), count, part, lines)
        core.cross_core_set_flag(_FULL, Pipe.MTE3)


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
    if b.format is Format.FRACTAL_NZ and b.dtype in (INT4, INT32):
        raise task.refused("weights of int4 in fractals aren't modelled")
    b = b.packed(INT32) if b.dtype is INT4 else b
    known = b.dtype in (INT8, INT32)
    if profile.paths.l0c_to_gm is None or not known or a.dtype.itemsize != 2:
        raise task.refused(f"{profile.name} has no kernel for {a.dtype} times {b.dtype}")
    weight = b
    if b.dtype is INT32:
        b = replace(b, dtype=INT8, shape=(*b.shape[:-1], b.shape[-1] * INT4_IN_INT32))
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
    if splits_rows(problem, weight, scale, group):
        return (MultiScaleMatMul(profile, problem, scale, offset, bias, task.op_type),)
    given = profile, problem, scale, offset, bias, task.op_type, weight, group
    return (WeightQuantMatMul(*given),)
