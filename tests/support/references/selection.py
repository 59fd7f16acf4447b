"""References of fills, counts, searches, scattered updates and small linear algebra."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from support.references.movement import FEW, index, places, some
from support.references.row import Draw, Row, coarse

Array = np.ndarray[Any, Any]


def _steps(d: Draw) -> Mapping[str, Any]:
    start, step = d.whole(-5, 5), d.one_of(1, 2, 3)
    return {"start": start, "end": start + step * d.whole(1, 40) + d.whole(0, 1), "step": step}


def _spaced(d: Draw) -> Mapping[str, Any]:
    return {"start": d.whole(-9, 9), "end": d.whole(-9, 9), "steps": d.whole(1, 40)}


def _spread(start: float, end: float, steps: int) -> Any:
    return np.linspace(start, end, steps) if steps > 1 else np.array([float(start)])


def _copied(d: Draw) -> Mapping[str, Any]:
    shape = d.shape(1, 8)
    return {"selfRef": d.tensor("selfRef", shape), "src": d.tensor("src", shape)}


def _filled(d: Draw) -> Mapping[str, Any]:
    x = d.tensor("selfRef", d.shape(0, 8))
    return {"selfRef": x, "value": d.tensor("value", d.one_of((), (1,)), kind=d.kind)}


def _put(d: Draw) -> Mapping[str, Any]:
    x = d.tensor("selfRef", some(d, 1, 3))
    count = d.whole(1, min(x.size, 9))
    at = places(d, "index", count, x.size)
    return {"selfRef": x, "index": at, "source": d.tensor("source", (count,), kind=d.kind),
            "accumulate": d.one_of(False, True)}  # fmt: skip


def _put_into(x: Array, at: Array, source: Array, accumulate: bool) -> Any:
    found = x.reshape(-1).copy()
    found[at] = found[at] + source if accumulate else source
    return found.reshape(x.shape)


def _scattered_value(d: Draw) -> Mapping[str, Any]:
    shape = some(d, 1, 4)
    x, dim = d.tensor("selfRef", shape), d.axis(len(shape))
    at = index(d, "index", [d.whole(1, size) for size in shape], shape[dim])
    return {"selfRef": x, "dim": dim, "index": at, "value": d.one_of(1, 2), "reduce": 0}


def _with_value(x: Array, dim: int, at: Array, value: Any, _: int) -> Any:
    found = x.copy()
    every = list(np.indices(at.shape, sparse=True))
    every[dim] = at
    found[tuple(every)] = value
    return found


def _shifted(name: str, *, number: bool = False) -> Callable[[Draw], Mapping[str, Any]]:
    def make(d: Draw) -> Mapping[str, Any]:
        shape = d.shape(0, 5)
        x = d.tensor(name, shape)
        if number:
            return {name: x, "shiftBits": d.whole(0, 3)}
        bits = d.tensor("shiftBits", shape, lambda r, s: r.integers(0, 4, s), kind=d.kind)
        return {name: x, "shiftBits": bits}

    return make


def _dropped(name: str, factor: str, *factors: float) -> Callable[[Draw], Mapping[str, Any]]:
    def make(d: Draw) -> Mapping[str, Any]:
        x = d.tensor(name, d.sized(1, 5))
        count = -(-x.size // 128) * 16
        mask = d.rng.integers(0, 256, count).astype(np.uint8)
        return {name: x, "mask": mask, factor: d.one_of(*factors)}

    return make


def _kept(x: Array, mask: Array, factor: float) -> Array:
    bits = np.unpackbits(mask.astype(np.uint8), bitorder="little")[: x.size].astype(bool)
    return np.where(bits.reshape(x.shape), x * factor, 0)


def _counted(d: Draw) -> Mapping[str, Any]:
    x = d.tensor("self", (d.whole(1, 60),), lambda r, s: r.integers(0, 9, s))
    d.kind = ""
    weights = d.tensor("weights", x.shape) if d.one_of(False, True) else None
    return {"self": x, "weights": weights, "minlength": d.whole(0, 12)}


def _searched(d: Draw) -> Mapping[str, Any]:
    count = d.whole(1, 40)
    row = d.tensor("sortedSequence", (count,), lambda r, s: np.sort(r.integers(-9, 9, s)))
    made: dict[str, Any] = {"sortedSequence": row}
    if d.api.endswith("s"):
        made["self"] = d.whole(-9, 9)
    else:
        made["self"] = d.tensor("self", d.sized(1, 3), coarse, kind=d.kind)
    return {
        **made,
        "outInt32": d.one_of(False, True),
        "right": d.one_of(False, True),
        "sorter": None,
    }


def _found(row: Array, wanted: Any, _: bool, right: bool, __: Any) -> Any:
    return np.searchsorted(row, wanted, "right" if right else "left")


def _embedding_gradient(d: Draw) -> Mapping[str, Any]:
    count, width = d.whole(1, 20), d.whole(1, 33)
    at = d.rng.integers(0, count, d.sized(1, 3)).astype(d.one_of(np.int32, np.int64))
    grad = d.tensor("grad", (*at.shape, width))
    return {"grad": grad, "indices": at, "numWeights": count, "paddingIdx": d.one_of(-1, 0),
            "scaleGradByFreq": d.one_of(False, True)}  # fmt: skip


def _summed_by_row(grad: Array, at: Array, count: int, padding: int, mean: bool) -> Any:
    found = np.zeros((count, grad.shape[-1]))
    np.add.at(found, at.reshape(-1), grad.reshape(-1, grad.shape[-1]))
    if mean:
        found /= np.maximum(np.bincount(at.reshape(-1), minlength=count), 1)[:, None]
    if padding >= 0:
        found[padding] = 0
    return found


def _scatter_nd(d: Draw) -> Mapping[str, Any]:
    name = "data" if d.api == "aclnnScatterNd" else "varRef"
    shape = some(d, 1, 4)
    x = d.tensor(name, shape)
    numbers = 1 if d.api == "aclnnScatterNd" else d.whole(1, len(shape))
    axes = shape[:numbers]
    count = d.whole(1, min(9, int(np.prod(axes))))
    at = places(d, "indices", count, int(np.prod(axes)))
    at = np.stack(np.unravel_index(at, axes), -1).astype(at.dtype)
    updates = d.tensor("updates", (count, *shape[numbers:]), kind=d.kind)
    return {name: x, "indices": at, "updates": updates}


def _cached(d: Draw) -> Mapping[str, Any]:
    shape = some(d, 2, 5)
    axis = d.whole(1, len(shape) - 1)
    lines, count = d.whole(1, shape[0]), d.whole(1, shape[axis])
    x = d.tensor("data", shape)
    at = index(d, "indices", (lines,), shape[axis] - count + 1)
    if d.one_of(False, True):
        at = np.stack((d.rng.permutation(shape[0])[:lines], at), -1).astype(at.dtype)
    new = (lines, *shape[1:axis], count, *shape[axis + 1 :])
    updates = d.tensor("updates", new, kind=d.kind)
    return {"data": x, "indices": at, "updates": updates, "axis": axis - d.one_of(0, len(shape))}


def _updated(x: Array, at: Array, updates: Array, axis: int) -> Any:
    found = x.copy()
    for line, new in enumerate(updates):
        sequence, place = at[line] if at.ndim > 1 else (line, at[line])
        rows = np.moveaxis(found[sequence], axis % x.ndim - 1, 0)
        rows[place : place + updates.shape[axis]] = np.moveaxis(new, axis % x.ndim - 1, 0)
    return found


def _stored(x: Array, at: Array, updates: Array) -> Any:
    found = x.copy()
    found[tuple(at.T)] = updates
    return found


def _scatter_added(d: Draw) -> Mapping[str, Any]:
    shape = some(d, 1, 4)
    x, count = d.tensor("varRef", shape), d.whole(1, 9)
    at = index(d, "indices", (count,), shape[0])
    return {
        "varRef": x,
        "indices": at,
        "updates": d.tensor("updates", (count, *shape[1:]), coarse, kind=d.kind),
    }


def _added(x: Array, at: Array, updates: Array) -> Any:
    found = x.copy()
    np.add.at(found, at, updates)
    return found


def _diagonal(d: Draw) -> Mapping[str, Any]:
    x = d.tensor("selfRef", (d.whole(1, 20), d.whole(1, 9)))
    return {"selfRef": x, "fillValue": d.one_of(1, 2), "wrap": d.one_of(False, True)}


def _on_diagonal(x: Array, value: Any, wrap: bool) -> Any:
    found = x.copy()
    np.fill_diagonal(found, value, wrap=wrap)
    return found


def _systems(d: Draw) -> Mapping[str, Any]:
    size, batch = d.whole(1, 7), d.shape(0, 2, FEW)
    right = (*d.one_of(batch, ()), size, d.whole(1, 5))
    made = {"self": d.tensor("self", right)}
    matrix = d.rng.standard_normal((*batch, size, size)) + 4 * np.eye(size)
    made["A"] = d.laid_out(matrix.astype(made["self"].dtype))
    words = ("upper", "transpose", "unitriangular")
    return made | {name: d.one_of(False, True) for name in words}


def _solved(b: Array, a: Array, upper: bool, transpose: bool, unit: bool) -> Any:
    """What gives ``b``, and the matrices."""
    half = np.triu(a, 1) if upper else np.tril(a, -1)
    known = half + (np.eye(a.shape[-1]) if unit else a * np.eye(a.shape[-1]))
    x = np.linalg.inv(np.swapaxes(known, -1, -2) if transpose else known) @ b
    return x, np.broadcast_to(a, (*x.shape[:-2], *a.shape[-2:]))


def _pooled(axes: int) -> Callable[[Draw], Mapping[str, Any]]:
    """Elements of planes with a place each in a larger plane."""

    def make(d: Draw) -> Mapping[str, Any]:
        outer = d.shape(axes - 1 if axes < 3 else 1, 2, FEW[:-1]) or (1,)
        inner, sizes = [d.whole(1, 3) for _ in range(axes)], [d.whole(3, 5) for _ in range(axes)]
        count = int(np.prod(inner))
        places = [d.rng.permutation(int(np.prod(sizes)))[:count] for _ in range(np.prod(outer))]
        x = d.tensor("self", (*outer, *inner))
        made = {"self": x, "indices": np.reshape(places, (*outer, *inner)), "outputSize": sizes}
        return made | ({"stride": [2, 2, 2], "padding": [0, 0, 0]} if axes > 2 else {})

    return make


def _unpooled(x: Array, places: Array, sizes: list[int], *_: Any) -> Any:
    planes = int(np.prod(x.shape[: -len(sizes)]))
    found = np.zeros((planes, int(np.prod(sizes))), x.dtype)
    np.put_along_axis(found, places.reshape(planes, -1), x.reshape(planes, -1), 1)
    return found.reshape(*x.shape[: -len(sizes)], *sizes)


def _matrices(
    *more: tuple[str, tuple[Any, ...]], square: bool = True, definite: bool = False
) -> Callable[[Draw], Mapping[str, Any]]:
    def fill(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        x = rng.standard_normal(shape)
        if definite:
            return x @ np.swapaxes(x, -1, -2) + 2 * np.eye(shape[-1])
        return x + 3 * np.eye(*shape[-2:]) if square else x

    def make(d: Draw) -> Mapping[str, Any]:
        size = d.whole(1, 9)
        x = d.tensor("self", (*d.shape(0, 2, FEW), size, size if square else d.whole(1, 9)), fill)
        return {"self": x, **{name: d.one_of(*options) for name, options in more}}

    return make


def _factors(x: Array, how: Any) -> Any:
    found = np.linalg.qr(x, "complete" if how else "reduced")
    return tuple(found)


def _svd(d: Draw) -> Mapping[str, Any]:
    x = d.tensor("input", (d.whole(1, 9), d.whole(1, 9)))
    return {"input": x, "fullMatrices": d.one_of(False, True), "computeUV": d.one_of(True, False)}


def _singular(x: Array, *_: Any) -> Any:
    return (np.linalg.svd(x, compute_uv=False),)  # the vectors are theirs up to signs


def _logdet(x: Array) -> Any:
    sign, size = np.linalg.slogdet(x)
    return np.where(sign > 0, size, np.nan)


def _is_in(x: Array, element: Any, _: bool, invert: bool) -> Any:
    return np.asarray(bool((x == element).any()) ^ invert)


def _cumprod(name: str, *, dtype: bool = False) -> Callable[[Draw], Mapping[str, Any]]:
    def make(d: Draw) -> Mapping[str, Any]:
        x = d.tensor(name, d.sized(1, 5), lambda r, s: r.choice([-1.0, 1.0, 1.0, 2.0, 0.5], s))
        made = {name: x, "dim": d.axis(x.ndim)}
        return {**made, "dtype": d.kind} if dtype else made

    return make


def _eye(d: Draw) -> Mapping[str, Any]:
    return {"n": d.whole(1, 33), "m": d.whole(1, 33)}


def _two(d: Draw) -> Mapping[str, Any]:
    x = d.tensor("self", d.sized(0, 5), coarse)
    same = d.one_of(True, False)
    return {
        "self": x,
        "other": x.copy() if same else d.tensor("other", x.shape, coarse, kind=d.kind),
    }


ROWS = (
    Row("aclnnArange", _steps, np.arange, given=True, natural=False),
    Row(
        "aclnnRange",
        _steps,
        lambda a, b, step: np.arange(a, b + (step > 0), step),
        given=True,
        natural=False,
    ),
    Row("aclnnLinspace", _spaced, _spread, given=True, natural=False),
    Row("aclnnEye", _eye, np.eye, given=True, natural=False),
    Row("aclnnEqual", _two, lambda a, b: np.asarray([(a == b).all()]), natural=False),
    Row(
        "aclnnIsInScalarTensor",
        lambda d: {
            "testElements": d.tensor("testElements", d.sized(0, 5), coarse),
            "element": d.one_of(1, 7),
            "assumeUnique": False,
            "invert": d.one_of(False, True),
        },
        _is_in,
        natural=False,
    ),
    Row("aclnnInplaceCopy", _copied, lambda _, x: x, changed="selfRef"),
    Row(
        "aclnnInplaceFillTensor",
        _filled,
        lambda x, value: np.broadcast_to(value.reshape(()), x.shape),
        changed="selfRef",
    ),
    Row("aclnnInplaceFillDiagonal", _diagonal, _on_diagonal, changed="selfRef"),
    Row("aclnnInplacePut", _put, _put_into, changed="selfRef"),
    Row("aclnnInplaceScatterValue", _scattered_value, _with_value, changed="selfRef"),
    Row("aclnnLeftShift", _shifted("self"), np.left_shift),
    Row("aclnnLeftShifts", _shifted("self", number=True), np.left_shift),
    Row("aclnnRightShift", _shifted("input"), np.right_shift),
    Row(
        "aclnnDropoutDoMask",
        _dropped("self", "prob", 0.25, 0.5),
        lambda x, mask, p: _kept(x, mask, 1 / (1 - p)),
    ),
    Row("aclnnDropoutBackward", _dropped("gradOutput", "scale", 1.25, 2.0), _kept),
    Row("aclnnBincount", _counted, np.bincount, given=True, natural=False),
    Row("aclnnSearchSorted", _searched, _found, natural=False),
    Row("aclnnSearchSorteds", _searched, lambda *given: np.asarray(_found(*given)), natural=False),
    Row("aclnnEmbeddingDenseBackward", _embedding_gradient, _summed_by_row, natural=False, loose=2),
    Row("aclnnInplaceScatterUpdate", _cached, _updated, changed="data", natural=False),
    Row("aclnnScatterNd", _scatter_nd, _stored, natural=False),
    Row("aclnnScatterNdUpdate", _scatter_nd, _stored, changed="varRef"),
    Row("aclnnTfScatterAdd", _scatter_added, _added, changed="varRef", loose=4),
    Row(
        "aclnnCumprod",
        _cumprod("input", dtype=True),
        lambda x, dim, _: np.cumprod(x, dim),
        natural=False,
        loose=4,
    ),
    Row("aclnnInplaceCumprod", _cumprod("input"), np.cumprod, changed="input", loose=4),
    Row("aclnnTriangularSolve", _systems, _solved, loose=8),
    Row("aclnnMaxUnpool2d", _pooled(2), _unpooled, natural=False),
    Row("aclnnMaxUnpool3d", _pooled(3), _unpooled, natural=False, given=True),
    Row("aclnnInverse", _matrices(), np.linalg.inv, loose=8),
    Row(
        "aclnnLinalgCholesky",
        _matrices(("upper", (False, True)), definite=True),
        lambda x, up: np.swapaxes(np.linalg.cholesky(x), -1, -2) if up else np.linalg.cholesky(x),
        loose=8,
    ),
    Row(
        "aclnnLinalgQr", _matrices(("mode", (0, 1)), square=False), _factors, loose=8, natural=False
    ),
    Row(
        "aclnnQr",
        _matrices(("some", (True, False)), square=False),
        lambda x, some: _factors(x, not some),
        loose=8,
        natural=False,
    ),
    Row("aclnnLogdet", _matrices(), _logdet, loose=8),
    Row("aclnnSlogdet", _matrices(), lambda x: tuple(np.linalg.slogdet(x)), loose=8),
    Row("aclnnSvd", _svd, _singular, loose=8, natural=False),
)
