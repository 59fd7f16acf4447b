"""Reductions, softmax and what searches along an axis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from npusim.graph.mapping.rules import Rule, axes_of, contents, told

if TYPE_CHECKING:
    from collections.abc import Mapping

    from npusim.graph.network import Network, Node


def _reduction(op: str) -> Rule:
    def rule(network: Network, node: Node) -> None:
        x = node.given[0]
        axes = told(node, "axes", 1)
        if not axes and node.attributes.get("noop_with_empty_axes"):
            network.replace([node], "Identity", [x], node.outputs)
            return
        rank = len(x.shape)
        attributes = {
            "axes": axes_of(axes or range(rank), rank),
            "keep_dims": bool(node.attributes.get("keepdims", 1)),
        }
        network.replace([node], op, [x], node.outputs, attributes)

    return rule


def _composed(before: str, after: str) -> Rule:
    """A sum between two elementwise operators, either of which may be none."""

    def rule(network: Network, node: Node) -> None:
        if before:
            x = node.given[0]
            made = network.value(x)
            network.add(before, [x], [made], name=node.name, place=node.place)
            network.rewire(node, x, made)
        if after:
            out, total = node.output, network.value(node.output)
            node = network.replace([node], node.op, node.inputs, [total], node.attributes)
            network.add(after, [total], [out], name=node.name, place=node.place)
        _reduction("ReduceSumD")(network, node)

    return rule


def _softmax(op: str) -> Rule:
    def rule(network: Network, node: Node) -> None:
        x = node.given[0]
        rank = len(x.shape)
        new = network.opset >= 13
        first = node.attributes.get("axis", -1 if new else 1) % max(rank, 1)
        # Before opset 13 the axes from the given one on were one row.
        axes = [first] if new else list(range(first, rank))
        network.replace([node], op, [x], node.outputs, {"axes": axes})

    return rule


def _search(op: str) -> Rule:
    def rule(network: Network, node: Node) -> None:
        attributes = {"dimension": node.attributes.get("axis", 0)}
        network.replace([node], op, node.inputs, node.outputs, attributes)

    return rule


def _largest(network: Network, node: Node) -> None:
    counts = told(node, "k", 1) or [1]
    attributes = {
        "k": counts[0],
        "dim": node.attributes.get("axis", -1),
        "largest": bool(node.attributes.get("largest", 1)),
        "sorted": bool(node.attributes.get("sorted", 1)),
    }
    network.replace([node], "TopKV2", node.inputs, node.outputs, attributes)


def _running(network: Network, node: Node) -> None:
    axis = (contents(node, 1) or [0])[0]
    network.replace([node], "Cumsum", node.inputs[:1], node.outputs, {"axis": axis})


RULES: Final[Mapping[str, Rule]] = {
    "ArgMax": _search("ArgMaxV2"),
    "ArgMin": _search("ArgMin"),
    "CumSum": _running,
    "LogSoftmax": _softmax("LogSoftmaxV2"),
    "ReduceL1": _composed("Abs", ""),
    "ReduceL2": _composed("Square", "Sqrt"),
    "ReduceLogSum": _composed("", "Log"),
    "ReduceLogSumExp": _composed("Exp", "Log"),
    "ReduceMax": _reduction("ReduceMaxD"),
    "ReduceMean": _reduction("ReduceMeanD"),
    "ReduceMin": _reduction("ReduceMinD"),
    "ReduceProd": _reduction("ReduceProdD"),
    "ReduceSum": _reduction("ReduceSumD"),
    "ReduceSumSquare": _composed("Square", ""),
    "Softmax": _softmax("SoftmaxV2"),
    "TopK": _largest,
}
