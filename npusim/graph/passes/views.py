"""The same bytes under another name or shape need no task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.graph.kinds import VIEWS

if TYPE_CHECKING:
    from npusim.graph.network import Network, Node
    from npusim.graph.target import Target


def run(network: Network, target: Target) -> int:
    """Take away what copies, and all but the last of views in a row."""
    del target
    found = sum(_drop(network, node) for node in network.ordered() if node.op in VIEWS)
    return found + sum(_look_through(network, node) for node in network.named(_VIEWING))


_VIEWING = "ConfusionTransposeD"


def _look_through(network: Network, node: Node) -> bool:
    """A kernel that begins with a view of its own reads what is behind another one."""
    before = node.given[0].maker
    if node.attributes["transpose_first"] or before is None or before.op != "Reshape":
        return False
    network.rewire(node, node.given[0], before.given[0])
    return True


def _drop(network: Network, node: Node) -> bool:
    before = node.given[0].maker
    behind = node.op == before.op == "Reshape" if before is not None else False
    if before is not None and behind:
        network.rewire(node, node.given[0], before.given[0])
    source = node.given[0]
    if node.op == "Identity" or source.shape == node.output.shape:
        network.remove(node)
        network.redirect(node.output, source)
        return True
    return behind
