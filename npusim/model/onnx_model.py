"""Reads the operators of an ONNX model with the dtypes of their inputs; needs ``npusim[onnx]``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from npusim.graph.onnx_file import DOMAINS, dtype_name, inferred, load
from npusim.model.listed import Listed, Listing
from npusim.reading.limits import MOST_NODES
from npusim.values.errors import FileError

if TYPE_CHECKING:
    from pathlib import Path


def read_onnx(file: Path) -> Listing:
    """The nodes of the model, of the bodies of its control flow and of its functions.

    Dtypes come from shape inference; where it doesn't reach, an input has none and isn't judged.
    Weights aren't loaded. Raises FileError, or UsageError when the onnx package is missing.
    """
    model = load(file)
    notes = []
    try:
        model = inferred(model)
    except ValueError as error:
        notes.append(f"ONNX couldn't infer dtypes ({str(error).splitlines()[0]}); fewer are judged")
    nodes = tuple(islice(_nodes(model.graph, {}), MOST_NODES + 1))
    if len(nodes) > MOST_NODES:
        raise FileError(file, f"has more than {MOST_NODES:,} operators")
    return Listing("onnx", nodes, is_graph=True, notes=tuple(notes))


def _nodes(graph: Any, outer: Mapping[str, str]) -> Iterator[Listed]:
    known = {**outer, **_dtypes_of(graph)}
    for node in graph.node:
        dtypes = tuple(known.get(name, "") for name in node.input)
        outputs = tuple(known.get(name, "") for name in node.output)
        why = ""
        if node.domain not in DOMAINS:
            why = f"an operator of the domain {node.domain}"
        yield Listed(node.op_type, "onnx", dtypes, outputs, why_unknown=why)
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs):
                if body.node:
                    yield from _nodes(body, known)


def _dtypes_of(graph: Any) -> dict[str, str]:
    """Names of values to dtypes, from the inputs, outputs, intermediate values and weights."""
    found = {
        value.name: dtype_name(value.type.tensor_type.elem_type)
        for value in (*graph.input, *graph.output, *graph.value_info)
        if value.type.HasField("tensor_type")
    }
    for weight in graph.initializer:
        found[weight.name] = dtype_name(weight.data_type)
    return found
