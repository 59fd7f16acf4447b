"""A program of torch.export as a network of aten calls; torch is the user's own.

The program is walked once for a batch with torch's own meta kernels, which tell shapes and which
results are views. Results that aren't views lie in a row, as torch_npu allocates them.
"""

from __future__ import annotations

import logging
import operator
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from npusim.graph import axes
from npusim.graph.aten.archive import without_code
from npusim.graph.network import Network, Value
from npusim.values.dtypes import DType, dtype
from npusim.values.errors import ArgumentError, DTypeError, FileError, UsageError
from npusim.values.language import say

if TYPE_CHECKING:
    from os import PathLike

VIEW: Final = "Identity"
"""What a view is in a network: no task, the same bytes."""


@dataclass(frozen=True)
class Program:
    """An exported program: `inputs` are the axes of what it is fed with, numbers or names."""

    name: str
    exported: Any
    inputs: Mapping[str, list[int | str]]

    def network(
        self, batch: int | None = None, shapes: Mapping[str, tuple[int, ...]] | None = None
    ) -> tuple[Network, int | None]:
        """The network for a batch or for given shapes, and its batch.

        Raises ArgumentError for sizes that the program wasn't exported for, FileError naming the
        node whose result depends on data.
        """
        place = Path(self.name)
        sizes, found = axes.sizes_of(place, self.inputs, batch, shapes or {})
        _must_be_in_range(self.exported, self.inputs, sizes)
        return _Walk(self, sizes).network(), found


def read_program(path: str | PathLike[str]) -> Program:
    """The program in a .pt2 file, which torch.export.load reads.

    Raises FileError for what isn't one, UsageError where torch isn't installed.
    """
    file = Path(path)
    export = _torch(say("reading .pt2 files"))[1]
    try:
        with _untold():
            exported = export.load(without_code(file))
    except FileError:
        raise
    except Exception as error:  # noqa: BLE001 - what torch raises for a broken file is up to torch
        what = " ".join(str(error).split())[:200]
        raise FileError(
            file,
            say("isn't a program that torch.export.load reads ({kind}: {what})").format(
                kind=type(error).__name__, what=what
            ),
        ) from None
    return from_torch(exported, name=file.stem)


def from_torch(exported: Any, *, name: str = "program") -> Program:
    """A program of torch.export.export (an ExportedProgram) as npusim's models.

    Raises ArgumentError for anything else, UsageError where torch isn't installed.
    """
    _torch(say("reading a torch program"))
    if not hasattr(exported, "graph_signature") or not hasattr(exported, "graph_module"):
        raise ArgumentError(
            say("{kind} is no exported program").format(kind=type(exported).__name__),
            say("Give what torch.export.export(module, inputs) returns."),
        )
    fed = set(exported.graph_signature.user_inputs)
    inputs = {
        node.name: [size if isinstance(size, int) else str(size) for size in node.meta["val"].shape]
        for node in exported.graph.nodes
        if node.op == "placeholder" and node.name in fed and hasattr(node.meta["val"], "shape")
    }
    return Program(name, exported, inputs)


@contextmanager
def _untold() -> Iterator[None]:
    """Keep torch from printing tracebacks of its own; what it raises says as much."""
    log = logging.getLogger("torch.export")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)


def torch_for(why: str) -> Any:
    """The user's torch; UsageError where there is none."""
    return _torch(why)[0]


def _torch(why: str) -> tuple[Any, Any]:
    try:
        return import_module("torch"), import_module("torch.export")
    except ImportError:
        raise UsageError(
            say("{why} needs torch").format(why=why), say("pip install torch")
        ) from None


def _must_be_in_range(
    exported: Any, inputs: Mapping[str, list[int | str]], sizes: Mapping[str, tuple[int, ...]]
) -> None:
    ranges = {str(symbol): span for symbol, span in exported.range_constraints.items()}
    for name, wanted in inputs.items():
        for axis, size in zip(wanted, sizes[name], strict=True):
            span = ranges.get(str(axis))
            if span is not None and not span.lower <= size <= span.upper:
                raise ArgumentError(
                    say(
                        "the axis {axis} of {name} was exported for {lower} to {upper}, not for "
                        "{size}"
                    ).format(axis=axis, name=name, lower=span.lower, upper=span.upper, size=size),
                    say("Export the program with a wider torch.export.Dim."),
                )


class _Walk:
    """One walk through a program; `_seen` has what its tensors are called here."""

    def __init__(self, program: Program, sizes: Mapping[str, tuple[int, ...]]) -> None:
        self._torch = _torch("a walk")[0]
        self._program = program
        self._sizes = sizes
        self._network = Network(program.name)
        self._seen: dict[int, tuple[Any, Value]] = {}
        self._constants: dict[int, Any] = {}  # a weight may be used more than once

    def network(self) -> Network:
        """Everything that happens in the program."""
        with self._torch.no_grad():
            results = self._graph(self._program.exported.graph_module, None)
        given = (self._value(each) for each in _tensors(results))
        self._network.outputs = [value for value in given if value is not None]
        return self._network

    def _graph(self, module: Any, arguments: tuple[Any, ...] | None) -> Any:
        """The results of a graph, of a part of the program with `arguments`."""
        known: dict[Any, Any] = {}
        fed = iter(arguments or ())
        result: Any = ()
        for node in module.graph.nodes:
            given = self._torch.fx.node.map_arg((node.args, node.kwargs), known.__getitem__)
            if node.op == "placeholder":
                known[node] = self._fed(node) if arguments is None else next(fed)
            elif node.op == "get_attr":
                known[node] = self._constant(module, node)
            elif node.op == "call_function":
                known[node] = self._call(node, *given)
            else:
                result = given[0][0]
        return result

    def _fed(self, node: Any) -> Any:
        like = node.meta.get("val")
        if not hasattr(like, "shape"):
            return like
        given = node.name in self._sizes
        shape = self._sizes[node.name] if given else tuple(map(int, like.shape))
        strides = None if given else tuple(map(int, like.stride()))
        return self._enter(node.name, shape, like.dtype, strides, weight=not given)

    def _constant(self, module: Any, node: Any) -> Any:
        found = operator.attrgetter(str(node.target))(module)
        if not isinstance(found, self._torch.Tensor):
            return found
        if id(found) not in self._constants:
            strides = tuple(found.stride())
            made = self._enter(node.name, tuple(found.shape), found.dtype, strides, weight=True)
            self._constants[id(found)] = made
        return self._constants[id(found)]

    def _enter(
        self,
        name: str,
        shape: tuple[int, ...],
        kind: Any,
        strides: tuple[int, ...] | None,
        *,
        weight: bool,
    ) -> Any:
        torch = self._torch
        made = (
            torch.empty(shape, dtype=kind, device="meta")
            if strides is None
            else torch.empty_strided(shape, strides, dtype=kind, device="meta")
        )
        value = Value(name, shape, _dtype(kind), weight=weight)
        value.strides = None if made.is_contiguous() else tuple(made.stride())
        if not weight:
            self._network.inputs.append(value)
        self._seen[id(made)] = (made, value)
        return made

    def _call(self, node: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        target = node.target
        schema = getattr(target, "_schema", None)
        if schema is None:
            return self._python(node, args, kwargs)
        arguments = _named(schema, args, kwargs)
        where = {"device": "meta"} if "device" in kwargs else {}
        try:
            result = target(*map(self._on_meta, args), **{**kwargs, **where})
        except Exception as error:  # noqa: BLE001 - what a kernel of torch raises is up to torch
            raise self._unknown(node, error) from None
        made = self._settled(result, (args, kwargs))
        if any(True for _ in _tensors(made)):
            self._add(node, arguments, made, changes=schema.is_mutable)
        return made

    def _on_meta(self, given: Any) -> Any:
        """The device that has shapes alone in the place of any other."""
        kind = self._torch.device
        return kind("meta") if isinstance(given, kind) else given

    def _python(self, node: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Arithmetic with sizes, parts of results, and parts of the program with modes of torch."""
        name = getattr(node.target, "__name__", str(node.target))
        if name in ("wrap_with_set_grad_enabled", "wrap_with_autocast"):
            place = next(at for at, each in enumerate(args) if hasattr(each, "graph"))
            return self._graph(args[place], args[place + 1 :])
        try:
            return node.target(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - operators of other libraries
            raise self._unknown(node, error) from None

    def _unknown(self, node: Any, error: Exception) -> FileError:
        what = " ".join(str(error).split())[:160] or type(error).__name__
        return FileError(
            self._program.name,
            say("what the node {name} ({target}) makes isn't known without data: {what}").format(
                name=node.name, target=node.target, what=what
            ),
            say("Export the program without that call, or with sizes that don't depend on data."),
        )

    def _settled(self, result: Any, given: Any) -> Any:
        """The results with what is no view in a row."""
        roots = {_storage(each) for each in _tensors(given)}

        def settle(made: Any) -> Any:
            if _storage(made) in roots or made.is_contiguous():
                return made
            return self._torch.empty(made.shape, dtype=made.dtype, device="meta")

        return _changed(result, settle)

    def _add(self, node: Any, arguments: Mapping[str, Any], made: Any, *, changes: bool) -> None:
        inputs = list(_tensors(arguments.values()))
        own = _changed(dict(arguments), self._value)
        # Of what is changed in place, the values before: its results take their names below.
        given = [found for each in inputs if (found := self._value(each)) is not None]
        fresh = []
        by_storage = {_storage(each): each for each in reversed(inputs)}
        for number, tensor in enumerate(_tensors(made)):
            if id(tensor) in self._seen and not changes:
                continue
            value = Value(f"{node.name}.{number}" if number else node.name, tuple(tensor.shape),
                          _dtype(tensor.dtype))  # fmt: skip
            base = by_storage.get(_storage(tensor))
            if base is not None and not changes:
                value.strides = None if tensor.is_contiguous() else tuple(tensor.stride())
                value.offset = tensor.storage_offset()
                self._network.add(VIEW, [self._value(base)], [value], name=node.name)
            else:
                fresh.append(value)
            self._seen[id(tensor)] = (tensor, value)
        if fresh:
            name = str(node.target).removesuffix(".default")
            self._network.add(name, given, fresh, own, name=node.name, covers=(_layer(node),))

    def _value(self, tensor: Any) -> Value | None:
        found = self._seen.get(id(tensor))
        return None if found is None else found[1]


def _layer(node: Any) -> str:
    """The node with the path of the module that it belongs to."""
    stack = node.meta.get("nn_module_stack") or {}
    paths = [each[0] for each in stack.values()]
    return f"{paths[-1]}/{node.name}" if paths and paths[-1] else str(node.name)


def _named(schema: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments by their names, with what is left out."""
    found = {}
    for place, each in enumerate(schema.arguments):
        default = each.default_value if each.has_default_value() else None
        found[each.name] = args[place] if place < len(args) else kwargs.get(each.name, default)
    return found


def _tensors(value: Any) -> Iterator[Any]:
    """The tensors in nested lists."""
    if hasattr(value, "untyped_storage"):
        yield value
    elif isinstance(value, Mapping):
        yield from _tensors(tuple(value.values()))
    elif isinstance(value, list | tuple) or type(value).__name__ == "dict_values":
        for each in value:
            yield from _tensors(each)


def _changed(value: Any, change: Callable[[Any], Any]) -> Any:
    """Nested lists with something else for every tensor."""
    if hasattr(value, "untyped_storage"):
        return change(value)
    if isinstance(value, Mapping):
        return {name: _changed(each, change) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_changed(each, change) for each in value]
    return value


def _storage(tensor: Any) -> int:
    number: int = tensor.untyped_storage()._cdata  # noqa: SLF001 - views share what it stands for
    return number


def _dtype(kind: Any) -> DType:
    name = str(kind).removeprefix("torch.")
    try:
        return dtype(name)
    except DTypeError:
        raise ArgumentError(say("npusim has no dtype {name}").format(name=name)) from None
