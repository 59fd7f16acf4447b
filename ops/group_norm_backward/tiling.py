"""How GroupNormGrad is cut up on Atlas A2.

Source: ops-nn norm/group_norm_grad, host tiling (task split, UB modes, stage 2, workspace).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from math import ceil
from typing import TYPE_CHECKING

from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT, DType

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile

SYSTEM_WORKSPACE_BYTES = 16 * 1024 * 1024  # what every Ascend C kernel asks for
_RESERVED_BYTES = 1024  # UB kept for scalars and reduction results
_SLICE = 64  # channels per core in stage 2 are a multiple of it
_TILES = 3  # dy, x and dx live in UB together


class Mode(IntEnum):
    """What of a group fits into UB at once."""

    GROUP = 0
    CHANNEL = 1
    CHANNELS = 2
    PART_OF_CHANNEL = 3
    ELEMENTS = 5  # HxW is 1: a channel is a single element


@dataclass(frozen=True, slots=True)
class Stage2:
    """How the per-batch sums become gradGamma and gradBeta.

    ``cores`` cores with ``channels`` channels each.
    """

    channels: int
    cores: int
    halves: int  # core groups that share the rows between them


@dataclass(frozen=True, slots=True)
class Tiling:
    """A problem of N x group tasks (a group of D channels of S elements), and its split."""

    batch: int
    channels: int
    size: int
    group: int
    dtype: DType
    mode: Mode
    reserve_bytes: int
    groups_per_ub: int
    channels_per_ub: int
    elements_per_pass: int
    block_dim: int
    tasks_per_core: int
    first_cores: int
    stage2: Stage2 | None

    @property
    def group_channels(self) -> int:
        """Channels of one group (D)."""
        return self.channels // self.group

    @property
    def refetches(self) -> bool:
        """True when channels in UB start off block boundaries and are fetched again singly."""
        return self.mode is Mode.GROUP and self.size % 8 != 0 and self.group_channels > 1

    @property
    def keeps_group(self) -> bool:
        """True when dy and x are read once and stay in UB for the second pass."""
        return self.mode is Mode.ELEMENTS or (self.mode is Mode.GROUP and not self.refetches)

    @property
    def tasks(self) -> int:
        """Number of (batch, group) pairs."""
        return self.batch * self.group

    @property
    def rows(self) -> int:
        """Rows of the float32 workspace: batches in pairs."""
        return ceil(self.batch / 2)

    @property
    def tiling_key(self) -> int:
        """The vendor's number for the kernel variant."""
        kind = {"FLOAT": 0, "FLOAT16": 1, "BFLOAT16": 2}[self.dtype.name]
        return kind + (10 if self.batch > 2 else 0)

    @property
    def user_workspace_bytes(self) -> int:
        """Float32 sums of gradGamma and gradBeta in global memory."""
        if self.batch <= 2 and self.dtype is FLOAT:
            return 0
        return 2 * FLOAT.itemsize * self.channels * (1 if self.batch <= 2 else self.rows)

    def first_task(self, block: int) -> int:
        """Index of a block's first task; the number of tasks for blocks that have none."""
        return min(block * self.tasks_per_core - max(0, block - self.first_cores), self.tasks)

    def task_count(self, block: int) -> int:
        """Number of tasks of a block."""
        return self.tasks_per_core if block < self.first_cores else self.tasks_per_core - 1


def tile(
    profile: Profile, batch: int, channels: int, size: int, group: int, dtype: DType
) -> Tiling:
    """The split of ``batch`` x ``channels`` x ``size`` elements in ``group`` groups."""
    ub = profile.buffers.ub_bytes
    cores = profile.cores.vector_cores
    depth = channels // group
    per_element = FLOAT.itemsize if dtype is FLOAT else FLOAT.itemsize + dtype.itemsize
    align = profile.buffers.block_bytes // dtype.itemsize
    tiles = _TILES * per_element
    reserve = _RESERVED_BYTES + tiles * round_up(depth, align)
    unaligned = 2 * FLOAT.itemsize * round_up(size, align) if size % 8 and depth > 1 else 0
    groups_per_ub = max(0, ub - reserve - unaligned) // (tiles * round_up(depth * size, align))
    channels_per_ub = max(0, ub - reserve) // (tiles * round_up(size, align))
    tasks = batch * group
    per_core = ceil(tasks / cores)
    block_dim = ceil(tasks / per_core)
    return Tiling(
        batch=batch,
        channels=channels,
        size=size,
        group=group,
        dtype=dtype,
        mode=_mode(size, groups_per_ub, channels_per_ub),
        reserve_bytes=reserve,
        groups_per_ub=groups_per_ub,
        channels_per_ub=channels_per_ub,
        elements_per_pass=(ub - reserve) // tiles // (8 * align) * (8 * align),
        block_dim=block_dim,
        tasks_per_core=per_core,
        first_cores=tasks % block_dim or block_dim,
        stage2=_stage2(cores, batch, channels, dtype),
    )


def _mode(size: int, groups_per_ub: int, channels_per_ub: int) -> Mode:
    if size == 1:
        return Mode.ELEMENTS
    if groups_per_ub >= 1:
        return Mode.GROUP
    if channels_per_ub >= 2:
        return Mode.CHANNELS
    return Mode.CHANNEL if channels_per_ub == 1 else Mode.PART_OF_CHANNEL


def _stage2(cores: int, batch: int, channels: int, dtype: DType) -> Stage2 | None:
    if batch == 1 or (batch == 2 and dtype is FLOAT):
        return None  # the sums go straight into the outputs
    halves = 2 if dtype is FLOAT and cores > 1 else 1
    width = round_up(ceil(channels / (cores // halves)), _SLICE)
    return Stage2(width, ceil(channels / width) * halves, halves)
