"""Kernels that compute every output element from the input elements at the same place.

Tiling of the vendor's elementwise schedule: all axes fused, each core a multiple of 128 elements,
tiles as long as the buffers that are alive together allow, double buffered when a core needs more
than one. Operands that broadcast along some axes are handled in planes of rows and columns, or
packed where rows are short. Source: public host tiling (ops/built-in/op_tiling/elewise_v3.cc).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, ClassVar

from npusim.ascendc.kernel import Kernel
from npusim.schedules.block_split import Axes, BlockSplit, broadcast_split, compiled_split
from npusim.schedules.broadcast_tiling import PlaneTiling, Tile
from npusim.schedules.broadcasting import broadcast
from npusim.schedules.rows.shares import RowShare
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from npusim.ascendc.core import Core
    from npusim.ascendc.gm import GlobalTensor
    from npusim.ascendc.gm_slices import Place
    from npusim.ascendc.queues import TQue
    from npusim.ascendc.scalars import Scalar
    from npusim.ascendc.tensors import LocalTensor
    from npusim.hardware.profile import Profile
    from npusim.schedules.packing import PackedTiling

__all__ = ["ElementwiseKernel", "FlatTiling", "PlaneTiling", "Tile", "flat_tiling", "tile_limit"]

_CORE_ALIGN = 128  # elements; a core's share and a tile are multiples of it
_MAX_TILE = 16383  # elements of 4 bytes that one repeat counter chain covers


@dataclass(frozen=True, slots=True)
class FlatTiling(RowShare):
    """Elements instead of rows, on ``block_dim`` cores."""

    block_dim: int
    double_buffer: bool


def flat_tiling(
    profile: Profile,
    elements: int,
    itemsize: int,
    coexisting: float,
    *,
    least_bytes: int = 0,
    split: BlockSplit | None = None,
) -> FlatTiling:
    """Split ``elements`` over the vector cores; ``coexisting`` buffers of 4 bytes share UB.

    ``itemsize`` is of the output, or of the widest tensor that is computed. A core gets at least
    ``least_bytes`` of the output; without such a limit one core does everything below two blocks
    for each core. ``split`` says which elements each block gets, where the schedule decides that by
    axes.
    """
    cores = profile.cores.vector_cores
    block = profile.buffers.block_bytes
    if not least_bytes and elements < 2 * cores * (block // itemsize):
        return FlatTiling(elements, elements, elements, 1, double_buffer=False)
    if split:
        whole = block // itemsize if split.inner == 1 else 1
        per_core, block_dim = round_up(split.elements, whole), split.block_dim
    else:
        per_core = max(ceil(elements / cores), least_bytes // itemsize)
        per_core = round_up(
            per_core, _core_align(profile, itemsize) if least_bytes else _CORE_ALIGN
        )
        block_dim = ceil(elements / per_core)

    align = _CORE_ALIGN * FLOAT.itemsize if least_bytes else block

    def limit(depth: int) -> int:
        return tile_limit(profile, coexisting, depth, align)

    if per_core <= limit(1):
        return FlatTiling(elements, per_core, per_core, block_dim, double_buffer=False)
    passes = ceil(per_core / limit(2))
    tile = min(round_up(ceil(per_core / passes), _CORE_ALIGN), limit(2))
    return FlatTiling(elements, per_core, tile, block_dim, double_buffer=True)


def tile_limit(profile: Profile, coexisting: float, depth: int, align_bytes: int) -> int:
    """The elements of the longest tile: ``depth`` times ``coexisting`` buffers share UB."""
    room = int(profile.buffers.ub_bytes // depth / coexisting) // align_bytes * align_bytes
    return min(_MAX_TILE, room // FLOAT.itemsize)


def _core_align(profile: Profile, itemsize: int) -> int:
    """Elements that a core's share is a multiple of.

    Schedules compiled for one shape round to whole blocks, those for any shape to 128.
    """
    if profile.software.compiled_for_shape:
        return profile.buffers.block_bytes // itemsize
    return _CORE_ALIGN


def whole_tiles(
    profile: Profile, elements: int, itemsize: int, buffers: float, coexisting: float
) -> FlatTiling:
    """Tiles as long as half of UB holds in ``buffers`` of them, dealt out whole.

    Source: schedule of the optimizers' steps (public: tbe/impl/util/util_apply_op_schedule.py).
    Where that counts on operands being overwritten, ``coexisting`` buffers of 4 bytes take shorter
    ones at a time.
    """
    room = int(profile.buffers.ub_bytes // 2 // (2 * buffers * _CORE_ALIGN))
    tile = min(room * _CORE_ALIGN * 2 // itemsize, elements)
    each = ceil(elements / tile / profile.cores.vector_cores)
    block_dim = ceil(elements / tile / each)
    fits = [int(profile.buffers.ub_bytes // depth / coexisting) for depth in (1, 2)]
    single, double = (nbytes // FLOAT.itemsize // _CORE_ALIGN * _CORE_ALIGN for nbytes in fits)
    if each == 1 and tile <= single:
        return FlatTiling(elements, tile, tile, block_dim, double_buffer=False)
    return FlatTiling(elements, each * tile, min(tile, double), block_dim, double_buffer=True)


class ElementwiseKernel(Kernel):
    """Base of elementwise kernels: subclasses reserve buffers and write what happens to one tile.

    ``coexisting`` is how many tile-sized buffers of 4 bytes per element are alive at once.
    """

    generated: bool = True
    shares_all = True
    coexisting: float = 3
    fills_cores: ClassVar[bool] = True  # a core gets a least share of the output, or it stays idle
    axes: ClassVar[Axes] = Axes.FUSED
    buffers: float = 0  # that a schedule counts which deals out whole tiles
    computed: int = 1  # tensors that the compiler's graph computes
    widest: int = 1  # bytes of an element of the widest of these
    operand_shapes: tuple[tuple[int, ...], ...] = ()

    def __init__(
        self,
        profile: Profile,
        inputs: tuple[GlobalTensor, ...],
        output: GlobalTensor | tuple[GlobalTensor, ...],
    ) -> None:
        outputs = output if isinstance(output, tuple) else (output,)
        self.profile = profile
        self.inputs, self.outputs, self.output = inputs, outputs, outputs[0]
        self.reads, self.writes = inputs, outputs
        self.plane = broadcast(self.output.shape, (*outputs, *inputs), len(outputs))
        self.double_buffer = True
        self.planes: PlaneTiling | PackedTiling
        self._tile(profile)
        self.depth = self.buffer_num if self.double_buffer else 1

    @abstractmethod
    def init_buffers(self, core: Core) -> None:
        """Reserve queues and scratch for tiles of ``self.tile_elements`` elements."""

    @abstractmethod
    def compute(self, core: Core, tile: Tile) -> None:
        """Load the operands of one tile, compute, store."""

    def process(self, core: Core) -> None:
        """The work of one block."""
        self.init_buffers(core)
        if not self.plane.is_flat:
            self._compute_all(core, self.planes.tiles(core))
        elif core.computes_together:
            core.separately(
                lambda: self._compute_all(core, self._flat_tiles(core)),
                lambda: self._compute_all(core, self._tiles_of_blocks(core)),
            )
        else:
            self._compute_all(core, self._flat_tiles(core))

    def _compute_all(self, core: Core, tiles: Iterable[Tile]) -> None:
        for tile in tiles:
            self.compute(core, tile)

    def load(self, core: Core, queue: TQue, tile: Tile, index: int) -> LocalTensor | Scalar:
        """Operand ``index`` of a tile: a scalar, a tile, a row or a column."""
        source = tile.sources[index]
        if source is None:
            return core.load_scalar(self.inputs[index].span(0, 1))
        if source.shape[-1] == 1 and len(source.shape) == 2 and tile.shape[-1] > 1:
            column = queue.copy_in(source, (source.shape[0],))
            return core.broadcast_column(column)
        return queue.copy_in(source)

    def plan_planes(
        self, profile: Profile, widest: int, split: BlockSplit | None
    ) -> PlaneTiling | PackedTiling:
        """Tiles for operands that broadcast along some axes."""
        return PlaneTiling.of(profile, self.plane, self.coexisting, widest, split=split)

    def _tile(self, profile: Profile) -> None:
        widest = max(tensor.dtype.itemsize for tensor in (*self.outputs, *self.inputs))
        split = self._block_split(profile)
        if self.plane.is_flat:
            self.division = self.tiling = self._flat_tiling(profile, split)
            self.tile_elements = self.tiling.tile
            self.block_dim = self.tiling.block_dim
            self.double_buffer = self.tiling.double_buffer
        else:
            self.division = self.planes = self.plan_planes(profile, widest, split)
            self.tile_elements = self.planes.footprint
            self.block_dim = self.planes.block_dim

    def _flat_tiling(self, profile: Profile, split: BlockSplit | None) -> FlatTiling:
        elements, itemsize = self.output.numel, self.output.dtype.itemsize
        if self.buffers and profile.software.compiled_for_shape:
            return whole_tiles(profile, elements, itemsize, self.buffers, self.coexisting)
        least = profile.launch.elementwise_core_bytes if self.fills_cores else 0
        if least and not profile.software.compiled_for_shape:
            itemsize = max(itemsize, self.widest)  # code for any shape counts in that
        return flat_tiling(
            profile, elements, itemsize, self.coexisting, least_bytes=least, split=split
        )

    def _block_split(self, profile: Profile) -> BlockSplit | None:
        """The blocks of a schedule for one shape, or of axes that operands treat differently."""
        if not self.fills_cores:
            return None
        shape, itemsize = self.output.shape, self.output.dtype.itemsize
        fused = (*self.plane.outer, self.plane.rows, self.plane.columns)
        if not profile.software.compiled_for_shape:
            cores, block = profile.cores.vector_cores, profile.buffers.block_bytes
            flat = self.plane.is_flat
            return None if flat else broadcast_split(fused, itemsize, cores, block)
        if self.axes.fuses(self.operand_shapes):
            shape = (self.output.numel,) if self.plane.is_flat else fused
        return compiled_split(profile, shape, itemsize, self.computed)

    def _flat_tiles(self, core: Core) -> Iterator[Tile]:
        for first, length in self.tiling.tiles(core):
            yield self._flat_tile(length, (first, 1))

    def _tiles_of_blocks(self, core: Core) -> Iterator[Tile]:
        """The same for whole shares of this and the next blocks at once, if none has had them."""
        tiling = self.tiling
        whole, rest = divmod(tiling.rows, tiling.per_core)
        nbytes = int(self.coexisting * FLOAT.itemsize) * tiling.per_core
        for share in core.share(lambda block: min(block, whole), inner_bytes=nbytes):
            for first, length in core.tiles(0, tiling.per_core, tiling.tile):
                yield self._flat_tile(length, (share, tiling.per_core), (first, 1))
        if rest and core.get_block_idx() == whole:
            yield from self._flat_tiles(core)

    def _flat_tile(self, length: int, *places: tuple[Place, int]) -> Tile:
        """``length`` elements at the sum of ``places``; a single number repeats."""
        sources = tuple(
            None
            if tensor.numel == 1 and tensor.numel < self.tiling.rows
            else tensor.window(places, (length,), (1,))
            for tensor in self.inputs
        )
        targets = tuple(tensor.window(places, (length,), (1,)) for tensor in self.outputs)
        return Tile((length,), sources, targets)
