"""What works on rows behind a flattened product stays flat: the view moves behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.graph.kinds import ELEMENTWISE
from npusim.graph.mapping.rules import reshaped
from npusim.graph.passes.patterns import maker
from npusim.values.formats import FRACTAL

if TYPE_CHECKING:
    from npusim.graph.network import Network, Node, Value
    from npusim.graph.target import Target


def run(network: Network, target: Target) -> int:
    """Elementwise operators and LayerNorm on the rows of a product, up to whoever needs planes."""
    del target
    return sum(_sink(network, node) for node in network.ordered()
               if node.op in ELEMENTWISE or node.op == "LayerNorm")  # fmt: skip


def _sink(network: Network, node: Node) -> bool:
    if node.op == "LayerNorm" and not in_whole_fractals(node.output):
        return False
    views = [view for view in map(_flattening, node.activations()) if view is not None]
    if not views or any(value.shape != node.output.shape for value in node.activations()):
        return False
    rows = views[0].given[0].shape
    if not all(_per_row(value, rows) for value in node.given if value.weight):
        return False
    flat = {id(value): _flat(network, value, rows, node) for value in node.activations()}
    outputs = []
    for value in node.outputs:
        shape = (*rows[:-1], value.shape[-1])
        outputs.append(network.value(value, shape=shape))
    inputs = [flat.get(id(value), value) for value in node.inputs]
    covers, name, place = node.covers, node.name, node.place
    old = node.outputs
    network.remove(node)
    network.add(node.op, inputs, outputs, node.attributes, name=name, covers=covers, place=place)
    for own, made in zip(old, outputs, strict=True):
        if own.users or network.gives(own):
            network.add("Reshape", [made], [own], name=name, place=place)
    return True


def in_whole_fractals(value: Value) -> bool:
    """Whether matrices fill their fractals: only then a LayerNorm takes them in FRACTAL_NZ.

    Source: op_select_format of LayerNorm (canndev ops/built-in/tbe/impl/layer_norm.py).
    """
    return all(size % FRACTAL == 0 for size in value.shape[-2:])


def _flattening(value: Value) -> Node | None:
    """The view that makes a value of a matrix with the same rows."""
    view = maker(value, "Reshape")
    if view is None or value.shape[-1:] != view.given[0].shape[-1:]:
        return None
    return view if len(view.given[0].shape) == 2 < len(value.shape) else None


def _per_row(weight: Value, rows: tuple[int, ...]) -> bool:
    """Whether a constant is the same for every row."""
    return weight.numel in (1, rows[-1]) and weight.shape[-1:] in ((), (1,), rows[-1:])


def _flat(network: Network, value: Value, rows: tuple[int, ...], node: Node) -> Value:
    view = _flattening(value)
    if view is not None and view.given[0].shape == rows:
        return view.given[0]
    return reshaped(network, value, rows, node)
