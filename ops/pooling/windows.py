"""Where the windows of a pooling lie, as attributes tell, or else as the sizes of its images do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, isqrt
from typing import TYPE_CHECKING

import numpy as np

from npusim.operators.results import numbers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc.task import Task

_AXES = 4  # of an image


@dataclass(frozen=True)
class Windows:
    """The windows along one axis: ``out`` of them, ``before`` elements of padding in front."""

    size: int
    out: int
    window: int
    stride: int
    before: int

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """The first element of every window; those in the padding are negative."""
        return np.arange(self.out, dtype=np.int64) * self.stride - self.before

    def elements(self, first: NDArray[np.int64], count: int) -> NDArray[np.int64]:
        """Places of the elements of ``count`` windows in a row: [first, window, element]."""
        wanted = first[:, None] + np.arange(count)
        places: NDArray[np.int64] = self.starts[wanted][..., None] + np.arange(self.window)
        return places

    def holds(self, places: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which places aren't padding."""
        return (places >= 0) & (places < self.size)

    def span(self, count: int) -> int:
        """Elements to load for ``count`` windows in a row."""
        return min(self.size, (count - 1) * self.stride + self.window)

    def loaded_from(self, count: int) -> NDArray[np.int64]:
        """The first element to load for ``count`` windows that begin at each window."""
        return np.clip(self.starts, 0, self.size - self.span(count))


def square_windows(
    task: Task, sizes: Sequence[int], outs: Sequence[int], elements: int
) -> tuple[Windows, Windows]:
    """The windows along height and width, with ``elements`` in a window.

    Attributes are those of the operators' prototypes: ``ksize`` and ``strides`` of NHWC images.
    Where a record has none, windows are square, as far apart as the sizes say, and padded as
    evenly as they have to be (SAME).
    """
    side = isqrt(elements)
    ksize = numbers(task.first("ksize")) or (1, side, ceil(elements / side), 1)
    strides = numbers(task.first("strides"))
    found = []
    for axis, (size, out) in enumerate(zip(sizes, outs, strict=True)):
        window = ksize[1 + axis]
        stride = strides[1 + axis] if strides else max(1, size // out)
        missing = max(0, (out - 1) * stride + window - size)
        found.append(Windows(size, out, window, stride, missing // 2))
    height, width = found
    return height, width


def windows_of(task: Task, sizes: Sequence[int], outs: Sequence[int]) -> tuple[Windows, Windows]:
    """The windows along height and width, as ``ksize``, ``strides`` and ``pads`` tell.

    ``data_format`` says in which order they are, NCHW by default; padding that isn't told is as
    even as it has to be (SAME). Raises KernelError without a ``ksize``, and for windows that don't
    make so many results.
    """
    first = 1 if task.attributes.get("data_format") == "NHWC" else 2
    ksize, strides = numbers(task.first("ksize")), numbers(task.first("strides"))
    pads = numbers(task.first("pads"))
    if not ksize:
        raise task.unsaid("a record without ksize")
    told = [each for each in (ksize, strides, pads) if each]
    if any(len(each) != _AXES for each in told) or min(*ksize, *(strides or (1,))) < 1:
        raise task.unfit("ksize, strides and pads are four numbers each, the first two positive")
    if pads and min(pads) < 0:
        raise task.unfit("padding can't be negative")
    found = []
    for axis, (size, out) in enumerate(zip(sizes, outs, strict=True)):
        window = ksize[first + axis]
        stride = strides[first + axis] if strides else window
        missing = max(0, (out - 1) * stride + window - size)
        before = pads[2 * axis] if pads else missing // 2
        if (out - 1) * stride - before >= size:
            raise task.unfit(f"windows of {window} every {stride} of {size} aren't {out}")
        found.append(Windows(size, out, window, stride, before))
    height, width = found
    return height, width
