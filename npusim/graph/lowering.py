"""The device tasks of a compiled network, in their order, with the tensors that they share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from npusim.graph.memory import source
from npusim.operators.tasks import TaskSpec
from npusim.values.layouts import storage_shape
from npusim.values.tensors import TensorSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from npusim.graph.network import Network, Node, Value

_NO_TASK = ("Identity", "Reshape")


@dataclass(frozen=True)
class Task:
    """One task: `reads` and `writes` name the tensors in the order of those that are there."""

    node: Node
    spec: TaskSpec
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    weights: tuple[TensorSpec, ...]


def tasks_of(network: Network) -> Iterator[Task]:
    """The tasks; what is only a view has none."""
    for node in network.ordered():
        if node.op in _NO_TASK:
            continue
        inputs = tuple(None if value is None else described(value) for value in node.inputs)
        outputs = tuple(described(value) for value in node.outputs)
        yield Task(
            node,
            TaskSpec(node.op, inputs, outputs, node.attributes),
            tuple(source(value).name for value in node.given),
            tuple(value.name for value in node.outputs),
            tuple(described(value) for value in node.given if value.weight),
        )


def described(value: Value) -> TensorSpec:
    """The tensor as it lies in memory."""
    shape = storage_shape(value.shape, value.dtype, value.format)
    return TensorSpec(shape, value.dtype, value.format)
