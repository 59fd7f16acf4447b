"""Rows of a few lanes that lie side by side: 16 channels of NC1HWC0, say.

A tile of such rows is one run in UB, and an instruction over it fills its repeats whatever the
number of lanes. An operand that is one row long stands for all rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from npusim.ascendc.intrinsics.vector import Vector
from npusim.engine.program import Pipe
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.ascendc.folds import Fold
    from npusim.ascendc.tensors import LocalTensor

_FUNCTIONS = {"vadd": np.add, "vsub": np.subtract, "vmul": np.multiply, "vmax": np.maximum}


class Lanes(Vector):
    """The part of :class:`npusim.ascendc.core.Core` that works on flat tiles of short rows."""

    def by_lanes(
        self, intrinsic: str, dst: LocalTensor, src: LocalTensor, lanes: LocalTensor
    ) -> LocalTensor:
        """dst = src <intrinsic> lanes: a flat tile of whole rows with a row that repeats."""
        self._check_lanes(intrinsic, src, lanes)
        self.require(intrinsic, dst)
        if self.recording:
            chained = self.reads_last(src, lanes)
            self._record(intrinsic, src, src.numel, 1, chained=chained)
        self.wrote(dst)
        if self.numerics:
            depth, width = self.depth, lanes.numel
            values = src.values(depth)
            rows = values.reshape(*values.shape[:depth], -1, width)
            result = _FUNCTIONS[intrinsic](rows, lanes.values(depth)[..., None, :])
            dst.target(depth)[...] = result.reshape(*result.shape[:depth], dst.numel)
        return dst

    def spread_lanes(self, dst: LocalTensor, lanes: LocalTensor) -> LocalTensor:
        """dst = ``lanes`` in every row of a flat tile, copied row by row (vadds with zero)."""
        self._check_lanes("vadds", dst, lanes)
        if self.recording:
            rows = dst.numel // lanes.numel
            self._record("vadds", dst, lanes.numel, rows, chained=self.reads_last(lanes))
        self.wrote(dst)
        if self.numerics:
            depth = self.depth
            target = dst.target(depth)
            rows = dst.numel // lanes.numel
            target[...] = np.tile(lanes.values(depth), rows)
        return dst

    def fold_lanes(self, fold: Fold, *pairs: tuple[LocalTensor, LocalTensor]) -> None:
        """dst = the rows of a flat tile folded, for each pair (dst, src).

        By halves, all lanes at once.

        Steps of several pairs alternate, so that each waits less for its own last one.
        """
        for dst, src in pairs:
            self._check_lanes(fold.pairwise, src, dst)
            self.require(fold.pairwise, src)
        if self.recording:
            self._record_folds(fold, pairs)
        for dst, src in pairs:
            self.wrote(dst)
            if self.numerics:
                depth = self.depth
                values = src.values(depth)
                rows = values.reshape(*values.shape[:depth], -1, dst.numel)
                fold.function.reduce(rows, axis=depth, out=dst.target(depth), dtype=values.dtype)

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

    def _record(
        self,
        intrinsic: str,
        tensor: LocalTensor,
        elements: int,
        rows: int,
        *,
        chained: bool,
        note: str = "",
    ) -> None:
        """Append an instruction over ``rows`` rows of ``elements`` elements of a tensor's dtype."""
        dtype = tensor.dtype
        cycles = self.costs.vector(
            intrinsic, dtype.intrinsic, dtype.itemsize, elements, rows=rows, chained=chained
        )
        detail = f"{dtype.intrinsic} {rows}x{elements}{note}"
        self.recorder.emit(Pipe.VECTOR, intrinsic, cycles, detail=detail)
