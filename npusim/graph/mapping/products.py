"""Matrix products."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from npusim.graph.mapping.einsum import einsum
from npusim.graph.mapping.rules import Rule, reshaped

if TYPE_CHECKING:
    from collections.abc import Mapping

    from npusim.graph.network import Network, Node


def _product(network: Network, node: Node) -> None:
    """A product of two matrices; of stacks of them where the right one isn't a single one."""
    left, right = node.given
    if len(right.shape) == 2 and len(left.shape) > 2:
        _flattened(network, node)
    elif len(left.shape) == len(right.shape) == 2:
        network.replace([node], "MatMulV2", node.inputs, node.outputs)
    else:
        network.replace([node], "BatchMatMulV2", node.inputs, node.outputs)


def _flattened(network: Network, node: Node) -> None:
    """Rows of all matrices of the stack as rows of one, as BatchMatMulV2ReshapeFusionPass does."""
    left, right = node.given
    depth = left.shape[-1]
    rows = left.numel // max(depth, 1)
    flat = reshaped(network, left, (rows, depth), node)
    made = network.value(node.output, shape=(rows, right.shape[1]))
    network.remove(node)
    network.add("MatMulV2", [flat, right], [made], name=node.name, covers=node.covers,
                place=node.place)  # fmt: skip
    network.add("Reshape", [made], node.outputs, name=node.name, place=node.place)


def _gemm(network: Network, node: Node) -> None:
    attributes = {
        "transpose_x1": bool(node.attributes.get("transA", 0)),
        "transpose_x2": bool(node.attributes.get("transB", 0)),
    }
    network.replace([node], "MatMulV2", node.inputs, node.outputs, attributes)


RULES: Final[Mapping[str, Rule]] = {
    "Einsum": einsum,
    "Gemm": _gemm,
    "MatMul": _product,
}
