"""Small tasks of every operator type that has a kernel: ragged, odd, prime, broadcast and tiny."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from inspect import Parameter, signature
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import strategies as st

from npusim.operators.registry import band_class, kernel_class
from npusim.ops.foreach.kernel import ForeachKernel
from npusim.ops.multi_scale_deformable_attention_grad.contract import Sizes
from npusim.schedules.formula_kernel import FormulaKernel
from support import convolution_cases, language_cases, row_cases, vision_cases
from support.convolution import square
from support.deformable import deformable
from support.group_norm import group_norm as group_norm_call
from support.roi import roi_align
from support.tasks import BFLOAT16, CHIPS, kernels, tensor

if TYPE_CHECKING:
    from npusim.hardware import Profile
    from support.reference import Built

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

SIZES = (1, 2, 3, 5, 8, 13, 16, 17, 31, 40, 64, 67, 130)
MOST_ELEMENTS = 12_000


@dataclass
class Task:
    """A task's inputs, what its outputs hold before, and its attributes.

    ``direct`` are keywords of the kernel's class, for kernels that no record describes.
    """

    inputs: Sequence[Array | None]
    outputs: Sequence[Array]
    attributes: Mapping[str, object] = field(default_factory=dict)
    direct: Mapping[str, Any] | None = None

    def kernels(self, profile: Profile, op_type: str) -> Built:
        """The task's kernels on fresh copies of its tensors, and its outputs."""
        if self.direct is None:
            return kernels(profile, op_type, self.inputs, self.outputs, self.attributes)
        given = [tensor(each, f"x{n}") for n, each in enumerate(self.inputs) if each is not None]
        made = {f"y{n}": tensor(each, f"y{n}") for n, each in enumerate(self.outputs)}
        named = {name: made.get(str(value), value) for name, value in self.direct.items()}
        rest = [each for name, each in made.items() if name not in self.direct.values()]
        task = kernel_class(op_type)(profile, *given, *rest, **named)
        for each in task.scratch:
            each.buffer.data = np.zeros(each.buffer.nbytes // 4, np.float32)
        return [task], list(made.values())


class Pick:
    """Draws sizes and numbers for one task on a chip."""

    def __init__(self, data: st.DataObject, profile: Profile) -> None:
        self.profile = profile
        self._draw = data.draw
        self._random = np.random.default_rng(self._draw(st.integers(0, 99)))

    def of(self, *choices: Any) -> Any:
        return self._draw(st.sampled_from(choices))

    def size(self, most: int = 130) -> int:
        return int(self.of(*(size for size in SIZES if size <= most)))

    def shape(self, least: int = 1, most: int = 3, elements: int = MOST_ELEMENTS) -> Shape:
        shape: list[int] = []
        for _ in range(int(self.of(*range(least, most + 1)))):
            shape.append(self.size(max(1, elements // prod(shape))))
        return tuple(shape)

    def broadcast(self, shape: Shape) -> Shape:
        """A shape that broadcasts to ``shape``: some axes of one, leading ones left out."""
        found = tuple(size if self.of(True, True, False) else 1 for size in shape)
        wanted: Shape = self.of(shape, shape, found, (), found[-1:])
        return wanted

    def kind(self, *more: Any) -> Any:
        kinds = [np.float32, np.float16, *more]
        if self.profile.supports_convert("bfloat16", "float32"):
            kinds.append(BFLOAT16)
        return self.of(*kinds)

    def half(self) -> Any:
        return self.of(np.float32, np.float16)

    def numbers(self, *shape: int, kind: Any = np.float32) -> Array:
        """Numbers around zero (from 0.1 on for what divides and takes roots: see positive)."""
        found = self._random.standard_normal(shape) * 3
        return found.astype(kind) if kind is not bool else found > 0

    def positive(self, *shape: int, kind: Any = np.float32) -> Array:
        return np.abs(self._random.standard_normal(shape) + 0.1).astype(kind)

    def places(self, count: Shape, below: int, kind: Any = np.int32) -> Array:
        return self._random.integers(0, below, count).astype(kind)

    def once(self, count: int, below: int, kind: Any = np.int32) -> Array:
        return self._random.permutation(below)[:count].astype(kind)

    def bytes(self, count: int) -> Array:
        return self._random.integers(0, 256, count).astype(np.uint8)


def empty(*shape: int, kind: Any = np.float32) -> Array:
    """An output that holds something no result is."""
    return np.full(shape, 77, kind)


def zeros(*shape: int, kind: Any = np.float32) -> Array:
    """An output that was cleared before."""
    return np.zeros(shape, kind)


Case = Callable[[Pick, str], Task]


def task_of(op_type: str, data: st.DataObject, profile: Profile) -> Task:
    """A small task of an operator type."""
    return case_of(op_type)(Pick(data, profile), op_type)


def case_of(op_type: str) -> Case:
    """How tasks of an operator type are drawn; raises KeyError for one that nobody wrote down."""
    if op_type in CASES:
        return CASES[op_type]
    kernel = kernel_class(op_type)
    if isinstance(kernel, type) and issubclass(kernel, FormulaKernel):
        return formula
    if isinstance(kernel, type) and issubclass(kernel, ForeachKernel):
        return lists
    return FOLDERS[band_class(op_type)]


# -- element by element ----------------------------------------------------------------------------


def losses(pick: Pick, op_type: str) -> Task:
    """Of every element, or folded into one number; probabilities where logarithms are taken."""
    shape, kind = pick.shape(), pick.half()
    shares = op_type == "BinaryCrossEntropy"
    first = pick.positive(*shape).clip(0.1, 0.9) if shares else pick.numbers(*shape)
    second = pick.positive(*shape).clip(0.1, 0.9)
    reduction = pick.of("none", "mean", "sum")
    out = shape if reduction == "none" else ()
    inputs = [each.astype(kind) for each in (first, second)]
    told = {"reduction": reduction, **({"p": 1} if op_type == "LpLoss" else {})}
    return Task(inputs, [empty(*out, kind=kind)], told)


def along_axis(pick: Pick, op_type: str) -> Task:
    """Numbers of an axis beside all elements, or of an image."""
    sizes, kind = (pick.size(), pick.size(40), pick.size(20)), pick.half()
    x = pick.numbers(*sizes, kind=kind)
    if op_type == "Modulate":
        line = (sizes[0], sizes[2])
        small = [pick.numbers(*line, kind=kind) for _ in range(2)]
        return Task([x, *small], [empty(*sizes, kind=kind)])
    line = (sizes[1],)
    if op_type == "Scale":
        small = [pick.numbers(*line, kind=kind) for _ in range(2)]
        return Task([x, *small], [empty(*sizes, kind=kind)], {"axis": 1, "num_axes": 1})
    whole = pick.numbers(*line, kind=np.int32)
    scales = pick.positive(*line) + np.float32(0.5)
    if op_type == "Quantize":
        return Task([x, scales, whole], [empty(*sizes, kind=np.int8)], {"axis": 1})
    told = {"axis": 1, "quant_min": -128, "quant_max": 127}
    outputs = [empty(*sizes, kind=kind), empty(*sizes, kind=bool)]
    return Task([x, scales.astype(kind), whole], outputs, told)


def even_steps(pick: Pick, _: str) -> Task:
    count = pick.size(5000)
    ends = [np.array(each, np.float32) for each in (-1.5, 2.0)]
    return Task([*ends, np.array(count, np.int32)], [empty(count)])


def formula(pick: Pick, op_type: str) -> Task:
    """Operands as the formula takes them: some broadcast, some single elements by definition."""
    row = kernel_class(op_type).row  # type: ignore[attr-defined]
    parameters = [
        each
        for each in list(signature(row.formula).parameters.values())[1:]
        if each.name not in row.attributes
    ]
    count = len(parameters)
    if parameters[-1].kind is Parameter.VAR_POSITIONAL:
        count = int(pick.of(2, 3))
    shape, kind = pick.shape(), formula_kind(pick, op_type)
    inputs = []
    for index in range(count):
        own = () if index in row.numbers else shape
        if op_type in BROADCASTS and index:
            own = pick.broadcast(shape)
        selects = op_type in {"Select", "SelectV2"} and not index
        inputs.append(
            pick.positive(*own, kind=kind) if not selects else pick.numbers(*own, kind=bool)
        )
        if op_type in SIGNED:
            inputs[-1] = pick.numbers(*own, kind=kind)
    result = bool if row.result is not None else kind
    if op_type == "Cast":
        result = pick.of(np.float32, np.float16)
    return Task(inputs, [empty(*shape, kind=result) for _ in range(row.outputs)])


def formula_kind(pick: Pick, op_type: str) -> Any:
    if op_type.startswith("Logical"):
        return bool
    if op_type.startswith("Bitwise"):
        return pick.of(np.int8, np.int16, np.int32, np.int64)
    if op_type in FLOATS or band_class(op_type) == "optimizer":
        return np.float32
    return pick.half()


BROADCASTS = {
    *("Add", "AddV2", "Sub", "Mul", "Div", "RealDiv", "Maximum", "Minimum", "Equal", "Greater"),
    *("GreaterEqual", "Less", "LessEqual", "NotEqual", "LogicalAnd", "LogicalOr", "FusedMulAdd"),
    *("SelectV2", "BiasAdd"),
}
SIGNED = {"Abs", "Neg", "Relu", "Sign", "Floor", "Ceil", "Round", "Add", "Mul", "Tanh", "Gelu"}
FLOATS = {"Pow"}


def two_gradients(pick: Pick, _: str) -> Task:
    """The second operand's gradient is a sum where the operand is a single element."""
    shape = (pick.size() * pick.size(40),)
    x, grad = pick.numbers(*shape), pick.numbers(*shape)
    if pick.of(True, False):
        return Task([grad, x, pick.numbers()], [empty(*shape), zeros()])
    return Task([grad, x, pick.numbers(*shape)], [empty(*shape), empty(*shape)])


def lamb_update(pick: Pick, _: str) -> Task:
    shape = pick.shape()
    state = [pick.positive(*shape) for _ in range(4)]
    factors = (0.9, 0.1, 0.999, 0.001, 1e-6, 3.0, 1.0, 0.1)
    numbers = [np.array([each], np.float32) for each in factors]
    return Task([*state, *numbers], [empty(*shape)] * 3)


def adam_w(pick: Pick, _: str) -> Task:
    shape, kind = pick.shape(), pick.half()
    state = [pick.positive(*shape, kind=kind) for _ in range(4)]
    said = {"lr": 0.01, "weight_decay": 0.1, "maximize": pick.of(False, True)}
    return Task(state, [empty(*shape, kind=kind)] * 3, said)


def lists(pick: Pick, op_type: str) -> Task:
    shapes = [pick.shape() for _ in range(pick.of(1, 2, 3))]
    count = kernel_class(op_type).lists  # type: ignore[attr-defined]
    inputs = [pick.positive(*shape) for _ in range(count) for shape in shapes]
    return Task(inputs, [empty(*shape) for shape in shapes], {"scalar": 0.5})


def one_to_one(pick: Pick, _: str) -> Task:
    shape, kind = pick.shape(), pick.kind(np.int32)
    return Task([pick.positive(*shape, kind=kind)], [empty(*shape, kind=kind)])


def negated(pick: Pick, _: str) -> Task:
    shape, kind = pick.shape(), pick.half()
    return Task([pick.positive(*shape, kind=kind) for _ in range(2)], [empty(*shape, kind=kind)])


def exponent(pick: Pick, _: str) -> Task:
    shape = pick.shape()
    said: dict[str, object] = pick.of({}, {"base": 2.0, "scale": 0.5, "shift": 0.25})
    return Task([pick.numbers(*shape)], [empty(*shape)], said)


def assign(pick: Pick, _: str) -> Task:
    shape, kind = pick.shape(), pick.kind(np.int32)
    x = pick.numbers(*shape, kind=kind)
    return Task([empty(*shape, kind=kind), x], [empty(*shape, kind=kind)])


def fill(pick: Pick, op_type: str) -> Task:
    shape, kind = pick.shape(), pick.kind(np.int32)
    inputs: list[Array] = []
    if op_type == "Fill":
        inputs = [np.array(shape, np.int64), np.array(pick.of(0.0, 2.5), np.float32)]
        kind = np.float32
    elif op_type.endswith("Like"):
        inputs = [pick.numbers(*shape, kind=kind)]
    return Task(inputs, [empty(*shape, kind=kind)])


def progression(pick: Pick, _: str) -> Task:
    count = pick.of(1, 7, 67, 1000, 5001)
    numbers = [np.array(each, np.float32) for each in (1.0, 1.0 + 0.5 * count, 0.5)]
    return Task(numbers, [empty(count)])


def bits(pick: Pick, op_type: str) -> Task:
    """Whole numbers, and how far their bits are moved."""
    shape, kind = pick.shape(), pick.of(np.int8, np.int16, np.int32, np.int64)
    inputs = [pick.places(shape, 100, kind)]
    if op_type != "Invert":
        inputs.append(pick.places(shape, 7, kind))
    return Task(inputs, [empty(*shape, kind=kind)])


def triangle(pick: Pick, op_type: str) -> Task:  # noqa: ARG001 - alike
    """Matrices, and a diagonal."""
    x = pick.numbers(*pick.shape(2, 3), kind=pick.half())
    return Task([x], [np.zeros_like(x)], {"diagonal": int(pick.of(-2, 0, 3))})


def rolled(pick: Pick, op_type: str) -> Task:
    """A tensor, and the axes that it is turned about or rolled along."""
    x = pick.numbers(*pick.shape(1, 3), kind=pick.kind())
    axes = [int(pick.of(*range(x.ndim)))]
    named = {"axis": axes} if op_type == "ReverseV2" else {"dims": axes, "shifts": [2]}
    return Task([x], [np.zeros_like(x)], named)


def flags(pick: Pick, op_type: str) -> Task:
    raised = pick.of(0.0, 1.0)
    inputs = [] if "Alloc" in op_type else [zeros(8) + np.float32(raised)]
    return Task(inputs, [empty(8)])


def dropout(pick: Pick, op_type: str) -> Task:
    shape, kind = pick.shape(elements=30_000), pick.half()
    x, bits = pick.numbers(*shape, kind=kind), pick.bytes(-(-prod(shape) // 128) * 16)
    inputs = [x, bits] if op_type == "ReluGradV2" else [x, bits, np.array(0.5, kind)]
    return Task(inputs, [empty(*shape, kind=kind)])


def masked_scale(pick: Pick, _: str) -> Task:
    shape = pick.shape()
    mask = pick.numbers(*shape, kind=bool).astype(np.uint8)
    return Task([pick.numbers(*shape), mask], [empty(*shape)], {"value": 1.5, "scale": 1.5})


def gated(pick: Pick, op_type: str) -> Task:
    rows, half = pick.shape(1, 2, 2000), pick.size()
    kind = pick.half()
    x = pick.numbers(*rows, 2 * half, kind=kind)
    if op_type == "SwiGluGrad":
        inputs = [pick.numbers(*rows, half, kind=kind), x]
        return Task(inputs, [empty(*x.shape, kind=kind)], {"dim": -1})
    results = [empty(*rows, half, kind=kind) for _ in range(1 + (op_type == "GeGluV2"))]
    return Task([x], results, {"dim": -1})


def cross_entropy_gradient(pick: Pick, _: str) -> Task:
    shape, kind = pick.shape(), pick.half()
    given = [pick.positive(*shape, kind=kind) for _ in range(4)]
    said = {"reduction": pick.of("mean", "none")}
    return Task(given, [empty(*shape, kind=kind)], said)


def likelihood(pick: Pick, op_type: str) -> Task:
    kind, classes = pick.kind(), pick.of(1, 5, 33, 1000)
    around: Shape = (
        pick.of((7,), (130,), (3, 5)) if op_type == "CrossEntropyLoss" else (pick.size(),)
    )
    x = pick.numbers(around[0], classes, *around[1:], kind=kind)
    target = pick.places(around, classes, pick.of(np.int32, np.int64))
    said = {"reduction": pick.of("none", "mean", "sum")}
    shape = around if said["reduction"] == "none" else ()
    out = empty(*shape, kind=kind)
    if op_type == "CrossEntropyLoss":
        return Task([x, target], [out], said)
    outputs = [out, *([] if shape else [empty(kind=kind)])]
    return Task([x, target, pick.positive(classes, kind=kind)], outputs, said)


def soft_labels(pick: Pick, _: str) -> Task:
    shape, kind = (pick.size(), pick.of(1, 8, 100, 513)), pick.half()
    inputs = [pick.numbers(*shape, kind=kind), pick.positive(*shape, kind=kind)]
    return Task(inputs, [empty(shape[0], kind=kind), empty(*shape, kind=kind)])


# -- copies ----------------------------------------------------------------------------------------

MOVED = (np.float32, np.float16, np.int8, np.int64)


def transpose(pick: Pick, _: str) -> Task:
    shape, kind = pick.shape(1, 4), pick.of(*MOVED)
    order = tuple(np.random.default_rng(pick.of(*range(24))).permutation(len(shape)).tolist())
    x = pick.numbers(*shape, kind=kind)
    wanted = tuple(shape[axis] for axis in order)
    return Task([x], [empty(*wanted, kind=kind)], {"perm": list(order)})


def heads(pick: Pick, _: str) -> Task:
    x = pick.numbers(2, 3, pick.of(1, 4), pick.of(1, 5), 16, 16, kind=np.float16)
    a, b, c, d = x.shape[:4]
    return Task([x], [empty(b * c, a * d, 16, 16, kind=np.float16)])


def view_copy(pick: Pick, _: str) -> Task:
    shape, kind = pick.shape(1, 4), pick.of(*MOVED)
    return Task([pick.numbers(*shape, kind=kind)], [empty(*shape, kind=kind)])


def part(pick: Pick, op_type: str) -> Task:
    shape, kind = pick.shape(1, 4), pick.of(*MOVED)
    steps = [pick.of(1, 1, 2, 3) if "Strided" in op_type else 1 for _ in shape]
    begin = [pick.of(0, size // 3, size - 1) for size in shape]
    counts = [
        pick.of(1, (size - first - 1) // step + 1)
        for size, first, step in zip(shape, begin, steps, strict=True)
    ]
    said = {"begin": begin, "strides": steps} if "Strided" in op_type else {"offsets": begin}
    return Task([pick.numbers(*shape, kind=kind)], [empty(*counts, kind=kind)], said)


def _parts(pick: Pick) -> tuple[list[Array], int]:
    shape, kind = pick.shape(1, 3, 3000), pick.of(*MOVED)
    axis = pick.of(*range(len(shape)))
    widths = [pick.size(40) for _ in range(pick.of(1, 2, 3, 5))]
    if pick.of(False, False, True):
        widths = [widths[0]] * len(widths)
    return [
        pick.numbers(*shape[:axis], width, *shape[axis + 1 :], kind=kind) for width in widths
    ], axis


def join(pick: Pick, _: str) -> Task:
    parts, axis = _parts(pick)
    whole = np.concatenate(parts, axis)
    return Task(parts, [empty(*whole.shape, kind=whole.dtype)], {"axis": axis})


def split(pick: Pick, _: str) -> Task:
    parts, axis = _parts(pick)
    outputs = [empty(*each.shape, kind=each.dtype) for each in parts]
    return Task([np.concatenate(parts, axis)], outputs, {"split_dim": axis})


def stack(pick: Pick, op_type: str) -> Task:
    shape, kind, count = pick.shape(1, 3, 3000), pick.of(*MOVED), pick.of(1, 2, 3)
    axis = pick.of(*range(len(shape) + 1))
    parts = [pick.numbers(*shape, kind=kind) for _ in range(count)]
    whole = np.stack(parts, axis)
    if op_type == "Pack":
        return Task(parts, [empty(*whole.shape, kind=kind)], {"axis": axis})
    return Task([whole], [empty(*shape, kind=kind) for _ in parts], {"axis": axis})


def pad(pick: Pick, op_type: str) -> Task:
    shape, kind = pick.shape(1, 3, 3000), pick.of(np.float32, np.float16)
    around = [(pick.of(0, 0, 1, 3), pick.of(0, 0, 2, 5)) for _ in shape]
    if pick.of(True, False):
        around = [*((0, 0) for _ in shape[1:]), (pick.of(0, 3), pick.of(2, 5))]
    wide = tuple(size + sum(each) for size, each in zip(shape, around, strict=True))
    said: dict[str, object] = {"paddings": [list(each) for each in around]}
    if op_type == "StridedSliceGrad":
        said = {"begin": [before for before, _ in around]}
    return Task([pick.numbers(*shape, kind=kind)], [empty(*wide, kind=kind)], said)


def repeat(pick: Pick, op_type: str) -> Task:
    shape, kind = pick.shape(1, 4), pick.of(*MOVED[:2])
    kept = tuple(size if pick.of(True, False) else 1 for size in shape)
    if op_type.startswith("Tile"):
        times = [pick.of(1, 1, 2, 3) for _ in kept]
        shape = tuple(size * each for size, each in zip(kept, times, strict=True))
    return Task([pick.numbers(*kept, kind=kind)], [empty(*shape, kind=kind)])


def trans_data(pick: Pick, _: str) -> Task:
    kind = np.float16 if pick.of(True, False) else np.float32
    images, channels = pick.of(1, 2, 3), pick.of(3, 16, 17, 40)
    spatial = (pick.size(17), pick.size(17))
    planar = (images, channels, *spatial)
    packed = (images, -(-channels // 16), *spatial, 16)
    source, target = pick.of((planar, packed), (packed, planar))
    x = pick.numbers(*source, kind=kind)
    if source is packed and channels % 16:
        x[:, -1, ..., channels % 16 :] = 0
    return Task([x], [empty(*target, kind=kind)])


# -- rows ------------------------------------------------------------------------------------------


def _rows(pick: Pick) -> Shape:
    columns = pick.of(1, 3, 8, 17, 64, 67, 130, 768, 2051, 5000)
    return (*pick.shape(1, 2, max(1, 16_000 // columns)), int(columns))


def reduction(pick: Pick, op_type: str) -> Task:
    shape, kind = pick.shape(1, 4, 20_000), pick.kind()
    if op_type in {"L2Loss", "SquareSumV1", "SquareSumV2"} or "Prod" in op_type:
        kind = np.float32
    if op_type in {"ReduceAll", "ReduceAny", "ReduceAllD", "ReduceAnyD"}:
        kind = bool
    axes = [axis for axis in range(len(shape)) if pick.of(True, False)] or [len(shape) - 1]
    if op_type in {"L2Loss", "SquareSumV2"}:
        axes = list(range(len(shape)))
    if op_type == "BiasAddGrad":
        axes = list(range(len(shape) - 1))
        shape = shape if axes else (*shape, 1)
        axes = axes or [0]
    left = tuple(size for axis, size in enumerate(shape) if axis not in axes)
    x = pick.positive(*shape, kind=kind) if "Prod" in op_type else pick.numbers(*shape, kind=kind)
    outputs = [zeros(*left, kind=kind)]
    if op_type == "SquareSumV2":
        outputs = [zeros(1), empty(*shape)]
    return Task([x], outputs, {} if op_type == "BiasAddGrad" else {"axes": axes})


def norms(pick: Pick, op_type: str) -> Task:
    order = pick.of(2.0, 1.0, 3.0, 2.5, np.inf)
    count, kind = (pick.of(1, 3), pick.kind()) if op_type == "ForeachNorm" else (1, pick.half())
    order = min(order, 3.0) if op_type == "LpNormUpdateV2" else order
    shapes = [(1,) if "Update" in op_type else pick.shape(1, 3, 20_000) for _ in range(count)]
    xs = [pick.positive(*shape, kind=kind) for shape in shapes]
    fresh = zeros if op_type == "LpNormReduceV2" else empty
    results = [fresh(*((1,) if "Update" in op_type else ()), kind=kind) for _ in xs]
    return Task(xs, results, {"p": order, "scalar": order})


def spread(pick: Pick, op_type: str) -> Task:
    found = reduction(pick, op_type)
    (x,) = found.inputs
    assert x is not None
    axes = tuple(found.attributes["axes"])
    mean = np.broadcast_to(x.mean(axes, keepdims=True, dtype=np.float32), x.shape)
    return Task([x, mean.astype(x.dtype)], found.outputs, {"axes": axes, "correction": 0})


def renorm(pick: Pick, _: str) -> Task:
    shape, kind = pick.shape(1, 4, 20_000), pick.kind()
    dim = pick.of(0, len(shape) - 1)
    left = (size if axis == dim else 1 for axis, size in enumerate(shape))
    told = {"p": pick.of(1.0, 2.0, 2.5, np.inf), "dim": dim, "maxnorm": 2.0}
    return Task([pick.numbers(*shape, kind=kind)], [empty(*left, kind=kind)], told)


def softmax(pick: Pick, op_type: str) -> Task:
    shape, kind = _rows(pick), pick.kind()
    if pick.of(False, False, True):
        shape = pick.of((2, 17, 40), (3, 130, 5), (1, 700, 33))
    axis = pick.of(-1, len(shape) - 2)
    count = 2 if "Grad" in op_type else 1
    inputs = [pick.numbers(*shape, kind=kind) for _ in range(count)]
    return Task(inputs, [empty(*shape, kind=kind)], {"axes": [axis], "axis": axis})


def scaled_softmax_gradient(pick: Pick, op_type: str) -> Task:
    found = softmax(pick, op_type)
    x = found.inputs[0]
    assert x is not None
    return Task([*found.inputs, np.ones((), x.dtype)], found.outputs, found.attributes)


def _fractals(pick: Pick) -> Shape:
    return (pick.of(1, 3, 5), pick.of(1, 2, 5), 16, 16)


def layer_norm(pick: Pick, op_type: str) -> Task:
    kind = pick.kind()
    shape = _fractals(pick) if kind is np.float16 and pick.of(True, False) else _rows(pick)
    columns, rows = _lines(shape)
    x, gamma, beta = (pick.numbers(*each, kind=kind) for each in (shape, columns, columns))
    column = np.float32 if op_type == "LayerNormV3" else kind
    return Task([x, gamma, beta], [empty(*shape, kind=kind), *(empty(*rows, kind=column),) * 2])


def _lines(shape: Shape) -> tuple[Shape, Shape]:
    """The shapes of a row and of a column, also for matrices in fractals."""
    if len(shape) == 4 and shape[-2:] == (16, 16):
        return (shape[0] * 16,), (shape[1] * 16,)
    return shape[-1:], shape[:-1]


def layer_norm_gradient(pick: Pick, _: str) -> Task:
    kind = pick.kind()
    shape = _fractals(pick) if kind is np.float16 and pick.of(True, False) else _rows(pick)
    columns, rows = _lines(shape)
    grad, x, gamma = (pick.numbers(*each, kind=kind) for each in (shape, shape, columns))
    inputs = [grad, x, pick.positive(*rows), pick.numbers(*rows), gamma]
    return Task(inputs, [empty(*shape, kind=kind), empty(*shape)])


def layer_norm_gradients(pick: Pick, _: str) -> Task:
    shape, kind = _rows(pick), pick.kind()
    grad, x, gamma = (pick.numbers(*each, kind=kind) for each in (shape, shape, shape[-1:]))
    inputs = [grad, x, pick.positive(*shape[:-1], 1), pick.numbers(*shape[:-1], 1), gamma]
    return Task(inputs, [empty(*shape, kind=kind), empty(shape[-1]), empty(shape[-1])])


def layer_norm_by_hand(pick: Pick, _: str) -> Task:
    shape, kind = _rows(pick), pick.kind()
    x, gamma, beta = (pick.numbers(*each, kind=kind) for each in (shape, shape[-1:], shape[-1:]))
    sizes = np.array(shape[-1:], np.int32)
    columns = (empty(*shape[:-1], 1) for _ in range(2))
    return Task([x, sizes, gamma, beta], [empty(*shape, kind=kind), *columns])


def layer_norm_parameters(pick: Pick, _op_type: str) -> Task:
    kind = pick.half()
    shape = _fractals(pick) if kind is np.float16 and pick.of(True, False) else _rows(pick)
    columns, _ = _lines(shape)
    return Task(
        [pick.numbers(*shape, kind=kind), pick.numbers(*shape, kind=kind)],
        [zeros(*columns), zeros(*columns)],
    )


def rms_norm(pick: Pick, op_type: str) -> Task:
    shape, kind = _rows(pick), pick.kind()
    x, other = pick.numbers(*shape, kind=kind), pick.numbers(*shape, kind=kind)
    gamma = pick.numbers(shape[-1], kind=kind)
    outputs = [empty(*shape, kind=kind), empty(*shape[:-1], 1)]
    if op_type == "RmsNorm":
        return Task([x, gamma], outputs)
    biased = op_type == "AddRmsNormBias" and pick.of(True, False)
    lines = [gamma, pick.numbers(shape[-1], kind=kind)] if biased else [gamma]
    return Task([x, other, *lines], [*outputs, empty(*shape, kind=kind)])


def rms_norm_gradient(pick: Pick, _: str) -> Task:
    shape, kind = _rows(pick), pick.kind()
    grad, x = pick.numbers(*shape, kind=kind), pick.numbers(*shape, kind=kind)
    inputs = [grad, x, pick.positive(*shape[:-1]), pick.numbers(shape[-1], kind=kind)]
    return Task(inputs, [empty(*shape, kind=kind), zeros(shape[-1])])


def rotary(pick: Pick, op_type: str) -> Task:
    kind, length, mode = pick.kind(), pick.of(64, 128), pick.of(0, 1)
    tokens = (pick.of(1, 2, 3), pick.of(1, 5, 17, 40))
    cos, sin = (pick.numbers(*tokens, 1, length, kind=kind) for _ in range(2))
    count = 2 if op_type == "ApplyRotaryPosEmb" else 1
    xs = [pick.numbers(*tokens, pick.of(1, 3, 8), length, kind=kind) for _ in range(count)]
    said = {"mode": mode, "rotary_mode": ("half", "interleave")[mode]}
    return Task([*xs, cos, sin], [empty(*x.shape, kind=kind) for x in xs], said)


def group_norm(pick: Pick, op_type: str) -> Task:
    groups, kind = pick.of(1, 2, 4), pick.kind()
    channels, images = groups * pick.of(1, 2, 5), pick.of(1, 2, 3)
    shape = (images, channels, pick.of(1, 7, 64, 101, 1000))
    inputs = [
        pick.numbers(*shape, kind=kind),
        pick.numbers(channels, kind=kind),
        pick.numbers(channels, kind=kind),
    ]
    lines = [empty(images * groups, kind=kind) for _ in range(2)]
    said: dict[str, object] = {"num_groups": groups}
    if op_type == "GroupNormSilu":
        said["activate_silu"] = pick.of(True, False)
    return Task(inputs, [empty(*shape, kind=kind), *lines], said)


# -- images ----------------------------------------------------------------------------------------


def batch_norm(pick: Pick, op_type: str) -> Task:
    kind = pick.half()
    shape = (pick.of(1, 2, 5), pick.of(1, 2, 3), pick.size(17), pick.size(40), 16)
    slices = shape[1]
    row = (1, slices, 1, 1, 16)
    x, other = pick.numbers(*shape, kind=kind), pick.numbers(*shape, kind=kind)
    y = empty(*shape, kind=kind)

    def rows(count: int) -> list[Array]:
        return [pick.positive(*row) for _ in range(count)]

    def results(count: int) -> list[Array]:
        return [empty(*row) for _ in range(count)]

    if op_type in {"BNInfer", "BNInferenceD", "FusionOp_BNInfer_Relu"}:
        return Task([x, *rows(4)], [y])
    if op_type == "BNTrainingReduce":
        return Task([x], [zeros(*row), zeros(*row)])
    if op_type == "BNTrainingUpdateGrad":
        return Task([x, other, *rows(2)], [zeros(*row), zeros(*row)])
    if op_type == "BNTrainingReduceGrad":
        return Task([x, other, *rows(5)], [y])
    if op_type in {"BNTrainingUpdateV2", "BNTrainingUpdateV3"}:
        return Task([x, *rows(4)], [y, *results(4 if op_type.endswith("3") else 2)])
    outputs = [y, *results(4)]
    if op_type.startswith("FusionOp"):
        outputs.insert(1, np.full((*shape[:-1], 2), 77, np.uint8))
    return Task([x, *rows(6), other] if "Add" in op_type else [x, *rows(6)], outputs)


def blocked_instances(pick: Pick, op_type: str) -> Task:
    kind = pick.half()
    shape = (pick.of(1, 2, 5), pick.of(1, 2, 3), pick.size(17), pick.size(40), 16)
    of_images, shared = (*shape[:2], 1, 1, 16), (1, shape[1], 1, 1, 16)
    x = pick.numbers(*shape, kind=kind)
    if op_type == "INTrainingReduceV2":
        return Task([x], [zeros(*of_images), zeros(*of_images)])
    given = [pick.positive(*row) for row in (of_images, of_images, shared, shared)]
    return Task([x, *given], [empty(*shape, kind=kind), empty(*of_images), empty(*of_images)])


CORNERS: tuple[dict[str, bool], ...] = ({}, {"align_corners": True}, {"half_pixel_centers": True})


def resize(pick: Pick, op_type: str) -> Task:
    blocked = "Grad" in op_type or op_type in {"ResizeBilinearV2", "SyncResizeBilinearV2"}
    images, channels = pick.of(1, 2), pick.of(1, 2) if blocked else pick.of(3, 17)
    inside, outside = ((pick.size(17), pick.size(17)) for _ in range(2))
    lanes = (16,) if blocked or pick.of(True, False) else ()
    kind = np.float32 if blocked else pick.half()
    source, target = ((images, channels, *size, *lanes) for size in (inside, outside))
    if op_type == "ResizeBilinear":
        source, target, kind = (images, 20, *inside), (images, 20, *outside), pick.kind()
    x = pick.numbers(*source, kind=kind)
    fresh = zeros if "Grad" in op_type else empty
    return Task([x], [fresh(*target, kind=kind)], pick.of(*CORNERS))


def upsample_gradient(pick: Pick, _: str) -> Task:
    rows, width = pick.of(1, 3, 40), pick.of(1, 7, 33, 200)
    wide = pick.of(width, 2 * width, width * 3 // 2 + 1)
    return Task([pick.numbers(1, rows, 1, wide)], [empty(1, rows, 1, width)])


def pooling(pick: Pick, op_type: str) -> Task:
    if op_type.startswith("AdaptiveAvgPool3"):
        size, channels = [pick.of(1, 2, 3, 5) for _ in range(3)], pick.of(3, 16, 40)
        kind, inside = pick.kind(), [pick.of(2, 4, 7) for _ in range(3)]
        x = pick.numbers(pick.of(1, 2), channels, *inside, kind=kind)
        result = empty(*x.shape[:2], *size, kind=kind)
        return Task([x], [result], {"output_size": size})
    window, stride = pick.of((2, 2), (3, 2), (3, 1), (5, 1))
    height, width = (pick.of(4, 9, 17) for _ in range(2))
    out = (-(-height // stride), -(-width // stride))
    planes, kind = (pick.of(1, 3), pick.of(1, 2)), pick.half()
    x = pick.numbers(*planes, height, width, 16, kind=kind)
    words = (*planes, window**2, -(-out[0] * out[1] // 16) + 1, 16)
    settings = {"ksize": [1, window, window, 1], "strides": [1, stride, stride, 1]}
    if "Argmax" not in op_type:
        return Task([x], [empty(*planes, *out, 16, kind=kind)], settings | {"data_format": "NHWC"})
    if "Grad" in op_type:
        mask = pick.places(words, 1 << 16, np.uint16)
        grad = pick.numbers(*planes, *out, 16, kind=kind)
        return Task([x, grad, mask], [empty(*x.shape, kind=kind)], settings)
    return Task([x], [empty(*planes, *out, 16, kind=kind), zeros(*words, kind=np.uint16)], settings)


def grid_sample_gradient(pick: Pick, op_type: str) -> Task:
    axes = 2 if "2D" in op_type else 3
    x = pick.numbers(pick.of(1, 2), *(pick.of(1, 2, 5) for _ in range(axes)), pick.of(3, 16, 70))
    grid = pick.numbers(x.shape[0], *[pick.of(1, 3) for _ in range(axes)], axes) / 2
    dy = pick.numbers(*grid.shape[:-1], x.shape[-1])
    settings = {"padding_mode": pick.of("zeros", "border", "reflection")}
    settings["interpolation_mode"] = pick.of("bilinear", "nearest")
    outputs = [np.zeros(x.shape, np.float32), empty(*grid.shape)]
    return Task([dy, x, grid], outputs, settings)


def grid_sample(pick: Pick, op_type: str) -> Task:
    if op_type.endswith("Grad"):
        return grid_sample_gradient(pick, op_type)
    axes = 2 if op_type.endswith("2D") else 3
    shape = (pick.of(1, 2), pick.of(3, 16, 70), *(pick.of(1, 2, 5) for _ in range(axes)))
    samples, kind = [pick.of(1, 3) for _ in range(axes)], pick.half()
    grid = pick.numbers(shape[0], *samples, axes, kind=kind) / 2
    settings = {"padding_mode": pick.of("zeros", "border", "reflection")}
    settings["interpolation_mode"] = pick.of("bilinear", "nearest")
    result = empty(*shape[:2], *samples, kind=kind)
    return Task([pick.numbers(*shape, kind=kind), grid.astype(kind)], [result], settings)


def boxes_align(pick: Pick, _: str) -> Task:
    shape = (pick.of(1, 2), pick.of(3, 16, 33), pick.of(5, 9), pick.of(4, 8))
    count, bins = pick.of(1, 4), (pick.of(1, 2), pick.of(1, 2))
    boxes = pick.positive(count, 5) * 8
    boxes[:, 0] = 0
    settings = {"outputHeight": bins[0], "outputWidth": bins[1], "sampling_ratio": pick.of(1, 2)}
    return Task([pick.numbers(*shape), boxes], [empty(count, shape[1], *bins)], settings)


def order(pick: Pick, op_type: str) -> Task:
    shape = pick.shape(1, 3, 4000)
    axis = pick.of(*range(len(shape)))
    kind = pick.half()
    if op_type in {"Cummin", "Cummax"}:
        x = pick.numbers(*shape, kind=kind)
        results = [empty(*shape, kind=kind), empty(*shape, kind=np.int32)]
        return Task([x], results, {"dim": axis})
    if op_type.startswith("Arg"):
        x, left = pick.numbers(*shape, kind=kind), (*shape[:axis], *shape[axis + 1 :])
        return Task([x], [empty(*left, kind=np.int32)], {"dim": axis})
    kind = pick.of(np.float32, np.float16, np.int8)
    x = pick.numbers(*shape, kind=kind)
    if op_type.startswith("Unique"):
        return Task([x], [empty(x.size, kind=kind), empty(*shape, kind=np.int64)])
    whole = op_type.startswith("Sort")
    count = shape[axis] if whole else pick.of(1, shape[axis], (shape[axis] + 1) // 2)
    taken = (*shape[:axis], count, *shape[axis + 1 :])
    results = [empty(*taken, kind=kind), empty(*taken, kind=np.int32)]
    return Task([x], results, {"dim": axis, "k": count, "largest": pick.of(True, False)})


# -- places ----------------------------------------------------------------------------------------


def gather(pick: Pick, op_type: str) -> Task:
    kind, index = pick.of(np.float32, np.float16, np.int32), pick.of(np.int32, np.int64)
    table = pick.numbers(
        pick.size(), *pick.of((), (1,), (3,), (8,), (16,), (100,), (5, 7)), kind=kind
    )
    if op_type == "GatherNd":
        ids = pick.places((pick.size(), 1), table.shape[0], index)
        return Task([table, ids], [empty(ids.shape[0], *table.shape[1:], kind=kind)])
    axis = pick.of(*range(len(table.shape)))
    ids = pick.places(pick.of((5,), (31,), (3, 17)), table.shape[axis], index)
    shape = (*table.shape[:axis], *ids.shape, *table.shape[axis + 1 :])
    return Task([table, ids], [empty(*shape, kind=kind)], {"axis": axis})


def elements(pick: Pick, op_type: str) -> Task:
    shape, kind = pick.shape(1, 3, 3000), pick.of(np.float32, np.float16, np.int32)
    axis = pick.of(*range(len(shape)))
    x = pick.numbers(*shape, kind=kind)
    if op_type == "Scatter" and pick.of(True, False):
        cache = pick.numbers(pick.of(1, 3), pick.of(1, 2, 5), 7, pick.of(3, 16, 40), kind=kind)
        ids = pick.places((cache.shape[0],), 7, np.int64)
        return Task([cache, ids, cache[:, :, :1]], [])
    if op_type.startswith("GatherElements"):
        ids = pick.places(shape, shape[axis], np.int64)
        return Task([x, ids], [empty(*shape, kind=kind)], {"dim": axis})
    ids = np.argsort(pick.numbers(*shape), axis=axis).astype(np.int64)
    new = pick.numbers(*shape, kind=kind)
    return Task([x, ids, new], [empty(*shape, kind=kind)], {"axis": axis})


def scatter(pick: Pick, op_type: str) -> Task:
    rows, width, count = pick.size(), pick.of(1, 3, 8, 33, 130), pick.size()
    var = pick.numbers(rows, width)
    adds = "Add" in op_type
    ids = pick.places((count,), rows) if adds else pick.once(count, rows)
    new = pick.numbers(ids.size, width)
    return Task([var, ids.reshape(-1, 1) if "Nd" in op_type else ids, new], [])


def by_lists(pick: Pick, op_type: str) -> Task:
    """A list of places for each of the first axes; places that are put to aren't named twice."""
    axes, width, count = (
        pick.of((7,), (3, 5), (40, 2)),
        pick.of(1, 3, 8, 33, 130),
        pick.of(1, 6, 30),
    )
    x, kind = pick.numbers(*axes, width), pick.of(np.int32, np.int64)
    whole = pick.once(count, int(np.prod(axes)))
    lists = [each.astype(kind) for each in np.unravel_index(whole, axes)]
    rows = pick.numbers(whole.size, width)
    sizes = [np.ones(len(axes), np.int64), np.ones(1, np.int64)]
    if op_type == "Index":
        return Task([x, *sizes, *lists], [empty(whole.size, width)])
    return Task([x, rows, *sizes, *lists], [])


def filled_rows(pick: Pick, _: str) -> Task:
    x = pick.numbers(*pick.shape(1, 3, 3000))
    axis = pick.of(*range(len(x.shape)))
    places = pick.places((3,), x.shape[axis], np.int64)
    return Task([x, places, np.ones(1, np.float32)], [empty(*x.shape)], {"axis": axis})


def index_add(pick: Pick, _: str) -> Task:
    shape = pick.shape(2, 3, 3000)
    axis = pick.of(*range(len(shape)))
    ids = pick.places((pick.of(1, 6, 17),), shape[axis], np.int64)
    new = pick.numbers(*shape[:axis], ids.size, *shape[axis + 1 :])
    return Task([pick.numbers(*shape), ids, new], [], {"axis": axis})


def sorted_rows(pick: Pick, _: str) -> Task:
    rows, width, count = pick.size(), pick.of(1, 3, 40, 130), pick.of(1, 6, 17, 90)
    ids, kind = pick.places((count,), rows), np.float16
    order = np.argsort(ids, kind="stable").astype(np.int32)
    tensors = (pick.numbers(rows, width, kind=kind), pick.numbers(count, width, kind=kind))
    return Task([*tensors, ids[order], order], [])


def aligned(pick: Pick, op_type: str) -> Task:
    """Sequences of as many steps and labels as there may be."""
    steps, batch, classes, labels = pick.of(1, 2, 7), pick.of(1, 3, 50), pick.of(3, 17), 2
    probs = -np.abs(pick.numbers(steps, batch, classes))
    targets = pick.places((batch, labels), classes - 1) + 1
    lengths = [np.full(batch, each, np.int32) for each in (steps, labels)]
    rows, loss = empty(batch, steps, 8), empty(batch)
    if "Grad" not in op_type:
        return Task([probs, targets, *lengths], [loss, rows])
    alphas = -np.abs(pick.numbers(batch, steps, 8))
    given = [pick.numbers(batch), probs, targets, *lengths, pick.numbers(batch), alphas]
    return Task(given, [empty(steps, batch, classes)])


def segments(pick: Pick, _: str) -> Task:
    rows, width, count = pick.size(), pick.of(1, 3, 8, 40, 130), pick.size()
    inputs = [pick.numbers(count, width), pick.places((count,), rows)]
    return Task(inputs, [zeros(rows, width)])


def one_hot(pick: Pick, op_type: str) -> Task:
    rows, depth, axis = pick.size(), pick.of(1, 5, 21, 300), pick.of(-1, 0, 1)
    shape = [rows] if axis == -1 else [pick.of(1, 7), pick.of(3, 50)]
    ids = pick.places(tuple(shape), depth)
    values = [np.array([2.5], np.float32), np.array([-1.0], np.float32)]
    inputs = [ids, *([np.array([depth], np.int32)] if op_type == "OneHot" else []), *values]
    shape.insert(axis % (len(shape) + 1), depth)
    return Task(inputs, [empty(*shape)], {"axis": axis})


# -- matrices --------------------------------------------------------------------------------------


def convolution(pick: Pick, _: str) -> Task:
    """Feature maps in NC1HWC0 and a weight in FRACTAL_Z, with ragged blocks of positions."""
    kind = pick.half() if "float32" in pick.profile.cube.dtypes else np.float16
    lanes = 32 // np.dtype(kind).itemsize
    kernel, stride = pick.of(1, 3), pick.of(1, 2)
    slices, outs = pick.of(1, 2, 3), pick.of(1, 2)
    window = square(kernel, stride, kernel // 2, pick.of(1, 2))
    plane = pick.of(5, 13, 16), pick.of(5, 8, 17)
    across = window.positions(plane)
    x = pick.numbers(pick.of(1, 3), slices, *plane, lanes, kind=kind)
    weight = pick.numbers(slices * kernel**2, outs, 16, lanes, kind=kind)
    said = {"strides": [stride] * 2, "dilations": [*window.dilation], "pads": [*window.padding]}
    y = empty(len(x), outs * 16 // lanes, *across, lanes, kind=kind)
    return Task([x, weight], [y], said)


def volumes(pick: Pick, _: str) -> Task:
    """Some planes behind each other, of which windows see up to three."""
    deep, stride, before = pick.of((1, 2, 0), (3, 1, 1), (3, 2, 2), (2, 1, 0))
    planes, window = pick.of(3, 5), square(pick.of(1, 3), 1, 1)
    across = window.positions((6, 9))
    slices, outs = pick.of(1, 2), pick.of(1, 2)
    x = pick.numbers(pick.of(1, 2), planes, slices, 6, 9, 16, kind=np.float16)
    weight = pick.numbers(deep * slices * window.taps, outs, 16, 16, kind=np.float16)
    results = (planes + 2 * before - deep) // stride + 1
    y = empty(len(x), results, outs, *across, 16, kind=np.float16)
    said = {"ksize": [deep, *window.kernel], "strides": [stride, 1, 1]}
    return Task([x, weight], [y], said | {"pads": [before, before, 1, 1, 1, 1]})


def planes(pick: Pick, _: str) -> Task:
    """Images of a few channels, each with a factor and a shift."""
    channels = pick.of(3, 17)
    x = pick.numbers(pick.of(1, 2), channels, 5, pick.of(7, 9), kind=np.float16)
    rows = [pick.numbers(channels, kind=np.float16) for _ in range(2)]
    return Task([x, *rows], [np.zeros_like(x)])


def running(pick: Pick, _: str) -> Task:
    """Sums so far, along an axis with others around it or at either end."""
    x = pick.numbers(pick.of(1, 3), pick.of(1, 5), pick.of(1, 20), kind=np.float32)
    return Task([x], [np.zeros_like(x)], {"axis": pick.of(0, 1, 2)})


def pooled_volumes(pick: Pick, _: str) -> Task:
    """Windows side by side, some of them two planes deep."""
    deep = pick.of(1, 2)
    x = pick.numbers(pick.of(1, 2), 4, pick.of(1, 2), 6, 8, 16, kind=np.float16)
    y = empty(len(x), 4 // deep, x.shape[2], 3, 4, 16, kind=np.float16)
    said = {"ksize": [1, 1, deep, 2, 2], "strides": [1, 1, deep, 2, 2], "pads": [0] * 6}
    return Task([x], [y], said)


def matrices(pick: Pick, op_type: str) -> Task:
    m, k, n = (pick.of(2, 7, 16, 33, 100, 300) for _ in range(3))
    batch: Shape = (pick.of(1, 3),) if "Batch" in op_type else ()
    a, b = pick.numbers(*batch, m, k, kind=np.float16), pick.numbers(*batch, k, n, kind=np.float16)
    out = empty(*batch, m, n, kind=np.float16)
    _, _, fused = op_type.partition("MatMul_")
    sides = {"Add": 1, "AddN": 1, "Mul": 1, "FusedMulAdd": 0}.get(fused, int("Grad" in fused) * 2)
    tiles = [pick.numbers(*out.shape, kind=np.float16) for _ in range(sides)]
    return Task([a, b, *tiles], [out])


# -- kernels that only their operator calls --------------------------------------------------------


def group_norm_gradient(pick: Pick, _: str) -> Task:
    group = pick.of(1, 2, 4)
    sizes = (pick.of(1, 2, 3), group * pick.of(1, 3, 8), pick.of(1, 7, 64, 101, 1000), group)
    call = group_norm_call(*sizes, kind=pick.of("float32", "float16", "bfloat16"))
    inputs = [call[name] for name in ("gradOut", "input", "mean", "rstd", "gamma")]
    batch, channels, size, _ = sizes
    kind = inputs[0].dtype
    outputs = [empty(*inputs[0].shape, kind=kind), *(zeros(channels, kind=kind),) * 2]
    said = {"batch": batch, "channels": channels, "size": size, "group": group}
    names = {"grad_input": "y0", "grad_gamma": "y1", "grad_beta": "y2"}
    return Task(inputs, outputs, direct={**said, **names})


def box_gradient(pick: Pick, _: str) -> Task:
    height, width = pick.of(5, 9, 40), pick.of(7, 20)
    samples, bins, slices = pick.of(1, 2, 3), pick.of((1, 1), (2, 3), (7, 7)), pick.of(1, 2)
    boxes = pick.of(1, 5) if bins == (7, 7) else pick.of(1, 5, 40)  # a reference takes each sample
    call = roi_align(boxes, 16 * slices, (2, height, width), bins, scale=1.0)
    grad = call["gradOutput"].reshape(-1, slices, 16, *bins).transpose(0, 1, 3, 4, 2)
    inputs = [np.ascontiguousarray(grad), call["boxes"]]
    return Task(inputs, [zeros(2, slices, height, width, 16)], {"sample_num": samples})


def sampling_gradient(pick: Pick, _: str) -> Task:
    maps = pick.of([(5, 7)], [(8, 8), (3, 2)], [(1, 1), (16, 9)])
    batch, queries, heads = pick.of(1, 2), pick.of(1, 5, 40), pick.of(1, 2)
    channels, points = pick.of(8, 16, 32), pick.of(1, 2)
    call = deformable(
        maps, batch=batch, queries=queries, heads=heads, channels=channels, points=points
    )
    turned = {
        "location": (0, 2, 3, 4, 5, 1),
        "attnWeight": (0, 2, 3, 4, 1),
        "gradOutput": (0, 1, 2),
    }
    for name, order in turned.items():
        call[name] = np.ascontiguousarray(call[name].transpose(order))
    outputs = [zeros(*call[name].shape) for name in ("value", "location", "attnWeight")]
    sizes = Sizes(batch, call["value"].shape[1], heads, channels, queries, len(maps), points)
    return Task(
        list(call.values()), outputs, direct={"sizes": sizes, "given": None, "shares": None}
    )


def quantised(pick: Pick, op_type: str) -> Task:
    """Rows as int8, with what smooths or scales them."""
    rows, columns, kind = pick.shape(1, 2, 1500), pick.size(), pick.half()
    x, other = (pick.numbers(*rows, columns, kind=kind) for _ in range(2))
    lines = [pick.of(None, pick.positive(columns, kind=kind)) for _ in range(2)]
    y, scale = empty(*x.shape, kind=np.int8), empty(*rows)
    if op_type == "DynamicQuant":
        return Task([x, lines[0]], [y, scale])
    given = [x, other, pick.positive(columns, kind=kind)]
    if op_type == "AddRmsNormQuant":
        steps = [pick.positive(columns), pick.of(None, pick.positive(columns))]
        said = {"epsilon": 1e-5, "div_mode": pick.of(True, False)}
        return Task([*given, *steps, None, None], [y, y, empty(*x.shape, kind=kind)], said)
    return Task([*given, *lines], [y, y, empty(*x.shape, kind=kind), scale, scale])


def gated_quantised(pick: Pick, op_type: str) -> Task:
    """Halves of rows, of numbers or of a product's sums."""
    rows, half, kind = pick.shape(1, 2, 1500), pick.size(), pick.half()
    x = pick.numbers(*rows, 2 * half, kind=kind)
    smooth = pick.of(None, pick.positive(half))
    outputs = [empty(*rows, half, kind=np.int8), empty(*rows)]
    said = {"activate_left": pick.of(True, False), "quant_mode": pick.of("dynamic", "static")}
    if op_type == "SwiGluQuant":
        return Task([x, smooth, None], outputs, said)
    sums = (x * 100).astype(np.int32) if pick.of(True, False) else x
    scales = [pick.positive(2 * half) / 300, pick.positive(prod(rows))]
    bias = pick.of(None, pick.numbers(2 * half), pick.numbers(2 * half, kind=np.int32))
    if sums is x:
        scales, bias = [None, None], None
    return Task([sums, *scales, bias, smooth, None], outputs, said)


def by_scales(pick: Pick, op_type: str) -> Task:
    """A tensor, and a scale and an offset for each of its columns or for all."""
    shape, kind = pick.shape(1, 3), pick.half()
    one = pick.of(shape[-1:], (1,))
    scale, offset = pick.positive(*one, kind=kind), pick.of(None, pick.numbers(*one, kind=kind))
    if op_type == "AscendQuantV2":
        x = pick.numbers(*shape, kind=kind)
        return Task([x, scale, offset], [empty(*shape, kind=np.int8)])
    if op_type == "AscendAntiQuantV2":
        x = pick.numbers(*shape).astype(np.int8)
        scale, offset = scale.astype(np.float16), None
        return Task([x, scale, offset], [empty(*shape, kind=np.float16)])
    x = (pick.numbers(*shape) * 100).astype(np.int32)
    return Task([x, scale.astype(np.float32)], [empty(*shape, kind=np.float16)])


def quant_product(pick: Pick, op_type: str) -> Task:
    """int8 by int8, with scales of columns, perhaps of rows, and a bias."""
    m, n, k = pick.size(), pick.size(), pick.of(32, 64, 100, 130)
    a, b = ((pick.numbers(*shape) * 20).astype(np.int8) for shape in ((m, k), (k, n)))
    scale = pick.positive(pick.of(1, n)) / 100
    per_row = pick.of(None, pick.positive(m))
    bias = pick.of(None, pick.numbers(n).astype(np.int32))
    kind = np.float16 if pick.of(True, False) else BFLOAT16
    others = [per_row, bias] if op_type == "QuantMatmul" else [bias, per_row]
    return Task([a, b, scale, None, *others], [empty(m, n, kind=kind)])


def packed_scales(pick: Pick, op_type: str) -> Task:  # noqa: ARG001 - alike
    """Scales of columns into words, perhaps with offsets; one of them may be alone."""
    n = pick.of(1, 7, 300)
    offset = pick.of(None, pick.numbers(pick.of(1, n)))
    return Task([pick.positive(n), offset], [empty(n, kind=np.uint64)], {"round_mode": 0})


def attention_of_inference(pick: Pick, op_type: str) -> Task:
    """Tokens of two sequences, one behind the other; heads share those of keys."""
    group, queries, keys = pick.of(1, 4), pick.of(1, 2, 31), pick.size()
    kind, shared = (np.float16, 1) if op_type == "MLA" else (pick.of(np.float16, BFLOAT16), 2)
    q, rope = (pick.numbers(2, queries, shared * group, size, kind=kind) for size in (16, 8))
    k, v, beside = (pick.numbers(2, keys, shared, size, kind=kind) for size in (16, 16, 8))
    inputs = [q, rope, k, beside, v] if op_type == "MLA" else [q, k, v]
    return Task(inputs, [empty(*q.shape, kind=kind)], {"input_layout": "BSND", "scale_value": 0.3})


def attention_gradient(pick: Pick) -> Task:
    """Heads with the maxima and sums that their forward keeps."""
    number, queries, keys, columns = pick.of(1, 3), pick.size(), pick.size(), pick.of(8, 40)
    q, k, v, grad, out = (
        pick.numbers(1, number, size, columns, kind=np.float16)
        for size in (queries, keys, keys, queries, queries)
    )
    scores = q.astype(np.float32) @ k.astype(np.float32).swapaxes(-1, -2) * np.float32(0.2)
    top = scores.max(-1, keepdims=True)
    total = np.exp(scores - top).sum(-1, keepdims=True)
    stats = [np.broadcast_to(each, (1, number, queries, 8)) for each in (top, total)]
    given = {"head_num": number, "input_layout": "BNSD", "scale_value": 0.2}
    inputs = [q, k, v, grad, *[None] * 4, *stats, None, out]
    return Task(inputs, [empty(*each.shape, kind=np.float16) for each in (q, k, v)], given)


def attention(pick: Pick, op_type: str) -> Task:
    """Two or three heads of a few queries and keys, in the layout of the heads one by one."""
    if op_type == "FlashAttentionScoreGrad":
        return attention_gradient(pick)
    if op_type != "FlashAttentionScore":
        return attention_of_inference(pick, op_type)
    kind, batch, number = pick.of(np.float16, BFLOAT16), pick.of(1, 2), pick.of(2, 3)
    queries, keys, columns = pick.size(), pick.size(), pick.of(8, 16, 40)
    q, k, v = (
        pick.numbers(batch, number, size, columns, kind=kind) for size in (queries, keys, keys)
    )
    mask = pick.of(None, (pick.numbers(queries, keys) > 0).astype(np.uint8))
    stats = empty(batch, number, queries, 8)
    given = {"head_num": number, "input_layout": "BNSD", "scale_value": 0.2}
    return Task(
        [q, k, v, None, None, None, mask], [stats, stats, empty(*q.shape, kind=kind)], given
    )


def exchanged(pick: Pick, op_type: str) -> Task:
    """What four ranks bring together."""
    x = pick.numbers(8, pick.size(), kind=pick.half())
    rows = {"HcomAllGather": 32, "HcomReduceScatter": 2}.get(op_type, 8)
    return Task([x], [empty(rows, x.shape[1], kind=x.dtype)], {"rank_size": 4})


def proposals(pick: Pick, _: str) -> Task:
    """Boxes with scores, how many are wanted, and what they may overlap."""
    count = pick.of(1, 7, 20)
    boxes, scores = pick.positive(count, 4), pick.positive(count)
    numbers = [np.array(3, np.int32), np.array(0.4, np.float32), np.array(0.1, np.float32)]
    return Task([boxes, scores, *numbers], [np.zeros(3, np.int32)])


def paged_rows(pick: Pick, _: str) -> Task:
    """Tokens in any order into pages of four tokens, which may lie in fractals."""
    tokens, heads, mode = pick.of(1, 5, 12), pick.of(1, 3), pick.of("Norm", "PA_NZ")
    kind = pick.half()
    slots = np.random.default_rng(tokens).permutation(16)[:tokens].astype(np.int32)
    lanes = 32 // np.dtype(kind).itemsize
    key, value = (pick.numbers(tokens, heads, size, kind=kind) for size in (32, 16))
    keys, values = (
        np.zeros(
            (4, heads * size // lanes, 4, lanes) if mode == "PA_NZ" else (4, 4, heads, size), kind
        )
        for size in (32, 16)
    )
    return Task([key, keys, slots, value, values], [keys, values], {"cache_mode": mode})


def key_cache(pick: Pick, _: str) -> Task:
    """Latent keys into caches by sequence or in pages, some of them as int8; a token is skipped."""
    kind, mode = pick.half(), pick.of("Norm", "PA", "PA_NZ", "PA_BLK_BNSD", "PA_BLK_NZ")
    batch, length = pick.of((5, 1), (8, 1), (2, 19), (3, 2))
    bytes_ = mode != "Norm" and pick.of(True, False)
    kv = pick.numbers(batch, 1, length, 576, kind=kind)
    angles = [pick.numbers(batch, 1, pick.of(length, 1), 64, kind=kind)] * 2
    shape = (batch, 1, 40) if mode == "Norm" else (9, 32, 1)
    caches = [np.zeros((*shape, width), np.int8 if bytes_ else kind) for width in (64, 512)]
    index = np.random.default_rng(length).permutation(40)[: batch * length].astype(np.int64)
    if mode.startswith("PA_BLK"):
        index = np.arange(batch, dtype=np.int64)[::-1].copy() * 32
    index[-1] = -1
    scales = [pick.positive(width) if bytes_ else None for width in (64, 512)]
    said = {"cache_mode": mode, "is_output_kv": pick.of(True, False)}
    dense = [empty(batch, 1, length, width, kind=kind) for width in (64, 512)]
    gamma = pick.numbers(512, kind=kind)
    given = [kv, gamma, *angles, index, *caches, *scales, None, None]
    return Task(given, [*caches, *dense], said)


def grouped_product(pick: Pick, _: str) -> Task:
    """Rows in groups, some of them empty, each with a matrix of its own."""
    count, k, n, kind = (
        pick.of(1, 2, 5),
        pick.size(67),
        pick.size(),
        pick.of(np.float32, np.float16, np.int8),
    )
    lengths = [pick.of(0, 1, 7, 40) for _ in range(count)]
    lengths[-1] += 1
    ends = np.cumsum(lengths).astype(np.int64)
    if kind is np.int8:
        x, weight = (
            (pick.numbers(*shape) * 9).astype(kind) for shape in ((sum(lengths), k), (count, k, n))
        )
        scales = [pick.positive(count, n), *[None] * 3, ends, pick.of(None, pick.positive(len(x)))]
        return Task([x, weight, None, *scales], [empty(len(x), n, kind=np.float16)])
    x = pick.numbers(sum(lengths), k, kind=kind)
    weight = pick.numbers(count, k, n, kind=kind)
    bias = pick.of(None, pick.numbers(count, n, kind=kind))
    return Task([x, weight, bias, *[None] * 4, ends], [empty(len(x), n, kind=kind)])


def routed_back(pick: Pick, _: str) -> Task:
    """Tokens with rows of several experts, skips and biases."""
    tokens, count, width, kind = pick.size(40), pick.of(1, 2, 3, 4), pick.size(67), pick.half()
    rows = pick.numbers(tokens * count, width, kind=kind)
    first, bias = pick.numbers(tokens, width, kind=kind), pick.numbers(5, width, kind=kind)
    given = [rows, pick.once(tokens * count, tokens * count)]
    given += [first, pick.of(None, first), pick.of(None, bias)]
    given += [pick.numbers(tokens, count, kind=kind), pick.places((tokens, count), 5)]
    return Task(given, [empty(tokens, width, kind=kind)])


def routed_again(pick: Pick, _: str) -> Task:
    """Tokens of some ranks for some experts."""
    counts = pick.places((pick.of(1, 2, 3), pick.of(1, 4)), 9)
    counts[0, 0] += 1
    total, width = int(counts.sum()), pick.size(67)
    tokens, scales = pick.numbers(total, width, kind=pick.half()), pick.numbers(total)
    outputs = [empty(*tokens.shape, kind=tokens.dtype), empty(total)]
    outputs += [empty(total, kind=np.int32), empty(counts.shape[1], kind=np.int32)]
    return Task([tokens, counts, scales], outputs)


def widened_product(pick: Pick, op_type: str) -> Task:
    """Half types by int8, with scales and offsets of columns, and a bias."""
    m, n, k = pick.size(67), pick.size(), pick.size()
    if pick.of(False, True):  # whole blocks, of which a few rows are split into lines of bytes
        n, k = -n % 32 + n, -k % 32 + k
    kind = pick.of(np.float16, BFLOAT16)
    x, weight = pick.numbers(m, k, kind=kind), (pick.numbers(k, n) * 20).astype(np.int8)
    scale, offset = pick.positive(n, kind=kind), pick.of(None, pick.numbers(n, kind=kind))
    bias = pick.of(None, pick.numbers(n, kind=np.float32 if kind is BFLOAT16 else kind))
    others = [] if op_type == "WeightQuantBatchMatmul" else [None, None]
    return Task([x, weight, scale, offset, *others, bias], [empty(m, n, kind=kind)])


def of_language_models(pick: Pick, op_type: str) -> Task:
    """As the module of their kernels' tasks draws them."""
    return Task(*language_cases.CASES[op_type](pick))


def decomposed(pick: Pick, op_type: str) -> Task:
    """Matrices near the identity, which all algorithms take."""
    count, size = pick.size(3), pick.size(8)
    part = pick.numbers(count, size, size) / 8
    x = (part @ part.swapaxes(-1, -2) + np.eye(size)).astype(np.float32)
    if op_type == "FillDiagonal":
        return Task([x[0]], [np.zeros_like(x[0])])
    results = {
        "LogMatrixDeterminant": [empty(count), empty(count)],
        "MatrixDeterminant": [empty(count)],
        "Qr": [np.zeros_like(x), np.zeros_like(x)],
        "Svd": [empty(count, size), np.zeros_like(x), np.zeros_like(x)],
    }
    return Task([x], results.get(op_type, [np.zeros_like(x)]))


def searched(pick: Pick, op_type: str) -> Task:
    """Numbers counted, looked up, multiplied up."""
    shape = pick.shape()
    x = pick.numbers(*shape)
    if op_type == "Bincount":
        return Task([pick.places(shape, 9)], [empty(9, kind=np.int64)])
    if op_type == "SearchSorted":
        row = np.sort(pick.numbers(pick.size()))
        return Task([row, x], [empty(*shape, kind=np.int64)])
    return Task([x], [np.zeros_like(x)])


def of_images(pick: Pick, op_type: str) -> Task:
    """The same of vision models."""
    return Task(*vision_cases.CASES[op_type](pick))


FOLDERS: dict[str, Case] = {
    "loss": losses,
    "linear_algebra": decomposed,
    "search": searched,
    "attention": attention,
    "collective": exchanged,
    "detection": proposals,
    "reduction": reduction,
    "rotary": rotary,
    "softmax": softmax,
    "resize": resize,
    "pooling": pooling,
    "sorting": order,
    "grid_sample": grid_sample,
    "roi_align": boxes_align,
    "batch_norm_training": batch_norm,
    "matmul": matrices,
    "convolution": convolution,
    "group_norm": group_norm,
}


def filter_gradient(pick: Pick, op_type: str) -> Task:  # noqa: ARG001 - alike
    """Images and the gradient of what they became to the gradient of weights."""
    x, weight, dy, window = convolution_cases.drawn(pick)
    dw = convolution_cases.stored_weight(np.zeros(weight.shape, np.float32), x)
    inputs = [convolution_cases.stored(x), convolution_cases.stored(dy)]
    return Task(inputs, [dw], convolution_cases.attributes(window))


def normalised_gradient(pick: Pick, op_type: str) -> Task:  # noqa: ARG001 - alike
    """Images and gradients of what they became, normalised, to gradients before and of weights."""
    x, weight, dy, window = convolution_cases.drawn(pick, half=True)
    like = convolution_cases.stored(dy)
    channels = (1, like.shape[1], 1, 1, like.shape[-1])
    statistics = [pick.positive(*channels) for _ in range(5)]
    inputs = [convolution_cases.stored(x), *(pick.numbers(*like.shape, kind=np.float16),) * 2]
    dw = convolution_cases.stored_weight(np.zeros(weight.shape, np.float32), x)
    said = convolution_cases.attributes(window)
    return Task([*inputs, *statistics], [np.zeros_like(like), dw], said)


def input_gradient(pick: Pick, op_type: str) -> Task:
    """The gradient of what images became to that of images, perhaps summed and masked."""
    fused = op_type.startswith("FusionOp")
    x, weight, dy, window = convolution_cases.drawn(pick, reaching=True, half=fused)
    inputs = [convolution_cases.stored(dy), convolution_cases.stored_weight(weight, x)]
    like = convolution_cases.stored(x)
    if "AddN" in op_type:
        inputs.append(pick.numbers(*like.shape, kind=like.dtype))
    if fused:
        inputs.append(pick.bytes(like.size // 8).reshape(*like.shape[:4], 2))
    return Task(inputs, [np.zeros_like(like)], convolution_cases.attributes(window))


def mean_gradient(pick: Pick, op_type: str) -> Task:  # noqa: ARG001 - alike
    """Gradients of means, one over the elements of their windows, and weights of every slice."""
    kernel, stride = pick.of(2, 3), pick.of(1, 2)
    plane = pick.of(3, 5, 20), pick.of(4, 7)
    images, slices = pick.of(1, 2, 5), pick.of(1, 3)
    outs = [(size - kernel) // stride + 1 for size in plane]
    grads = pick.numbers(images, slices, *outs, 16, kind=np.float16)
    weight = pick.numbers(slices, kernel, kernel, 1, 16, 16, kind=np.float16)
    dx = np.zeros((images, slices, *plane, 16), np.float16)
    said = {"strides": [stride] * 2, "pads": [0] * 4}
    return Task([grads, np.abs(grads), weight], [dx], said)


CASES: dict[str, Case] = {
    "Conv3D": volumes,
    **dict.fromkeys(("Cumsum", "CumsumD"), running),
    "InstanceNorm": planes,
    **dict.fromkeys(("INTrainingReduceV2", "INTrainingUpdateV2"), blocked_instances),
    "MaxPool3D": pooled_volumes,
    "FusedDbnDw": normalised_gradient,
    **dict.fromkeys(
        (
            "Conv2DBackpropInput",
            "Conv2DBackpropInputD",
            "Conv2DTranspose",
            "Conv2DTransposeD",
            "Deconvolution",
            "FusionOp_Conv2DBackpropInput_ReluGradV2",
            "FusionOp_Conv2DBackpropInput_AddN_ReluGradV2",
        ),
        input_gradient,
    ),
    **dict.fromkeys(("Conv2DBackpropFilter", "Conv2DBackpropFilterD"), filter_gradient),
    **dict.fromkeys(("AvgPoolGradVm", "AvgPoolGradD"), mean_gradient),
    **dict.fromkeys(("MaximumGrad", "MinimumGrad"), two_gradients),
    "LambApplyOptimizerAssign": lamb_update,
    "ApplyAdamW": adam_w,
    **dict.fromkeys(
        ("FusionOp_Mul_Neg", "FusionOp_RealDiv_Neg", "AutomaticBufferFusionOp"), negated
    ),
    **dict.fromkeys(("Tril", "Triu"), triangle),
    **dict.fromkeys(("ReverseV2", "Roll"), rolled),
    **dict.fromkeys(("Invert", "LeftShift", "RightShift"), bits),
    "TensorMove": one_to_one,
    "Exp": exponent,
    "Assign": assign,
    **dict.fromkeys(("Fill", "OnesLike", "ZerosLike", "MemSet", "AtomicAddrClean"), fill),
    "Range": progression,
    **dict.fromkeys(("NPUAllocFloatStatus", "NPUClearFloatStatus", "NPUGetFloatStatus"), flags),
    **dict.fromkeys(("DropOutDoMask", "DropoutDoMask", "ReluGradV2"), dropout),
    "MaskedScale": masked_scale,
    **dict.fromkeys(("CrossEntropyLoss", "NLLLoss"), likelihood),
    "SoftmaxCrossEntropyWithLogits": soft_labels,
    **dict.fromkeys(("GeGluV2", "SwiGlu", "SwiGluGrad"), gated),
    "BinaryCrossEntropyGrad": cross_entropy_gradient,
    **dict.fromkeys(("Transpose", "TransposeD", "TransposeNOD"), transpose),
    "ConfusionTransposeD": heads,
    **dict.fromkeys(("AsStrided", "ViewCopy"), view_copy),
    **dict.fromkeys(("Slice", "SliceD", "StridedSlice", "StridedSliceD"), part),
    **dict.fromkeys(("Concat", "ConcatD", "ConcatV2", "ConcatV2D"), join),
    **dict.fromkeys(("Split", "SplitD", "SplitV", "SplitVD"), split),
    **dict.fromkeys(("Pack", "Unpack"), stack),
    **dict.fromkeys(("Pad", "PadD", "PadV3", "StridedSliceGrad"), pad),
    **dict.fromkeys(("BroadcastTo", "BroadcastToD", "Expand", "ExpandD", "Tile", "TileD"), repeat),
    "TransData": trans_data,
    "LinSpace": even_steps,
    **dict.fromkeys(("FakeQuantAffineCachemask", "Modulate", "Quantize", "Scale"), along_axis),
    **dict.fromkeys(("ForeachNorm", "LpNormReduceV2", "LpNormUpdateV2", "LpNormV2"), norms),
    **dict.fromkeys(("ReduceStdV2Update", "ReduceStdWithMean"), spread),
    "Renorm": renorm,
    "SoftmaxGradExt": scaled_softmax_gradient,
    **dict.fromkeys(("LayerNorm", "LayerNormV3"), layer_norm),
    **dict.fromkeys(("LayerNormXBackpropV2", "LayerNormXBackpropV3"), layer_norm_gradient),
    "LayerNormGradV3": layer_norm_gradients,
    "LayerNormV4": layer_norm_by_hand,
    "LayerNormBetaGammaBackpropV2": layer_norm_parameters,
    **dict.fromkeys(("RmsNorm", "AddRmsNorm", "AddRmsNormBias", "InplaceAddRmsNorm"), rms_norm),
    "RmsNormGrad": rms_norm_gradient,
    **dict.fromkeys(("DynamicQuant", "AddRmsNormDynamicQuant", "AddRmsNormQuant"), quantised),
    **dict.fromkeys(("SwiGluQuant", "DequantSwigluQuant"), gated_quantised),
    **dict.fromkeys(("AscendQuantV2", "AscendAntiQuantV2", "AscendDequant"), by_scales),
    "UpsampleNearestExact2dGrad": upsample_gradient,
    **dict.fromkeys(("Gather", "GatherV2", "GatherV3", "GatherNd", "Embedding"), gather),
    **dict.fromkeys(("GatherV2D",), gather),
    **dict.fromkeys(("GatherElements", "GatherElementsV2", "Scatter"), elements),
    **dict.fromkeys(("ScatterElements", "ScatterElementsV2"), elements),
    **dict.fromkeys(("Index", "IndexPut", "IndexPutV2"), by_lists),
    "InplaceScatterAdd": scatter,
    "IndexFill": filled_rows,
    **dict.fromkeys(("ScatterUpdate", "ScatterNdUpdate", "ScatterAdd", "ScatterNdAdd"), scatter),
    **dict.fromkeys(("InplaceIndexAdd", "IndexAdd", "IndexAdd (torch.index_add)"), index_add),
    "InplaceIndexAddWithSorted": sorted_rows,
    **dict.fromkeys(("CTCLossV3", "CTCLossV3Grad"), aligned),
    **dict.fromkeys(("UnsortedSegmentSum", "UnsortedSegmentSumD"), segments),
    **dict.fromkeys(("OneHot", "OneHotD"), one_hot),
    "GroupNormGrad": group_norm_gradient,
    "ROIAlignGrad": box_gradient,
    "MultiScaleDeformableAttentionGrad": sampling_gradient,
    "ScatterPaKvCache": paged_rows,
    "KvRmsNormRopeCache": key_cache,
    "GroupedMatmul": grouped_product,
    **dict.fromkeys(("WeightQuantBatchMatmul", "WeightQuantBatchMatmulV2"), widened_product),
    "MoeReRouting": routed_again,
    **dict.fromkeys(row_cases.NORMS, partial(row_cases.norm, task=Task)),
    **dict.fromkeys(row_cases.STANDING_FOR_ALL, partial(row_cases.streamed, task=Task)),
    **dict.fromkeys(language_cases.CASES, of_language_models),
    **dict.fromkeys(vision_cases.CASES, of_images),
    **dict.fromkeys(("MoeFinalizeRouting", "MoeFinalizeRoutingV2"), routed_back),
    **dict.fromkeys(("QuantMatmul", "QuantBatchMatmulV3"), quant_product),
    "TransQuantParamV2": packed_scales,
}

_SPLIT = ("Ascend910B3",)
_FUSING = ("Ascend910A", "Ascend310P3")
_FUSED_ON_THE_WAY = (
    "FusionOp_MatMul", "FusionOp_BatchMatMul", "FusionOp_Conv2DBackprop", "FusedDbnDw",
    "AvgPoolGrad",
)  # fmt: skip


def chips_of(op_type: str) -> tuple[str, ...]:
    """The chips that have a kernel of the operator type."""
    if op_type.startswith(_FUSED_ON_THE_WAY):
        return _FUSING
    if band_class(op_type) == "attention" or op_type in {
        *("GridSampler2D", "GridSampler3D", "GridSampler2DGrad", "GridSampler3DGrad"),
        *("CTCLossV3", "CTCLossV3Grad"),
        "UpsampleNearestExact2dGrad",
        "ResizeBilinear",
        "GroupNormGrad",
        "MultiScaleDeformableAttentionGrad",
        "ApplyRotaryPosEmb",
        "CrossEntropyLoss",
        "ForeachNorm",
        "NLLLoss",
        "RotaryMul",
        "RotaryPositionEmbedding",
        "RotaryPositionEmbeddingGrad",
        "GroupedMatmul",
        "KvRmsNormRopeCache",
        "MoeReRouting",
        *language_cases.CASES,
        "WeightQuantBatchMatmul",
        "WeightQuantBatchMatmulV2",
        "QuantMatmul",
        "QuantBatchMatmulV3",
    }:
        return _SPLIT
    return CHIPS
