"""Places of largest elements are found as INT32, and cast where a network wants INT64."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.values.dtypes import INT32, INT64

if TYPE_CHECKING:
    from npusim.graph.network import Network
    from npusim.graph.target import Target


def run(network: Network, target: Target) -> int:
    """The AI Core of these chips has ArgMaxV2 with INT32 alone."""
    del target
    found = 0
    for node in network.named("ArgMaxV2"):
        wide = node.output
        if wide.dtype is INT64:
            places = network.value(wide, dtype=INT32)
            network.replace([node], node.op, node.inputs, [places], node.attributes)
            network.add("Cast", [places], [wide], name=f"Cast {wide.name}", place=node.place)
            found += 1
    return found
