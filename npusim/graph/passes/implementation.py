"""Implementations that are faster and less exact, where an operator has one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from npusim.graph.network import Network
    from npusim.graph.target import Target

_OTHERS: Final = {"Gelu": "FastGeluV2"}
"""Whose kernel is that of another operator then, in the tensors' own type."""

_FORMULAS: Final = ("Mish",)
"""Which have a formula for it, the usual one of kernels that are compiled for one shape."""


def run(network: Network, target: Target) -> int:
    """Gelu without exponentials, Mish in float16."""
    del target
    found = 0
    for node in network.named(*_OTHERS):
        network.replace([node], _OTHERS[node.op], node.inputs, node.outputs)
        found += 1
    for node in network.named(*_FORMULAS):
        node.attributes["impl_mode"] = "high_performance"
        found += 1
    return found
