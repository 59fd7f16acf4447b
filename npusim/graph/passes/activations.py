"""Activations written out: Swish, HardSwish, Mish."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.graph.passes.patterns import maker, other

if TYPE_CHECKING:
    from npusim.graph.network import Network, Node
    from npusim.graph.target import Target

_GATES = {"Sigmoid": "Swish", "HardSigmoid": "HardSwish"}


def run(network: Network, target: Target) -> int:
    """x * sigmoid(x), x * hard sigmoid(x), x * tanh(softplus(x))."""
    del target
    return sum(_fold(network, node) for node in network.named("Mul"))


def _fold(network: Network, product: Node) -> bool:
    for value in product.given:
        x = other(product, value)
        gate = maker(value, *_GATES, "Tanh")
        if gate is None or x is None or not network.is_private(value):
            continue
        if gate.op in _GATES and gate.given[0] is x:
            network.replace([gate, product], _GATES[gate.op], [x], product.outputs)
            return True
        soft = maker(gate.given[0], "Softplus") if gate.op == "Tanh" else None
        if soft is not None and soft.given[0] is x:
            network.replace([soft, gate, product], "Mish", [x], product.outputs)
            return True
    return False
