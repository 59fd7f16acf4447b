"""What has to be true of an ONNX file before anybody works with it: names, kinds, sizes, order."""

from __future__ import annotations

from importlib import import_module
from math import prod
from typing import TYPE_CHECKING, Any

from npusim.graph.onnx_bodies import CONTROL
from npusim.graph.onnx_file import DOMAINS, MOST_KNOWN, opset_of
from npusim.values.errors import FileError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def check(path: Path, model: Any) -> None:
    """Raise FileError naming the first tensor or node that can't be right."""
    for problem in _problems(model):
        raise FileError(path, problem, "Export the model again, or mend it with onnx.checker.")


def _problems(model: Any) -> Iterator[str]:
    if not model.opset_import:
        yield "doesn't say which version of ONNX's operators it means (opset_import)"
    yield from _tensors(model.graph)
    yield from _edges(model.graph)
    yield from _calls(model.graph, opset_of(model))


def _calls(graph: Any, opset: int) -> Iterator[str]:
    """Nodes as the schemas of their operators have them, in bodies too.

    Shape inference in C++ trusts them: some that aren't so end the process without a word.
    """
    defs = import_module("onnx.defs")
    schemas: dict[str, Any] = {}
    foreign = {name for node in graph.node if node.domain not in DOMAINS for name in node.output}
    for node in graph.node:
        for each in node.attribute:
            for body in (each.g, *each.graphs):
                yield from _calls(body, opset)
        if node.domain not in DOMAINS:
            continue
        if node.op_type not in schemas:
            known = defs.has(node.op_type, opset, "")
            schemas[node.op_type] = defs.get_schema(node.op_type, opset, "") if known else None
        if (schema := schemas[node.op_type]) is not None:
            yield from _fits(node, schema)
        if node.op_type == "EyeLike" and not foreign.isdisjoint(node.input):
            yield f"gives {_named(node)} what an operator of a custom domain makes"


def _fits(node: Any, schema: Any) -> Iterator[str]:
    for what, count, least, most in (
        ("inputs", len(node.input), schema.min_input, schema.max_input),
        ("outputs", len(node.output), schema.min_output, schema.max_output),
    ):
        if not least <= count <= most:
            yield f"has {count} {what} of {_named(node)}, which has {least} to {most}"
    for each in node.attribute:
        told = schema.attributes.get(each.name)
        if told is not None and each.type and each.type != int(told.type.value):
            what = f"the attribute {each.name} of {_named(node)}"
            yield f"has {what} of another kind than the operator's"
        if node.op_type == "Split" and each.name == "num_outputs" and each.i != len(node.output):
            yield f"splits into {each.i} parts and names {len(node.output)} at {_named(node)}"
    for name, told in schema.attributes.items():
        if told.required and not any(each.name == name for each in node.attribute):
            yield f"has no {name} at {_named(node)}"


def _tensors(graph: Any) -> Iterator[str]:
    """Kinds and sizes of what is fed and stored."""
    proto = import_module("onnx").TensorProto
    to_array = import_module("onnx.numpy_helper").to_array
    kinds = set(proto.DataType.values())
    for value in (*graph.input, *graph.output):
        if value.type.tensor_type.elem_type not in kinds:
            yield f"has no such element type as {value.name}'s ({value.type.tensor_type.elem_type})"
    for weight in graph.initializer:
        sizes = list(weight.dims)
        if weight.data_type not in kinds:
            yield f"has no such element type as {weight.name}'s ({weight.data_type})"
        if min(sizes, default=0) < 0:
            yield f"gives {weight.name} the shape {sizes}; sizes are 0 or more"
        if weight.data_location != proto.EXTERNAL and prod(sizes) <= MOST_KNOWN:
            try:
                to_array(weight)
            except (ValueError, TypeError, AssertionError):
                yield f"doesn't hold as many numbers of {weight.name} as its shape {sizes} says"


def _edges(graph: Any) -> Iterator[str]:
    """Every tensor is made once, by a node that needs nothing of what comes from it."""
    made = {each.name for each in (*graph.input, *graph.initializer)}
    made |= {each.values.name for each in graph.sparse_initializer}
    makers: dict[str, str] = {}
    for node in graph.node:
        for name in filter(None, node.output):
            if name in makers or name in made:
                yield f"has two nodes that make {name}, the second is {_named(node)}"
            makers[name] = _named(node)
    for node in graph.node:
        for name in filter(None, node.input):
            if name not in made and name not in makers:
                yield f"has nothing that makes {name}, which {_named(node)} reads"
    for name in (each.name for each in graph.output):
        if name not in made and name not in makers:
            yield f"has nothing that makes its result {name}"
    if not graph.output:
        yield "has no results, so nothing has to run"
    yield from _circles(graph, made)


def _circles(graph: Any, made: set[str]) -> Iterator[str]:
    """A node that waits for itself; bodies of control flow see the names around them."""
    waiting = [node for node in graph.node if node.op_type not in CONTROL]
    known = made | {name for node in graph.node if node.op_type in CONTROL for name in node.output}
    readers: dict[str, list[int]] = {}
    open_inputs = []
    for place, node in enumerate(waiting):
        needed = {name for name in node.input if name and name not in known}
        open_inputs.append(len(needed))
        for name in needed:
            readers.setdefault(name, []).append(place)
    ready = [place for place, count in enumerate(open_inputs) if not count]
    while ready:
        for name in waiting[ready.pop()].output:
            for reader in readers.pop(name, ()):
                open_inputs[reader] -= 1
                if not open_inputs[reader]:
                    ready.append(reader)
    stuck = next((place for place, count in enumerate(open_inputs) if count), None)
    if stuck is not None:
        yield f"has a circle of nodes: {_named(waiting[stuck])} waits for its own results"


def _named(node: Any) -> str:
    return f"{node.name or next(iter(node.output), 'a node')} ({node.op_type})"
