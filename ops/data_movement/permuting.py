"""Transpositions as profilers record them: often without the permutation, which the shapes tell.

Where several permutations lead from one shape to the other, the one that keeps most neighbours
together is taken, the first in order of those.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import TYPE_CHECKING

from npusim.ascendc import TPosition, TQue
from npusim.ascendc.task import Task, made
from npusim.engine.program import Pipe
from npusim.ops.data_movement.moved_rows import moved_rows
from npusim.ops.data_movement.permutation_tiling import RESERVED_BYTES, TurnedGrid, turned_grid
from npusim.ops.data_movement.strided import StridedCopy
from npusim.values.arithmetic import greatest_divisor
from npusim.values.dtypes import FLOAT, INT64
from npusim.values.errors import RefusedTaskError, UnsaidError

if TYPE_CHECKING:
    from npusim.ascendc import Core, GlobalTensor, Kernel
    from npusim.hardware.profile import Profile
    from npusim.ops.data_movement.turned import TurnedTile
    from npusim.schedules.tile_grid import Extent, Grid

Order = tuple[int, ...]
_TOLD = (8, 256, 8)  # numbers of tiling data: its head, room for all cores', about those of a core
_NUMBERS_OF_ROWS = 54  # read from it, by rows that stay rows
_NUMBERS_OF_OTHERS = 209  # by permutations that gather parts of several axes
_ROW_OPERATIONS = 45  # of the scalar unit, for the address of a row
_MOST_CANDIDATES = 5000  # permutations looked at where sizes repeat


class Transpose(StridedCopy):
    """Axes in another order; a kernel for any shape reads how the axes are cut, one by one.

    It is launched on all cores, of which some may have nothing to do, and has one buffer, which a
    tile is loaded into when the one before it has left. Source: public kernel and host tiling
    (impl/dynamic/transpose.py, op_tiling/transpose.cc); some of its ways are taken in tiles of
    :class:`StridedCopy`.
    """

    op_type = "Transpose"
    split: TurnedGrid | None = None

    def __init__(self, profile: Profile, src: GlobalTensor, dst: GlobalTensor) -> None:
        self.any_shape = not (profile.software.compiled_for_shape and self.spaces)
        self.numbers = _NUMBERS_OF_OTHERS
        if self.any_shape:
            self.overlaps, self.reserved_bytes = False, RESERVED_BYTES
            self.by_halves, self.row_operations = True, _ROW_OPERATIONS
            self.told = made((max(_TOLD),), INT64, "tiling")
            self.scratch = (self.told,)
        super().__init__(profile, src, dst)
        if self.split is not None:
            self.one_buffer = True
            self.pads = self.itemsize <= FLOAT.itemsize  # many rows go in one transfer
            self.by_line = not self.pads
        if self.any_shape:
            self.block_dim = profile.cores.vector_cores

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        (x,) = task.present(1)
        order = _given(task.op_type, task.attributes.get("perm"), len(x.shape))
        if order is None:
            if not task.outputs:
                raise task.refused("neither the permutation nor the result is known")
            order = inferred_order(task.op_type, x.shape, task.outputs[0].shape)
        wanted = tuple(x.shape[axis] for axis in order)
        out = task.outputs[0] if task.outputs else made(wanted, x.dtype)
        if out.numel != x.numel or out.dtype is not x.dtype:
            raise task.unfit(f"{x.shape} doesn't become {out.shape}")
        return (cls(task.profile, x.permuted(order), out.view(*wanted)),)

    def _begin(self, core: Core) -> None:
        """Load a head of tiling data, what is for all cores and what for this, and read it."""
        if not self.any_shape:
            return
        parts = TQue(TPosition.VECIN, 1, "tiling", consumer=Pipe.SCALAR)
        core.pipe.init_buffer(parts, 1, self.told.nbytes)
        for numbers in _TOLD:  # each knows from the one before how much it is
            part = parts.copy_in(self.told.span(0, numbers))
            core.get_value(part)
            parts.free_tensor(part)
        core.emit_scalar("ld_ub", loads=self.numbers, stores=self.numbers, operations=self.numbers)

    def _extent(self) -> Extent:
        if self.any_shape:
            found = moved_rows(self.profile, self.box, self.block)
            if found is not None:
                self.numbers = _NUMBERS_OF_ROWS
                return found
        return super()._extent()

    def _turned_tile(self, axes: tuple[int, int]) -> TurnedTile:
        if self.any_shape:
            self.split = turned_grid(self.profile, self.box, self.itemsize)
        if self.split is None:
            return super()._turned_tile(axes)
        self.numbers = self.split.numbers
        return self.split.tile

    def _grid(self, extent: Extent) -> Grid:
        return self.split.grid if self.split else super()._grid(extent)


class TransposeNOD(Transpose):
    """Axes in another order, known only when the kernel runs."""

    op_type = "TransposeNOD"
    spaces = False


class ConfusionTransposeD(StridedCopy):
    """Axes in another order, and split or joined before or after it; also on matrices in NZ.

    Compiled for one shape it launches a block for each tile, more than there are cores, where equal
    parts fill over half of UB. Source: recorded block counts.
    """

    op_type = "ConfusionTransposeD"

    def __init__(self, profile: Profile, src: GlobalTensor, dst: GlobalTensor) -> None:
        self.overlaps = not profile.software.compiled_for_shape
        super().__init__(profile, src, dst)

    def _most_cores(self) -> int:
        usual, inner, limit = super()._most_cores(), 1, self._limit()
        if self.overlaps or self.through_vector:
            return usual
        for size in reversed(self.box.sizes):
            part = greatest_divisor(size, max(1, limit // inner))
            inner *= part
            if part < size:
                break
        return max(usual, self.box.numel // inner) if 2 * inner > limit else usual

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        x, out = task.present(1, 1)
        split, order = _confused(task.op_type, x.shape, out.shape, task.attributes)
        turned = tuple(split[axis] for axis in order)
        return (cls(task.profile, x.view(*split).permuted(order), out.view(*turned)),)


def inferred_order(op_type: str, before: Sequence[int], after: Sequence[int]) -> Order:
    """The permutation between two shapes; raises KernelError where there is none."""
    if sorted(before) != sorted(after):
        raise RefusedTaskError(op_type, f"{tuple(before)} doesn't become {tuple(after)}")
    candidates = islice(_orders(tuple(before), tuple(after), ()), _MOST_CANDIDATES)
    # max() takes the first of equals, and permutations come in their order.
    return max(candidates, key=lambda order: _together(order, before))


def _orders(before: Order, after: Order, chosen: Order) -> Iterator[Order]:
    if len(chosen) == len(after):
        yield chosen
        return
    for axis, size in enumerate(before):
        if axis not in chosen and size == after[len(chosen)]:
            yield from _orders(before, after, (*chosen, axis))


def _together(order: Order, sizes: Sequence[int]) -> int:
    """Neighbours that stay neighbours; axes of one element don't count."""
    long = [axis for axis in range(len(sizes)) if sizes[axis] > 1]
    kept = [long.index(axis) for axis in order if sizes[axis] > 1]
    return sum(right == left + 1 for left, right in pairwise(kept))


def _given(op_type: str, found: object, rank: int) -> Order | None:
    if not isinstance(found, list | tuple):
        return None
    order = tuple(int(axis) % rank if rank else 0 for axis in found)
    if sorted(order) != list(range(rank)):
        raise RefusedTaskError(op_type, f"{list(found)} is no permutation of {rank} axes")
    return order


def _confused(
    op_type: str,
    before: tuple[int, ...],
    after: tuple[int, ...],
    attributes: Mapping[str, object],
) -> tuple[tuple[int, ...], Order]:
    """The shape to see the input in, and the permutation that leads to the order of ``after``."""
    if len(before) == 6 and len(after) == 4:
        batch, heads, d1, s1, m0, n0 = before
        if after == (heads * d1, batch * s1, m0, n0):
            return before, (1, 2, 0, 3, 4, 5)
    if len(before) == 4 and len(after) == 6:
        batch, heads, d1, s1, m0, n0 = after
        if before == (heads * d1, batch * s1, m0, n0):
            return (heads, d1, batch, s1, m0, n0), (2, 0, 1, 3, 4, 5)
    perm = attributes.get("perm")
    if isinstance(perm, list | tuple) and len(perm) == len(after) != len(before):
        before = after  # whose axes, in another order, the input is seen with
    order = _given(op_type, perm, len(before))
    if order is not None and attributes.get("transpose_first"):
        return before, order
    if order is not None and len(after) == len(order):
        split = [0] * len(order)
        for place, axis in enumerate(order):
            split[axis] = after[place]
        return tuple(split), order
    raise UnsaidError(op_type, f"how {before} becomes {after} isn't recorded")
