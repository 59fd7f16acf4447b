"""Convolutions of one image, each on its way to a convolution of its own, are one convolution."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from npusim.graph.passes.patterns import follower
from npusim.values.layouts import c0

if TYPE_CHECKING:
    from collections.abc import Hashable

    from npusim.graph.network import Network, Node, Value
    from npusim.graph.target import Target

_CHANNELS: Final = 1
_ALIKE: Final = ("pads", "strides", "dilations", "groups", "data_format")


def run(network: Network, target: Target) -> int:
    """Convolutions of like windows behind which stand Relu and another convolution.

    Those read their channels of the result where they lie (StridedRead), so that splitting it is no
    task.
    """
    del target
    images = {id(node.given[0]): node.given[0] for node in network.named("Conv2D")}
    found = 0
    for image in images.values():
        branches: dict[Hashable, list[tuple[Node, Node]]] = {}
        for node in dict.fromkeys(image.users):
            if (relu := _leads_on(network, node, image)) is not None:
                branches.setdefault(_kind(node), []).append((node, relu))
        for alike in branches.values():
            if len(alike) > 1:
                _merge(network, alike)
                found += 1
    return found


def _leads_on(network: Network, node: Node, image: Value) -> Node | None:
    """The Relu between a convolution of the image and the next one, if that leads to Relu or out.

    Its result is whole blocks of channels.
    """
    if node.op != "Conv2D" or node.given[0] is not image or node.attributes["groups"] != 1:
        return None
    relu = follower(network, node, "Relu")
    after = None if relu is None else follower(network, relu, "Conv2D")
    if after is None or not all(value.weight for value in node.given[1:]):
        return None
    last = not after.output.users or follower(network, after, "Relu") is not None
    whole = node.output.shape[_CHANNELS] % c0(node.output.dtype) == 0
    return relu if last and whole else None


def _kind(node: Node) -> Hashable:
    """What has to be the same: the window, and whether there is a bias."""
    return (
        node.given[1].shape[2:],
        len(node.given),
        *(str(node.attributes.get(name)) for name in _ALIKE),
    )


def _merge(network: Network, branches: list[tuple[Node, Node]]) -> None:
    """One convolution and one Relu, of whose channels every branch has its own."""
    nodes, relus = zip(*branches, strict=True)
    first, parts = nodes[0], [relu.output for relu in relus]
    widths = [part.shape[_CHANNELS] for part in parts]
    weights = [network.weight(each, (sum(widths), *each.shape[1:])) for each in first.given[1:]]
    images, _, *plane = first.output.shape
    made, through = (
        network.value(first.output, shape=(images, sum(widths), *plane)) for _ in range(2)
    )
    attributes = {"split_dim": _CHANNELS, "num_split": len(parts), "size_splits": widths}
    network.replace(nodes, "Conv2D", [first.given[0], *weights], [made], first.attributes)
    relu = network.replace(relus, "Relu", [made], [through])
    network.add("PhonySplit", [through], parts, attributes, name=relu.name, place=relu.place)
