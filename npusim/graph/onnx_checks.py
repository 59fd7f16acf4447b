"""What has to be true of an ONNX file before anybody works with it: names, kinds, sizes, order.

What runs in onnx's C++ counts on it, and so do the rules here.
"""

from __future__ import annotations

from importlib import import_module
from math import prod
from typing import TYPE_CHECKING, Any, Final

from npusim.graph.onnx_bodies import CONTROL
from npusim.graph.onnx_folding import MOST_KNOWN
from npusim.graph.onnx_nodes import OWN, bodies_of, named, problems
from npusim.reading.limits import MOST_DEPTH, MOST_UNFOLDED
from npusim.values.errors import FileError
from npusim.values.language import say

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    Scope = tuple[frozenset[str], ...]

_MOST_VERSION: Final = 1000


def check(path: Path, model: Any) -> None:
    """Raise FileError naming the first tensor, node or function that can't be right."""
    for problem in _problems(model):
        raise FileError(path, problem, say("Export the model again, or mend it with onnx.checker."))


def _problems(model: Any) -> Iterator[str]:
    yield from _versions(model.opset_import)
    yield from _fed(model.graph)
    yield from _graph(model.graph, (), _opset(model.opset_import), in_function=False)
    if not model.graph.output:
        yield say("has no results, so nothing has to run")
    yield from _functions(model)


def _versions(imports: Any) -> Iterator[str]:
    if not imports:
        yield say("doesn't say which version of ONNX's operators it means (opset_import)")
    for each in imports:
        if not 1 <= each.version <= _MOST_VERSION:
            yield say("means version {version} of the operators of {value}").format(
                version=each.version, value=each.domain or "ONNX"
            )


def _opset(imports: Any) -> int:
    return next((each.version for each in imports if each.domain in OWN), 1)


def _graph(graph: Any, outer: Scope, opset: int, *, in_function: bool) -> Iterator[str]:
    """A graph with its nodes and the bodies within."""
    for weight in graph.initializer:
        yield from _tensor(weight, weight.name)
    names = [each.name for each in graph.input]
    if len(set(names)) < len(names):
        yield say("has two inputs named {names}").format(names=max(names, key=names.count))
    stored = [each.name for each in graph.initializer]
    stored += [each.values.name for each in graph.sparse_initializer]
    if len(set(stored)) < len(stored):
        yield say("has two weights named {stored}").format(stored=max(stored, key=stored.count))
    results = [each.name for each in graph.output]
    yield from _nodes(
        graph.node, frozenset((*names, *stored)), results, outer, opset, in_function=in_function
    )


def _nodes(
    nodes: Any, given: frozenset[str], results: list[str], outer: Scope, opset: int, *,
    in_function: bool,
) -> Iterator[str]:  # fmt: skip
    """Nodes in a scope: what they read is there, what they make is new, each is a right call."""
    for node in nodes:
        yield from problems(node, opset, in_function=in_function)
        for each in node.attribute:
            for tensor in (*([each.t] if each.HasField("t") else ()), *each.tensors):
                yield from _tensor(tensor, f"{each.name} of {named(node)}")
    yield from _edges(nodes, given, results, outer)
    own = given.union(*(node.output for node in nodes)) if any(map(bodies_of, nodes)) else given
    for node in nodes:
        for body in bodies_of(node):
            if not body.output:
                yield say("has a body without results at {node}").format(node=named(node))
            yield from _graph(body, (*outer, own), opset, in_function=in_function)


def _fed(graph: Any) -> Iterator[str]:
    """Kinds of what is fed and given out."""
    kinds = set(import_module("onnx").TensorProto.DataType.values())
    for value in (*graph.input, *graph.output):
        if value.type.tensor_type.elem_type not in kinds:
            yield say("has no such element type as {name}'s ({elem_type})").format(
                name=value.name, elem_type=value.type.tensor_type.elem_type
            )


def _tensor(tensor: Any, name: str) -> Iterator[str]:
    """Kind and sizes of what is stored, and whether it holds as many numbers."""
    sizes = list(tensor.dims)
    if tensor.data_type not in tensor.DataType.values():
        yield say("has no such element type as {name}'s ({data_type})").format(
            name=name, data_type=tensor.data_type
        )
    elif min(sizes, default=0) < 0:
        yield say("gives {name} the shape {sizes}; sizes are 0 or more").format(
            name=name, sizes=sizes
        )
    elif tensor.data_location != tensor.EXTERNAL and prod(sizes) <= MOST_KNOWN:
        try:
            import_module("onnx.numpy_helper").to_array(tensor)
        except (ValueError, TypeError, AssertionError, LookupError):
            yield say("doesn't hold as many numbers of {name} as its shape {sizes} says").format(
                name=name, sizes=sizes
            )


def _edges(
    nodes: Any, given: frozenset[str], results: Iterable[str], outer: Scope
) -> Iterator[str]:
    """Every tensor is made once, by a node that needs nothing of what comes from it."""
    makers: dict[str, str] = {}
    for node in nodes:
        for name in filter(None, node.output):
            if name in makers or name in given:
                yield say("has two nodes that make {name}, the second is {node}").format(
                    name=name, node=named(node)
                )
            makers[name] = node.op_type
    here = (given, makers, *outer)
    for node in nodes:
        for name in filter(None, node.input):
            if not any(name in each for each in here):
                yield say("has nothing that makes {name}, which {node} reads").format(
                    name=name, node=named(node)
                )
    for name in results:
        if not any(name in each for each in here):
            yield say("has nothing that makes its result {name}").format(name=name)
    yield from _circles(nodes, makers)


def _circles(nodes: Any, makers: dict[str, str]) -> Iterator[str]:
    """A node that waits for itself; bodies of control flow see the names around them."""
    waiting = [node for node in nodes if node.op_type not in CONTROL]
    readers: dict[str, list[int]] = {}
    open_inputs = []
    for place, node in enumerate(waiting):
        needed = {name for name in node.input if makers.get(name, "If") not in CONTROL}
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
        yield say("has a circle of nodes: {waiting} waits for its own results").format(
            waiting=named(waiting[stuck])
        )


def _functions(model: Any) -> Iterator[str]:
    """Functions of the file, and that what their calls become comes to an end."""
    calls = _Calls(model.functions)
    if len(calls.known) < len(model.functions):
        yield say("has two functions of one name")
    for each in model.functions:
        yield from _versions(each.opset_import)
        if len(set(each.input)) < len(each.input):
            yield say("has a function {name} with two inputs of a name").format(name=each.name)
        yield from _nodes(
            each.node, frozenset(each.input), list(each.output), (), _opset(each.opset_import),
            in_function=True,
        )  # fmt: skip
    if model.functions:
        yield from calls.problems(model.graph.node)


class _Calls:
    """Calls of a file's functions, and how many nodes they stand for."""

    def __init__(self, functions: Any) -> None:
        self.known = {(each.domain, each.name, each.overload): each for each in functions}
        self._sizes: dict[tuple[str, str, str], int] = {}

    def problems(self, nodes: Any) -> Iterator[str]:
        """What is wrong with the calls in a graph."""
        for each in (nodes, *(function.node for function in self.known.values())):
            yield from self._bindings(each)
        try:
            unfolded = self._size(nodes, ())
            for key, function in self.known.items():
                self._size(function.node, (key,))
        except _CircleError as error:
            yield str(error)
            return
        if unfolded > MOST_UNFOLDED + len(nodes):
            yield say("has more than {most_unfolded:,} operators, its functions unfolded").format(
                most_unfolded=MOST_UNFOLDED
            )

    def _bindings(self, nodes: Any) -> Iterator[str]:
        for node in nodes:
            for body in bodies_of(node):
                yield from self._bindings(body.node)
            function = self.known.get((node.domain, node.op_type, node.overload))
            if function is None:
                continue
            for what, given, formal in (
                ("inputs", node.input, function.input), ("results", node.output, function.output)
            ):  # fmt: skip
                if len(given) > len(formal):
                    yield say("gives {node} {count} {what}, its function has {expected}").format(
                        node=named(node), count=len(given), what=what, expected=len(formal)
                    )
            said = {each.name for each in node.attribute}
            for name in function.attribute:
                if name not in said:
                    yield say("calls {node} without {name}, an attribute of its function").format(
                        node=named(node), name=name
                    )

    def _size(self, nodes: Any, outer: tuple[tuple[str, str, str], ...]) -> int:
        """Nodes when every call is replaced by what it does."""
        found = 0
        for node in nodes:
            key = (node.domain, node.op_type, node.overload)
            found += 1 + sum(self._size(body.node, outer) for body in bodies_of(node))
            if key not in self.known:
                continue
            if key in outer:
                raise _CircleError(
                    say("has a function that calls itself: {op_type}").format(op_type=node.op_type)
                )
            if len(outer) >= MOST_DEPTH:
                raise _CircleError(
                    say("has more than {most_depth} functions that call one another").format(
                        most_depth=MOST_DEPTH
                    )
                )
            if key not in self._sizes:
                self._sizes[key] = self._size(self.known[key].node, (*outer, key))
            found += self._sizes[key]
        return found


class _CircleError(Exception):
    """Calls that don't end."""
