"""The device tasks of a compiled network, in their order, with the tensors that they share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from npusim.graph.kinds import NO_TASK, is_elementwise
from npusim.graph.memory import source
from npusim.operators.tasks import TaskSpec
from npusim.ops.convolution.geometry import C04, feature_map
from npusim.ops.convolution.geometry import weight as fractal_z
from npusim.values.formats import FRACTAL, Format
from npusim.values.layouts import c0, storage_shape
from npusim.values.tensors import TensorSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from npusim.graph.network import Network, Node, Value

_SWAPPED = {1: 2, 2: 1}  # NCDHW to NDC1HWC0


@dataclass(frozen=True)
class Task:
    """One task: `reads` and `writes` name the tensors in the order of those that are there.

    `pieces` says which of what it writes is a piece of its tensor, others of which others write.
    """

    node: Node
    spec: TaskSpec
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    pieces: tuple[bool, ...]
    weights: tuple[TensorSpec, ...]


def tasks_of(network: Network) -> Iterator[Task]:
    """The tasks; what is only a view has none."""
    for node in network.ordered():
        if node.op in NO_TASK:
            continue
        inputs = tuple(None if value is None else described(value, node) for value in node.inputs)
        outputs = tuple(described(value) for value in node.outputs)
        yield Task(
            node,
            TaskSpec(node.op, inputs, outputs, _attributes(node)),
            tuple(source(value).name for value in node.given),
            tuple(source(value).name for value in node.outputs),
            tuple(source(value) is not value for value in node.outputs),
            tuple(described(value, node) for value in node.given if value.weight),
        )


def _attributes(node: Node) -> dict[str, Any]:
    """As the kernel counts axes: of volumes, channels come behind the depth."""
    if node.op == "PadD" and node.output.format is Format.NC1HWC0:
        paddings = [*node.attributes["paddings"], 0, 0]  # none among the lanes of a block
        return {**node.attributes, "paddings": paddings}
    if node.output.format is not Format.NDC1HWC0:
        return node.attributes
    attributes = dict(node.attributes)
    for name in {"concat_dim", "split_dim"} & attributes.keys():
        attributes[name] = _SWAPPED.get(attributes[name], attributes[name])
    return attributes


def described(value: Value, node: Node | None = None) -> TensorSpec:
    """The tensor as it lies in memory, for the node that works on it."""
    return TensorSpec(_shape(value, node), value.dtype, value.format)


def _shape(value: Value, node: Node | None) -> tuple[int, ...]:
    if value.format is Format.FRACTAL_Z and node is not None:
        lanes, four = c0(value.dtype), node.given[0].format is Format.NC1HWC0_C04
        groups = node.attributes.get("groups", 1)
        return fractal_z(value.shape, lanes, lanes, groups=groups, c04=four)
    if value.format is Format.NC1HWC0_C04:
        return feature_map(value.shape, C04)
    if node is not None and _beside_fractals(value, node):
        return _edge(value.shape, node.output.shape)
    return storage_shape(value.shape, value.dtype, value.format)


def _beside_fractals(value: Value, node: Node) -> bool:
    """What an elementwise kernel combines in ND with matrices in FRACTAL_NZ: rows and columns."""
    if node.output.format is not Format.FRACTAL_NZ or not is_elementwise(node.op):
        return False
    return value.format is Format.ND and value.numel > 1


def _edge(shape: tuple[int, ...], matrices: tuple[int, ...]) -> tuple[int, ...]:
    """A row or a column of each matrix as the kernel counts it: fractals and what is in them."""
    *batch, high, wide = (1,) * (len(matrices) - len(shape)) + shape
    rows = (high // FRACTAL, FRACTAL) if high > 1 else (1, 1)
    columns = (wide // FRACTAL, FRACTAL) if wide > 1 else (1, 1)
    return (*batch, columns[0], rows[0], rows[1], columns[1])
