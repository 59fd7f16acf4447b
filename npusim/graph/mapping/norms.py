"""Normalisations that ONNX has as operators.

Source: the ONNX plugins of the public operator libraries (LayerNormalization, LpNormalization of
ops-nn).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from npusim.graph.mapping.rules import Rule
    from npusim.graph.network import Network, Node

_RESULTS: Final = 3  # of LayerNorm: y, and mean and variance of each row
_EUCLIDEAN: Final = 2


def _layer_norm(network: Network, node: Node) -> None:
    """LayerNorm over the last axes. Without a shift there is one of zeros.

    The plugin spreads gains and shifts over the whole tensor; they are taken as rows here.
    """
    x, gain = node.given[:2]
    first = node.attributes.get("axis", -1) % max(len(x.shape), 1)
    shift = node.input(2)
    if shift is None:
        shift = network.weight(gain)
    moments = (*x.shape[:first], *(1,) * (len(x.shape) - first))
    results = [*node.outputs[:_RESULTS]]
    results += [network.value(x, shape=moments) for _ in range(_RESULTS - len(results))]
    attributes = {"epsilon": node.attributes.get("epsilon", 1e-5)}
    network.replace([node], "LayerNorm", [x, gain, shift], results, attributes)


def _by_norm(network: Network, node: Node) -> None:
    """Every line along an axis divided by its norm."""
    x, out = node.given[0], node.output
    axis = node.attributes.get("axis", -1) % max(len(x.shape), 1)
    lines = [1 if place == axis else size for place, size in enumerate(x.shape)]
    sums, norm = (network.value(x, shape=lines) for _ in range(2))
    powers = network.value(x)
    euclidean = node.attributes.get("p", _EUCLIDEAN) == _EUCLIDEAN
    how: dict[str, Any] = {"name": node.name, "covers": node.covers, "place": node.place}
    network.remove(node)
    network.add("Square" if euclidean else "Abs", [x], [powers], **how)
    total = sums if euclidean else norm
    network.add("ReduceSumD", [powers], [total], {"axes": [axis], "keep_dims": True}, **how)
    if euclidean:
        network.add("Sqrt", [sums], [norm], **how)
    network.add("RealDiv", [x, norm], [out], **how)


RULES: Final[Mapping[str, Rule]] = {
    "LayerNormalization": _layer_norm,
    "LpNormalization": _by_norm,
}
