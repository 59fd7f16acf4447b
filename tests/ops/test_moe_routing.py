"""Routing with fewer rows than pairs, with room for as many of each expert, and rows as int8."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim import Device
from support.tasks import BFLOAT16

Array = np.ndarray[Any, Any]

DEVICE = Device("Ascend910B3")


def routed(tokens: int, k: int, width: int, experts: int, kind: Any) -> tuple[Array, Array]:
    rng = np.random.default_rng(tokens + 7 * k)
    x = rng.standard_normal((tokens, width)).astype(kind)
    return x, rng.integers(0, experts, (tokens, k)).astype(np.int32)


def ids(tokens: int, k: int) -> Array:
    return np.ascontiguousarray(np.arange(tokens * k, dtype=np.int32).reshape(k, tokens).T)


@settings(max_examples=6, deadline=None)
@given(
    tokens=st.sampled_from([1, 7, 48, 300]),
    k=st.integers(1, 5),
    width=st.sampled_from([1, 67, 9000]),
    share=st.floats(0.01, 1.2),
)
def test_rows_behind_the_last_are_left_out(tokens: int, k: int, width: int, share: float) -> None:
    """The first interface counts tokens, the second pairs."""
    tokens = min(tokens, 7) if width > 67 else tokens
    x, experts = routed(tokens, k, width, 8, np.float16)
    order = np.argsort(experts.ravel(), kind="stable")
    active = max(1, int(tokens * share))
    given = {"x": x, "rowIdx": ids(tokens, k), "expertIdx": experts, "activeNum": active}
    found = DEVICE.run("aclnnMoeInitRouting", **given).outputs
    rows = min(active, tokens) * k
    np.testing.assert_array_equal(found["expandedXOut"], x[order // k][:rows])
    places = np.argsort(order).reshape(tokens, k).T.ravel()
    np.testing.assert_array_equal(found["expandedRowIdxOut"], places)
    np.testing.assert_array_equal(found["expandedExpertIdxOut"], np.sort(experts.ravel()))
    active = max(1, int(tokens * k * share))
    said = {"expertCapacity": 0, "expertNum": 8, "dropPadMode": 0, "activeNum": active,
            "expertTokensCountOrCumsumFlag": 2,
            "expertTokensBeforeCapacityFlag": False}  # fmt: skip
    found = DEVICE.run("aclnnMoeInitRoutingV2", x=x, expertIdx=experts, **said).outputs
    np.testing.assert_array_equal(found["expandedXOut"], x[order // k][:active])
    np.testing.assert_array_equal(found["expandedRowIdxOut"], np.argsort(order))
    counts = np.bincount(experts.ravel(), minlength=8)
    np.testing.assert_array_equal(found["expertTokensCountOrCumsumOut"], counts)


@settings(max_examples=8, deadline=None)
@given(
    tokens=st.sampled_from([1, 7, 48, 300]),
    k=st.integers(1, 4),
    width=st.sampled_from([1, 67, 9000]),
    experts=st.sampled_from([1, 3, 8, 40]),
    room=st.floats(0, 1),
    kind=st.sampled_from([np.float32, np.float16, BFLOAT16]),
)
def test_every_expert_has_room_for_as_many(
    tokens: int, k: int, width: int, experts: int, room: float, kind: Any
) -> None:
    tokens = min(tokens, 7) if width > 67 else tokens
    x, chosen = routed(tokens, k, width, experts, kind)
    capacity = max(1, int(min(tokens, 2 * tokens * k / experts) * room))
    rows = np.zeros((experts, capacity, width), kind)
    places = np.full(tokens * k, -1, np.int32)
    for expert in range(experts):
        for rank, pair in enumerate(np.flatnonzero(chosen.ravel() == expert)[:capacity]):
            rows[expert, rank] = x[pair // k]
            places[pair] = expert * capacity + rank
    said = {"activeNum": 0, "expertCapacity": capacity, "expertNum": experts, "dropPadMode": 1,
            "expertTokensCountOrCumsumFlag": 0, "expertTokensBeforeCapacityFlag": True}  # fmt: skip
    found = DEVICE.run(
        "aclnnMoeInitRoutingV2", x=x, expertIdx=chosen, expertTokensCountOrCumsumOut=None,
        expertTokensBeforeCapacityOut=np.zeros(experts, np.int32), **said,
    ).outputs  # fmt: skip
    np.testing.assert_array_equal(found["expandedXOut"], rows)
    np.testing.assert_array_equal(found["expandedRowIdxOut"], places)
    counts = np.bincount(chosen.ravel(), minlength=experts)
    np.testing.assert_array_equal(found["expertTokensBeforeCapacityOut"], counts)


@settings(max_examples=4, deadline=None)
@given(tokens=st.integers(1, 70), k=st.integers(1, 3), width=st.integers(1, 130))
def test_rows_are_bytes(tokens: int, k: int, width: int) -> None:
    """By a scale and an offset as numbers, or as tensors, or each by its largest element."""
    x, chosen = routed(tokens, k, width, 5, np.float16)
    order = np.argsort(chosen.ravel(), kind="stable")
    rows = x.astype(np.float64)[order // k]
    even = np.clip(np.rint(rows * 20 + 1.5), -128, 127)
    found = DEVICE.run(
        "aclnnMoeInitRoutingQuant", x=x, rowIdx=ids(tokens, k), expertIdx=chosen,
        activeNum=tokens, scale=20.0, offset=1.5,
    ).outputs  # fmt: skip
    assert np.abs(found["expandedXOut"] - even).max() <= 1
    said = {"activeNum": 0, "expertCapacity": 0, "expertNum": 5, "dropPadMode": 0,
            "expertTokensCountOrCumsumFlag": 1,
            "expertTokensBeforeCapacityFlag": False}  # fmt: skip
    by = [np.array([each], np.float32) for each in (20.0, 1.5)]
    found = DEVICE.run(
        "aclnnMoeInitRoutingQuantV2", x=x, expertIdx=chosen, scaleOptional=by[0],
        offsetOptional=by[1], quantMode=0, dynamicQuantScaleOutOptional=None,
        expertTokensBeforeCapacityOutOptional=None, **said,
    ).outputs  # fmt: skip
    assert np.abs(found["expandedXOut"] - even).max() <= 1
    cumulative = np.cumsum(np.bincount(chosen.ravel(), minlength=5))
    np.testing.assert_array_equal(found["expertTokensCountOrCumsumOutOptional"], cumulative)
    found = DEVICE.run(
        "aclnnMoeInitRoutingQuantV2", x=x, expertIdx=chosen, scaleOptional=None,
        offsetOptional=None, quantMode=1, **said,
    ).outputs  # fmt: skip
    largest = np.abs(rows).max(1, keepdims=True)
    np.testing.assert_allclose(
        found["dynamicQuantScaleOutOptional"], largest[:, 0] / 127, rtol=1e-5
    )
    assert np.abs(found["expandedXOut"] - rows / largest * 127).max() <= 0.51


def test_bytes_of_experts_with_room() -> None:
    """Rows that no pair has are zeros, not the offset."""
    x, chosen = routed(37, 3, 70, 5, np.float16)
    found = DEVICE.run(
        "aclnnMoeInitRoutingQuantV2", x=x, expertIdx=chosen, activeNum=0, expertCapacity=25,
        scaleOptional=np.array([20], np.float32), offsetOptional=np.array([1.5], np.float32),
        expertNum=5, dropPadMode=1, expertTokensCountOrCumsumFlag=0,
        expertTokensBeforeCapacityFlag=False, quantMode=0,
    ).outputs  # fmt: skip
    even = np.clip(np.rint(x.astype(np.float64) * 20 + 1.5), -128, 127)
    wanted = np.zeros((5, 25, 70))
    for expert in range(5):
        pairs = np.flatnonzero(chosen.ravel() == expert)[:25]
        wanted[expert, : len(pairs)] = even[pairs // 3]
    assert np.abs(found["expandedXOut"] - wanted).max() <= 1


SECOND = {"x": "fp16[64,128]", "expertIdx": "int32[64,4]", "activeNum": 0, "expertNum": 8,
    "expertCapacity": 8, "dropPadMode": 1, "expertTokensCountOrCumsumFlag": 0,
    "expertTokensBeforeCapacityFlag": True, "expandedXOut": "fp16[8,8,128]"}  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"expertCapacity": 65, "expandedXOut": "fp16[8,65,128]"},
        {"expertCapacity": 0},
        {"expertNum": 0},
        {"dropPadMode": 2},
        {"expandedXOut": "fp16[8,9,128]"},
        {"dropPadMode": 0, "activeNum": 100, "expandedXOut": "fp16[256,128]"},
        {"dropPadMode": 0, "activeNum": -1, "expandedXOut": "fp16[256,128]"},
        {"expandedRowIdxOut": "int32[255]"},
    ],
)
def test_what_the_page_refuses(change: dict[str, Any]) -> None:
    assert DEVICE.check("aclnnMoeInitRoutingV2", **SECOND).ok
    assert DEVICE.check("aclnnMoeInitRoutingV2", **{**SECOND, **change}).code == 561103
    for chip in ("Ascend910A", "Ascend310P3"):
        assert Device(chip).check("aclnnMoeInitRoutingQuantV2", **SECOND, quantMode=0).code


def test_room_that_stays_empty_takes_its_time() -> None:
    """Rows of zeros are stored one after the other."""
    times = [
        DEVICE.estimate(
            "aclnnMoeInitRoutingV2",
            **{**SECOND, "x": "fp16[1024,128]", "expertIdx": "int32[1024,1]",
               "expertCapacity": room, "expandedXOut": f"fp16[8,{room},128]"},
        ).duration_us
        for room in (128, 1024)
    ]  # fmt: skip
    assert times[1] > times[0] + 1
