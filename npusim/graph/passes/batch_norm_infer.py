"""A batch normalisation of constants that no convolution has taken in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.graph.mapping.rules import per_channel

if TYPE_CHECKING:
    from npusim.graph.network import Network, Node
    from npusim.graph.target import Target


def run(network: Network, target: Target) -> int:
    """BNInfer, whose parameters lie as its images do; of rows, what it computes."""
    del target
    found = 0
    for node in network.named("BatchNorm"):
        x, *parameters = node.given
        if len(x.shape) < 2 or not all(value.weight for value in parameters):
            continue
        if len(x.shape) == 2:
            _rows(network, node)
            found += 1
            continue
        rows = [per_channel(network, value, len(x.shape)) for value in parameters]
        network.replace([node], "BNInfer", [x, *rows], node.outputs, node.attributes)
        found += 1
    return found


def _rows(network: Network, node: Node) -> None:
    """Behind a product there are no images: a product and a sum of rows, folded offline."""
    x, scale, shift = node.given[:3]
    scaled = network.value(x)
    out, factor, summand = node.output, *(per_channel(network, each, 2) for each in (scale, shift))
    done = network.replace([node], "Mul", [x, factor], [scaled])
    network.add("Add", [scaled, summand], [out], name=done.name, place=done.place)
