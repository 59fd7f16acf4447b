"""The largest element of every window, and masks that say where it was.

A pass brings a few rows of a plane into UB as columns of windows (img2col), folds them to their
largest element and compares every window's elements with it; bits that an earlier element of the
same window has are taken out. A mask has a bit for each channel, a word for each pixel and a row of
words for each element of a window. Chips whose L1 has a way to UB turn windows into columns on it
(load3d), others move pixel by pixel with the vector unit. Source: public operator sources
(max_pool_with_argmax.py, max_pool_with_argmax_resnet50.py): passes, blocks, instructions. Where
there is no such way, float32 is scheduled by the operator compiler (max_pool_with_argmaxv1.py;
tbe/dsl, pooling_with_arg_schedule.py): three equal buffers, of which the columns are one, and an
instruction for all pixels of an element.
"""

from __future__ import annotations

from functools import cache
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc import Core, GlobalTensor, Kernel, LocalTensor, TBuf, TPosition, TQue
from npusim.ops.pooling.columns import Columns, Tile
from npusim.ops.pooling.windows import Windows, square_windows
from npusim.schedules.tile_grid import Grid
from npusim.values.dtypes import FLOAT, UINT16
from npusim.values.errors import KernelError, RefusedTaskError
from npusim.values.formats import C0

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc.task import Task
    from npusim.hardware.profile import Profile

_WORKING_BYTES = 160  # beside the columns, for each pixel: its maximum and its masks
# Size, windows, stride and padding of both axes that have a schedule of their own, the pooling
# behind the first convolution of ResNet, and its rows in a pass.
_OWN = Windows(size=112, out=56, window=3, stride=2, before=0)
OWN_ROWS = 4
_EQUAL_BUFFERS = 3  # of the operator compiler's schedule: rows, columns, and masks


class MaxPoolWithArgmax(Kernel):
    """y = the largest element of every window of x (NC1HWC0); mask = where it is."""

    op_type = "MaxPoolWithArgmax"
    generated = True

    def __init__(
        self,
        profile: Profile,
        x: GlobalTensor,
        y: GlobalTensor,
        mask: GlobalTensor,
        *,
        windows: tuple[Windows, Windows],
    ) -> None:
        if len(x.shape) != 5 or x.shape[-1] != C0 or y.dtype is not x.dtype:
            raise KernelError(self.op_type, f"pools NC1HWC0 images of {C0} lanes, not {x.shape}")
        planes = x.shape[:2]
        if (y.shape[:2], mask.shape[:2], *y.shape[4:]) != (planes, planes, C0):
            problem = f"{y.shape} and {mask.shape} aren't what {x.shape} has"
            raise RefusedTaskError(self.op_type, problem)
        self.reads, self.writes = (x,), (y, mask)
        self.x, self.y, self.mask = (each.view(each.numel) for each in (x, y, mask))
        self.height, self.width = windows
        self.elements = self.height.window * self.width.window
        count = x.shape[0] * x.shape[1]
        self.words = mask.shape[-2] * mask.shape[-1]
        if self.words < self.height.out * self.width.out:
            raise KernelError(self.op_type, f"masks {mask.shape} have too few words")
        scheduled = x.dtype is FLOAT and profile.paths.l1_to_ub is None
        self.own = own = has_own_schedule(windows) and not scheduled
        self.columns = Columns(profile, x.dtype, self.height, self.width, scheduled=scheduled)
        rows, width = self._pass(profile, own)
        self.at_once = ceil(rows * width / C0) if own or scheduled else 1  # fractals
        cores = count if own else profile.cores.vector_cores
        whole = rows * width % C0 == 0 and width == self.width.out and not own
        self.division = self.grid = Grid(
            (count, self.height.out, self.width.out), (1, rows, width), cores, None if whole else 0
        )
        self.block_dim = self.grid.used_cores

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        x, y, mask = task.present(1, 2)
        windows = square_windows(task, x.shape[2:4], y.shape[2:4], mask.shape[2])
        kind = cls if task.profile.paths.l1_to_ub is None else _with_l1(cls)
        return (kind(task.profile, x, y, mask, windows=windows),)

    def process(self, core: Core) -> None:
        """One pass after the other."""
        size = self.x.dtype.itemsize
        most = self.grid.extent[1] * self.grid.extent[2]
        pixels = ceil(most / C0) * C0
        out_que, mask_que = TQue(TPosition.VECOUT, 1, "largest"), TQue(TPosition.VECOUT, 1, "mask")
        spare = TBuf("masks so far")
        self.columns.reserve(core, self.grid.extent[1:], 2 if self.own else 1)
        core.pipe.init_buffer(out_que, 1, pixels * C0 * size)
        core.pipe.init_buffer(mask_que, 1, self.elements * pixels * UINT16.itemsize)
        core.pipe.init_buffer(spare, 1, 2 * pixels * UINT16.itemsize)
        for piece in self.grid.pieces(core):
            plane, row, column = piece.starts
            tile = Tile(plane, row, column, piece.shape[1], piece.shape[2])
            count = tile.rows * tile.width
            fractals = ceil(count / C0)
            patches = self.columns.load(core, self.x, tile)
            largest = out_que.alloc_tensor(self.x.dtype, count * C0)
            mask = mask_que.alloc_tensor(UINT16, self.elements, fractals * C0)
            self._fold(core, largest, fractals)
            core.arrange(largest, patches, how=_largest)
            self._compare(core, mask, fractals)
            self._first_only(core, mask, spare.get(UINT16, 2, fractals * C0), fractals)
            core.arrange(mask, patches, how=_masks)
            self.columns.free(patches)
            place = ((plane, self.height.out * self.width.out * C0),
                (row, self.width.out * C0), (column, C0))  # fmt: skip
            shape, steps = (tile.rows, tile.width * C0), (self.width.out * C0, 1)
            out_que.copy_out(self.y.window(place, shape, steps), largest)
            self._store_masks(core, mask_que, mask, tile)

    def _pass(self, profile: Profile, own: bool) -> tuple[int, int]:
        """Rows and columns of the result that a pass makes."""
        high, wide, size = self.height, self.width, self.x.dtype.itemsize
        half = profile.buffers.ub_bytes // 2
        if not self.columns.by_load3d:
            half //= 2  # the rows themselves are in UB too
        if self.columns.scheduled:
            third = profile.buffers.ub_bytes // _EQUAL_BUFFERS
            pixels = third // (self.elements * C0 * C0 * size) * C0
            rows = min(high.out, max(1, pixels // wide.out))
            return rows, min(wide.out, max(C0, pixels))
        if own:
            return OWN_ROWS if self.columns.by_load3d else OWN_ROWS // 2, wide.out
        pixel_bytes = self.elements * C0 * size
        if wide.out * pixel_bytes > half:
            fitting = half // (pixel_bytes + _WORKING_BYTES) // C0 * C0
            return 1, max(C0, fitting)
        fits_l1 = high.size * wide.size * C0 * size <= profile.buffers.l1_bytes
        if fits_l1 and high.out * wide.out * pixel_bytes <= half:
            return high.out, wide.out
        pixels = half // (pixel_bytes + _WORKING_BYTES)
        padded = (wide.out - 1) * wide.stride + wide.window
        rows = pixels // (max(padded, wide.size) // wide.stride + 1) - 1
        return (1 if rows < 1 or high.span(rows) >= high.size else rows), wide.out

    def _fold(self, core: Core, largest: LocalTensor, fractals: int) -> None:
        core.duplicate(largest, 0.0)
        for _ in core.loop(self.elements):
            for _ in core.loop(ceil(fractals / self.at_once)):
                core.record_vector("vmax", largest, self.at_once * C0 * C0)

    def _compare(self, core: Core, mask: LocalTensor, fractals: int) -> None:
        x = self.x.dtype
        for _ in core.loop(self.elements):
            for _ in core.loop(ceil(fractals / self.at_once)):
                core.emit_vector("vcmpv_eq", x, self.at_once * C0 * C0, chained=False)
        core.noted(mask)

    def _first_only(self, core: Core, mask: LocalTensor, spare: LocalTensor, fractals: int) -> None:
        """Bits of a window's element without those of the elements before."""
        core.record_vector("ub2ub", spare, fractals * C0)
        rows, words = (fractals, C0) if self.at_once == 1 else (1, fractals * C0)
        for _ in core.loop(self.elements - 1):
            for name in ("vor", "vand", "vnot"):
                core.record_vector(name, spare, words, rows=rows)
        core.noted(mask)

    def _store_masks(self, core: Core, queue: TQue, mask: LocalTensor, tile: Tile) -> None:
        """A copy for each element of a window, or one for all of them in the own schedule."""
        queue.enque(mask)
        ready = queue.deque(mask)
        places = ((tile.plane, self.elements * self.words), (tile.row, self.width.out),
            (tile.column, 1))  # fmt: skip
        words = mask.shape[-1]
        if self.own:
            gm = self.mask.window(places, (self.elements, words), (self.words, 1))
            core.data_copy(gm, ready)
        else:
            for element in core.loop(self.elements):
                place = (*places, (element, self.words))
                core.data_copy(self.mask.window(place, (words,), (1,)), ready[element])
        queue.free_tensor(ready)


@cache
def _with_l1(kind: type[MaxPoolWithArgmax]) -> type[MaxPoolWithArgmax]:
    """The kernel on cores with L1, which has a way to UB there."""
    told = {"cores": "cube", "digest": "with L1", "__doc__": kind.__doc__}
    return type(kind.__name__, (kind,), told)


def has_own_schedule(windows: tuple[Windows, Windows]) -> bool:
    """True for the one pooling that the sources schedule by itself."""
    return windows == (_OWN, _OWN)


def _largest(patches: NDArray[Any]) -> NDArray[Any]:
    """Of patches [..., pixel, element, lane]."""
    largest: NDArray[Any] = patches.max(axis=-2)
    return largest


def _masks(patches: NDArray[Any]) -> NDArray[np.uint16]:
    """A word for each element and pixel, with the bits of its lanes; missing pixels have none."""
    equal = patches == patches.max(axis=-2, keepdims=True)
    first = equal & (np.cumsum(equal, axis=-2) == 1)
    bits = np.left_shift(np.uint16(1), np.arange(C0, dtype=np.uint16))
    words = (first * bits).sum(axis=-1, dtype=np.uint16).swapaxes(-1, -2)
    missing = -words.shape[-1] % C0
    return np.pad(words, [(0, 0)] * (words.ndim - 1) + [(0, missing)])
