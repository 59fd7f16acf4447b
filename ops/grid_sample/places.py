"""From a grid of numbers between -1 and 1 to voxels and what each of them weighs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc.task import Task


class Voxel(NamedTuple):
    """One of the neighbours of samples: its place, its weight, and what a step changes of that."""

    place: NDArray[np.int64]
    weight: NDArray[np.float32]
    slopes: NDArray[np.float32]

    def at(self, samples: NDArray[np.int64]) -> Voxel:
        """Those of some samples of each block."""
        place, weight, slopes = self
        return Voxel(place[:, samples], weight[:, samples], slopes[:, samples])


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
            raise task.unfit(f"interpolation_mode {mode}")
        if padding not in (None, "zeros", "border", "reflection"):
            raise task.unfit(f"padding_mode {padding}")
        corners = task.first("align_corners") is True
        return cls(mode in (1, "nearest"), str(padding or "zeros"), corners)

    def voxels(self, axes: int) -> int:
        """How many voxels a sample takes."""
        return 1 if self.nearest else 2**axes

    def taken(
        self, grid: NDArray[Any], sizes: tuple[int, ...]
    ) -> list[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        """The voxels of samples [..., x y z], or [..., x y], and their weights; none outside."""
        return [(each.place, each.weight) for each in self.voxels_of(grid, sizes)]

    def voxels_of(self, grid: NDArray[Any], sizes: tuple[int, ...]) -> list[Voxel]:
        """The same with how fast weights change with the place, for each of its numbers."""
        axes = [
            self._axis(grid[..., -1 - axis].astype(np.float32), size)
            for axis, size in enumerate(sizes)
        ]
        found = []
        for sides in product(range(1 if self.nearest else 2), repeat=len(sizes)):
            chosen = [axis[side] for axis, side in zip(axes, sides, strict=True)]
            flat = chosen[0].place
            for one, size in zip(chosen[1:], sizes[1:], strict=True):
                flat = flat * size + one.place
            slopes = [
                _together(
                    [one.slopes if at == axis else one.weight for at, one in enumerate(chosen)]
                )
                for axis in reversed(range(len(sizes)))
            ]
            weight = _together([one.weight for one in chosen])
            found.append(Voxel(flat, weight, np.stack(slopes, -1)))
        return found

    def _axis(self, given: NDArray[np.float32], size: int) -> list[Voxel]:
        """The neighbours along one axis."""
        corners = self.align_corners
        pace = (size - 1) / 2 if corners else size / 2
        place: NDArray[Any] = (given + 1) * pace
        if not corners:
            place = place - 0.5
        slope = np.full(place.shape, pace, np.float32)
        if self.padding == "reflection":
            place, turned = self._reflected(place, size)
            slope = slope * turned
        if self.padding != "zeros":
            slope = slope * ((place > 0) & (place < size - 1))
            place = np.clip(place, 0, size - 1)
        if self.nearest:
            sides: list[tuple[NDArray[Any], NDArray[Any], int]] = [
                (np.rint(place), np.ones(place.shape), 0)
            ]
        else:
            low = np.floor(place)
            sides = [(low, low + 1 - place, -1), (low + 1, place - low, 1)]
        return [
            Voxel(
                np.clip(where, 0, size - 1).astype(np.int64),
                (weight * ((where >= 0) & (where < size))).astype(np.float32),
                (slope * sign * ((where >= 0) & (where < size))).astype(np.float32),
            )
            for where, weight, sign in sides
        ]

    def _reflected(
        self, place: NDArray[Any], size: int
    ) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """Back and forth between the centres, or the far edges, of the first and last voxel.

        And which way a place moves with the one that it is the reflection of.
        """
        first, span = (0.0, size - 1.0) if self.align_corners else (-0.5, float(size))
        if span == 0:
            return np.zeros_like(place), np.zeros(place.shape, np.float32)
        turns, rest = np.divmod(np.abs(place - first), span)
        forth = turns % 2 == 0
        back = np.where(forth, rest, span - rest) + first
        way = np.where(forth, 1, -1) * np.where(place < first, -1, 1)
        return np.asarray(back, np.float32), way.astype(np.float32)


def _together(factors: list[NDArray[np.float32]]) -> NDArray[np.float32]:
    return reduce(np.multiply, factors)
