"""A call of every standard operator with what comes out first, by NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Call = tuple[str, dict[str, Any], Callable[..., Any]]


def numbers(*shape: int, seed: int = 0, kind: Any = np.float32) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(kind)


A, B, ROW = numbers(6, 40), numbers(6, 40, seed=1), numbers(40, seed=2)
FAST_ERF = 0.5 - 0.1444 * (np.minimum(0.7071 * np.abs(A), 1.769) - 1.769) ** 2
POSITIVE, MASK = np.abs(A) + np.float32(0.1), A > 0
IDS = np.array([3, 0, 5, 3], np.int32)
IMAGE, ONE = numbers(2, 3, 4, 5), numbers(1)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x.astype(np.float64)))


def gelu_slope(x: Array) -> Array:
    """Of the form by tanh, by central differences."""

    def gelu(v: Array) -> Array:
        return 0.5 * v * (1 + np.tanh(np.sqrt(2 / np.pi) * (v + 0.044715 * v**3)))

    wide = x.astype(np.float64)
    return (gelu(wide + 1e-5) - gelu(wide - 1e-5)) / 2e-5


def softmax(x: Array) -> Array:
    e = np.exp(x.astype(np.float64))
    return e / e.sum(-1, keepdims=True)


# Name, arguments, and what comes out first.
CALLS: list[Call] = [
    ("Add", {"x1": A, "x2": ROW}, lambda: A + ROW),
    ("aclnnAdd", {"self": A, "other": ROW}, lambda: A + ROW),
    ("aclnnSub", {"self": A, "other": B, "alpha": 1}, lambda: A - B),
    ("aclnnMul", {"self": A, "other": B}, lambda: A * B),
    ("aclnnDiv", {"self": A, "other": POSITIVE}, lambda: A / POSITIVE),
    ("aclnnMaximum", {"self": A, "other": B}, lambda: np.maximum(A, B)),
    ("aclnnAdds", {"self": A, "other": 2.5}, lambda: A + 2.5),
    ("aclnnMuls", {"self": A, "other": 2.5}, lambda: A * 2.5),
    ("Muls", {"x": A, "value": 2.5}, lambda: A * 2.5),
    ("AddN", {"x0": A, "x1": B, "x2": A}, lambda: 2 * A + B),
    ("Neg", {"x": A}, lambda: -A),
    ("aclnnExp", {"self": A}, lambda: np.exp(A)),
    ("aclnnSqrt", {"self": POSITIVE}, lambda: np.sqrt(POSITIVE)),
    ("aclnnPowTensorTensor", {"self": POSITIVE, "exponent": B}, lambda: POSITIVE**B),
    ("aclnnLtTensor", {"self": A, "other": B}, lambda: A < B),
    ("aclnnLogicalAnd", {"self": MASK, "other": B > 0}, lambda: MASK & (B > 0)),
    ("aclnnSWhere", {"condition": MASK, "self": A, "other": B}, lambda: np.where(MASK, A, B)),
    ("MaskedScale", {"x": A, "mask": MASK.astype(np.uint8), "value": 2.0}, lambda: A * MASK * 2),
    ("aclnnCast", {"self": A, "dtype": "FLOAT16"}, lambda: A.astype(np.float16)),
    ("Cast", {"x": A, "y": np.zeros((6, 40), np.float16)}, lambda: A.astype(np.float16)),
    ("Fill", {"dims": [3, 7], "value": np.array([2.5], np.float32)}, lambda: np.full((3, 7), 2.5)),
    ("ZerosLike", {"x": A}, lambda: np.zeros_like(A)),
    ("aclnnRelu", {"self": A}, lambda: np.maximum(A, 0)),
    ("aclnnSigmoid", {"self": A}, lambda: sigmoid(A)),
    ("aclnnSilu", {"self": A}, lambda: A * sigmoid(A)),
    ("aclnnLeakyRelu", {"self": A, "negativeSlope": 0.3}, lambda: np.where(A > 0, A, 0.3 * A)),
    (
        "aclnnTanhBackward",
        {"gradOutput": B, "output": np.tanh(A)},
        lambda: B * (1 - np.tanh(A) ** 2),
    ),
    (
        "aclnnSwiGlu",
        {"x": A, "dim": -1},
        lambda: A[:, :20] * sigmoid(A[:, :20]) * A[:, 20:],
    ),
    ("aclnnReduceSum", {"self": A, "dims": [1], "keepDims": True}, lambda: A.sum(1, keepdims=True)),
    ("ReduceSum", {"x": A, "axes": [0]}, lambda: A.sum(0)),
    ("aclnnMean", {"self": A, "dim": [0, 1]}, A.mean),
    ("aclnnAmax", {"self": A, "dim": [-1]}, lambda: A.max(-1)),
    ("SquareSumV1", {"x": A, "axis": [0, 1]}, (A**2).sum),
    ("L2Loss", {"x": A}, lambda: (A**2).sum() / 2),
    ("aclnnSoftmax", {"self": A, "dim": -1}, lambda: softmax(A)),
    ("SoftmaxV2", {"x": A, "axes": [-1]}, lambda: softmax(A)),
    ("aclnnLogSoftmax", {"self": A, "dim": 1}, lambda: np.log(softmax(A))),
    (
        "aclnnSoftmaxBackward",
        {"gradOutput": B, "output": softmax(A).astype(np.float32), "dim": -1},
        lambda: softmax(A) * (B - (B * softmax(A)).sum(-1, keepdims=True)),
    ),
    (
        "aclnnLayerNorm",
        {
            "input": A,
            "normalizedShape": [40],
            "weightOptional": ROW,
            "biasOptional": ROW,
            "eps": 1e-5,
        },
        lambda: (A - A.mean(1)[:, None]) / np.sqrt(A.var(1)[:, None] + 1e-5) * ROW + ROW,
    ),
    (
        "aclnnRmsNorm",
        {"x": A, "gamma": ROW, "epsilon": 1e-6},
        lambda: A / np.sqrt((A**2).mean(1)[:, None] + 1e-6) * ROW,
    ),
    ("aclnnSoftsign", {"self": A}, lambda: A / (1 + np.abs(A))),
    ("aclnnSwish", {"self": A, "betaOptional": 2.0}, lambda: A * sigmoid(2 * A)),
    ("aclnnFastGeluV2", {"x": A}, lambda: A * (np.sign(A) * FAST_ERF + 0.5)),
    ("aclnnRealDiv", {"self": A, "other": POSITIVE}, lambda: A / POSITIVE),
    ("aclnnAddN", {"tensors0": A, "tensors1": B, "tensors2": A}, lambda: 2 * A + B),
    (
        "aclnnFusedMulAddN",
        {"x1": A, "x2": B, "x3": np.array([0.5], np.float32)},
        lambda: A * np.float32(0.5) + B,
    ),
    ("aclnnTensorMove", {"x": A}, lambda: A),
    ("aclnnGeluBackward", {"gradOutput": B, "self": A}, lambda: B * gelu_slope(A)),
    ("aclnnTanhGrad", {"y": np.tanh(A), "dy": B}, lambda: B * (1 - np.tanh(A) ** 2)),
    (
        "aclnnSoftmaxGrad",
        {"y": softmax(A).astype(np.float32), "dy": B},
        lambda: softmax(A) * (B - (B * softmax(A)).sum(-1, keepdims=True)),
    ),
    (
        "aclnnMseLossBackward",
        {"gradOutput": ROW, "self": A, "target": B, "reduction": 0},
        lambda: 2 * (A - B) * ROW,
    ),
    (
        "aclnnL1LossBackward",
        {"gradOutput": A, "self": A, "target": B, "reduction": 0},
        lambda: np.sign(A - B) * A,
    ),
    (
        "aclnnSmoothL1Loss",
        {"self": A, "target": B, "reduction": 0, "beta": 0.5},
        lambda: np.where(np.abs(A - B) < 0.5, (A - B) ** 2, np.abs(A - B) - 0.25),
    ),
    (
        "aclnnSmoothL1LossBackward",
        {"gradOut": A, "self": A, "target": B, "reduction": 0, "beta": 0.5},
        lambda: np.clip((A - B) / 0.5, -1, 1) * A,
    ),
    ("aclnnGatherV2", {"self": A, "dim": 0, "index": IDS}, lambda: A[IDS]),
    (
        "aclnnGatherNd",
        {"self": A, "indices": IDS[:, None], "out": np.zeros((4, 40), np.float32)},
        lambda: A[IDS],
    ),
    (
        "aclnnOneHot",
        {
            "self": IDS,
            "numClasses": 8,
            "onValue": np.array([1], np.float32),
            "offValue": np.array([0], np.float32),
            "axis": -1,
        },
        lambda: np.eye(8)[IDS],
    ),
    (
        "aclnnScatter",
        {"self": A, "dim": 1, "index": np.arange(240).reshape(6, 40) % 40, "src": B, "reduce": 0},
        lambda: B,
    ),
    ("aclnnMseLoss", {"self": A, "target": B, "reduction": 0}, lambda: (A - B) ** 2),
    ("MatMulV3", {"x1": A, "x2": B, "transpose_x2": True}, lambda: A @ B.T),
    ("MatMul", {"x1": A, "x2": np.ascontiguousarray(B.T)}, lambda: A @ B.T),
    ("aclnnMatmul", {"self": A, "mat2": B.T, "cubeMathType": 0}, lambda: A @ B.T),
    ("aclnnPermute", {"self": IMAGE, "dims": [1, 3, 0, 2]}, lambda: IMAGE.transpose(1, 3, 0, 2)),
    ("Transpose", {"x": IMAGE, "perm": [1, 3, 0, 2]}, lambda: IMAGE.transpose(1, 3, 0, 2)),
    ("aclnnCat", {"tensors0": A, "tensors1": B, "dim": 1}, lambda: np.concatenate([A, B], 1)),
    ("ConcatV2", {"x0": A, "x1": B, "concat_dim": 0}, lambda: np.concatenate([A, B])),
    ("aclnnStack", {"tensors0": A, "tensors1": B, "dim": 0}, lambda: np.stack([A, B])),
    ("SplitD", {"x": A, "split_dim": 1, "num_split": 4}, lambda: A[:, :10]),
    ("SplitV", {"x": A, "split_dim": 1, "size_splits": [7, 33]}, lambda: A[:, :7]),
    ("Unpack", {"x": A, "axis": 0, "num": 6}, lambda: A[0]),
    ("Slice", {"x": A, "offsets": [1, 3], "size": [4, 9]}, lambda: A[1:5, 3:12]),
    (
        "StridedSlice",
        {"x": A, "begin": [1, 3], "end": [5, 40], "strides": [2, 3]},
        lambda: A[1:5:2, 3:40:3],
    ),
    ("Pad", {"x": A, "paddings": [0, 1, 2, 3]}, lambda: np.pad(A, ((0, 1), (2, 3)))),
    ("aclnnExpand", {"self": ROW, "size": [5, -1]}, lambda: np.broadcast_to(ROW, (5, 40))),
    ("aclnnRepeat", {"self": A, "repeats": [2, 1, 3]}, lambda: np.tile(A, (2, 1, 3))),
    ("aclnnIndexSelect", {"self": A, "dim": 0, "index": IDS}, lambda: A[IDS]),
    ("aclnnIndexSelect", {"self": A, "dim": 1, "index": IDS}, lambda: A[:, IDS]),
    ("aclnnEmbedding", {"weight": A, "indices": IDS}, lambda: A[IDS]),
    ("GatherV2", {"x": A, "indices": IDS, "axis": 0}, lambda: A[IDS]),
    (
        "aclnnGather",
        {"self": A, "dim": 0, "index": np.full((2, 40), 5, np.int64)},
        lambda: A[[5, 5]],
    ),
    (
        "UnsortedSegmentSum",
        {"x": A[:4], "segment_ids": IDS, "num_segments": 6},
        lambda: np.array([A[:4][place == IDS].sum(0) for place in range(6)]),
    ),
    (
        "OneHotD",
        {
            "x": IDS,
            "on_value": np.ones(1, np.float32),
            "off_value": np.zeros(1, np.float32),
            "depth": 8,
        },
        lambda: np.eye(8)[IDS],
    ),
    (
        "aclnnUpsampleNearest2d",
        {"self": IMAGE, "outputSize": [8, 10]},
        lambda: IMAGE.repeat(2, 2).repeat(2, 3),
    ),
    (
        "aclnnForeachAddcdivScalar",
        {
            **{f"x{n}{k}": POSITIVE if n == 3 else A for n in (1, 2, 3) for k in (0, 1)},
            "scalar": np.array([0.5], np.float32),
        },
        lambda: A + 0.5 * A / POSITIVE,
    ),
    ("Silu", {"any": A}, lambda: A * sigmoid(A)),
]
