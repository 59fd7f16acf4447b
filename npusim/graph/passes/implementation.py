"""Implementations that are faster and less exact, where an operator has one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from npusim.graph.network import Network
    from npusim.graph.target import Target

_OTHERS: Final = {"Gelu": "FastGeluV2"}
"""Whose kernel is that of another operator then, in the tensors' own type."""

_USUAL: Final = ("Mish",)
"""Which have a formula for it that kernels compiled for one shape take unless told otherwise."""

_FORMULAS: Final = {"Sigmoid": ("Sigmoid", "Swish")}
"""Whose formula stands in these operators: x times its sigmoid is Swish here."""

_HAVING: Final = ("310P",)  # product families whose kernels have such formulas


def run(network: Network, target: Target) -> int:
    """Gelu and Sigmoid without exponentials where that is asked for, Mish in float16."""
    found = 0
    for node in [each for each in network.ordered() if each.op in _OTHERS.keys() & target.fast]:
        network.replace([node], _OTHERS[node.op], node.inputs, node.outputs)
        found += 1
    asked = _FORMULAS.keys() & target.fast if target.family in _HAVING else ()
    for node in network.named(*_USUAL, *(op for name in asked for op in _FORMULAS[name])):
        node.attributes["impl_mode"] = "high_performance"
        found += 1
    return found
