"""Variances and standard deviations, of elements and their means spread to the elements' shape.

Source: ops-math math/reduce_std_v2_update and reduce_std_with_mean (op_api). What the kernels do
isn't public: they are reductions of the tensor compiler, with two inputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from npusim.ascendc.folds import SUM
from npusim.ops.reduction.axes import axes_of
from npusim.ops.reduction.kernel import kernel_of
from npusim.ops.reduction.kinds import Kind

if TYPE_CHECKING:
    from npusim.ascendc import Core, Kernel, LocalTensor
    from npusim.ascendc.task import Task


@dataclass(frozen=True, slots=True)
class SpreadKind(Kind):
    """Squares of distances, their sum over so many elements less.

    ``rooted`` takes the root, with ``epsilon`` the reciprocal of that of so much more.
    """

    correction: int = 1
    rooted: bool = False
    epsilon: float | None = None

    def finish(self, core: Core, result: LocalTensor, count: int) -> LocalTensor:
        """The sum's share of an element, and its root where it is to be taken."""
        less = count - self.correction
        core.muls(result, result, 1.0 / less if less > 0 else inf)
        if self.epsilon is not None:
            return core.rsqrt(result, core.adds(result, result, self.epsilon))
        return core.sqrt(result, result) if self.rooted else result

    @property
    def is_linear(self) -> bool:
        """Shares of sums can be added up, roots can't."""
        return not self.rooted


def variance(task: Task) -> tuple[Kernel, ...]:
    """ReduceStdV2Update: variances, or deviations with ``if_std``."""
    return _spread(task, "ReduceStdV2Update", rooted=bool(task.first("if_std")))


def deviation(task: Task) -> tuple[Kernel, ...]:
    """ReduceStdWithMean: deviations, or reciprocals of those of variances with ``epsilon``."""
    return _spread(task, "ReduceStdWithMean", rooted=True)


def _spread(task: Task, name: str, *, rooted: bool) -> tuple[Kernel, ...]:
    x, mean, out = task.present(2, 1)
    if mean.numel != x.numel:
        raise task.unfit("the mean hasn't the shape of x")
    unbiased = 1 if task.first("unbiased") is None else bool(task.first("unbiased"))
    less = task.whole_number("correction", int(unbiased))
    more = task.number("epsilon", 1e-3) if task.first("invert") else None
    kind = SpreadKind(SUM, before="square", correction=less, rooted=rooted, epsilon=more)
    axes = axes_of(name, x.shape, out.shape, task.attributes)
    return (kernel_of(name, kind)(task.profile, x, out, axes=axes, beside=mean),)
