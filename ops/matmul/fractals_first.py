"""MatMulV3 of ragged rows (A2, A3): vector cores turn them into fractals before any product.

Rows that aren't whole 256 bytes would come to L1 in many small packets, again and again. So they
are brought to UB once, moved apart there by 32 bytes and stored as fractals in workspace, of which
the cube cores then take theirs. Source: hicann/ops-nn, matmul/mat_mul_v3,
op_host/op_tiling/matmul_v3_base_tiling.cpp (GetMoreArgs, CalcNd2NzTiling) and
op_kernel/mat_mul_nd2nz.h; what is turned by vnchwconv there is moved here, too.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace
from math import ceil, prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from npusim.ascendc import Core, GlobalTensor, TPosition, TQue
from npusim.ascendc.loops import Dealt
from npusim.ascendc.task import made
from npusim.ops.matmul import dealt_blocks
from npusim.ops.matmul.kernel import MatMul, shape_of
from npusim.ops.matmul.operands import Operand, Problem
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT
from npusim.values.formats import Format

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from npusim.ascendc.cluster import CoreWait
    from npusim.engine.program import Barrier, Unit
    from npusim.hardware.profile import Profile

_WHOLE_BYTES = 256  # rows of multiples of that are turned on their way
_NARROW_BYTES = (32, 64, 96, 128, 160, 192, 224, 384)  # and these
_LONGEST = 65535  # elements of a row that can be
_TILE_BYTES = 4096  # of a row, at a time
_FEWEST_ROWS = 16


def needed(profile: Profile, problem: Problem, *, hf32: bool) -> bool:
    """Whether one of the operands is turned beforehand."""
    plain = problem.batch == 1 and profile.cores.style == "split" and not problem.c.lanes
    return plain and any(_ragged(each, hf32=hf32) for each in (problem.a, problem.b))


def _ragged(operand: Operand, *, hf32: bool) -> bool:
    """Whether vector cores turn a matrix, by the bytes of its rows."""
    if operand.lanes:
        return False
    nbytes, wide = operand.columns * operand.itemsize, operand.tensor.dtype is FLOAT
    if wide and (nbytes < 2 * _WHOLE_BYTES if hf32 else operand.columns < _LONGEST):
        return False
    cut = nbytes % _WHOLE_BYTES != 0 or operand.columns > _LONGEST
    return cut and nbytes not in _NARROW_BYTES


class _Turn(NamedTuple):
    """A matrix, its fractals, and rows and columns of a tile."""

    plain: Operand
    fractals: Operand
    rows: int
    columns: int

    def sizes(self, core: int, cores: int) -> dict[tuple[int, int], int]:
        """How many tiles of each size a core has, in the order in which they come."""
        (first, last), (high, wide) = self._tiles(core, cores), self._grid
        low, narrow = self.plain.rows % self.rows, self.plain.columns % self.columns
        bottom, edge = (high - 1) * wide, wide - 1 - first % wide
        corner = int(first < last == high * wide)
        below, beside = max(0, last - max(first, bottom)), last // wide - first // wide
        found: dict[tuple[int, int], int] = {}
        for _, number, *size in sorted(
            (
                (first + (not edge), last - first - below - beside + corner, *self[2:]),
                (first + edge, beside - corner, self.rows, narrow or self.columns),
                (max(first, bottom), below - corner, low or self.rows, self.columns),
                (last, corner, low or self.rows, narrow or self.columns),
            )
        ):
            if number:
                found[size[0], size[1]] = found.get((size[0], size[1]), 0) + number
        return found

    def tiles(self, core: int, cores: int) -> dict[tuple[int, int], NDArray[np.int64]]:
        """First rows and columns of a core's tiles, by their size."""
        places = np.arange(*self._tiles(core, cores))
        row, column = np.divmod(places, self._grid[1])
        starts = np.stack([row * self.rows, column * self.columns])
        rows = np.minimum(self.rows, self.plain.rows - starts[0])
        columns = np.minimum(self.columns, self.plain.columns - starts[1])
        return {
            size: starts[:, (rows == size[0]) & (columns == size[1])]
            for size in self.sizes(core, cores)
        }

    @property
    def _grid(self) -> tuple[int, int]:
        """Tiles on top of each other, and side by side."""
        return ceil(self.plain.rows / self.rows), ceil(self.plain.columns / self.columns)

    def _tiles(self, core: int, cores: int) -> tuple[int, int]:
        """A core's first tile, and the one behind its last: row after row of them."""
        each, more = divmod(prod(self._grid), cores)
        first = core * each + min(core, more)
        return first, first + each + (core < more)


class FractalsFirst(MatMul):
    """c = a @ b for one product, whose ragged operands are turned into fractals first."""

    is_mix = True

    def __init__(
        self,
        profile: Profile,
        problem: Problem,
        *,
        bias: GlobalTensor | None = None,
        hf32: bool = False,
        op_type: str = "MatMulV3",
    ) -> None:
        shape = shape_of(problem, hf32, bias is not None)
        found = dealt_blocks.partition(profile, shape)
        lanes = profile.cores.vector_cores // profile.cores.cube_cores
        self.turns = tuple(
            _turn_of(profile, each, lanes * found.block_dim)
            for each in (problem.a, problem.b)
            if _ragged(each, hf32=hf32)
        )
        turned = {id(each.plain): each.fractals for each in self.turns}
        super().__init__(
            profile,
            replace(
                problem,
                a=turned.get(id(problem.a), problem.a),
                b=turned.get(id(problem.b), problem.b),
            ),
            bias=bias,
            hf32=hf32,
            op_type=op_type,
            tiling=lambda *_: found,
        )
        self.reads = (problem.a.tensor, problem.b.tensor, *(() if bias is None else (bias,)))
        self.scratch = tuple(each.fractals.tensor for each in self.turns)
        self.cold, self.vectors = problem.known, lanes * self.block_dim

    @property
    def workspace_bytes(self) -> int:
        """Bytes of the fractals."""
        return sum(each.nbytes for each in self.scratch)

    def block_kind(self, block_idx: int) -> Hashable:
        """What the cube core multiplies, and what each vector core turns."""
        lanes = range(self.vectors // self.block_dim)
        return super().block_kind(block_idx), *(self._turned(block_idx, lane) for lane in lanes)

    def unit_kind(self, block_idx: int, unit: Unit) -> Hashable:
        """The same of one core."""
        if unit.sub_block is None:
            return super().block_kind(block_idx)
        return self._turned(block_idx, unit.sub_block)

    def _turned(self, block: int, lane: int) -> Hashable:
        """How many tiles of which size a vector core turns."""
        number = lane * self.block_dim + block
        return tuple(tuple(each.sizes(number, self.vectors).items()) for each in self.turns)

    def process(self, core: Core) -> Iterator[Barrier | CoreWait]:  # type: ignore[override]
        """Vector cores, then cube cores."""
        if core.unit.kind == "cube":
            yield core.sync_all()
            super().process(core)
            return
        queues = TQue(TPosition.VECIN, 1, "rows"), TQue(TPosition.VECOUT, 1, "fractals")
        nbytes = max(each.rows * each.columns * each.plain.itemsize for each in self.turns)
        for queue in queues:
            core.pipe.init_buffer(queue, 1, nbytes)
        for each in self.turns:
            self._turn(core, each, *queues)
        yield core.sync_all()

    def _turn(self, core: Core, turn: _Turn, ins: TQue, outs: TQue) -> None:
        """Bring, move apart and store one tile after the other."""
        plain, fractals = turn.plain, turn.fractals
        dtype, lanes, high = plain.tensor.dtype, fractals.lanes, fractals.rows
        source, target = plain.tensor.view(plain.tensor.numel), fractals.tensor
        place = core.get_sub_block_idx() * self.block_dim + core.get_block_idx()
        line, size = core.profile.memory.l2_line_bytes, dtype.itemsize
        for (rows, columns), starts in turn.tiles(place, self.vectors).items():
            blocks, dealt = ceil(columns / lanes), [Dealt(each) for each in starts]
            lying = dealt[0].alike(line, plain.columns * size), dealt[1].alike(line, size)
            alike = source.buffer.number, rows, columns, lying
            for number in core.loop(starts.shape[1], alike=alike):
                row, column = (each.at(number) for each in dealt)
                window = source.window(
                    ((row, plain.columns), (column, 1)), (rows, columns), (plain.columns, 1)
                )
                whole = columns * dtype.itemsize % core.block_bytes == 0
                tile = ins.copy_in(window if whole else window.by_rows())
                moved = outs.alloc_tensor(dtype, blocks, rows, lanes)
                core.move_blocks(moved, tile, moved.numel * dtype.itemsize)
                core.arrange(moved, tile, how=_apart(rows, columns, moved.shape))
                ins.free_tensor(tile)
                outs.copy_out(
                    target.window(
                        ((column, high), (row, lanes)), moved.shape, (high * lanes, lanes, 1)
                    ),
                    moved,
                )


def _turn_of(profile: Profile, plain: Operand, cores: int) -> _Turn:
    """Tiles of UB's halves: of whole rows, or of parts of them, so that cores end together."""
    size, dtype = plain.itemsize, plain.tensor.dtype
    lanes = profile.buffers.block_bytes // size
    high, wide = round_up(plain.rows, _FEWEST_ROWS), round_up(plain.columns, lanes)
    tensor = made((wide // lanes, high // _FEWEST_ROWS, _FEWEST_ROWS, lanes), dtype, "fractals")
    fractals = Operand.of(replace(tensor, format=Format.FRACTAL_NZ))
    columns = min(wide, _TILE_BYTES // size)
    most = max(_FEWEST_ROWS, min(profile.buffers.ub_bytes // 2 // size // columns, high))
    ways = np.arange(most, _FEWEST_ROWS - 1, -1)
    rounds = -(-high // ways) * -(-wide // columns)
    return _Turn(plain, fractals, int(ways[np.argmin(-(rounds // -cores) * ways)]), columns)


def _apart(rows: int, columns: int, shape: tuple[int, ...]) -> Any:
    """Rows as columns of blocks, behind any axes of loops; zeros beside them."""
    blocks, _, lanes = shape

    def how(values: NDArray[Any]) -> NDArray[Any]:
        outer = values.shape[: values.ndim - 2]
        padded = np.zeros((*outer, rows, blocks * lanes), values.dtype)
        padded[..., :columns] = values
        return padded.reshape(*outer, rows, blocks, lanes).swapaxes(-3, -2)

    return how
