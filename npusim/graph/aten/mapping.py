"""A network of aten calls turned into one of calls of the device, for a product family."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.graph.aten.calls import by_table
from npusim.graph.aten.rules import RULES

if TYPE_CHECKING:
    from npusim.graph.network import Network


def map_calls(network: Network, family: str) -> None:
    """Turn every aten call into those that torch_npu makes of it, in place."""
    for node in network.nodes:
        if not node.op.startswith("aten."):
            continue
        name = node.op.removeprefix("aten.")
        rule = RULES.get(name) or RULES.get(name.removesuffix("_"))
        if rule is not None:
            rule(network, node, family)
        else:
            by_table(network, node)
    network.prune()
