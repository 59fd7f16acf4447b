"""Where rows lie in memory, how they are dealt out to cores, and what working along them costs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from math import ceil, gcd
from typing import TYPE_CHECKING

from npusim.ascendc.intrinsics.elementwise import Intrinsic
from npusim.schedules.block_split import fullest_share
from npusim.schedules.rows.folds import (
    PLANE_BYTES,
    fold_each_row,
    fold_packed_rows,
    spread_by_turning,
    spread_packed_rows,
    spread_strips,
    turn_planes,
)
from npusim.schedules.rows.formula import Form, forms_of
from npusim.schedules.runner import apply_step
from npusim.schedules.spreading import spread_column
from npusim.values.arithmetic import divisors, round_up
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from npusim.ascendc.core import Core
    from npusim.ascendc.folds import Fold
    from npusim.ascendc.gm import GlobalTensor
    from npusim.ascendc.gm_slices import GmSlice
    from npusim.ascendc.loops import Index
    from npusim.ascendc.tensors import LocalTensor
    from npusim.hardware.profile import Profile
    from npusim.schedules.formula import Step

UB_SHARE = 0.9  # of UB; the rest is for what isn't counted per element
_LANES = 64  # pieces of a row are a multiple of it
_PAD_TILES = 3  # more of them, where rows are padded in UB


@dataclass(frozen=True, slots=True)
class Need:
    """Bytes of UB: for each element of a tile, for each of its rows, for each place in a row."""

    element: float
    row: float
    place: float


@dataclass(frozen=True, slots=True)
class Piece:
    """Some rows that are worked on together: indices of the loops around them, and their number."""

    indices: tuple[Index, ...]
    rows: int
    batches: int = 1


class RowLayout(ABC):
    """The geometry of a kernel over rows. Shapes of values depend on the form and the layout.

    ``spreads`` tells whether generated code repeats columns to whole tiles, ``computes_together``
    whether rows are found by adding up indices, so that several blocks' may be computed at once.
    """

    spreads = True
    computes_together = False

    def __init__(
        self, profile: Profile, rows: int, columns: int, *, generated: bool = True
    ) -> None:
        self.profile, self.rows, self.columns = profile, rows, columns
        self.generated = generated  # whether a compiler wrote the kernel
        self.whole = True  # whether whole rows are in UB
        self.alone = False  # whether no core has more than one, by a schedule of its own
        self.loads_columns = False
        self.chunk = columns  # elements of a row in UB
        self.block_dim = 1

    @abstractmethod
    def plan(self, need: Need) -> None:
        """Choose tiles that fit, and the cores' shares."""

    def rows_in_ub(self, need: Need) -> int:
        """Whole rows that fit, as the compiler counts them when it deals them out."""
        return int(self.profile.buffers.ub_bytes / (need.element * self.columns))

    @abstractmethod
    def block_kind(self, block: int) -> Hashable:
        """What a block has to do, up to addresses."""

    def works(self, block: int) -> bool:
        """Whether a block has rows at all."""
        del block
        return True

    @abstractmethod
    def pieces(self, core: Core) -> Iterator[Piece]:
        """The pieces of a core."""

    def pieces_of_blocks(self, core: Core) -> Iterator[Piece]:
        """The same of this and the next blocks at once, where blocks are alike."""
        yield from self.pieces(core)

    @abstractmethod
    def elements(self, form: Form) -> int:
        """Elements of the largest value of a form in UB, padding included."""

    @abstractmethod
    def shape(self, form: Form, piece: Piece, length: int) -> tuple[int, ...]:
        """The shape of a value."""

    @abstractmethod
    def place(
        self, tensor: GlobalTensor, form: Form, piece: Piece, begin: Index, length: int
    ) -> GmSlice:
        """Where a value lies in a tensor, from place ``begin`` of the rows on."""

    @abstractmethod
    def fold(self, core: Core, fold: Fold, dst: LocalTensor, src: LocalTensor) -> None:
        """A column from a tile."""

    @abstractmethod
    def spread(self, core: Core, dst: LocalTensor, column: LocalTensor) -> None:
        """A tile from a column, on chips whose instructions take no columns."""

    @abstractmethod
    def beside(self, core: Core, value: LocalTensor, form: Form) -> LocalTensor:
        """A column or a line as instructions over tiles take it."""

    def space(self, core: Core, form: Form, tile: LocalTensor) -> None:
        """Rows that lie side by side in device memory get, or lose, what pads them in UB."""
        del core, form, tile

    def chunks(self, core: Core) -> Iterator[tuple[Index, int]]:
        """The pieces of a row, one after the other."""
        yield from core.tiles(0, self.columns, self.chunk, sequential=True)

    def padded(self, tile: LocalTensor) -> int:
        """Elements of a tile with the padding of its rows."""
        return tile.numel

    def apply(self, core: Core, step: Step, dst: LocalTensor, sources: list[LocalTensor]) -> None:
        """An instruction element by element; operands of another form stand beside the tile."""
        *forms, made = forms_of(step)
        if made is Form.TILE and forms.count(Form.TILE) < len(forms):
            given = [
                source if form is Form.TILE else self.beside(core, source, form)
                for source, form in zip(sources, forms, strict=True)
            ]
            apply_step(core, step, dst, given)
            return
        if len(dst.shape) > 1:  # rows with their padding are one run
            run = self.padded(dst) if made is Form.TILE else dst.numel
            dst, sources = dst.as_run(run), [each.as_run(run) for each in sources]
        apply_step(core, step, dst, sources)


class RowsLayout(RowLayout):
    """Rows that lie one behind the other.

    Tiles are (rows, columns), columns (rows,), lines (1, columns).

    ``least_rows`` is what a core gets at least. ``axes`` are those around the rows, for schedules
    of several reductions, which don't fuse them; ``narrowest`` is the width of what else is
    computed, which is to fill blocks, too.
    """

    computes_together = True

    def __init__(
        self,
        profile: Profile,
        rows: int,
        columns: int,
        itemsize: int,
        least_rows: int = 1,
        *,
        generated: bool = True,
        axes: tuple[int, ...] = (),
        narrowest: int | None = None,
    ) -> None:
        super().__init__(profile, rows, columns, generated=generated)
        self.itemsize, self.least_rows = itemsize, least_rows
        block_bytes = profile.buffers.block_bytes
        self._step = block_bytes // itemsize  # elements that rows are padded to
        software = profile.software
        later = software.turns_ragged_rows or not software.compiled_for_shape
        self._pads = generated and later and min(rows, columns) > 1 and columns % self._step > 0
        self.spaced = False  # whether rows come side by side and are padded in UB
        # Else rows of less than a block stay side by side.
        self.packed = generated and columns < self._step and not self._pads
        self.ragged = columns % self._step > 0 and not self.packed
        self.one_by_one = False  # whether rows are worked on singly though more would fit
        self.rows_at_once = 1  # of these, that come and go together
        self.folds_singly = True  # whether these are folded singly too
        self.tile_rows = 1
        self._element_bytes = 0
        self._axes, self._block = axes, block_bytes // (narrowest or itemsize)
        self._deal_out(ceil(rows / profile.cores.vector_cores))

    def _deal_out(self, even: int) -> None:
        """Blocks of so many rows, or more where that is worth it."""
        self.share = max(min(self.rows, self.least_rows), even)
        if self.packed and self.share < self.rows:
            self.share = self._whole_blocks(self._block)
        self.block_dim = ceil(self.rows / self.share)

    def _whole_blocks(self, block: int) -> int:
        """The least share of rows that divides them and ends at a block, else the even one."""
        for share in divisors(self.rows):
            if self.share <= share < self.rows and share * self.columns % block == 0:
                return share
        return self.share

    def plan(self, need: Need) -> None:
        if self._axes:
            cores = self.profile.cores.vector_cores
            self._deal_out(fullest_share(self._axes, cores, self.rows_in_ub(need)))
        room = int(self.profile.buffers.ub_bytes * UB_SHARE)
        wide = self._wide(self.columns)
        self._element_bytes = ceil(need.element)
        left, per_row = room - need.place * wide, max(1, need.element * wide + need.row)
        if self._pads and self._room_for_pads(need) >= wide:
            self.spaced, self.ragged = True, False
        if per_row <= left:
            fitting = int(left / per_row)
            fitting = min(fitting, self.rows_at_once) if self.one_by_one else fitting
            fitting = 1 if self._comes_row_by_row() else fitting
            self.tile_rows = max(1, min(self.share, fitting))
            return
        self.whole = False
        most = int(room / (need.element + need.place)) // _LANES * _LANES
        self.chunk = max(_LANES, min(most, self.columns))
        pieces = ceil(self.columns / self.chunk)
        self.chunk = round_up(ceil(self.columns / pieces), _LANES)

    def _room_for_pads(self, need: Need) -> int:
        """The longest rows that are padded in UB, by turning them there and back.

        Source: public tensor compiler and its tiling (norm_tilingcase.py: three tiles more, planes
        of 16 rows of blocks; norm.cc, IsNeedAlignedInUb). Softmax of 1,000,003 pairs takes 17
        cycles a row on 910B2, that of rows of 67 numbers in float32, which are too long, 160.
        """
        tiles = need.element + _PAD_TILES * max(self.itemsize, FLOAT.itemsize)
        return int(self.profile.buffers.ub_bytes / tiles) // (PLANE_BYTES // self.itemsize)

    def _comes_row_by_row(self) -> bool:
        """Whether code for one shape works on a row after the other, as they aren't whole blocks.

        Source: profiles of the first generation, where each of 76,800 rows of 50 halves takes a
        core 0.53 us, and 100 or 1001 classes are worked on so. Later compilers turn such rows.
        """
        software = self.profile.software
        older = software.compiled_for_shape and not software.turns_ragged_rows
        return self.ragged and self.generated and older

    def block_kind(self, block: int) -> Hashable:
        return min(self.share, self.rows - block * self.share)

    def pieces(self, core: Core) -> Iterator[Piece]:
        start, length = self.stretch(core.get_block_idx())
        # Where a column begins decides how its runs lie in lines; rows begin at multiples of one.
        line = self.profile.memory.l2_line_bytes
        alike = gcd(line, start, self.tile_rows) if self.loads_columns else 0
        for first, count in core.tiles(start, length, self.tile_rows, alike=alike):
            yield Piece((first,), count)

    def pieces_of_blocks(self, core: Core) -> Iterator[Piece]:
        alike, rest = divmod(self.rows, self.share)
        nbytes = self._element_bytes * self.columns * self.share
        for block in core.share(lambda number: min(number, alike), inner_bytes=nbytes):
            for first, count in core.tiles(0, self.share, self.tile_rows):
                yield Piece((block * self.share, first), count)
        if rest and core.get_block_idx() == alike:
            yield from self.pieces(core)

    def stretch(self, block: int) -> tuple[int, int]:
        """The first row of a block, and how many it has."""
        first = block * self.share
        return first, min(self.share, self.rows - first)

    def elements(self, form: Form) -> int:
        rows, row = self.tile_rows, self._wide(self.chunk)
        return {Form.TILE: rows * row, Form.COLUMN: rows, Form.LINE: row}[form]

    def shape(self, form: Form, piece: Piece, length: int) -> tuple[int, ...]:
        if form is Form.COLUMN:
            return (piece.rows,)
        return (1 if form is Form.LINE else piece.rows, length)

    def place(
        self, tensor: GlobalTensor, form: Form, piece: Piece, begin: Index, length: int
    ) -> GmSlice:
        rows = piece.indices
        if form is Form.COLUMN:
            return tensor.window(tuple((row, 1) for row in rows), (piece.rows,), (1,))
        if form is Form.LINE:
            return tensor.window(((begin, 1),), (1, length), (length, 1))
        step = self.columns if tensor.strides is None else tensor.strides[0]
        places = (*((row, step) for row in rows), (begin, 1))
        source = tensor.window(places, (piece.rows, length), (step, 1))
        source.rows_apart = self.ragged and piece.rows > 1
        return source

    def space(self, core: Core, form: Form, tile: LocalTensor) -> None:
        if self.spaced and form is Form.TILE:
            turn_planes(core, tile, tile, tile.numel)
            turn_planes(core, tile, tile, self.padded(tile))

    def fold(self, core: Core, fold: Fold, dst: LocalTensor, src: LocalTensor) -> None:
        if self.packed:
            fold_packed_rows(core, fold, dst, src)
        else:
            singly = self.one_by_one and self.folds_singly
            fold_each_row(core, fold, dst, src, generated=self.generated, singly=singly)

    def spread(self, core: Core, dst: LocalTensor, column: LocalTensor) -> None:
        if self.packed:
            spread_packed_rows(core, dst, column)
        elif self.spaced:
            spread_by_turning(core, dst, column, self.padded(dst))
        elif self.generated or core.profile.software.compiled_for_shape:
            spread_column(core, dst, column)
        else:
            spread_strips(core, dst, column)

    def apply(self, core: Core, step: Step, dst: LocalTensor, sources: list[LocalTensor]) -> None:
        forms = forms_of(step)
        if not self.one_by_one or Form.COLUMN not in forms:
            super().apply(core, step, dst, sources)
            return
        # Rows' own numbers are the scalar unit's.
        rows = dst.shape[0]
        for form, source in zip(forms, sources, strict=False):
            if form is Form.COLUMN and core.is_unread(source):
                core.wait_vector()
                core.emit_scalar("ld_ub", loads=rows, detail=source.buffer)
        if forms[-1] is Form.COLUMN:
            core.scalar_alu(step.name, rows)
            core.wrote(dst)  # it lies in UB, where the next step reads it
        else:
            tiles = [
                each for form, each in zip(forms, sources, strict=False) if form != Form.COLUMN
            ]
            for row in range(rows):
                core.issue("vmuls", dst[row], tuple(each[row] for each in tiles))
        if not isinstance(step.call, Intrinsic):  # copied, or a number of its own
            if step.sources:
                core.arrange(dst, sources[0])
            elif core.numerics:
                dst.target(core.depth)[...] = step.extras[0]
        elif core.numerics:
            shape = dst.shape if forms[-1] is Form.COLUMN else (rows, 1)
            numbers = [
                each.view(*shape) if form is Form.COLUMN else each
                for form, each in zip(forms, sources, strict=False)
            ]
            step.call.compute(core, dst, *numbers, *step.extras)

    def beside(self, core: Core, value: LocalTensor, form: Form) -> LocalTensor:
        return core.broadcast_column(value) if form is Form.COLUMN else value

    def padded(self, tile: LocalTensor) -> int:
        return tile.numel if self.packed else tile.shape[0] * self._wide(tile.shape[1])

    def _wide(self, length: int) -> int:
        return round_up(length, self._step)
