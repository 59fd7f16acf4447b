"""Convolutions write their channels into the concatenation that reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from npusim.graph.passes.no_task import without_task
from npusim.graph.passes.patterns import maker
from npusim.values.layouts import c0

if TYPE_CHECKING:
    from npusim.graph.network import Network, Node, Value
    from npusim.graph.target import Target

_CHANNELS: Final = 1
_IMAGE: Final = 4  # axes
_BEHIND: Final = ("Relu", "LeakyRelu", "Mish")
"""Who may be between, the same on each way. Maximum pools, for whose results there is a task that
moves them, are left to the concatenation."""


def run(network: Network, target: Target) -> int:
    """Concatenations along channels, of convolutions that nobody else reads."""
    del target
    found = 0
    for node in network.named("ConcatD"):
        if _fits(network, node):
            without_task(network, node)
            found += 1
    return found


def _fits(network: Network, node: Node) -> bool:
    if node.attributes["concat_dim"] != _CHANNELS or len(node.output.shape) != _IMAGE:
        return False
    kinds = {_kind(network, value) for value in node.given}
    return len(kinds) == 1 and None not in kinds and all(map(_is_whole, node.given[:-1]))


def _kind(network: Network, value: Value) -> str | None:
    """What stands between a convolution and its one reader, perhaps nothing; None for others."""
    behind = maker(value, *_BEHIND)
    made = value if behind is None else behind.given[0]
    if maker(made, "Conv2D") is None or not all(map(network.is_private, (value, made))):
        return None
    return "" if behind is None else behind.op


def _is_whole(value: Value) -> bool:
    return value.shape[_CHANNELS] % c0(value.dtype) == 0
