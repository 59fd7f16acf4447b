"""Rotary position embeddings against complex numbers in float64, every layout of angles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim import Device
from npusim.values.errors import KernelError
from support.tasks import (
    BFLOAT16,
    assert_above_roofline,
    assert_tiling_changes_no_number,
    assert_time_needs_no_numbers,
    kernels,
    like,
    run,
)

Array = np.ndarray[Any, Any]

CHIP = "Ascend910B3"
TOLERANCES: dict[Any, float] = {np.float32: 1e-5, np.float16: 5e-3, BFLOAT16: 4e-2}
KINDS = list(TOLERANCES)


def numbers(*shape: int, seed: int = 0, kind: Any = np.float32) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32).astype(kind)


def angles(*shape: int, mode: int, kind: Any = np.float32) -> tuple[Array, Array]:
    """Cosines and sines, the same for both elements of a pair."""
    half = np.random.default_rng(9).uniform(-3, 3, (*shape[:-1], shape[-1] // 2))
    whole = np.concatenate([half, half], -1) if mode == 0 else np.repeat(half, 2, -1)
    return tuple(f(whole).astype(np.float32).astype(kind) for f in (np.cos, np.sin))  # type: ignore[return-value]


def turned(x: Array, cos: Array, sin: Array, mode: int) -> Array:
    """Pairs as complex numbers, times e**(i angle)."""
    wide, half = x.astype(np.float64), x.shape[-1] // 2
    first, second = (
        (slice(half), slice(half, None)) if mode == 0 else (slice(0, None, 2), slice(1, None, 2))
    )
    turn = cos.astype(np.float64)[..., first] + 1j * sin.astype(np.float64)[..., first]
    found = (wide[..., first] + 1j * wide[..., second]) * turn
    result = np.empty(wide.shape)
    result[..., first], result[..., second] = found.real, found.imag
    return result


@settings(max_examples=25, deadline=None)
@given(
    data=st.data(),
    sizes=st.tuples(st.integers(1, 4), st.integers(1, 40), st.integers(1, 9)),
    length=st.sampled_from([10, 40, 64, 80, 128]),
    mode=st.sampled_from([0, 1]),
    kind=st.sampled_from(KINDS),
)
def test_angles_broadcast_along_any_axis(
    data: st.DataObject, sizes: tuple[int, int, int], length: int, mode: int, kind: Any
) -> None:
    own = tuple(data.draw(st.sampled_from([1, size])) for size in sizes)
    x = numbers(*sizes, length, kind=kind)
    cos, sin = angles(*own, length, mode=mode, kind=kind)
    (got,) = run(CHIP, "RotaryPositionEmbedding", [x, cos, sin], [like(x)], mode=mode)
    fits = TOLERANCES[kind]
    want = turned(x, cos, sin, mode)
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=fits, atol=fits)
    assert_time_needs_no_numbers(
        CHIP, "RotaryPositionEmbedding", [x, cos, sin], [like(x)], mode=mode
    )


@pytest.mark.parametrize("mode", [0, 1])
def test_the_gradient_is_that_of_central_differences(mode: int) -> None:
    """Of sum(w y): turned back, whatever cosine and sine are."""
    x, w = numbers(2, 3, 2, 32), numbers(2, 3, 2, 32, seed=1)
    cos, sin = numbers(2, 3, 1, 32, seed=2), numbers(2, 3, 1, 32, seed=3)
    (got,) = run(CHIP, "RotaryPositionEmbeddingGrad", [w, cos, sin], [like(w)], mode=mode)

    def total(given: Array) -> float:
        wide = given.astype(np.float64)
        partner = wide.reshape(*wide.shape[:-1], -1, 2)[..., ::-1] if mode else None
        swapped = np.roll(wide, 16, -1) if partner is None else partner.reshape(wide.shape)
        signs = np.where(np.arange(32) % 2 == 0 if mode else np.arange(32) < 16, -1.0, 1.0)
        return float((w * (wide * cos + swapped * signs * sin)).sum())

    for place in ((0, 0, 0, 0), (1, 2, 1, 31), (0, 1, 0, 15), (1, 0, 1, 16)):
        step = np.zeros(x.shape)
        step[place] = 0.5
        np.testing.assert_allclose(got[place], total(x + step) - total(x - step), rtol=1e-4)


@settings(max_examples=15, deadline=None)
@given(
    tokens=st.tuples(st.integers(1, 4), st.integers(1, 70)),
    heads=st.tuples(st.integers(1, 16), st.integers(1, 4)),
    mode=st.sampled_from(["half", "interleave"]),
    kind=st.sampled_from(KINDS),
)
def test_queries_and_keys(
    tokens: tuple[int, int], heads: tuple[int, int], mode: str, kind: Any
) -> None:
    query, key = (numbers(*tokens, count, 128, kind=kind) for count in heads)
    number = 0 if mode == "half" else 1
    cos, sin = angles(*tokens, 1, 128, mode=number, kind=kind)
    got = run(
        CHIP, "ApplyRotaryPosEmb", [query, key, cos, sin], [like(query), like(key)],
        rotary_mode=mode,
    )  # fmt: skip
    fits = TOLERANCES[kind]
    for ours, given_ in zip(got, (query, key), strict=True):
        want = turned(given_, cos, sin, number)
        np.testing.assert_allclose(ours.astype(np.float64), want, rtol=fits, atol=fits)


@pytest.mark.parametrize("layout", [0, 1])
@pytest.mark.parametrize("mode", ["half", "interleaved"])
def test_a_framework_has_angles_by_position(layout: int, mode: str) -> None:
    shape = (3, 5, 4, 64) if layout == 0 else (3, 4, 5, 64)
    query, key = numbers(*shape), numbers(*shape, seed=1)
    half = np.random.default_rng(3).uniform(-3, 3, (5, 32)).astype(np.float32)
    given_ = [query, key, np.cos(half), np.sin(half)]
    said = {"layout": layout, "rotaryMode": mode}
    got = run(CHIP, "ApplyRotaryPosEmb", given_, [like(query), like(key)], **said)
    number = 0 if mode == "half" else 1
    whole = [np.tile(f(half), 2) if number == 0 else np.repeat(f(half), 2, -1)
             for f in (np.cos, np.sin)]  # fmt: skip
    place = (1, 5, 1, 64) if layout == 0 else (1, 1, 5, 64)
    cos, sin = (each.reshape(place) for each in whole)
    for ours, x in zip(got, (query, key), strict=True):
        np.testing.assert_allclose(ours, turned(x, cos, sin, number), rtol=1e-4, atol=1e-5)
    tasks, _ = kernels(CHIP, "ApplyRotaryPosEmb", given_, [like(query), like(key)], said)
    names = [each.op_type for each in tasks]
    repeated = ["ConcatD"] if number == 0 else ["BroadcastTo", "RepeatInterleaveV2"]
    repeated.append("BroadcastTo")  # to every sequence
    around = ["Transpose"] * 2 * layout
    assert names == [*around, *repeated * 2, "ApplyRotaryPosEmb", *around]


def test_calls_change_queries_and_keys_in_place() -> None:
    query, key = numbers(2, 6, 8, 128), numbers(2, 6, 1, 128, seed=1)
    cos, sin = angles(2, 6, 1, 128, mode=0)
    want = [turned(each, cos, sin, 0) for each in (query, key)]
    device = Device(CHIP)
    given_ = {"queryRef": query, "keyRef": key, "cos": cos, "sin": sin}
    device.run("aclnnApplyRotaryPosEmbV2", **given_, layout=1, rotaryMode="half")
    np.testing.assert_allclose(query, want[0], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(key, want[1], rtol=1e-5, atol=1e-5)
    outputs = device.run("aclnnRotaryPositionEmbedding", x=key, cos=cos, sin=sin, mode=0).outputs
    assert outputs is not None
    np.testing.assert_allclose(outputs["out"], turned(key, cos, sin, 0), rtol=1e-5, atol=1e-5)
    wrong = device.check("aclnnApplyRotaryPosEmb", **{**given_, "cos": query}, layout=1)
    assert wrong.code == 161002
    wrong = device.check("aclnnRotaryPositionEmbedding", x=key, cos=cos, sin=sin, mode=3)
    assert wrong.code == 561002  # the page leaves shapes and attributes to the tiling
    wrong = device.check("aclnnRotaryPositionEmbeddingGrad", dy=key, cos=cos, sin=sin, mode=3)
    assert wrong.code == 561002


def test_what_the_kernel_does_not_cover_is_said() -> None:
    x = numbers(1, 2, 2, 11)
    with pytest.raises(KernelError, match="rows of 11 elements"):
        run(CHIP, "RotaryPositionEmbedding", [x, x, x], [like(x)])
    x = numbers(1, 2, 2, 64)
    with pytest.raises(KernelError, match="half and interleave"):
        run(CHIP, "ApplyRotaryPosEmb", [x, x, x, x], [like(x)] * 2, rotary_mode="quarter")


def test_physics() -> None:
    x, (cos, sin) = numbers(4, 512, 8, 128), angles(4, 512, 1, 128, mode=0)
    assert_above_roofline(CHIP, "RotaryMul", [x, cos, sin], [like(x)])
    for mode, length in ((0, 64), (1, 64), (0, 44), (1, 44)):
        small, (cos, sin) = numbers(2, 30, 8, length), angles(2, 30, 1, length, mode=mode)
        assert_tiling_changes_no_number(
            CHIP, "RotaryMul", [small, cos, sin], [like(small)], mode=mode
        )


@pytest.mark.parametrize("mode", [0, 1])
def test_the_interface_of_the_gradient(mode: int) -> None:
    """Without x the angles have no gradients, though their outputs have to be there."""
    dy = numbers(2, 7, 3, 64)
    cos, sin = angles(1, 7, 1, 64, mode=mode)
    spare = {name: np.zeros((1, 7, 1, 0), np.float32) for name in ("dcosOut", "dsinOut")}
    given = {"dy": dy, "cos": cos, "sin": sin, "xOptional": None, "mode": mode, **spare}
    name = "aclnnRotaryPositionEmbeddingGrad"
    found = Device(CHIP).run(name, dxOut=np.zeros_like(dy), **given).outputs["dxOut"]
    np.testing.assert_allclose(found, turned(dy, cos, -sin, mode), rtol=1e-4, atol=1e-5)
    call = {**given, "dxOut": "fp32[2,7,3,64]"}
    assert Device(CHIP).check(name, **call).ok
    assert Device(CHIP).check(name, **{**call, "dsinOut": None}).code == 161001
    assert Device(CHIP).check(name, **{**call, "cos": "fp32[1,6,1,64]"}).code == 561002
    assert Device(CHIP).check(name, **{**call, "xOptional": dy}).verdict != "yes"
    assert Device("Ascend310P3").check(name, **call).code == 561003
