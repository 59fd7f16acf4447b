"""What of an ONNX file follows without any input: shape arithmetic, within a budget of work.

Exporters compute shapes, axes and masks by nodes. They are evaluated where the operator is one of
a list of cheap ones and the size of its result follows beforehand; all else runs on the device.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from math import ceil, prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    Known = Mapping[str, NDArray[Any]]
    Shapes = Mapping[str, tuple[int, ...]]

MOST_KNOWN: Final = 1 << 16
"""Elements of a tensor whose contents are kept: shapes, axes, scales; not weights."""

_MOST_WORK: Final = 1 << 24
"""Elements that all nodes of a file that are evaluated read and make together."""

_NODE: Final = 1024
"""Elements in whose time a node is set up."""

_WITHIN = """
    Abs ArgMax ArgMin Cast Ceil Concat CumSum DequantizeLinear Erf Exp EyeLike Flatten Floor
    IsInf IsNaN Log Neg Not QuantizeLinear Reciprocal ReduceMax ReduceMean ReduceMin ReduceProd
    ReduceSum Relu Reshape Round ScatterElements ScatterND Sigmoid Sign Slice Sin Cos Softmax Split
    Sqrt Squeeze Tanh TopK Transpose Trilu Unsqueeze CastLike GatherElements Unique Compress
    BitwiseNot
"""
_BROADCAST = """
    Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Clip Div Equal Greater GreaterOrEqual Less
    LessOrEqual Max Mean Min Mod Mul Or Pow Sub Sum Where Xor
"""


def _within(_: Any, *given: NDArray[Any]) -> int:
    return sum(max(1, each.size) for each in given)


def _elementwise(_: Any, *given: NDArray[Any]) -> int:
    return prod(_broadcast(*(each.shape for each in given)))


def _broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """No less than the shape of tensors that are broadcast."""
    rank = max(map(len, shapes), default=0)
    whole = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    return tuple(map(max, zip(*whole, strict=True)))


def _range(_: Any, start: NDArray[Any], limit: NDArray[Any], delta: NDArray[Any]) -> int:
    return max(0, ceil(float(limit.item() - start.item()) / float(delta.item())))


def _expanded(_: Any, given: NDArray[Any], shape: NDArray[Any]) -> int:
    return prod(_broadcast(given.shape, tuple(map(int, shape))))


def _padded(_: Any, given: NDArray[Any], pads: NDArray[Any], *_rest: NDArray[Any]) -> int:
    more = sum(abs(int(each)) for each in pads.reshape(-1))
    return prod(size + more for size in given.shape)


def _gathered(node: Any, given: NDArray[Any], indices: NDArray[Any]) -> int:
    axis = next((each.i for each in node.attribute if each.name == "axis"), 0)
    return int(indices.size) * (int(given.size) // max(1, int(given.shape[axis])))


def _gathered_nd(_: Any, given: NDArray[Any], indices: NDArray[Any]) -> int:
    return prod(indices.shape[:-1]) * given.size


def _product(_: Any, one: NDArray[Any], other: NDArray[Any]) -> int:
    """The multiplications of a matrix product, which are no fewer than its results."""
    columns = other.shape[-1] if other.ndim > 1 else 1
    return prod(_broadcast(one.shape[:-2], other.shape[:-2])) * prod(one.shape[-2:]) * columns


_SIZES: Final[Mapping[str, Callable[..., int]]] = {
    **dict.fromkeys(_WITHIN.split(), _within),
    **dict.fromkeys(_BROADCAST.split(), _elementwise),
    "ConstantOfShape": lambda _, shape: prod(map(int, shape)),
    "Expand": _expanded,
    "Gather": _gathered,
    "GatherND": _gathered_nd,
    "MatMul": _product,
    "NonZero": lambda _, given: given.size * max(1, given.ndim),
    "OneHot": lambda _, indices, depth, _values: indices.size * abs(int(depth.reshape(-1)[0])),
    "Pad": _padded,
    "Range": _range,
    "Tile": lambda _, given, times: given.size * prod(abs(int(each)) for each in times),
}
"""How many elements a node makes at most of the tensors that it is given."""

_WIDE: Final = dict.fromkeys(("GatherND", "MatMul", "Pad"), 1 << 20)
"""Of operators whose bound is a wide one; what comes out is measured as well."""


@dataclass
class Folding:
    """The work that one file has left."""

    left: int = _MOST_WORK

    def results(
        self, node: Any, known: Known, shapes: Shapes, imports: Any
    ) -> list[NDArray[Any]] | None:
        """The outputs of a node that follows from what is known; None for one that has to run."""
        if node.op_type in ("Shape", "Size") and node.input and node.input[0] in shapes:
            return [_shape(node, shapes[node.input[0]])]
        if node.op_type == "Constant":
            return _constant(node)
        if any(each and each not in known for each in node.input):
            return None
        if node.op_type == "Identity":
            return [known[node.input[0]]]
        given = [known[name] for name in node.input if name]
        size = _made(node, given)
        if size is None or size > _WIDE.get(node.op_type, MOST_KNOWN):
            return None
        work = _NODE + sum(each.size for each in given) + size
        if work > self.left:
            return None
        self.left -= work
        return _evaluated(node, known, imports)


def _made(node: Any, given: Sequence[NDArray[Any]]) -> int | None:
    """How many elements a node makes at most; None where that isn't known."""
    rule = None if node.domain not in ("", "ai.onnx") else _SIZES.get(node.op_type)
    if rule is None or not given:
        return None
    try:
        return int(rule(node, *given))
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return None  # operands that it doesn't have


def _shape(node: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    if node.op_type == "Size":
        return np.array(prod(shape), np.int64)
    bounds = {each.name: each.i for each in node.attribute}
    part = shape[bounds.get("start", 0) : bounds.get("end", len(shape))]
    return np.array(part, np.int64)


def _constant(node: Any) -> list[NDArray[Any]] | None:
    """The numbers that a Constant holds; None for many, for text and for those beside the file."""
    for each in node.attribute:
        if each.name == "value" and each.HasField("t"):
            held = numbers(each.t)
            return None if held is None else [held]
        if each.name in _HELD:
            field, kind = _HELD[each.name]
            found = np.array(getattr(each, field), kind)
            return [found] if found.size <= MOST_KNOWN else None
    return None


_HELD: Final = {
    "value_float": ("f", np.float32),
    "value_floats": ("floats", np.float32),
    "value_int": ("i", np.int64),
    "value_ints": ("ints", np.int64),
}


def numbers(tensor: Any) -> NDArray[Any] | None:
    """What a TensorProto holds; None for many numbers, for text and for those beside the file."""
    if prod(tensor.dims) > MOST_KNOWN or tensor.data_location == tensor.EXTERNAL:
        return None
    found: NDArray[Any] = import_module("onnx.numpy_helper").to_array(tensor)
    return found if found.dtype != object else None


def _evaluated(node: Any, known: Known, imports: Any) -> list[NDArray[Any]] | None:
    """What the reference implementation of the operator computes; None where it has none."""
    helper = import_module("onnx.helper")
    evaluator = import_module("onnx.reference").ReferenceEvaluator
    given = {name: known[name] for name in node.input if name}
    empty = helper.make_empty_tensor_value_info
    graph = helper.make_graph(
        [node],
        "one",
        [empty(name) for name in given],
        [empty(name) for name in node.output if name],
    )
    try:
        model = helper.make_model(graph, opset_imports=imports)
        with np.errstate(all="ignore"):  # log(0) of a mask is what the model means
            found = evaluator(model).run(None, given)
    except Exception:  # noqa: BLE001 - whatever it can't do runs on the device
        return None
    if any(not isinstance(array, np.ndarray | np.generic) or array.size > MOST_KNOWN
           or array.dtype == object for array in found):  # fmt: skip
        return None
    return [np.asarray(array) for array in found]
