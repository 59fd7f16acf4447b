"""What rules have in common: reading attributes and known inputs, replacing nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from npusim.values.errors import ArgumentError
from npusim.values.language import say

if TYPE_CHECKING:
    from npusim.graph.network import Network, Node, Value

Rule = Callable[["Network", "Node"], None]
"""Replaces one node in the network."""


def renamed(op: str, attributes: Mapping[str, str] | None = None) -> Rule:
    """One operator for another with the same tensors; `attributes` from ONNX's names to CANN's."""

    def rule(network: Network, node: Node) -> None:
        known = node.attributes
        kept = {own: known[theirs] for theirs, own in (attributes or {}).items() if theirs in known}
        network.replace([node], op, node.inputs, node.outputs, kept)

    return rule


def contents(node: Node, place: int) -> list[Any] | None:
    """What an input holds, as a flat list; None where it is left out.

    Raises ArgumentError where it is there, but only known when the model runs.
    """
    value = node.input(place)
    if value is None:
        return None
    if value.contents is None:
        raise ArgumentError(
            say(
                "{op} {name} takes {value} from data; the device compiles only sizes that are "
                "known before"
            ).format(op=node.op, name=node.name, value=value.name)
        )
    return [each.item() for each in value.contents.reshape(-1)]


def told(node: Node, name: str, place: int) -> list[Any] | None:
    """An attribute of old opsets that is an input of new ones, as a list; None where left out."""
    if name in node.attributes:
        value = node.attributes[name]
        return list(value) if isinstance(value, Sequence) else [value]
    return contents(node, place)


def axes_of(axes: Sequence[int], rank: int) -> list[int]:
    """Axes counted from the front."""
    return [axis % max(rank, 1) for axis in axes]


def reshaped(network: Network, value: Value, shape: Sequence[int], like: Node) -> Value:
    """The same bytes under another shape."""
    new = network.value(value, shape=shape)
    network.add("Reshape", [value], [new], name=like.name, place=like.place)
    return new


def a_number(network: Network, like: Value, number: float) -> Value:
    """One number of a value's dtype that the model holds."""
    import numpy as np

    return network.weight(like, (), np.array(number))


def per_channel(network: Network, value: Value, rank: int) -> Value:
    """A weight with a number for each channel as a tensor of the images' rank."""
    numbers = value.contents if value.numel == 1 else None
    return network.weight(value, (1, value.numel, *(1,) * (rank - 2)), numbers)
