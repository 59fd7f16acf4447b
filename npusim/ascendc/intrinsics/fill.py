"""Tiles made from nothing: progressions, and elements that a loop of the scalar unit stores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc.issuer import Issuer
from npusim.engine.program import Pipe

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc.tensors import LocalTensor

_ADDRESS_OPERATIONS = 2  # of the scalar ALU per store: a row times its length, plus the column


class Fills(Issuer):
    """The part of :class:`npusim.ascendc.core.Core` that makes up tiles."""

    def arith_progression(self, dst: LocalTensor, first: float, step: float = 1.0) -> LocalTensor:
        """dst[i] = first + i * step in dst's dtype (ArithProgression).

        The scalar unit stores the first block, the vector unit makes every further one from the
        block before (vadds).
        """
        elements = self.block_bytes // dst.dtype.itemsize
        if self.recording:
            scalar, dtype = self.profile.scalar, dst.dtype.intrinsic
            stored = min(elements, dst.numel) * (scalar.alu_cycles + scalar.ub_store_cycles)
            self.recorder.emit(Pipe.SCALAR, "st_ub", stored, detail=f"{dst.buffer} progression")
            for _ in range(elements, dst.numel, elements):
                cycles = self.costs.vector("vadds", dtype, dst.dtype.itemsize, elements)
                self.recorder.emit(Pipe.VECTOR, "vadds", cycles, detail=f"{dtype} {elements}")
        self.wrote(dst)
        if self.numerics:
            target = dst.target(self.depth)
            kind = target.dtype.type
            steps = np.arange(dst.numel, dtype=target.dtype).reshape(dst.shape)
            target[...] = kind(first) + steps * kind(step)
        return dst

    def set_values(
        self, dst: LocalTensor, places: NDArray[np.intp] | None, value: float, count: int
    ) -> None:
        """dst[place] = value for ``count`` places of a flat tile, one SetValue at a time in a loop.

        ``places`` has the stack axes of the loops in front; None in a run without numbers.
        """
        if self.recording:
            scalar = self.profile.scalar
            each = scalar.ub_store_cycles + scalar.loop_cycles
            each += _ADDRESS_OPERATIONS * scalar.alu_cycles
            self.wait_vector()
            self.recorder.emit(
                Pipe.SCALAR, "st_ub", count * each, detail=f"{dst.buffer} {count} stores"
            )
        if self.numerics and places is not None:
            target: NDArray[Any] = dst.target(self.depth, whole=False)
            np.put_along_axis(target, places, value, axis=-1)
