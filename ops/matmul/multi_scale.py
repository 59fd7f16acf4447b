"""Products of a few rows with weights of int8, by two products of int8 (multi-scale dequant).

Vector cores write each row of x as its largest magnitude times two lines of int8, the second of
what the first leaves over. The cube cores multiply both with the weight as it lies, and the vector
core beside each puts the sums together. Source: ops-nn matmul/weight_quant_batch_matmul_v2, tiling
of the multi-scale dequant and its kernel on all cores.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from npusim.ascendc import Core, GlobalTensor, Kernel, TBuf, TPosition, TQue
from npusim.ascendc.rounding import RoundMode
from npusim.ascendc.task import made
from npusim.engine.program import Pipe
from npusim.library.matmul import GmMatrix, Matmul, Product
from npusim.library.matmul_tiling import MatmulTiling
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT, FLOAT16, INT8, INT32

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from npusim.ascendc import LocalTensor
    from npusim.ascendc.cluster import CoreWait
    from npusim.ascendc.loops import Index
    from npusim.engine.program import Barrier
    from npusim.hardware.profile import Profile
    from npusim.ops.matmul.operands import Problem

    Waits = Iterator[Barrier | CoreWait]

_FULL = 0  # flag: sums are there
_LINES = 2  # of int8 for each row
_FIRST = 127.499  # steps of the first line in a row's largest magnitude
_SECOND = 2 * _FIRST**2  # steps of the second
_MOST_ROWS, _DEEPEST, _WIDEST = 64, 13696, 32000
_ALIGNED = 32  # elements of k and n
_WHOLE_COLUMNS = 256  # a core's columns come in so many
_PRELOADS = 3  # tiles of the weight that are fetched while rows are split
_LANES = 8  # copies of a number of a row


def splits_rows(problem: Problem, weight: GlobalTensor, scale: GlobalTensor, group: int) -> bool:
    """Whether rows of x are split into two lines of int8, and none of k among the cores."""
    m, n, k = problem.m, problem.n, problem.k
    fits = m <= _MOST_ROWS and k <= _DEEPEST and n <= _WIDEST
    aligned = not k % _ALIGNED and not n % _ALIGNED
    plain = weight.dtype is INT8 and not group and scale.numel == n and not problem.turned_a
    return fits and aligned and plain


class MultiScaleMatMul(Kernel):
    """c = a @ ((w + offset) * scale) + bias with scales of columns, for up to 64 rows of a."""

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
        m, n, k = problem.m, problem.n, problem.k
        self.a, self.weight, self.c = (each.tensor for each in (problem.a, problem.b, problem.c))
        lines = (self.weight, scale, offset, bias)
        self.reads = (self.a, *(each for each in lines if each is not None))
        self.writes, self.cold = (self.c,), (self.weight,)
        cores = profile.cores
        self.columns = min(n, round_up(ceil(n / cores.cube_cores), _WHOLE_COLUMNS))
        self.multiplying = ceil(n / self.columns)
        lanes = cores.vector_cores // cores.cube_cores
        self.rows = ceil(m / (lanes * cores.cube_cores))  # of one vector core
        self.splitting = ceil(m / self.rows)
        self.lanes = lanes
        self.block_dim = max(self.multiplying, ceil(self.splitting / lanes))
        high = _LINES * m
        base = round_up(high, profile.cube.fractal_m), min(self.columns, _WHOLE_COLUMNS)
        self.tiling = MatmulTiling.of_blocks(profile, INT8, base, high, k)
        self.split = made((_LINES * m, k), INT8, "lines")
        self.maxima, self.sums = (made((m, _LANES), FLOAT, name) for name in ("maxima", "sums"))
        self.products = made((_LINES * m, n), INT32, "products")
        self.scratch = (self.split, self.maxima, self.sums, self.products)

    @property
    def workspace_bytes(self) -> int:
        """Lines, what they are multiples of, and the sums of their products."""
        return sum(each.nbytes for each in self.scratch)

    def block_kind(self, block_idx: int) -> Hashable:
        counts = tuple(self._own_rows(block_idx, lane)[1] for lane in range(self.lanes))
        return counts, self._own_columns(block_idx)[1]

    def _own_rows(self, block: int, lane: int) -> tuple[int, int]:
        """Rows of x that a vector core splits: the first, and how many."""
        first = min((block * self.lanes + lane) * self.rows, self.problem.m)
        return first, min(self.rows, self.problem.m - first)

    def _own_columns(self, block: int) -> tuple[int, int]:
        """Columns of a cluster."""
        first = min(block * self.columns, self.problem.n)
        return first, min(self.columns, self.problem.n - first)

    def process(self, core: Core) -> Waits:
        """The cube core's side, or a vector core's."""
        first, columns = self._own_columns(core.get_block_idx())
        if core.unit.kind == "cube":
            if columns:
                self._preload(core, first, columns)
            yield core.sync_all()
            core.pipe.reset()
            if columns:
                self._multiply(core, first, columns)
                core.cross_core_set_flag(_FULL, Pipe.FIXP)
            return
        row, count = self._own_rows(core.get_block_idx(), core.get_sub_block_idx())
        if count:
            _Splitter(core, self).run(row, count)
        yield core.sync_all()
        core.pipe.reset()
        if columns:
            yield from _Finisher(core, self, columns).run(first, columns)

    def _preload(self, core: Core, first: int, columns: int) -> None:
        """Tiles of the weight come to L2 before there are rows to multiply them with."""
        high, wide, n = self.tiling.step_k, min(columns, self.tiling.base_n), self.problem.n
        buffer = TBuf("preload", TPosition.B1)
        core.pipe.init_buffer(buffer, 1, high * wide)
        for number in range(max(1, min(_PRELOADS, self.problem.k // high))):
            rows = min(high, self.problem.k - number * high)
            tile = buffer.get(INT8, rows, wide)
            places = ((number * high, n), (first, 1))
            core.data_copy_nd2nz(tile, self.weight.window(places, (rows, wide), (n, 1)).by_rows())

    def _multiply(self, core: Core, first: int, columns: int) -> None:
        """Both lines of all rows with the columns of a cluster."""
        problem, n = self.problem, self.problem.n
        matmul = Matmul(core, self.tiling, INT8, INT32, problem.k, unit_flag=False)
        matmul.run(
            Product(
                GmMatrix(self.products, ((first, 1),), n),
                GmMatrix(self.split, (), problem.k),
                GmMatrix(self.weight, ((first, 1),), n),
                _LINES * problem.m,
                columns,
                problem.k,
            )
        )


class _Splitter:
    """Writes rows of x as two lines of int8 each."""

    def __init__(self, core: Core, kernel: MultiScaleMatMul) -> None:
        self._core, self._kernel = core, kernel
        k, kind = kernel.problem.k, kernel.a.dtype
        self._in, self._out = TQue(TPosition.VECIN, 1, "x"), TQue(TPosition.VECOUT, 1, "line")
        self._facts = TQue(TPosition.VECOUT, _LINES, "facts")
        names = ("numbers", "beside", "halves", "found")
        self._numbers, self._beside, self._halves, self._found = map(TBuf, names)
        core.pipe.init_buffer(self._in, 1, k * kind.itemsize)
        core.pipe.init_buffer(self._out, 1, k)
        core.pipe.init_buffer(self._facts, _LINES, _LANES * FLOAT.itemsize)
        core.pipe.init_buffer(self._numbers, 1, k * FLOAT.itemsize)
        core.pipe.init_buffer(self._beside, 1, k * FLOAT.itemsize)
        core.pipe.init_buffer(self._halves, 1, k * FLOAT16.itemsize)
        core.pipe.init_buffer(self._found, 1, core.block_bytes)

    def run(self, first: int, count: int) -> None:
        """Some rows, one after the other."""
        core, k = self._core, self._kernel.problem.k
        for turn in core.loop(count):
            row = turn + first
            given = self._in.copy_in(self._kernel.a.window(((row, k),), (k,), (1,)))
            numbers = core.cast(self._numbers.get(FLOAT, k), given)
            self._in.free_tensor(given)
            self._row(row, numbers)

    def _row(self, row: Index, numbers: LocalTensor) -> None:
        core, kernel, k = self._core, self._kernel, self._kernel.problem.k
        beside = core.abs(self._beside.get(FLOAT, k), numbers)
        largest = core.reduce_max(self._found.get(FLOAT, 1), beside)
        self._keep(kernel.maxima, row, largest)
        factor = core.get_value(largest)
        core.move(beside, numbers)
        self._keep(kernel.sums, row, core.reduce_sum(self._found.get(FLOAT, 1), beside))
        core.muls(numbers, numbers, 1.0 / factor)
        core.muls(beside, numbers, _FIRST)
        self._line(row, beside)
        core.muls(beside, beside, 1 / _FIRST)
        core.sub(beside, numbers, beside)
        core.muls(beside, beside, _SECOND)
        self._line(row + kernel.problem.m, beside)

    def _line(self, place: Index, numbers: LocalTensor) -> None:
        """Whole numbers out of some, which are rounded in their place."""
        core, kernel, k = self._core, self._kernel, self._kernel.problem.k
        core.cast(numbers, numbers, RoundMode.CAST_ROUND)
        halves = core.cast(self._halves.get(FLOAT16, k), numbers)
        line = self._out.alloc_tensor(INT8, k)
        core.cast(line, halves)
        self._out.copy_out(kernel.split.window(((place, k),), (k,), (1,)), line)

    def _keep(self, where: GlobalTensor, row: Index, number: LocalTensor) -> None:
        """A number of a row, as often as a block holds it."""
        core = self._core
        block = self._facts.alloc_tensor(FLOAT, _LANES)
        core.duplicate(block, core.get_value(number))
        self._facts.copy_out(where.window(((row, _LANES),), (_LANES,), (1,)), block)


class _Finisher:
    """Puts both products of some columns together, in one vector core of a cluster."""

    def __init__(self, core: Core, kernel: MultiScaleMatMul, columns: int) -> None:
        self._core, self._kernel, self._columns = core, kernel, columns
        m, size = kernel.problem.m, FLOAT.itemsize
        lines = [each for each in (kernel.scale, kernel.offset, kernel.bias) if each is not None]
        self._facts = TQue(TPosition.VECIN, _LINES, "facts")
        core.pipe.init_buffer(self._facts, _LINES, m * _LANES * size)
        self._given = TQue(TPosition.VECIN, 1, "lines")
        core.pipe.init_buffer(self._given, 1, columns * size)
        self._lines = [TBuf(f"line{number}") for number in range(len(lines))]
        for buffer in self._lines:
            core.pipe.init_buffer(buffer, 1, columns * size)
        each = 2 * INT32.itemsize + kernel.c.dtype.itemsize + 3 * size
        room = core.capacity_bytes("UB") - (len(lines) + 1) * columns * size
        room -= _LINES * m * _LANES * size
        self._rows = max(1, min(m, int(room // (columns * each))))
        tile = self._rows * columns
        self._sums = [TQue(TPosition.VECIN, 1, name) for name in ("c1", "c2")]
        self._wide = [TBuf(name) for name in ("first", "second", "outer")]
        self._out = TQue(TPosition.VECOUT, 1)
        for queue in self._sums:
            core.pipe.init_buffer(queue, 1, tile * INT32.itemsize)
        for buffer in self._wide:
            core.pipe.init_buffer(buffer, 1, tile * size)
        core.pipe.init_buffer(self._out, 1, tile * kernel.c.dtype.itemsize)

    def run(self, first: int, columns: int) -> Waits:
        """All rows of a cluster's columns, once they are multiplied."""
        core, kernel = self._core, self._kernel
        if core.get_sub_block_idx():
            yield core.cross_core_wait_flag(_FULL)
            return
        given = [kernel.scale, kernel.offset, kernel.bias]
        places = iter(self._lines)
        scale, offset, bias = (
            None if each is None else self._line(next(places), each, first) for each in given
        )
        m = kernel.problem.m
        facts = [
            self._facts.copy_in(each.window((), (m, _LANES), (_LANES, 1)))
            for each in (kernel.maxima, kernel.sums)
        ]
        yield core.cross_core_wait_flag(_FULL)
        assert scale is not None
        for start in range(0, m, self._rows):
            count = min(self._rows, m - start)
            sums = self._together(start, count, first, facts, offset)
            core.mul(sums, sums, scale)
            if bias is not None:
                core.add(sums, sums, bias)
            out = self._out.alloc_tensor(kernel.c.dtype, count, columns)
            core.cast(out, sums, RoundMode.CAST_ROUND)
            n = kernel.problem.n
            target = kernel.c.window(((start, n), (first, 1)), (count, columns), (n, 1))
            self._out.copy_out(target.by_rows() if count > 1 else target, out)
        for each in facts:
            self._facts.free_tensor(each)

    def _line(self, buffer: TBuf, tensor: GlobalTensor, first: int) -> LocalTensor:
        """A line of numbers of the columns, in float32."""
        core, columns = self._core, self._columns
        tile = self._given.copy_in(tensor.window(((first, 1),), (1, columns), (columns, 1)))
        line = buffer.get(FLOAT, 1, columns)
        found = core.move(line, tile) if tile.dtype is FLOAT else core.cast(line, tile)
        self._given.free_tensor(tile)
        return found

    def _together(
        self,
        start: int,
        count: int,
        first: int,
        facts: list[LocalTensor],
        offset: LocalTensor | None,
    ) -> LocalTensor:
        """Numbers of some rows before they are scaled."""
        core, m, n = self._core, self._kernel.problem.m, self._kernel.problem.n
        shape = (count, self._columns)
        parts = []
        steps = (_FIRST, _SECOND)
        for place, (queue, wide, step) in enumerate(
            zip(self._sums, self._wide, steps, strict=False)
        ):
            places = ((start, n), (place * m * n + first, 1))
            window = self._kernel.products.window(places, shape, (n, 1))
            sums = queue.copy_in(window.by_rows() if count > 1 else window)
            number = core.cast(wide.get(FLOAT, count, self._columns), sums)
            queue.free_tensor(sums)
            parts.append(core.muls(number, number, 1 / step))
        total = core.add(parts[0], *parts)
        rows = slice(start, start + count)
        maxima, sums_of_x = (each[rows, :1] for each in facts)
        core.mul(total, total, maxima)
        if offset is not None:
            outer = self._wide[-1].get(FLOAT, count, self._columns)
            core.add(total, total, core.mul(outer, offset, sums_of_x))
        return total
