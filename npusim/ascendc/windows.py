"""Windows that slide over planes: what a convolution, or a pooling, sees of each position."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import NamedTuple


class Padding(NamedTuple):
    """Rows and columns of zeros around a plane."""

    top: int = 0
    bottom: int = 0
    left: int = 0
    right: int = 0


NO_PADDING = Padding()


@dataclass(frozen=True, slots=True)
class Window:
    """A window of ``kernel`` taps, rows and columns, that moves by ``stride`` over a padded plane.

    Taps are ``dilation`` apart.
    """

    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    padding: Padding = NO_PADDING

    @property
    def taps(self) -> int:
        """Elements that a window sees of a plane."""
        return prod(self.kernel)

    @property
    def extent(self) -> tuple[int, int]:
        """Rows and columns from the first tap to the last one."""
        (rows, columns), (down, right) = self.kernel, self.dilation
        return (rows - 1) * down + 1, (columns - 1) * right + 1

    @property
    def run(self) -> int:
        """Taps that see elements side by side: those of a row, unless they are dilated."""
        return self.kernel[1] if self.dilation[1] == 1 else 1

    @property
    def is_point(self) -> bool:
        """True where positions are the plane's elements: one tap, no stride, no padding."""
        return self.taps == 1 and self.stride == (1, 1) and not any(self.padding)

    def positions(self, plane: tuple[int, int]) -> tuple[int, int]:
        """Rows and columns of positions on a plane of ``plane`` rows and columns."""
        padding, extent, stride = self.padding, self.extent, self.stride
        high = plane[0] + padding.top + padding.bottom - extent[0]
        wide = plane[1] + padding.left + padding.right - extent[1]
        return max(0, high // stride[0] + 1), max(0, wide // stride[1] + 1)
