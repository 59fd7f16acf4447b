"""InplacePartialRotaryMul against rotations in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npusim import Device
from support.tasks import BFLOAT16, assert_time_needs_no_numbers, cycles, run

CHIP = "Ascend910B3"


def turned(x: Any, cos: Any, sin: Any, first: int) -> Any:
    found, end = x.astype(np.float64), first + cos.shape[-1]
    part = found[..., first:end]
    partner = np.stack((-part[..., 1::2], part[..., ::2]), -1).reshape(part.shape)
    found[..., first:end] = part * cos.astype(np.float64) + partner * sin.astype(np.float64)
    return found


@pytest.mark.parametrize("kind", [np.float32, np.float16, BFLOAT16])
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize(
    ("shape", "angles", "bounds"),
    [
        ((130, 1, 3, 512), (130, 1, 1, 64), (448, 512)),
        ((7, 5, 1, 96), (7, 1, 1, 32), (0, 32)),
        ((1, 1, 1, 64), (1, 1, 1, 64), (0, 64)),
        ((300, 1, 128, 128), (300, 1, 1, 16), (64, 80)),
    ],
)
def test_a_slice_is_turned(shape: Any, angles: Any, bounds: Any, wide: bool, kind: Any) -> None:
    rng = np.random.default_rng(shape[0])
    x = rng.standard_normal(shape).astype(kind)
    cos, sin = (rng.standard_normal(angles).astype(np.float32 if wide else kind) for _ in "cs")
    said = {"mode": 1, "partial_slice": list(bounds)}
    (got,) = run(CHIP, "InplacePartialRotaryMul", [x.copy(), cos, sin], [x.copy()], **said)
    wanted = turned(x, cos, sin, bounds[0])
    tolerance = {np.float32: 1e-5, np.float16: 2e-3}.get(kind, 2e-2)
    np.testing.assert_allclose(got.astype(np.float64), wanted, rtol=tolerance, atol=tolerance)
    outside = np.r_[0 : bounds[0], bounds[1] : shape[-1]]
    np.testing.assert_array_equal(got[..., outside], x[..., outside])
    assert_time_needs_no_numbers(CHIP, "InplacePartialRotaryMul", [x, cos, sin], [x], **said)


@pytest.mark.parametrize("kind", [np.float32, np.float16, BFLOAT16])
@pytest.mark.parametrize(
    ("shape", "angles", "bounds"),
    [
        ((9, 11, 3, 200), (9, 11, 1, 128), (30, 158)),
        ((50, 1, 2, 20), (50, 1, 1, 10), (3, 13)),
        ((3, 1, 5, 8_000), (3, 1, 1, 6_000), (0, 6_000)),
        ((61, 4, 4, 64), (61, 1, 1, 64), (0, 64)),
        ((811, 3, 1, 302), (811, 3, 1, 238), (64, 302)),
    ],
)
def test_as_whole_rows_are_turned(shape: Any, angles: Any, bounds: Any, kind: Any) -> None:
    """Slices of more than a repeat, ragged ones, those that UB doesn't hold with all heads."""
    rng = np.random.default_rng(shape[0])
    x = rng.standard_normal(shape).astype(kind)
    cos, sin = (rng.standard_normal(angles).astype(kind) for _ in "cs")
    found = Device(CHIP).run(
        "aclnnInplacePartialRotaryMul", xRef=x.copy(), cos=cos, sin=sin, mode=1, partialSlice=bounds
    )
    tolerance = {np.float32: 1e-5, np.float16: 2e-3}.get(kind, 2e-2)
    np.testing.assert_allclose(
        found.outputs["xRef"].astype(np.float64), turned(x, cos, sin, bounds[0]),
        rtol=tolerance, atol=tolerance,
    )  # fmt: skip


def test_only_the_slice_is_read() -> None:
    def taken(columns: int, width: int) -> float:
        x = np.zeros((2048, 1, 16, columns), BFLOAT16)
        angle = np.zeros((2048, 1, 1, width), BFLOAT16)
        said = {"mode": 1, "partial_slice": [0, width]}
        return cycles(CHIP, "InplacePartialRotaryMul", [x, angle, angle], [x], **said)

    assert taken(512, 64) == pytest.approx(taken(128, 64), rel=0.1)
    assert taken(512, 64) > 1.15 * taken(512, 32)


def test_what_the_tiling_refuses() -> None:
    given = {"xRef": "bf16[8,1,4,192]", "cos": "bf16[8,1,1,64]", "sin": "bf16[8,1,1,64]",
        "mode": 1, "partialSlice": [128, 192]}  # fmt: skip
    for soc, code in ((CHIP, 0), ("Ascend910_9391", 0), ("Ascend310P3", 561003)):
        assert Device(soc).check("aclnnInplacePartialRotaryMul", **given).code == code
    wide = {"cos": "fp32[8,1,1,64]", "sin": "fp32[8,1,1,64]"}
    large = {"cos": "fp32[8,1,1,128]", "sin": "fp32[8,1,1,128]", "partialSlice": [0, 128]}
    for changed, code in (
        (wide, 0),
        ({"xRef": "fp16[8,1,4,192]"}, 161002),
        ({"mode": 0}, 161002),
        ({"partialSlice": [0, 32]}, 561002),
        ({"partialSlice": [160, 224]}, 561002),
        ({"partialSlice": [64]}, 561002),
        ({"sin": "bf16[8,1,1,32]"}, 161002),
        ({"xRef": "bf16[8,4,192]"}, 161002),
        ({"xRef": "bf16[7,1,4,192]"}, 161002),
        ({"cos": "fp32[8,1,1,64]"}, 161002),
        ({"xRef": "bf16[8,3,4,192]", **wide}, 561002),
        (large, 561002),
        (
            {
                "xRef": "bf16[8,1,4,20000]",
                "cos": "bf16[8,1,1,12000]",
                "sin": "bf16[8,1,1,12000]",
                "partialSlice": [0, 12000],
            },
            161002,
        ),
    ):
        found = Device(CHIP).check("aclnnInplacePartialRotaryMul", **{**given, **changed})
        assert found.code == code, changed
