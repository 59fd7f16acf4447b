"""Rows that don't lie one behind the other: in fractals of 16 x 16, or along an inner axis."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from math import ceil, prod
from typing import TYPE_CHECKING

from npusim.ascendc.folds import LARGEST, SMALLEST, Fold
from npusim.ascendc.tensors import LocalTensor
from npusim.schedules.block_split import fullest_share
from npusim.schedules.rows.formula import Form, forms_of
from npusim.schedules.rows.layouts import UB_SHARE, Need, Piece, RowLayout
from npusim.schedules.runner import apply_step
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT, FLOAT16
from npusim.values.errors import KernelError
from npusim.values.formats import FRACTAL

if TYPE_CHECKING:
    from npusim.ascendc.core import Core
    from npusim.ascendc.gm import GlobalTensor
    from npusim.ascendc.gm_slices import GmSlice
    from npusim.ascendc.loops import Index
    from npusim.hardware.profile import Profile
    from npusim.schedules.formula import Step

_RANK = 4


def is_fractal(tensor: GlobalTensor) -> bool:
    """Whether a shape looks like FRACTAL_NZ.

    It ends in fractals, behind columns and rows of them.
    """
    return len(tensor.shape) >= _RANK and tensor.shape[-2:] == (FRACTAL, FRACTAL)


class _NestedLayout(RowLayout):
    """Rows in two nested loops: cores share the outer one, or the inner where that is short."""

    def deal_out(self, cores: int, outer: int, inner: int, multiple: int) -> None:
        """Shares of the cores, those of the inner loop rounded up to a ``multiple``.

        Compilers for one shape split an axis into as many parts as there are cores and launch a
        block for each, though rounding leaves some of them without work.
        """
        self._sizes = outer, inner
        self.outer_share, self.inner_share = 1, inner
        if outer >= cores:
            self.outer_share = ceil(outer / cores)
        else:
            share = ceil(inner / max(1, cores // outer))
            self.inner_share = min(inner, round_up(share, multiple))
        self._inner_parts = ceil(inner / self.inner_share)
        self.block_dim = ceil(outer / self.outer_share) * self._inner_parts
        alone = outer if inner <= multiple else inner // multiple if outer == 1 else 0
        if self.profile.software.compiled_for_shape and alone >= cores:
            self.block_dim = cores

    def block_kind(self, block: int) -> Hashable:
        return self.share(block)[2:]

    def works(self, block: int) -> bool:
        return self.share(block)[2] > 0

    def share(self, block: int) -> tuple[int, int, int, int]:
        """Where a block begins in both loops, and how much of each it does."""
        outer = block // self._inner_parts * self.outer_share
        inner = block % self._inner_parts * self.inner_share
        outers, inners = self._sizes
        if outer >= outers:
            return 0, 0, 0, 0
        counts = min(self.outer_share, outers - outer), min(self.inner_share, inners - inner)
        return outer, inner, *counts


class FractalLayout(_NestedLayout):
    """FRACTAL_NZ, [batch, columns / 16, rows / 16, 16, 16]: a row is 16 elements in every slice.

    Tiles are (batches, slices, rows, 16), columns (batches, rows), lines (1, slices, 1, 16).
    ``by_lanes`` kernels spend a repeat on 16 elements, others fill it. The schedule of ``several``
    reductions leaves out cores rather than to have a last tile of one row.
    """

    spreads = False

    def __init__(
        self,
        profile: Profile,
        shape: tuple[int, ...],
        *,
        by_lanes: bool = False,
        several: bool = False,
    ) -> None:
        self.batch, self.slices = prod(shape[:-_RANK]), shape[-_RANK]
        self.height = shape[-_RANK + 1] * FRACTAL  # rows of a batch
        super().__init__(profile, self.batch * self.height, self.slices * FRACTAL)
        self.by_lanes, self.several = by_lanes, several and self.batch == 1
        self.tile_batches = self.tile_rows = 1

    def plan(self, need: Need) -> None:
        cores = self.profile.cores.vector_cores
        if self.several:
            share = fullest_share((self.height,), cores, self.rows_in_ub(need))
            cores = ceil(self.height / share)
        self.deal_out(cores, self.batch, self.height, FRACTAL)
        room = int(self.profile.buffers.ub_bytes * UB_SHARE) - need.place * self.columns
        fitting = int(room / (need.element * self.columns + need.row))
        if fitting < 1:
            raise KernelError("rows", f"a row of {self.columns} in fractals doesn't fit into UB")
        if fitting >= self.height and self.inner_share == self.height:
            self.tile_rows = self.height
            self.tile_batches = min(self.outer_share, fitting // self.height)
        else:
            self.tile_rows = self._even(fitting)

    def _even(self, fitting: int) -> int:
        """Rows of tiles that share a block's rows evenly, in whole fractals where one fits.

        Source: public schedules of the tensor compiler take a part of the axis that leaves no rest
        (e.g. op_tiling of ConfusionSoftmaxGrad); tiles in turns large and small overlap badly.
        """
        side = FRACTAL if fitting >= FRACTAL else 1
        high = ceil(self.inner_share / side)
        return min(self.inner_share, ceil(high / ceil(high / (fitting // side))) * side)

    def pieces(self, core: Core) -> Iterator[Piece]:
        batch, row, batches, rows = self.share(core.get_block_idx())
        for outer, count in core.tiles(batch, batches, self.tile_batches):
            for first, height in core.tiles(row, rows, self.tile_rows):
                yield Piece((outer, first), height, count)

    def elements(self, form: Form) -> int:
        rows = self.tile_batches * self.tile_rows
        if form is Form.COLUMN:  # a row of them for every batch, each from a block on
            return self.tile_batches * ceil(self.tile_rows / FRACTAL) * FRACTAL
        return self.columns * (rows if form is Form.TILE else 1)

    def shape(self, form: Form, piece: Piece, length: int) -> tuple[int, ...]:
        del length
        if form is Form.COLUMN:
            return (piece.batches, piece.rows)
        if form is Form.LINE:
            return (1, self.slices, 1, FRACTAL)
        return (piece.batches, self.slices, piece.rows, FRACTAL)

    def place(
        self, tensor: GlobalTensor, form: Form, piece: Piece, begin: Index, length: int
    ) -> GmSlice:
        del begin
        flat, shape = tensor.view(tensor.numel), self.shape(form, piece, length)
        if form is Form.LINE:
            return flat.window(((0, 1),), shape, (self.columns, FRACTAL, FRACTAL, 1))
        outer, first = piece.indices
        if form is Form.COLUMN:
            return flat.window(((outer, self.height), (first, 1)), shape, (self.height, 1))
        lane = self.height * FRACTAL
        places = ((outer, self.slices * lane), (first, FRACTAL))
        return flat.window(places, shape, (self.slices * lane, lane, FRACTAL, 1))

    def fold(self, core: Core, fold: Fold, dst: LocalTensor, src: LocalTensor) -> None:
        """Slices onto each other, then 16 lanes into one."""
        batches, slices, rows, _ = src.shape
        lanes = batches * rows * FRACTAL
        folded = src
        compared = fold in (LARGEST, SMALLEST) and src.dtype is FLOAT
        if compared and not core.folds_within_repeat(fold, src):
            # Half the precision is enough to shift by.
            folded = LocalTensor(core, FLOAT16, src.shape, src.buffer, (src.slot, "half"))
            core.cast(folded.as_run(src.numel), src.as_run(src.numel))
        while slices > 1:
            slices = ceil(slices / 2)
            core.record_vector(fold.pairwise, folded, slices * lanes)
        self._fold_lanes(core, fold, folded, batches * rows)
        core.wrote(dst)
        if core.numerics:
            depth = core.depth
            values = src.values(depth)
            axes = (depth + 1, depth + 3)
            fold.function.reduce(values, axis=axes, out=dst.target(depth), dtype=values.dtype)

    def spread(self, core: Core, dst: LocalTensor, column: LocalTensor) -> None:  # noqa: ARG002 - refuses
        raise KernelError(core.kernel_name, "a column of fractals isn't repeated to a tile")

    def beside(self, core: Core, value: LocalTensor, form: Form) -> LocalTensor:
        """A column as 16 equal lanes for each row: copies of 16 numbers, turned.

        A line as it is.
        """
        if form is not Form.COLUMN:
            return value
        batches, rows = value.shape
        for intrinsic in ("ub2ub", "vnchwconv"):
            core.record_vector(intrinsic, value, batches * rows * FRACTAL)
        return value.view(batches, 1, rows, 1)

    def apply(self, core: Core, step: Step, dst: LocalTensor, sources: list[LocalTensor]) -> None:
        *forms, made = forms_of(step)
        mixed = made is Form.TILE and any(form is not Form.TILE for form in forms)
        if not mixed and not self.by_lanes:
            super().apply(core, step, dst, sources)
            return
        given = [
            self.beside(core, source, form) if mixed else source
            for source, form in zip(sources, forms, strict=True)
        ]
        if self.by_lanes and made is Form.TILE:
            for form in forms:
                if form is not Form.TILE:  # what stands beside the tile is repeated to one
                    core.record_vector("ub2ub", dst, dst.row_elements, rows=dst.rows)
            apply_step(core, step, dst, given)
            return
        run = [each.as_run(dst.numel) for each in given]
        apply_step(core, step, dst.as_run(dst.numel), run)

    def _fold_lanes(self, core: Core, fold: Fold, lanes: LocalTensor, rows: int) -> None:
        """Blocks of 16 lanes into one number each, by block where the chip folds those."""
        group = fold.final.replace("vc", "vcg")
        block = core.block_bytes // lanes.dtype.itemsize
        if block == FRACTAL and core.profile.supports_vector(group, lanes.dtype.intrinsic):
            core.fold_by_instruction(group, lanes, rows * FRACTAL, 1)
        else:
            core.fold_by_instruction(fold.final, lanes, FRACTAL, rows)


class InnerLayout(_NestedLayout):
    """Rows along an axis that isn't the last: [outer, length, inner].

    Tiles are (length, some of the inner places), columns are as long as those are many.
    """

    spreads = False

    def __init__(self, profile: Profile, shape: tuple[int, ...], axis: int, itemsize: int) -> None:
        self.outer, self.inner = prod(shape[:axis]), prod(shape[axis + 1 :])
        super().__init__(profile, self.outer * self.inner, shape[axis])
        self.block = profile.buffers.block_bytes // itemsize
        self.deal_out(profile.cores.vector_cores, self.outer, self.inner, self.block)
        self.width = 1

    def plan(self, need: Need) -> None:
        room = int(self.profile.buffers.ub_bytes * UB_SHARE)
        fitting = int(room / (need.element * self.columns + need.row))
        if fitting >= self.block:  # what is shorter takes as much room
            self.width = min(self.inner_share, fitting // self.block * self.block)
            return
        self.whole = False
        self.width = min(self.inner_share, self.profile.vector.repeat_bytes)
        wide = round_up(self.width, self.block)
        most = int((room - need.row * wide) / (need.element * wide))
        self.chunk = ceil(self.columns / ceil(self.columns / most))

    def pieces(self, core: Core) -> Iterator[Piece]:
        outer, first, outers, width = self.share(core.get_block_idx())
        for turn in core.loop(outers):
            for begin, count in core.tiles(first, width, self.width):
                yield Piece((turn + outer, begin), count)

    def elements(self, form: Form) -> int:
        wide = round_up(self.width, self.block)
        return wide * (self.chunk if form is Form.TILE else 1)

    def shape(self, form: Form, piece: Piece, length: int) -> tuple[int, ...]:
        return (length, piece.rows) if form is Form.TILE else (piece.rows,)

    def place(
        self, tensor: GlobalTensor, form: Form, piece: Piece, begin: Index, length: int
    ) -> GmSlice:
        flat = tensor.view(tensor.numel)
        outer, first = piece.indices
        if form is Form.COLUMN:
            return flat.window(((outer, self.inner), (first, 1)), (piece.rows,), (1,))
        places = ((outer, self.columns * self.inner), (begin, self.inner), (first, 1))
        source = flat.window(places, (length, piece.rows), (self.inner, 1))
        return source.by_rows() if piece.rows % self.block else source

    def fold(self, core: Core, fold: Fold, dst: LocalTensor, src: LocalTensor) -> None:
        core.fold_rows(dst, src, fold)

    def spread(self, core: Core, dst: LocalTensor, column: LocalTensor) -> None:  # noqa: ARG002 - refuses
        raise KernelError(core.kernel_name, "instructions take a row as it is")

    def beside(self, core: Core, value: LocalTensor, form: Form) -> LocalTensor:
        if form is Form.LINE:
            raise KernelError(core.kernel_name, "a line along an inner axis")
        return value.view(1, value.numel)

    def padded(self, tile: LocalTensor) -> int:
        return tile.shape[0] * ceil(tile.shape[1] / self.block) * self.block
