"""What follows from weights alone is computed when the model is converted."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npusim.graph.network import Network
    from npusim.graph.target import Target


def run(network: Network, target: Target) -> int:
    """Make weights of the results of nodes that read nothing but weights."""
    del target
    found = 0
    for node in network.ordered():
        if node.given and all(value.weight for value in node.given):
            network.remove(node)
            for value in node.outputs:
                value.weight = True
            found += 1
    return found
