"""Elementwise operators that a graph compiler has fused into one kernel, named after its parts.

``FusionOp_Mul_Neg`` multiplies two operands and negates the product. Every part takes the result
of the one before as its first operand, and what else it needs from the kernel's inputs, in order.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from npusim.ops.elementwise.arithmetic import KERNELS
from npusim.schedules.formula import Formula, Operand, Term
from npusim.schedules.formula_kernel import FormulaKernel, Operator, kernel_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_PREFIX = "FusionOp_"

# How many operands a part takes.
_OPERANDS = {
    "Add": 2, "AddN": 2, "Sub": 2, "Mul": 2, "RealDiv": 2, "Maximum": 2, "Minimum": 2, "BiasAdd": 2,
    "Neg": 1, "Abs": 1, "Sqrt": 1, "Square": 1, "Reciprocal": 1, "Log": 1,
}  # fmt: skip


def fused(parts: Sequence[str]) -> Callable[..., Term]:
    """The formula of ``parts`` one after the other."""

    def formula(f: Formula, *operands: Operand) -> Term:
        rest = list(operands)
        value: Operand = rest.pop(0)
        for part in parts:
            others = [rest.pop(0) for _ in range(_OPERANDS[part] - 1) if rest]
            found = KERNELS[part].row.formula(f, value, *others)
            value = found if isinstance(found, Term) else found[0]
        return f.tile(value)

    return formula


@cache
def _kernel(name: str) -> type[FormulaKernel]:
    return kernel_of(Operator(name, fused(name.removeprefix(_PREFIX).split("_"))))


def __getattr__(name: str) -> type[FormulaKernel]:
    parts = name.removeprefix(_PREFIX).split("_")
    if not name.startswith(_PREFIX) or any(part not in _OPERANDS for part in parts):
        raise AttributeError(name)
    return _kernel(name)
