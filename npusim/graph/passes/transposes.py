"""Transposes merge with each other, with views, and with the products that read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from npusim.graph.passes.patterns import follower, maker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npusim.graph.network import Network, Node
    from npusim.graph.target import Target


_HEADS: Final = [0, 2, 1, 3]
"""What ConfusionTransposeD is for: rows of several heads to heads of several rows, and back."""


def run(network: Network, target: Target) -> int:
    """Two in a row are one, one before a product is a flag, one beside a view goes with it."""
    del target
    found = sum(_merge(network, node) for node in network.named("TransposeD"))
    found += sum(_into_product(network, node) for node in network.named("BatchMatMulV2"))
    found += sum(_beside_view(network, node) for node in network.named("TransposeD"))
    return found


def _merge(network: Network, node: Node) -> bool:
    before = maker(node.given[0], "TransposeD")
    if before is None or not network.is_private(before.output):
        return False
    first, second = before.attributes["perm"], node.attributes["perm"]
    perm = [first[axis] for axis in second]
    op = "Identity" if perm == sorted(perm) else "TransposeD"
    network.replace([before, node], op, before.inputs, node.outputs, {"perm": perm})
    return True


def _into_product(network: Network, node: Node) -> int:
    """A right operand that is turned last is read as it was: heads apart, columns as rows."""
    turn = maker(node.input(1), "TransposeD")
    if turn is None or not network.is_private(turn.output):
        return 0
    perm = list(turn.attributes["perm"])
    perm[-2:] = perm[:-3:-1]
    if not _apart(perm):
        return 0
    made = network.value(turn.output, shape=[turn.given[0].shape[axis] for axis in perm])
    op = "Identity" if perm == sorted(perm) else "TransposeD"
    network.replace([turn], op, turn.inputs, [made], {"perm": perm})
    attributes = {**node.attributes, "adj_x2": not node.attributes.get("adj_x2", False)}
    inputs = [node.inputs[0], made, *node.inputs[2:]]
    network.replace([node], node.op, inputs, node.outputs, attributes)
    return 1


def _apart(perm: Sequence[int]) -> bool:
    """Whether the last axis stays where it is: rows move whole."""
    return perm[-1] == len(perm) - 1


def _beside_view(network: Network, node: Node) -> bool:
    """ConfusionTransposeD: a view and a transpose of heads are one kernel in any format."""
    if node.attributes["perm"] != _HEADS:
        return False
    view = maker(node.given[0], "Reshape")
    if view is not None and network.is_private(view.output):
        attributes = {**node.attributes, "shape": list(view.output.shape), "transpose_first": False}
        network.replace([view, node], "ConfusionTransposeD", view.inputs, node.outputs, attributes)
        return True
    view = follower(network, node, "Reshape")
    if view is not None:
        attributes = {**node.attributes, "shape": list(view.output.shape), "transpose_first": True}
        network.replace([node, view], "ConfusionTransposeD", node.inputs, view.outputs, attributes)
        return True
    return False
