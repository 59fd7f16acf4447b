"""A network from an ONNX file, in ONNX operators; passes turn them into those of the device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npusim.graph import axes, onnx_file
from npusim.graph.network import Network, Value
from npusim.reading.limits import MOST_NODES
from npusim.values.dtypes import DType, dtype
from npusim.values.errors import DTypeError, FileError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from npusim.graph.onnx_file import OnnxFile


def read(
    path: Path, *, batch: int | None = None, shapes: Mapping[str, tuple[int, ...]] | None = None
) -> tuple[Network, int | None]:
    """The network of a file for a batch or for given shapes, and its batch.

    Raises FileError naming the node whose outputs have no shape, ArgumentError for a batch or a
    shape that doesn't fit, UsageError when the onnx package is missing.
    """
    model = onnx_file.load(path)
    found = axes.bind(onnx_file.OnnxFile(path, model), batch, shapes or {})
    file = onnx_file.resolve(path, model)
    if len(file.graph.node) > MOST_NODES:
        raise FileError(path, f"has more than {MOST_NODES:,} operators")
    return _network(file), found


def _network(file: OnnxFile) -> Network:
    versions = (
        each.version for each in file.model.opset_import if each.domain in onnx_file.DOMAINS
    )
    network = Network(file.path.stem, next(versions, 1))
    values = _values(file)
    for weight in file.graph.initializer:
        values[weight.name].weight = True
        values[weight.name].contents = file.known.get(weight.name)
    for node in file.graph.node:
        name = node.name or f"{node.op_type} {next(iter(node.output), '')}"
        inputs = [
            _known(file, values, given, name, node) if given else None for given in node.input
        ]
        outputs = [_known(file, values, made, name, node) for made in node.output if made]
        op = node.op_type if node.domain in onnx_file.DOMAINS else f"{node.domain}.{node.op_type}"
        network.add(op, inputs, outputs, _attributes(node), name=name, covers=(name,))
    network.inputs = [values[each.name] for each in file.inputs()]
    network.outputs = [values[each.name] for each in file.graph.output if each.name in values]
    return network


def _values(file: OnnxFile) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for value in (*file.graph.input, *file.graph.output, *file.graph.value_info):
        shape = onnx_file.shape_of(value)
        kind = _dtype(value.type.tensor_type.elem_type)
        if shape is not None and kind is not None:
            found[value.name] = Value(value.name, shape, kind)
    for weight in file.graph.initializer:
        kind = _dtype(weight.data_type)
        if kind is not None:
            found[weight.name] = Value(weight.name, tuple(weight.dims), kind)
    return found


def _dtype(kind: int) -> DType | None:
    try:
        return dtype(onnx_file.dtype_name(kind))
    except DTypeError:
        return None


def _known(
    file: OnnxFile, values: Mapping[str, Value], name: str, node_name: str, node: Any
) -> Value:
    found = values.get(name)
    if found is None:
        raise FileError(
            file.path,
            f"the shape of {name} isn't known, which the node {node_name} ({node.op_type}) works "
            "on: it depends on data, or on an operator without shape inference",
            "Cut the model before that node, or give it a fixed shape.",
        )
    return found


def _attributes(node: Any) -> dict[str, Any]:
    """Attributes as Python values; graphs aren't among them."""
    helper = onnx_file.onnx_package()[0].helper
    found: dict[str, Any] = {}
    for each in node.attribute:
        if each.type in (each.GRAPH, each.GRAPHS):
            continue
        value = helper.get_attribute_value(each)
        found[each.name] = value.decode(errors="replace") if isinstance(value, bytes) else value
    return found
