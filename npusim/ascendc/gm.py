"""Global memory as a kernel sees it: tensors on buffers, and the slices that they are cut into."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from npusim.ascendc.gm_buffers import GmBuffer, PackedBuffer, SameBytes
from npusim.ascendc.gm_slices import GmSlice, Place
from npusim.ascendc.turns import Turn, UnaskedTurn
from npusim.values.errors import KernelError
from npusim.values.formats import Format
from npusim.values.tensors import contiguous_strides

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.values.dtypes import DType


@dataclass(frozen=True, slots=True)
class GlobalTensor:
    """A tensor in a buffer; ``start`` and ``strides`` count elements of ``dtype``.

    Without strides it is contiguous. ``shape`` is that of the storage ``format``. Loads of
    what is ``past_l2`` find nothing there and leave nothing (SetL2CacheHint, CACHE_MODE_DISABLE).
    """

    buffer: GmBuffer
    dtype: DType
    shape: tuple[int, ...]
    start: int = 0
    strides: tuple[int, ...] | None = None
    format: Format = Format.ND
    past_l2: bool = False

    __iter__ = None  # an index may lie anywhere, so that Python would go on for ever

    @property
    def numel(self) -> int:
        """How many elements there are."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.numel * self.dtype.itemsize

    @property
    def array(self) -> NDArray[Any] | None:
        """The numbers, shaped; None in a run without numbers."""
        data = self.buffer.data
        if data is None:
            return None
        if self.strides is None:
            return data[self.start : self.start + self.numel].reshape(self.shape)
        reach = [(size - 1) * step for size, step in zip(self.shape, self.strides, strict=True)]
        first, last = (self.start + sum(side(0, each) for each in reach) for side in (min, max))
        if self.numel and not 0 <= first <= last < data.size:  # NumPy doesn't look
            raise KernelError("", f"elements {first} to {last} of a tensor of {data.size}")
        steps = tuple(stride * data.itemsize for stride in self.strides)
        return np.lib.stride_tricks.as_strided(data[self.start :], self.shape, steps)

    @property
    def steps(self) -> tuple[int, ...]:
        """Strides in elements, whether or not they were given."""
        return self.strides if self.strides is not None else contiguous_strides(self.shape)

    def view(self, *shape: int) -> GlobalTensor:
        """The same memory under another shape."""
        if prod(shape) != self.numel or self.strides is not None:
            raise KernelError("", f"{self.buffer.name}: {self.shape} can't be viewed as {shape}")
        return GlobalTensor(self.buffer, self.dtype, shape, self.start, past_l2=self.past_l2)

    def reinterpreted(self, dtype: DType, *shape: int) -> GlobalTensor:
        """The first bytes of a whole buffer as numbers of another dtype (ReinterpretCast)."""
        if prod(shape) * dtype.itemsize > self.nbytes or self.strides is not None or self.start:
            raise KernelError("", f"{self.buffer.name}: no {dtype} {shape} in {self.nbytes} bytes")
        return GlobalTensor(SameBytes(self.buffer, self.dtype, dtype), dtype, shape)

    def packed(self, dtype: DType) -> GlobalTensor:
        """Four-bit numbers as a dtype of 32 bits that has eight of them; rows are whole words."""
        *outer, last = self.shape
        if last % 8 or self.strides is not None or self.start:
            raise KernelError("", f"{self.buffer.name}: rows of {last} aren't whole words")
        return GlobalTensor(PackedBuffer(self.buffer), dtype, (*outer, last // 8))

    def permuted(self, order: tuple[int, ...]) -> GlobalTensor:
        """The same memory with its axes in another order."""
        steps = self.steps
        return replace(
            self,
            shape=tuple(self.shape[axis] for axis in order),
            strides=tuple(steps[axis] for axis in order),
        )

    def span(self, start: Place, length: int) -> GmSlice:
        """``length`` elements from element ``start`` of the flattened tensor.

        Of a tensor with strides, if its elements are evenly spaced; else KernelError.
        """
        step = 1 if self.strides is None else self._even_step()
        return GmSlice(self, ((start, step),), (length,), (step,))

    def _even_step(self) -> int:
        """From each element of the flattened tensor to the next."""
        pairs = zip(self.shape, self.steps, strict=True)
        axes = [(size, step) for size, step in pairs if size != 1]
        for (_, outer), (size, inner) in pairwise(axes):
            if outer != size * inner:
                raise KernelError(
                    "",
                    f"a span of {self.buffer.name} {list(self.shape)} with strides "
                    f"{list(self.steps)}, whose elements aren't evenly spaced",
                    "Index it (x[row, first : first + n]), or launch with a contiguous copy.",
                )
        return axes[-1][1] if axes else 1

    def window(
        self, places: tuple[tuple[Place, int], ...], shape: tuple[int, ...], steps: tuple[int, ...]
    ) -> GmSlice:
        """A tile of ``shape`` with strides ``steps`` at the sum of ``places`` (index, stride)."""
        window = GmSlice(self, places, shape, steps)
        window.raw = True
        return window

    def __getitem__(self, index: Place | slice | tuple[Place | slice, ...]) -> GmSlice:
        items = index if isinstance(index, tuple) else (index,)
        places: list[tuple[Place, int]] = []
        shape: list[int] = []
        kept: list[int] = []
        steps = self.steps
        if len(items) > len(self.shape):
            raise KernelError("", f"{self.buffer.name} {list(self.shape)} has no axis {len(items)}")
        for axis, size in enumerate(self.shape):
            item = items[axis] if axis < len(items) else slice(None)
            if isinstance(item, slice):
                start, length = self._cut(item, size)
                places.append((start, steps[axis]))
                shape.append(length)
                kept.append(steps[axis])
            else:
                places.append((item, steps[axis]))
        return GmSlice(self, tuple(places), tuple(shape), tuple(kept))

    def _cut(self, part: slice, size: int) -> tuple[Place, int]:
        """Where a slice of an axis begins, which a turn may move, and how long it is."""
        if type(part.start) is UnaskedTurn and type(part.stop) is UnaskedTurn and not part.step:
            first, last = part.start.reach, part.stop.reach
            if all(0 <= one <= two <= size for one, two in zip(first, last, strict=True)):
                return cast("Turn", part.start), last[0] - first[0]
        start, stop, step = part.indices(size)
        if step != 1:
            raise KernelError("", f"{self.buffer.name}: a tile of every {step}th element")
        moves = isinstance(part.start, Turn) and start == part.start
        return part.start if moves else start, max(0, stop - start)
