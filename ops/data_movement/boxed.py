"""Several copies in one kernel: parts of tensors, each with its place on the other side."""

from __future__ import annotations

from collections.abc import Hashable
from math import ceil
from typing import TYPE_CHECKING

from npusim.ascendc import Core, GlobalTensor, Kernel, TPosition, TQue
from npusim.ascendc.queues import footprint_bytes
from npusim.engine.program import Pipe
from npusim.ops.data_movement.strided import copy_tiles
from npusim.schedules.tile_grid import Box, BoxTiling, whole_axes

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile

Pair = tuple["GlobalTensor", "GlobalTensor"]  # source and target, of one shape


class BoxesCopy(Kernel):
    """target = source for every pair, in their order; runs pass by the vector unit.

    Each has a buffer of its own while UB has room for all, as the compiler allocates tensors: three
    parts of a row of 5 KB are 0.13 us of MTE2 and 0.15 us of MTE3 in profiles of 910B2.
    """

    op_type = "Concat"
    generated = True

    def __init__(
        self,
        profile: Profile,
        pairs: tuple[Pair, ...],
        reads: tuple[GlobalTensor, ...],
        writes: tuple[GlobalTensor, ...],
        blocks: int | None = None,
    ) -> None:
        """``blocks`` of the launch, if they don't follow from the bytes."""
        self.reads, self.writes = reads, writes
        self.kind = writes[0].dtype
        block = profile.buffers.block_bytes // self.kind.itemsize
        total = sum(target.nbytes for _, target in pairs)
        cores = profile.cores.vector_cores
        filled = max(1, min(cores, ceil(total / profile.launch.elementwise_core_bytes)))
        self.block_dim = filled if blocks is None else blocks
        limit = profile.buffers.ub_bytes // self.buffer_num // self.kind.itemsize - block
        first = 0
        extents: set[tuple[int, ...]] = set()
        self._of_block: list[list[tuple[int, BoxTiling]]] = [[] for _ in range(self.block_dim)]
        for number, (source, target) in enumerate(pairs):
            box = Box.of(source, target)
            extent = whole_axes(box.sizes, limit, self.block_dim, multiple=block, padded=block)
            tiling = BoxTiling.of(box, extent, self.block_dim, first_core=first)
            for place in range(tiling.grid.used_cores):  # of thousands a block has but some
                self._of_block[(first + place) % self.block_dim].append((number, tiling))
            extents.add(tiling.extent)
            first = (first + tiling.grid.tile_count) % self.block_dim
        self._extents = frozenset(extents)
        self._copies = len(pairs)

    def block_kind(self, block_idx: int) -> Hashable:
        own = self._of_block[block_idx]
        return tuple((number, tiling.grid.block_kind(block_idx)) for number, tiling in own)

    def process(self, core: Core) -> None:
        nbytes = max(footprint_bytes(self.kind, each, core.block_bytes) for each in self._extents)
        slots = max(self.buffer_num, min(self._copies, int(core.capacity_bytes("UB")) // nbytes))
        queue = TQue(TPosition.VECIN, slots, "tile", consumer=Pipe.MTE3)
        core.pipe.init_buffer(queue, slots, nbytes)
        for _, tiling in self._of_block[core.get_block_idx()]:
            copy_tiles(core, queue, tiling)
