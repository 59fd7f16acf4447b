"""Whether a call queues operators that the device's host code launches.

`tests/data/level0_operators.yaml` has what the public host code of each interface names, on all
products and for all shapes, so that an operator may be there and yet not be run. It can't tell
whether one is missing; it tells where several stand for one that the device has.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import yaml

from support.paths import TESTS

if TYPE_CHECKING:
    from collections.abc import Iterable

# What bring tensors into the form that an operator takes, or clear what is added to.
_AUXILIARY = {
    "AsStrided", "BroadcastTo", "Cast", "ConcatD", "Fill", "MemSet", "Pad", "PadV3", "Slice",
    "StridedSlice", "TensorMove", "TransData", "Transpose", "ViewCopy",
}  # fmt: skip
# Interfaces that are other operators here: several for one of the device's, or others of another
# version of the libraries. Whoever mends one takes it off.
APART = {
    "AdaLayerNorm", "AdaLayerNormQuant", "AdaLayerNormV2", "BatchNormElemt", "BatchNormReduce",
    "CircularPad2dBackward", "CircularPad3dBackward", "Dot", "EmbeddingDenseBackward", "Equal",
    "FastLayerNorm", "IndexAdd", "IndexAddV2", "KlDivTargetBackward", "LogSigmoidForward",
    "MaxUnpool2d", "MaxUnpool3d", "NanMedian", "NanMedianDim", "Sum", "Trace",
    "TransposeBatchMatMulWeightNz", "TriangularSolve", "Unique", "Unique2",
    "UpsampleBilinear2dBackward", "UpsampleLinear1dBackward", "UpsampleNearest1d",
    "UpsampleNearest1dBackward", "UpsampleNearest1dV2", "UpsampleNearest2d",
    "UpsampleNearest2dBackward", "UpsampleNearest2dV2", "UpsampleNearestExact1d",
    "UpsampleNearestExact2dBackward", "UpsampleTrilinear3d", "UpsampleTrilinear3dBackward",
}  # fmt: skip
_RENAMED = {"Range": "Arange"}  # operator types, and what the functions that launch them are called


@cache
def _named() -> dict[str, list[str]]:
    text = (TESTS / "data" / "level0_operators.yaml").read_text(encoding="utf-8")
    return {api: names.lower().split() for api, names in yaml.safe_load(text).items()}


def strangers(api: str, op_types: Iterable[str]) -> set[str]:
    """Operators of a call that the device's host code doesn't name, in any version."""
    names = _named().get(api)
    if names is None or api.removeprefix("aclnn") in APART:
        return set()
    found = {_RENAMED.get(each, each) for each in op_types if each not in _AUXILIARY}
    return {each for each in found if not any(_alike(each.lower(), name) for name in names)}


def _alike(op_type: str, name: str) -> bool:
    """Whether one is a version of the other."""
    return op_type.startswith(name) or name.startswith(op_type)
