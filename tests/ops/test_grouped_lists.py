"""Products of groups that are tensors of lists, or whose weights are of int8 and int4."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim import Device

A2 = Device("Ascend910B3")
Array = np.ndarray[Any, Any]
SPLIT = {"groupType": 0, "groupListType": 0, "actType": 0}


def listed(name: str, tensors: list[Any]) -> dict[str, Any]:
    return {f"{name}{place}": each for place, each in enumerate(tensors)}


def numbers(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float16)


def wide(x: Array, weight: Array) -> Array:
    found: Array = x.astype(np.float64) @ weight.astype(np.float64)
    return found


@settings(max_examples=12, deadline=None)
@given(
    sizes=st.lists(st.tuples(st.integers(1, 150), st.integers(1, 90), st.integers(1, 300)),
        min_size=1, max_size=4),
    bias=st.booleans(),
    turned=st.booleans(),
)  # fmt: skip
def test_each_group_has_a_size_of_its_own(
    sizes: list[tuple[int, int, int]], bias: bool, turned: bool
) -> None:
    xs, weights = [numbers(m, k) for m, k, _ in sizes], [numbers(k, n) for _, k, n in sizes]
    added = [numbers(n) if bias else np.zeros(n) for *_, n in sizes]
    outs = [np.zeros((m, n), np.float16) for m, _, n in sizes]
    lying = [np.asfortranarray(w) for w in weights] if turned else weights
    call = {**listed("x", xs), **listed("weight", lying), **listed("y", outs), "groupType": -1}
    if bias:
        call |= listed("biasOptional", added)
    found = A2.run("aclnnGroupedMatmulV2", **call, splitItem=0)
    assert [task.name for task in found.tasks if task.name != "Transpose"] == ["GroupedMatmul"]
    for place, (x, weight, row) in enumerate(zip(xs, weights, added, strict=True)):
        want = wide(x, weight) + row
        np.testing.assert_allclose(found.outputs[f"y{place}"], want, rtol=2e-2, atol=0.15)


@pytest.mark.parametrize(("together", "joined"), [(False, True), (True, True), (True, False)])
def test_rows_of_one_tensor_or_results_in_one(together: bool, joined: bool) -> None:
    ends, weights = np.array([20, 20, 100], np.int64), [numbers(64, 48 + n * 0) for n in range(3)]
    weights = [each * (place + 1) for place, each in enumerate(weights)]
    x = numbers(100, 64)
    parts = np.split(x, ends[:-1])
    want = [wide(part, weight) for part, weight in zip(parts, weights, strict=True)]
    if not joined:  # a tensor without rows isn't a group
        parts, weights, want = parts[::2], weights[::2], want[::2]
    call = {**listed("x", [x] if joined else parts), **listed("weight", weights)}
    call |= {"groupListOptional": ends.tolist()} if joined else {}  # numbers: a tensor is refused
    results = [np.vstack(want)] if together else want
    call |= listed("y", [np.zeros(each.shape, np.float16) for each in results])
    found = A2.run("aclnnGroupedMatmulV2", **call, groupType=0, splitItem=3 if together else 0)
    for place, each in enumerate(results):
        np.testing.assert_allclose(found.outputs[f"y{place}"], each, rtol=2e-2, atol=0.3)


def test_lists_take_as_long_as_the_same_in_one_tensor() -> None:
    told = {**SPLIT, "groupListOptional": np.arange(1, 9) * 256, "splitItem": 3}
    told |= {"x0": "fp16[2048,1024]", "out0": "fp16[2048,1024]"}
    joined = A2.estimate("aclnnGroupedMatmulV4", **told, weight0="fp16[8,1024,1024]").duration_us
    several = listed("weight", ["fp16[1024,1024]"] * 8)
    apart = A2.estimate("aclnnGroupedMatmulV4", **told, **several).duration_us
    assert apart == pytest.approx(joined, rel=0.1)


def test_what_lists_dont_take() -> None:
    call = {**listed("x", ["fp16[8,16]"] * 2), **listed("weight", ["fp16[16,8]"] * 2)}
    good = {**call, **listed("out", ["fp16[8,8]"] * 2), **SPLIT, "groupType": -1, "splitItem": 0}
    assert A2.check("aclnnGroupedMatmulV4", **good).ok
    for odd in (
        {"weight1": "fp16[15,8]"},
        {"out1": "fp16[8,9]"},
        {"weight0": "int8[16,8]", "antiquantScaleOptional0": "fp16[8]"},
        {"groupType": 2},
    ):
        assert A2.check("aclnnGroupedMatmulV4", **{**good, **odd}).code != 0, odd
    status = Device("310p3").check("aclnnGroupedMatmulV4", **good)
    assert status.code == 161002  # one tensor each


@pytest.mark.parametrize(("bits", "group"), [(8, 0), (4, 0), (4, 64), (4, 32)])
@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16])
def test_weights_of_few_bits(bits: int, group: int, kind: Any) -> None:
    dice = np.random.default_rng(bits + group)
    (m, k, n), count = (150, 256, 264), 3
    x = dice.standard_normal((m, k)).astype(kind)
    weight = dice.integers(-8, 8, (count, k, n)).astype(np.int8)
    lines = (count, k // group, n) if group else (count, n)
    scale, shift = (dice.uniform(0.05, 2, lines).astype(kind) for _ in range(2))
    rows = [
        np.repeat(each.astype(np.float64).reshape(count, -1, n), group or k, 1)
        for each in (scale, shift)
    ]
    wide_weight = (weight + rows[1]) * rows[0]
    ends = np.array([70, 70, 150], np.int64)
    call: dict[str, Any] = {"x0": x, "antiquantScaleOptional0": scale, "groupListOptional": ends}
    call["weight0"] = weight.astype(ml_dtypes.int4) if bits == 4 else weight
    call["antiquantOffsetOptional0"] = shift
    out = np.zeros((m, n), kind)
    found = A2.run("aclnnGroupedMatmulV4", **call, **SPLIT, splitItem=3, out0=out).outputs["out0"]
    want = np.vstack([x[:70].astype(np.float64) @ wide_weight[0],
                      x[70:].astype(np.float64) @ wide_weight[2]])  # fmt: skip
    np.testing.assert_allclose(found.astype(np.float64), want, atol=0.01 * np.abs(want).max())


def test_weights_of_few_bits_take_less_of_the_memory() -> None:
    told = {**SPLIT, "groupListOptional": np.full(8, 256).cumsum(), "splitItem": 3}
    told |= {"x0": "fp16[2048,1024]", "out0": "fp16[2048,4096]"}
    call = {**told, **{f"antiquant{each}Optional0": "fp16[8,4096]" for each in ("Scale", "Offset")}}
    eight, four = (
        A2.estimate("aclnnGroupedMatmulV5", **call, weight0=f"{kind}[8,1024,4096]").duration_us
        for kind in ("int8", "int4")
    )
    assert four < eight
    for odd in (
        {"antiquantScaleOptional0": "fp16[8,40,4096]"},  # 1024 isn't whole groups
        {"antiquantScaleOptional0": "fp16[8,64,4096]"},  # groups of 16 rows
        {"antiquantOffsetOptional0": "fp16[8,4095]"},
        {"groupType": 2},
    ):
        asked = {**call, "weight0": "int8[8,1024,4096]", **odd}
        assert A2.check("aclnnGroupedMatmulV5", **asked).code == 161002, odd
