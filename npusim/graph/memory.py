"""What a compiled network needs of the card's memory: weights, and what is alive at once."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from npusim.graph.kinds import NO_TASK, VIEWS
from npusim.values.layouts import storage_shape

if TYPE_CHECKING:
    from npusim.graph.network import Network, Node, Value


def nbytes(value: Value) -> int:
    """Bytes of a tensor as it lies in memory."""
    return value.dtype.nbytes(prod(storage_shape(value.shape, value.dtype, value.format)))


def source(value: Value) -> Value:
    """The tensor whose bytes a value is: views and pieces have none of their own."""
    while True:
        if value.whole is not None:
            value = value.whole
        elif value.maker is not None and value.maker.op in VIEWS:
            value = value.maker.given[0]
        else:
            return value


def weights_bytes(network: Network) -> int:
    """Bytes of all constants, each once."""
    weights = {id(value): value for node in network.nodes for value in node.given if value.weight}
    return sum(map(nbytes, weights.values()))


def alive_bytes(ordered: list[Node], network: Network) -> list[int]:
    """Bytes of the tensors that are alive while each task runs, views left out.

    A tensor lives until its last reader. Source: hicann/ge memory reuse; blocks are taken to be
    reused without gaps.
    """
    last_use: dict[int, int] = {}
    for place, node in enumerate(ordered):
        for value in (*node.activations(), *node.outputs):
            last_use[id(source(value))] = place
    for value in (*network.inputs, *network.outputs):
        last_use[id(source(value))] = len(ordered)
    alive: dict[int, int] = {id(value): nbytes(value) for value in network.inputs}
    now = sum(alive.values())
    found = []
    for place, node in enumerate(ordered):
        made = [source(value) for value in node.outputs if node.op not in NO_TASK]
        for value in made:
            if id(value) not in alive:
                alive[id(value)] = nbytes(value)
                now += alive[id(value)]
        if node.op not in NO_TASK:
            found.append(now)
        for number in {id(source(each)) for each in (*node.activations(), *made)}:
            if last_use.get(number, place) <= place and number in alive:
                now -= alive.pop(number)
    return found
