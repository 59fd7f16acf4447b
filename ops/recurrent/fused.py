"""Recurrent layers on chips whose cores multiply and compute: a step meets once.

Each core has some columns of the state. It multiplies the state with its columns of every gate,
takes the sums out of L0C into UB, and goes on with the cell there; only the state itself goes
through global memory, and all cores meet when it is there. No source of the device's own schedule
is public: this is the least traffic that a step can do with.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from npusim.ascendc import Kernel, TBuf, TPosition, TQue
from npusim.ascendc.loops import first_of
from npusim.ascendc.task import made
from npusim.engine.program import Pipe
from npusim.library.block_matmul import BlockMatmul, Product
from npusim.library.matmul_tiling import MatmulTiling, grain_of
from npusim.library.operands import GmMatrix
from npusim.ops.recurrent.layer import at, product
from npusim.ops.recurrent.steps import Tiles, Window
from npusim.schedules.tile_grid import Piece
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from npusim.ascendc import Core, GlobalTensor, LocalTensor
    from npusim.engine.program import Barrier
    from npusim.ops.recurrent.layer import Layer

_MOST_BASE = 128  # rows and columns of a block


class FusedLayer(Kernel):
    """All steps of a layer."""

    cores = "cube"
    generated = True

    def __init__(self, layer: Layer) -> None:
        profile, op_type = layer.task.profile, layer.task.op_type
        self.layer, self.op_type = layer, op_type
        steps, rows, _ = layer.x.shape
        columns, kind = layer.columns, layer.x.dtype
        width = len(layer.cell.gates) * columns
        self.from_input = made((steps, rows, width), FLOAT, "from_input")
        self.inputs = product(layer, layer.x, layer.weights[0], self.from_input)
        grain = grain_of(profile, kind)
        share = round_up(ceil(columns / profile.cores.cube_cores), grain)
        self.share = min(share, _MOST_BASE)
        self.parts = ceil(columns / self.share)
        self.block_dim = max(self.inputs.block_dim, min(self.parts, profile.cores.cube_cores))
        room = profile.buffers.ub_bytes - self._line_bytes()
        wide = round_up(self.share, profile.buffers.block_bytes)
        most = room // (wide * (Tiles.nbytes(1, kind.itemsize) + 2 * FLOAT.itemsize))
        self.rows = max(1, min(rows, _MOST_BASE, most // grain * grain or most))
        self.elements = self.rows * wide
        base = round_up(self.rows, grain), self.share
        self.tiling = MatmulTiling.of_blocks(profile, kind, base, rows, columns)
        self.reads, self.writes = layer.reads, tuple(layer.results.values())
        self.scratch = (self.from_input,)

    @property
    def workspace_bytes(self) -> int:
        """Bytes of what gates get from the input."""
        return self.from_input.nbytes

    def block_kind(self, block_idx: int) -> Hashable:
        product = None
        if block_idx < self.inputs.block_dim:
            product = self.inputs.block_kind(block_idx)
        return product, tuple(count for _, count in self._columns(block_idx))

    def process(self, core: Core) -> Iterator[Barrier]:
        """Inputs, then steps."""
        number, part = core.get_block_idx(), self.inputs
        if number < part.block_dim:
            with core.numbered(number, part.block_dim):
                part.process(core)
        core.pipe.reset()
        layer, tiles = self.layer, None
        if self._columns(number):
            tiles = _Gates(core, self)
        order = list(layer.order)
        for place in range(min(1, len(order))):
            yield from self._step(core, tiles, order, place)
        for turn in core.loop(len(order) - 1, sequential=True):
            yield from self._step(core, tiles, order, 1 + first_of(turn))

    def _step(
        self, core: Core, tiles: _Gates | None, order: list[int], place: int
    ) -> Iterator[Barrier]:
        """A step, once the state before it is there."""
        layer = self.layer
        yield core.sync_all()
        if tiles is None:
            return
        step, before = order[place], order[place - 1] if place else None
        tiles.step = layer.step((at(self.from_input, step),), step, before)
        tiles.hidden = layer.states(before).get("h")
        for columns in self._columns(core.get_block_idx()):
            tiles.all_rows(columns)

    def _columns(self, block: int) -> list[tuple[int, int]]:
        """First column and number of columns of what a core has of the state."""
        columns, cores = self.layer.columns, self.block_dim
        firsts = range(block * self.share, columns, cores * self.share)
        return [(first, min(self.share, columns - first)) for first in firsts]

    def _line_bytes(self) -> int:
        """UB for the biases of a core."""
        gates = len(self.layer.cell.gates)
        return sum(
            gates * self.share * (each.dtype.itemsize + FLOAT.itemsize)
            for each in self.layer.biases
            if each is not None
        )


class _Gates(Tiles):
    """The tiles of a core's columns, with products where other chips have global memory."""

    def __init__(self, core: Core, kernel: FusedLayer) -> None:
        layer = kernel.layer
        first = layer.step((at(kernel.from_input, 0),), 0, None)
        super().__init__(core, first, layer.cell, kernel.elements)
        self.kernel, self.hidden = kernel, layer.first.get("h")
        self.blocks = BlockMatmul(core, kernel.tiling, layer.x.dtype, layer.columns)
        self.sums = TQue(TPosition.VECOUT, 2, "sums")
        core.pipe.init_buffer(self.sums, 2, self.elements * FLOAT.itemsize)
        names = ("input_bias", "state_bias")
        self.lines = [
            _Lines(core, name, each, layer, kernel.share)
            for name, each in zip(names, layer.biases, strict=True)
        ]

    def all_rows(self, columns: tuple[int, int]) -> None:
        """A step of some columns."""
        for lines in self.lines:
            lines.load(columns)
        rows = self.kernel.layer.x.shape[1]
        for first, count in self.core.tiles(0, rows, self.kernel.rows):
            self.run(Window(Piece((count, columns[1]), (first, columns[0]))))

    def gate(self, name: str) -> LocalTensor:
        """Of input and state together, with the biases of both."""
        own, hidden = self._own(name), self._product(name)
        if hidden is not None:
            self.core.add(own, own, hidden)
            self.free(hidden)
        return self.lines[1].added(own, name)

    def halves(self, name: str) -> tuple[LocalTensor, LocalTensor]:
        """Of input and state, each with its bias."""
        own, hidden = self._own(name), self._product(name)
        if hidden is None:
            hidden = self.wide["line"].get(FLOAT, *own.shape)
            self.core.duplicate(hidden, 0.0)
        return own, self.lines[1].added(hidden, name)

    def _own(self, name: str) -> LocalTensor:
        return self.lines[0].added(self._sum(name, self.step.sums[0]), name)

    def _slot(self) -> LocalTensor:
        tile = self.sums.alloc_tensor(FLOAT, *self.window.piece.shape)
        self.owners[id(tile)] = self.sums
        return tile

    def _product(self, name: str) -> LocalTensor | None:
        """The state times the columns of a gate, out of L0C; None where there is no state yet."""
        if self.hidden is None:
            return None
        (row, column), (count, columns) = self.window.piece.starts, self.window.piece.shape
        weight, depth = self.kernel.layer.weights[1], self.kernel.layer.columns
        gate = self.cell.gates.index(name) * depth
        a = GmMatrix(self.hidden, ((row, depth),), depth)
        b = GmMatrix(weight, ((column, 1), (gate, 1)), weight.shape[1])
        self.blocks.begin(Product(a, a, b, count, columns, depth))
        tile = self._slot()
        with self.blocks.single() as block:
            self.core.take_out(tile, block.tensor)
        return tile

    def free(self, *tiles: LocalTensor) -> None:
        for tile in tiles:
            if self.owners.get(id(tile)) is self.sums:
                del self.owners[id(tile)]
                self.sums.free_tensor(tile, by=Pipe.VECTOR)
            else:
                super().free(tile)


class _Lines:
    """A bias in float32, a core's columns of every gate."""

    def __init__(
        self, core: Core, name: str, bias: GlobalTensor | None, layer: Layer, columns: int
    ) -> None:
        self._core, self._bias, self._depth = core, bias, layer.columns
        self._gates, self._count = layer.cell.gates, columns
        self._queue, self._wide = TQue(TPosition.VECIN, 1, name), TBuf(f"{name}_wide")
        self._lines: dict[str, LocalTensor] = {}
        if bias is not None:
            core.pipe.init_buffer(self._queue, 1, columns * bias.dtype.itemsize)
            size = len(self._gates) * columns * FLOAT.itemsize
            core.pipe.init_buffer(self._wide, 1, size)

    def load(self, columns: tuple[int, int]) -> None:
        """The columns that are worked on."""
        if self._bias is None:
            return
        first, count = columns
        whole = self._wide.get(FLOAT, len(self._gates), self._count)
        for place, name in enumerate(self._gates):
            source = self._bias.window(((first + place * self._depth, 1),), (1, count), (count, 1))
            tile = self._queue.copy_in(source)
            line = whole[place : place + 1, :count]
            if tile.dtype is FLOAT:
                self._core.move(line, tile)
            else:
                self._core.cast(line, tile)
            self._queue.free_tensor(tile)
            self._lines[name] = line

    def added(self, tile: LocalTensor, name: str) -> LocalTensor:
        """The tile with the bias on its rows."""
        line = self._lines.get(name)
        return tile if line is None else self._core.add(tile, tile, line)
