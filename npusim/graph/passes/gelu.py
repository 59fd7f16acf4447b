"""Gelu written out, with the error function or with tanh, becomes one operator."""

from __future__ import annotations

from math import pi, sqrt
from typing import TYPE_CHECKING

from npusim.graph.passes.patterns import close, follower, maker, number, other

if TYPE_CHECKING:
    from npusim.graph.network import Network, Node, Value
    from npusim.graph.target import Target


def run(network: Network, target: Target) -> int:
    """x * (1 + erf(x / sqrt 2)) / 2, and x * (1 + tanh(...)) / 2."""
    del target
    return sum(_fold(network, node) for node in network.named("Erf", "Tanh"))


def _fold(network: Network, middle: Node) -> bool:
    inner = _of_erf(middle) if middle.op == "Erf" else _of_tanh(middle)
    if inner is None:
        return False
    x, before = inner
    one = follower(network, middle, "Add")
    if one is None or not close(number(one, middle.output), 1.0):
        return False
    tail = _tail(network, one, x)
    if tail is None:
        return False
    last, after = tail
    network.replace([*before, middle, one, *after], "Gelu", [x], last.outputs)
    network.prune()
    return True


def _tail(network: Network, one: Node, x: Value) -> tuple[Node, list[Node]] | None:
    """The products with x and with a half, in either order."""
    first = follower(network, one, "Mul")
    if first is None:
        return None
    factor = other(first, one.output)
    half = maker(factor, "Mul", "Muls")
    if half is not None and other(half, x) is not None and close(number(half, x), 0.5):
        return first, [first]
    if factor is x:
        second = follower(network, first, "Mul")
        if second is not None and close(number(second, first.output), 0.5):
            return second, [first, second]
    elif close(number(first, one.output), 0.5):
        second = follower(network, first, "Mul")
        if second is not None and other(second, first.output) is x:
            return second, [first, second]
    return None


def _of_erf(middle: Node) -> tuple[Value, list[Node]] | None:
    """The x of erf(x / sqrt 2)."""
    scaled = maker(middle.given[0], "RealDiv", "Mul")
    if scaled is None:
        return None
    x = scaled.given[0]
    wanted = sqrt(2) if scaled.op == "RealDiv" else 1 / sqrt(2)
    return (x, [scaled]) if close(number(scaled, x), wanted) else None


def _of_tanh(middle: Node) -> tuple[Value, list[Node]] | None:
    """The x of tanh(sqrt(2 / pi) (x + 0.044715 x^3)); what makes it is pruned afterwards."""
    scaled = maker(middle.given[0], "Mul")
    if scaled is None or not _has(scaled, sqrt(2 / pi)):
        return None
    inner = next((each for each in scaled.given if maker(each, "Add")), None)
    total = maker(inner, "Add")
    if total is None:
        return None
    for x in total.given:
        cubic = other(total, x)
        product = maker(cubic, "Mul")
        if product is not None and _has(product, 0.044715) and cubic is not None:
            return x, [scaled]
    return None


def _has(node: Node, wanted: float) -> bool:
    return any(close(value.scalar(), wanted) for value in node.given)
