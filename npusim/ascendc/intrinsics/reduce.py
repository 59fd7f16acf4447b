"""Reductions of a tile: along its last axis, over its rows, or over rows of a few lanes."""

from __future__ import annotations

from functools import cache
from math import ceil
from typing import TYPE_CHECKING, Any

from npusim.ascendc.folds import LARGEST, SMALLEST, SUM, Fold, in_every_turn
from npusim.ascendc.intrinsics.by_lanes import Lanes
from npusim.ascendc.intrinsics.elementwise import BY_HARDWARE_NAME
from npusim.ascendc.passes import Work
from npusim.values.arithmetic import round_up
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc.tensors import LocalTensor


@cache
def _along_rows(fold: Fold) -> Work:
    """What folding each row into a number computes."""

    def folded(values: NDArray[Any], out: NDArray[Any]) -> None:
        fold.function.reduce(values, axis=-1, out=out, dtype=values.dtype)

    return Work(f"fold {fold.name}", folded, folds=True)


class Reductions(Lanes):
    """The reducing part of :class:`npusim.ascendc.core.Core`."""

    def reduce_sum(self, dst: LocalTensor, src: LocalTensor) -> LocalTensor:
        """dst[...] = sum of src over its last axis (ReduceSum).

        Halves are added until one repeat is left, then vcadd.
        """
        return self.reduce(SUM, dst, src)

    def reduce_max(self, dst: LocalTensor, src: LocalTensor) -> LocalTensor:
        """dst[...] = largest element of src along its last axis (halves, then vcmax)."""
        return self.reduce(LARGEST, dst, src)

    def reduce_min(self, dst: LocalTensor, src: LocalTensor) -> LocalTensor:
        """dst[...] = smallest element of src along its last axis (halves, then vcmin)."""
        return self.reduce(SMALLEST, dst, src)

    def reduce(self, fold: Fold, dst: LocalTensor, src: LocalTensor) -> LocalTensor:
        """dst[...] = src folded along its last axis: by halves, and at last within a repeat."""
        self._check_reduced(fold, dst, src)
        self.require(fold.pairwise, src, dst)
        if self.recording:
            self._record_tree(fold, src)
        return self._folded(fold, dst, src)

    def whole_reduce(
        self, fold: Fold, dst: LocalTensor, src: LocalTensor, *, drained: bool = False
    ) -> LocalTensor:
        """dst[...] = src folded along its last axis, each repeat by one step of vcadd (or vcmax).

        What the repeats leave is folded in the same way until one number is left. A chip whose
        instruction lacks the dtype falls back on halves and the scalar unit. ``drained`` waits for
        the vector unit to be done before, as generated loops do that use a buffer again.
        """
        self._check_reduced(fold, dst, src)
        if not self.folds_within_repeat(fold, src):
            return self.reduce_by_scalar(fold, dst, src, drained=drained)
        if self.recording:
            lanes = self.costs.repeat_elements(src.dtype.itemsize)
            length, chained = src.row_elements, drained or self.reads_last(src)
            while True:
                self.emit_vector(fold.final, src.dtype, length, rows=src.rows, chained=chained)
                length, chained = ceil(length / lanes), True
                if length == 1:
                    break
        return self._folded(fold, dst, src)

    def reduce_by_scalar(
        self, fold: Fold, dst: LocalTensor, src: LocalTensor, *, drained: bool = False
    ) -> LocalTensor:
        """dst[...] = src folded along its last axis.

        Halves down to a block, then element by element.

        The scalar unit reads what is left of every row, and stores the result.
        """
        self._check_reduced(fold, dst, src)
        self.require(fold.pairwise, src, dst)
        if self.recording:
            block = self.block_bytes // src.dtype.itemsize
            length, chained = src.row_elements, drained or self.reads_last(src)
            while length > block:
                length = round_up(ceil(length / 2), block)
                self.emit_vector(fold.pairwise, src.dtype, length, rows=src.rows, chained=chained)
                chained = True
            each, detail = src.rows * length, f"{src.buffer} {src.rows}x{length} {fold.name}"
            self.recorder.after_vector()
            self.emit_scalar(
                "ld_ub", loads=each, operations=each, turns=each, stores=src.rows, detail=detail
            )
        return self._folded(fold, dst, src)

    def move_by_scalar(self, dst: LocalTensor, src: LocalTensor) -> LocalTensor:
        """dst = src, element by element by way of a register of the scalar unit."""
        if self.recording:
            self.recorder.after_vector()
            count, detail = src.numel, f"{src.buffer} {src.numel} moved"
            self.emit_scalar("mov_ub", loads=count, stores=count, detail=detail)
        if self.numerics:
            depth = self.depth
            dst.target(depth)[...] = src.values(depth)
        return dst

    def folds_within_repeat(self, fold: Fold, src: LocalTensor) -> bool:
        """Whether one instruction folds the elements of a repeat of this dtype."""
        return bool(fold.final) and self.profile.supports_vector(fold.final, src.dtype.intrinsic)

    def fold_rows(self, dst: LocalTensor, src: LocalTensor, fold: Fold = SUM) -> LocalTensor:
        """dst = the rows of src folded: the lower half onto the upper one until one row is left."""
        self._check_rows(dst, src)
        self.require(fold.pairwise, src, dst)
        if self.recording:
            rows, chained = src.shape[0], self.reads_last(src)
            while rows > 1:
                rows = ceil(rows / 2)
                self.emit_vector(
                    fold.pairwise, src.dtype, src.row_elements, rows=rows, chained=chained
                )
                chained = True
        return self._folded(fold, dst, src, rows=True)

    def add_up_rows(self, dst: LocalTensor, src: LocalTensor, fold: Fold = SUM) -> LocalTensor:
        """dst = the rows of src folded one after the other, in one instruction.

        The destination of all its repeats is the same row.
        """
        self._check_rows(dst, src)
        self.require(fold.pairwise, src, dst)
        rows, chained = src.shape[0], self.reads_last(src)
        self.emit_vector(fold.pairwise, src.dtype, src.row_elements, rows=rows, chained=chained)
        return self._folded(fold, dst, src, rows=True)

    def fold_by_instruction(
        self, intrinsic: str, src: LocalTensor, elements: int, rows: int
    ) -> None:
        """Write down an instruction that folds within a repeat; numbers come from elsewhere."""
        chained = self.reads_last(src)
        self.emit_vector(intrinsic, src.dtype, elements, rows=rows, chained=chained)

    def combine(
        self, fold: Fold, dst: LocalTensor, src0: LocalTensor, src1: LocalTensor
    ) -> LocalTensor:
        """dst = src0 and src1 folded, element by element."""
        return BY_HARDWARE_NAME[fold.pairwise](self, dst, src0, src1)

    def accumulate(self, fold: Fold, dst: LocalTensor, src: LocalTensor) -> LocalTensor:
        """dst = dst and src folded, element by element, in every iteration of the loops around it.

        ``dst`` was fetched outside of them, ``src`` inside. The innermost one ``accumulates``: its
        iterations' numbers are there at once and are folded one after the other.
        """
        row = BY_HARDWARE_NAME[fold.pairwise]
        home, depth = dst.depth, self.depth
        if home == depth:
            return row(self, dst, dst, src)
        if dst.shape != src.shape or self.stack_size(home, depth - 1) > 1:
            raise KernelError(
                self.kernel_name,
                f"{src.buffer} {src.shape} accumulated in {dst.buffer} {dst.shape}",
                "Fetch what is accumulated in outside of the loop, in the shape of what is added.",
            )
        here = dst.same_place(*dst.shape)
        self.require(fold.pairwise, here, src)
        self.issue(fold.pairwise, here, (here, src))
        if self.numerics:
            values, target = src.values(depth), dst.total()
            turns = values[(slice(None),) * home + (0,) * (depth - 1 - home)]
            compute, settles = row.computation, not self.profile.features.inf_nan
            rest = (axis for axis in range(turns.ndim) if axis != home)
            for one in turns.transpose(home, *rest):  # thousands: as little as can be around it
                compute(target, one, out=target)
                if settles:
                    self.settle(target)
        self.computed(row.__name__, dst, self.stack_size(home, depth))
        return dst

    def _check_reduced(self, fold: Fold, dst: LocalTensor, src: LocalTensor) -> None:
        if dst.shape not in (src.shape[:-1], (*src.shape[:-1], 1)):
            name = fold.final or fold.pairwise
            raise KernelError(self.kernel_name, f"{name} from shape {src.shape} into {dst.shape}")

    def _check_rows(self, dst: LocalTensor, src: LocalTensor) -> None:
        if dst.shape != src.shape[1:]:
            raise KernelError(
                self.kernel_name, f"rows of shape {src.shape} folded into {dst.shape}"
            )

    def _folded(
        self, fold: Fold, dst: LocalTensor, src: LocalTensor, *, rows: bool = False
    ) -> LocalTensor:
        """The numbers: src folded along its last axis, or its ``rows`` onto each other."""
        self.wrote(dst)
        if self.numerics and rows:
            depth = self.depth
            target = dst.target(depth)
            values = in_every_turn(src.values(depth), target.shape[:depth])
            fold.function.reduce(values, axis=depth, out=target, dtype=values.dtype)
            self.settle(target)
        elif self.numerics:
            dst.becomes(_along_rows(fold), src)
        self.computed("fold_rows" if rows else f"reduce_{fold.name}", src)
        return dst

    def _record_tree(self, fold: Fold, src: LocalTensor) -> None:
        length, chained = src.row_elements, self.reads_last(src)
        # A chip whose final reduction lacks the dtype goes on halving inside the last repeat.
        stop = 1
        if self.folds_within_repeat(fold, src):
            stop = self.costs.repeat_elements(src.dtype.itemsize)
        while length > stop:
            length = ceil(length / 2)
            self.emit_vector(
                fold.pairwise,
                src.dtype,
                length,
                rows=src.rows,
                chained=chained,
                detail=f"{src.dtype.intrinsic} {src.rows}x{length} halves",
            )
            chained = True
        if stop > 1:
            self.emit_vector(fold.final, src.dtype, length, rows=src.rows, chained=chained)
