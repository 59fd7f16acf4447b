"""A batch normalisation of constants that no convolution has taken in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.graph.mapping.rules import per_channel

if TYPE_CHECKING:
    from npusim.graph.network import Network
    from npusim.graph.target import Target


def run(network: Network, target: Target) -> int:
    """BNInfer, whose parameters lie as its images do."""
    del target
    found = 0
    for node in network.named("BatchNorm"):
        x, *parameters = node.given
        if len(x.shape) < 2 or not all(value.weight for value in parameters):
            continue
        rows = [per_channel(network, value, len(x.shape)) for value in parameters]
        network.replace([node], "BNInfer", [x, *rows], node.outputs, node.attributes)
        found += 1
    return found
