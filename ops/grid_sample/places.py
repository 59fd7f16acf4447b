"""From a grid of numbers between -1 and 1 to voxels and what each of them weighs."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc.task import Task


@dataclass(frozen=True)
class Sampling:
    """How places are read: between voxels or the nearest one, and what lies outside."""

    nearest: bool = False
    padding: str = "zeros"
    align_corners: bool = False

    @classmethod
    def of(cls, task: Task) -> Sampling:
        """As attributes say, in words or as the numbers of the aclnn interface."""
        mode, padding = task.first("interpolation_mode"), task.first("padding_mode")
        if isinstance(padding, int):
            padding = ("zeros", "border", "reflection")[padding]
        if mode not in (None, 0, 1, "bilinear", "nearest"):
            raise task.refused(f"interpolation_mode {mode}")
        if padding not in (None, "zeros", "border", "reflection"):
            raise task.refused(f"padding_mode {padding}")
        corners = task.first("align_corners") is True
        return cls(mode in (1, "nearest"), str(padding or "zeros"), corners)

    def voxels(self, axes: int) -> int:
        """How many voxels a sample takes."""
        return 1 if self.nearest else 2**axes

    def taken(
        self, grid: NDArray[Any], sizes: tuple[int, ...]
    ) -> list[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        """The voxels of samples [..., x y z], or [..., x y], and their weights; none outside."""
        axes = [
            self._axis(grid[..., -1 - axis].astype(np.float32), size)
            for axis, size in enumerate(sizes)
        ]
        found = []
        for sides in product(range(1 if self.nearest else 2), repeat=len(sizes)):
            places, weights = zip(
                *(axis[side] for axis, side in zip(axes, sides, strict=True)), strict=True
            )
            flat, weight = places[0], weights[0]
            for place, size, share in zip(places[1:], sizes[1:], weights[1:], strict=True):
                flat, weight = flat * size + place, weight * share
            found.append((flat, weight))
        return found

    def _axis(
        self, given: NDArray[np.float32], size: int
    ) -> list[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        """The neighbours along one axis."""
        corners = self.align_corners
        place: NDArray[Any] = (given + 1) * ((size - 1) / 2 if corners else size / 2)
        if not corners:
            place = place - 0.5
        if self.padding == "reflection":
            place = self._reflected(place, size)
        if self.padding != "zeros":
            place = np.clip(place, 0, size - 1)
        if self.nearest:
            sides: list[tuple[NDArray[Any], NDArray[Any]]] = [
                (np.rint(place), np.ones(place.shape))
            ]
        else:
            low = np.floor(place)
            sides = [(low, low + 1 - place), (low + 1, place - low)]
        return [
            (
                np.clip(where, 0, size - 1).astype(np.int64),
                (weight * ((where >= 0) & (where < size))).astype(np.float32),
            )
            for where, weight in sides
        ]

    def _reflected(self, place: NDArray[Any], size: int) -> NDArray[Any]:
        """Back and forth between the centres, or the far edges, of the first and last voxel."""
        first, span = (0.0, size - 1.0) if self.align_corners else (-0.5, float(size))
        if span == 0:
            return np.zeros_like(place)
        turns, rest = np.divmod(np.abs(place - first), span)
        back = np.where(turns % 2 == 0, rest, span - rest) + first
        return np.asarray(back, np.float32)
