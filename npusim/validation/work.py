"""The work of an operator, by its family: a table of formulas over shapes and attributes.

Where a record leaves something open (a layout, a window, the filled length of a cache), the formula
takes the reading with more work: what isn't simulated mustn't look cheap.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from math import ceil, isfinite, log2, prod, sqrt
from typing import TYPE_CHECKING, NamedTuple

from npusim.values.formats import Format

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from npusim.operators.tasks import TaskSpec
    from npusim.values.tensors import TensorSpec

_BLOCK = 16  # rows and columns of a fractal, to which the cube fills up a group's channels
_BACKWARD = 2.5
"""Five products in the gradient of attention (P again, dP, dQ, dK, dV), two in the forward."""


@dataclass(frozen=True)
class Work:
    """What a task has to do at least.

    `cube` are operations of the matrix unit (two per multiply-add) on `dtype`, `lanes` elements
    that pass the vector unit once, and `steps` things that can't start before the one before them
    has come back from memory. `nbytes` are set where a task doesn't touch all of its tensors.
    """

    cube: float = 0.0
    lanes: float = 0.0
    steps: float = 0.0
    nbytes: float | None = None


class Family(NamedTuple):
    """Operator types by what their names contain (a regular expression), and their work."""

    name: str
    pattern: str
    work: Callable[[View], Work]


class View:
    """A task as the formulas ask for it; absent inputs are left out."""

    def __init__(self, task: TaskSpec) -> None:
        self.op = task.op_type
        self.inputs = [spec for spec in task.inputs if spec is not None]
        self.outputs = list(task.outputs)
        self._attributes = {_plain(name): value for name, value in task.attributes.items()}

    def attribute(self, *names: str) -> object:
        """The first of these attributes that is known; case and underscores don't count."""
        known = (self._attributes.get(_plain(name)) for name in names)
        return next((value for value in known if value is not None), None)

    def number(self, *names: str, default: float) -> float:
        """An attribute that is a number."""
        value = self.attribute(*names)
        return float(value) if isinstance(value, int | float) and isfinite(value) else default

    def flag(self, *names: str) -> bool:
        """An attribute that is a truth value."""
        return self.attribute(*names) in (True, 1, "true", "True")

    def sizes(self, *names: str) -> list[int]:
        """An attribute that is a list of sizes; a number is a list of one."""
        value = self.attribute(*names)
        listed = value if isinstance(value, list | tuple) else [value]
        return [int(each) for each in listed if isinstance(each, int) and each > 0]

    @cached_property
    def lanes(self) -> float:
        """Elements of the largest side: what an operator touches at least once."""
        return max(sum(spec.numel for spec in side) for side in (self.inputs, self.outputs))


def work_of(task: TaskSpec) -> tuple[str, Work]:
    """The family of an operator and the work of one call; of an unknown kind, once each element."""
    view = View(task)
    family = _family(task.op_type)
    try:
        return family.name, family.work(view)
    except (ArithmeticError, LookupError, StopIteration, TypeError, ValueError):
        return family.name, Work(lanes=view.lanes)  # tensors that are no call of the operator


def family_of(op: str) -> str:
    """The family of an operator type or aclnn name, ``other`` where no name matches."""
    return _family(op).name


def _family(op: str) -> Family:
    return next((each for each in FAMILIES if re.search(each.pattern, op, re.IGNORECASE)), _OTHER)


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def _each_once(view: View) -> Work:
    return Work(lanes=view.lanes)


# Attention


def _attention(view: View) -> Work:
    """QK^T and PV for every query that sees a key, and the softmax between them."""
    query, key = view.inputs[0], _key(view)
    value = next(
        (spec for spec in view.inputs[view.inputs.index(key, 1) + 1 :]
         if spec.shape[:-1] == key.shape[:-1]), key)  # fmt: skip
    keys = _keys_seen(view, query, key)
    scale = _BACKWARD if "grad" in view.op.lower() else 1.0
    width = query.shape[-1]
    heads = _heads(view, query) if query.rank == 3 else 1
    grouped = key.rank == 3 and key.shape[-1] < width
    both = width + (width if grouped else value.shape[-1])
    queries = query.numel / width
    every = sum(spec.nbytes for spec in (*view.inputs, *view.outputs))
    chosen = queries * keys * both * key.dtype.itemsize if _is_sparse(view) else every
    return Work(
        cube=2 * queries * keys * both * scale,
        lanes=queries * heads * keys * scale,
        nbytes=min(every, query.nbytes + chosen),
    )


def _is_sparse(view: View) -> bool:
    return "sparse" in view.op.lower()


def _key(view: View) -> TensorSpec:
    query = view.inputs[0]
    alike = [spec for spec in view.inputs[1:] if spec.rank == query.rank]
    return next((spec for spec in alike if spec.shape[-1] == query.shape[-1]), alike[0])


def _keys_seen(view: View, query: TensorSpec, key: TensorSpec) -> float:
    """How many keys a query sees on average: masked blocks are left out, chosen ones counted."""
    axis = _sequence_axis(view, query, key)
    length = float(key.shape[axis])
    if _is_sparse(view):
        chosen = [spec for spec in view.inputs[1:] if spec.dtype.name.startswith("INT")]
        blocks = view.number("sparse_block_size", default=1)
        length = min([length, *(spec.shape[-1] * blocks for spec in chosen if spec.rank > 2)])
    causal = view.flag("is_causal", "causal") or view.number("sparse_mode", default=0) in (2, 3)
    if causal and 1 < query.shape[axis] <= length:
        length -= (query.shape[axis] - 1) / 2
    band = view.number("pre_tokens", "pre_tockens", default=length) + view.number(
        "next_tokens", "next_tockens", default=length
    )
    return (
        min(length, max(1.0, band)) if view.number("sparse_mode", default=0) in (0, 4) else length
    )


def _sequence_axis(view: View, query: TensorSpec, key: TensorSpec) -> int:
    """By the layout that the call names; else the axis where only keys are many, or the longer."""
    layout = str(view.attribute("input_layout", "layout") or "").upper().partition("_")[0]
    if len(layout) == query.rank and layout.isalpha():
        return layout.find("S") if "S" in layout else max(0, layout.find("T"))
    axes = range(1, query.rank - 1) if query.rank > 3 else range(query.rank - 1)
    return max(axes, key=lambda axis: (key.shape[axis] > query.shape[axis], key.shape[axis]))


def _heads(view: View, query: TensorSpec) -> float:
    """Heads that share the last axis; unknown, as many as make them 64 wide."""
    known = view.number("head_num", "num_heads", "n_heads", default=0)
    return known or max(1, query.shape[-1] // 64)


def _prolog(view: View) -> Work:
    """Every token times every weight matrix."""
    weights = sum(spec.numel for spec in view.inputs[1:] if spec.rank >= 2 and spec.shape[0] > 16)
    tokens = view.inputs[0].numel / view.inputs[0].shape[-1]
    return Work(cube=2 * tokens * weights, lanes=view.lanes)


# Products


def _product(view: View) -> Work:
    """2 m n k for each matrix of the batch: of two factors and the product, or of the factors."""
    first, second = view.inputs[:2]
    a, b = _matrix(first), _matrix(second)
    batch = max(first.numel / a, second.numel / b)
    if view.outputs and view.outputs[0].rank > 1:
        c = _matrix(view.outputs[0])
        return Work(cube=2 * batch * sqrt(a * b * c), lanes=view.outputs[0].numel)
    k = next((size for size in reversed(first.shape[-2:]) if size in second.shape[-2:]), 1)
    return Work(cube=2 * batch * a * b / k, lanes=batch * a * b / k**2)


def _matrix(spec: TensorSpec) -> int:
    """Elements of one matrix: the last two axes, or the four of a fractal format."""
    return prod(spec.shape[-4 if spec.format is Format.FRACTAL_NZ else -2 :])


def _grouped_product(view: View) -> Work:
    """Every row times the weights of its own group: 2 m n k as if there were one group."""
    wide = [spec for spec in view.inputs if spec.rank >= 3]
    flat = [spec for spec in view.inputs if spec.rank == 2]
    half = len(flat) // 2
    rows, weights = (flat[:1], wide[:1]) if wide else (flat[:half], flat[half : 2 * half])
    groups = sum(spec.shape[0] if spec.rank >= 3 else 1 for spec in weights)
    per_row = sum(spec.numel for spec in weights) / groups
    count = sum(spec.shape[0] for spec in rows)
    return Work(cube=2 * count * per_row, lanes=count * per_row / rows[0].shape[-1])


# Convolution


def _convolution(view: View) -> Work:
    """One product for each output element and weight of its channel; channels fill up fractals."""
    features, weights = view.inputs[:2]
    rows = view.outputs[0].numel if view.outputs else _plane(view, features, weights)
    return Work(cube=2 * rows * _per_channel(weights), lanes=rows)


def _plane(view: View, features: TensorSpec, weights: TensorSpec) -> float:
    """Output elements where the record has no outputs."""
    dims = features.rank - 2 if features.format is not Format.NC1HWC0 else 2
    strides = view.sizes("stride", "strides")[-dims:] or [1]
    step = prod(strides) if len(strides) == dims else strides[0] ** dims
    return features.shape[0] * weights.shape[0] * prod(features.shape[-dims:]) / step


def _per_channel(weights: TensorSpec) -> float:
    """Products behind one output element: FRACTAL_Z rows, or a channel's weights in fractals."""
    shape = weights.shape
    if _is_filter(weights):
        return shape[0] * shape[-1]
    channels, window = (1, shape[1:]) if len(shape) == 3 else (shape[1], shape[2:])
    return ceil(channels / _BLOCK) * _BLOCK * prod(window)


def _to_features(view: View) -> Work:
    """As many products as the stretched gradient has: a stride puts zeros between its elements."""
    first, second = [spec for spec in view.inputs if spec.rank > 2][:2]
    is_first = _is_filter(first) or (
        not _is_filter(second) and prod(first.shape[2:]) < prod(second.shape[2:])
    )
    weights, grad = (first, second) if is_first else (second, first)
    if not view.outputs:
        return Work(cube=2 * grad.numel * _per_channel(weights), lanes=grad.numel)
    features = view.outputs[0]
    if _is_filter(weights):
        taps = max(1.0, weights.shape[0] / features.shape[1])
        behind = weights.numel / (weights.shape[0] * weights.shape[-1]) * taps
    else:
        behind = weights.numel / weights.shape[1]
    return Work(cube=2 * features.numel * behind, lanes=features.numel)


def _is_filter(spec: TensorSpec) -> bool:
    return spec.format is Format.FRACTAL_Z or (spec.rank == 4 and spec.shape[2] == _BLOCK)


def _to_weights(view: View) -> Work:
    """Every element of the gradient times the window of features that it came from."""
    listed = view.sizes("filter_size", "filterSize")
    gradient = view.outputs[-1] if view.outputs else None
    blocks = gradient is not None and _is_filter(gradient)
    shape: Sequence[int] = listed or (gradient.shape if gradient else ())
    channels = shape[1] if blocks else shape[0]
    grad = next((each for each in view.inputs if each.shape[1] == channels), view.inputs[0])
    own = shape[0] * shape[-1] if blocks else ceil(shape[1] / _BLOCK) * _BLOCK * prod(shape[2:])
    return Work(cube=2 * grad.numel * own, lanes=grad.numel)


def _both_gradients(view: View) -> Work:
    """The gradients of features and of weights, each as many products as the forward."""
    grad, _, weights = view.inputs[:3]
    return Work(cube=4 * grad.numel * _per_channel(weights), lanes=view.lanes)


# Windows, samples, orders, chains


def _pooling(view: View) -> Work:
    """Every element of the pooled plane looks at its window."""
    planes = sorted(spec.numel for spec in (*view.inputs[:2], *view.outputs[:1]))
    window = prod(view.sizes("ksize", "kernel_size", "kernel")) or 1
    if window == 1:
        masks = [spec for spec in (*view.inputs[1:], *view.outputs[1:])
                 if spec.rank >= 5 and "INT16" in spec.dtype.name]  # fmt: skip
        window = prod(masks[0].shape[2:-2]) if masks else 1
    pooled = min(sum(spec.numel for spec in side[:1]) or planes[-1]
                 for side in (view.inputs, view.outputs))  # fmt: skip
    return Work(lanes=max(view.lanes, pooled * window))


def _samples(view: View) -> Work:
    """Every sampled point gathers its neighbours: four in a plane, eight in a volume."""
    features, places = view.inputs[:2]
    channels = features.shape[1]
    corners = 8 if features.rank == 5 else 4
    if places.rank > 2:
        return Work(lanes=channels * places.numel / places.shape[-1] * corners)
    ratio = view.number("sampling_ratio", "sample_num", default=2) or 2
    cells = view.number("output_height", "pooled_height", default=7) * view.number(
        "output_width", "pooled_width", default=7
    )
    points = view.outputs[0].numel if view.outputs else places.shape[0] * channels * cells
    return Work(lanes=points * ratio**2 * corners)


def _sorting(view: View) -> Work:
    """n log n of each row."""
    shape = view.inputs[0].shape or (1,)
    row = shape[int(view.number("dim", "axis", default=-1))]
    return Work(lanes=view.inputs[0].numel * max(1.0, log2(max(2, row))))


def _scan(view: View) -> Work:
    """One step after the other along the axis."""
    shape = view.inputs[0].shape or (1,)
    return Work(lanes=view.lanes, steps=shape[int(view.number("dim", "axis", default=-1))])


def _recurrent(view: View) -> Work:
    """Every step of a sequence waits for the one before it, in every layer and direction."""
    sequence = view.inputs[0].shape
    weights = sum(spec.numel for spec in view.inputs[1:] if spec.rank == 2)
    turns = view.number("num_layers", default=1) * (1 + view.flag("bidirectional"))
    tokens = prod(sequence[:-1])
    length = sequence[1 if view.flag("batch_first") else 0]
    return Work(cube=2 * tokens * weights, lanes=4 * tokens * sequence[-1], steps=length * turns)


# Rows and elements at places that indices name


def _taken(view: View) -> Work:
    """What comes out is read and written, and the indices are read; not the rest of the table."""
    if not view.outputs:
        return _each_once(view)
    rest = sum(spec.nbytes for spec in view.inputs[1:])
    out = sum(spec.nbytes for spec in view.outputs)
    whole = sum(spec.nbytes for spec in view.inputs)
    lanes = sum(spec.numel for spec in view.outputs)
    return Work(lanes=lanes, nbytes=min(whole, out + rest) + out)


def _put_in_place(view: View) -> Work:
    """What is put is read and written, and the indices are read; not the rest of the table.

    Tables are the inputs that come out again; where a record has no outputs, the first input.
    """
    tables = {spec.shape for spec in view.outputs} or {view.inputs[0].shape}
    rest = [spec for spec in view.inputs if spec.shape not in tables]
    if not rest:
        return _each_once(view)
    return Work(lanes=sum(s.numel for s in rest), nbytes=2.0 * sum(s.nbytes for s in rest))


FAMILIES = (
    Family("prolog", r"mlaprolog", _prolog),
    Family("attention", r"attention|flash|^(MHA|GQA|MLA)$", _attention),
    Family("grouped matmul", r"grouped_?mat_?mul|^gmm|ffn", _grouped_product),
    Family("quantised matmul", r"quant\w*mat_?mul|mat_?mul\w*quant", _product),
    Family("matmul", r"mat_?mul|gemm|addmm|bmm", _product),
    Family("convolution to weights", r"(conv|depthwise)\w*filter|dbndw", _to_weights),
    Family("convolution to features", r"conv\w*input|conv\w*transpose|deconv", _to_features),
    Family("convolution gradients", r"convolutionbackward", _both_gradients),
    Family("depthwise convolution", r"depthwise", _convolution),
    Family("convolution", r"conv[123]d|convolution", _convolution),
    Family("pooling with mask", r"pool\w*argmax", _pooling),
    Family("pooling", r"pool", _pooling),
    Family("sampling", r"gridsample|roialign|roi_align|deformable", _samples),
    Family("scan", r"^(aclnn)?(inplace)?cum|logcumsum", _scan),
    Family(
        "indexing in place",
        r"^(indexput|inplace(put|scatter|index(add|copy)|update)|"
        r"scatter(?!(elements|nd)$))|^aclnn(indexput|inplace(put|scatter|indexcopy)|"
        r"scatter(ndupdate|pa)|tfscatter)|updatescatter",
        _put_in_place,
    ),
    Family("indexing", r"^(aclnn)?(gather|index(select)?$|take|embedding$)", _taken),
    Family("unique", r"unique|nonzero", _sorting),
    Family("sorting", r"sort|topk|top_k", _sorting),
    Family("recurrent", r"lstm|gru|rnn", _recurrent),
    Family("extremes", r"argmax|argmin|max_?dim|min_?dim", _each_once),
    Family("normalisation", r"norm", _each_once),
    Family("routing", r"moe", _each_once),
    Family("quantisation", r"quant", _each_once),
    Family("rotary", r"rotary|rope", _each_once),
    Family("loss", r"crossentropy|nllloss", _each_once),
    Family("integer steps", r"gcd|lcm", _each_once),
    Family("random", r"random|dropout|bernoulli|bitmask", _each_once),
)
_OTHER = Family("other", r"", _each_once)
