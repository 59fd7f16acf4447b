"""Kernels that compute every output element from the input elements at the same place.

Tiling of the vendor's elementwise schedule: all axes fused, each core a multiple of 128 elements, tiles as long as the
buffers that are alive together allow, double buffered when a core needs more than one. Operands that broadcast along
some axes are handled in planes of rows and columns. Source: public host tiling (ops/built-in/op_tiling/elewise_v3.cc).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from math import ceil, prod
from typing import TYPE_CHECKING, ClassVar

from npusim.dialect.broadcasting import Plane, broadcast
from npusim.dialect.core import Core
from npusim.dialect.gm import GlobalTensor, GmSlice
from npusim.dialect.kernel import Kernel
from npusim.dialect.local import LocalTensor, Scalar
from npusim.dialect.loops import Index
from npusim.dialect.pipe import TQue

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile

_CORE_ALIGN = 128  # elements; a core's share and a tile are multiples of it
_COMPUTE_BYTES = 4  # the schedule counts buffers in float32 elements
_MAX_TILE = 16383  # elements of a 4-byte type that one repeat counter chain covers


@dataclass(frozen=True, slots=True)
class FlatTiling:
    """``block_dim`` cores with ``per_core`` elements each (the last one fewer), in passes of ``tile`` elements."""

    elements: int
    block_dim: int
    per_core: int
    tile: int
    double_buffer: bool

    def length(self, block: int) -> int:
        """Elements of one block."""
        return min(self.per_core, self.elements - block * self.per_core)


def flat_tiling(profile: Profile, elements: int, itemsize: int, coexisting: int) -> FlatTiling:
    """Split ``elements`` over the vector cores; ``coexisting`` buffers share UB, ``itemsize`` is the output's."""
    cores = profile.cores.vector_cores
    block = profile.buffers.block_bytes
    if elements < 2 * cores * (block // itemsize):
        return FlatTiling(elements, 1, elements, elements, double_buffer=False)
    per_core = _round_up(ceil(elements / cores), _CORE_ALIGN)
    block_dim = ceil(elements / per_core)

    def limit(share: int) -> int:
        return min(
            _MAX_TILE,
            profile.buffers.ub_bytes // share // coexisting // block * block // _COMPUTE_BYTES,
        )

    if per_core <= limit(1):
        return FlatTiling(elements, block_dim, per_core, per_core, double_buffer=False)
    passes = ceil(per_core / limit(2))
    tile = min(_round_up(ceil(per_core / passes), _CORE_ALIGN), limit(2))
    return FlatTiling(elements, block_dim, per_core, tile, double_buffer=True)


@dataclass(frozen=True, slots=True)
class Tile:
    """One tile: its shape in UB, and where each operand and the result lie in global memory."""

    shape: tuple[int, ...]
    sources: tuple[GmSlice | None, ...]
    target: GmSlice


class ElementwiseKernel(Kernel):
    """Base of elementwise kernels: subclasses reserve buffers and write what happens to one tile.

    ``coexisting`` is how many tile-sized buffers are alive at once, per the dtype's width.
    """

    coexisting: ClassVar[int] = 3

    def __init__(
        self, profile: Profile, inputs: tuple[GlobalTensor, ...], output: GlobalTensor
    ) -> None:
        self.profile = profile
        self.inputs = inputs
        self.output = output
        self.reads = inputs
        self.writes = (output,)
        self.plane = broadcast(output.shape, (output, *inputs))
        widest = max(tensor.dtype.itemsize for tensor in (output, *inputs))
        if self.plane.is_flat:
            self.tiling = flat_tiling(profile, output.numel, output.dtype.itemsize, self.coexisting)
            self.tile_elements = self.tiling.tile
            self.block_dim = self.tiling.block_dim
            self.double_buffer = self.tiling.double_buffer
        else:
            self.planes = PlaneTiling.of(profile, self.plane, self.coexisting, widest)
            self.tile_elements = self.planes.footprint
            self.block_dim = self.planes.block_dim
            self.double_buffer = True
        self.depth = self.buffer_num if self.double_buffer else 1

    @abstractmethod
    def init_buffers(self, core: Core) -> None:
        """Reserve queues and scratch for tiles of ``self.tile_elements`` elements."""

    @abstractmethod
    def compute(self, core: Core, tile: Tile) -> None:
        """Load the operands of one tile, compute, store."""

    def work(self, block_idx: int) -> Hashable:
        if self.plane.is_flat:
            return self.tiling.length(block_idx)
        return self.planes.work(block_idx)

    def process(self, core: Core) -> None:
        self.init_buffers(core)
        tiles = self._flat_tiles(core) if self.plane.is_flat else self.planes.tiles(core)
        for tile in tiles:
            self.compute(core, tile)

    def load(self, core: Core, queue: TQue, tile: Tile, index: int) -> LocalTensor | Scalar:
        """Operand ``index`` of a tile: a scalar where it is a single element, else a tile, a row or a column."""
        source = tile.sources[index]
        if source is None:
            return core.load_scalar(self.inputs[index].span(0, 1))
        if source.shape[-1] == 1 and len(source.shape) == 2 and tile.shape[-1] > 1:
            column = queue.copy_in(source, (source.shape[0],))
            return core.broadcast_column(column)
        return queue.copy_in(source)

    def _flat_tiles(self, core: Core) -> Iterator[Tile]:
        tiling = self.tiling
        block = core.get_block_idx()
        flat = [
            None if tensor.numel == 1 and tensor.numel < tiling.elements else tensor
            for tensor in self.inputs
        ]
        for first, length in core.tiles(block * tiling.per_core, tiling.length(block), tiling.tile):
            sources = tuple(
                None if tensor is None else tensor.span(first, length) for tensor in flat
            )
            yield Tile((length,), sources, self.output.span(first, length))


@dataclass(frozen=True, slots=True)
class PlaneTiling:
    """Rows of a plane dealt out to cores; a tile is some rows, or part of one row."""

    plane: Plane
    block_dim: int
    rows_per_core: int
    tile_rows: int
    tile_columns: int
    footprint: int

    @classmethod
    def of(cls, profile: Profile, plane: Plane, coexisting: int, itemsize: int) -> PlaneTiling:
        """Tiles for ``plane``: as many whole rows as the buffers take, else one row in pieces."""
        block = profile.buffers.block_bytes // min(itemsize, _COMPUTE_BYTES)
        limit = (
            profile.buffers.ub_bytes
            // 2
            // coexisting
            // _COMPUTE_BYTES
            // _CORE_ALIGN
            * _CORE_ALIGN
        )
        padded = _round_up(plane.columns, 2 * block)
        columns = plane.columns if padded <= limit else limit
        rows = max(1, limit // padded)
        total = prod(plane.outer) * plane.rows
        per_core = ceil(total / profile.cores.vector_cores)
        if plane.outer:  # a tile stays inside one plane
            per_core = _divisor_at_least(plane.rows, per_core)
        rows = min(rows, per_core)
        return cls(
            plane,
            ceil(total / per_core),
            per_core,
            rows,
            columns,
            rows * _round_up(columns, 2 * block),
        )

    def work(self, block: int) -> Hashable:
        """Rows of a block."""
        return self._rows(block)

    def tiles(self, core: Core) -> Iterator[Tile]:
        """The tiles of one block."""
        first_row = core.get_block_idx() * self.rows_per_core
        inside = (
            self.rows_per_core if not self.plane.outer else min(self.rows_per_core, self.plane.rows)
        )
        for plane_index, first, rows in self._row_tiles(
            core, first_row, self._rows(core.get_block_idx()), inside
        ):
            for start in range(0, self.plane.columns, self.tile_columns):
                columns = min(self.tile_columns, self.plane.columns - start)
                yield self._tile(plane_index, first, rows, start, columns)

    def _rows(self, block: int) -> int:
        total = prod(self.plane.outer) * self.plane.rows
        return min(self.rows_per_core, total - block * self.rows_per_core)

    def _row_tiles(
        self, core: Core, first_row: int, rows: int, inside: int
    ) -> Iterator[tuple[Index, Index, int]]:
        """(plane, first row in it, rows) of every tile of a block whose rows start at ``first_row``."""
        planes = max(1, rows // inside) if self.plane.outer else 1
        plane, row = divmod(first_row, self.plane.rows)
        for turn in core.loop(planes):
            for first, length in core.tiles(row, min(inside, rows), self.tile_rows):
                yield turn + plane, first, length

    def _tile(self, plane: Index, first: Index, rows: int, start: int, columns: int) -> Tile:
        target, *operands = self.plane.operands
        sources = tuple(
            self._slice(operand, plane, first, rows, start, columns) for operand in operands
        )
        cut = self._slice(target, plane, first, rows, start, columns)
        assert cut is not None
        return Tile((rows, columns), sources, cut)

    def _slice(
        self, operand: GlobalTensor, plane: Index, first: Index, rows: int, start: int, columns: int
    ) -> GmSlice | None:
        steps = operand.steps
        if not any(steps) and self.plane.columns * self.plane.rows > 1:
            return None
        places: list[tuple[Index, int]] = [(first, steps[-2]), (start, steps[-1])]
        after = prod(self.plane.outer)
        for size, step in zip(self.plane.outer, steps, strict=False):
            after //= size
            part = plane if len(self.plane.outer) == 1 else plane // after % size
            places.append((part, step))
        shape = (rows if steps[-2] else 1, columns if steps[-1] else 1)
        return operand.window(tuple(places), shape, (steps[-2], steps[-1]))


def _divisor_at_least(size: int, wanted: int) -> int:
    """The smallest divisor of ``size`` that is at least ``wanted``, or a multiple of ``size``."""
    if wanted >= size:
        return _round_up(wanted, size)
    return next(part for part in range(wanted, size + 1) if size % part == 0)


def _round_up(value: int, step: int) -> int:
    return ceil(value / step) * step
