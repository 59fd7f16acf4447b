"""A convolution with the batch normalisation behind it: weights and bias hold both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.graph.passes.patterns import follower

if TYPE_CHECKING:
    from npusim.graph.network import Network
    from npusim.graph.target import Target


def run(network: Network, target: Target) -> int:
    """Fold every BatchNorm of constants into the convolution before it."""
    del target
    found = 0
    for node in network.named("Conv2D", "Conv3D", "DepthwiseConv2D", "Conv2DTranspose"):
        norm = follower(network, node, "BatchNorm")
        if norm is None or not all(value.weight for value in norm.given[1:]):
            continue
        bias = node.input(2) or norm.given[2]
        inputs = [*node.inputs[:2], bias]
        network.replace([node, norm], node.op, inputs, norm.outputs, node.attributes)
        found += 1
    return found
