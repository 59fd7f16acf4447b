"""Copies of programs: between global memory and UB, and within UB."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc.flat.global_order import Runs
from npusim.ascendc.flat.memory import Place, View
from npusim.ascendc.flat.station import Station
from npusim.ascendc.gm import GlobalTensor
from npusim.ascendc.gm_buffers import GmBuffer
from npusim.ascendc.gm_slices import GmSlice
from npusim.engine.program import Pipe
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import UINT8
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.values.dtypes import DType


class DeviceMemory:
    """An array of the program in global memory, as elements of any type."""

    def __init__(self, name: str, data: NDArray[Any]) -> None:
        self.shape, self.kind = data.shape, data.dtype
        self.name, self.bytes = name, data.reshape(-1).view("uint8")
        self._first = GmBuffer(name, self.bytes.size, self.bytes)
        self._as: dict[DType, GmBuffer] = {}

    def buffer(self, dtype: DType) -> GmBuffer:
        """The same memory as elements of ``dtype``, as far as there are whole ones."""
        if dtype not in self._as:
            whole = self.bytes[: self.bytes.size // dtype.itemsize * dtype.itemsize]
            numbers = whole.view(np.dtype(dtype.numpy))
            self._as[dtype] = self._first.shown_as(numbers)
        return self._as[dtype]

    @property
    def number(self) -> int:
        """What instructions call it."""
        return self._first.number

    @property
    def tensor(self) -> GlobalTensor:
        """All of it, as bytes."""
        return GlobalTensor(self._first, UINT8, (self.bytes.size,))


@dataclass(frozen=True, slots=True, eq=False)
class Address:
    """A place in global memory: elements of ``dtype`` from byte ``start`` to byte ``limit``."""

    memory: DeviceMemory
    dtype: DType
    start: int
    limit: int

    def at(self, element: int) -> Address:
        """The address of an element from here."""
        return replace(self, start=self.start + element * self.dtype.itemsize)

    def cast(self, dtype: DType) -> Address:
        """The same bytes as elements of another type."""
        return replace(self, dtype=dtype)

    def runs(self, count: int, length: int, apart: int) -> GmSlice:
        """``count`` runs of ``length`` elements, whose starts are ``apart`` bytes apart.

        Raises KernelError where they go beyond their memory.
        """
        size = self.dtype.itemsize
        end = self.start + (count - 1) * apart + length * size
        if self.start < 0 or end > min(self.limit, self.memory.bytes.size) or apart % size:
            raise KernelError(
                "",
                f"{self.memory.name} is used up to byte {end}, but ends at byte "
                f"{min(self.limit, self.memory.bytes.size)}",
                "Copy fewer elements, or from an earlier place.",
            )
        if self.start % size:
            raise KernelError("", f"{self.memory.name} at byte {self.start} is no {self.dtype}")
        elements = self.memory.bytes.size // size
        whole = GlobalTensor(self.memory.buffer(self.dtype), self.dtype, (elements,))
        first = self.start // size
        if count == 1:
            return whole.window(((first, 1),), (length,), (1,))
        return whole.window(((first, 1),), (count, length), (apart // size, 1))


Side = Place | Address


def copy_runs(
    dst: Side, src: Side, count: int, nbytes: int, dst_apart: int, src_apart: int, *, pads: bool
) -> None:
    """``count`` runs of ``nbytes``; ``apart`` are the bytes from one start to the next.

    Runs that ``pads`` may have any length, others are whole blocks of 32 bytes.
    """
    here = Station.here()
    size = dst.dtype.itemsize
    length = nbytes // size
    if nbytes % size:
        raise KernelError(here.core.kernel_name, f"runs of {nbytes} bytes are no {dst.dtype}")
    sides = [
        side.runs(count, length, apart)
        if isinstance(side, Address)
        else _runs(side, count, length, apart)
        for side, apart in ((dst, dst_apart), (src, src_apart))
    ]
    target, source = sides
    reads = [source] if isinstance(source, View) else []
    writes = [target] if isinstance(target, View) else []
    core = here.core
    pipe = Pipe.MTE2 if isinstance(source, GmSlice) else Pipe.MTE3
    if reads and writes:
        with here.order.touching(Pipe.VECTOR, reads, writes):
            core.move(target, source)  # type: ignore[arg-type]
        return
    moved = (count, nbytes, dst_apart, src_apart)
    with _touching_global(pipe, dst, src, moved), here.order.touching(pipe, reads, writes):
        (core.data_copy_pad if pads else core.data_copy)(target, source)


@contextmanager
def _touching_global(
    pipe: Pipe, dst: Side, src: Side, runs: tuple[int, int, int, int]
) -> Iterator[None]:
    """Inside, a copy reads or writes global memory."""
    here, (count, nbytes, dst_apart, src_apart) = Station.here(), runs
    if isinstance(dst, Address):
        stored = Runs.apart(dst.start, count, nbytes, dst_apart)
        with here.storing(pipe, dst.memory.buffer(dst.dtype), stored):
            yield
    else:
        yield
    if isinstance(src, Address):
        loaded = Runs.apart(src.start, count, nbytes, src_apart)
        here.loaded(pipe, src.memory.buffer(src.dtype), loaded)


def _runs(place: Place, count: int, length: int, apart: int) -> View:
    size = place.dtype.itemsize
    if count == 1 or apart == length * size:
        shape = (length,) if count == 1 else (count, length)
        return View(place, shape, (size,) if count == 1 else (apart, size))
    return View(place, (count, length), (apart, size), turns=count)


def copy(dst: Side, src: Side, count: int) -> None:
    """``count`` elements in a row (DataCopy)."""
    nbytes = count * dst.dtype.itemsize
    copy_runs(dst, src, 1, nbytes, 0, 0, pads=False)


def copy_blocks(dst: Side, src: Side, count: int, blocks: int, src_gap: int, dst_gap: int) -> None:
    """Runs of blocks of 32 bytes with gaps of blocks (DataCopy with DataCopyParams)."""
    block = Station.here().core.block_bytes
    apart = ((blocks + dst_gap) * block, (blocks + src_gap) * block)
    copy_runs(dst, src, count, blocks * block, *apart, pads=False)


def copy_pad(
    dst: Side,
    src: Side,
    count: int,
    nbytes: int,
    src_gap: int,
    dst_gap: int,
    *,
    left: int = 0,
    right: int = 0,
    fill: float | None = None,
) -> None:
    """Runs of any length; those in UB start at whole blocks (DataCopyPad).

    Gaps are bytes in global memory and blocks in UB. ``left`` and ``right`` are elements of
    ``fill`` that are put around each run on its way into UB.
    """
    core = Station.here().core
    size = dst.dtype.itemsize
    local = round_up(nbytes + (left + right) * size, core.block_bytes)
    gaps = [
        nbytes + gap if isinstance(side, Address) else local + gap * core.block_bytes
        for side, gap in ((dst, dst_gap), (src, src_gap))
    ]
    if isinstance(dst, Place):
        _fill_padding(dst, count, nbytes, gaps[0], (left, right), fill)
        if left:
            _copy_behind_padding(dst, src, count, nbytes, gaps, left)
            return
    copy_runs(dst, src, count, nbytes, *gaps, pads=True)


def _copy_behind_padding(
    dst: Place, src: Side, count: int, nbytes: int, gaps: list[int], left: int
) -> None:
    """Runs that start behind elements of padding, so at no whole block."""
    here = Station.here()
    size = dst.dtype.itemsize
    assert isinstance(src, Address)
    shape, steps = (count, nbytes // size), (gaps[0], size)
    target = View(dst.at(left), shape, steps, turns=count, aligned=False)
    source = src.runs(count, nbytes // size, gaps[1])
    moved = (count, nbytes, 0, gaps[1])
    touched = here.order.touching(Pipe.MTE2, (), [target])
    with _touching_global(Pipe.MTE2, dst, src, moved), touched:
        here.core.data_copy_pad(target, source)


def _fill_padding(
    dst: Place, count: int, nbytes: int, apart: int, around: tuple[int, int], fill: float | None
) -> None:
    """What a padded copy puts around each run: a number, or any bytes up to the end of a block."""
    here = Station.here()
    size = dst.dtype.itemsize
    left, right = around
    length = nbytes // size
    ends = round_up((left + length + right) * size, here.core.block_bytes) // size
    room = min(ends, dst.length - (count - 1) * apart // size)
    for first, last in ((0, left), (left + length, room)):
        if first >= last:
            continue
        part = View(dst.at(first), (count, last - first), (apart, size), aligned=False)
        with here.order.touching(Pipe.MTE2, (), [part]):
            part.target(0)[...] = fill or 0
