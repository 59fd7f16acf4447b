"""Zeros around images before a convolution are its own padding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from npusim.graph.passes.patterns import maker

if TYPE_CHECKING:
    from npusim.graph.network import Network, Node
    from npusim.graph.target import Target

_LONGEST: Final = 255
"""Source: pad_conv2d_fusion_pass.cc of the open operator tree; so is that rows see the image."""


def run(network: Network, target: Target) -> int:
    """Fold frames of zeros into the convolutions that read them alone."""
    del target
    return sum(_fold(network, node) for node in network.named("Conv2D", "DepthwiseConv2D"))


def _fold(network: Network, node: Node) -> bool:
    pad = maker(node.given[0], "PadD")
    if pad is None or not network.is_private(pad.output) or pad.attributes.get("value"):
        return False
    frame = pad.attributes["paddings"]
    if len(frame) != 2 * len(pad.output.shape) or any(frame[:-4]) or min(frame) < 0:
        return False
    pads = [own + more for own, more in zip(node.attributes["pads"], frame[-4:], strict=True)]
    rows = node.given[1].shape[2]
    if max(pads) > _LONGEST or max(pads[:2]) >= rows:
        return False
    inputs = [pad.given[0], *node.inputs[1:]]
    network.replace([pad, node], node.op, inputs, node.outputs, {**node.attributes, "pads": pads})
    return True
