"""Tiles that are made in UB or spread out on their way, instead of loaded as they lie, into L1."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.ascendc.intrinsics.copy import Copies
from npusim.engine.program import Pipe

if TYPE_CHECKING:
    from npusim.ascendc.gm_slices import GmSlice
    from npusim.ascendc.tensors import LocalTensor

_AXES = 4  # slices of channels, rows, columns, channels of a slice


class Spreading(Copies):
    """The part of :class:`npusim.ascendc.core.Core` that fills L1 other than by plain copies."""

    def copy_to_l1(self, dst: LocalTensor, src: LocalTensor) -> None:
        """UB -> L1 (DataCopy, MTE3)."""
        self._expect("copy_to_l1", dst, "L1")
        self._expect("copy_to_l1", src, "UB")
        if dst.numel != src.numel or dst.dtype is not src.dtype:
            self._refuse("copy_to_l1", dst, src)
        src.check_read()
        if self.recording:
            cycles = self.costs.on_chip(self._path("ub_to_l1"), src.numel * src.dtype.itemsize)
            self.recorder.emit(Pipe.MTE3, "copy_ubuf_to_cbuf", cycles, detail=dst.buffer)
        if self.numerics:
            values = src.values(dst.depth)
            dst.alias(values.reshape(values.shape[: dst.depth] + dst.shape))

    def load_spread(
        self, dst: LocalTensor, src: GmSlice, stride: tuple[int, int], first: int
    ) -> None:
        """GM -> L1 with zeros between rows and columns (InitConstValue, DataCopy with gaps, MTE2).

        ``src`` is (C1, rows, columns, C0), of which every element is a burst of its own; row r goes
        to row ``first + r * stride`` of ``dst``, (C1, rows, columns, C0) too, where there is one.
        """
        self._expect("load_spread", dst, "L1")
        if len(dst.shape) != _AXES or len(src.shape) != _AXES:
            self._refuse("load_spread", dst)
        if self.recording:
            path = self._path("gm_to_l1")
            cycles = self.costs.on_chip(path, dst.numel * dst.dtype.itemsize)
            self.recorder.emit(Pipe.MTE2, "create_cbuf_matrix", cycles, detail=dst.buffer)
            runs = src.shape[-1], src.numel // src.shape[-1]
            name = "copy_gm_to_cbuf"
            self._emit_copy(Pipe.MTE2, name, "gm_to_l1", src, write=False, matrix=True, runs=runs)
        if self.numerics:
            values = self._read(src, dst.depth)
            target = dst.target(dst.depth)
            target[...] = 0
            rows = [first + row * stride[0] for row in range(src.shape[1])]
            for row, place in enumerate(rows):
                if 0 <= place < dst.shape[1]:
                    target[..., place, :: stride[1], :] = values[..., row, :, :]
