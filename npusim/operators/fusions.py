"""Operators that a graph compiler has fused into one kernel, named after its parts.

``FusionOp_MatMul_Add_Relu`` is a product, then a sum with another tensor, then the larger of that
and zero. Every part takes the result of the one before as its first operand, and what else it needs
from the kernel's inputs, in order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from npusim.library.epilogue import Epilogue, Side
from npusim.operators.registry import FUSED, definition, kernel_class
from npusim.operators.tasks import TaskSpec
from npusim.schedules.formula import Formula, Operand, Quantity, Term, compute_dtype
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.ascendc import Core, GlobalTensor
    from npusim.ascendc.scalars import Scalar
    from npusim.ascendc.task import Task
    from npusim.hardware.profile import Profile
    from npusim.schedules.formula_row import Compute

_MUL_ADD = "FusedMulAdd"
"""Adds what is the bias of a product otherwise, so that there it comes last."""


@dataclass(frozen=True)
class Part:
    """An elementwise operator in a fused kernel, with its attributes."""

    op_type: str
    attributes: Mapping[str, object] = field(default_factory=dict)

    @property
    def row(self) -> Compute:
        """Its formula; KernelError for an operator that isn't elementwise."""
        found = getattr(kernel_class(self.op_type), "row", None)
        if found is None:
            raise KernelError(self.op_type, "isn't elementwise, so it can't be part of a kernel")
        row: Compute = found
        return row

    @property
    def operands(self) -> int:
        """What it takes at least: of a list, two."""
        return sum(2 if slot.many else 1 for slot in definition(self.op_type).inputs)

    @property
    def takes_lists(self) -> bool:
        """Whether it takes as many operands as there are."""
        return any(slot.many for slot in definition(self.op_type).inputs)

    def apply(self, f: Formula, value: Operand, others: Sequence[Operand]) -> Operand:
        """Its first result."""
        row = self.row
        known = {name: self.attributes.get(name, usual) for name, usual in row.attributes.items()}
        found = row.formula(f, value, *others, **known)
        first = found if isinstance(found, Term) else found[0]
        if first is None:
            raise KernelError(self.op_type, "nobody asked for its first result")
        return first


def parts_of(task: Task | TaskSpec) -> tuple[str, tuple[Part, ...]]:
    """The first operator of a fused task and those behind it.

    Their attributes are in the task's ``parts``, where whoever fused them says so.
    """
    head, *others = task.op_type.removeprefix(FUSED).split("_")
    told: Any = task.attributes.get("parts") or [(name, {}) for name in others]
    return head, tuple(Part(name, attributes) for name, attributes in told)


def unfused(task: TaskSpec) -> tuple[TaskSpec, ...]:
    """What a fused task does, operator by operator."""
    head, parts = parts_of(task)
    own = max(1, len(task.inputs) - sum(part.operands - 1 for part in parts))
    result, rest = task.outputs[-1:], list(task.inputs[own:])
    found = [TaskSpec(head, task.inputs[:own], task.outputs[:1])]
    for part in parts:
        others, rest = rest[: part.operands - 1], rest[part.operands - 1 :]
        found.append(TaskSpec(part.op_type, (*result, *others), result, part.attributes))
    return tuple(found)


def follow(
    f: Formula, value: Operand, parts: Sequence[Part], operands: Sequence[Operand]
) -> Operand:
    """The value after all parts; KernelError where there are too few or too many operands."""
    rest = list(operands)
    for part in parts:
        wanted = len(rest) if part is parts[-1] and part.takes_lists else part.operands - 1
        others = [rest.pop(0) for _ in range(wanted) if rest]
        if len(others) < part.operands - 1:
            raise KernelError(part.op_type, f"takes {part.operands} operands")
        value = part.apply(f, value, others)
    if rest:
        raise KernelError(parts[-1].op_type, f"{len(rest)} operands too many")
    return value


def half_in_float(parts: Sequence[Part]) -> bool:
    """Whether a part computes float16 in float32, which then all do."""
    return any(part.row.in_float(part.attributes) for part in parts)


def epilogue_of(
    profile: Profile,
    made: GlobalTensor,
    parts: Sequence[Part],
    others: Sequence[GlobalTensor],
    outputs: Sequence[GlobalTensor],
) -> Epilogue:
    """What follows in a cube kernel on the way of ``made`` out of it.

    ``others`` are tiles like it, or single numbers. Of two outputs the first is the product itself,
    kept for the backward pass.
    """
    dtype = compute_dtype(profile, made.dtype, half_in_float=half_in_float(parts))
    formula = Formula(profile, dtype)
    product = formula.operand(made.dtype)
    sides: list[Side] = []
    numbers: list[GlobalTensor] = []
    scalars: dict[int, Scalar] = {}
    operands: list[Operand] = []
    for tensor in others:
        if tensor.numel == 1 and made.numel > 1:
            operands.append(_quantity(scalars, len(numbers)))
            numbers.append(tensor)
        else:
            sides.append(Side(tensor, formula.operand(tensor.dtype)))
            operands.append(formula.cast(sides[-1].term, dtype))
    bias_last = parts[-1].op_type == _MUL_ADD
    wide = formula.cast(product, dtype)
    after = (_without_bias if bias_last else follow)(formula, wide, parts, operands)
    results = [Side(outputs[-1], formula.cast(formula.tile(after), made.dtype))]
    if len(outputs) > 1:
        results.insert(0, Side(made, product))
    return Epilogue(
        formula, product, tuple(sides), tuple(results), bias_last, tuple(numbers), scalars
    )


def _without_bias(
    f: Formula, value: Operand, parts: Sequence[Part], operands: Sequence[Operand]
) -> Operand:
    """Parts of which the last multiplies and adds: its sum is the bias, which comes by itself."""
    first = sum(part.operands - 1 for part in parts[:-1])
    value = follow(f, value, parts[:-1], operands[:first]) if first else value
    for factor in operands[first:]:
        value = f.mul(f.tile(value), factor)
    return value


def _quantity(scalars: dict[int, Scalar], index: int) -> Quantity:
    """A single element that the scalar unit has read."""

    def value(core: Core) -> Scalar:
        del core
        return scalars[index]

    return Quantity(value)
