"""Transpositions as profilers record them: often without the permutation, which the shapes tell.

Where several permutations lead from one shape to the other, the one that keeps most neighbours
together is taken, the first in order of those.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import TYPE_CHECKING

from npusim.ascendc.task import Task, made
from npusim.ops.data_movement.strided import StridedCopy
from npusim.values.arithmetic import greatest_divisor
from npusim.values.errors import RefusedTaskError, UnsaidError

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor, Kernel
    from npusim.hardware.profile import Profile

Order = tuple[int, ...]
_PARAMETERS = 200  # that the public kernel keeps: a hundred for all cores, a hundred for each
_ROW_OPERATIONS = 45  # of the scalar unit, for the address of a row
_MOST_CANDIDATES = 5000  # permutations looked at where sizes repeat


class Transpose(StridedCopy):
    """Axes in another order; a kernel for any shape reads how the axes are cut, one by one.

    It is launched on all cores, of which some may have nothing to do. Source: public host tiling
    (op_tiling/transpose.cc).
    """

    op_type = "Transpose"

    def __init__(self, profile: Profile, src: GlobalTensor, dst: GlobalTensor) -> None:
        any_shape = not (profile.software.compiled_for_shape and self.spaces)
        if any_shape:
            self.overlaps, self.parameters = False, _PARAMETERS
            self.by_halves, self.row_operations = True, _ROW_OPERATIONS
        super().__init__(profile, src, dst)
        if any_shape:
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
