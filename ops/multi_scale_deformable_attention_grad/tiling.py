"""How MultiScaleDeformableAttentionGrad is cut into tasks and dealt out to the vector cores.

A task is a block of queries of one plane; a plane is one (batch, head, level, point). Query blocks
run fastest, and every core takes consecutive tasks. Source: public host tiling (hicann/ops-nn
vfusion/multi_scale_deformable_attention_grad/op_host) and CANN 8.1.RC1.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from npusim.values.arithmetic import round_up

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile
    from npusim.ops.multi_scale_deformable_attention_grad.contract import Sizes

KERNEL_WORKSPACE_BYTES = 16 * 1024 * 1024  # system workspace; the kernel has none of its own

_RESERVED_BYTES = 1024  # of UB, left alone
_WORD_BYTES = 4  # everything in UB is float32 or int32
_LANES = 8  # words in a block of 32 bytes
# What lives in UB: words per level, per channel, per query, and per channel of a query.
_PER_LEVEL, _PER_CHANNEL, _PER_QUERY, _PER_QUERY_CHANNEL = 3, 8, 15, 13


@dataclass(frozen=True, slots=True)
class Tiling:
    """``tasks_per_core`` consecutive tasks for each of ``block_dim`` cores, while there are any."""

    sizes: Sizes
    queries_per_task: int
    blocks: int
    tasks: int
    block_dim: int
    tasks_per_core: int

    @classmethod
    def of(cls, profile: Profile, sizes: Sizes, *, deterministic: bool = False) -> Tiling:
        """The vendor's tiling; ``deterministic`` puts everything on one core."""
        width = _queries_that_fit(profile, sizes)
        blocks = ceil(sizes.queries / width)
        tasks = sizes.planes * blocks
        block_dim = 1 if deterministic else min(profile.cores.vector_cores, tasks)
        return cls(sizes, width, blocks, tasks, block_dim, ceil(tasks / block_dim))

    @property
    def buffer_queries(self) -> int:
        """Queries that the buffers have room for: a block, or all of them in blocks of 32 bytes."""
        return min(self.queries_per_task, whole_blocks(self.sizes.queries))

    @property
    def last_queries(self) -> int:
        """Queries in the last block of a plane."""
        return self.sizes.queries - (self.blocks - 1) * self.queries_per_task

    def tasks_of(self, block: int) -> range:
        """The tasks of one core; none for those that come too late."""
        first = min(block * self.tasks_per_core, self.tasks)
        return range(first, min(first + self.tasks_per_core, self.tasks))

    def points_of(self, block: int) -> range:
        """The sampling points of one core, numbered (batch, head, level, point, query)."""
        tasks = self.tasks_of(block)
        return range(self._first_point(tasks.start), self._first_point(tasks.stop))

    def last_blocks_of(self, block: int) -> int:
        """How many tasks of a core are the last block of their plane."""
        tasks = self.tasks_of(block)
        return tasks.stop // self.blocks - tasks.start // self.blocks

    def _first_point(self, task: int) -> int:
        plane, part = divmod(task, self.blocks)
        return plane * self.sizes.queries + part * self.queries_per_task


def _queries_that_fit(profile: Profile, sizes: Sizes) -> int:
    """Queries of a task: as many as UB holds, in blocks of 32 bytes, at least one of them."""
    words = (profile.buffers.ub_bytes - _RESERVED_BYTES) // _WORD_BYTES
    words -= _PER_LEVEL * whole_blocks(sizes.levels) + _PER_CHANNEL * sizes.channels
    fit = words // (_PER_QUERY + _PER_QUERY_CHANNEL * sizes.channels)
    return max(1, fit // _LANES) * _LANES


def whole_blocks(words: int) -> int:
    """``words`` rounded up to blocks of 32 bytes."""
    return round_up(words, _LANES)
