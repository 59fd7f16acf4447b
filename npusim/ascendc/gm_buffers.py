"""Pieces of device memory, and the same pieces read as numbers of another dtype."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.values.dtypes import DType

_numbers = count(1)


class GmBuffer:
    """A piece of device memory. ``data`` is its flat content, None in a run without numbers.

    ``wide`` keeps half-type numbers as float32 between the tasks of a chain that rounds once, at
    its end; traffic and time stay those of the half type. ``asked`` says whether anybody has asked
    for ``data`` since it was last set to False.
    """

    __slots__ = ("_data", "asked", "name", "nbytes", "number", "wide")

    def __init__(
        self, name: str, nbytes: int, data: NDArray[Any] | None = None, *, wide: bool = False
    ) -> None:
        self.name, self.nbytes, self.wide, self.number = name, nbytes, wide, next(_numbers)
        self._data, self.asked = data, False

    def shown_as(self, data: NDArray[Any] | None, **others: Any) -> GmBuffer:
        """The same memory, as far as traffic is concerned, with other numbers or attributes."""
        given: dict[str, Any] = {"name": self.name, "nbytes": self.nbytes, "wide": self.wide}
        found = GmBuffer(data=data, **given | others)
        found.number = self.number
        return found

    @property
    def data(self) -> NDArray[Any] | None:
        """The flat content."""
        self.asked = True
        return self._data

    @data.setter
    def data(self, value: NDArray[Any] | None) -> None:
        self._data = value

    @property
    def has_data(self) -> bool:
        """Whether there is a content, whatever it is."""
        return self._data is not None


class _PartOfOther(GmBuffer):
    """The memory of another buffer, read in another way."""

    __slots__ = ("_whole",)
    _whole: GmBuffer

    @property
    def asked(self) -> bool:
        """Of the other."""
        return self._whole.asked

    @asked.setter
    def asked(self, value: bool) -> None:
        self._whole.asked = value

    @property
    def has_data(self) -> bool:
        """Of the other."""
        return self._whole.has_data


class SameBytes(_PartOfOther):
    """A buffer as numbers of another dtype; what is written to one is in both."""

    __slots__ = ("_kind", "_own")

    def __init__(self, whole: GmBuffer, own: DType, kind: DType) -> None:
        self._whole, self._own, self._kind = whole, own, kind
        self.name, self.nbytes, self.wide, self.number = (
            whole.name,
            whole.nbytes,
            False,
            whole.number,
        )

    @property
    def data(self) -> NDArray[Any] | None:
        """The bytes of the whole buffer, as far as they are whole numbers."""
        data = self._whole.data
        if data is None:
            return None
        held = data.view(np.uint8)
        size = self._kind.itemsize
        found: NDArray[Any] = held[: held.size // size * size].view(np.dtype(self._kind.numpy))
        return found

    @data.setter
    def data(self, value: NDArray[Any] | None) -> None:
        """Memory for the whole buffer, or none."""
        count = self._whole.nbytes // self._own.itemsize
        self._whole.data = None if value is None else np.zeros(count, self._own.numpy)


class PackedBuffer(_PartOfOther):
    """A buffer of four-bit numbers, which NumPy keeps in a byte each, as words of the device."""

    __slots__ = ("_words",)

    def __init__(self, whole: GmBuffer) -> None:
        self._whole = whole
        self._words: NDArray[Any] | None = None
        self.name, self.nbytes, self.wide = whole.name, whole.nbytes, False
        self.number = whole.number

    @property
    def data(self) -> NDArray[Any] | None:
        """Eight numbers in a word, the first in its lowest bits; inputs, which stay as they are."""
        given = self._whole.data
        if given is None:
            return None
        if self._words is None:
            bits = given.astype(np.int8).view(np.uint8).reshape(-1, 8).astype(np.uint32) & 15
            words = np.bitwise_or.reduce(bits << np.arange(0, 32, 4, dtype=np.uint32), 1)
            self._words = words.view(np.int32)
        return self._words

    @data.setter
    def data(self, value: NDArray[Any] | None) -> None:
        del value  # nobody writes it
