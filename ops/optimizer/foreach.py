"""Operators on lists of tensors: one task deals every tensor out to all cores."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, ClassVar

from npusim.ascendc import Core, GlobalTensor, Kernel
from npusim.ascendc.task import Task, made
from npusim.schedules.formula_kernel import Compute, FormulaKernel, kernel_of
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile
    from npusim.schedules.formula import Formula, Term


class ForeachKernel(Kernel):
    """The same formula on the n-th tensors of every list: ``lists`` inputs, then outputs."""

    lists: ClassVar[int]
    each: ClassVar[Callable[..., type[FormulaKernel]]]

    def __init__(self, profile: Profile, *tensors: GlobalTensor, scalar: float = 1.0) -> None:
        count, rest = divmod(len(tensors), self.lists + 1)
        if rest or not count:
            raise KernelError(
                self.op_type, f"{len(tensors)} tensors for {self.lists} lists and results"
            )
        kernel = type(self).each(scalar)
        groups = [tensors[index::count] for index in range(count)]
        self.parts = [kernel(profile, *group) for group in groups]
        self.block_dim = max(part.block_dim for part in self.parts)
        self.reads = tensors[: -count or None]
        self.writes = tensors[-count:]

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        """The kernel for a recorded task."""
        given = [tensor for tensor in task.inputs if tensor is not None]
        count = len(given) // cls.lists
        given = given[: count * cls.lists]  # a scalar operand stands behind the lists
        fresh = tuple(made(each.shape, each.dtype) for each in given[:count])
        results = task.outputs if len(task.outputs) == count else fresh
        shaped = [out.view(*like.shape) for out, like in zip(results, given, strict=False)]
        scalar = task.number("scalar", 1.0)
        return (cls(task.profile, *given, *shaped, scalar=scalar),)

    def block_kind(self, block_idx: int) -> Hashable:
        """How much the block has to do."""
        return tuple(
            part.block_kind(block_idx) if block_idx < part.block_dim else None
            for part in self.parts
        )

    def process(self, core: Core) -> None:
        """The work of one block."""
        for part in self.parts:
            if core.get_block_idx() < part.block_dim:
                core.pipe.reset()
                part.process(core)


def _addcdiv(scalar: float) -> type[FormulaKernel]:
    def formula(f: Formula, x: Term, above: Term, below: Term) -> Term:
        return f.add(x, f.mul(f.div(above, below), scalar))

    return kernel_of(Compute("ForeachAddcdivScalar", formula, half_in_float=True))


def _addcmul(scalar: float) -> type[FormulaKernel]:
    def formula(f: Formula, x: Term, a: Term, b: Term) -> Term:
        return f.add(x, f.mul(f.mul(a, b), scalar))

    return kernel_of(Compute("ForeachAddcmulScalar", formula, half_in_float=True))


def _add(scalar: float) -> type[FormulaKernel]:
    def formula(f: Formula, a: Term, b: Term) -> Term:
        return f.add(a, b if scalar == 1.0 else f.mul(b, scalar))

    return kernel_of(Compute("ForeachAddList", formula, half_in_float=True))


def _mul(scalar: float) -> type[FormulaKernel]:
    return kernel_of(Compute("ForeachMulScalar", lambda f, x: f.mul(x, scalar), half_in_float=True))


class ForeachAddcdivScalar(ForeachKernel):
    """x + scalar * a / b."""

    op_type, lists, each = "ForeachAddcdivScalar", 3, staticmethod(_addcdiv)


class ForeachAddcmulScalar(ForeachKernel):
    """x + scalar * a * b."""

    op_type, lists, each = "ForeachAddcmulScalar", 3, staticmethod(_addcmul)


class ForeachAddList(ForeachKernel):
    """a + scalar * b."""

    op_type, lists, each = "ForeachAddList", 2, staticmethod(_add)


class ForeachMulScalar(ForeachKernel):
    """scalar * x."""

    op_type, lists, each = "ForeachMulScalar", 1, staticmethod(_mul)
