"""Tiles made from nothing: progressions, and elements that a loop of the scalar unit stores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc.issuer import Issuer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc.tensors import LocalTensor

_ADDRESS_OPERATIONS = 2  # of the scalar ALU per store: a row times its length, plus the column


class Fills(Issuer):
    """The part of :class:`npusim.ascendc.core.Core` that makes up tiles."""

    def arith_progression(
        self, dst: LocalTensor, first: float, step: float = 1.0, *, unit: int = 0
    ) -> LocalTensor:
        """dst[i] = first + i * step in dst's dtype (ArithProgression).

        The scalar unit stores the first ``unit`` elements, a block of ArithProgression, and the
        vector unit makes as many at a time from those before (vadds).
        """
        elements = unit or self.block_bytes // dst.dtype.itemsize
        stored = min(elements, dst.numel)
        self.emit_scalar(
            "st_ub", operations=stored, stores=stored, detail=f"{dst.buffer} progression"
        )
        for _ in range(elements, dst.numel, elements):
            self.emit_vector("vadds", dst.dtype, elements, chained=True)
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
        self.wait_vector()
        operations, detail = count * _ADDRESS_OPERATIONS, f"{dst.buffer} {count} stores"
        self.emit_scalar("st_ub", stores=count, turns=count, operations=operations, detail=detail)
        if self.numerics and places is not None:
            target: NDArray[Any] = dst.target(self.depth, whole=False)
            np.put_along_axis(target, places, value, axis=-1)
