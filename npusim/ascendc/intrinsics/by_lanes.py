"""Rows of a few lanes that lie side by side: 16 channels of NC1HWC0, say.

A tile of such rows is one run in UB, and an instruction over it fills its repeats whatever the
number of lanes. An operand that is one row long stands for all rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from npusim.ascendc.folds import in_every_turn
from npusim.ascendc.intrinsics.elementwise import BY_HARDWARE_NAME, Elementwise
from npusim.engine.program import Pipe
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.ascendc.folds import Fold
    from npusim.ascendc.tensors import LocalTensor


class Lanes(Elementwise):
    """The part of :class:`npusim.ascendc.core.Core` that works on flat tiles of short rows."""

    def by_lanes(
        self, intrinsic: str, dst: LocalTensor, src: LocalTensor, lanes: LocalTensor
    ) -> LocalTensor:
        """dst = src <intrinsic> lanes: a flat tile of whole rows with a row that repeats."""
        self._check_lanes(intrinsic, src, lanes)
        self.require(intrinsic, dst, src, lanes)
        self.emit_vector(intrinsic, src.dtype, src.numel, chained=self.reads_last(src, lanes))
        self.wrote(dst)
        if self.numerics:
            depth, width = self.depth, lanes.numel
            rows, out = (
                array.reshape(*array.shape[:depth], -1, width)
                for array in (src.values(depth), dst.target(depth))
            )
            row = lanes.values(depth)[..., None, :]
            BY_HARDWARE_NAME[intrinsic].computation(rows, row, out=out)
        return dst

    def spread_lanes(self, dst: LocalTensor, lanes: LocalTensor) -> LocalTensor:
        """dst = ``lanes`` in every row of a flat tile, copied row by row (vadds with zero)."""
        self._check_lanes("vadds", dst, lanes)
        rows, chained = dst.numel // lanes.numel, self.reads_last(lanes)
        self.emit_vector("vadds", dst.dtype, lanes.numel, rows=rows, chained=chained)
        self.wrote(dst)
        if self.numerics:
            depth = self.depth
            dst.target(depth)[...] = np.tile(lanes.values(depth), rows)
        return dst

    def fold_lanes(self, fold: Fold, *pairs: tuple[LocalTensor, LocalTensor]) -> None:
        """dst = the rows of a flat tile folded, for each pair (dst, src).

        By halves, all lanes at once.

        Steps of several pairs alternate, so that each waits less for its own last one.
        """
        for dst, src in pairs:
            self._check_lanes(fold.pairwise, src, dst)
            self.require(fold.pairwise, src, dst)
        if self.recording:
            self._record_folds(fold, pairs)
        for dst, src in pairs:
            self.wrote(dst)
            if self.numerics:
                depth = self.depth
                target = dst.target(depth)
                values = in_every_turn(src.values(depth), target.shape[:depth])
                rows = values.reshape(*values.shape[:depth], -1, dst.numel)
                fold.function.reduce(rows, axis=depth, out=target, dtype=values.dtype)

    def _record_folds(self, fold: Fold, pairs: tuple[tuple[LocalTensor, LocalTensor], ...]) -> None:
        """One step of every pair after the other.

        A step waits for the pair's last one to be done.
        """
        rows = [src.numel // dst.numel for dst, src in pairs]
        between = [0.0] * len(pairs)  # cycles since the pair's last step was issued
        chained = [self.reads_last(src) for _, src in pairs]
        while max(rows) > 1:
            for index, (dst, src) in enumerate(pairs):
                if rows[index] == 1:
                    continue
                rows[index] = -(-rows[index] // 2)
                elements = rows[index] * dst.numel
                busy, whole = (
                    self._cycles(fold.pairwise, src, elements, wait) for wait in (False, True)
                )
                wait = max(0.0, whole - busy - between[index]) if chained[index] else 0.0
                detail = f"{src.dtype.intrinsic} {elements} halves"
                self.recorder.emit(Pipe.VECTOR, fold.pairwise, busy + wait, detail=detail)
                between = [each + busy + wait for each in between]
                between[index], chained[index] = 0.0, True

    def _cycles(self, intrinsic: str, tensor: LocalTensor, elements: int, chained: bool) -> float:
        dtype = tensor.dtype
        return self.costs.vector(
            intrinsic, dtype.intrinsic, dtype.itemsize, elements, chained=chained
        )

    def _check_lanes(self, name: str, tile: LocalTensor, lanes: LocalTensor) -> None:
        width = lanes.numel * lanes.dtype.itemsize
        if len(tile.shape) != 1 or tile.numel % lanes.numel or width % self.block_bytes:
            raise KernelError(
                self.kernel_name, f"{name} of a tile {tile.shape} by lanes {lanes.shape}"
            )
