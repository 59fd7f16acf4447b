"""Norms of sums: AddLayerNorm and DeepNorm.

Rows of fewer than 500 elements are worked on together, longer ones come and go several at a time
and have their own numbers of the scalar unit; halves are folded together as well, as far as an
instruction steps over their rows. Source: ops-nn norm/add_layer_norm, host tiling and kernels;
documents of the interfaces.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from npusim.ops.layer_norm.kernel import normalised, scaled
from npusim.schedules.rows.formula import Form, RowFormula
from npusim.schedules.rows.kernel import RowKernel, RowOperator, kernel_of
from npusim.schedules.rows.layouts import RowsLayout
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT, FLOAT16

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from npusim.ascendc.gm import GlobalTensor
    from npusim.hardware.profile import Profile
    from npusim.schedules.formula import Term
    from npusim.schedules.rows.layouts import RowLayout
    from npusim.schedules.rows.program import Results

_T, _C, _L = Form.TILE, Form.COLUMN, Form.LINE
_MOST_TOGETHER = 499  # elements of rows that are worked on together
_LONGEST = 255 * 8  # elements of a row that an instruction steps over: blocks of float32
_ALIGNED = 32  # elements that rows are counted in
_RESERVED = 256  # bytes of UB
_LANES = 64  # numbers of a repeat, into which a row is folded
_SPREAD = 8  # repeats of room for numbers of rows that are spread


class _Added(RowKernel):
    """x1, x2, gains, shifts and what may be added to the sum; y, mean, deviation, and the sum."""

    def make_layout(
        self,
        profile: Profile,
        inputs: Sequence[GlobalTensor | None],
        outputs: Sequence[GlobalTensor | None],
        attributes: Mapping[str, object],
    ) -> RowLayout:
        layout = super().make_layout(profile, inputs, outputs, attributes)
        x, gains = inputs[0], inputs[2]
        assert isinstance(layout, RowsLayout)
        assert x is not None
        assert gains is not None
        if not layout.one_by_one or profile.cores.style != "split":
            return layout
        wide = round_up(layout.columns, _ALIGNED)
        size, bias = x.dtype.itemsize, inputs[4] is not None
        room = int(profile.buffers.ub_bytes) - _RESERVED - bias * size * wide
        numbers = 2 * FLOAT.itemsize  # a mean and a deviation
        if x.dtype is gains.dtype is FLOAT16 and layout.columns <= _LONGEST:
            room -= numbers * wide + FLOAT.itemsize * _LANES * _SPREAD
            row = (3 * size + numbers) * wide + numbers + FLOAT.itemsize * _LANES
            layout.folds_singly = False
        else:
            room -= 2 * gains.dtype.itemsize * wide + FLOAT.itemsize * _LANES
            row = ((3 + (outputs[3] is not None)) * size + 3 * FLOAT.itemsize) * wide + numbers
        layout.rows_at_once = max(1, room // row)
        return layout


def _add_layer_norm(
    f: RowFormula, x: Term, other: Term, gamma: Term, beta: Term, bias: Term | None, epsilon: float
) -> Results:
    total = f.add(x, other)
    total = total if bias is None else f.add(total, bias)
    mean, _, rstd, y = normalised(f, total, epsilon)
    return scaled(f, y, gamma, beta), mean, rstd, total


def _deep_norm(
    f: RowFormula, x: Term, other: Term, beta: Term, gamma: Term, alpha: float, epsilon: float
) -> Results:
    mean, _, rstd, y = normalised(f, f.add(f.mul(x, alpha), other), epsilon)
    return mean, rstd, scaled(f, y, gamma, beta)


_by_hand = partial(RowOperator, generated=False, depth=1)
AddLayerNorm = kernel_of(
    _by_hand(
        "AddLayerNorm",
        _add_layer_norm,
        (_T, _T, _L, _L, _L),
        (_T, _C, _C, _T),
        wide=(1, 2),
        attributes={"epsilon": 1e-5},
        most_columns=_MOST_TOGETHER,
    ),
    _Added,
)
DeepNorm = kernel_of(
    _by_hand(
        "DeepNorm",
        _deep_norm,
        (_T, _T, _L, _L),
        (_C, _C, _T),
        wide=(0, 1),
        attributes={"alpha": 0.3, "epsilon": 1e-6},
        most_columns=1,
    )
)
