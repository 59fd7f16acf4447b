"""Precision modes: offline, what is float32 in the file runs in float16."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.values.dtypes import DOUBLE, FLOAT, FLOAT16

if TYPE_CHECKING:
    from npusim.graph.network import Network, Value
    from npusim.graph.target import Target

# Source: hiascend.com ATC --precision_mode, default force_fp16 of offline models.
_FORCED = {FLOAT: FLOAT16, DOUBLE: FLOAT16}
# Whose parameters the kernel takes in float32.
_WHOLE = ("BNInfer", "INTrainingUpdateV2", "NonMaxSuppressionV6")
_SUMS = {"INTrainingReduceV2": 0, "INTrainingUpdateV2": 1}  # from which result on all are float32


def run(network: Network, target: Target) -> int:
    """Change the dtypes of all tensors but those at the edges, which are cast."""
    if target.precision == "origin":
        return 0
    _cast_edges(network)
    edges = {id(value) for value in (*network.inputs, *network.outputs)}
    edges |= {
        id(value) for node in network.named(*_SUMS) for value in node.outputs[_SUMS[node.op] :]
    }
    edges |= {id(value) for node in network.named(*_WHOLE) for value in node.given if value.weight}
    changed = 0
    for value in _values(network):
        if id(value) not in edges and value.dtype in _FORCED:
            value.dtype = _FORCED[value.dtype]
            changed += 1
    for node in network.named("Cast"):
        if node.given[0].dtype is node.output.dtype and id(node.output) not in edges:
            network.remove(node)
            network.redirect(node.output, node.given[0])
    return changed


def _cast_edges(network: Network) -> None:
    """The caller keeps the dtypes of the file: tensors are cast where they come in and go out."""
    for value in network.inputs:
        if value.dtype in _FORCED and value.users:
            inner = network.value(value)
            for node in dict.fromkeys(value.users):
                network.rewire(node, value, inner)
            network.add("Cast", [value], [inner], name=f"Cast {value.name}", place=-1.0)
    for value in network.outputs:
        maker = value.maker
        if maker is None or value.dtype not in _FORCED:
            continue
        inner = network.value(value)
        for reader in dict.fromkeys(value.users):
            network.rewire(reader, value, inner)
        outputs = [inner if each is value else each for each in maker.outputs]
        maker.outputs = outputs
        inner.maker = maker
        network.add("Cast", [inner], [value], name=f"Cast {value.name}")


def _values(network: Network) -> list[Value]:
    made = [value for node in network.nodes for value in (*node.given, *node.outputs)]
    return list({id(value): value for value in made}.values())
