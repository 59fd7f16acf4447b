"""A network from an ONNX file, in ONNX operators; passes turn them into those of the device."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

from npusim.graph import axes, onnx_file, onnx_native
from npusim.graph.custom import cost_of
from npusim.graph.network import Network, Value
from npusim.graph.onnx_bodies import CONTROL
from npusim.graph.onnx_checks import check
from npusim.reading.limits import MOST_NODES
from npusim.values.dtypes import FLOAT, DType, dtype
from npusim.values.errors import ArgumentError, DTypeError, FileError
from npusim.values.language import say
from npusim.values.suggest import did_you_mean
from npusim.values.tensors import TensorSpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from npusim.graph.custom import Custom
    from npusim.graph.onnx_file import Described, OnnxFile

_MOST_NAMED: Final = 4
"""Values that a message names."""

_MOST_RESOLVED: Final = 8
"""Batches of a file that are kept with all their shapes."""


@dataclass
class Source:
    """An ONNX file, parsed once: networks of it for any batch, each resolved once."""

    path: Path
    model: Any
    known: Mapping[str, NDArray[Any]]
    declared: Mapping[str, Described]
    custom: Mapping[str, Custom] = field(default_factory=dict)
    _resolved: dict[tuple[object, ...], tuple[OnnxFile, int | None]] = field(default_factory=dict)

    def network(
        self, batch: int | None = None, shapes: Mapping[str, tuple[int, ...]] | None = None
    ) -> tuple[Network, int | None]:
        """A network of its own for a batch or for given shapes, and its batch.

        Raises FileError naming the node whose outputs have no shape, ArgumentError for a batch or a
        shape that doesn't fit.
        """
        key = (batch, *sorted((shapes or {}).items()))
        if key not in self._resolved:
            while len(self._resolved) >= _MOST_RESOLVED:
                self._resolved.pop(next(iter(self._resolved)))
            with onnx_file.explained(self.path):
                self._resolved[key] = self._resolve(batch, shapes or {})
        file, found = self._resolved[key]
        with onnx_file.explained(self.path):
            return _network(file), found

    def _resolve(
        self, batch: int | None, shapes: Mapping[str, tuple[int, ...]]
    ) -> tuple[OnnxFile, int | None]:
        model = type(self.model)()
        model.CopyFrom(self.model)
        file = onnx_file.OnnxFile(self.path, model, dict(self.known))
        made, fed = self.within(shapes), [each.name for each in file.inputs()]
        if unmade := [name for name in shapes if name not in made and name not in fed]:
            problem = say("the model has no input {unmade} and no value of that name").format(
                unmade=unmade[0]
            )
            hint = did_you_mean(unmade[0], [*fed, *self._values])
            raise ArgumentError(problem, hint or f"Its inputs: {', '.join(fed)}.")
        found = axes.bind(
            file, batch, {name: shape for name, shape in shapes.items() if name not in made}
        )
        onnx_file.resolve(file, partial(self._hint, {}))
        if made:
            axes.must_fit(file, made)
            onnx_file.resolve(file, partial(self._hint, made))
        if len(file.graph.node) > MOST_NODES:
            raise FileError(
                self.path,
                say("has more than {most_nodes:,} operators").format(most_nodes=MOST_NODES),
            )
        return file, found

    def within(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        """Those of the shapes that aren't of inputs: of values that the file leaves to data."""
        return {name: shape for name, shape in shapes.items() if name in self._values}

    @cached_property
    def _values(self) -> frozenset[str]:
        """What nodes make."""
        return frozenset(name for node in self.model.graph.node for name in node.output if name)

    def _hint(
        self,
        made: Mapping[str, tuple[int, ...]],
        file: OnnxFile,
        node: Any,
        shapes: Mapping[str, tuple[int, ...]],
    ) -> Iterator[Described]:
        """Outputs as the user gives their shapes or describes their domain, or as the file does."""
        known = self.custom.get(_qualified(node))
        for name in node.output:
            if name in made:
                kind = onnx_file.kinds_of(file.graph).get(name) or onnx_file.FLOAT_KIND
                yield name, kind, made[name]
            elif known is None and name in self.declared:
                yield self.declared[name]
        if known is None:
            return
        if any(name and name not in shapes for name in node.input):
            return
        kinds = onnx_file.kinds_of(file.graph)
        inputs = tuple(
            TensorSpec(shapes[name], _dtype(kinds[name]) or FLOAT) if name else None
            for name in node.input
        )
        cost = cost_of(known, _qualified(node), inputs, _attributes(node))
        like = next((kinds[name] for name in node.input if name), onnx_file.FLOAT_KIND)
        for name, shape in zip(node.output, cost.shapes, strict=False):
            if isinstance(shape, int):
                yield name, kinds[node.input[shape]], shapes[node.input[shape]]
            else:
                yield name, like, shape


def source(path: Path, custom: Mapping[str, Custom] | None = None) -> Source:
    """The model of a file; `custom` says what operators of custom domains cost.

    Raises FileError for what isn't a model, UsageError when the onnx package is missing.
    """
    with onnx_file.explained(path):
        model = onnx_file.load(path)
        check(path, model)
        if model.functions:
            model = onnx_native.inline_functions(model)
            check(path, model)
        declared = onnx_file.declared(model)
        return Source(path, model, onnx_file.lighten(model), declared, custom or {})


def _qualified(node: Any) -> str:
    """The operator's name, with its domain where that isn't ONNX's own."""
    return node.op_type if node.domain in onnx_file.DOMAINS else f"{node.domain}.{node.op_type}"


def read(
    path: Path, *, batch: int | None = None, shapes: Mapping[str, tuple[int, ...]] | None = None
) -> tuple[Network, int | None]:
    """The network of a file for a batch or for given shapes, and its batch."""
    return source(path).network(batch, shapes)


def _network(file: OnnxFile) -> Network:
    network = Network(file.path.stem, onnx_file.opset_of(file.model))
    values = _values(file)
    for weight in file.graph.initializer:
        values[weight.name].weight = True
        values[weight.name].contents = file.known.get(weight.name)
    for node in file.graph.node:
        name = node.name or f"{node.op_type} {next(iter(node.output), '')}"
        if node.op_type in CONTROL:
            raise FileError(
                file.path,
                say("how often or which body of {name} ({op_type}) runs depends on data").format(
                    name=name, op_type=node.op_type
                ),
                say("Export the model with that part unrolled, or cut it before that node."),
            )
        inputs = [
            _known(file, values, given, name, node) if given else None for given in node.input
        ]
        outputs = [_known(file, values, made, name, node) for made in node.output if made]
        network.add(_qualified(node), inputs, outputs, _attributes(node), name=name, covers=(name,))
    network.inputs = [values[each.name] for each in file.inputs()]
    network.outputs = [values[each.name] for each in file.graph.output if each.name in values]
    return network


def _values(file: OnnxFile) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for value in (*file.graph.input, *file.graph.output, *file.graph.value_info):
        shape = onnx_file.shape_of(value)
        kind = _dtype(value.type.tensor_type.elem_type)
        if min(shape or (), default=0) < 0:
            problem = say("comes to {value} for the shape of {name}").format(
                value=list(shape or ()), name=value.name
            )
            remedy = say(
                "Look at what makes it: its attributes don't fit the shapes that it is given."
            )
            raise FileError(file.path, problem, remedy)
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


def _roots(file: OnnxFile, values: Mapping[str, Value]) -> dict[str, Any]:
    """The first values without a shape, made of values that have one, and their nodes."""
    return {
        name: node
        for node in file.graph.node
        if all(given in values for given in node.input if given)
        for name in node.output
        if name and name not in values
    }


def _unknown(
    file: OnnxFile, values: Mapping[str, Value], name: str, node_name: str, node: Any
) -> FileError:
    """That a shape isn't known: because ONNX finds fault with it, or because data decide."""
    roots = _roots(file, values)
    why = onnx_file.why_not(file)
    if any(f"op_type:{each.op_type}," in why.replace(")", ",") for each in roots.values()):
        return FileError(
            file.path,
            say("ONNX can't infer the shape of {next}: {why}").format(
                next=next(iter(roots)), why=why
            ),
        )
    sizes = {each.name: onnx_file.value_sizes(each) for each in file.graph.value_info}
    told = " ".join(
        f"--shape {root}={axes.spelled(sizes.get(root))}" for root in list(roots)[:_MOST_NAMED]
    )
    return FileError(
        file.path,
        say(
            "the shape of {name} isn't known, which the node {node_name} ({op_type}) works on: "
            "it depends on data, or on an operator without shape inference"
        ).format(name=name, node_name=node_name, op_type=node.op_type),
        say("Say how large it is, or at most: {told} with a number for N.").format(told=told)
        if told
        else "",
    )


def _known(
    file: OnnxFile, values: Mapping[str, Value], name: str, node_name: str, node: Any
) -> Value:
    found = values.get(name)
    if found is None:
        raise _unknown(file, values, name, node_name, node)
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
