"""Writes reports/product_matrix.md: operator by product and dtype, with one typical time.

python reports/product_matrix.py
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from npusim import AclnnError, Device, TensorSpec
from npusim.hardware import profile_names

DTYPES = ("float32", "float16", "bfloat16")
TARGET = Path(__file__).with_suffix(".md")


def calls(dtype: str) -> dict[str, tuple[str, Mapping[str, object]]]:
    """A typical call of every operator: what it is in words, and its arguments."""

    def tensor(*shape: int, kind: str = dtype) -> TensorSpec:
        return TensorSpec(shape, kind)

    levels = 2 * [(100, 152)] + 2 * [(25, 38)]
    keys = sum(height * width for height, width in levels)
    return {
        "aclnnRoiAlignV2Backward": (
            "512 boxes, 256 channels, 7x7 bins, ratio 2, 200x272 map",
            {
                "gradOutput": TensorSpec((512, 256, 7, 7), dtype, "NCHW"),
                "boxes": tensor(512, 5),
                "inputShape": [1, 256, 200, 272],
                "pooledHeight": 7,
                "pooledWidth": 7,
                "spatialScale": 0.25,
                "samplingRatio": 2,
                "aligned": True,
            },
        ),
        "aclnnUpsampleNearestExact1dBackward": (
            "64x256x4096 from 8192",
            {
                "gradOutput": tensor(64, 256, 8192),
                "outputSize": [8192],
                "inputSize": [64, 256, 4096],
                "scales": 0.0,
            },
        ),
        "aclnnMultiScaleDeformableAttentionGrad": (
            "900 queries, 4 levels, 8 heads, 4 points, 32 channels",
            {
                "value": tensor(1, keys, 8, 32),
                "spatialShape": tensor(4, 2, kind="int32"),
                "levelStartIndex": tensor(4, kind="int32"),
                "location": tensor(1, 900, 8, 4, 4, 2),
                "attnWeight": tensor(1, 900, 8, 4, 4),
                "gradOutput": tensor(1, 900, 256),
            },
        ),
        "aclnnGroupNormBackward": (
            "N=8 C=256 HxW=4096 group=32",
            {
                "gradOut": tensor(8, 256, 4096),
                "input": tensor(8, 256, 4096),
                "mean": tensor(8, 32),
                "rstd": tensor(8, 32),
                "gamma": tensor(256),
                "N": 8,
                "C": 256,
                "HxW": 4096,
                "group": 32,
                "outputMask": [True, True, True],
            },
        ),
        "aclnnBinaryCrossEntropyBackward": (
            "4,194,304 elements, weighted mean",
            {
                "gradOutput": tensor(4194304),
                "self": tensor(4194304),
                "target": tensor(4194304),
                "weightOptional": tensor(4194304),
                "reduction": 1,
            },
        ),
    }


def cell(soc: str, op: str, arguments: Mapping[str, object]) -> str:
    """Latency with its band in microseconds, or the code of the refusal."""
    try:
        result = Device(soc).estimate(op, **arguments)
    except AclnnError as error:
        return f"{error.code}"
    low, high = result.band_us
    return f"{result.duration_us:.4g} ({low:.4g}..{high:.4g})"


def page() -> str:
    """The whole page."""
    lines = [
        "# What runs where, and how long it takes",
        "",
        "Estimates in microseconds with their 80 % bands, cold L2, from shapes alone. A number",
        "alone is the code of the refusal: 161002 the dtype isn't taken on this product, 561003",
        "the product doesn't offer the operator. Made by `python reports/product_matrix.py`.",
    ]
    for op, (words, _) in calls("float32").items():
        lines += ["", f"## {op}", "", f"One call: {words}.", ""]
        lines += ["| SoC | FLOAT | FLOAT16 | BFLOAT16 |", "|---|---|---|---|"]
        for soc in profile_names():
            cells = [cell(soc, op, calls(dtype)[op][1]) for dtype in DTYPES]
            lines.append(f"| {soc} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    TARGET.write_text(page(), encoding="utf-8")
