"""Operators on lists of tensors: one task deals every tensor out to all cores."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, ClassVar

from npusim.ascendc import Core, GlobalTensor, Kernel
from npusim.ascendc.task import Task, made
from npusim.schedules.formula_kernel import Compute, kernel_of
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile
    from npusim.schedules.formula import Term


class ForeachKernel(Kernel):
    """The same formula on the n-th tensors of every list: ``lists`` inputs, then outputs.

    ``formula`` takes a number before the operands.
    """

    lists: ClassVar[int]
    formula: ClassVar[Callable[..., Term]]

    def __init__(self, profile: Profile, *tensors: GlobalTensor, scalar: float = 1.0) -> None:
        count, rest = divmod(len(tensors), self.lists + 1)
        if rest or not count:
            raise KernelError(
                self.op_type, f"{len(tensors)} tensors for {self.lists} lists and results"
            )
        kernel = kernel_of(Compute(self.op_type, self._scaled(scalar), half_in_float=True))
        groups = [tensors[index::count] for index in range(count)]
        self.parts = [kernel(profile, *group) for group in groups]
        self.block_dim = max(part.block_dim for part in self.parts)
        self.reads = tensors[: -count or None]
        self.writes = tensors[-count:]

    @classmethod
    def _scaled(cls, scalar: float) -> Callable[..., Term]:
        return lambda f, *operands: cls.formula(f, scalar, *operands)

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


_ROWS: dict[str, tuple[int, Callable[..., Term]]] = {
    "ForeachAddcdivScalar": (3, lambda f, scalar, x, a, b: f.add(x, f.mul(f.div(a, b), scalar))),
    "ForeachAddcmulScalar": (3, lambda f, scalar, x, a, b: f.add(x, f.mul(f.mul(a, b), scalar))),
    "ForeachAddList": (
        2,
        lambda f, scalar, a, b: f.add(a, b if scalar == 1.0 else f.mul(b, scalar)),
    ),
    "ForeachSubList": (
        2,
        lambda f, scalar, a, b: f.sub(a, b if scalar == 1.0 else f.mul(b, scalar)),
    ),
    "ForeachMulList": (2, lambda f, _, a, b: f.mul(a, b)),
    "ForeachDivList": (2, lambda f, _, a, b: f.div(a, b)),
    "ForeachMaximumList": (2, lambda f, _, a, b: f.max(a, b)),
    "ForeachMinimumList": (2, lambda f, _, a, b: f.min(a, b)),
    "ForeachLerpScalar": (2, lambda f, scalar, a, b: f.add(a, f.mul(f.sub(b, a), scalar))),
    "ForeachAddScalar": (1, lambda f, scalar, x: f.add(x, scalar)),
    "ForeachSubScalar": (1, lambda f, scalar, x: f.add(x, -scalar)),
    "ForeachMulScalar": (1, lambda f, scalar, x: f.mul(x, scalar)),
    "ForeachDivScalar": (1, lambda f, scalar, x: f.mul(x, 1.0 / scalar)),
    "ForeachMaximumScalar": (1, lambda f, scalar, x: f.max(x, scalar)),
    "ForeachMinimumScalar": (1, lambda f, scalar, x: f.min(x, scalar)),
    "ForeachAbs": (1, lambda f, _, x: f.abs(x)),
    "ForeachExp": (1, lambda f, _, x: f.exp(x)),
    "ForeachLog": (1, lambda f, _, x: f.ln(x)),
    "ForeachNeg": (1, lambda f, _, x: f.neg(x)),
    "ForeachReciprocal": (1, lambda f, _, x: f.div(1.0, x)),
    "ForeachSqrt": (1, lambda f, _, x: f.sqrt(x)),
}


def _kernel_of(op_type: str, lists: int, formula: Callable[..., Term]) -> type[ForeachKernel]:
    members = {"op_type": op_type, "lists": lists, "formula": staticmethod(formula)}
    return type(op_type, (ForeachKernel,), {**members, "__doc__": op_type})


KERNELS = {op_type: _kernel_of(op_type, *row) for op_type, row in _ROWS.items()}
