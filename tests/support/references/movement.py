"""References of what moves numbers about: parts, joins, repetitions, pads, places by index."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from support.references.activations import gradient
from support.references.row import Draw, Fill, Row, coarse, dtypes_of, torch

Array = np.ndarray[Any, Any]
FEW = (1, 2, 3, 5, 7)


def index(d: Draw, name: str, shape: Sequence[int], size: int, *, low: int = 0) -> Array:
    """Places in an axis of so many."""
    kind = d.one_of(*(dtypes_of(d.api, name, d.family) or ("INT64",)))
    fill: Fill = lambda rng, sizes: rng.integers(low, max(size, 1), sizes)  # noqa: E731
    return d.tensor(name, shape, fill, kind=kind)


def places(d: Draw, name: str, count: int, size: int) -> Array:
    """As many different places in an axis."""
    kind = d.one_of(*(dtypes_of(d.api, name, d.family) or ("INT64",)))
    return d.tensor(name, (count,), lambda rng, _: rng.permutation(size)[:count], kind=kind)


def some(d: Draw, low: int = 1, high: int = 5) -> tuple[int, ...]:
    """A shape of a few elements along every axis."""
    return d.shape(low, high, FEW)


def _joined(d: Draw) -> Mapping[str, Any]:
    shape = list(some(d))
    dim = d.axis(len(shape))
    parts = []
    for _ in range(d.whole(1, 4)):
        shape[dim] = d.one_of(1, 2, 5, 16)
        parts.append(d.tensor("tensors", shape))
    return {"tensors": parts, "dim": dim}


def _stacked(d: Draw) -> Mapping[str, Any]:
    shape = d.shape(0, 5, FEW) if d.api != "aclnnStack" else some(d)
    rank = len(shape) + 1
    parts = [d.tensor("tensors", shape) for _ in range(d.whole(1, 4))]
    return {"tensors": parts, "dim": d.whole(-rank, rank - 1)}


def _split(d: Draw) -> Mapping[str, Any]:
    shape = list(some(d))
    dim, size, count = d.axis(len(shape)), d.whole(1, 4), d.whole(1, 4)
    shape[dim] = size * count
    return {"self": d.tensor("self", shape), "splitSections": size, "dim": dim}


def _split_sizes(d: Draw) -> Mapping[str, Any]:
    shape = list(some(d))
    dim = d.axis(len(shape))
    sizes = [d.whole(1, 4) for _ in range(d.whole(1, 4))]
    shape[dim] = sum(sizes)
    return {"self": d.tensor("self", shape), "splitSize": sizes, "dim": dim}


def _cut(x: Array, sizes: Any, dim: int) -> Any:
    step = [sizes] * (x.shape[dim] // sizes) if isinstance(sizes, int) else sizes
    return (np.split(x, np.cumsum(step)[:-1], dim),)


def _expanded(d: Draw) -> Mapping[str, Any]:
    shape = d.shape(0, 4, (1, 1, 3, 5))
    size = [d.whole(1, 4) if each == 1 else each for each in shape]
    return {
        "self": d.tensor("self", shape),
        "size": [d.whole(1, 3) for _ in range(d.whole(0, 2))] + size,
    }


def _repeated(d: Draw) -> Mapping[str, Any]:
    shape = d.shape(0, 4, FEW)
    repeats = [d.whole(1, 3) for _ in range(len(shape) + d.whole(0, 2))]
    return {"self": d.tensor("self", shape), "repeats": repeats}


def _interleaved(d: Draw) -> Mapping[str, Any]:
    x, repeats = d.tensor("self", some(d)), d.whole(1, 4)
    return {"self": x, "repeats": repeats, "outputSize": x.size * repeats}


def _interleaved_along(d: Draw) -> Mapping[str, Any]:
    x, repeats = d.tensor("self", some(d)), d.whole(1, 4)
    dim = d.axis(x.ndim)
    return {"self": x, "repeats": repeats, "dim": dim, "outputSize": x.shape[dim] * repeats}


def _permuted(d: Draw) -> Mapping[str, Any]:
    shape = d.shape(0, 6, FEW)
    order = [int(each) for each in d.rng.permutation(len(shape))]
    return {"self": d.tensor("self", shape), "dims": order}


def _flipped(d: Draw) -> Mapping[str, Any]:
    shape = some(d)
    return {"self": d.tensor("self", shape), "dims": d.axes(len(shape))}


def _rolled(d: Draw) -> Mapping[str, Any]:
    shape = some(d)
    dims = d.axes(len(shape))
    shifts = [d.whole(-4, 4) for _ in dims or (0,)]
    return {"x": d.tensor("x", shape), "shifts": shifts, "dims": dims}


def _flattened(d: Draw) -> Mapping[str, Any]:
    shape = d.shape(2, 6, FEW)
    return {"self": d.tensor("self", shape), "axis": d.whole(0, len(shape) - 1)}


def _sliced(d: Draw) -> Mapping[str, Any]:
    shape = some(d)
    x, dim = d.tensor("self", shape), d.axis(len(shape))
    start = d.whole(0, shape[dim] - 1)
    return {
        "self": x,
        "dim": dim,
        "start": start,
        "end": d.whole(start + 1, shape[dim]),
        "step": d.whole(1, 3),
    }


def _slice(x: Array, dim: int, start: int, end: int, step: int) -> Any:
    return np.moveaxis(np.moveaxis(x, dim, 0)[start:end:step], 0, dim)


def _sliced_along(d: Draw) -> Mapping[str, Any]:
    made = dict(_sliced(d))
    return {
        "self": made["self"],
        "starts": [made["start"]],
        "ends": [made["end"]],
        "axes": [made["dim"]],
        "steps": [made["step"]],
    }


def _triangle(d: Draw) -> Mapping[str, Any]:
    name = "selfRef" if "Inplace" in d.api else "self"
    shape = (*d.shape(0, 3, FEW), d.one_of(*FEW), d.one_of(*FEW))
    return {name: d.tensor(name, shape), "diagonal": d.whole(-3, 3)}


def _diagonal(d: Draw) -> Mapping[str, Any]:
    shape = some(d, 1, 2 if d.api == "aclnnDiag" else 4)
    reach = max(shape) - 1 if len(shape) == 2 and d.api == "aclnnDiag" else 3
    reach = min(shape) - 1 if len(shape) == 2 and d.api == "aclnnDiag" else reach
    return {"self": d.tensor("self", shape), "diagonal": d.whole(-reach, reach)}


def _embedded(d: Draw) -> Mapping[str, Any]:
    rows, width = d.whole(1, 20), d.whole(1, 33)
    weight = d.tensor("weight", (rows, width))
    return {"weight": weight, "indices": index(d, "indices", d.shape(1, 3, FEW), rows)}


def _gathered(d: Draw) -> Mapping[str, Any]:
    shape = some(d)
    x, dim = d.tensor("self", shape), d.axis(len(shape))
    wanted = [d.whole(1, size) for size in shape]
    wanted[dim] = d.whole(1, 9)
    return {"self": x, "dim": dim, "index": index(d, "index", wanted, shape[dim])}


def _rows_gathered(d: Draw) -> Mapping[str, Any]:
    shape = some(d)
    x, dim = d.tensor("self", shape), d.axis(len(shape))
    return {
        "self": x,
        "dim": dim,
        "index": index(d, "index", d.shape(1, 2 if "V" in d.api else 1, FEW), shape[dim]),
    }


def _gathered_nd(d: Draw) -> Mapping[str, Any]:
    shape = some(d, 1, 4)
    deep = d.whole(1, len(shape))
    x = d.tensor("self", shape)
    many = d.shape(1, 2, FEW)
    found = index(d, "indices", (*many, deep), min(shape[:deep]))
    return {"self": x, "indices": found, "negativeIndexSupport": False}


def _taken(d: Draw) -> Mapping[str, Any]:
    shape = d.shape(0, 4, FEW)
    x = d.tensor("self", shape)
    return {"self": x, "index": index(d, "index", d.shape(0, 3, FEW), prod(shape))}


def _index_added(d: Draw) -> Mapping[str, Any]:
    made = dict(_index_copied(d))
    made["alpha"] = d.one_of(1, 2)
    return {name: made[name] for name in ("self", "dim", "index", "source", "alpha")}


def _index_copied(d: Draw) -> Mapping[str, Any]:
    name = "self" if d.api == "aclnnIndexAdd" else "selfRef"
    shape = list(some(d))
    x, dim = d.tensor(name, shape), d.axis(len(shape))
    count = d.whole(1, shape[dim])
    at = places(d, "index", count, shape[dim])
    shape[dim] = count
    return {
        name: x,
        "dim": dim,
        "index": at,
        "source": d.tensor("source", shape, kind=d.dtype("source")),
    }


def _put_rows(x: Array, dim: int, at: Array, source: Array, *, alpha: Any = None) -> Any:
    found = np.moveaxis(x.copy(), dim, 0)
    moved = np.moveaxis(source, dim, 0)
    if alpha is None:
        found[at] = moved
    else:
        np.add.at(found, at, alpha * moved)
    return np.moveaxis(found, 0, dim)


def _scattered(d: Draw) -> Mapping[str, Any]:
    name = "selfRef" if "Inplace" in d.api else "self"
    shape = list(some(d, 1, 4))
    x, dim = d.tensor(name, shape), d.axis(len(shape))
    wanted = [d.whole(1, size) for size in shape]
    kind = d.one_of(*(dtypes_of(d.api, "index", d.family) or ("INT64",)))

    def order(rng: np.random.Generator, sizes: tuple[int, ...]) -> Array:
        full = [shape[axis] if axis == dim % len(shape) else n for axis, n in enumerate(sizes)]
        return np.argsort(rng.random(full), dim).take(range(sizes[dim]), dim)

    at = d.tensor("index", wanted, order, kind=kind)
    return {name: x, "dim": dim, "index": at, "src": d.tensor("src", wanted, kind=d.kind)}


def _scatter_add(x: Array, dim: int, at: Array, src: Array) -> Any:
    return torch.as_tensor(x).scatter_add(dim, torch.as_tensor(at), torch.as_tensor(src)).numpy()


def _scatter(x: Array, dim: int, at: Array, src: Any, _: int) -> Any:
    return torch.as_tensor(x).scatter(dim, torch.as_tensor(at), torch.as_tensor(src)).numpy()


def _padded(d: Draw) -> Mapping[str, Any]:
    shape = d.shape(1, 5, FEW)
    pad = [d.whole(0, 3) for _ in range(2 * d.whole(1, len(shape)))]
    return {"self": d.tensor("self", shape), "pad": pad, "value": d.one_of(0, 1, 2)}


def _pad_constant(x: Array, pad: Sequence[int], value: Any) -> Any:
    pairs = [(0, 0)] * (x.ndim - len(pad) // 2)
    pairs += [(pad[n], pad[n + 1]) for n in range(len(pad) - 2, -1, -2)]
    return np.pad(x, pairs, constant_values=value)


_MODES = {"Reflection": "reflect", "Replication": "replicate", "Circular": "circular"}


def _pads(kind: str, axes: int) -> list[Row]:
    """A padding of so many axes, and its gradient."""
    mode = _MODES[kind]
    name = f"aclnn{kind}Pad{axes}d"

    def made(d: Draw) -> dict[str, Any]:
        shape = (*d.shape(1, 2, (1, 2, 3, 17)), *(d.one_of(4, 5, 8, 17) for _ in range(axes)))
        padding = [d.whole(0, 3) for _ in range(2 * axes)]
        return {"self": d.tensor("self", shape), "padding": padding}

    def back(d: Draw) -> dict[str, Any]:
        forward = made(d)
        x, padding = forward["self"], forward["padding"]
        rest = x.shape[: x.ndim - axes]
        inner = [x.shape[-1 - n] + padding[2 * n] + padding[2 * n + 1] for n in range(axes)]
        grad = d.tensor("gradOutput", (*rest, *inner[::-1]), kind=d.kind)
        return {"gradOutput": grad, **forward}

    def pad(x: Any, padding: Sequence[int]) -> Any:
        flat = x.reshape(-1, *x.shape[-axes:])[None] if axes < 3 or x.ndim != 5 else x
        found = torch.nn.functional.pad(torch.as_tensor(flat), tuple(padding), mode=mode)
        return found.reshape(*x.shape[: x.ndim - axes], *found.shape[-axes:])

    def forward(x: Any, padding: Sequence[int]) -> Any:
        return pad(torch.as_tensor(np.asarray(x, np.float64)), padding).numpy().astype(x.dtype)

    return [Row(name, made, forward), Row(f"{name}Backward", back, gradient(pad), loose=2)]


def _one_hot(d: Draw) -> Mapping[str, Any]:
    shape, count = d.shape(1, 4, FEW), d.whole(1, 9)
    x = index(d, "self", shape, count)
    kind = d.one_of(*dtypes_of(d.api, "onValue", d.family))
    ends = [
        d.tensor(n, (1,), lambda *_, v=v: np.array([v]), kind=kind)
        for n, v in (("onValue", 3), ("offValue", -1))
    ]
    return {
        "self": x,
        "numClasses": count,
        "onValue": ends[0],
        "offValue": ends[1],
        "axis": d.whole(-1, len(shape)),
    }


def _hot(x: Array, count: int, on: Array, off: Array, axis: int) -> Any:
    axis = axis if axis >= 0 else x.ndim
    sizes = [1] * (x.ndim + 1)
    sizes[axis] = count
    return np.where(np.expand_dims(x, axis) == np.arange(count).reshape(sizes), on[0], off[0])


def _masked(d: Draw) -> Mapping[str, Any]:
    shape = d.shape(0, 5)
    x = d.tensor("selfRef", shape)
    mask = d.tensor("mask", shape, coarse, kind="BOOL")
    if d.api.endswith("Scalar"):
        return {"selfRef": x, "mask": mask, "value": d.one_of(1, 2)}
    return {"selfRef": x, "mask": mask, "value": d.tensor("value", (), kind=d.kind)}


def _changed(api: str, make: Callable[[Draw], Any], reference: Callable[..., Any]) -> Row:
    return Row(api, make, reference, changed="selfRef")


def _shuffled(d: Draw) -> Mapping[str, Any]:
    groups = d.whole(1, 3)
    shape = (d.whole(1, 3), groups * d.whole(1, 5), *d.shape(1, 3, FEW))
    return {"self": d.tensor("self", shape), "groups": groups}


def _shuffle(x: Array, groups: int) -> Any:
    split = x.reshape(x.shape[0], groups, -1, *x.shape[2:])
    return np.swapaxes(split, 1, 2).reshape(x.shape)


ROWS = (
    Row("aclnnCat", _joined, np.concatenate),
    Row("aclnnStack", _stacked, np.stack),
    Row("aclnnSplitTensor", _split, _cut, given=True),
    Row("aclnnSplitWithSize", _split_sizes, _cut),
    Row("aclnnExpand", _expanded, np.broadcast_to),
    Row("aclnnRepeat", _repeated, np.tile),
    Row("aclnnRepeatInterleaveInt", _interleaved, lambda x, n, _: np.repeat(x, n)),
    Row(
        "aclnnRepeatInterleaveIntWithDim",
        _interleaved_along,
        lambda x, n, dim, _: np.repeat(x, n, dim),
    ),
    Row("aclnnPermute", _permuted, np.transpose),
    Row("aclnnFlip", _flipped, np.flip),
    Row("aclnnRoll", _rolled, lambda x, shifts, dims: np.roll(x, shifts, dims or None)),
    Row("aclnnFlatten", _flattened, lambda x, axis: x.reshape(prod(x.shape[:axis]), -1)),
    Row("aclnnSlice", _sliced, _slice),
    Row("aclnnSliceV2", _sliced_along, lambda x, s, e, a, p: _slice(x, a[0], s[0], e[0], p[0])),
    Row("aclnnTril", _triangle, np.tril),
    Row("aclnnTriu", _triangle, np.triu),
    Row("aclnnInplaceTril", _triangle, np.tril, changed="selfRef"),
    Row("aclnnInplaceTriu", _triangle, np.triu, changed="selfRef"),
    Row("aclnnDiag", _diagonal, np.diag),
    Row("aclnnDiagFlat", _diagonal, np.diagflat),
    Row(
        "aclnnTrace",
        lambda d: {"self": d.tensor("self", d.shape(2, 2, FEW), coarse)},
        np.trace,
        given=True,
        natural=False,
    ),
    Row("aclnnEmbedding", _embedded, lambda w, at: w[at], natural=False),
    Row(
        "aclnnGather",
        _gathered,
        lambda x, dim, at: np.take_along_axis(
            np.asarray(x)[
                tuple(
                    slice(None) if n == dim % x.ndim else slice(at.shape[n]) for n in range(x.ndim)
                )
            ],
            at,
            dim,
        ),
        natural=False,
    ),
    Row("aclnnGatherV2", _rows_gathered, lambda x, dim, at: np.take(x, at, dim), natural=False),
    Row(
        "aclnnGatherV3",
        lambda d: {**_rows_gathered(d), "batchDims": 0, "mode": 0},
        lambda x, dim, at, *_: np.take(x, at, dim),
        natural=False,
    ),
    Row("aclnnIndexSelect", _rows_gathered, lambda x, dim, at: np.take(x, at, dim), natural=False),
    Row(
        "aclnnGatherNd",
        _gathered_nd,
        lambda x, at, _: x[tuple(np.moveaxis(at, -1, 0))],
        natural=False,
    ),
    Row("aclnnTake", _taken, np.take, natural=False),
    Row(
        "aclnnIndexAdd",
        _index_added,
        lambda x, dim, at, s, a: _put_rows(x, dim, at, s, alpha=a),
        natural=False,
    ),
    Row("aclnnIndexCopy", _index_copied, _put_rows, natural=False),
    _changed("aclnnInplaceIndexCopy", _index_copied, _put_rows),
    Row("aclnnScatterAdd", _scattered, _scatter_add, natural=False),
    Row(
        "aclnnScatter",
        lambda d: _with_reduce(d, ("self", "dim", "index", "src", "reduce")),
        _scatter,
        natural=False,
    ),
    _changed(
        "aclnnInplaceScatter",
        lambda d: _with_reduce(d, ("selfRef", "dim", "index", "src", "reduce")),
        _scatter,
    ),
    Row("aclnnConstantPadNd", _padded, _pad_constant),
    *(
        row
        for kind, ranks in (
            ("Reflection", (1, 2, 3)),
            ("Replication", (1, 2, 3)),
            ("Circular", (2, 3)),
        )
        for n in ranks
        for row in _pads(kind, n)
    ),
    Row("aclnnOneHot", _one_hot, _hot, natural=False),
    _changed(
        "aclnnInplaceMaskedFillScalar", _masked, lambda x, mask, value: np.where(mask, value, x)
    ),
    _changed(
        "aclnnInplaceMaskedFillTensor", _masked, lambda x, mask, value: np.where(mask, value, x)
    ),
    Row("aclnnChannelShuffle", _shuffled, _shuffle),
)


def _with_reduce(d: Draw, order: tuple[str, ...]) -> Mapping[str, Any]:
    made = {**_scattered(d), "reduce": 0}
    return {name: made[name] for name in order}
