"""Images that come in bytes: the first convolution normalises them on their way (AIPP)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.graph.passes.patterns import follower
from npusim.values.dtypes import FLOAT16
from npusim.values.formats import Format

if TYPE_CHECKING:
    from npusim.graph.network import Network, Node, Value
    from npusim.graph.target import Target

_CHANNELS = 4  # at most, of what AIPP makes of an image


def run(network: Network, target: Target) -> int:
    """Where it was asked for: no task casts the image and brings it into slices of 16 channels.

    What passes for the image are four channels in float16: AIPP itself, which makes them of one
    byte each, is taken to keep up with loads.
    """
    if not target.aipp:
        return 0
    return sum(_take_in(network, value) for value in tuple(network.inputs))


def _take_in(network: Network, image: Value) -> bool:
    channels = image.shape[1] if len(image.shape) == 4 else 0
    if not 0 < channels <= _CHANNELS or not image.users.is_one():
        return False
    (last,) = image.users
    while last.op in ("Cast", "TransData"):
        after = follower(network, last, "Cast", "TransData", "Conv2D")
        if after is None:
            return False
        last = after
    if last.op != "Conv2D" or last.attributes.get("groups", 1) != 1 or last.given[0] is image:
        return False
    _rewire(network, image, last)
    return True


def _rewire(network: Network, image: Value, node: Node) -> None:
    """The convolution reads the image itself, four channels of which follow each other."""
    given = network.value(image, dtype=FLOAT16, format=Format.NC1HWC0_C04)
    network.inputs = [given if each is image else each for each in network.inputs]
    network.rewire(node, node.given[0], given)
    node.attributes["ksize"] = list(node.given[1].shape[2:])
