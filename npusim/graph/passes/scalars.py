"""Arithmetic with one known number takes it as an attribute: Muls, Adds, Square."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npusim.graph.network import Network, Node
    from npusim.graph.target import Target


def run(network: Network, target: Target) -> int:
    """x * 2, x / 2, x + 2, x - 2 and x ** 2."""
    del target
    return sum(
        _fold(network, node) for node in network.named("Mul", "RealDiv", "Add", "Sub", "Pow")
    )


def _fold(network: Network, node: Node) -> bool:
    left, right = node.given
    commutes = node.op in ("Mul", "Add")
    x, operand = (right, left) if commutes and left.scalar() is not None else (left, right)
    value = operand.scalar()
    if value is None or x.weight or x.shape != node.output.shape:
        return False
    if node.op == "Pow":
        op = {2.0: "Square", 0.5: "Sqrt"}.get(value, "")
        if op:
            network.replace([node], op, [x], node.outputs)
        return bool(op)
    if node.op == "RealDiv":
        if not value:
            return False
        value = 1 / value
    elif node.op == "Sub":
        value = -value
    op = "Muls" if node.op in ("Mul", "RealDiv") else "Adds"
    network.replace([node], op, [x], node.outputs, {"value": value})
    return True
