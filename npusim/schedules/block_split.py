"""How a schedule that is compiled for one shape deals the elements of a result out to blocks.

Axes that the schedule doesn't fuse stay as they are: blocks split the first axis that, with those
before it, counts enough of them. Behind other axes only whole divisors can be split off.
Source: the TBE compiler's vector schedule (public, Apache 2.0: te_schedule/vector_schedule.py,
elewise_schedule.py): what a block gets at least, the search for the axis, its divisors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from math import ceil, prod
from typing import TYPE_CHECKING

from npusim.values.arithmetic import divisors

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile

_LEAST_BLOCKS = 2  # of 32 bytes for each core: of less one core makes everything
_EVEN_BLOCKS = 64  # of 32 bytes for each core, up to which parts should be equal
_FEW_TENSORS = 5  # computed tensors up to which a block gets twice the least bytes
_ROW_BYTES = 512  # of one row for each core that are enough for a block
_MOST_ROUNDS = 4  # blocks of a divisor for each core, at most
_ENOUGH = 0.85  # of the cores kept busy by a smaller divisor


class Axes(Enum):
    """When an operator's definition fuses axes that all operands treat alike, before it schedules.

    Source: the operators' definitions (public, Apache 2.0: ops/built-in/tbe/impl).
    """

    FUSED = "always"
    KEPT = "never"
    FUSED_IF_ALIKE = "if the operands have one shape"
    KEPT_WITH_NUMBER = "unless the second operand is a single element"

    def fuses(self, shapes: Sequence[tuple[int, ...]]) -> bool:
        """Whether it does for operands of these shapes."""
        if self is Axes.FUSED_IF_ALIKE:
            return len(set(shapes)) == 1
        if self is Axes.KEPT_WITH_NUMBER:
            return len(shapes) < 2 or prod(shapes[1]) != 1
        return self is Axes.FUSED


@dataclass(frozen=True, slots=True)
class BlockSplit:
    """Blocks that share an axis: ``parts`` are launched, each for ``length`` of its elements.

    ``before`` is the product of the axes in front, ``inner`` of those behind. The last of the
    parts may have less to do, or nothing.
    """

    axis: int
    before: int
    parts: int
    length: int
    inner: int

    @property
    def block_dim(self) -> int:
        """Blocks of the launch."""
        return self.before * self.parts

    @property
    def elements(self) -> int:
        """Elements of one block."""
        return self.length * self.inner


def least_bytes(profile: Profile, shape: Sequence[int], itemsize: int, tensors: int) -> int:
    """Bytes of a result of ``shape`` that are worth a block.

    ``tensors`` counts what the schedule computes: longer formulas are split further.
    """
    row_bytes = prod(shape[1:]) * itemsize
    if len(shape) > 1 and shape[0] == profile.cores.vector_cores and row_bytes >= _ROW_BYTES:
        return _ROW_BYTES
    several = profile.launch.elementwise_core_bytes
    return several if tensors <= _FEW_TENSORS else several // 2


def compiled_split(
    profile: Profile, shape: Sequence[int], itemsize: int, tensors: int
) -> BlockSplit | None:
    """Blocks for a result of ``shape`` where kernels are compiled for one shape, else None."""
    if not profile.software.compiled_for_shape:
        return None
    least = least_bytes(profile, shape or (1,), itemsize, tensors)
    return block_split(shape, itemsize, profile.cores.vector_cores, least)


def block_split(shape: Sequence[int], itemsize: int, cores: int, least: int) -> BlockSplit:
    """Blocks for a result of ``shape``, at least ``least`` bytes each while cores are left."""
    shape = tuple(shape) or (1,)
    nbytes = prod(shape) * itemsize
    wanted = max(1, min(cores, ceil(nbytes / least)))
    axis, parts = _first_axis(shape, wanted)
    size, before, inner = shape[axis], prod(shape[:axis]), prod(shape[axis + 1 :])
    if before == 1:
        return BlockSplit(axis, 1, parts, ceil(size / parts), inner)
    if size % (size // parts):
        parts = _divisor(size, before, cores, nbytes, least)
    length = size // parts
    return BlockSplit(axis, before, ceil(size / length), length, inner)


def broadcast_split(
    shape: Sequence[int], itemsize: int, cores: int, block_bytes: int
) -> BlockSplit:
    """Blocks for a result whose operands repeat along axes, of a schedule for any shape.

    Cores are dealt out to the first axes as long as these have fewer elements, and the next one is
    split. Results up to 2 KB a core are split into equal parts, if that leaves over half of the
    cores at work. Source: public host tiling (op_tiling/broadcast.cc, DoBlockTiling).
    """
    elements, each = prod(shape), block_bytes // itemsize
    if elements <= _LEAST_BLOCKS * each * cores:
        return BlockSplit(0, 1, 1, shape[0], prod(shape[1:]))
    evenly = elements <= _EVEN_BLOCKS * each * cores
    axis, left, before = 0, cores, 1
    while (size := shape[axis]) <= left:
        if evenly and left % size and before * size > cores // 2:
            break
        left, before, axis = left // size, before * size, axis + 1
    parts = min(size, left)
    if evenly and size > left:
        equal = max(each for each in range(1, left + 1) if size % each == 0)
        parts = equal if before * equal > cores // 2 else left
    length = ceil(size / parts)
    return BlockSplit(axis, before, ceil(size / length), length, prod(shape[axis + 1 :]))


def _first_axis(shape: Sequence[int], wanted: int) -> tuple[int, int]:
    """The axis to split, and into how many parts."""
    before = 1
    for axis, size in enumerate(shape):
        if before * size >= wanted:
            return axis, max(1, wanted // before)
        before *= size
    return len(shape) - 1, 1


def _divisor(size: int, before: int, cores: int, nbytes: int, least: int) -> int:
    """The divisor of an axis that comes closest to one block for each core."""
    small = large = 1
    for factor in divisors(size):
        if factor * before > cores:
            large = factor
            break
        small = factor
    blocks = large * before
    if blocks > cores * _MOST_ROUNDS or nbytes < blocks * least or small * before > cores * _ENOUGH:
        return small
    return large


def fullest_share(axes: Sequence[int], cores: int, at_once: int = 0) -> int:
    """Iterations of ``axes`` that a block does where they can't be fused as a whole.

    Either one axis is split, or a run of small ones and divisors of those at its ends make the
    blocks; the way that leaves the fewest cores idle is taken, the first among equals. ``at_once``
    go together in UB, if it isn't 0; cores are left out until no block ends in one alone. Source:
    schedule of several reductions (te_schedule/reduce_multi_schedule.py, conservative tiling and
    check of its result).
    """
    for count in range(cores, 1, -1):
        share, axis = _fullest(axes, count)
        if axis is None or not at_once:
            return share
        before, size, inner = prod(axes[:axis]), axes[axis], prod(axes[axis + 1 :])
        if not _leaves_one(size, share // (before * inner), at_once // inner):
            return share
    return prod(axes)


def _leaves_one(size: int, share: int, at_once: int) -> bool:
    """Whether shares of ``size``, or the last of them, end in a tile of one of its elements."""
    if share == 1 or at_once < 1:
        return False
    tiles = ceil(share / at_once)
    tile = share // tiles if share % tiles == 0 else at_once
    while share % tile == 1:
        tile -= 1
    return size % share % tile == 1


def _fullest(axes: Sequence[int], cores: int) -> tuple[int, int | None]:
    """Iterations of a block, and the axis that is split, None for a run of them."""
    total = prod(axes)
    ways: list[tuple[float, int, int | None]] = []
    for axis, size in enumerate(axes):
        share = ceil(size / cores)
        ways.append((size / (share * cores), total // size * share, axis))
    for first in range(len(axes)):
        for last in range(first + 1, len(axes)):
            inner = prod(axes[first + 1 : last])
            ways += [
                (blocks / cores, ceil(total / blocks), None)
                for left in divisors(axes[first])
                for right in divisors(axes[last])
                if (blocks := left * inner * right) <= cores
            ]
    _, iterations, axis_split = max(ways, key=lambda way: way[0])
    return iterations, axis_split
