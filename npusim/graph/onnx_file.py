"""ONNX files: loaded within limits, axes bound to sizes, shape arithmetic folded, shapes inferred.

Weights need no contents: their sizes are all that time depends on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from npusim.graph import onnx_native
from npusim.graph.onnx_bodies import CONTROL, unfolded
from npusim.graph.onnx_folding import MOST_KNOWN, Folding, numbers
from npusim.graph.onnx_functions import expand
from npusim.graph.onnx_nodes import GraphError
from npusim.graph.onnx_sequences import Sequences
from npusim.reading.files import note_read, read_bytes
from npusim.reading.limits import MOST_ONNX_BYTES, MOST_UNFOLDED
from npusim.values.errors import FileError, NpusimError, UsageError
from npusim.values.language import say

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

FLOAT_KIND: Final = 1
"""ONNX's number of float32."""

DOMAINS: Final = ("", "ai.onnx", "npu")
"""Whose operators have meanings that everybody knows."""

# ONNX spells the eight-bit floats without separators; the others as the operator pages do.
_SPELLINGS: Final = {
    "FLOAT8E4M3FN": "FLOAT8_E4M3FN",
    "FLOAT8E5M2": "FLOAT8_E5M2",
    "FLOAT8E8M0": "FLOAT8_E8M0",
    "FLOAT4E2M1": "FLOAT4_E2M1",
    "UNDEFINED": "",
}

_ROUNDS: Final = 64
"""Folding after inference after folding; each round makes more shapes known."""

_CONTENTS: Final = ("raw_data", "float_data", "int32_data", "int64_data", "double_data",
                    "uint64_data", "string_data")  # fmt: skip


@dataclass
class OnnxFile:
    """A model whose axes are numbers: `known` are the tensors that follow without any input."""

    path: Path
    model: Any
    known: dict[str, NDArray[Any]] = field(default_factory=dict)
    sequences: Sequences = field(default_factory=Sequences)
    folding: Folding = field(default_factory=Folding)
    _unrolled: int = 0

    @property
    def graph(self) -> Any:
        """The GraphProto."""
        return self.model.graph

    def unrolled(self, nodes: list[Any]) -> list[Any]:
        """Nodes of rounds or sequences, counted; GraphError where they are too many."""
        self._unrolled += len(nodes)
        if self._unrolled > MOST_UNFOLDED:
            raise GraphError(
                say("has more than {most_unfolded:,} operators, its loops unrolled").format(
                    most_unfolded=MOST_UNFOLDED
                )
            )
        return nodes

    def inputs(self) -> list[Any]:
        """What the model is fed with: its inputs but for weights, which old files list too."""
        weights = {each.name for each in self.graph.initializer}
        return [each for each in self.graph.input if each.name not in weights]


_CONTRADICTIONS: Final[tuple[type[Exception], ...]] = (
    ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, StopIteration,
    TypeError, ValueError,
)  # fmt: skip


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Whatever a file that contradicts itself makes onnx, or the code here, raise: a FileError."""
    try:
        yield
    except NpusimError:
        raise
    except GraphError as error:
        raise FileError(path, str(error)) from None
    except _CONTRADICTIONS + _onnx_errors() as error:
        what = " ".join(str(error).split())[:200]
        kind = "" if isinstance(error, ValueError) and what else f"{type(error).__name__} "
        problem = say("contradicts itself: {kind}{what}").format(kind=kind, what=what).strip()
        raise FileError(path, problem, say("Ask onnx.checker what is wrong with it.")) from error


def _onnx_errors() -> tuple[type[Exception], ...]:
    """What onnx raises that is no kind of Python's own errors."""
    try:
        checker, inference = import_module("onnx.checker"), import_module("onnx.shape_inference")
    except ImportError:
        return ()
    return checker.ValidationError, inference.InferenceError


def load(path: Path) -> Any:
    """The ModelProto of a file.

    Raises FileError for what isn't one, UsageError when the onnx package is missing.
    """
    with suppress(ImportError, OSError):  # said by whoever needs it
        onnx_native.begin()
    onnx, unreadable = onnx_package()
    try:
        model = onnx.load_model_from_string(read_bytes(path, MOST_ONNX_BYTES))
    except (unreadable, ValueError) as error:
        raise FileError(
            path, say("isn't an ONNX model ({kind})").format(kind=type(error).__name__)
        ) from None
    for location in _outside(model):
        note_read(path.parent / location)
    if not model.graph.node:
        raise FileError(path, say("isn't an ONNX model with operators in it"))
    return model


def _outside(model: Any) -> set[str]:
    """The files beside a model that weights are in, which time needn't open."""
    return {
        entry.value
        for weight in model.graph.initializer
        for entry in weight.external_data
        if entry.key == "location"
    }


def opset_of(model: Any) -> int:
    """The version of ONNX's own operators."""
    versions = (each.version for each in model.opset_import if each.domain in DOMAINS)
    return next(versions, 1)


def onnx_package() -> tuple[Any, type[Exception]]:
    """The onnx package, and what it raises for a file that isn't a model."""
    try:
        onnx = import_module("onnx")
        unreadable: type[Exception] = import_module("google.protobuf.message").DecodeError
    except ImportError:
        problem = say("reading ONNX models needs the onnx package")
        raise UsageError(problem, say("Install it: pip install onnx")) from None
    return onnx, unreadable


def dtype_name(kind: int) -> str:
    """The pages' spelling of an element type of ONNX; empty for none."""
    name: str = onnx_package()[0].TensorProto.DataType.Name(kind)
    return _SPELLINGS.get(name, name)


Hint = Callable[["OnnxFile", Any, Mapping[str, tuple[int, ...]]], Iterable["Described"]]
"""Outputs of a node as somebody else knows them, given the shapes that are known so far."""

Described = tuple[str, int, tuple[int, ...]]
"""A value's name, its element type as ONNX counts them, and its shape."""


def resolve(file: OnnxFile, hint: Hint | None = None) -> OnnxFile:
    """The file with every shape that follows from its inputs, whose axes must be numbers.

    `hint` is asked for the outputs of nodes that inference knows nothing of.
    """
    for _ in range(_ROUNDS):
        _infer(file)
        if not (_fold(file) or (hint and _told(file, hint)) or _expanded(file)):
            break
    return file


def _expanded(file: OnnxFile) -> bool:
    """Operators that are functions replaced by what they do; True where there are any."""
    model = expand(
        file.model, opset_of(file.model), kinds_of(file.graph), dict(_shapes(file.graph))
    )
    changed = model is not file.model
    file.model = model
    return changed


def _told(file: OnnxFile, hint: Hint) -> bool:
    """Write down what `hint` knows; True where that is news."""
    make = import_module("onnx.helper").make_tensor_value_info
    shapes = dict(_shapes(file.graph))
    found = [
        described
        for node in file.graph.node
        if any(name and name not in shapes for name in node.output)
        for described in hint(file, node, shapes)
        if described[0] not in shapes
    ]
    news = {name for name, _, _ in found}
    kept = [each for each in file.graph.value_info if each.name not in news]
    del file.graph.value_info[:]
    file.graph.value_info.extend([*kept, *(make(*each) for each in found)])
    for output in file.graph.output:
        for each in found:
            if each[0] == output.name:
                output.CopyFrom(make(*each))
    return bool(found)


def declared(model: Any) -> dict[str, Described]:
    """What a file says of its values, where the axes of its inputs are all numbers.

    Inference knows less where sizes are inputs.
    """
    graph = model.graph
    if any(shape_of(each) is None for each in graph.input):
        return {}
    return {
        each.name: (each.name, each.type.tensor_type.elem_type, shape)
        for each in (*graph.value_info, *graph.output)
        if (shape := shape_of(each)) is not None
    }


def kinds_of(graph: Any) -> dict[str, int]:
    """The element types of values, by their names."""
    found = {
        each.name: each.type.tensor_type.elem_type
        for each in (*graph.input, *graph.output, *graph.value_info)
    }
    return found | {weight.name: weight.data_type for weight in graph.initializer}


def lighten(model: Any) -> dict[str, NDArray[Any]]:
    """Drop what inference copies and doesn't need: large contents and shapes of other batches.

    Returns the contents of small weights.
    """
    onnx, _ = onnx_package()
    known = {}
    for weight in model.graph.initializer:
        if weight.data_location == onnx.TensorProto.EXTERNAL:
            continue
        if (held := numbers(weight)) is not None:
            known[weight.name] = held
        if _product(weight.dims) <= MOST_KNOWN:
            continue
        for name in _CONTENTS:
            weight.ClearField(name)
        weight.data_location = onnx.TensorProto.EXTERNAL
    imported = {each.domain for each in model.opset_import}
    for domain in dict.fromkeys(node.domain for node in model.graph.node):
        if domain not in imported and domain not in DOMAINS:
            model.opset_import.add(domain=domain, version=1)  # inference stops where it is missing
    del model.graph.value_info[:]
    for output in model.graph.output:
        if output.type.HasField("tensor_type"):
            output.type.tensor_type.ClearField("shape")
    return known


def _infer(file: OnnxFile) -> None:
    """Infer shapes anew: inference keeps an axis that was open, though it is known by now."""
    described = [each for each in file.graph.value_info if shape_of(each) is not None]
    del file.graph.value_info[:]
    file.graph.value_info.extend(described)
    try:
        file.model = onnx_native.infer_shapes(file.model)
    except ValueError as error:
        what = " ".join(str(error).split())
        raise FileError(
            file.path, say("ONNX can't infer its shapes: {what}").format(what=what)[:400]
        ) from None


def why_not(file: OnnxFile) -> str:
    """What ONNX says where it can't infer a shape of a model; empty where it says nothing."""
    try:
        onnx_native.infer_shapes(file.model, strict=True)
    except ValueError as error:
        return " ".join(str(error).split())[:300]
    return ""


def _fold(file: OnnxFile) -> bool:
    """Compute what follows from known tensors and shapes; True where inference gets further now."""
    graph = file.graph
    shapes = dict(_shapes(graph))
    read = {name for node in graph.node for name in node.input} | {x.name for x in graph.output}
    kept: list[Any] = []
    made: dict[str, NDArray[Any]] = {}
    changed = False
    opset = opset_of(file.model)
    for node in graph.node:
        if (
            node.op_type in CONTROL
            and (body := unfolded(node, file.known, shapes, opset)) is not None
        ):
            kept += file.unrolled(body)
            changed = True
            continue
        if (
            file.sequences.holds(node)
            and (same := file.sequences.replaced(node, file.known, shapes, opset)) is not None
        ):
            kept += file.unrolled(same)
            changed = True
            continue
        if node.op_type == "Dropout" and not read.intersection(node.output[1:]):
            node.op_type = "Identity"  # of training alone, and not every opset infers its shape
            del node.input[1:], node.output[1:], node.attribute[:]
            changed = True
        results = file.folding.results(node, file.known, shapes, file.model.opset_import)
        if results is None:
            kept.append(node)
            continue
        own = {name: array for name, array in zip(node.output, results, strict=False) if name}
        made |= own
        file.known |= own
    del graph.node[:]
    graph.node.extend(kept)
    from_array = import_module("onnx.numpy_helper").from_array
    graph.initializer.extend(from_array(array, name) for name, array in made.items())
    needed = any(name and name not in shapes for node in graph.node for name in node.output)
    return changed or (bool(made) and needed)


def _shapes(graph: Any) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The shapes that are known, by the names of values."""
    for value in (*graph.input, *graph.output, *graph.value_info):
        shape = shape_of(value)
        if shape is not None:
            yield value.name, shape
    for weight in graph.initializer:
        yield weight.name, tuple(weight.dims)


def value_sizes(value: Any) -> list[int | None] | None:
    """The sizes of a ValueInfoProto, None for those that are open; None where it has no rank."""
    kind = value.type
    if not kind.HasField("tensor_type") or not kind.tensor_type.HasField("shape"):
        return None
    dims = kind.tensor_type.shape.dim
    return [dim.dim_value if dim.HasField("dim_value") else None for dim in dims]


def shape_of(value: Any) -> tuple[int, ...] | None:
    """The shape of a ValueInfoProto; None where it has none, or an axis of it isn't a number."""
    sizes = value_sizes(value)
    if sizes is None or None in sizes:
        return None
    return tuple(size for size in sizes if size is not None)


def _product(sizes: Iterable[int]) -> int:
    found = 1
    for size in sizes:
        found *= size
    return found
