"""Layer normalisation written out becomes one operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.graph.passes.patterns import follower, maker, number, other

if TYPE_CHECKING:
    from npusim.graph.network import Network, Node, Value
    from npusim.graph.target import Target


def run(network: Network, target: Target) -> int:
    """(x - mean) / sqrt(mean of squares + epsilon) * gamma + beta over the last axis."""
    del target
    return sum(_fold(network, node) for node in network.named("RealDiv"))


def _fold(network: Network, division: Node) -> bool:
    centred = maker(division.input(0), "Sub")
    root = maker(division.input(1), "Sqrt")
    if centred is None or root is None:
        return False
    x = centred.given[0]
    epsilon = _epsilon(root, centred)
    mean = maker(centred.input(1), "ReduceMeanD")
    if epsilon is None or mean is None or mean.given[0] is not x or not _last_axis(mean):
        return False
    scaled = follower(network, division, "Mul")
    gamma = None if scaled is None else other(scaled, division.output)
    shifted = None if scaled is None else follower(network, scaled, "Add")
    beta = None if scaled is None or shifted is None else other(shifted, scaled.output)
    if scaled is None or shifted is None or not _are_rows(x, gamma, beta):
        return False
    network.replace([division, scaled, shifted], "LayerNorm", [x, gamma, beta],
                    _results(network, x, shifted), {"epsilon": epsilon})  # fmt: skip
    network.prune()
    return True


def _epsilon(root: Node, centred: Node) -> float | None:
    """What is added to the mean of the squares of what was centred."""
    total = maker(root.given[0], "Add", "Adds")
    if total is None:
        return None
    for value in total.given:
        mean = maker(value, "ReduceMeanD")
        squares = None if mean is None else maker(mean.given[0], "Pow", "Square", "Mul")
        if squares is not None and centred.output in squares.given:
            return number(total, value)
    return None


def _last_axis(mean: Node) -> bool:
    return list(mean.attributes["axes"]) == [len(mean.given[0].shape) - 1]


def _are_rows(x: Value, *parameters: Value | None) -> bool:
    return all(each is not None and each.weight and each.shape == x.shape[-1:]
               for each in parameters)  # fmt: skip


def _results(network: Network, x: Value, last: Node) -> list[Value]:
    """The result, mean and variance of each row."""
    rows = (*x.shape[:-1], 1)
    return [last.output, network.value(x, shape=rows), network.value(x, shape=rows)]
