"""Bodies of operations, element by element: computed for all elements at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.triton import numbers
from npusim.triton.scalar import constant, predicate_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from npusim.triton.mlir import Operation, Region

_CONVERSIONS = frozenset(
    [
        "index_cast",
        "index_castui",
        "extsi",
        "extui",
        "trunci",
        "sitofp",
        "uitofp",
        "fptosi",
        "fptoui",
        "extf",
        "truncf",
    ]
)
Lookup = dict[int, Any]


def element_work(operation: Operation, operands: list[Any]) -> Any:
    """What one operation on elements makes of arrays or numbers; None where it isn't one."""
    dialect, _, name = operation.name.partition(".")
    if dialect not in ("arith", "math"):
        return None
    if name == "constant":
        return constant(operation)
    kind = operation.results[0].type.element
    if name in ("cmpi", "cmpf"):
        own = operation.operands[0].type.element
        wide = [typed(each, own) for each in operands]
        return numbers.compared(predicate_of(operation), *wide, floats=name == "cmpf")
    if name == "select":
        return np.where(operands[0], typed(operands[1], kind), typed(operands[2], kind))
    if name in _CONVERSIONS:
        source = operation.operands[0].type.element
        return numbers.converted(typed(operands[0], source), source, kind, name)
    if name == "bitcast":
        source = operation.operands[0].type.element
        return typed(operands[0], source).view(numbers.DTYPES[kind].numpy)
    row = numbers.BINARY.get(name) or numbers.UNARY.get(name)
    if name == "fma":
        row = numbers.FUSED
    if name == "powf":
        row = numbers.POWER
    if row is None:
        return None
    found = row.compute(*(typed(each, kind) for each in operands))
    return typed(found, kind)


def typed(values: Any, element: str) -> Any:
    """Arrays or numbers in the dtype of a type's elements."""
    return np.asarray(values).astype(numbers.DTYPES[element].numpy)


def folded(
    region: Region,
    inputs: list[Any],
    so_far: list[Any],
    outer: Sequence[Any],
    unknown: Callable[[Operation], Exception],
) -> list[Any]:
    """What a body yields for its arguments; ``outer`` are the values around it, by number."""
    env: Lookup = {}
    for value, each in zip(region.arguments, [*inputs, *so_far], strict=True):
        env[value.number] = each
    for operation in region.operations:
        if operation.name == "linalg.yield":
            return [_of(each.number, env, outer) for each in operation.operands]
        operands = [_of(each.number, env, outer) for each in operation.operands]
        found = element_work(operation, operands)
        if found is None:
            raise unknown(operation)
        env[operation.results[0].number] = found
    return []


def _of(number: int, env: Lookup, outer: Sequence[Any]) -> Any:
    return env[number] if number in env else outer[number]
