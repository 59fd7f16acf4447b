"""The calls that are timed: every operator at large shapes, and standard ones."""

from __future__ import annotations

from typing import Any

import npusim
from npusim import TensorSpec
from npusim.operators.tasks import TaskSpec, kernels_of
from npusim.runtime.task import run_tasks

CHIP = "Ascend910B3"
DEVICE = npusim.Device(CHIP)
MAPS = ((100, 136), (50, 68), (25, 34), (13, 17))  # an image of 800 x 1088 in four levels

Call = tuple[str, dict[str, Any]]


def cross_entropy(elements: int, kind: str = "float32") -> Call:
    x = TensorSpec((elements,), kind)
    names = ("gradOutput", "self", "target", "weightOptional")
    return "aclnnBinaryCrossEntropyBackward", {**dict.fromkeys(names, x), "reduction": 0}


def group_norm(batch: int, channels: int, size: int, group: int, kind: str = "bfloat16") -> Call:
    shapes = ((batch, channels, size), (batch, group), (channels,))
    x, statistics, gamma = (TensorSpec(shape, kind) for shape in shapes)
    return "aclnnGroupNormBackward", {
        "gradOut": x,
        "input": x,
        "mean": statistics,
        "rstd": statistics,
        "gamma": gamma,
        "N": batch,
        "C": channels,
        "HxW": size,
        "group": group,
        "outputMask": [True, True, True],
    }


def roi_align(boxes: int, channels: int, height: int, width: int) -> Call:
    return "aclnnRoiAlignV2Backward", {
        "gradOutput": TensorSpec((boxes, channels, 7, 7), "float32", "NCHW"),
        "boxes": TensorSpec((boxes, 5), "float32"),
        "inputShape": [1, channels, height, width],
        "pooledHeight": 7,
        "pooledWidth": 7,
        "spatialScale": 0.25,
        "samplingRatio": 2,
        "aligned": True,
    }


def upsample(batch: int, channels: int, long: int, short: int) -> Call:
    return "aclnnUpsampleNearestExact1dBackward", {
        "gradOutput": TensorSpec((batch, channels, long), "float32"),
        "outputSize": [long],
        "inputSize": [batch, channels, short],
        "scales": 0.0,
    }


def deformable(queries: int) -> Call:
    levels, places = len(MAPS), (1, queries, 8, len(MAPS), 4)
    keys = sum(height * width for height, width in MAPS)
    return "aclnnMultiScaleDeformableAttentionGrad", {
        "value": TensorSpec((1, keys, 8, 32), "float32"),
        "spatialShape": TensorSpec((levels, 2), "int32"),
        "levelStartIndex": TensorSpec((levels,), "int32"),
        "location": TensorSpec((*places, 2), "float32"),
        "attnWeight": TensorSpec(places, "float32"),
        "gradOutput": TensorSpec((1, queries, 8 * 32), "float32"),
    }


def addition(elements: int) -> TaskSpec:
    x = TensorSpec((elements,), "float16")
    return TaskSpec("Add", (x, x), (x,))


def product(size: int) -> TaskSpec:
    x = TensorSpec((size, size), "float16")
    return TaskSpec("MatMulV2", (x, x), (x,))


# What it is called, a large call, and one of another shape that warms everything up.
LARGE: dict[str, tuple[Call | TaskSpec, Call | TaskSpec]] = {
    "BinaryCrossEntropyBackward 2**28 fp32": (cross_entropy(2**28), cross_entropy(999_999)),
    "GroupNormBackward 64x512x8192 / 32 bf16": (
        group_norm(64, 512, 8192, 32),
        group_norm(3, 24, 500, 4),
    ),
    "RoiAlignV2Backward 1000 boxes, 256 x 200 x 272": (
        roi_align(1000, 256, 200, 272),
        roi_align(40, 32, 30, 20),
    ),
    "UpsampleNearestExact1dBackward 64x256x4096 <- 8192": (
        upsample(64, 256, 8192, 4096),
        upsample(2, 16, 600, 200),
    ),
    "MultiScaleDeformableAttentionGrad 20000 queries": (deformable(20_000), deformable(100)),
    "Add 2**28 fp16": (addition(2**28), addition(999_999)),
    "MatMul 4096x4096x4096 fp16": (product(4096), product(512)),
}
SMALL = tuple(name for name in LARGE if name.startswith(("Add", "MatMul")))


def estimate(call: Call | TaskSpec, device: npusim.Device = DEVICE) -> float:
    """Microseconds of a call on a device; a fresh one has played nothing before."""
    if not isinstance(call, TaskSpec):
        op, arguments = call
        return device.estimate(op, **arguments).duration_us
    profile = device.profile
    return run_tasks(kernels_of(profile, call), profile, memo=device.memo).duration_us
