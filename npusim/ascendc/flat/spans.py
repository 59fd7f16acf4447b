"""Which elements a vector instruction of a program covers: a count, or masked repeats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, Protocol

import numpy as np

from npusim.ascendc.flat.memory import View
from npusim.values.dtypes import FLOAT
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc.flat.memory import Place

_BLOCKS = 8  # of a repeat
_BITS = 64  # of each word of a mask
_MOST_REPEATS = 255  # of one instruction, and blocks from one to the next
_MOST_APART = 65535  # blocks of a repeat
_WORD_BITS = 64  # of a mask


class Span(Protocol):
    """What an instruction covers of each of its operands, the target being number 0."""

    def view(self, place: Place, operand: int) -> View: ...
    def kept(self, view: View) -> NDArray[np.bool_] | None:
        """Which elements stay as they are, None where none does."""


@dataclass(frozen=True, slots=True)
class Count:
    """The first elements of every operand."""

    count: int

    def view(self, place: Place, operand: int) -> View:  # noqa: ARG002 - all are alike
        return place.run(self.count)

    def kept(self, view: View) -> NDArray[np.bool_] | None:  # noqa: ARG002 - none is
        return None


@dataclass(frozen=True, slots=True)
class Repeats:
    """So many repeats of eight blocks; ``strides`` are the blocks from block to block and repeat.

    ``mask`` counts the lanes from the first one on, or has a bit for each of them.
    """

    mask: int | Sequence[int]
    times: int
    strides: tuple[tuple[int, int], ...]

    def view(self, place: Place, operand: int) -> View:
        block = place.memory.core.block_bytes
        size = place.dtype.itemsize
        apart, turn = self.strides[operand]
        lanes = self._lanes(place)
        if not (0 <= apart <= _MOST_APART and 0 <= turn <= _MOST_REPEATS):
            raise KernelError(
                place.memory.core.kernel_name,
                f"{place.name}: strides of {apart} blocks and {turn} between repeats",
                f"Strides of repeats are 0 to {_MOST_REPEATS} blocks of 32 bytes.",
            )
        if not 0 <= self.times <= _MOST_REPEATS:
            raise KernelError(
                place.memory.core.kernel_name,
                f"{self.times} repeats",
                f"An instruction has 0 to {_MOST_REPEATS}; use several, or give a count.",
            )
        each = block // size
        if any(apart != 1 for apart, _ in self.strides):
            if lanes % each:
                self._refuse_ragged(place, lanes)
            blocks = (self.times, lanes // each, each)
            return View(place, blocks, (turn * block, apart * block, size), turns=self.times)
        if all(turn * block == lanes * size for _, turn in self.strides):
            return place.run(self.times * lanes)
        return View(place, (self.times, lanes), (turn * block, size), turns=self.times)

    def kept(self, view: View) -> NDArray[np.bool_] | None:
        if isinstance(self.mask, int):
            return None
        bits = _bits(self.mask)[: self._lanes(view.place)]
        if bits.all():
            return None
        turns = np.broadcast_to(bits, (self.times, bits.size))
        return ~turns.reshape(view.shape)

    def _lanes(self, place: Place) -> int:
        most = _BLOCKS * place.memory.core.block_bytes // place.dtype.itemsize
        if isinstance(self.mask, int):
            lanes = self.mask
        else:
            one = place.dtype.itemsize >= FLOAT.itemsize  # word of the mask is read for these
            every = _bits(self.mask[:1] if one else self.mask)
            bits = every[:most]
            # Of elements of 32 bits and more, one word is read (asc-devkit, the page on masks).
            if every[most:_WORD_BITS].any():
                raise KernelError(
                    place.memory.core.kernel_name,
                    f"a mask with bits beyond the {most} elements of a repeat",
                    "Leave bits of elements that a repeat hasn't got at 0.",
                )
            lanes = int(np.flatnonzero(bits)[-1]) + 1 if bits.any() else 0
        if not 0 < lanes <= most:
            raise KernelError(
                place.memory.core.kernel_name,
                f"a mask of {lanes} lanes",
                f"A repeat has 1 to {most} elements of {place.dtype}.",
            )
        return lanes

    def _refuse_ragged(self, place: Place, lanes: int) -> NoReturn:
        raise KernelError(
            place.memory.core.kernel_name,
            f"{place.name}: a mask of {lanes} lanes over blocks that lie apart",
            "Mask whole blocks, or use a block stride of 1.",
        )


def _bits(mask: Sequence[int]) -> NDArray[np.bool_]:
    words = np.array([int(word) & (2**_BITS - 1) for word in mask], "<u8")
    return np.unpackbits(words.view(np.uint8), bitorder="little").astype(np.bool_)
