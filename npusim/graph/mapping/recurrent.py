"""Recurrent layers: a task for each direction, on weights that are put together beforehand.

As CommonLSTM and CommonGRU become DynamicRNN and DynamicGRUV2 (fusion passes of the open operator
tree); the results of both directions are joined, the last states cut out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from npusim.graph.mapping.rules import Rule, reshaped
from npusim.values.errors import ArgumentError
from npusim.values.language import say

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from npusim.graph.network import Network, Node, Value

_BACKWARD: Final = "REDIRECTIONAL"
_STEPS: Final = 4  # axes of a result with all steps


class _Kind(NamedTuple):
    """An operator of the device: gates, whether their weights lie in one matrix, states."""

    op: str
    gates: int
    joined: bool
    states: int


_LSTM: Final = _Kind("DynamicRNN", 4, joined=True, states=2)
_GRU: Final = _Kind("DynamicGRUV2", 3, joined=False, states=1)


def _layer(kind: _Kind) -> Rule:
    def rule(network: Network, node: Node) -> None:
        x, w, r = (_given(node, place) for place in range(3))
        _refuse_others(kind, node)
        ways, columns = w.shape[0], r.shape[-1]
        steps, rows, _ = x.shape
        backward = [
            way == 1 or node.attributes.get("direction") == "reverse" for way in range(ways)
        ]
        network.remove(node)
        made = []
        for way in range(ways):
            results = [
                network.value(x, shape=(steps, rows, columns)) for _ in range(1 + kind.states)
            ]
            inputs = [x, *_weights(network, node, kind), None, *_first(network, node, kind, way)]
            attributes: dict[str, Any] = {"is_training": False}
            if backward[way]:
                attributes["direction"] = _BACKWARD
            _add(network, node, kind.op, inputs, results, attributes)
            made.append(results)
        _results(network, node, made, backward)

    return rule


def _given(node: Node, place: int) -> Value:
    value = node.input(place)
    if value is None:
        raise ArgumentError(
            say("{op} {name} has no input {place}").format(op=node.op, name=node.name, place=place)
        )
    return value


def _refuse_others(kind: _Kind, node: Node) -> None:
    """ArgumentError for forms that the device's operator hasn't, or that aren't modelled."""
    peephole = kind is _LSTM and node.input(7) is not None
    after = kind is _LSTM or bool(node.attributes.get("linear_before_reset", 0))
    if peephole or node.attributes.get("layout", 0) or not after:
        raise ArgumentError(
            say(
                "{op} {name}: peepholes, layout 1 and a reset before the product aren't modelled"
            ).format(op=node.op, name=node.name),
            say("Export it with linear_before_reset=1 and steps in front."),
        )


def _weights(network: Network, node: Node, kind: _Kind) -> list[Value | None]:
    """Weights and biases of a direction as the device takes them."""
    w, r, bias = _given(node, 1), _given(node, 2), node.input(3)
    depth, columns = w.shape[-1], r.shape[-1]
    wide = kind.gates * columns
    shapes: list[tuple[int, ...]] = [(depth, wide), (columns, wide)]
    if kind.joined:
        shapes = [(depth + columns, wide)]
    found: list[Value | None] = [network.weight(w, shape) for shape in shapes]
    if bias is None:
        return [*found, network.weight(w, (wide,)) if kind.joined else None]
    count = 1 if kind.joined else 2
    return [*found, *(network.weight(bias, (wide,)) for _ in range(count))]


def _first(network: Network, node: Node, kind: _Kind, way: int) -> list[Value | None]:
    """The states before the first step, of one direction."""
    states = [node.input(5 + place) for place in range(kind.states)]
    if any(each is None for each in states):
        return [None] * kind.states
    found: list[Value | None] = []
    for state in (each for each in states if each is not None):
        ways, *shape = state.shape
        if ways == 1 or state.weight:
            found.append(network.weight(state, (1, *shape)) if state.weight else state)
            continue
        part = network.value(state, shape=(1, *shape))
        cut = {"offsets": [way, 0, 0], "size": [1, *shape]}
        _add(network, node, "SliceD", [state], [part], cut)
        found.append(part)
    return found


def _results(
    network: Network, node: Node, made: Sequence[Sequence[Value]], backward: Sequence[bool]
) -> None:
    """All states of both directions beside each other, and the last ones."""
    last = 1
    for output in node.outputs:
        if len(output.shape) == _STEPS:
            whole = [reshaped(network, y, (y.shape[0], 1, *y.shape[1:]), node) for y, *_ in made]
            _joined(network, node, whole, output, axis=1)
            continue
        parts = []
        for results, turned in zip(made, backward, strict=True):
            steps, rows, columns = results[last].shape
            part = network.value(results[last], shape=(1, rows, columns))
            place = 0 if turned else steps - 1
            cut = {"offsets": [place, 0, 0], "size": [1, rows, columns]}
            _add(network, node, "SliceD", [results[last]], [part], cut)
            parts.append(part)
        _joined(network, node, parts, output, axis=0)
        last += 1


def _joined(
    network: Network, node: Node, parts: Sequence[Value], output: Value, *, axis: int
) -> None:
    if len(parts) == 1:
        _add(network, node, "Reshape", parts, [output], {})
    else:
        _add(network, node, "ConcatD", parts, [output], {"concat_dim": axis})


def _add(
    network: Network, node: Node, op: str, inputs: Sequence[Value | None],
    outputs: Sequence[Value], attributes: Mapping[str, Any],
) -> None:  # fmt: skip
    network.add(op, inputs, outputs, attributes, name=node.name, covers=node.covers,
                place=node.place)  # fmt: skip


RULES: Final[Mapping[str, Rule]] = {"GRU": _layer(_GRU), "LSTM": _layer(_LSTM)}
