"""Reductions along the last axis of a tile."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.dialect.local import LocalTensor
from npusim.dialect.vector import Vector
from npusim.engine.program import Pipe
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from collections.abc import Callable


class Reductions(Vector):
    """The reducing part of :class:`npusim.dialect.core.Core`."""

    def reduce_sum(self, dst: LocalTensor, src: LocalTensor) -> LocalTensor:
        """dst[...] = sum of src over its last axis (ReduceSum: halves added until one repeat is left, then vcadd)."""
        return self._reduce("vadd", "vcadd", np.add.reduce, dst, src)

    def reduce_max(self, dst: LocalTensor, src: LocalTensor) -> LocalTensor:
        """dst[...] = largest element of src along its last axis (halves, then vcmax)."""
        return self._reduce("vmax", "vcmax", np.maximum.reduce, dst, src)

    def reduce_min(self, dst: LocalTensor, src: LocalTensor) -> LocalTensor:
        """dst[...] = smallest element of src along its last axis (halves, then vcmin)."""
        return self._reduce("vmin", "vcmin", np.minimum.reduce, dst, src)

    def fold_rows(self, dst: LocalTensor, src: LocalTensor) -> LocalTensor:
        """dst = sum of the rows of src, by adding the lower half to the upper one until one row is left (vadd)."""
        if dst.shape != src.shape[1:]:
            raise KernelError(
                self.kernel_name, f"rows of shape {src.shape} folded into {dst.shape}"
            )
        self._require("vadd", src)
        if self.recording:
            rows, chained = src.shape[0], self.reads_last(src)
            while rows > 1:
                rows = ceil(rows / 2)
                cycles = self.costs.vector(
                    "vadd",
                    src.dtype.intrinsic,
                    src.dtype.itemsize,
                    src.row_elements,
                    rows=rows,
                    chained=chained,
                )
                self.recorder.emit(
                    Pipe.VECTOR, "vadd", cycles, detail=f"{rows}x{src.row_elements} halves"
                )
                chained = True
        self.wrote(dst)
        if self.numerics:
            depth = self.depth
            values = src.values(depth)
            np.add.reduce(values, axis=depth, out=dst.target(depth), dtype=values.dtype)
        return dst

    def _reduce(
        self,
        pairwise: str,
        final: str,
        function: Callable[..., Any],
        dst: LocalTensor,
        src: LocalTensor,
    ) -> LocalTensor:
        if dst.shape not in (src.shape[:-1], (*src.shape[:-1], 1)):
            raise KernelError(self.kernel_name, f"{final} from shape {src.shape} into {dst.shape}")
        self._require(pairwise, src)
        if self.recording:
            self._record_tree(pairwise, final, src)
        self.wrote(dst)
        if self.numerics:
            depth = self.depth
            keep = len(dst.shape) == len(src.shape)
            values = src.values(depth)
            function(values, axis=-1, out=dst.target(depth), dtype=values.dtype, keepdims=keep)
        return dst

    def _record_tree(self, pairwise: str, final: str, src: LocalTensor) -> None:
        itemsize, dtype, rows = src.dtype.itemsize, src.dtype.intrinsic, src.rows
        lanes = self.costs.repeat_elements(itemsize)
        length, chained = src.row_elements, self.reads_last(src)
        # A chip whose final reduction lacks the dtype goes on halving inside the last repeat.
        stop = lanes if self.profile.supports_vector(final, dtype) else 1
        while length > stop:
            length = ceil(length / 2)
            cycles = self.costs.vector(
                pairwise, dtype, itemsize, length, rows=rows, chained=chained
            )
            self.recorder.emit(
                Pipe.VECTOR, pairwise, cycles, detail=f"{dtype} {rows}x{length} halves"
            )
            chained = True
        if stop > 1:
            cycles = self.costs.vector(final, dtype, itemsize, length, rows=rows, chained=chained)
            self.recorder.emit(Pipe.VECTOR, final, cycles, detail=f"{dtype} {rows}x{length}")
