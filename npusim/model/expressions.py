"""Whole-number expressions in braces, such as ``fp16[{B},{H*4}]``, for models with variables."""

from __future__ import annotations

import ast
import operator
import re
from typing import TYPE_CHECKING, Final

from npusim.values.errors import ArgumentError
from npusim.values.suggest import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_BRACES: Final = re.compile(r"\{([^{}]*)\}")
_OPERATIONS: Final[dict[type[ast.operator], Callable[[int, int], int]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_MOST_CHARACTERS: Final = 200


def fill(text: str, variables: Mapping[str, int]) -> str:
    """`text` with every expression in braces replaced by its value."""
    return _BRACES.sub(lambda found: str(evaluate(found[1], variables)), text)


def names_in(text: str) -> set[str]:
    """The variables that the braces of `text` mention."""
    return {
        name for found in _BRACES.finditer(text) for name in re.findall(r"[A-Za-z_]\w*", found[1])
    }


def evaluate(text: str, variables: Mapping[str, int]) -> int:
    """The value of an expression of whole numbers, variables, ``+ - * // %`` and parentheses.

    Raises ArgumentError for anything else, and for a variable that nobody has defined.
    """
    if len(text) > _MOST_CHARACTERS:
        raise ArgumentError(f"an expression of {len(text)} characters is too long")
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError):
        raise _wrong(text) from None
    try:
        return _value(tree.body, variables, text)
    except ZeroDivisionError:
        raise ArgumentError(f"{{{text}}} divides by zero") from None


def _value(node: ast.expr, variables: Mapping[str, int], text: str) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name):
        if node.id not in variables:
            hint = did_you_mean(node.id, variables) or f"Known: {', '.join(variables) or 'none'}."
            raise ArgumentError(f"unknown variable {node.id!r} in {{{text}}}", hint)
        return variables[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand, variables, text)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        left, right = _value(node.left, variables, text), _value(node.right, variables, text)
        return _OPERATIONS[type(node.op)](left, right)
    raise _wrong(text)


def _wrong(text: str) -> ArgumentError:
    return ArgumentError(
        f"{{{text}}} is no expression of whole numbers",
        "Use whole numbers, variables, + - * // % and parentheses.",
    )
