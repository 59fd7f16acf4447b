"""The device tasks of a compiled network, in their order, with the tensors that they share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from npusim.graph.kinds import ELEMENTWISE, PRODUCTS, VIEWS
from npusim.graph.memory import source
from npusim.operators.tasks import TaskSpec
from npusim.ops.convolution.geometry import weight as fractal_z
from npusim.values.formats import Format
from npusim.values.layouts import c0, storage_shape
from npusim.values.tensors import TensorSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from npusim.graph.network import Network, Node, Value

_FRACTAL = 16  # columns


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
        if node.op in VIEWS:
            continue
        inputs = tuple(None if value is None else described(value, node) for value in node.inputs)
        outputs = tuple(described(value) for value in node.outputs)
        yield Task(
            node,
            TaskSpec(node.op, inputs, outputs, node.attributes),
            tuple(source(value).name for value in node.given),
            tuple(value.name for value in node.outputs),
            tuple(described(value, node) for value in node.given if value.weight),
        )


def described(value: Value, node: Node | None = None) -> TensorSpec:
    """The tensor as it lies in memory, for the node that works on it."""
    return TensorSpec(_shape(value, node), value.dtype, value.format)


def _shape(value: Value, node: Node | None) -> tuple[int, ...]:
    if value.format is Format.FRACTAL_Z and node is not None:
        lanes = c0(value.dtype)
        return fractal_z(value.shape, lanes, lanes, groups=node.attributes.get("groups", 1))
    if _is_row_of_fractals(value, node):
        columns = value.shape[-1]
        ones = (1,) * (len(value.shape) - 2)
        return (*ones, columns // _FRACTAL, 1, 1, _FRACTAL)
    return storage_shape(value.shape, value.dtype, value.format)


def _is_row_of_fractals(value: Value, node: Node | None) -> bool:
    """A row in ND that an elementwise kernel combines with every row of matrices in FRACTAL_NZ."""
    if node is None or node.output.format is not Format.FRACTAL_NZ or node.op in PRODUCTS:
        return False
    row = bool(value.shape) and value.numel == value.shape[-1] > 1
    return row and value.format is Format.ND and node.op in ELEMENTWISE
