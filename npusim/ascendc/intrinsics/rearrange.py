"""Bringing tiles into another order in UB: lines turned, runs moved, elements moved one by one.

Each intrinsic records one instruction of a rearrangement; what the instructions amount to together
is computed once, by :meth:`Rearranging.arrange`.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc.issuer import Issuer
from npusim.engine.program import Pipe

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from npusim.ascendc.tensors import LocalTensor

_LINES = 16  # lines that vnchwconv turns at a time, and the half-type elements of each
_HALF_BYTES = 2


class Rearranging(Issuer):
    """The rearranging part of :class:`npusim.ascendc.core.Core`."""

    def turn_lines(self, dst: LocalTensor, src: LocalTensor, repeats: int) -> None:
        """One vnchwconv on 16-bit elements: ``repeats`` times 16 lines of 32 bytes, turned."""
        if self.recording and repeats:
            elements = repeats * _LINES * _LINES
            cycles = self.costs.vector(
                "vnchwconv", "float16", _HALF_BYTES, elements, chained=self.reads_last(src)
            )
            note = f"{repeats} x 16 lines"
            self.recorder.emit(Pipe.VECTOR, "vnchwconv", cycles, detail=note)
        self.wrote(dst)

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

        ``stride`` is how many blocks apart they are stored, if they are. Where that always meets
        the same bank groups the blocks are stored one by one.
        """
        if self.recording and bursts:
            path = self.profile.paths.ub_to_ub
            each = max(blocks * self.block_bytes / path.bytes_per_cycle, path.burst_cycles)
            if stride and stride % self.profile.buffers.ub_bank_groups == 0:
                each = blocks + path.burst_cycles
            note = f"{bursts}x{blocks * self.block_bytes}B"
            cycles = path.setup_cycles + bursts * each
            self.recorder.emit(Pipe.VECTOR, "copy_ubuf_to_ubuf", cycles, detail=note)
        self.wrote(dst)

    def move_blocks(self, dst: LocalTensor, src: LocalTensor, nbytes: int) -> None:
        """``nbytes`` brought elsewhere in UB by the vector unit, a repeat at a time."""
        if self.recording and nbytes:
            elements = ceil(nbytes / _HALF_BYTES)
            chained = self.reads_last(src)
            cycles = self.costs.vector("ub2ub", "int16", _HALF_BYTES, elements, chained=chained)
            self.recorder.emit(Pipe.VECTOR, "ub2ub", cycles, detail=f"{nbytes} bytes")
        self.wrote(dst)

    def record_vector(
        self, intrinsic: str, dst: LocalTensor, elements: int, *, rows: int = 1
    ) -> None:
        """One vector instruction over ``rows`` rows of ``elements`` elements; computes nothing.

        For instructions that together do what the kernel computes at once.
        """
        if self.recording:
            kind = dst.dtype
            cycles = self.costs.vector(
                intrinsic,
                kind.intrinsic,
                kind.itemsize,
                elements,
                rows=rows,
                chained=self.reads_last(dst),
            )
            note = f"{kind.intrinsic} {rows}x{elements}"
            self.recorder.emit(Pipe.VECTOR, intrinsic, cycles, detail=note)
        self.wrote(dst)

    def move_elements(self, dst: LocalTensor, src: LocalTensor, count: int) -> None:
        """``count`` elements moved by the scalar unit, a load and a store each.

        The scalar unit waits for whoever filled ``src``; use a queue that it empties.
        """
        if self.recording and count:
            scalar = self.profile.scalar
            cycles = count * (scalar.ub_load_cycles + scalar.ub_store_cycles)
            note = f"{src.buffer} to {dst.buffer}, {count} elements"
            self.recorder.emit(Pipe.SCALAR, "ld_st_ub", cycles, detail=note)

    def fetch_element(self, dst: LocalTensor) -> None:
        """One block from L1 to UB, which the scalar unit waits for (copy_cbuf_to_ubuf)."""
        path = self.profile.paths.l1_to_ub
        if self.recording and path is not None:
            cycles = path.setup_cycles + self.block_bytes / path.bytes_per_cycle
            self.recorder.emit(Pipe.SCALAR, "copy_cbuf_to_ubuf", cycles, detail=dst.buffer)

    def permute(
        self, dst: LocalTensor, src: LocalTensor, order: tuple[int, ...] | None = None
    ) -> LocalTensor:
        """dst's numbers are src's, whose axis ``k`` is dst's axis ``order[k]``; no instruction."""
        if self.numerics:
            depth = self.depth
            values = src.values(depth)
            if order is not None:
                places = [depth + order.index(axis) for axis in range(len(order))]
                values = values.transpose(*range(depth), *places)
            np.copyto(dst.target(depth), values.reshape(values.shape[:depth] + dst.shape))
        return dst

    def arrange(
        self, dst: LocalTensor, src: LocalTensor, how: Callable[[NDArray[Any]], NDArray[Any]]
    ) -> LocalTensor:
        """dst = ``how`` of ``src``'s numbers, behind the loops' axes; no instruction."""
        if self.numerics:
            depth = self.depth
            target, found = dst.target(depth), how(src.values(depth))
            target[...] = found.reshape(found.shape[:depth] + dst.shape)
        return dst
