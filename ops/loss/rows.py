"""The cross entropy of rows of logits against rows of labels, and its gradient at once.

Compiled for one shape, few rows stay on one core. Of rows that aren't whole lines of the vector
unit the largest element is found one by one if it can't compare within a repeat, of long ones among
what is left of their repeats: in high precision nothing is rounded to float16 first. Source: public
operator sources (impl/softmax_cross_entropy_with_logits.py) and tensor compiler
(softmax_cross_entropy_with_logits_schedule.py, logits_2d_schedule and the schedules for large
axes); block counts of recorded kernels. Rows that don't fit into UB are loaded again for every
pass; the compiler's schedule keeps what it has of them in workspace instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import TYPE_CHECKING, Any

from npusim.ascendc.folds import LARGEST, Fold
from npusim.schedules.rows.formula import Form, RowFormula
from npusim.schedules.rows.kernel import RowKernel, RowOperator, kernel_of
from npusim.schedules.rows.layouts import Need, RowLayout, RowsLayout
from npusim.values.arithmetic import greatest_divisor

_LINE = 16  # elements that rows consist of where the vector unit folds several of them
_ALIGN = 128  # elements that a tensor in UB is rounded to
_COPIES = {2: 12, 4: 6}  # tensors in UB at a time, by the size of their elements
_LONG_ROW = 15360  # elements from which rows are loaded one by one
# Of a core: in many rows of a few elements, and in few rows.
_FEW_BYTES, _ROW_BYTES = 512, 8192

if TYPE_CHECKING:
    from npusim.ascendc import Core, GlobalTensor, LocalTensor
    from npusim.hardware.profile import Profile
    from npusim.schedules.formula import Term
    from npusim.schedules.rows.program import Results


class _StaticRows(RowsLayout):
    """Rows as the compiler for one shape deals them out, and how many of them a tile has."""

    def __init__(self, profile: Profile, rows: int, columns: int, itemsize: int) -> None:
        parts, self.most_rows = _parts(profile, rows, columns, itemsize)
        super().__init__(profile, rows, columns, itemsize, ceil(rows / parts))

    def plan(self, need: Need) -> None:
        super().plan(need)
        self.tile_rows = min(self.tile_rows, self.most_rows)

    def fold(self, core: Core, fold: Fold, dst: LocalTensor, src: LocalTensor) -> None:
        rows, columns = src.shape
        if fold is not LARGEST or columns % _LINE == 0 or core.folds_within_repeat(fold, src):
            super().fold(core, fold, dst, src)
            return
        width = core.costs.repeat_elements(src.dtype.itemsize)
        if columns >= 2 * width:  # whole repeats of a row are folded onto each other before
            for row in core.loop(rows):
                core.issue("vmax", src[row][: (columns // width - 1) * width], (src[row],))
        core.get_value(src)
        each = rows * (width if columns >= 2 * width else columns)
        core.emit_scalar("ld_ub", loads=2 * each, stores=each, operations=2 * each, turns=each)
        core.filled(dst)
        core.arrange(dst, src, how=lambda values: values.max(-1))
        core.wrote(dst)


def _parts(profile: Profile, rows: int, columns: int, itemsize: int) -> tuple[int, int]:
    """Into how many parts rows are cut, and how many rows a tile has at most."""
    cores, block = profile.cores.vector_cores, profile.buffers.block_bytes
    least, row_bytes = block // itemsize, columns * itemsize  # losses of a core fill a block
    fitting = profile.buffers.ub_bytes // itemsize // (_COPIES[itemsize] * _ALIGN) * _ALIGN
    most = max(1, min(cores, rows // least))
    if columns > _LONG_ROW:
        return most, 1
    if rows > columns:
        even = (each for each in range(most, 1, -1) if each == most or rows % each <= 1)
        parts = next((each for each in even if rows // each * row_bytes >= _FEW_BYTES), 1)
    else:
        parts = greatest_divisor(rows, most)
        parts = parts if rows // parts * row_bytes >= _ROW_BYTES else 1
    together = greatest_divisor(rows // parts, max(1, fitting // columns))
    return (most, 1) if parts > 1 and together < least else (parts, together)


class _CrossEntropy(RowKernel):
    """Rows on all cores, or as the kernel was compiled for their shape."""

    def make_layout(
        self,
        profile: Profile,
        inputs: Sequence[GlobalTensor | None],
        outputs: Sequence[GlobalTensor | None],
        attributes: Mapping[str, Any],
    ) -> RowLayout:
        x = inputs[0]
        if x is None or not profile.software.compiled_for_shape:
            return super().make_layout(profile, inputs, outputs, attributes)
        rows = x.numel // x.shape[-1]
        return _StaticRows(profile, rows, x.shape[-1], x.dtype.itemsize)


def _softmax_cross_entropy(f: RowFormula, x: Term, labels: Term) -> Results:
    """-sum(labels log(softmax)), softmax - labels."""
    shifted = f.sub(x, f.largest(x))
    powers = f.exp(shifted)
    total = f.sum(powers)
    backprop = f.sub(f.div(powers, total), labels)
    logs = f.sub(shifted, f.ln(total))
    return f.sum(f.mul(f.mul(logs, labels), -1.0)), backprop


SoftmaxCrossEntropyWithLogits = kernel_of(
    RowOperator(
        "SoftmaxCrossEntropyWithLogits",
        _softmax_cross_entropy,
        operands=(Form.TILE, Form.TILE),
        results=(Form.COLUMN, Form.TILE),
    ),
    _CrossEntropy,
)
