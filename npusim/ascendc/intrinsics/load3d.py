"""Feature maps as matrices: what every position's window sees, on the way from L1 into L0."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from npusim.ascendc.intrinsics.copy import Copies, operand
from npusim.ascendc.runs import packed
from npusim.engine.program import Pipe
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc.gm_slices import GmSlice
    from npusim.ascendc.tensors import LocalTensor
    from npusim.ascendc.windows import Window

_INTO_L0 = {"L0A": ("img2col_cbuf_to_ca", "l1_to_l0a"), "L0B": ("img2col_cbuf_to_cb", "l1_to_l0b")}
_TILE_AXES = 4  # slices of channels, rows, columns, channels of a slice


class Load3d(Copies):
    """The part of :class:`npusim.ascendc.core.Core` that unfolds feature maps (img2col)."""

    def load3d(
        self,
        dst: LocalTensor,
        src: LocalTensor,
        window: Window,
        *,
        plane_rows: int,
        first_row: int = 0,
        start: tuple[int, int] = (0, 0),
    ) -> None:
        """L1 -> L0A or L0B of what windows see (LoadData with LoadData3DParams, MTE1).

        ``src`` is (C1, rows, columns, C0): rows from ``first_row`` on of planes that have
        ``plane_rows``. ``dst`` is a matrix: a row for every position, row by row of the plane; a
        column for every slice of channels, tap and channel of the slice, in this order. ``start``
        is the position and the column of its first element. Zeros are around the planes. Raises
        KernelError for windows beyond the instruction's limits, and for rows that ``src`` lacks.
        """
        self._expect("load3d", src, "L1")
        if dst.memory not in _INTO_L0 or dst.dtype is not src.dtype or len(src.shape) != _TILE_AXES:
            self._refuse("load3d", dst, src)
        self._check_window(window)
        if self.recording:
            name, path_name = _INTO_L0[dst.memory]
            nbytes = self.costs.fractal_bytes(dst.dtype.itemsize, dst.shape)
            step_bytes = window.stride[1] * src.shape[-1] * src.dtype.itemsize
            cycles = self.costs.load3d(self._path(path_name), nbytes, step_bytes)
            detail = f"{dst.dtype.intrinsic} {'x'.join(map(str, dst.shape))}"
            self.recorder.emit(Pipe.MTE1, name, cycles, detail=detail)
        if self.numerics:
            seen = _Seen(self.kernel_name, window, plane_rows, first_row)
            dst.alias(seen.matrix(src.values(dst.depth), start, dst.shape))

    def load_windows(
        self,
        dst: LocalTensor,
        src: GmSlice,
        window: Window,
        *,
        plane_rows: int,
        first_row: int = 0,
        start: tuple[int, int] = (0, 0),
    ) -> None:
        """GM -> L1 of what windows see, position by position (MTE2).

        For windows that load3d has no fields for, and planes that L1 has no room for. Arguments as
        for :meth:`load3d`, ``src`` being in global memory. What a position sees of a slice of
        channels is a copy, and a run of it what lies side by side: a row of taps, unless they are
        dilated.
        """
        self._expect("load_windows", dst, "L1")
        if dst.dtype is not src.tensor.dtype or len(src.shape) != _TILE_AXES:
            self._refuse("load_windows", dst)
        if self.recording:
            (height, width), lanes = dst.shape[-2:], src.shape[-1]
            run = min(width, window.run * lanes)
            self._emit_copy(
                Pipe.MTE2,
                "copy_gm_to_cbuf",
                "gm_to_l1",
                src,
                write=False,
                matrix=True,
                runs=(run, height * ceil(width / run)),
                copies=height * ceil(width / (window.taps * lanes)),
            )
        if self.numerics:
            seen = _Seen(self.kernel_name, window, plane_rows, first_row)
            planes = operand(self._read(src, dst.depth), dst.dtype)
            dst.alias(seen.matrix(planes, start, dst.shape), loaded=True)

    def _check_window(self, window: Window) -> None:
        """Refuse what the instruction's fields can't say."""
        most = self.profile.cube.load3d
        for what, sizes, limit in (
            ("kernel", window.kernel, most.longest_kernel),
            ("stride", window.stride, most.longest_stride),
            ("dilation", window.dilation, most.longest_dilation),
            ("padding", window.padding, most.longest_padding),
        ):
            if not 0 <= min(sizes) <= max(sizes) <= limit:
                raise KernelError(
                    self.kernel_name, f"load3d takes a {what} of up to {limit}, not {(*sizes,)}"
                )


class _Seen:
    """The numbers that windows see of tiles of planes."""

    def __init__(self, kernel: str, window: Window, plane_rows: int, first_row: int) -> None:
        self._kernel, self._window = kernel, window
        self._plane_rows, self._first_row = plane_rows, first_row

    def matrix(
        self, tile: NDArray[Any], start: tuple[int, int], shape: tuple[int, ...]
    ) -> NDArray[Any]:
        """Rows and columns of the matrix, of the (..., C1, rows, columns, C0) of a tile."""
        window, lanes = self._window, tile.shape[-1]
        (position, column), (height, width) = start, shape[-2:]
        across = window.positions((self._plane_rows, tile.shape[-2]))[1]
        deep = window.taps * lanes
        slices = slice(column // deep, ceil((column + width) / deep))
        top, bottom = position // across, (position + height - 1) // across
        padded = self._padded(tile[..., slices, :, :, :], top, bottom)
        found = sliding_window_view(padded, window.extent, axis=(-3, -2))
        (down, right), (below, beside) = window.stride, window.dilation
        found = found[..., ::down, ::right, :, ::below, ::beside]
        *stack, number, high, wide, _, rows, columns = found.shape
        axes = len(stack)
        order = (*range(axes), axes + 1, axes + 2, axes, axes + 4, axes + 5, axes + 3)
        seen = packed(found.transpose(order))
        seen = seen.reshape(*stack, high * wide, number * rows * columns * lanes)
        first = position - top * across, column - slices.start * deep
        if seen.shape[-1] < first[1] + width:  # four channels in a slice: rows end anywhere
            more = first[1] + width - seen.shape[-1]
            seen = np.concatenate([seen, np.zeros((*seen.shape[:-1], more), seen.dtype)], axis=-1)
        return seen[..., first[0] : first[0] + height, first[1] : first[1] + width]

    def _padded(self, tile: NDArray[Any], top: int, bottom: int) -> NDArray[Any]:
        """The rows that the rows ``top`` to ``bottom`` of positions see, with zeros around."""
        window = self._window
        padding, down = window.padding, window.stride[0]
        first, last = top * down - padding.top, bottom * down - padding.top + window.extent[0]
        held = self._first_row, self._first_row + tile.shape[-3]
        inside = max(first, 0), min(last, self._plane_rows)
        if inside[0] < inside[1] and not held[0] <= inside[0] < inside[1] <= held[1]:
            problem = f"load3d of rows {inside[0]} to {inside[1]} of planes, and L1 has {held}"
            raise KernelError(self._kernel, problem)
        *outer, columns, lanes = tile.shape
        wide = columns + padding.left + padding.right
        shape = (*outer[:-1], last - first, wide, lanes)
        if inside[0] >= inside[1]:
            return np.zeros(shape, tile.dtype)
        found = np.empty(shape, tile.dtype)
        place = slice(inside[0] - first, inside[1] - first)
        found[..., : place.start, :, :] = found[..., place.stop :, :, :] = 0
        found[..., : padding.left, :] = found[..., padding.left + columns :, :] = 0
        rows = tile[..., inside[0] - held[0] : inside[1] - held[0], :, :]
        found[..., place, padding.left : padding.left + columns, :] = rows
        return found
