"""The cross entropy of rows of logits against rows of labels, and its gradient at once.

Compiled for one shape, one core does all rows, and finds the largest element of a row one by one
where its vector unit can't compare float32 within a repeat: in high precision nothing is rounded to
float16 first. Source: public operator sources (impl/softmax_cross_entropy_with_logits.py); block
counts of recorded kernels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from npusim.ascendc.folds import LARGEST, Fold
from npusim.schedules.rows.formula import Form, RowFormula
from npusim.schedules.rows.kernel import RowKernel, RowOperator, kernel_of
from npusim.schedules.rows.layouts import RowLayout, RowsLayout

if TYPE_CHECKING:
    from npusim.ascendc import Core, GlobalTensor, LocalTensor
    from npusim.hardware.profile import Profile
    from npusim.schedules.formula import Term
    from npusim.schedules.rows.program import Results


class _OneCore(RowsLayout):
    """Rows on one core, their largest elements found by the scalar unit."""

    def fold(self, core: Core, fold: Fold, dst: LocalTensor, src: LocalTensor) -> None:
        if fold is not LARGEST or core.folds_within_repeat(fold, src):
            super().fold(core, fold, dst, src)
            return
        core.get_value(src)
        each = src.numel
        core.emit_scalar("ld_ub", loads=2 * each, stores=each, operations=2 * each, turns=each)
        core.filled(dst)
        core.arrange(dst, src, how=lambda values: values.max(-1))
        core.wrote(dst)


class _CrossEntropy(RowKernel):
    """Rows on all cores, or on one where the kernel was compiled for their shape."""

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
        return _OneCore(profile, rows, x.shape[-1], x.dtype.itemsize, rows)


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
