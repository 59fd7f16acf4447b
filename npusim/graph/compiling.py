"""A network compiled for a product: operators mapped, passes applied, each with its count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from npusim.graph.custom import apply
from npusim.graph.mapping import map_operators
from npusim.graph.passes import chosen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from npusim.graph.custom import Custom
    from npusim.graph.network import Network
    from npusim.graph.target import Target


@dataclass(frozen=True)
class Compiled:
    """The network as the device runs it; `applied` says which pass did something how often."""

    network: Network
    target: Target
    applied: tuple[tuple[str, int], ...]


def compile_network(
    network: Network, target: Target, custom: Mapping[str, Custom] | None = None
) -> Compiled:
    """Compile a network in place; `custom` says what operators of custom domains cost.

    Raises ArgumentError for a node that no operator of the device can do, UnknownNameError for a
    pass that the target switches off and isn't there.
    """
    apply(network, custom or {})
    map_operators(network)
    applied = []
    for each in chosen(target):
        count = each.run(network, target)
        network.prune()
        if count:
            applied.append((each.name, count))
    return Compiled(network, target, tuple(applied))
