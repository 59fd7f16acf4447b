"""Routing of tokens to experts and back, against plain indexing in float64."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim import Device, TensorSpec
from npusim.values.errors import DeviceFault
from support.tasks import BFLOAT16, assert_time_needs_no_numbers, run

Array = np.ndarray[Any, Any]

CHIP = "Ascend910B3"


def numbers(*shape: int, seed: int = 0, kind: Any = np.float32) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(kind)


@settings(max_examples=20, deadline=None)
@given(
    tokens=st.integers(1, 150),
    experts=st.one_of(st.integers(1, 130), st.sampled_from([8, 64, 256, 513, 1032])),
    wanted=st.integers(1, 70),
    finished=st.booleans(),
    kind=st.sampled_from([np.float32, np.float16, BFLOAT16]),
)
def test_experts_are_those_of_the_largest_shares(
    tokens: int, experts: int, wanted: int, finished: bool, kind: Any
) -> None:
    k = min(wanted, experts)
    x = numbers(tokens, experts, kind=kind)
    over = np.arange(tokens) % 3 == 0 if finished else None
    outputs = [np.zeros((tokens, k), kind), *(np.zeros((tokens, k), np.int32) for _ in range(2))]
    y, chosen, rows = run(CHIP, "MoeGatingTopKSoftmax", [x, over], outputs)
    shares = np.exp(x.astype(np.float64))
    shares /= shares.sum(1, keepdims=True)
    largest = -np.sort(-shares, axis=1)[:, :k]
    tolerance = {np.float32: 1e-5, np.float16: 2e-3}.get(kind, 1e-2)
    np.testing.assert_allclose(y.astype(np.float64), largest, rtol=tolerance, atol=1e-7)
    working = ~over if over is not None else np.ones(tokens, bool)
    assert (chosen[~working] == experts).all()
    found = np.take_along_axis(shares[working], chosen[working], 1)
    np.testing.assert_allclose(found, largest[working], rtol=max(tolerance, 2e-3), atol=1e-7)
    assert all(len(set(each)) == k for each in chosen[working])
    np.testing.assert_array_equal(rows, np.arange(k) * tokens + np.arange(tokens)[:, None])
    assert_time_needs_no_numbers(CHIP, "MoeGatingTopKSoftmax", [x, over], outputs)
    again = run(CHIP, "MoeGatingTopKSoftmaxV2", [x, over], outputs[:2])
    np.testing.assert_array_equal(again[0], y)
    np.testing.assert_array_equal(again[1], chosen)


@pytest.mark.parametrize(("experts", "k"), [(64, 8), (67, 20), (1032, 3), (4, 2)])
@pytest.mark.parametrize("kind", [np.float32, np.float16, BFLOAT16])
def test_shares_of_all_experts(experts: int, k: int, kind: Any) -> None:
    """The second interface has them in float32, and no ids of rows."""
    x, over = numbers(3, 13, experts, kind=kind), np.arange(39).reshape(3, 13) % 4 == 0
    given = {"x": x, "finishedOptional": over, "k": k, "renorm": 0}
    name = "aclnnMoeGatingTopKSoftmaxV2"
    found = Device(CHIP).run(name, **given, outputSoftmaxResultFlag=True).outputs
    shares = np.exp(x.astype(np.float64))
    shares /= shares.sum(-1, keepdims=True)
    np.testing.assert_allclose(found["softmaxResultOutOptional"], shares, rtol=1e-5, atol=1e-7)
    largest = -np.sort(-shares, axis=-1)[..., :k]
    tolerance = {np.float32: 1e-5, np.float16: 2e-3}.get(kind, 1e-2)
    np.testing.assert_allclose(found["yOut"].astype(float), largest, rtol=tolerance, atol=1e-7)
    assert (found["expertIdxOut"][over] == experts).all()
    call = {**given, "outputSoftmaxResultFlag": False, "softmaxResultOutOptional": None}
    assert Device(CHIP).check(name, **call).ok
    assert Device(CHIP).check(name, **{**call, "renorm": 2}).code == 561002
    renormed = Device(CHIP).check(name, **{**call, "renorm": 1})
    if k > 8 or experts > 1024:  # a tiling of its own, cut along the experts
        assert renormed.verdict == "unknown"
        return
    assert renormed.ok
    found = Device(CHIP).run(name, **{**call, "renorm": 1}).outputs
    own = largest / largest.sum(-1, keepdims=True)
    np.testing.assert_allclose(found["yOut"].astype(float), own, rtol=max(tolerance, 2e-5))
    chosen = np.argsort(-x.astype(np.float64), axis=-1, kind="stable")[..., :k]
    np.testing.assert_array_equal(found["expertIdxOut"][~over], chosen[~over])


def test_experts_that_there_are_not_cannot_be_chosen() -> None:
    device = Device(CHIP)
    call = {"x": "fp16[64,8]", "k": 2, "yOut": "fp16[64,2]", "expertIdxOut": "int32[64,2]",
        "rowIdxOut": "int32[64,2]"}  # fmt: skip
    assert device.check("aclnnMoeGatingTopKSoftmax", **call).code == 0
    for wrong in ({"k": 9}, {"k": 0}, {"k": 3}, {"rowIdxOut": "int32[63,2]"}):
        assert device.check("aclnnMoeGatingTopKSoftmax", **{**call, **wrong}).code == 561002
    first = device.estimate("MoeGatingTopKSoftmax", x="bf16[4096,64]", k=8)
    call = {"x": "bf16[4096,64]", "k": 8, "renorm": 0}
    later = device.estimate("aclnnMoeGatingTopKSoftmaxV2", outputSoftmaxResultFlag=False, **call)
    assert 5 < later.duration_us < first.duration_us
    every = device.estimate("aclnnMoeGatingTopKSoftmaxV2", outputSoftmaxResultFlag=True, **call)
    assert 0.95 < every.duration_us / later.duration_us < 1.5


@settings(max_examples=25, deadline=None)
@given(
    tokens=st.integers(1, 150),
    count=st.integers(1, 5),
    width=st.one_of(st.integers(1, 300), st.just(20_000)),
    skips=st.integers(0, 2),
    bias=st.booleans(),
    scaled=st.booleans(),
    by_token=st.booleans(),
    kind=st.sampled_from([np.float32, np.float16, BFLOAT16]),
)
def test_results_come_back(
    tokens: int, count: int, width: int, skips: int, bias: bool, scaled: bool, by_token: bool,
    kind: Any,
) -> None:  # fmt: skip
    tokens = min(tokens, 9) if width > 300 else tokens
    rows = numbers(tokens * count, width, kind=kind)
    places = np.random.default_rng(1).permutation(tokens * count).astype(np.int32)
    beside = [numbers(tokens, width, seed=2 + place, kind=kind) for place in range(skips)]
    shift = numbers(7, width, seed=5, kind=kind) if bias else None
    experts = np.random.default_rng(6).integers(0, 7, (tokens, count)).astype(np.int32)
    scales = numbers(tokens, count, seed=7, kind=kind) if scaled else None
    by_rank = places.reshape(tokens, count) if by_token else places.reshape(count, tokens).T
    found = rows.astype(np.float64)[by_rank]
    if shift is not None:
        found = found + shift.astype(np.float64)[experts]
    if scales is not None:
        found = found * scales.astype(np.float64)[..., None]
    wanted = found.sum(1) + sum(each.astype(np.float64) for each in beside)
    given = [rows, places, *beside, *[None] * (2 - skips), shift, scales, experts]
    outputs = [np.zeros((tokens, width), kind)]
    said = {"drop_pad_mode": 2 if by_token else 0}
    (got,) = run(CHIP, "MoeFinalizeRoutingV2", given, outputs, **said)
    tolerance = {np.float32: 1e-5, np.float16: 2e-2}.get(kind, 6e-2)
    np.testing.assert_allclose(got.astype(np.float64), wanted, rtol=tolerance, atol=tolerance)
    assert_time_needs_no_numbers(CHIP, "MoeFinalizeRoutingV2", given, outputs, **said)


@settings(max_examples=25, deadline=None)
@given(
    counts=st.integers(1, 5).flatmap(
        lambda experts: st.lists(
            st.lists(st.integers(0, 60), min_size=experts, max_size=experts),
            min_size=1, max_size=6,
        )
    ),
    width=st.one_of(st.integers(1, 100), st.just(7000)),
    kind=st.sampled_from([np.float16, np.int8]),
    scaled=st.booleans(),
)  # fmt: skip
def test_ranks_are_put_together_by_experts(
    counts: list[list[int]], width: int, kind: Any, scaled: bool
) -> None:
    ranks = np.array(counts, np.int32)
    total, experts = int(ranks.sum()), ranks.shape[1]
    if not total:
        return
    tokens = (numbers(total, width) * 9).astype(kind)
    scales = numbers(total, seed=1)
    owner = np.repeat(np.tile(np.arange(experts), len(counts)), ranks.ravel())
    order = np.argsort(owner, kind="stable")
    outputs = [np.zeros_like(tokens), np.zeros(total, np.float32)]
    outputs += [np.zeros(total, np.int32), np.zeros(experts, np.int32)]
    given = [tokens, ranks, scales if scaled else None]
    got = run(CHIP, "MoeReRouting", given, outputs)
    np.testing.assert_array_equal(got[0], tokens[order])
    if scaled:
        np.testing.assert_array_equal(got[1], scales[order])
    np.testing.assert_array_equal(got[2], order)
    np.testing.assert_array_equal(got[3], ranks.sum(0))


@pytest.mark.parametrize(
    ("tokens", "k", "width"), [(1, 1, 3), (7, 2, 40), (130, 8, 16), (3, 2, 9000)]
)
@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_gradients_of_rows_of_experts(tokens: int, k: int, width: int, kind: Any) -> None:
    device, limit = Device(CHIP), 1e-4 if kind is np.float32 else 2e-2
    places = np.random.default_rng(0).permutation(tokens * k).astype(np.int32)
    grad, weights = numbers(tokens, width, kind=kind), numbers(tokens, k, seed=1).astype(kind)
    rows = (numbers(tokens * k, width, seed=2) / width).astype(kind)
    wide = [each.astype(np.float64) for each in (grad, weights, rows)]
    call = {"permutedTokens": rows, "unpermutedTokensGrad": grad, "sortedIndices": places,
            "probsOptional": weights, "paddedMode": False}  # fmt: skip
    done = device.run("aclnnMoeTokenUnpermuteGrad", **call).outputs
    assert done is not None
    want = np.zeros((tokens * k, width))
    want[places] = (wide[0][:, None] * wide[1][..., None]).reshape(-1, width)
    got = done["permutedTokensGradOut"].astype(np.float64)
    np.testing.assert_allclose(got, want, rtol=limit, atol=limit)
    want = (wide[2][places].reshape(tokens, k, width) * wide[0][:, None]).sum(-1)
    got = done["probsGradOut"].astype(np.float64)
    np.testing.assert_allclose(got, want, rtol=limit, atol=limit)
    want = wide[2][places].reshape(tokens, k, width).sum(1)
    for api, names in (
        ("aclnnMoeTokenPermuteGrad", ("permutedOutputGrad", "sortedIndices", "numTopk")),
        ("aclnnMoeInitRoutingV2Grad", ("gradExpandedX", "expandedRowIdx", "topK")),
    ):
        more = {"paddedMode": False} if "Token" in api else {"dropPadMode": 0, "activeNum": 0}
        found = device.run(api, **dict(zip(names, (rows, places, k), strict=True)), **more).outputs
        assert found is not None
        np.testing.assert_allclose(found["out"].astype(np.float64), want, rtol=limit, atol=limit)


@settings(max_examples=12, deadline=None)
@given(
    tokens=st.sampled_from([1, 7, 48, 300, 3500]),
    k=st.integers(1, 5),
    width=st.sampled_from([1, 16, 67, 9000]),
    experts=st.sampled_from([1, 8, 64]),
)
def test_rows_go_to_their_experts(tokens: int, k: int, width: int, experts: int) -> None:
    tokens = min(tokens, 60) if width > 67 else tokens
    pairs = tokens * k
    x = numbers(tokens, width, kind=np.float16)
    chosen = np.random.default_rng(k).integers(0, experts, (tokens, k)).astype(np.int32)
    order = np.argsort(chosen.ravel(), kind="stable")
    outputs = [np.zeros((pairs, width), np.float16), np.zeros(pairs, np.int32)]
    counts = np.zeros(experts, np.int32)
    said = {"expert_num": experts, "expert_tokens_count_or_cumsum_flag": 1}
    rows, places, found = run(CHIP, "MoeInitRoutingV2", [x, chosen], [*outputs, counts], **said)
    np.testing.assert_array_equal(rows, x[order // k])
    np.testing.assert_array_equal(places, np.argsort(order))
    np.testing.assert_array_equal(found, np.cumsum(np.bincount(chosen.ravel(), minlength=experts)))
    assert_time_needs_no_numbers(CHIP, "MoeInitRoutingV2", [x, chosen], outputs, **said)
    rows, places = run(CHIP, "MoeTokenPermute", [x, chosen], outputs)
    weights = numbers(tokens, k, seed=3).astype(np.float16)
    home = run(CHIP, "MoeTokenUnpermute", [rows, places, weights], [np.zeros_like(x)])
    wanted = x.astype(np.float64) * weights.astype(np.float64).sum(1, keepdims=True)
    np.testing.assert_allclose(home[0].astype(np.float64), wanted, rtol=2e-2, atol=2e-2)
    ids = np.arange(pairs, dtype=np.int32).reshape(k, tokens).T
    rows, places, ranked = run(
        CHIP, "MoeInitRouting", [x, ids, chosen], [*outputs, np.zeros(pairs, np.int32)]
    )
    by_choice = np.argsort(order).reshape(tokens, k).T.ravel()
    np.testing.assert_array_equal(rows, x[order // k])
    np.testing.assert_array_equal(places, by_choice)
    np.testing.assert_array_equal(ranked, np.sort(chosen.ravel()))


@settings(max_examples=8, deadline=None)
@given(
    tokens=st.integers(1, 70), k=st.integers(1, 3), width=st.integers(1, 130), even=st.booleans()
)
def test_rows_become_bytes_on_their_way(tokens: int, k: int, width: int, even: bool) -> None:
    x = numbers(tokens, width)
    chosen = np.random.default_rng(k).integers(0, 5, (tokens, k)).astype(np.int32)
    order, pairs = np.argsort(chosen.ravel(), kind="stable"), tokens * k
    scale, offset = (np.array([each], np.float32) for each in (20.0, 1.5))
    outputs = [np.zeros((pairs, width), np.int8), np.zeros(pairs, np.int32)]
    outputs += [np.zeros(5, np.int32), np.zeros(5, np.int32), np.zeros(pairs, np.float32)]
    given = [x, chosen, *((scale, offset) if even else (None, None))]
    said = {"expert_num": 5, "quant_mode": int(not even)}
    rows, *_, steps = run(CHIP, "MoeInitRoutingQuantV2", given, outputs, **said)
    routed = x.astype(np.float64)[order // k]
    if even:
        wanted = np.clip(np.rint(routed * 20 + 1.5), -128, 127)
        assert np.abs(rows - wanted).max() <= 1
    else:
        largest = np.abs(routed).max(1, keepdims=True)
        np.testing.assert_allclose(steps, largest[:, 0] / 127, rtol=1e-5)
        assert np.abs(rows - routed / largest * 127).max() <= 0.51


def test_calls_of_routing() -> None:
    device = Device(CHIP)
    call = {"x": "fp16[64,128]", "expertIdx": "int32[64,4]", "activeNum": 256, "expertNum": 8,
        "expertCapacity": 0, "dropPadMode": 0, "expertTokensCountOrCumsumFlag": 2,
        "expertTokensBeforeCapacityFlag": False, "expandedXOut": "fp16[256,128]",
        "expandedRowIdxOut": "int32[256]", "expertTokensCountOrCumsumOut": "int32[8]"}  # fmt: skip
    assert device.check("aclnnMoeInitRoutingV2", **call).code == 0
    assert device.check("aclnnMoeInitRoutingV2", **{**call, "dropPadMode": 1}).code == 561103
    wrong = {**call, "expertIdx": "int32[63,4]"}
    assert device.check("aclnnMoeInitRoutingV2", **wrong).code == 561103


@pytest.mark.parametrize("quantised", [True, False])
@pytest.mark.parametrize("api", ["aclnnMoeInitRoutingQuantV2", "aclnnMoeInitRoutingV3"])
def test_routed_rows_by_later_interfaces(api: str, quantised: bool) -> None:
    later, device = api.endswith("V3"), Device(CHIP)
    if not later and not quantised:
        return
    x, chosen = numbers(7, 40, kind=np.float16), np.random.default_rng(0).integers(0, 5, (7, 2))
    call: dict[str, Any] = {"x": x, "expertIdx": chosen.astype(np.int32), "expertCapacity": 0,
        "activeNum": chosen.size if later else 0, "expertNum": 5, "dropPadMode": 0}  # fmt: skip
    call["quantMode"] = 1 if quantised else -1
    if later:
        call |= {"expertTokensNumType": 1, "expertTokensNumFlag": True, "rowIdxType": 0}
        call |= {"activeExpertRangeOptional": [0, 5]}
    else:
        call |= {"expertTokensCountOrCumsumFlag": 1, "expertTokensBeforeCapacityFlag": False}
    done = device.run(api, **call).outputs
    assert done is not None
    order = np.argsort(chosen.ravel(), kind="stable")
    rows = x.astype(np.float64)[order // 2]
    if quantised:
        scales = done["expandedScaleOut" if later else "dynamicQuantScaleOutOptional"]
        steps = scales[:, None].astype(np.float64)
        assert np.abs(done["expandedXOut"] * steps - rows).max() <= 0.51 * steps.max()
    else:
        np.testing.assert_array_equal(done["expandedXOut"], rows)
    np.testing.assert_array_equal(done["expandedRowIdxOut"], np.argsort(order))
    counts = np.bincount(chosen.ravel(), minlength=5)
    got = done["expertTokensCountOrCumsumOut" + ("" if later else "Optional")]
    np.testing.assert_array_equal(got, counts if later else np.cumsum(counts))
    if later:
        assert got.dtype == np.int64
        for wrong in ({"activeExpertRangeOptional": [1, 5]}, {"rowIdxType": 1}):
            status = device.check(api, **{**call, **wrong})
            assert status.verdict == "unknown"


def test_places_outside_are_faults_and_shapes_are_checked() -> None:
    rows, scales = numbers(8, 16), numbers(4, 2)
    places = np.array([0, 1, 2, 3, 4, 5, 6, 8], np.int32)
    given = [rows, places, None, None, None, scales, None]
    with pytest.raises(DeviceFault, match="index 8"):
        run(CHIP, "MoeFinalizeRoutingV2", given, [np.zeros((4, 16), np.float32)])
    call = {
        "expandedX": "fp16[8,16]", "expandedRowIdx": "int32[8]", "scalesOptional": "fp16[4,2]",
        "dropPadMode": 0, "out": "fp16[4,16]",
    }  # fmt: skip
    device = Device(CHIP)
    assert device.check("aclnnMoeFinalizeRoutingV2", **call).code == 0
    wrong = {**call, "expandedRowIdx": "int32[7]"}
    assert device.check("aclnnMoeFinalizeRoutingV2", **wrong).code == 561103


def test_the_first_interface_has_all_but_a_second_skip() -> None:
    """aclnnMoeFinalizeRouting: places by choice, as MoeFinalizeRoutingV2 has them in mode 0."""
    rows, skip, bias, scales = (numbers(*each, seed=at) for at, each in
        enumerate([(10, 16), (5, 16), (3, 16), (5, 2)]))  # fmt: skip
    places = np.random.default_rng(1).permutation(10).astype(np.int32)
    experts = np.random.default_rng(2).integers(0, 3, (5, 2)).astype(np.int32)
    found = Device(CHIP).run(
        "aclnnMoeFinalizeRouting", expandedX=rows, expandedRowIdx=places, x1=skip,
        x2Optional=None, bias=bias, scales=scales, expandedExpertIdx=experts,
    ).outputs["out"]  # fmt: skip
    own = rows[places.reshape(2, 5).T] + bias[experts]
    np.testing.assert_allclose(found, skip + (own * scales[..., None]).sum(1), rtol=1e-5)


@settings(max_examples=15, deadline=None)
@given(
    tokens=st.integers(1, 60),
    layout=st.sampled_from([(8, 32, 4), (8, 20, 3), (1, 64, 1), (5, 80, 2), (4, 8, 4)]),
    two=st.booleans(),
    sigmoid=st.booleans(),
    biased=st.booleans(),
    kind=st.sampled_from([np.float32, np.float16]),
)
def test_experts_are_those_of_the_best_groups(
    tokens: int, layout: tuple[int, int, int], two: bool, sigmoid: bool, biased: bool, kind: Any
) -> None:
    groups, each, kept = layout
    rng, k = np.random.default_rng(tokens), min(6, kept * each)
    x = rng.standard_normal((tokens, groups * each)).astype(kind)
    bias = (rng.standard_normal(groups * each) / 4).astype(kind) if biased else None
    power = np.exp(x.astype(np.float64))
    shares = power / (1 + power) if sigmoid else power / power.sum(-1, keepdims=True)
    decides = shares + (0 if bias is None else bias.astype(np.float64))
    best = np.sort(decides.reshape(tokens, groups, each), -1)[..., -2 if two else -1 :].sum(-1)
    left_out = np.argsort(-best, -1, kind="stable")[:, kept:]
    for token, names in enumerate(left_out):
        decides.reshape(tokens, groups, each)[token, names] = -np.inf
    chosen = np.argsort(-decides, -1, kind="stable")[:, :k]
    wanted = np.take_along_axis(shares, chosen, -1)
    wanted *= 2.5 / (wanted.sum(-1, keepdims=True) if sigmoid else 1)
    outputs = [np.zeros((tokens, k), kind), np.zeros((tokens, k), np.int32)]
    said = {"group_count": groups, "k_group": kept, "group_select_mode": int(two)}
    said |= {"norm_type": int(sigmoid), "routed_scaling_factor": 2.5}
    y, experts = run("Ascend910B3", "MoeGatingTopK", [x, bias], outputs, **said)
    np.testing.assert_array_equal(experts, chosen)
    np.testing.assert_allclose(
        y.astype(np.float64), wanted, rtol=2e-3 if kind != np.float32 else 2e-6
    )


@pytest.mark.parametrize("norm", [0, 1, 2])
@pytest.mark.parametrize("kind", [np.float32, np.float16, BFLOAT16])
@pytest.mark.parametrize("ids", [None, np.int32, np.int64])
@pytest.mark.parametrize("table", [np.int32, np.int64])
def test_a_table_says_which_experts_a_token_has(norm: int, kind: Any, ids: Any, table: Any) -> None:
    """Without one they are those of the largest shares; a bias decides, but counts for nothing."""
    rng, (tokens, experts, k) = np.random.default_rng(norm), (83, 67, 6)
    x, bias = numbers(tokens, experts, kind=kind), numbers(experts, seed=4, kind=kind)
    wide = x.astype(np.float64)
    power = np.exp(wide)
    shares = [power / power.sum(-1, keepdims=True), power / (1 + power), np.sqrt(np.log1p(power))]
    listed = np.array([rng.permutation(experts)[:k] for _ in range(1000)]).astype(table)
    words = None if ids is None else rng.integers(0, 1000, tokens).astype(ids)
    chosen = np.argsort(-(shares[norm] + bias.astype(np.float64)), -1, kind="stable")[:, :k]
    chosen = chosen if words is None else listed[words]
    wanted = np.take_along_axis(shares[norm], chosen.astype(np.int64), -1)
    wanted = 2.5 * wanted / (wanted.sum(-1, keepdims=True) if norm else 1)
    outputs = [np.zeros((tokens, k), kind), np.zeros((tokens, k), np.int32)]
    given = [x, bias, *([None, None] if words is None else [words, listed])]
    said = {"norm_type": norm, "routed_scaling_factor": 2.5}
    y, found = run("Ascend910B3", "MoeGatingTopKHash", given, outputs, **said)
    tolerance = {np.float32: 2e-6, np.float16: 2e-3}.get(kind, 1e-2)
    np.testing.assert_allclose(y.astype(np.float64), wanted, rtol=tolerance)
    np.testing.assert_array_equal(found, chosen)


def test_a_table_costs_less_than_sorting() -> None:
    device = Device("Ascend910B3")
    call = {"x": "fp32[512,384]", "k": 6, "norm_type": 2}
    told = {"input_ids": "int64[512]", "tid2eid": "int32[129280,6]"}
    sorted_, listed = (device.estimate("MoeGatingTopKHash", **call, **more) for more in ({}, told))
    assert 0.3 * sorted_.duration_us < listed.duration_us < 0.9 * sorted_.duration_us
    same = {"x": "fp32[512,384]", "k": 6, "norm_type": 1}
    other = device.estimate("MoeGatingTopK", **same)
    assert device.estimate("MoeGatingTopKHash", **same).cycles == other.cycles


def test_groups_that_there_are_not() -> None:
    device = Device("Ascend910B3")
    call = {"x": "fp32[4,256]", "k": 8, "group_count": 8, "k_group": 4}
    assert device.check("MoeGatingTopK", **call).code == 0
    for change in ({"group_count": 7}, {"k_group": 9}, {"k": 200, "k_group": 2}, {"renorm": 1}):
        assert device.check("MoeGatingTopK", **call | change).verdict != "yes"
    assert device.check("MoeGatingTopK", **call | {"k": 300}).code == 161002


@pytest.mark.parametrize(
    ("experts", "k", "sorts", "merges"),
    [
        (32, 4, True, 0),
        (64, 4, True, 1),
        (64, 1, False, 0),  # the largest by a reduction
        (256, 1, True, 2),
        (512, 8, True, 2),
        (520, 8, True, 4),  # the one group beyond 16, and then row by row
        (1024, 8, True, 5),
    ],
)
def test_rows_of_experts_are_merged_by_four(experts: int, k: int, sorts: bool, merges: int) -> None:
    x = TensorSpec((6, experts), "float32")  # a row for each core
    played = Device(CHIP).estimate("MoeGatingTopKSoftmax", x=x, k=k).timeline.slices()
    names = Counter(each.name for each in played)
    assert (names["vbitsort32"] > 0) is sorts
    assert names["vmrgsort4v2"] == 6 * merges
