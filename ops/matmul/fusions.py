"""What kernels of the first generation go on to compute with a product before they store it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from npusim.library.epilogue import Epilogue, Side
from npusim.operators.registry import definition, kernel_class
from npusim.schedules.formula import Formula, Quantity, Term, compute_dtype
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.ascendc import Core, GlobalTensor
    from npusim.ascendc.tensors import Scalar
    from npusim.hardware.profile import Profile
    from npusim.ops.matmul.operands import Problem
    from npusim.schedules.formula_kernel import Compute

# (formula, product, tiles like it, single numbers) to the result
Fused = Callable[[Formula, Term, list[Term], list[Quantity]], Term]


@dataclass(frozen=True, slots=True)
class Fusion:
    """One row of the table: the formula, what it computes halves in, and when the bias comes."""

    formula: Fused
    half_in_float: bool = False
    bias_last: bool = False

    def epilogue(
        self,
        profile: Profile,
        problem: Problem,
        tiles: list[GlobalTensor],
        numbers: list[GlobalTensor],
        outputs: tuple[GlobalTensor, ...],
    ) -> Epilogue:
        """The formula recorded for a problem.

        Of two outputs the first is the product itself, kept for the backward pass.
        """
        kind = problem.c.tensor.dtype
        dtype = compute_dtype(profile, kind, half_in_float=self.half_in_float)
        formula = Formula(profile, dtype)
        product = formula.operand(kind)
        sides = tuple(Side(each, formula.operand(each.dtype)) for each in tiles)
        scalars: dict[int, Scalar] = {}
        quantities = [_quantity(scalars, index) for index in range(len(numbers))]
        wide = formula.cast(product, dtype)
        others = [formula.cast(side.term, dtype) for side in sides]
        found = formula.cast(self.formula(formula, wide, others, quantities), kind)
        results = [Side(outputs[-1], found)]
        if len(outputs) > 1:
            results.insert(0, Side(problem.c.tensor, product))
        return Epilogue(
            formula, product, sides, tuple(results), self.bias_last, tuple(numbers), scalars
        )


def _quantity(scalars: dict[int, Scalar], index: int) -> Quantity:
    """A single element that the scalar unit has read."""

    def value(core: Core) -> Scalar:
        del core
        return scalars[index]

    return Quantity(value)


def _add(f: Formula, x: Term, tiles: list[Term], _: list[Quantity]) -> Term:
    for tile in tiles:
        x = f.add(x, tile)
    return x


def _mul(f: Formula, x: Term, tiles: list[Term], numbers: list[Quantity]) -> Term:
    for tile in tiles:
        x = f.mul(x, tile)
    for number in numbers:
        x = f.mul(x, number)
    return x


def _relu(f: Formula, x: Term, _tiles: list[Term], _: list[Quantity]) -> Term:
    return f.relu(x)


def _activation(name: str) -> Fused:
    """The formula of an operator of its own."""

    def apply(f: Formula, x: Term, tiles: list[Term], _: list[Quantity]) -> Term:
        if len(tiles) + 1 != len(definition(name).inputs):
            raise KernelError(name, f"{len(tiles)} tensors beside the product")
        row: Compute = kernel_class(name).row  # type: ignore[attr-defined]
        found = row.formula(f, x, *tiles, **row.attributes)
        if not isinstance(found, Term):
            raise KernelError(name, "a fused formula has one result")
        return found

    return apply


FUSIONS = {
    "FusionOp_BatchMatMul_FusedMulAdd": Fusion(_mul, bias_last=True),
    "FusionOp_MatMul_Add": Fusion(_add),
    "FusionOp_MatMul_AddN": Fusion(_add),
    "FusionOp_MatMul_GeLU": Fusion(_activation("GeLU"), half_in_float=True),
    "FusionOp_MatMul_GeLUGrad": Fusion(_activation("GeLUGrad"), half_in_float=True),
    "FusionOp_MatMul_Gelu": Fusion(_activation("Gelu"), half_in_float=True),
    "FusionOp_MatMul_GeluGrad": Fusion(_activation("GeluGrad"), half_in_float=True),
    "FusionOp_MatMul_Mul": Fusion(_mul),
    "FusionOp_MatMul_ReLU": Fusion(_relu),
    "FusionOp_MatMul_Relu": Fusion(_relu),
    "FusionOp_MatMul_Tanh": Fusion(_activation("Tanh"), half_in_float=True),
}
