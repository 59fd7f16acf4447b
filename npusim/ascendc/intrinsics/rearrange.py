"""Bringing tiles into another order in UB: lines turned, runs moved, elements moved one by one.

Each intrinsic records one instruction of a rearrangement; what the instructions amount to together
is computed once, by :meth:`Rearranging.arrange`.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any

from npusim.ascendc.costs import TURNED_LINES
from npusim.ascendc.issuer import Issuer
from npusim.engine.program import Pipe
from npusim.values.dtypes import FLOAT16, INT16
from npusim.values.errors import KernelError, UnsupportedIntrinsicError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from npusim.ascendc.tensors import LocalTensor


class Rearranging(Issuer):
    """The rearranging part of :class:`npusim.ascendc.core.Core`."""

    def turn_lines(
        self, dst: LocalTensor, src: LocalTensor, repeats: int, *, apart_bytes: int = 0
    ) -> None:
        """One vnchwconv on 16-bit elements: ``repeats`` times 16 lines of 32 bytes, turned.

        ``apart_bytes`` is how far lines are from each other on the side that isn't contiguous.
        """
        if repeats:
            elements, chained = repeats * TURNED_LINES * TURNED_LINES, self.reads_last(src)
            note, kind = f"{repeats} x 16 lines", FLOAT16
            waited = repeats * self.costs.line_cycles(TURNED_LINES, apart_bytes)
            if waited:
                size = (kind.itemsize, elements)
                own = self.costs.vector("vnchwconv", kind.intrinsic, *size, chained=chained)
                self.slowed = max(1.0, waited / own)
            self.emit_vector("vnchwconv", kind, elements, chained=chained, detail=note)
            self.slowed = 1.0
        self.noted(dst)

    def move_bursts(
        self,
        dst: LocalTensor,
        src: LocalTensor,  # noqa: ARG002 - where the bursts come from
        bursts: int,
        blocks: int,
        *,
        stride: int = 0,
    ) -> None:
        """One copy_ubuf_to_ubuf of ``bursts`` runs of ``blocks`` blocks.

        ``stride`` is how many blocks apart they are stored, if they are.
        """
        if self.recording and bursts:
            note = f"{bursts}x{blocks * self.block_bytes}B"
            cycles = self.costs.ub_bursts(bursts, blocks, stride)
            self.recorder.emit(Pipe.VECTOR, "copy_ubuf_to_ubuf", cycles, detail=note)
        self.noted(dst)

    def move_blocks(self, dst: LocalTensor, src: LocalTensor, nbytes: int) -> None:
        """``nbytes`` brought elsewhere in UB by the vector unit, a repeat at a time."""
        if nbytes:
            elements, chained = ceil(nbytes / INT16.itemsize), self.reads_last(src)
            self.emit_vector("ub2ub", INT16, elements, chained=chained, detail=f"{nbytes} bytes")
        self.noted(dst)

    def record_vector(
        self, intrinsic: str, dst: LocalTensor, elements: int, *, rows: int = 1
    ) -> None:
        """One vector instruction over ``rows`` rows of ``elements`` elements; computes nothing.

        For instructions that together do what the kernel computes at once.
        """
        self.emit_vector(intrinsic, dst.dtype, elements, rows=rows, chained=self.is_last(dst))
        self.noted(dst)

    def move_elements(self, dst: LocalTensor, src: LocalTensor, count: int) -> None:
        """``count`` elements moved by the scalar unit, a load and a store each.

        The scalar unit waits for whoever filled ``src``; use a queue that it empties.
        """
        if count:
            note = f"{src.buffer} to {dst.buffer}, {count} elements"
            self.emit_scalar("ld_st_ub", loads=count, stores=count, detail=note)
            self.filled(dst)

    def img2col(self, dst: LocalTensor, elements: int) -> None:
        """The windows of 16 pixels from L1 to UB, a fractal for each of their ``elements``.

        load3dv1 on MTE1; not on chips without a way from L1 to UB.
        """
        path = self.profile.paths.l1_to_ub
        if path is None:
            raise UnsupportedIntrinsicError(
                self.kernel_name, "load3dv1", dst.dtype.intrinsic, self.profile.name, ()
            )
        if self.recording:
            nbytes = elements * TURNED_LINES * TURNED_LINES * dst.dtype.itemsize
            cycles = self.costs.on_chip(path, nbytes)
            self.recorder.emit(Pipe.MTE1, "load3dv1", cycles, detail=f"{elements} fractals")
        self.filled(dst)

    def fetch_element(self, dst: LocalTensor) -> None:
        """One block from L1 to UB, which the scalar unit waits for (copy_cbuf_to_ubuf)."""
        path = self.profile.paths.l1_to_ub
        if self.recording and path is not None:
            cycles = self.costs.on_chip(path, self.block_bytes)
            self.recorder.emit(Pipe.SCALAR, "copy_cbuf_to_ubuf", cycles, detail=dst.buffer)

    def arrange(
        self,
        dst: LocalTensor,
        *sources: LocalTensor,
        how: Callable[..., NDArray[Any]] = lambda values: values,
        shows: bool = False,
    ) -> LocalTensor:
        """dst = ``how`` of the sources' numbers behind the loops' axes, by the instructions before.

        With ``shows`` the host makes no copy of those in other places, for what is stored next.
        KernelError where there is none that puts anything into ``dst``.
        """
        if self.recording and dst.slot not in self._filled:
            raise KernelError(
                self.kernel_name,
                f"no instruction brings what {sources[0].buffer} has to {dst.buffer}",
                "Write down what moves it: turn_lines, move_bursts, move_blocks or move_elements.",
            )
        self._filled.discard(dst.slot)
        if self.numerics:
            depth = self.depth
            found = how(*(each.values(depth) for each in sources))
            found = found.reshape(found.shape[:depth] + dst.shape)
            if shows and dst.depth == depth:
                dst.alias(found)
            else:
                dst.target(depth)[...] = found
        return dst
