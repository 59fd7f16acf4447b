"""Kernels that quantise row by row: every row by its own largest element, or all by given scales.

Numbers go from float32 through int32 and float16 into int8, as the vector unit converts them.
Source: ops-nn quant/dynamic_quant, quant/dequant_swiglu_quant and norm/add_rms_norm_dynamic_quant,
host tilings and device schedules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import ceil
from typing import TYPE_CHECKING

from npusim.ascendc.rounding import RoundMode
from npusim.library.row_quantiser import LARGEST
from npusim.schedules.rows.formula import Form, RowFormula
from npusim.schedules.rows.kernel import RowKernel, RowOperator, kernel_of
from npusim.schedules.rows.layouts import Need, RowLayout, RowsLayout
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT, FLOAT16, INT8, INT32

if TYPE_CHECKING:
    from npusim.ascendc.gm import GlobalTensor
    from npusim.hardware.profile import Profile
    from npusim.schedules.formula import Formula, Term
    from npusim.schedules.rows.program import Results

_T, _C, _L = Form.TILE, Form.COLUMN, Form.LINE
_LEAST_COLUMNS = 128  # of rows that DynamicQuant works on together
_MOST_ROWS, _RESERVED = 16, 768  # AddRmsNormDynamicQuant: rows at once, bytes that it leaves alone


def to_int8(f: Formula, x: Term) -> Term:
    """To the nearest whole number, even where two are as near."""
    whole = f.cast(x, INT32, RoundMode.CAST_RINT)
    return f.cast(f.cast(whole, FLOAT16), INT8, RoundMode.CAST_TRUNC)


def by_largest(f: RowFormula, x: Term, smooth: Term | None) -> tuple[Term, Term]:
    """Rows as int8, and the scale of each: its largest element is 127."""
    if smooth is not None:
        x = f.mul(x, f.cast(smooth, FLOAT))
    scale = f.mul(f.largest(f.abs(x)), 1 / LARGEST)
    return to_int8(f, f.mul(x, f.reciprocal(scale))), scale


def _dynamic_quant(f: RowFormula, x: Term, smooth: Term | None) -> Results:
    return by_largest(f, x, smooth)


def _add_rms_norm(
    f: RowFormula, x: Term, other: Term, gamma: Term, epsilon: float
) -> tuple[Term, Term]:
    """The sum in the type of its operands, which is stored first; and its rows, normalised."""
    total = f.add(f.cast(x, FLOAT), f.cast(other, FLOAT))
    stored = f.cast(total, x.dtype)
    mean_square = f.mean(f.mul(total, total))
    normal = f.mul(total, f.rsqrt(f.add(mean_square, epsilon)))
    return stored, f.mul(normal, f.cast(gamma, FLOAT))


def _add_rms_norm_dynamic_quant(
    f: RowFormula,
    x: Term,
    other: Term,
    gamma: Term,
    smooth: Term | None,
    other_smooth: Term | None,
    epsilon: float,
) -> Results:
    total, y = _add_rms_norm(f, x, other, gamma, epsilon)
    first, scale = by_largest(f, y, smooth)
    second, other_scale = (None, None) if other_smooth is None else by_largest(f, y, other_smooth)
    return first, second, total, scale, other_scale


def _add_rms_norm_quant(
    f: RowFormula,
    x: Term,
    other: Term,
    gamma: Term,
    scale: Term,
    other_scale: Term | None,
    offset: Term | None,
    other_offset: Term | None,
    epsilon: float,
    div_mode: bool,
) -> Results:
    """Both results divide by their scales (or multiply with them), and add their offsets."""
    total, y = _add_rms_norm(f, x, other, gamma, epsilon)

    def scaled(by: Term, shift: Term | None) -> Term:
        wide = f.cast(by, FLOAT)
        z = f.div(y, wide) if div_mode else f.mul(y, wide)
        return to_int8(f, z if shift is None else f.add(z, f.cast(shift, FLOAT)))

    second = None if other_scale is None else scaled(other_scale, other_offset)
    return scaled(scale, offset), second, total


def _rows_of_norm(profile: Profile, columns: int) -> int:
    """Rows that are in UB together: four in half types and two in float32 each, beside lines.

    Source: ops-nn norm/add_rms_norm_dynamic_quant, CheckUbNormalTiling.
    """
    wide = round_up(columns, profile.buffers.block_bytes)
    lines = 3 * wide * FLOAT16.itemsize + _RESERVED
    row = (4 * FLOAT16.itemsize + 2 * FLOAT.itemsize) * wide + 2 * FLOAT.itemsize
    return min(_MOST_ROWS, (int(profile.buffers.ub_bytes) - lines) // row)


class _FullTiles(RowsLayout):
    """UB is filled before rows are dealt out: cores get at least as many rows as it holds."""

    def plan(self, need: Need) -> None:
        even, self.share = self.share, self.rows
        super().plan(need)
        self.share = max(even, self.tile_rows)
        self.block_dim = ceil(self.rows / self.share)


class _DynamicQuant(RowKernel):
    """Many rows at once where they are whole blocks of float32, else one by one."""

    def make_layout(
        self,
        profile: Profile,
        inputs: Sequence[GlobalTensor | None],
        outputs: Sequence[GlobalTensor | None],
        attributes: Mapping[str, object],
    ) -> RowLayout:
        del outputs, attributes
        x = inputs[0]
        assert x is not None
        columns = self.row_length(inputs)
        together = (
            columns >= _LEAST_COLUMNS
            and columns % (profile.buffers.block_bytes // FLOAT.itemsize) == 0
        )
        kind = _FullTiles if together else RowsLayout
        layout = kind(profile, x.numel // columns, columns, INT8.itemsize, generated=False)
        layout.one_by_one = not together
        return layout


by_hand = partial(RowOperator, generated=False, depth=1)

DynamicQuant = kernel_of(
    by_hand("DynamicQuant", _dynamic_quant, (_T, _L), (_T, _C), wide=(1,), int8=(0,)),
    _DynamicQuant,
)
AddRmsNormDynamicQuant = kernel_of(
    by_hand(
        "AddRmsNormDynamicQuant",
        _add_rms_norm_dynamic_quant,
        (_T, _T, _L, _L, _L),
        (_T, _T, _T, _C, _C),
        wide=(3, 4),
        int8=(0, 1),
        attributes={"epsilon": 1e-6},
        most_columns=1,
        raw=True,
        in_place=True,
        rows_at_once=_rows_of_norm,
    )
)
AddRmsNormQuant = kernel_of(
    by_hand(
        "AddRmsNormQuant",
        _add_rms_norm_quant,
        (_T, _T, _L, _L, _L, _L, _L),
        (_T, _T, _T),
        int8=(0, 1),
        attributes={"epsilon": 1e-6, "div_mode": True},
        most_columns=1,
        raw=True,
        in_place=True,
    )
)
