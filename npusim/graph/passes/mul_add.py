"""Scores that are scaled and masked: a product of a number and a sum are one operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.graph.passes.patterns import follower, other

if TYPE_CHECKING:
    from npusim.graph.network import Network, Node, Value
    from npusim.graph.target import Target

_ROW = 2  # axes that every row of a matrix has in common


def run(network: Network, target: Target) -> int:
    """FusedMulAdd behind batched products, whose kernels take it in."""
    del target
    return sum(_fold(network, node) for node in network.named("BatchMatMulV2"))


def _fold(network: Network, node: Node) -> bool:
    scaled = follower(network, node, "Muls")
    total = None if scaled is None else follower(network, scaled, "Add")
    mask = None if scaled is None or total is None else other(total, scaled.output)
    if scaled is None or total is None or mask is None or not is_row_of_each(mask, node.output):
        return False
    factor = network.weight(scaled.output, shape=())
    inputs = [node.output, factor, mask]
    network.replace([scaled, total], "FusedMulAdd", inputs, total.outputs)
    return True


def is_row_of_each(value: Value, made: Value) -> bool:
    """Whether a value is a row for all matrices, or one for all heads of an image each."""
    *outer, rows, columns = (1,) * (len(made.shape) - len(value.shape)) + value.shape
    batch = made.shape[:-_ROW]
    if (rows, columns) != (1, made.shape[-1]) or value.numel == 1:
        return False
    own = [place for place, size in enumerate(outer) if size > 1]
    return all(outer[place] == batch[place] for place in own) and own == list(range(len(own)))
