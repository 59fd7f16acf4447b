"""A convolution with a product of constants behind it: the weights hold both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.graph.passes.patterns import follower, other

if TYPE_CHECKING:
    from npusim.graph.network import Network, Node, Value
    from npusim.graph.target import Target

_CHANNELS = 1


def run(network: Network, target: Target) -> int:
    """Fold factors into weights and bias: one for all, or one for each output channel."""
    del target
    found = 0
    for node in network.named("Conv2D"):
        product = follower(network, node, "Mul")
        factor = None if product is None else other(product, node.output)
        if product is None or factor is None or not _scales(factor, node):
            continue
        if all(value.weight for value in node.given[1:]):
            network.replace([node, product], node.op, node.inputs, product.outputs, node.attributes)
            found += 1
    return found


def _scales(factor: Value, node: Node) -> bool:
    """Whether it is a constant with one number, or one for each channel of the result."""
    if not factor.weight:
        return False
    shape = node.output.shape
    aligned = (1,) * (len(shape) - len(factor.shape)) + factor.shape
    channels = shape[_CHANNELS]
    return factor.numel == 1 or (aligned[_CHANNELS], factor.numel) == (channels, channels)
