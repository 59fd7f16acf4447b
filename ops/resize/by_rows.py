"""Bilinear resizing by `vbi`, which gathers four pixels by their addresses and blends them.

A tile is a stretch of one row of the result: the scalar unit reads which two source rows it needs
and their weights, which the vector unit has found for the row before; both are loaded, the weights
of all four neighbours are multiplied out, and `vbi` goes through eight pixels at a time, once for
each neighbour. Where it takes float32 it blends only that: halves of the channels one after the
other, and always as many pixels as the largest tile has. Nothing of a row is loaded before the
scalar unit has seen its number, so that short stretches wait for memory. Source: public operator
sources (dynamic/resize_bilinear_v2.py, tiling key 100000, and op_tiling/resize_bilinear_v2.cc).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from npusim.ascendc import Core, LocalTensor, TBuf, TPosition, TQue
from npusim.ascendc.loops import Index, looked_up
from npusim.ops.resize.blending import Blending
from npusim.ops.resize.scales import FLOORED, Corners, Images
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT, FLOAT16
from npusim.values.formats import C0

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor
    from npusim.hardware.profile import Profile

_COLUMNS = 128  # of the result in a tile
_SOURCE_COLUMNS = 2 * _COLUMNS
_CORE_COLUMNS = 256  # from which on cores share the width of the result
_PLANES = 8  # a core takes at least so many, if there are as many
_NEIGHBOURS = 4
_SMALL, _MANY_PLANES = 64, 32
_COUNTED = 8  # elements that a number is repeated in
_PIXELS = 8  # that a repeat of vbi takes

_HALF_CENTRES = ("vadds", "vmuls", "vadds", "vmax")
_CORNERS = ("vmuls",)
_ROW = ("vconv", "vadd", "vmin", "vmin", "vconv", "vsub", "vsub")
"""What finds the next row: its place, rounded down, the row after it, and both weights."""


@dataclass(frozen=True, slots=True)
class Shares:
    """Planes, rows and columns of the result dealt out to cores, each in like stretches."""

    sizes: tuple[int, int, int]
    cuts: tuple[int, int, int]

    @classmethod
    def of(cls, sizes: tuple[int, int, int], cores: int) -> Shares:
        """Columns first, until a core has few of them; then planes, then rows."""
        planes, height, width = sizes
        across = 1
        while ceil(width / across) > _CORE_COLUMNS and 2 * across <= cores:
            across *= 2
        across = min(across, _even(width, cores))
        each = max(_PLANES, ceil(planes / (cores // across)))
        deep = ceil(planes / each)
        down = max(1, min(cores // (across * deep), _even(height, cores)))
        return cls(sizes, (_even(planes, deep), _even(height, down), _even(width, across)))

    @property
    def cores(self) -> int:
        """Cores that have work."""
        deep, down, across = self.cuts
        return deep * down * across

    def ranges(self, block: int) -> tuple[tuple[int, int], ...]:
        """First and number of the planes, rows and columns of a core."""
        _, down, across = self.cuts
        places = (block // (down * across), block // across % down, block % across)
        found = []
        for size, cut, place in zip(self.sizes, self.cuts, places, strict=True):
            each = ceil(size / cut)
            found.append((place * each, min(each, size - place * each)))
        return tuple(found)

    def block_kind(self, block: int) -> Hashable:
        """How many of each a core has."""
        return tuple(count for _, count in self.ranges(block))


def _even(size: int, parts: int) -> int:
    """Into how many like parts a size falls that was to fall into at most so many."""
    return ceil(size / ceil(size / parts))


class RowsByVbi(Blending):
    """out = the weighted mean of the four nearest pixels of x, in float32 where `vbi` can."""

    def __init__(
        self, profile: Profile, x: GlobalTensor, out: GlobalTensor, corners: Corners = FLOORED
    ) -> None:
        super().__init__(profile, x, out, corners)
        self.in_float32 = profile.supports_vector("vbi", FLOAT.intrinsic)
        outside = self.outside
        sizes = (outside.planes, outside.height, outside.width)
        self.shares = Shares.of(sizes, profile.cores.vector_cores)
        self.division, self.block_dim = self.shares, self.shares.cores
        most = self.shares.ranges(0)[-1][1]
        thinned = ceil(self.inside.width / outside.width)
        self.tile = max(1, min(_COLUMNS, most, _SOURCE_COLUMNS // thinned))

    @staticmethod
    def fits(profile: Profile, x: GlobalTensor, out: GlobalTensor) -> bool:
        """Whether the vendor's kernel takes this schedule for such images on the chip."""
        inside, outside = Images.of("ResizeBilinearV2", x), Images.of("ResizeBilinearV2", out)
        places = (inside.height, inside.width), (outside.height, outside.width)
        small = max(max(each) for each in places) < _SMALL and inside.planes >= _MANY_PLANES
        copied = places[0] in (places[1], (1, 1))
        in_float32 = profile.supports_vector("vbi", FLOAT.intrinsic)
        kinds = (FLOAT16, FLOAT) if in_float32 else (FLOAT16,)
        by_vbi = x.dtype in kinds and profile.supports_vector("vbi", x.dtype.intrinsic)
        return by_vbi and inside.lanes == C0 and not small and not copied

    def process(self, core: Core) -> None:
        """One stretch of columns after the other, in it plane by plane and row by row."""
        in_que = TQue(TPosition.VECIN, 2 * self.buffer_num, "rows")
        out_que = TQue(TPosition.VECOUT, self.buffer_num, "row")
        wide = FLOAT.itemsize
        self.weights, self.counted, self.blended = (
            TBuf("weights"),
            TBuf("next row"),
            TBuf("blended"),
        )
        source = self.columns.span(self.tile) * C0
        core.pipe.init_buffer(in_que, 2 * self.buffer_num, source * self.x.dtype.itemsize)
        core.pipe.init_buffer(out_que, self.buffer_num, self.tile * C0 * self.kind.itemsize)
        core.pipe.init_buffer(self.weights, 1, _COLUMNS * _NEIGHBOURS * wide)
        core.pipe.init_buffer(self.counted, 1, _COUNTED * wide)
        blended = FLOAT if self.in_float32 else FLOAT16
        core.pipe.init_buffer(self.blended, 1, _COLUMNS * C0 * blended.itemsize)
        if self.in_float32:
            self.pixels = TBuf("pixels")
            core.pipe.init_buffer(self.pixels, 1, _NEIGHBOURS * _COLUMNS * C0 * wide)
        planes, rows, columns = self.shares.ranges(core.get_block_idx())
        lines = planes[1] * rows[1]
        full, rest = divmod(columns[1], self.tile)
        for start, count, width in ((0, full, self.tile), (full * self.tile, int(rest > 0), rest)):
            for turn in core.loop(count * lines):
                plane = turn % lines // rows[1] + planes[0]
                row, first = turn % rows[1] + rows[0], turn // lines * width + (columns[0] + start)
                self._stretch(core, (in_que, out_que), (plane, row, first), width)

    def _stretch(
        self,
        core: Core,
        queues: tuple[TQue, TQue],
        where: tuple[Index, Index, Index],
        width: int,
    ) -> None:
        """`width` pixels of the result, from a plane, row and column on."""
        (in_que, out_que), (plane, row, first) = queues, where
        taken, target = self.columns.span(width), width * C0
        begin = looked_up(first, self.columns.starts(width))
        self._next_row(core)
        loaded = [
            in_que.copy_in(self._source(plane, row, table, begin, taken))
            for table in (self.rows.low, self.rows.high)
        ]
        out = out_que.alloc_tensor(self.kind, target)
        self._instructions(core, out, width)
        self._numbers(core, out, loaded, (row, first, begin))
        for each in loaded:
            in_que.free_tensor(each)
        line = self.outside.width * C0
        place = ((plane, self.outside.height * line), (row, line), (first, C0))
        out_que.copy_out(self.out.window(place, (target,), (1,)), out)
        core.load_places(_NEIGHBOURS)  # of the next row

    def _next_row(self, core: Core) -> None:
        """Vector instructions on a few elements find the next row, its neighbour and weights."""
        counted = self.counted.get(FLOAT, _COUNTED)
        if not self.in_float32:
            weights = self.weights.get(FLOAT, _COLUMNS * _NEIGHBOURS)
            core.record_vector("ub2ub", weights, weights.numel)
        centred = self.corners.half_pixel_centers and not self.corners.align_corners
        for name in ("vadds", *(_HALF_CENTRES if centred else _CORNERS), *_ROW):
            core.record_vector(name, counted, _COUNTED)

    def _instructions(self, core: Core, out: LocalTensor, width: int) -> None:
        """The weights of four neighbours, all pixels, and the results in their dtype."""
        weights = self.weights.get(FLOAT, _COLUMNS * _NEIGHBOURS)
        if self.in_float32:
            self._wide_instructions(core, out, width, weights)
            return
        for _ in range(_NEIGHBOURS):
            core.record_vector("vmuls", weights, _COLUMNS)
        core.record_vector("vconv", weights, weights.numel)
        pixels = round_up(width, _PIXELS)
        half = self.kind is FLOAT16
        found = out if half else self.blended.get(FLOAT16, width * C0)
        core.record_vector("vbi", found, pixels * C0 * _NEIGHBOURS)
        if not half:
            core.record_vector("vconv", out, width * C0)

    def _wide_instructions(
        self, core: Core, out: LocalTensor, width: int, weights: LocalTensor
    ) -> None:
        """The same in float32: eight channels, and the addresses of the other eight."""
        if self.x.dtype is not FLOAT:
            pixels = self.pixels.get(FLOAT, _NEIGHBOURS * _COLUMNS * C0)
            core.record_vector("vconv", pixels, pixels.numel)
        for _ in range(_NEIGHBOURS):
            core.record_vector("vmuls", weights, _COLUMNS)
        found = self.blended.get(FLOAT, _COLUMNS * C0)
        for _ in range(2):
            core.record_vector("vbi", found, _COLUMNS * C0 // 2 * _NEIGHBOURS)
            core.record_vector("vadd", weights, weights.numel)
        if self.kind is not FLOAT:
            core.record_vector("vconv", out, width * C0)
        core.noted(out)
