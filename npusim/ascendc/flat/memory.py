"""On-chip memories as bytes, and the places in them that a program's tensors are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc.tensors import LocalTensor
from npusim.values.errors import AlignmentError, KernelError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc.core import Core
    from npusim.ascendc.tile_states import Tile
    from npusim.values.dtypes import DType


_BLOCK = 32  # bytes that are told apart
_BLOCKS_AXIS = 1  # of (repeats, blocks, lanes)


class Memory:
    """One memory of one core; ``filled`` says which bytes the block has written."""

    def __init__(self, core: Core, name: str) -> None:
        self.core, self.name = core, name
        self.nbytes = core.capacity_bytes(name)
        self.bytes = np.zeros(self.nbytes, np.uint8)
        self.filled = np.zeros(self.nbytes, np.bool_)


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """A tensor of a program: elements of ``dtype`` from byte ``start`` on, up to byte ``limit``.

    ``tile`` is its slot of a queue, if it lies in one; ``name`` is what errors call it.
    """

    memory: Memory
    dtype: DType
    start: int
    limit: int
    name: str
    tile: Tile | None = None

    @property
    def buffer(self) -> str:
        """Its name, as a queue asks for it."""
        return self.name

    @property
    def length(self) -> int:
        """Elements up to its end."""
        return (self.limit - self.start) // self.dtype.itemsize

    def at(self, element: int) -> Place:
        """The same tensor from an element on."""
        return replace(self, start=self.start + element * self.dtype.itemsize)

    def cast(self, dtype: DType) -> Place:
        """The same bytes as elements of another type (ReinterpretCast)."""
        return replace(self, dtype=dtype)

    def run(self, count: int, *, aligned: bool = True) -> View:
        """``count`` elements in a row."""
        return View(self, (count,), (self.dtype.itemsize,), aligned=aligned)

    def element(self, index: int) -> View:
        """One element, for the scalar unit."""
        return self.at(index).run(1, aligned=False)


class View(LocalTensor):
    """Elements of a place, ``steps`` bytes apart along each axis; ``turns`` are its repeats.

    Raises KernelError where it goes beyond its tensor, AlignmentError for addresses that the vector
    unit and the copies can't start at.
    """

    __slots__ = ("place", "steps", "turns")

    def __init__(
        self,
        place: Place,
        shape: tuple[int, ...],
        steps: tuple[int, ...],
        *,
        turns: int = 1,
        aligned: bool = True,
    ) -> None:
        memory, start = place.memory, place.start
        slot = (memory.name, start)
        super().__init__(
            memory.core,
            place.dtype,
            shape,
            place.name,
            slot,
            depth=0,
            memory=memory.name,
            tile=place.tile,
        )
        self.place, self.steps, self.turns = place, steps, turns
        self._check_place(aligned=aligned)
        self._array = np.ndarray(shape, place.dtype.numpy, memory.bytes, start, steps)

    def _check_place(self, *, aligned: bool) -> None:
        place, core = self.place, self.core
        if aligned and place.start % core.block_bytes:
            raise AlignmentError(
                core.kernel_name, f"the address of {place.name}", place.start, core.block_bytes
            )
        end, limit = self.end, min(place.limit, place.memory.nbytes)
        if place.start < 0 or end > limit:
            raise KernelError(
                core.kernel_name,
                f"{place.name} is used up to byte {end} of {place.memory.name}, "
                f"but ends at byte {limit}",
                "Use fewer elements or a larger tensor.",
            )

    @property
    def apart(self) -> int:
        """Bytes from one block of a repeat to the next, where they don't follow each other."""
        return self.steps[1] if len(self.shape) > _BLOCKS_AXIS + 1 else self.core.block_bytes

    @property
    def end(self) -> int:
        """The byte behind its last element."""
        if not self.numel:
            return self.place.start
        reach = sum((size - 1) * step for size, step in zip(self.shape, self.steps, strict=True))
        return self.place.start + reach + self.dtype.itemsize

    @property
    def held_in(self) -> Memory:
        """The memory that it is in."""
        return self.place.memory

    @property
    def start(self) -> int:
        """Its first byte."""
        return self.place.start

    @property
    def blocks(self) -> slice:
        """The blocks of 32 bytes from its first byte to its last."""
        return slice(self.start // _BLOCK, -(-self.end // _BLOCK))

    def addresses(self) -> NDArray[np.int64]:
        """The first byte of every element."""
        found = np.full((), self.start, np.int64)
        for size, step in zip(self.shape, self.steps, strict=True):
            found = np.add.outer(found, np.arange(size) * step)
        return found

    def fill(self) -> None:
        """All of its bytes have been written."""
        self.filled[...] = True

    @property
    def rows(self) -> int:
        """The repeats that an instruction goes through."""
        return self.turns

    @property
    def row_elements(self) -> int:
        """Elements of each repeat."""
        return self.numel // max(1, self.turns)

    @property
    def filled(self) -> NDArray[Any]:
        """Which of its bytes have been written, as a view to be changed too."""
        shape, steps = (*self.shape, self.dtype.itemsize), (*self.steps, 1)
        return np.ndarray(shape, np.bool_, self.place.memory.filled, self.place.start, steps)

    def check_read(self) -> None:
        self.check_usable()

    def check_write(self) -> None:
        self.check_usable()

    def alias(self, values: NDArray[Any], *, loaded: bool = False) -> None:  # noqa: ARG002 - every one is copied
        """Copy ``values``: others see these bytes too."""
        assert self._array is not None
        self._array[...] = values.reshape(self.shape)

    def _check_phase(self) -> None:
        """Bytes stay where they are when a core waits for others."""
