"""From ONNX operators to those of CANN, node by node, as the vendor's ONNX plugins do it.

Source: framework/onnx_plugin of the open operator tree (dengguojie/vue-element-admin @ 7d77ce32d),
and the operator list of hiascend.com for Atlas inference products (operatorlist_0071).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from npusim.graph.mapping import (
    convolutions,
    elementwise,
    indexing,
    layouts,
    norms,
    products,
    recurrent,
    reductions,
)
from npusim.values.errors import ArgumentError
from npusim.values.language import say

if TYPE_CHECKING:
    from collections.abc import Mapping

    from npusim.graph.mapping.rules import Rule
    from npusim.graph.network import Network

RULES: Final[Mapping[str, Rule]] = {
    **elementwise.RULES,
    **convolutions.RULES,
    **indexing.RULES,
    **layouts.RULES,
    **norms.RULES,
    **products.RULES,
    **recurrent.RULES,
    **reductions.RULES,
}
"""What becomes of each ONNX operator; the others keep their names."""


def map_operators(network: Network) -> None:
    """Turn every node into operators of CANN.

    Raises ArgumentError naming the node whose attributes no operator of the device takes.
    """
    for node in network.nodes:
        rule = RULES.get(node.op)
        if rule is None:
            continue
        what = f"{node.op} {node.name}"
        try:
            rule(network, node)
        except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
            problem = say("{what} has attributes or tensors that don't go together").format(
                what=what
            )
            raise ArgumentError(
                problem, say("Compare it with ONNX's operator ({error}).").format(error=error)
            ) from error
