"""aclnn interfaces that are sequences of operators: every result against NumPy."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest

from npusim import Device

Array = np.ndarray[Any, Any]

NPU = Device("Ascend910B3")
RNG = np.random.default_rng(0)


def numbers(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def like(*wanted: Array) -> tuple[Array, ...]:
    return tuple(np.zeros_like(each) for each in wanted)


def put(x: Array, places: Array, axis: int, new: Any, how: Any = None) -> Array:
    """Numbers put at places along an axis, or combined with what is there."""
    found, index = x.copy(), list(np.indices(places.shape))
    index[axis] = places
    if how is None:
        found[tuple(index)] = new
    else:
        how.at(found, tuple(index), new)
    return found


def norm(x: Array, order: float, axes: tuple[int, ...]) -> Array:
    if order == 0:
        return (x != 0).sum(axes)
    if np.isinf(order):
        return abs(x).max(axes) if order > 0 else abs(x).min(axes)
    found: Array = (abs(x) ** order).sum(axes) ** (1 / order)
    return found


A, M, V, U = numbers(3, 4, 5, 6), numbers(5, 6), numbers(6), numbers(5)
WHOLE, HALF = (M * 9).astype(np.int32), M.astype(np.float16)
POSITIVE, HOLES = abs(A) + 1, np.where(A > 1, np.nan, A)
LEFT, RIGHT = numbers(3, 5, 4), numbers(3, 4, 6)
SQUARE = (LEFT @ LEFT.swapaxes(1, 2) + 4 * np.eye(5)).astype(np.float32)
PLACES = np.argsort(RNG.random((5, 6)), -1)[:, :4].astype(np.int64)
NEW, DEEP = numbers(5, 4), RNG.integers(0, 4, (3, 4, 5, 6))
ROWS, ONCE = np.array([0, 3, 0]), np.array([3, 1])
GRAD, IDS = numbers(2, 3, 8), np.array([[0, 3, 0], [1, 1, 2]])


def rows_added() -> Array:
    found = A.copy()
    np.add.at(found, (slice(None), ROWS), np.float32(1.5) * A[:, :3])
    return found


def rows_copied() -> Array:
    found = A.copy()
    found[:, ONCE] = A[:, :2]
    return found


def flat(places: list[int], new: list[float], *, adds: bool) -> Array:
    found = M.copy().reshape(-1)
    if adds:
        np.add.at(found, places, new)
    else:
        found[places] = new
    return found.reshape(M.shape)


def embedding_gradient() -> Array:
    found = np.zeros((5, 8))
    np.add.at(found, IDS.reshape(-1), GRAD.reshape(-1, 8))
    found[1] = 0
    return found


def last_place(x: Array, better: Any) -> Array:
    """Where the best number along the second axis was last met."""
    found = better.accumulate(x, 1) == x
    places = np.arange(x.shape[1])[:, None, None]
    return np.maximum.accumulate(np.where(found, places, 0), 1)


HALVES = A[:, :, :2], A[:, :, 2:4], A[:, :, 4:]
PARTS = dict(zip(("out0", "out1", "out2"), like(*HALVES), strict=True))

CALLS: list[tuple[str, dict[str, Any], Any]] = [
    ("aclnnAll", {"self": A, "dim": [1], "keepdim": False}, A.all(1)),
    (
        "aclnnAny",
        {"self": A > 1, "dim": [0, 2], "keepdim": True},
        (A > 1).any((0, 2), keepdims=True),
    ),
    ("aclnnAminmax", {"self": A, "dim": [1], "keepDim": False}, (A.min(1), A.max(1))),
    ("aclnnAminmaxAll", {"self": A}, (A.min(), A.max())),
    ("aclnnAminmaxDim", {"self": A, "dim": 2, "keepDim": False}, (A.min(2), A.max(2))),
    ("aclnnMax", {"self": A}, A.max()),
    (
        "aclnnProdDim",
        {"self": A, "dim": 1, "keepDim": True, "dtype": "FLOAT"},
        A.prod(1, keepdims=True),
    ),
    ("aclnnGlobalAveragePool", {"self": A}, A.mean((2, 3), keepdims=True)),
    ("aclnnGlobalMaxPool", {"self": A}, A.max((2, 3), keepdims=True)),
    *(
        (
            "aclnnNorm",
            {"self": A, "pScalar": order, "dim": [1, 3], "keepdim": False},
            norm(A, order, (1, 3)),
        )
        for order in (0, 1, 2, 3.5, np.inf, -np.inf)
    ),
    (
        "aclnnLinalgVectorNorm",
        {"self": A, "ord": 2, "dims": [], "keepDims": False, "dtype": "FLOAT"},
        norm(A, 2, (0, 1, 2, 3)),
    ),
    ("aclnnLogSumExp", {"self": A, "dim": [0, 2], "keepDim": False}, np.log(np.exp(A).sum((0, 2)))),
    (
        "aclnnMaxV2",
        {"self": A, "dims": [1, 2], "keepDims": False, "noopWithEmptyDims": False},
        A.max((1, 2)),
    ),
    ("aclnnMaxV2", {"self": A, "dims": [], "keepDims": False, "noopWithEmptyDims": True}, A),
    (
        "aclnnMeanV2",
        {"self": A, "dim": [1, 2], "keepDim": False, "noopWithEmptyAxes": False},
        A.mean((1, 2)),
    ),
    (
        "aclnnReduceLogSum",
        {"data": POSITIVE, "axes": [1], "keepDims": False, "noopWithEmptyAxes": False},
        np.log(POSITIVE.sum(1)),
    ),
    (
        "aclnnReduceNansum",
        {"self": HOLES, "dim": [1], "keepDim": False, "dtype": "FLOAT"},
        np.nansum(HOLES, 1),
    ),
    (
        "aclnnStd",
        {"self": A, "dim": [1, 2], "correction": 1, "keepdim": False},
        A.std((1, 2), ddof=1),
    ),
    (
        "aclnnStdMeanCorrection",
        {"self": A, "dim": [1], "correction": 2, "keepdim": False},
        (A.std(1, ddof=2), A.mean(1)),
    ),
    ("aclnnVar", {"self": A, "dim": [], "unbiased": False, "keepdim": False}, A.var()),
    (
        "aclnnVarMean",
        {"self": A, "dim": [-1], "correction": 1, "keepdim": True},
        (A.var(-1, ddof=1, keepdims=True), A.mean(-1, keepdims=True)),
    ),
    ("aclnnArange", {"start": 1, "end": 9.5, "step": 2}, np.arange(1, 9.5, 2)),
    ("aclnnArange", {"start": 0, "end": 5, "step": 1, "out": np.zeros(5, np.int64)}, np.arange(5)),
    ("aclnnRange", {"start": 0, "end": 10, "step": 2}, np.arange(0, 11, 2)),
    ("aclnnLinspace", {"start": 0, "end": 1, "steps": 7}, np.linspace(0, 1, 7)),
    (
        "aclnnChannelShuffle",
        {"self": A, "groups": 2},
        A.reshape(3, 2, 2, 5, 6).swapaxes(1, 2).reshape(A.shape),
    ),
    *(("aclnnDiag", {"self": M, "diagonal": offset}, np.diag(M, offset)) for offset in (-2, 0, 1)),
    *(("aclnnDiag", {"self": V, "diagonal": offset}, np.diag(V, offset)) for offset in (-2, 0, 1)),
    ("aclnnDiagFlat", {"self": M, "diagonal": 1}, np.diagflat(M, 1)),
    ("aclnnEye", {"n": 4, "m": 7, "out": np.zeros((4, 7), np.int32)}, np.eye(4, 7)),
    ("aclnnFlatten", {"self": A, "axis": 2}, A.reshape(12, 30)),
    ("aclnnInplaceCopy", {"selfRef": A.copy(), "src": V}, np.broadcast_to(V, A.shape)),
    ("aclnnInplaceCopy", {"selfRef": A.astype(np.float16), "src": A}, A.astype(np.float16)),
    ("aclnnRepeatInterleaveInt", {"self": A, "repeats": 3, "outputSize": 1080}, np.repeat(A, 3)),
    (
        "aclnnRepeatInterleaveIntWithDim",
        {"self": A, "repeats": 3, "dim": 1, "outputSize": 12},
        np.repeat(A, 3, 1),
    ),
    ("aclnnSlice", {"self": A, "dim": 1, "start": 1, "end": 4, "step": 2}, A[:, 1:4:2]),
    ("aclnnSlice", {"self": A, "dim": 2, "start": -3, "end": 100, "step": 1}, A[:, :, -3:]),
    (
        "aclnnSliceV2",
        {"self": A, "starts": [1, 0], "ends": [3, 6], "axes": [1, 3], "steps": [1, 2]},
        A[:, 1:3, :, 0:6:2],
    ),
    ("aclnnSplitTensor", {"self": A, "splitSections": 2, "dim": 2, **PARTS}, HALVES),
    ("aclnnSplitWithSize", {"self": A, "splitSize": [2, 2, 1], "dim": 2, **PARTS}, HALVES),
    (
        "aclnnSort",
        {"self": A, "stable": True, "dim": 1, "descending": True},
        (-np.sort(-A, 1), np.argsort(-A, 1)),
    ),
    ("aclnnArgsort", {"self": A, "dim": -1, "descending": False}, np.argsort(A, -1)),
    (
        "aclnnKthvalue",
        {"self": A, "k": 3, "dim": 1, "keepdim": False},
        (np.sort(A, 1)[:, 2], np.argsort(A, 1)[:, 2]),
    ),
    (
        "aclnnMedianDim",
        {"self": A, "dim": 2, "keepDim": True},
        (np.sort(A, 2)[:, :, 2:3], np.argsort(A, 2)[:, :, 2:3]),
    ),
    ("aclnnMedian", {"self": M}, np.sort(M.reshape(-1))[14]),
    ("aclnnArgMax", {"self": A, "dim": 1, "keepdim": True}, A.argmax(1)[:, None]),
    ("aclnnArgMin", {"self": A, "dim": -1, "keepdim": False}, A.argmin(-1)),
    ("aclnnMaxDim", {"self": A, "dim": 2, "keepdim": False}, (A.max(2), A.argmax(2))),
    (
        "aclnnMinDim",
        {"self": A, "dim": 0, "keepdim": True},
        (A.min(0)[None], A.argmin(0)[None]),
    ),
    (
        "aclnnCummax",
        {"self": A, "dim": 1},
        (np.maximum.accumulate(A, 1), last_place(A, np.maximum)),
    ),
    (
        "aclnnCummin",
        {"self": A, "dim": 1},
        (np.minimum.accumulate(A, 1), last_place(A, np.minimum)),
    ),
    (
        "aclnnSearchSorteds",
        {
            "sortedSequence": np.sort(V),
            "self": 0.25,
            "outInt32": True,
            "right": False,
            "sorter": None,
        },
        np.searchsorted(np.sort(V), 0.25),
    ),
    (
        "aclnnInplaceFillDiagonal",
        {"selfRef": M.copy(), "fillValue": 2.5, "wrap": False},
        np.where(np.eye(5, 6, dtype=bool), np.float32(2.5), M),
    ),
    ("aclnnTrace", {"self": M}, np.trace(M)),
    (
        "aclnnScatterAdd",
        {"self": M, "dim": 1, "index": PLACES, "src": NEW},
        put(M, PLACES, 1, NEW, np.add),
    ),
    (
        "aclnnScatterAdd",
        {"self": M, "dim": 1, "index": PLACES[:3, :2].copy(), "src": NEW},
        put(M, PLACES[:3, :2], 1, NEW[:3, :2], np.add),
    ),
    (
        "aclnnInplaceScatter",
        {"selfRef": M.copy(), "dim": 1, "index": PLACES, "src": NEW, "reduce": 0},
        put(M, PLACES, 1, NEW),
    ),
    (
        "aclnnInplaceScatterValue",
        {"selfRef": M.copy(), "dim": 1, "index": PLACES, "value": 2.5, "reduce": 2},
        put(M, PLACES, 1, 2.5, np.multiply),
    ),
    ("aclnnGather", {"self": A, "dim": 1, "index": DEEP}, np.take_along_axis(A, DEEP, 1)),
    (
        "aclnnIndexAdd",
        {"self": A, "dim": 1, "index": ROWS, "source": A[:, :3].copy(), "alpha": 1.5},
        rows_added(),
    ),
    (
        "aclnnIndexCopy",
        {"selfRef": A.copy(), "dim": 1, "index": ONCE, "source": A[:, :2].copy()},
        rows_copied(),
    ),
    (
        "aclnnInplacePut",
        {
            "selfRef": M.copy(),
            "index": np.array([3, 9]),
            "source": NEW[0, :2].copy(),
            "accumulate": False,
        },
        flat([3, 9], [*NEW[0, :2]], adds=False),
    ),
    (
        "aclnnInplacePut",
        {
            "selfRef": M.copy(),
            "index": np.array([3, 9, 3]),
            "source": NEW[0, :3].copy(),
            "accumulate": True,
        },
        flat([3, 9, 3], [*NEW[0, :3]], adds=True),
    ),
    *(
        ("aclnnTriu", {"self": x, "diagonal": offset}, np.triu(x, offset))
        for x in (A, M > 0, (M * 9).astype(np.int32), (M * 9).astype(np.int64))
        for offset in (-2, 0, 3)
    ),
    *(
        ("aclnnTril", {"self": x, "diagonal": offset}, np.tril(x, offset))
        for x in (A, M.astype(np.float16), (M * 9).astype(np.int8), M[:1])
        for offset in (-2, 0, 3)
    ),
    *(
        ("aclnnFlip", {"self": A, "dims": axes}, np.flip(A, axes))
        for axes in ([0], [3], [1, 3], [0, 1, 2, 3])
    ),
    *(
        ("aclnnRoll", {"x": A, "shifts": [shift], "dims": [axis]}, np.roll(A, shift, axis))
        for axis in range(4)
        for shift in (1, -2)
    ),
    ("aclnnRoll", {"x": A, "shifts": [1, 2], "dims": [2, 2]}, np.roll(A, 3, 2)),
    ("aclnnRoll", {"x": A, "shifts": [-5], "dims": []}, np.roll(A, -5)),
    ("aclnnRoll", {"x": A, "shifts": [1, -2], "dims": [0, 3]}, np.roll(A, (1, -2), (0, 3))),
    ("aclnnTake", {"self": M, "index": PLACES}, M.reshape(-1)[PLACES]),
    ("aclnnGatherV3", {"self": A, "dim": 1, "index": ROWS, "batchDims": 0, "mode": 0}, A[:, ROWS]),
    (
        "aclnnEmbeddingDenseBackward",
        {"grad": GRAD, "indices": IDS, "numWeights": 5, "paddingIdx": 1, "scaleGradByFreq": False},
        embedding_gradient(),
    ),
    ("aclnnDot", {"self": V, "tensor": V}, V @ V),
    ("aclnnGer", {"self": U, "vec2": V}, np.outer(U, V)),
    (
        "aclnnAddr",
        {"self": M, "vec1": U, "vec2": V, "betaOptional": 2, "alphaOptional": 1.5},
        2 * M + 1.5 * np.outer(U, V),
    ),
    ("aclnnMv", {"self": M, "vec": V, "cubeMathType": 0}, M @ V),
    (
        "aclnnAddmv",
        {"self": U, "mat": M, "vec": V, "alpha": 1.5, "beta": 2, "cubeMathType": 0},
        2 * U + 1.5 * M @ V,
    ),
    (
        "aclnnBaddbmm",
        {"self": M, "batch1": LEFT, "batch2": RIGHT, "beta": 2, "alpha": 1.5, "cubeMathType": 0},
        2 * M + 1.5 * LEFT @ RIGHT,
    ),
    (
        "aclnnAddbmm",
        {"self": M, "batch1": LEFT, "batch2": RIGHT, "beta": 2, "alpha": 1.5, "cubeMathType": 0},
        2 * M + 1.5 * (LEFT @ RIGHT).sum(0),
    ),
    ("aclnnLogdet", {"self": SQUARE}, np.linalg.slogdet(SQUARE)[1]),
    ("aclnnInverse", {"self": SQUARE}, np.linalg.inv(SQUARE)),
    ("aclnnLinalgCholesky", {"self": SQUARE, "upper": False}, np.linalg.cholesky(SQUARE)),
    ("aclnnQr", {"self": LEFT, "some": True}, tuple(np.linalg.qr(LEFT))),
    ("aclnnLinalgQr", {"self": LEFT, "mode": 1}, tuple(np.linalg.qr(LEFT, "complete"))),
    ("aclnnCumprod", {"input": A, "dim": 1, "dtype": "FLOAT"}, A.cumprod(1)),
    (
        "aclnnBincount",
        {"self": ROWS, "weights": None, "minlength": 3, "out": np.zeros(4, np.int64)},
        np.bincount(ROWS),
    ),
    (
        "aclnnSearchSorted",
        {
            "sortedSequence": np.sort(M, 1),
            "self": NEW,
            "outInt32": False,
            "right": True,
            "sorter": None,
        },
        np.stack([np.searchsorted(np.sort(a), b, "right") for a, b in zip(M, NEW, strict=True)]),
    ),
    (
        "aclnnSearchSorted",
        {
            "sortedSequence": np.array([1, 2, 2, 3], np.float32),
            "self": np.array([2, 0, 3], np.float32),
            "outInt32": False,
            "right": True,
            "sorter": None,
        },
        np.array([3, 0, 4]),
    ),
]


@pytest.mark.parametrize(("name", "given", "want"), CALLS, ids=[call[0] for call in CALLS])
def test_results_are_those_of_numpy(name: str, given: dict[str, Any], want: Any) -> None:
    outputs = NPU.run(name, **deepcopy(given)).outputs  # what is changed in place is others' too
    wanted = want if isinstance(want, tuple) else (want,)
    assert outputs is not None
    for got, exact in zip(outputs.values(), wanted, strict=True):
        assert got.shape == np.shape(exact)
        np.testing.assert_allclose(got.astype(np.float64), exact, rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize(("name", "given", "want"), CALLS, ids=[call[0] for call in CALLS])
def test_estimates_need_no_numbers(name: str, given: dict[str, Any], want: Any) -> None:
    del want
    time_us = NPU.run(name, **deepcopy(given)).duration_us
    assert NPU.estimate(name, **given).duration_us == time_us
