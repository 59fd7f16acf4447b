"""One step of a recurrent layer on the vector cores: its gates from global memory, a cell, states.

Rows of the batch are dealt over cores; a cell that shares its columns out too does so where there
are fewer rows than cores. Source: ops-nn rnn/dynamic_rnn and rnn/gru, host tiling and device code.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from npusim.ascendc import Kernel, RoundMode, TBuf, TPosition, TQue
from npusim.ops.recurrent.cells import Work
from npusim.schedules.tile_grid import Grid
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from npusim.ascendc import Core, GlobalTensor, LocalTensor
    from npusim.ascendc.gm_slices import GmSlice
    from npusim.hardware.profile import Profile
    from npusim.ops.recurrent.cells import Cell
    from npusim.schedules.tile_grid import Piece

_GATE_TILES = 2
_NARROW = 2  # queues of states and of results
_WIDE = ("state", "mask", "line")  # in float32


@dataclass(frozen=True, slots=True)
class Step:
    """The tensors of one step: ``sums`` of gates (rows, gates x columns), states, results.

    ``sums`` are one matrix, or what comes from the input and what comes from the state; where that
    is still zero, its ``bias`` is left.
    """

    sums: tuple[GlobalTensor, ...]
    before: Mapping[str, GlobalTensor]
    results: Mapping[str, GlobalTensor]
    bias: GlobalTensor | None = None

    @property
    def given(self) -> tuple[GlobalTensor, ...]:
        """What it reads."""
        line = () if self.bias is None else (self.bias,)
        return (*self.sums, *self.before.values(), *line)


@dataclass(frozen=True, slots=True)
class Window:
    """Rows and columns of a step that a core works on."""

    piece: Piece

    def of(self, tensor: GlobalTensor, first: int = 0) -> GmSlice:
        """This part of a matrix, from its column ``first`` on."""
        (row, column), shape = self.piece.starts, self.piece.shape
        width = tensor.shape[-1]
        found = tensor.window(((row, width), (column, 1), (first, 1)), shape, (width, 1))
        return found.by_rows() if shape[0] > 1 else found


class StepKernel(Kernel):
    """A cell on all rows and columns."""

    def __init__(
        self, profile: Profile, op_type: str, cell: Cell, step: Step, *, by_rows: bool
    ) -> None:
        self.op_type, self.cell, self.step = op_type, cell, step
        rows, columns = next(iter(step.results.values())).shape
        kind = next(iter(step.results.values())).dtype
        cores = profile.cores.vector_cores
        high = ceil(rows / cores)
        wide = columns if by_rows else ceil(columns / max(1, cores // ceil(rows / high)))
        block = profile.buffers.block_bytes  # elements, so that rows of masks are whole blocks
        each = Tiles.nbytes(1, kind.itemsize)
        most = profile.buffers.ub_bytes // each // block * block
        self.columns = min(wide, most)
        self.rows = max(1, min(high, most // round_up(self.columns, block)))
        axis = 0 if by_rows else None
        grid = Grid((rows, columns), (self.rows, self.columns), cores, axis)
        self.division = self.grid = grid
        self.block_dim = grid.used_cores
        self.elements = self.rows * round_up(self.columns, block)
        self.reads, self.writes = step.given, tuple(step.results.values())

    def process(self, core: Core) -> None:
        """Tile by tile."""
        tiles = Tiles(core, self.step, self.cell, self.elements)
        for piece in self.grid.pieces(core):
            tiles.run(Window(piece))


class Tiles:
    """Queues of a core, and the operands of the tile at hand."""

    def __init__(self, core: Core, step: Step, cell: Cell, elements: int) -> None:
        self.core, self.step, self.cell, self.elements = core, step, cell, elements
        kind = next(iter(step.results.values())).dtype
        self.work = Work(core, elements)
        self.gates = TQue(TPosition.VECIN, _GATE_TILES, "gates")
        self.states, self.outs = TQue(TPosition.VECIN, 1, "state"), TQue(TPosition.VECOUT, 1, "out")
        self.wide = {name: TBuf(f"wide_{name}") for name in _WIDE}
        self.owners: dict[int, TQue] = {}  # of tiles, by their identity
        core.pipe.init_buffer(self.gates, _GATE_TILES, elements * FLOAT.itemsize)
        core.pipe.init_buffer(self.states, 1, elements * kind.itemsize)
        core.pipe.init_buffer(self.outs, 1, elements * kind.itemsize)
        for buffer in self.wide.values():
            core.pipe.init_buffer(buffer, 1, elements * FLOAT.itemsize)

    @staticmethod
    def nbytes(elements: int, itemsize: int) -> int:
        """Bytes of UB for tiles of so many elements."""
        in_float = (_GATE_TILES + len(_WIDE)) * FLOAT.itemsize
        return Work.nbytes(elements) + elements * (in_float + _NARROW * itemsize)

    def run(self, window: Window) -> None:
        """One tile."""
        self.window = window
        self.cell.step(self.core, self.work, self, self.store)

    def gate(self, name: str) -> LocalTensor:
        """The sum of what there is."""
        first, *others = (self._sum(name, each) for each in self.step.sums)
        for other in others:
            self.core.add(first, first, other)
            self.free(other)
        if not others and self.cell.has_halves:
            line = self._line(name)
            self.core.add(first, first, line)
            self.free(line)
        return first

    def halves(self, name: str) -> tuple[LocalTensor, LocalTensor]:
        """Both parts."""
        own, *others = self.step.sums
        tile = self._sum(name, own)
        return tile, self._sum(name, others[0]) if others else self._line(name)

    def state(self, name: str) -> LocalTensor | None:
        """In float32."""
        tensor = self.step.before.get(name)
        if tensor is None:
            return None
        tile = self.states.copy_in(self.window.of(tensor))
        if tile.dtype is FLOAT:
            self.owners[id(tile)] = self.states
            return tile
        wide = self.wide["mask" if name == "mask" else "state"].get(FLOAT, *tile.shape)
        self.core.cast(wide, tile)
        self.states.free_tensor(tile)
        return wide

    def free(self, *tiles: LocalTensor) -> None:
        """Give slots back; what was widened has none."""
        for tile in tiles:
            owner = self.owners.pop(id(tile), None)
            if owner is not None:
                owner.free_tensor(tile)

    def store(self, name: str, tile: LocalTensor) -> None:
        """A result, where it is wanted."""
        target = self.step.results.get(name)
        if target is None:
            return
        out = self.outs.alloc_tensor(target.dtype, *tile.shape)
        if target.dtype is FLOAT:
            self.core.move(out, tile)
        else:
            self.core.cast(out, tile, RoundMode.CAST_RINT)
        self.outs.copy_out(self.window.of(target), out)

    def _line(self, name: str) -> LocalTensor:
        """What a gate gets from a state of zeros: the bias, row by row."""
        tile = self.wide["line"].get(FLOAT, *self.window.piece.shape)
        bias = self.step.bias
        if bias is None:
            return self.core.duplicate(tile, 0.0)
        columns = bias.numel // len(self.cell.gates)
        (_, column), shape = self.window.piece.starts, self.window.piece.shape
        first = self.cell.gates.index(name) * columns
        source = bias.window(((column, 1), (first, 1)), shape, (0, 1))
        narrow = self.states.copy_in(source.by_rows() if shape[0] > 1 else source)
        if narrow.dtype is FLOAT:
            self.core.move(tile, narrow)
        else:
            self.core.cast(tile, narrow)
        self.states.free_tensor(narrow)
        return tile

    def _sum(self, name: str, tensor: GlobalTensor) -> LocalTensor:
        columns = tensor.shape[-1] // len(self.cell.gates)
        tile = self.gates.copy_in(self.window.of(tensor, self.cell.gates.index(name) * columns))
        self.owners[id(tile)] = self.gates
        return tile
