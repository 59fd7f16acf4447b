"""Which source pixels a resized image is made of, and what records say about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor
from typing import TYPE_CHECKING

import numpy as np

from npusim.ascendc.task import Task, made
from npusim.values.errors import KernelError, RefusedTaskError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc import GlobalTensor


@dataclass(frozen=True, slots=True)
class Corners:
    """How places in the two images correspond; half centres unless told otherwise."""

    align_corners: bool = False
    half_pixel_centers: bool = False

    @classmethod
    def of(cls, attributes: Mapping[str, object]) -> Corners:
        """As recorded."""
        return cls(
            attributes.get("align_corners") is True, attributes.get("half_pixel_centers") is True
        )

    def scale(self, inside: int, outside: int) -> float:
        """Source pixels per pixel of the result."""
        if self.align_corners and outside > 1:
            return (inside - 1) / (outside - 1)
        return inside / outside

    def nearest(self, inside: int, outside: int) -> NDArray[np.int64]:
        """The source pixel of every pixel of the result."""
        places = np.arange(outside, dtype=np.float64)
        if self.half_pixel_centers:
            places += 0.5
        places *= self.scale(inside, outside)
        found = np.floor(places + 0.5) if self.align_corners else np.floor(places)
        return np.clip(found, 0, inside - 1).astype(np.int64)

    def between(
        self, inside: int, outside: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
        """The two source pixels of every pixel of the result, and the weight of the second."""
        places = np.arange(outside, dtype=np.float64)
        scale = self.scale(inside, outside)
        if self.half_pixel_centers and not self.align_corners:
            places = np.maximum((places + 0.5) * scale - 0.5, 0.0)
        else:
            places = places * scale
        low = np.clip(np.floor(places), 0, inside - 1).astype(np.int64)
        high = np.minimum(low + 1, inside - 1)
        return low, high, (places - low).astype(np.float32)


FLOORED = Corners()  # what records without attributes mean


@dataclass(frozen=True, slots=True)
class Images:
    """Images as planes of rows: ``lanes`` channels lie together (16 in NC1HWC0, one in NCHW)."""

    planes: int
    height: int
    width: int
    lanes: int

    @classmethod
    def of(cls, op_type: str, tensor: GlobalTensor) -> Images:
        """From [N, C1, H, W, C0] or [N, C, H, W] (or [N, C, W], one row each)."""
        shape = tensor.shape
        if len(shape) == 5:
            return cls(shape[0] * shape[1], shape[2], shape[3], shape[4])
        if len(shape) == 4:
            return cls(shape[0] * shape[1], shape[2], shape[3], 1)
        if len(shape) == 3:
            return cls(shape[0] * shape[1], 1, shape[2], 1)
        raise KernelError(op_type, f"{shape} is no batch of images")

    @classmethod
    def pair(cls, op_type: str, x: GlobalTensor, out: GlobalTensor) -> tuple[Images, Images]:
        """Of an operand and of the result, which have the same planes and lanes or are refused."""
        inside, outside = cls.of(op_type, x), cls.of(op_type, out)
        if (inside.planes, inside.lanes) != (outside.planes, outside.lanes):
            raise RefusedTaskError(op_type, f"{x.shape} doesn't become {out.shape}")
        return inside, outside


def resized(task: Task) -> tuple[GlobalTensor, GlobalTensor, Corners]:
    """The images, the result, and how it is made.

    Where only the size, or a factor, is recorded, the result's shape follows from it.
    """
    (x,) = task.present(1)
    if task.outputs:
        return x, task.outputs[0], Corners.of(task.attributes)
    spatial = slice(2, 4) if len(x.shape) == 5 else slice(2, len(x.shape))
    size, inside = _numbers(task.first("output_size", "size")), x.shape[spatial]
    if size is None:
        factors = _numbers(task.first("scale_factor", "scales"))
        if factors is None:
            raise task.refused("the size of the result isn't known")
        size = [floor(a * b) for a, b in zip(inside, factors, strict=False)]
    if len(size) != len(inside):
        raise task.unfit(f"{inside} can't be resized to {tuple(size)}")
    shape = list(x.shape)
    shape[spatial] = [int(each) for each in size]
    return x, made(tuple(shape), x.dtype), Corners.of(task.attributes)


def _numbers(found: object) -> Sequence[float] | None:
    if isinstance(found, list | tuple) and found:
        return [float(each) for each in found]
    return None
