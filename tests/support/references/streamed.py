"""References of interfaces where data decide, or whose kernels pass all through UB once.

The calls are these, and not drawn: what comes out hangs on data that belong together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

from support.references.row import Array, Draw, Row, outputs_of

RNG = np.random.default_rng(0)
F32, F16 = np.float32, np.float16


def numbers(*shape: int, kind: Any = F32) -> Array:
    return RNG.standard_normal(shape).astype(kind)


def shares(*shape: int) -> Array:
    return RNG.uniform(0.1, 0.9, shape).astype(F32)


def in_front(found: Array, size: int) -> Array:
    whole = np.zeros(size)
    whole[: found.size] = found.reshape(-1)
    return whole


def centred(x: Array) -> tuple[Array, Array, Array]:
    x = x.astype(np.float64)
    mean, rstd = x.mean(-1, keepdims=True), 1 / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    return (x - mean) * rstd, mean, rstd


def by_root(x: Array) -> tuple[Array, Array]:
    x = x.astype(np.float64)
    rstd = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)
    return x * rstd, rstd


def bytes_of(x: Array) -> Array:
    return np.clip(np.rint(x), -128, 127)


def by_rows(x: Array, *between: Array) -> tuple[Array, ...]:
    """Bytes by a scale for each row, and the scales."""
    scale = abs(x).max(-1, keepdims=True) / 127
    return (bytes_of(x / scale), *between, scale[..., 0])


def gelu(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3)))


def softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


COARSE = RNG.integers(-1, 2, (5, 7)).astype(F32)
PLACES, MASK = np.argwhere(COARSE), COARSE > 0
NEW = numbers(35)
PUT = COARSE.copy()
PUT[MASK] = NEW[: MASK.sum()]
SMALL = RNG.integers(0, 5, 20).astype(F32)
FOUND, INVERSE, COUNTS = np.unique(SMALL, return_inverse=True, return_counts=True)
RUNS = np.array([1, 1, 2, 2, 2, 1, 3], F32)
LINES = np.array([[1, 2], [0, 5], [1, 2]], F32)
CUBE = numbers(4, 5, 6)
FIRST, J = RNG.integers(0, 4, 3), RNG.integers(0, 5, (2, 3))
CHOSEN = numbers(2, 3, 6)
CHANGED = CUBE.copy()
CHANGED[FIRST, J] = CHOSEN
FILLED = CUBE.copy()
FILLED[:, [1, 3]] = 2
TIMES = np.array([1, 2, 0, 3, 1])
AT = RNG.integers(0, 5, (2, 7))
AT[1] = (AT[0] + 1) % 5
SET, SUMMED = COARSE.copy(), COARSE.copy()
np.put_along_axis(SET, AT, 9, 0)
MORE = numbers(2, 7)
np.add.at(SUMMED, (AT, np.arange(7)), MORE)
TABLE = numbers(10, 4)
IDS, STARTS = np.array([1, 2, 4, 5, 4, 3, 2, 9]), np.array([0, 4])
SHRUNK = TABLE * np.minimum(1, 1 / (np.linalg.norm(TABLE, axis=1, keepdims=True) + 1e-7))
SOME = TABLE.copy()
SOME[[1, 2]] = SHRUNK[[1, 2]]
X, Y = numbers(3, 4, 32), numbers(3, 4, 32)
GAIN, SHIFT = shares(32), numbers(32)
HALF, OTHER = X.astype(F16), Y.astype(F16)
LINE, MOVE = GAIN.astype(F16), SHIFT.astype(F16)
GAINS = shares(3, 32)
SUM, MEAN, RSTD = centred(X + Y)
DEEP, DEEP_MEAN, DEEP_RSTD = centred(0.3 * X + Y)
ROOT = by_root(HALF)[0] * LINE
ROOT_OF_SUM, ROOT_RSTD = by_root(HALF.astype(np.float64) + OTHER)
Z, U = numbers(4, 6), shares(4, 6)
SCALES, NONE = shares(6), np.zeros(6, np.int32)
WHOLE = np.rint(Z / SCALES)
THREE = shares(3, 4)
A, B = numbers(2, 5, 3), numbers(2, 4, 3)
APART = abs(A[:, :, None] - B[:, None]).astype(np.float64)
BETWEEN = np.tril(np.exp(A.cumsum(-1)[..., None] - A.cumsum(-1)[..., None, :]))
SCORES, HIDDEN = numbers(2, 2, 5, 3), RNG.random((2, 1, 5, 3)) > 0.5
WEIGHED = softmax(SCORES)
WINDOWS = numbers(3, 2, 3)
COVERED = np.zeros((8, 2))
for place in range(3):
    COVERED[2 * place : 2 * place + 3] += WINDOWS[place].T
TARGET = np.array([[3, 0, -1, 1, 2, 2], [5, -1, 0, 0, 0, 0]], np.int32)
IS = np.array([[1, 0, 0, 1, 0, 0], [0, 0, 0, 0, 0, 1]])
MARGINS = np.maximum(0, 1 - (Z[:2, :, None] - Z[:2, None])) * IS[:, :, None] * (1 - IS[:, None])
ONE = np.ones(1, F32)
MAPS, GRADS = numbers(3, 4, 5, 6), numbers(3, 4, 5, 6)
WEIGHT, BIAS, OWN = shares(4), numbers(4), MAPS.mean((0, 2, 3))
INVERSE_STD = 1 / np.sqrt(MAPS.var((0, 2, 3)) + 1e-5)
UNIT = (MAPS - OWN[:, None, None]) * INVERSE_STD[:, None, None]
DSUM, DUNIT = GRADS.sum((0, 2, 3)), (GRADS * UNIT).sum((0, 2, 3))
DMAPS = (WEIGHT * INVERSE_STD)[:, None, None] * (
    GRADS - DSUM[:, None, None] / 90 - UNIT * DUNIT[:, None, None] / 90
)
SAVED = {"mean": OWN, "invstd": INVERSE_STD}
QKV = numbers(2, 5, 24)
HEADS = (QKV + QKV[0, 0]).reshape(2, 5, 3, 2, 4).transpose(2, 0, 3, 1, 4)
EPSILON = {"epsilon": 1e-5}
NORMED = centred(HALF.astype(F32) + OTHER)[0] * LINE + MOVE
EVEN = np.rint(Z / SCALES[0])
CHOICE = RNG.permutation(30)[:6].reshape(2, 3) + np.zeros((3, 4, 1, 1), np.int64)
PICKED = np.take_along_axis(MAPS.reshape(3, 4, 30), CHOICE.reshape(3, 4, 6), 2).reshape(3, 4, 2, 3)
ADAPTED = (centred(X)[0] * GAIN + SHIFT) * (1 + GAINS[:, None]) + GAINS[:, None]
PARTS = np.stack([MAPS[..., :3], MAPS[..., 3:]]).transpose(0, 2, 1, 3, 4).copy()
MOVED = 0.9 * BIAS + 0.1 * OWN, 0.9 * WEIGHT + 0.1 * MAPS.var((0, 2, 3), ddof=1)
EIGHT = RNG.integers(-9, 9, (5, 20)).astype(np.int8)
WORDS = np.array([1.5, 2.25], F32).view(np.uint32).astype(np.int64) & 0xFFFFE000

# Interface, arguments, results; what stands behind them isn't said by the interface.
CALLS: list[tuple[str, dict[str, Any], Any]] = [
    ("aclnnNonzero", {"self": COARSE}, in_front(PLACES, 70).reshape(35, 2)),
    ("aclnnNonzeroV2", {"self": COARSE}, in_front(PLACES.T, 70).reshape(2, 35)),
    ("aclnnMaskedSelect", {"self": COARSE, "mask": MASK}, in_front(COARSE[MASK], 35)),
    ("aclnnInplaceMaskedScatter", {"selfRef": COARSE, "mask": MASK, "source": NEW}, PUT),
    ("aclnnUnique", {"self": SMALL, "sorted": True, "returnInverse": True,
        "valueOut": SMALL.copy(), "inverseOut": np.zeros(20, np.int64)},
        (in_front(FOUND, 20), INVERSE)),
    ("aclnnUnique2", {"self": SMALL, "sorted": True, "returnInverse": True, "returnCounts": True},
        (in_front(FOUND, 20), INVERSE, in_front(COUNTS, 20))),
    ("aclnnUniqueDim", {"self": LINES, "sorted": True, "returnInverse": True, "dim": 0},
        (np.array([[0, 5], [1, 2], [0, 0]]), np.array([1, 0, 1]), np.array([1, 2, 0]))),
    ("aclnnUniqueConsecutive", {"self": RUNS, "returnInverse": True, "returnCounts": True,
        "dim": 9}, (in_front(np.array([1, 2, 1, 3]), 7), np.array([0, 0, 1, 1, 1, 2, 3]),
        in_front(np.array([2, 3, 1, 1]), 7))),
    ("aclnnIndex", {"self": CUBE, "indices0": FIRST, "indices1": J}, CUBE[FIRST, J]),
    ("aclnnIndex", {"self": CUBE, "indices0": np.zeros(0, np.int64), "indices1": J,
        "out": np.zeros((4, 2, 3, 6), F32)}, CUBE[:, J]),
    ("aclnnIndexPutImpl", {"selfRef": CUBE, "indices0": FIRST, "indices1": J, "values": CHOSEN,
        "accumulate": False, "unsafe": False}, CHANGED),
    ("aclnnIndexFill", {"self": CUBE, "dim": 1, "index": np.array([1, 3]), "value": 2.0}, FILLED),
    ("aclnnIndexFillTensor", {"self": CUBE, "dim": 1, "index": [1, 3], "value": 2.0}, FILLED),
    ("aclnnIndexAddV2", {"self": COARSE, "dim": 0, "index": np.array([1, 3]), "source": MORE,
        "alpha": 2.0, "mode": 0},
        COARSE + 2 * np.stack([0 * MORE[0], MORE[0], 0 * MORE[0], MORE[1], 0 * MORE[0]])),
    ("aclnnRepeatInterleave", {"self": COARSE, "repeats": np.array([2]), "outputSize": 70},
        np.repeat(COARSE, 2)),
    ("aclnnRepeatInterleaveWithDim", {"self": COARSE, "repeats": TIMES, "dim": 0, "outputSize": 7},
        np.repeat(COARSE, TIMES, 0)),
    ("aclnnRepeatInterleaveTensor", {"repeats": TIMES, "outputSize": 7},
        np.repeat(np.arange(5), TIMES)),
    ("aclnnScatterValue", {"self": COARSE, "dim": 0, "index": AT, "value": 9.0, "reduce": 0}, SET),
    ("aclnnScatterReduce", {"self": COARSE, "dim": 0, "index": AT, "src": MORE, "reduce": 1,
        "includeSelf": True}, SUMMED),
    ("aclnnEmbeddingBag", {"weight": TABLE, "indices": IDS, "offsets": STARTS,
        "scaleGradByFreq": False, "mode": 1, "sparse": False, "includeLastOffset": False,
        "paddingIdx": -1}, (np.stack([TABLE[IDS[:4]].mean(0), TABLE[IDS[4:]].mean(0)]),
        np.repeat([0, 1], 4), np.array([4, 4]), np.array([4, 4]))),
    ("aclnnRenorm", {"self": TABLE, "p": 2.0, "dim": 0, "maxNorm": 1.0}, SHRUNK),
    ("aclnnEmbeddingRenorm", {"selfRef": TABLE, "indices": np.array([1, 2]), "maxNorm": 1.0,
        "normType": 2.0}, SOME),
    ("aclnnAddLayerNorm", {"x1": X, "x2": Y, "gamma": GAIN, "beta": SHIFT, **EPSILON,
        "additionalOutput": True}, (SUM * GAIN + SHIFT, MEAN, RSTD, X + Y)),
    ("aclnnDeepNorm", {"x": X, "gx": Y, "gamma": GAIN, "beta": SHIFT, "alpha": 0.3, **EPSILON},
        (DEEP_MEAN, DEEP_RSTD, DEEP * GAIN + SHIFT)),
    ("aclnnAdaLayerNorm", {"x": X, "scale": GAINS, "shift": GAINS, "weightOptional": GAIN,
        "biasOptional": SHIFT, **EPSILON},
        (centred(X)[0] * GAIN + SHIFT) * (1 + GAINS[:, None]) + GAINS[:, None]),
    ("aclnnGemmaRmsNorm", {"x": X, "gamma": GAIN, **EPSILON},
        (by_root(X)[0] * (1 + GAIN), by_root(X)[1])),
    ("aclnnAddRmsNormCast", {"x1": HALF, "x2": OTHER, "gamma": LINE, **EPSILON},
        (ROOT_OF_SUM * LINE, ROOT_OF_SUM * LINE, ROOT_RSTD, HALF + OTHER)),
    ("aclnnRmsNormQuant", {"x": HALF, "gamma": LINE, "beta": MOVE, **EPSILON,
        "scale": np.array([8], F16), "offset": np.array([1], np.int8)},
        bytes_of((ROOT + MOVE) * 8 + 1)),
    ("aclnnLayerNormQuant", {"x": HALF, "gammma": LINE, "beta": MOVE, "quantMode": 0, **EPSILON,
        "scale": np.array([8], F16), "zeroPointsOptional": np.array([1], np.int8)},
        bytes_of((centred(HALF)[0] * LINE + MOVE) * 8 + 1)),
    ("aclnnRmsNormDynamicQuant", {"x": HALF, "gamma": LINE, **EPSILON, "dstType": 2},
        (bytes_of(ROOT * 127 / abs(ROOT).max(-1, keepdims=True)), abs(ROOT).max(-1) / 127)),
    ("aclnnTransQuantParamV2", {"scale": np.array([1.5, 2.25], F32)}, WORDS | 1 << 46),
    ("aclnnFakeQuantPerChannelAffineCachemask", {"self": Z, "scale": SCALES, "zeroPoint": NONE,
        "axis": 1, "quantMin": -2, "quantMax": 2},
        (np.clip(WHOLE, -2, 2) * SCALES, abs(WHOLE) <= 2)),
    ("aclnnQuantize", {"x": Z, "scales": SCALES, "zeroPoints": NONE, "axis": 1, "dtype": 2,
        "out": np.zeros((4, 6), np.int8)}, WHOLE),
    ("aclnnGroupQuant", {"x": 20 * Z, "scale": np.stack([SCALES, 2 * SCALES]), "dstType": 2,
        "groupIndex": np.array([1, 4], np.int32), "offsetOptional": ONE},
        bytes_of(20 * Z * np.stack([SCALES, *[2 * SCALES] * 3]) + 1)),
    ("aclnnReal", {"self": (Z + 1j * U).astype(np.complex64)}, Z),
    ("aclnnAngleV2", {"x": Z, "out": Z.copy()}, np.angle(Z)),
    ("aclnnGcd", {"self": np.array([12, 18, 7], np.int32), "other": np.array([8], np.int32)},
        np.array([4, 2, 1])),
    ("aclnnLogit", {"input": U, "eps": 0.2}, np.log((c := np.clip(U, 0.2, 0.8)) / (1 - c))),
    ("aclnnLogitGrad", {"x": U, "dy": Z, "eps": -1.0}, Z / (U * (1 - U))),
    ("aclnnGeluMul", {"input": Z}, gelu(Z[:, :3]) * Z[:, 3:]),
    ("aclnnFatreluMul", {"input": Z, "threshold": Z[0, :1].copy()},
        np.where(Z[:, :3] > Z[0, 0], Z[:, :3], 0) * Z[:, 3:]),
    ("aclnnClippedSwiglu", {"x": Z, "dim": -1, "alpha": 1.5, "limit": 1.0, "bias": 1.0,
        "interleaved": True, "out": Z[:, :3].copy()}, (g := np.minimum(Z[:, ::2], 1))
        / (1 + np.exp(-1.5 * g)) * (np.clip(Z[:, 1::2], -1, 1) + 1)),
    ("aclnnSituGlu", {"x": Z, "dim": -1, "beta": 2.0, "linearBeta": 0.0, "activateLeft": True,
        "out": Z[:, :3].copy()},
        2 * np.tanh(Z[:, :3] / 2) / (1 + np.exp(-Z[:, :3])) * Z[:, 3:]),
    ("aclnnSignBitsPack", {"self": Z.reshape(-1)[:16].copy(), "size": 2,
        "out": np.zeros((2, 1), np.uint8)},
        np.packbits(Z.reshape(-1)[:16] >= 0, bitorder="little").reshape(2, 1)),
    ("aclnnLinalgCross", {"self": THREE, "other": THREE[:, ::-1].copy(), "dim": 0},
        np.cross(THREE, THREE[:, ::-1], axis=0)),
    ("aclnnHistc", {"self": Z, "bins": 5, "min": -1.0, "max": 1.0},
        np.histogram(Z, 5, (-1, 1))[0]),
    ("aclnnCdist", {"x1": A, "x2": B, "p": 3.0, "compute_mode": 0},
        (APART**3).sum(-1) ** (1 / 3)),
    ("aclnnExpSegsum", {"self": A}, BETWEEN),
    ("aclnnScaledMaskedSoftmax", {"x": SCORES, "mask": HIDDEN, "scale": 2.0,
        "fixedTriuMask": False}, softmax(np.where(HIDDEN, -10000, 2 * SCORES))),
    ("aclnnScaledMaskedSoftmaxBackward", {"gradOutput": SCORES, "y": WEIGHED.astype(F32),
        "mask": HIDDEN, "scale": 2.0, "fixTriuMask": False}, np.where(HIDDEN, 0, 2 * WEIGHED
        * (SCORES - (SCORES * WEIGHED).sum(-1, keepdims=True)))),
    ("aclnnMultilabelMarginLoss", {"self": Z[:2].copy(), "target": TARGET, "reduction": 0,
        "out": np.zeros(2, F32), "isTarget": np.zeros((2, 6), F32)},
        (MARGINS.sum((1, 2)) / 6, IS)),
    ("aclnnAmpUpdateScale", {"currentScale": ONE, "growthTracker": np.zeros(1, np.int32),
        "foundInf": 0 * ONE, "growthFactor": 2.0, "backoffFactor": 0.5, "growthInterval": 1,
        "updatedScale": ONE.copy(), "updatedGrowthTracker": np.zeros(1, np.int32)}, ([2], [0])),
    ("aclnnGroupedBiasAddGrad", {"gradY": Z, "groupIdxOptional": np.array([1, 4], np.int32)},
        np.stack([Z[0], Z[1:].sum(0)])),
    ("aclnnGroupedBiasAddGradV2", {"gradY": Z, "groupIdxOptional": np.array([1, 3], np.int32),
        "groupIdxType": 1}, np.stack([Z[0], Z[1:].sum(0)])),
    ("aclnnCumsumV2", {"self": Z, "dim": 1, "exclusive": True, "reverse": True},
        Z[:, ::-1].cumsum(1)[:, ::-1] - Z),
    ("aclnnModulate", {"self": A, "scaleOptional": A[:, 0].copy(),
        "shiftOptional": A[:, :1].copy()},
        A * (1 + A[:, :1]) + A[:, :1]),
    ("aclnnScale", {"x": Z, "scale": Z[:, 0].copy(), "bias": Z[:, 1].copy(), "axis": 0,
        "numAxes": 1, "scaleFromBlob": True}, Z * Z[:, :1] + Z[:, 1:2]),
    ("aclnnTransformBiasRescaleQkv", {"qkv": QKV, "qkvBias": QKV[0, 0].copy(), "numHeads": 2},
        (HEADS[0] / 2, HEADS[1], HEADS[2])),
    ("aclnnUnfoldGrad", {"gradOut": WINDOWS, "inputSizes": [8, 2], "dim": 0, "size": 3, "step": 2},
        COVERED),
    ("aclnnChunkCat", {"tensors0": Z, "tensors1": THREE, "dim": 0, "numChunks": 2},
        np.concatenate([Z.reshape(2, 12), np.append(THREE.reshape(-1), 4 * [0]).reshape(2, 8)], 1)),
    ("aclnnBatchNorm", {"input": MAPS, "weight": WEIGHT, "bias": BIAS, "training": True,
        "momentum": 0.1, "eps": 1e-5},
        {"output": UNIT * WEIGHT[:, None, None] + BIAS[:, None, None], "saveMean": OWN,
         "saveInvstd": INVERSE_STD}),
    ("aclnnBatchNormBackward", {"gradOut": GRADS, "input": MAPS, "weight": WEIGHT,
        "saveMean": OWN, "saveInvstd": INVERSE_STD, "training": True, "eps": 1e-5,
        "outputMask": [True, True, True]}, (DMAPS, DUNIT, DSUM)),
    ("aclnnBatchNormStats", {"input": MAPS, "eps": 1e-5}, (OWN, INVERSE_STD)),
    ("aclnnBatchNormReduce", {"x": MAPS}, (MAPS.sum((0, 2, 3)), (MAPS**2).sum((0, 2, 3)))),
    ("aclnnBatchNormReduceBackward", {"gradOut": GRADS, "input": MAPS, **SAVED, "weight": WEIGHT,
        "inputG": True, "weightG": True, "biasG": True},
        (DSUM, DUNIT / INVERSE_STD, DUNIT, DSUM)),
    ("aclnnInplaceIndexFill", {"selfRef": CUBE, "dim": 1, "index": np.array([1, 3]), "value": 2.0},
        FILLED),
    ("aclnnInplaceIndexFillTensor", {"selfRef": CUBE, "dim": 1, "index": [1, 3], "value": 2.0},
        FILLED),
    ("aclnnInplaceRenorm", {"selfRef": TABLE, "p": 2.0, "dim": 0, "maxNorm": 1.0}, SHRUNK),
    ("aclnnCumsum", {"self": Z, "dim": 1, "dtype": 0}, Z.cumsum(1)),
    ("aclnnComplex", {"real": Z, "imag": U}, Z + 1j * U),
    ("aclnnPolar", {"input": U, "angle": Z}, U * np.exp(1j * Z)),
    ("aclnnPrecisionCompare", {"golden": Z, "realdata": Z.copy(),
        "out": np.ones(1, np.uint32)}, [0]),
    ("aclnnSignBitsUnpack", {"self": np.array([5, 128], np.uint8), "size": 2, "dtype": 0,
        "out": np.zeros((2, 8), F32)},
        2.0 * np.unpackbits(np.array([[5], [128]], np.uint8), 1, bitorder="little") - 1),
    ("aclnnTransQuantParamV3", {"scale": np.array([1.5, 2.25], F32), "roundMode": 0},
        WORDS | 1 << 46),
    ("aclnnFakeQuantPerTensorAffineCachemask", {"self": Z, "scale": SCALES[:1].copy(),
        "zeroPoint": NONE[:1].copy(), "fakeQuantEnbled": 1.0, "quantMin": -2, "quantMax": 2},
        (np.clip(EVEN, -2, 2) * SCALES[0], abs(EVEN) <= 2)),
    ("aclnnMaxUnpool2dBackward", {"gradOutput": MAPS, "self": MAPS[..., :2, :3].copy(),
        "indices": CHOICE, "outputSize": [5, 6]}, PICKED),
    ("aclnnMaxUnpool3dBackward", {"gradOutput": MAPS[None],
        "self": MAPS[None, :, :2, :1, :3].copy(), "indices": CHOICE[None, :, :2, :1].copy(),
        "outputSize": [4, 5, 6], "stride": [2, 2, 2], "padding": [0, 0, 0]},
        np.take_along_axis(MAPS.reshape(3, 120), CHOICE[:, :2, :1].reshape(3, 6), 1)
        .reshape(1, 3, 2, 1, 3)),
    ("aclnnAdaLayerNormV2", {"x": X, "scale": GAINS, "shift": GAINS, "weightOptional": GAIN,
        "biasOptional": SHIFT, **EPSILON}, (ADAPTED, *centred(X)[1:])),
    ("aclnnAdaLayerNormQuant", {"x": HALF, "scale": GAINS.astype(F16), "shift": GAINS.astype(F16),
        "weightOptional": LINE, "biasOptional": MOVE, **EPSILON, "quantMode": "dynamic"},
        by_rows((centred(HALF)[0] * LINE + MOVE) * (1 + GAINS[:, None]) + GAINS[:, None])),
    ("aclnnAddRmsNormQuantV2", {"x1": HALF, "x2": OTHER, "gamma": LINE, "scales1": 0.125 / GAIN,
        "betaOptional": MOVE, "axis": -1, **EPSILON, "divMode": True},
        {"y1Out": bytes_of((ROOT_OF_SUM * LINE + MOVE) * 8 * GAIN), "xOut": HALF + OTHER,
         "rmsNormOut": ROOT_OF_SUM * LINE}),
    ("aclnnAddRmsNormDynamicQuantV2", {"x1": HALF, "x2": OTHER, "gamma": LINE, "betaOptional": MOVE,
        **EPSILON, "outputMask": [True, False]}, dict(zip(("y1Out", "xOut", "scale1Out"),
            by_rows(ROOT_OF_SUM * LINE + MOVE, HALF + OTHER), strict=True))),
    ("aclnnAddLayerNormQuantV2", {"x1": HALF, "x2": OTHER, "gamma": LINE, "beta": MOVE,
        "quantMode": "dynamic", **EPSILON, "additionalOutput": True, "divMode": True},
        dict(zip(("y1Out", "xOut", "layernormRes", "outScales1Out"),
            by_rows(NORMED, HALF + OTHER, NORMED), strict=True))),
    ("aclnnBatchNormElemt", {"input": MAPS, "weight": WEIGHT, "bias": BIAS, "mean": OWN,
        "invstd": INVERSE_STD, "eps": 1e-5},
        {"output": UNIT * WEIGHT[:, None, None] + BIAS[:, None, None]}),
    ("aclnnBatchNormElemtBackward", {"gradOut": GRADS, "input": MAPS, **SAVED, "weight": WEIGHT,
        "sumDy": DSUM, "sumDyXmu": DUNIT / INVERSE_STD, "counter": np.array([90], np.int32)},
        {"gradInput": DMAPS}),
    ("aclnnFastBatchNormBackward", {"gradOut": GRADS, "input": MAPS, "weight": WEIGHT,
        "saveMean": OWN, "saveInvstd": INVERSE_STD, "training": True, "eps": 1e-5,
        "outputMask": [True, True, True], "version": 0}, (DMAPS, DUNIT, DSUM)),
    ("aclnnBatchNormGatherStatsWithCounts", {"input": MAPS, "mean": PARTS.mean((2, 3, 4)),
        "invstd": 1 / np.sqrt(PARTS.var((2, 3, 4)) + 1e-5), "runningMean": BIAS,
        "runningVar": WEIGHT, "momentum": 0.1, "eps": 1e-5, "counts": np.array([45, 45], F32)},
        (OWN, INVERSE_STD, *MOVED)),
    ("aclnnSyncBatchNormGatherStats", {"totalSum": PARTS.sum((2, 3, 4)),
        "totalSquareSum": (PARTS**2).sum((2, 3, 4)), "sampleCount": np.array([45, 45], np.int32),
        "mean": BIAS, "variance": WEIGHT, "momentum": 0.1, "eps": 1e-5},
        (OWN, INVERSE_STD, *MOVED)),
    ("aclnnQuantMatmulV3", {"x1": EIGHT, "x2": EIGHT.T.copy(), "scale": SCALES[:5].copy(),
        "transposeX1": False, "transposeX2": False, "out": np.zeros((5, 5), ml_dtypes.bfloat16)},
        (EIGHT.astype(int) @ EIGHT.T) * SCALES[:5]),
    ("aclnnQuantMatmulV5", {"x1": EIGHT, "x2": EIGHT.T.copy(), "x1Scale": SCALES[1:].copy(),
        "x2Scale": SCALES[:5].copy(), "transposeX1": False, "transposeX2": False, "groupSize": 0,
        "out": np.zeros((5, 5), np.float16)},
        (EIGHT.astype(int) @ EIGHT.T) * SCALES[:5] * SCALES[1:, None]),
    ("aclnnQuantMatmulWeightNz", {"x1": EIGHT, "x2": EIGHT.T.copy(), "x1Scale": SCALES[1:].copy(),
        "x2Scale": SCALES[:5].copy(), "transposeX1": False, "transposeX2": False, "groupSize": 0,
        "out": np.zeros((5, 5), np.float16)},
        (EIGHT.astype(int) @ EIGHT.T) * SCALES[:5] * SCALES[1:, None]),
]  # fmt: skip


def literal(api: str, given: dict[str, Any], want: Any) -> Row:
    """A call as it stands; numbers within some thousandths, a byte off where half types round.

    What comes out is one array, several in the results' order, or some of them by name.
    """

    def make(_: Draw) -> Mapping[str, Any]:
        pairs = given.items()
        return {key: each.copy() if isinstance(each, np.ndarray) else each for key, each in pairs}

    if isinstance(want, dict):
        want = tuple(want.get(name) for name in outputs_of(api))
    several = want if isinstance(want, tuple) else (want,)
    arrays = tuple(each if each is None or _is_list(each) else np.asarray(each) for each in several)
    whole = (each for each in arrays if not _is_list(each))
    named = not any(np.iscomplexobj(each) for each in whole)  # the dtypes of others are known
    return Row(api, make, lambda *_: arrays, loose=_LOOSE, natural=False, off=1, given=named)


def _is_list(each: Any) -> bool:
    """Whether a result is a list of tensors, and no tensor that is written as one."""
    return isinstance(each, list) and isinstance(each[0], np.ndarray)


_LOOSE = 100
ROWS = tuple(literal(*call) for call in CALLS)
