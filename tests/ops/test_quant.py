"""Quantised rows, gates and elements against closed forms in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim import Device
from npusim.hardware import load_profile
from npusim.operators.tasks import TaskSpec, kernels_of
from npusim.values.dtypes import FLOAT16
from npusim.values.errors import NpusimError
from npusim.values.tensors import TensorSpec
from support.tasks import (
    BFLOAT16,
    assert_above_roofline,
    assert_time_needs_no_numbers,
    cycles,
    like,
    run,
)

Array = np.ndarray[Any, Any]

CHIP = "Ascend910B3"
KINDS = (np.float16, BFLOAT16)
X, LINE = "fp16[8,64]", "fp16[64]"


def numbers(*shape: int, seed: int = 0, kind: Any = np.float32) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(kind)


def one_apart(got: Array, wanted: Array) -> None:
    """Whole numbers; what lies between two of them may go either way."""
    assert got.dtype == np.int8
    nearest = np.clip(np.rint(wanted), -128, 127)
    near_a_half = np.abs(np.abs(wanted - np.floor(wanted)) - 0.5) < 0.05
    assert (np.abs(got - nearest) <= near_a_half).all()


def by_largest(x: Array) -> tuple[Array, Array]:
    """Rows as multiples of a scale of which the largest element has 127."""
    scale = np.abs(x).max(-1, keepdims=True) / 127
    return x / scale, scale[..., 0]


def gate(left: Array, right: Array) -> Array:
    result: Array = left / (1 + np.exp(-left)) * right
    return result


@settings(max_examples=40, deadline=None)
@given(
    rows=st.integers(1, 200),
    columns=st.one_of(st.integers(1, 700), st.sampled_from([128, 1024, 4096, 9001])),
    kind=st.sampled_from(KINDS),
    smooth=st.booleans(),
)
def test_dynamic_quant(rows: int, columns: int, kind: Any, smooth: bool) -> None:
    x, line = numbers(rows, columns, kind=kind), np.abs(numbers(columns, seed=1, kind=kind)) + 1
    line = line.astype(kind)
    given = [x, line if smooth else None]
    outputs = [like(x, np.int8), np.zeros(rows, np.float32)]
    y, scale = by_largest(x.astype(np.float64) * (line.astype(np.float64) if smooth else 1))
    got = run(CHIP, "DynamicQuant", given, outputs)
    one_apart(got[0], y)
    np.testing.assert_allclose(got[1], scale, rtol=1e-5)
    assert_time_needs_no_numbers(CHIP, "DynamicQuant", given, outputs)


@settings(max_examples=25, deadline=None)
@given(
    rows=st.integers(1, 100),
    columns=st.integers(1, 3000),
    kind=st.sampled_from(KINDS),
    both=st.booleans(),
)
def test_sum_norm_and_quantise(rows: int, columns: int, kind: Any, both: bool) -> None:
    x, other = numbers(rows, columns, kind=kind), numbers(rows, columns, seed=1, kind=kind)
    gamma, first, second = (
        (np.abs(numbers(columns, seed=seed)) + 0.5).astype(kind) for seed in (2, 3, 4)
    )
    total = x.astype(np.float64) + other.astype(np.float64)
    y = total / np.sqrt((total**2).mean(-1, keepdims=True) + 1e-6) * gamma.astype(np.float64)
    eight, scale = like(x, np.int8), np.zeros(rows, np.float32)
    given = [x, other, gamma, first, second if both else None]
    got = run(CHIP, "AddRmsNormDynamicQuant", given, [eight, eight, like(x), scale, scale])
    for place, line in enumerate((first, second)[: 1 + both]):
        wanted, scales = by_largest(y * line.astype(np.float64))
        one_apart(got[place], wanted)
        np.testing.assert_allclose(got[3 + place], scales, rtol=1e-4)
    np.testing.assert_allclose(got[2].astype(np.float64), total, rtol=1e-2, atol=1e-2)
    steps = numbers(columns, seed=5) ** 2 + 0.05
    given = [x, other, gamma, steps, None, numbers(columns, seed=6), None]
    got = run(CHIP, "AddRmsNormQuant", given, [eight, eight, like(x)])
    one_apart(got[0], y / steps + given[5])


@settings(max_examples=25, deadline=None)
@given(
    rows=st.integers(1, 200),
    half=st.one_of(st.integers(1, 600), st.sampled_from([2048, 4096])),
    left=st.booleans(),
    dynamic=st.booleans(),
    bias=st.sampled_from([None, np.int32, np.float32, np.float16]),
)
def test_sums_through_a_gate(rows: int, half: int, left: bool, dynamic: bool, bias: Any) -> None:
    x = (numbers(rows, 2 * half) * 1000).astype(np.int32)
    by_column, by_row = numbers(2 * half, seed=1) / 400, np.abs(numbers(rows, seed=2)) + 0.1
    line = (np.abs(numbers(half, seed=3)) + 0.5).astype(np.float32)
    added = None if bias is None else (numbers(2 * half, seed=4) * 9).astype(bias)
    wide = x.astype(np.float64)
    if bias is np.int32:
        wide += added
    wide = wide * by_column * by_row[:, None]
    if bias in (np.float32, np.float16):
        wide += added
    halves = (wide[:, :half], wide[:, half:])
    y = gate(*halves if left else halves[::-1]) * line
    outputs = [np.zeros((rows, half), np.int8), np.zeros(rows, np.float32)]
    given = [x, by_column, by_row, added, line, None]
    mode = "dynamic" if dynamic else "static"
    got = run(CHIP, "DequantSwigluQuant", given, outputs, activate_left=left, quant_mode=mode)
    wanted, scale = by_largest(y) if dynamic else (y, got[1])
    one_apart(got[0], wanted)
    np.testing.assert_allclose(got[1], scale, rtol=1e-4)
    if added is None:  # a list of what is given leaves the bias out
        given = [x, by_column, by_row, line]
        alike = run(CHIP, "DequantSwigluQuant", given, outputs, activate_left=left, quant_mode=mode)
        np.testing.assert_array_equal(got[0], alike[0])


def test_lines_of_another_length_are_refused() -> None:
    x, line = np.ones((4, 64), np.int32), np.ones(48, np.float32)
    outputs = [np.zeros((4, 32), np.int8), np.zeros(4, np.float32)]
    with pytest.raises(NpusimError, match="have 64 numbers here"):
        run(CHIP, "DequantSwigluQuant", [x, line, None, None, None, None], outputs)


def test_a_later_interface_gates_sums_as_the_first_does() -> None:
    device, x = Device(CHIP), (numbers(13, 64) * 1000).astype(np.int32)
    call = {"x": x, "weightScaleOptional": np.abs(numbers(64)) / 400, "activateLeft": True,
        "activationScaleOptional": np.abs(numbers(13, seed=1)) + 0.1,
        "quantModeOptional": "dynamic"}  # fmt: skip
    more = {"dstType": 2, "activateDim": -1, "swigluMode": 0, "clampLimit": 0.0, "gluAlpha": 0.0,
        "gluBias": 0.0}  # fmt: skip
    first = device.run("aclnnDequantSwigluQuant", **call)
    later = device.run("aclnnDequantSwigluQuantV2", **call, **more)
    assert first.outputs
    assert later.outputs
    for name, each in first.outputs.items():
        np.testing.assert_array_equal(later.outputs[name], each)
    refused = device.check("aclnnDequantSwigluQuantV2", **call, **{**more, "swigluMode": 1})
    assert refused.verdict == "unknown"


@pytest.mark.parametrize("kind", [np.float16, np.float32, BFLOAT16])
def test_numbers_to_bytes_and_back(kind: Any) -> None:
    x = numbers(13, 67, kind=kind) * np.asarray(20, kind)
    scale, offset = np.abs(numbers(67, seed=1, kind=kind)), numbers(67, seed=2, kind=kind)
    (y,) = run(CHIP, "AscendQuantV2", [x, scale, offset], [like(x, np.int8)])
    wide = [each.astype(np.float64) for each in (x, scale, offset)]
    one_apart(y, wide[0] * wide[1] + wide[2])
    half = [each.astype(np.float16) for each in (scale, offset)]
    (back,) = run(CHIP, "AscendAntiQuantV2", [y, *half], [like(y, np.float16)])
    wanted = (y + half[1].astype(np.float64)) * half[0].astype(np.float64)
    np.testing.assert_allclose(back, wanted, rtol=1e-3, atol=1e-3)
    sums, wide_scale = y.astype(np.int32) * 300, scale.astype(np.float32) / 300
    (halves,) = run(
        CHIP, "AscendDequant", [sums, wide_scale], [like(y, np.float16)], relu_flag=True
    )
    np.testing.assert_allclose(halves, np.maximum(sums * wide_scale, 0), rtol=1e-3, atol=1e-3)


def test_rows_that_arent_whole_blocks_take_longer() -> None:
    whole, ragged = (
        cycles(CHIP, "DynamicQuant", [x, None], [like(x, np.int8), np.zeros(2000, np.float32)])
        for x in (np.zeros((2000, columns), np.float16) for columns in (512, 511))
    )
    assert ragged > 1.5 * whole
    x = np.zeros((2048, 8192), np.float16)
    outputs = [like(x, np.int8), np.zeros(2048, np.float32)]
    assert_above_roofline(CHIP, "DynamicQuant", [x, None], outputs)


def test_a_call_is_checked() -> None:
    device = Device(CHIP)
    call = {
        "x": X,
        "yOut": "int8[8,64]",
        "scaleOut": "fp32[8]",
    }
    assert device.check("aclnnDynamicQuant", **call).code == 0
    wrong = {**call, "scaleOut": "fp32[64]"}
    assert device.check("aclnnDynamicQuant", **wrong).code == 161002
    absent = Device("Ascend910A").check("AddRmsNormQuant", x1=X, x2=X, gamma=LINE, scales1=LINE)
    assert absent.code == 561003


def test_rows_of_a_norm_come_together_as_many_as_room_is_for() -> None:
    profile = load_profile("Ascend910B3")

    def tile_rows(columns: int) -> int:
        inputs = [TensorSpec((4000, columns), FLOAT16)] * 2 + [TensorSpec((columns,), FLOAT16)]
        task = TaskSpec("AddRmsNormDynamicQuant", tuple(inputs), (), {})
        (kernel,) = kernels_of(profile, task)
        return kernel.layout.tile_rows  # type: ignore[attr-defined,no-any-return]

    assert [tile_rows(each) for each in (100, 256, 2049, 4096, 8192)] == [16, 16, 5, 2, 1]


def test_fake_quantisation_that_is_not_enabled_gives_its_input_back() -> None:
    x = np.linspace(-5, 5, 24, dtype=np.float32).reshape(4, 6)
    said = {"self": x, "scale": np.float32([0.5]), "zeroPoint": np.int32([1])}
    said |= {"quantMin": 0, "quantMax": 3}
    name, device = "aclnnFakeQuantPerTensorAffineCachemask", Device("Ascend910B3")
    found = device.run(name, **said, fakeQuantEnbled=0.0).outputs
    np.testing.assert_array_equal(found["out"], x)
    assert found["mask"].all()
    result = device.run(name, **said, fakeQuantEnbled=1.0)
    whole = np.rint(x / 0.5) + 1
    np.testing.assert_allclose(result.outputs["out"], (np.clip(whole, 0, 3) - 1) * 0.5)
    np.testing.assert_array_equal(result.outputs["mask"], (whole >= 0) & (whole <= 3))
