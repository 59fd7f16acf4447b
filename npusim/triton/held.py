"""What a value of a program is while it is played: a tile, or a piece of memory."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc import Pipe
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc import GmBuffer, LocalTensor, TQue
    from npusim.values.dtypes import DType


class Unknown:
    """A number that only the data of a run tells, in a run that has none."""

    def __repr__(self) -> str:
        return "a number that depends on data"


UNKNOWN = Unknown()


@dataclass(eq=False, slots=True)
class Loan:
    """A slot of a queue that several values show; it is free when none of them is needed."""

    queue: TQue
    local: LocalTensor | None
    holders: int = 1
    ready: bool = False  # for those who read it
    by: Pipe = Pipe.VECTOR  # who frees it where nobody has read it

    def give_back(self) -> None:
        """One of them isn't needed any more."""
        self.holders -= 1
        if not self.holders and self.local is not None:
            self.queue.free_tensor(self.local, None if self.ready else self.by)
            self.local = None


@dataclass(eq=False, slots=True)
class Tile:
    """A tensor: its numbers, if the run has any, and the tile that instructions are written for.

    ``number`` is what all its elements are, where that is known: no instruction has filled it yet.
    """

    dtype: DType
    shape: tuple[int, ...]
    array: NDArray[Any] | None = None
    local: LocalTensor | None = None
    loan: Loan | None = None
    number: Any = None
    turned: bool = False  # rows and columns: a matrix that the cube loads transposed

    @property
    def numel(self) -> int:
        """How many elements there are."""
        return prod(self.shape)

    @property
    def is_number(self) -> bool:
        """Whether all its elements are one number that no instruction has written yet."""
        return self.number is not None


@dataclass(eq=False, slots=True)
class GlobalPiece:
    """A piece of global memory: elements at ``offset``, ``strides`` apart along each axis."""

    buffer: GmBuffer
    data: NDArray[Any] | None
    dtype: DType
    offset: Any = 0  # a number, or UNKNOWN
    sizes: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    moved_by: object = None  # the operation that says where it lies

    @property
    def numel(self) -> int:
        """How many elements there are."""
        return prod(self.sizes)

    def cut(
        self, offsets: tuple[int, ...], sizes: tuple[int, ...], steps: tuple[int, ...]
    ) -> GlobalPiece:
        """A part of it."""
        moved = sum(each * stride for each, stride in zip(offsets, self.strides, strict=True))
        strides = tuple(a * b for a, b in zip(self.strides, steps, strict=True))
        return replace(self, offset=self.offset + moved, sizes=sizes, strides=strides)

    def reach(self) -> tuple[int, int]:
        """The first element and the one behind the last."""
        ends = [(n - 1) * step for n, step in zip(self.sizes, self.strides, strict=True)]
        low, high = sum(min(0, each) for each in ends), sum(max(0, each) for each in ends)
        return self.offset + low, self.offset + high + 1

    def array(self) -> NDArray[Any]:
        """Its numbers, in place."""
        data = self.data
        if data is None:
            raise KernelError(self.buffer.name, "has no numbers")
        size = data.itemsize
        steps = tuple(step * size for step in self.strides)
        return np.lib.stride_tricks.as_strided(data[self.offset :], self.sizes, steps)


@dataclass(eq=False, slots=True)
class LocalPiece:
    """A piece of a tile in UB or L1."""

    tile: Tile
    cut: tuple[slice, ...]
    sizes: tuple[int, ...]
    state: dict[str, Any] = field(default_factory=dict)  # shared with all pieces of one allocation

    def array(self) -> NDArray[Any]:
        """Its numbers, in place."""
        if self.tile.array is None:
            raise KernelError("", "a tile has no numbers")
        return self.tile.array[self.cut]
