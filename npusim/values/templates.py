"""Templates: text with variables and simple arithmetic in braces, such as ``{dtype}[{N},{H*W}]``.

Numbers may be combined with ``+ - * / // % **``, parentheses, ``min`` and ``max``; ``/`` gives a
whole number where it divides evenly. A text that is nothing but one pair of braces stands for the
value itself, whatever its type; elsewhere a list is written with commas. Nothing is evaluated but
that arithmetic.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from npusim.values.errors import ArgumentError, UnknownNameError, brief
from npusim.values.language import say

if TYPE_CHECKING:
    from collections.abc import Callable

_BRACES: Final = re.compile(r"\{([^{}]*)\}")
_LONGEST: Final = 200
_LARGEST: Final = 2**63
_LARGEST_EXPONENT: Final = 63

_BINARY: Final[Mapping[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_UNARY: Final[Mapping[type[ast.unaryop], Callable[[Any], Any]]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {"min": min, "max": max}
_ALLOWED: Final = "Allowed are variables, numbers, + - * / // % **, parentheses, min and max."


def fill(template: Any, variables: Mapping[str, Any]) -> Any:
    """The template with its variables put in; lists are filled entry by entry.

    Raises UnknownNameError for a variable that isn't given, ArgumentError for arithmetic that
    can't be done.
    """
    if isinstance(template, list | tuple):
        return [fill(entry, variables) for entry in template]
    if not isinstance(template, str):
        return template
    if whole := _BRACES.fullmatch(template.strip()):
        return evaluate(whole[1], variables)
    return _BRACES.sub(lambda found: _text(evaluate(found[1], variables)), _balanced(template))


def variables_of(template: Any) -> set[str]:
    """The names of the variables that a template mentions."""
    if isinstance(template, list | tuple):
        return {name for entry in template for name in variables_of(entry)}
    if not isinstance(template, str):
        return set()
    return {
        node.id
        for found in _BRACES.finditer(_balanced(template))
        for node in ast.walk(_parse(found[1]))
        if isinstance(node, ast.Name) and node.id not in _FUNCTIONS
    }


def evaluate(expression: str, variables: Mapping[str, Any]) -> Any:
    """The value of one expression: a variable's own, or the number that the arithmetic gives."""
    tree = _parse(expression)
    if isinstance(tree, ast.Name):
        return _value(tree, variables)
    try:
        return _number(tree, variables)
    except ZeroDivisionError:
        raise ArgumentError(
            say("{{{expression}}} divides by zero").format(expression=expression)
        ) from None
    except OverflowError:
        raise ArgumentError(
            say("{{{expression}}} is too large").format(expression=expression)
        ) from None


@cache
def _parse(expression: str) -> ast.expr:
    if len(expression) > _LONGEST:
        raise ArgumentError(
            say("an expression of {count} letters").format(count=len(expression)),
            say("{longest} will do.").format(longest=_LONGEST),
        )
    try:
        tree = ast.parse(expression.strip(), mode="eval").body
    except (SyntaxError, ValueError):  # ValueError: a null character
        raise ArgumentError(
            say("can't read {{{expression}}}").format(expression=expression), say(_ALLOWED)
        ) from None
    for node in ast.walk(tree):
        if not isinstance(node, _KNOWN) or (
            isinstance(node, ast.Constant) and type(node.value) not in (int, float)
        ):
            raise ArgumentError(
                say("can't compute {{{expression}}}").format(expression=expression), say(_ALLOWED)
            )
        if isinstance(node, ast.Call) and not (
            isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS and not node.keywords
        ):
            raise ArgumentError(
                say("can't call that in {{{expression}}}").format(expression=expression),
                say(_ALLOWED),
            )
    return tree


_KNOWN: Final = (
    ast.BinOp,
    ast.UnaryOp,
    ast.Call,
    ast.Name,
    ast.Load,
    ast.Constant,
    ast.Div,
    ast.Pow,
    *_BINARY,
    *_UNARY,
)


def _number(node: ast.expr, variables: Mapping[str, Any]) -> Any:
    value = _computed(node, variables)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ArgumentError(
            say("{ast} is {value}, which is no number to compute with").format(
                ast=ast.unparse(node), value=brief(value)
            )
        )
    if isinstance(value, int) and abs(value) > _LARGEST:
        raise OverflowError
    return value


def _computed(node: ast.expr, variables: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return _value(node, variables)
    if isinstance(node, ast.UnaryOp):
        return _UNARY[type(node.op)](_number(node.operand, variables))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if not node.args:
            raise ArgumentError(
                say("{ast} has nothing to choose from").format(ast=ast.unparse(node))
            )
        values = [_number(argument, variables) for argument in node.args]
        return _FUNCTIONS[node.func.id](*values) if len(values) > 1 else values[0]
    assert isinstance(node, ast.BinOp)  # noqa: S101 - _parse lets nothing else through
    left, right = _number(node.left, variables), _number(node.right, variables)
    if isinstance(node.op, ast.Pow):
        return _power(left, right)
    if isinstance(node.op, ast.Div):
        exact = isinstance(left, int) and isinstance(right, int) and left % right == 0
        return left // right if exact else left / right
    return _BINARY[type(node.op)](left, right)


def _power(base: Any, exponent: Any) -> Any:
    if abs(exponent) > _LARGEST_EXPONENT:
        raise OverflowError
    value = base**exponent
    if isinstance(value, complex) or not math.isfinite(value):
        raise ArgumentError(
            say("{base}**{exponent} is no number").format(base=base, exponent=exponent)
        )
    return value


def _value(node: ast.Name, variables: Mapping[str, Any]) -> Any:
    if node.id not in variables:
        raise UnknownNameError("variable", node.id, variables)
    return variables[node.id]


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(_text(entry) for entry in value)
    return str(value)


def _balanced(template: str) -> str:
    """The template, if no brace is left over once all pairs are taken out."""
    if any(brace in _BRACES.sub("", template) for brace in "{}"):
        raise ArgumentError(
            say("a brace without its partner in {template!r}").format(template=template),
            "Write e.g. {N}.",
        )
    return template
