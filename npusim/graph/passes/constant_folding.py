"""What follows from weights alone is computed when the model is converted; nothing is no task."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npusim.graph.network import Network, Node
    from npusim.graph.target import Target


def run(network: Network, target: Target) -> int:
    """Make weights of the results of nodes that read nothing but weights, or make no element."""
    del target
    found = 0
    for node in network.ordered():
        if node.op == "ConcatD" and not all(value.numel for value in node.given):
            _without_empty(network, node)
        elif _is_known(node):
            network.remove(node)
            if node.op == "Identity":  # the same numbers are there once
                network.redirect(node.output, node.given[0])
            for value in node.outputs:
                value.weight = True
            found += 1
    return found


def _is_known(node: Node) -> bool:
    weights = node.op == "Constant" or (node.given and all(value.weight for value in node.given))
    return bool(weights) or not any(value.numel for value in node.outputs)


def _without_empty(network: Network, node: Node) -> None:
    """Nothing is joined to what has elements."""
    kept = [value for value in node.given if value.numel]
    op = "Identity" if len(kept) == 1 else node.op
    if kept:
        network.replace([node], op, kept, node.outputs, node.attributes if len(kept) > 1 else {})
