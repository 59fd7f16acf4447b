"""What a core has in UB for a task, and what it knows of a sampling point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from npusim.ascendc import Core, IndexArray, LocalTensor, Scalar, TBuf
from npusim.ops.multi_scale_deformable_attention_grad.tiling import Tiling, whole_blocks
from npusim.values.dtypes import FLOAT, DType

if TYPE_CHECKING:
    from npusim.ascendc.loops import Index


@dataclass(frozen=True, slots=True)
class Place:
    """Where a task reads and writes: its level, and indices of its first query.

    ``point`` counts points (batch, head, level, point, query), ``x`` elements of location, ``row``
    rows of ``channels`` in gradOutput, and ``key`` such rows of value: the one of key 0.
    """

    level: int | IndexArray
    point: Index
    x: Index
    row: Index
    key: Index


@dataclass(frozen=True, slots=True)
class Sums:
    """Per query and channel: slopes along x and y, weighted gradient, share in the weight's own."""

    by_x: LocalTensor
    by_y: LocalTensor
    weighted: LocalTensor
    by_weight: LocalTensor


@dataclass(frozen=True, slots=True)
class Tile:
    """A task's tiles in UB and scalars. Pairs hold x first, then y."""

    queries: int
    place: Place
    size: tuple[Scalar, Scalar]
    first_key: Scalar
    step: Scalar
    at: LocalTensor
    cell: LocalTensor
    inside_cell: LocalTensor
    product: LocalTensor
    weight: LocalTensor
    rows: LocalTensor
    sums: Sums


@dataclass(frozen=True, slots=True)
class Point:
    """A point's scalars: distances from the upper left cell, weights and rows of the four cells."""

    right: Scalar
    down: Scalar
    attention: Scalar
    shares: tuple[Scalar, ...]
    cells: tuple[Scalar, ...]


class Buffers:
    """UB as the vendor lays it out: 13 channels and 15 words per query, and a little more."""

    def __init__(self, core: Core, tiling: Tiling) -> None:
        queries, channels = tiling.buffer_queries, tiling.sizes.channels
        levels = whole_blocks(tiling.sizes.levels)
        self._core = core
        self.shapes = self._reserve("shapes", 2 * levels)
        self.starts = self._reserve("starts", levels)
        self.scratch = self._reserve("scratch", 8 * queries * channels)
        self.rows = self._reserve("gradient", queries * channels)
        self.adds = [self._reserve(f"add{cell}", queries * channels) for cell in range(4)]
        names = ("weight", "sum_x", "sum_y", "sum_weight", "x", "y", "product")
        self._per_query = {name: self._reserve(name, queries) for name in names}
        pairs = ("at", "cell", "cell_float", "inside_cell")
        self._per_query |= {name: self._reserve(name, 2 * queries) for name in pairs}
        self.shared = [self._reserve(f"share{cell}", channels) for cell in range(4)]
        self.temporaries = [self._reserve(f"temporary{index}", 2 * channels) for index in range(2)]

    def words(self, name: str, *shape: int, dtype: DType = FLOAT) -> LocalTensor:
        """One of the buffers that hold a word or two per query."""
        return self._per_query[name].get(dtype, *shape)

    def _reserve(self, name: str, words: int) -> TBuf:
        buffer = TBuf(name)
        self._core.pipe.init_buffer(buffer, 1, words * FLOAT.itemsize)
        return buffer
