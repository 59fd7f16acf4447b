"""References of what training does between products, and of products that turn or pack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from support.references.streamed import (
    F16,
    F32,
    RNG,
    SCALES,
    centred,
    literal,
    numbers,
    shares,
    softmax,
)

if TYPE_CHECKING:
    from support.references.row import Array

GATES, CELL = numbers(2, 12), numbers(2, 3)
ENTER, FORGET, NEW, OUT = (each.astype(np.float64) for each in np.split(GATES, 4, -1))
ENTER, FORGET, OUT, NEW = (*(1 / (1 + np.exp(-g)) for g in (ENTER, FORGET, OUT)), np.tanh(NEW))
STATE = FORGET * CELL + ENTER * NEW
CLASSES, LABELS = numbers(4, 5), np.array([0, 3, 2, 4])
SHARES, WEIGHTS = softmax(CLASSES.astype(np.float64)), shares(5)
PICKED = np.eye(5)[LABELS]
BENT = numbers(4, 2)
UNDER = np.where(BENT > 0, 0, 1)
SLOPES = numbers(2)
MAPS, GAIN, SHIFT = numbers(2, 4, 3), numbers(4), numbers(4)
BY_GROUP, MEAN, RSTD = centred(MAPS.reshape(2, 2, 6))
ROWS_OF_MAPS = BY_GROUP.reshape(2, 4, 3) * GAIN[:, None] + SHIFT[:, None]
STEP, HYPER = np.full(1, 2, F32), {"beta1": 0.875, "beta2": 0.96875, "eps": 2**-20, "lr": 0.125}


def adam_w(var: Array, grad: Array, m: Array, v: Array, step: int, decay: float = 0.125) -> Any:
    """Weights and both moments by the formula of the page, in float64.

    Its numbers are the same in float32, which C takes some of them in.
    """
    var, grad, m, v = (each.astype(np.float64) for each in (var, grad, m, v))
    m, v = 0.875 * m + 0.125 * grad, 0.96875 * v + 0.03125 * grad**2
    root = np.sqrt(v / (1 - 0.96875**step)) + 2**-20
    return var * (1 - 0.125 * decay) - 0.125 * m / (1 - 0.875**step) / root, m, v


def lstm_cell_grad(dh: Array, dc: Array) -> tuple[Array, ...]:
    total = dh * OUT * (1 - np.tanh(STATE) ** 2) + dc
    gates = (total * NEW * ENTER * (1 - ENTER), total * CELL * FORGET * (1 - FORGET),
             total * ENTER * (1 - NEW**2), dh * np.tanh(STATE) * OUT * (1 - OUT))  # fmt: skip
    found = np.concatenate(gates, -1)
    return found, total * FORGET, found.sum(0)


def swish_grad(y: Array) -> Array:
    share = 1 / (1 + np.exp(-y))
    return np.asarray(share * (1 + y * (1 - share)))


def group_grad(dy: Array) -> tuple[Array, ...]:
    """By finite sums over the groups: the gradient of a normalised row."""
    normal = BY_GROUP.reshape(2, 4, 3)
    inner = (dy * GAIN[:, None]).reshape(2, 2, 6)
    flat = inner - inner.mean(-1, keepdims=True)
    flat -= BY_GROUP * (inner * BY_GROUP).mean(-1, keepdims=True)
    return (flat * RSTD).reshape(2, 4, 3), (dy * normal).sum((0, 2)), dy.sum((0, 2))


WEIGHT, GRADIENT, FIRST, SECOND, AVERAGE = (
    numbers(3, 4),
    numbers(3, 4),
    *(shares(3, 4) for _ in range(3)),
)
_EMA = adam_w(WEIGHT, GRADIENT, FIRST, SECOND, 2, 0.125)
_SPEED = 0.875 * FIRST.astype(np.float64) + (GRADIENT / 2 + 0.125 * WEIGHT)

HOLES = numbers(4, 6)
HOLES[0, 1] = HOLES[2, :5] = np.nan
ORDER = np.argsort(HOLES, -1, kind="stable")
PLACE = np.take_along_axis(ORDER, ((~np.isnan(HOLES)).sum(-1, keepdims=True) - 1) // 2, -1)
PATCHED = numbers(4, 5)
WANTED = PATCHED.copy()
WANTED[1:4:2, 0:3] = 7
STACK, OTHER = numbers(3, 5, 20, kind=F16), numbers(3, 20, 33, kind=F16)
TURNED = np.einsum("bmk,bkn->mbn", STACK.astype(F32), OTHER.astype(F32))
_ORDERS = {"permX1": [0, 1, 2], "permX2": [0, 1, 2], "permY": [1, 0, 2], "cubeMathType": 0,
    "batchSplitFactor": 1}  # fmt: skip
PARTS = RNG.integers(-5, 5, (2, 16, 32)).astype(np.int8)
PACKED = np.full(16, 0.5, F32).view(np.uint32).astype(np.uint64)

ROWS = tuple(literal(*call) for call in [
    ("aclnnNanMedian", {"self": HOLES}, np.asarray(np.nanquantile(HOLES, 0.5, method="lower"))),
    ("aclnnNanMedianDim", {"self": HOLES, "dim": 1, "keepDim": True},
        (np.take_along_axis(HOLES, PLACE, -1), PLACE)),
    ("aclnnStridedSliceAssignV2", {"varRef": PATCHED, "inputValue": np.full((2, 3), 7, F32),
        "begin": [1, 0], "end": [4, 3], "strides": [2, 1], "axesOptional": [0, 1]}, WANTED),
    *((f"aclnnTransposeBatchMatMul{ending}", {"x1": STACK, "x2": OTHER, **_ORDERS}, TURNED)
      for ending in ("", "WeightNz")),
    ("aclnnQuantMatmulV2", {"x1": PARTS, "x2": PARTS.transpose(0, 2, 1).copy(),
        "deqScale": PACKED, "adjX1": False, "adjX2": False},
        (PARTS.astype(int) @ PARTS.transpose(0, 2, 1)) * 0.5),
    ("aclnnApplyAdamWV2", {"varRef": WEIGHT, "mRef": FIRST, "vRef": SECOND,
        "maxGradNormOptionalRef": None, "grad": GRADIENT, "step": STEP, **HYPER,
        "weightDecay": 0.125, "amsgrad": False, "maximize": False},
        (*adam_w(WEIGHT, GRADIENT, FIRST, SECOND, 3), None)),
    ("aclnnApplyFusedEmaAdam", {"grad": GRADIENT, "varRef": WEIGHT, "mRef": FIRST,
        "vRef": SECOND, "sRef": AVERAGE, "step": np.full(1, 2), **HYPER, "emaDecay": 0.5,
        "mode": 1, "biasCorrection": True, "weightDecay": 0.125},
        (*_EMA, (AVERAGE + _EMA[0]) / 2)),
    ("aclnnFusedAdamw", {"paramsRef0": WEIGHT, "grads0": GRADIENT, "expAvgsRef0": FIRST,
        "expAvgSqsRef0": SECOND, "maxExpAvgSqsRef0": AVERAGE, "stateSteps0": STEP,
        "gradScaleOptional": STEP, **HYPER, "weightDecay": 0.125, "amsgrad": False,
        "maximize": False},
        tuple([each] for each in adam_w(WEIGHT, GRADIENT / 2, FIRST, SECOND, 2))),
    ("aclnnFusedSgd", {"paramsRef0": WEIGHT, "gradsRef0": GRADIENT,
        "momentumBufferListOptionalRef0": FIRST, "gradScaleOptional": STEP, "weightDecay": 0.125,
        "momentum": 0.875, "lr": 0.125, "dampening": 0.0, "nesterov": False, "maximize": False,
        "isFirstStep": False},
        ([WEIGHT - 0.125 * _SPEED], [GRADIENT / 2], [_SPEED])),
    ("aclnnForeachNonFiniteCheckAndUnscale", {"scaledGrads0": GRADIENT, "scaledGrads1": CELL,
        "foundInf": np.zeros(1, F32), "invScale": STEP},
        ([2 * GRADIENT, 2 * CELL], np.zeros(1))),
    ("aclnnThnnFusedLstmCell", {"inputGates": GATES, "hiddenGates": GATES * 0, "cx": CELL},
        (OUT * np.tanh(STATE), STATE, np.concatenate((ENTER, FORGET, NEW, OUT), -1))),
    ("aclnnThnnFusedLstmCellBackward", {"gradHyOptional": CELL, "gradCOptional": CELL,
        "cx": CELL, "cy": STATE.astype(F32), "hasBias": True,
        "storage": np.concatenate((ENTER, FORGET, NEW, OUT), -1).astype(F32)},
        lstm_cell_grad(CELL, CELL)),
    ("aclnnCrossEntropyLoss", {"input": CLASSES, "target": LABELS, "weightOptional": WEIGHTS,
        "reductionOptional": "mean", "ignoreIndex": -100, "labelSmoothing": 0.0,
        "lseSquareScaleForZloss": 0.0, "returnZloss": False},
        (np.array([-(np.log(SHARES) * PICKED * WEIGHTS).sum() / WEIGHTS[LABELS].sum()]),
         np.log(SHARES))),
    ("aclnnCrossEntropyLossGrad", {"gradLoss": np.ones((), F32),
        "logProb": np.log(SHARES).astype(F32), "target": LABELS, "weightOptional": WEIGHTS,
        "reductionOptional": "mean", "ignoreIndex": -100, "labelSmoothing": 0.0,
        "lseSquareScaleForZloss": 0.0},
        (SHARES - PICKED) * WEIGHTS[LABELS, None] / WEIGHTS[LABELS].sum()),
    ("aclnnModulateBackward", {"grad_output": MAPS, "input": MAPS + 1, "scale": MAPS[:, 0],
        "shift": MAPS[:, 0]}, (MAPS * MAPS[:, :1], (MAPS * (MAPS + 1)).sum(1), MAPS.sum(1))),
    ("aclnnMaskedSoftmaxWithRelPosBias", {"x": MAPS.reshape(1, 2, 1, 4, 3),
        "attenMaskOptional": MAPS + 1, "relativePosBias": MAPS[:1], "scaleValue": 0.5,
        "innerPrecisionMode": 0},
        softmax(1.5 * MAPS + 1 + MAPS[:1]).reshape(1, 2, 1, 4, 3)),
    ("aclnnDequantBias", {"x": np.arange(6, dtype=np.int32).reshape(2, 3),
        "weightScale": SCALES[:3].copy(), "activateScaleOptional": SCALES[:2].copy(),
        "outputDtype": 1}, np.arange(6).reshape(2, 3) * SCALES[:3] * SCALES[:2, None]),
    ("aclnnPreluBackward", {"gradOutput": BENT * 2, "self": BENT, "weight": SLOPES},
        (2 * BENT * np.where(UNDER, SLOPES, 1), (2 * BENT * BENT * UNDER).sum(0))),
    ("aclnnGroupNormSwish", {"x": MAPS, "gamma": GAIN, "beta": SHIFT, "numGroups": 2,
        "dataFormatOptional": "NCHW", "eps": 1e-5, "activateSwish": True, "swishScale": 1.0},
        (ROWS_OF_MAPS / (1 + np.exp(-ROWS_OF_MAPS)), MEAN[..., 0], RSTD[..., 0])),
    ("aclnnGroupNormSwishGrad", {"dy": MAPS, "mean": MEAN[..., 0].astype(F32),
        "rstd": RSTD[..., 0].astype(F32), "x": MAPS, "gamma": GAIN, "beta": SHIFT,
        "numGroups": 2, "dataFormatOptional": "NCHW", "swishScale": 1.0,
        "dgammaIsRequire": True, "dbetaIsRequire": True},
        group_grad(MAPS * swish_grad(ROWS_OF_MAPS))),
])  # fmt: skip
