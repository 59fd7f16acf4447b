"""Reads the operators of an ONNX model with the dtypes of their inputs; needs ``npusim[onnx]``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

from npusim.model.listed import Listed, Listing
from npusim.reading.files import read_bytes
from npusim.reading.limits import MOST_NODES, MOST_ONNX_BYTES
from npusim.values.errors import FileError, UsageError

# ONNX spells the eight-bit floats without separators; the others as the operator pages do.
_SPELLINGS = {
    "FLOAT8E4M3FN": "FLOAT8_E4M3FN",
    "FLOAT8E5M2": "FLOAT8_E5M2",
    "FLOAT8E8M0": "FLOAT8_E8M0",
    "FLOAT4E2M1": "FLOAT4_E2M1",
    "UNDEFINED": "",
}
_ONNX_DOMAINS = ("", "ai.onnx", "npu")


def read_onnx(file: Path) -> Listing:
    """The nodes of the model, of the bodies of its control flow and of its functions.

    Dtypes come from shape inference; where it doesn't reach, an input has none and isn't judged.
    Weights aren't loaded. Raises FileError, or UsageError when the onnx package is missing.
    """
    onnx, unreadable = _onnx()
    try:
        model = onnx.load_model_from_string(read_bytes(file, MOST_ONNX_BYTES))
    except (unreadable, ValueError) as error:
        raise FileError(file, f"isn't an ONNX model ({type(error).__name__})") from None
    if not model.graph.node:
        raise FileError(file, "isn't an ONNX model with operators in it")
    notes = []
    try:
        model = onnx.shape_inference.infer_shapes(model)
    except (RuntimeError, ValueError) as error:
        notes.append(f"ONNX couldn't infer dtypes ({str(error).splitlines()[0]}); fewer are judged")
    functions = {(each.domain, each.name): each for each in model.functions}
    kinds = onnx.TensorProto.DataType
    nodes = tuple(islice(_nodes(model.graph, {}, functions, kinds), MOST_NODES + 1))
    if len(nodes) > MOST_NODES:
        raise FileError(file, f"has more than {MOST_NODES:,} operators, functions unfolded")
    return Listing("onnx", nodes, is_graph=True, notes=tuple(notes))


def _onnx() -> tuple[Any, type[Exception]]:
    """The onnx package, and what it raises for a file that isn't a model."""
    try:
        onnx = import_module("onnx")
        unreadable: type[Exception] = import_module("google.protobuf.message").DecodeError
    except ImportError:
        problem = "reading ONNX models needs the onnx package"
        raise UsageError(problem, "Install it: pip install 'npusim[onnx]'") from None
    return onnx, unreadable


def _nodes(
    graph: Any, outer: Mapping[str, str], functions: Mapping[tuple[str, str], Any], kinds: Any
) -> Iterator[Listed]:
    known = {**outer, **_dtypes_of(graph, kinds)}
    yield from _of_nodes(graph.node, known, functions, kinds)


def _of_nodes(
    nodes: Iterable[Any],
    known: Mapping[str, str],
    functions: Mapping[tuple[str, str], Any],
    kinds: Any,
) -> Iterator[Listed]:
    for node in nodes:
        function = functions.get((node.domain, node.op_type))
        if function is not None:
            pairs = zip(function.input, node.input, strict=False)
            inner = {own: known.get(given, "") for own, given in pairs}
            others = {name: each for name, each in functions.items() if each is not function}
            yield from _of_nodes(function.node, inner, others, kinds)
            continue
        dtypes = tuple(known.get(name, "") for name in node.input)
        outputs = tuple(known.get(name, "") for name in node.output)
        why = ""
        if node.domain not in _ONNX_DOMAINS:
            why = f"an operator of the domain {node.domain}"
        yield Listed(node.op_type, "onnx", dtypes, outputs, why_unknown=why)
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs):
                if body.node:
                    yield from _nodes(body, known, functions, kinds)


def _dtypes_of(graph: Any, kinds: Any) -> dict[str, str]:
    """Names of values to dtypes, from the inputs, outputs, intermediate values and weights."""
    found = {
        value.name: _spelled(kinds.Name(value.type.tensor_type.elem_type))
        for value in (*graph.input, *graph.output, *graph.value_info)
        if value.type.HasField("tensor_type")
    }
    for weight in graph.initializer:
        found[weight.name] = _spelled(kinds.Name(weight.data_type))
    return found


def _spelled(name: str) -> str:
    return _SPELLINGS.get(name, name)
