"""Attention against softmax(q @ k.T) @ v in float64: layouts, masks, lengths, and its physics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim import Device, TensorSpec
from npusim.engine import L2State
from npusim.engine.compiled import play as compiled
from npusim.hardware import load_profile
from npusim.operators.tasks import TaskSpec, kernels_of
from npusim.runtime.task import play, run_tasks
from npusim.values.dtypes import FLOAT, FLOAT16
from npusim.values.errors import KernelError
from support import physics
from support.attention import LAYOUTS, attention, heads, laid_out, rounded
from support.reference import assert_like_the_reference
from support.tasks import BFLOAT16, cycles, kernels, run

Array = np.ndarray[Any, Any]

CHIP = "Ascend910B3"
TOLERANCE = {np.float16: 2e-3, BFLOAT16: 1.6e-2, np.float32: 1e-5}
TRIANGLE = np.triu(np.ones((2048, 2048), np.uint8), 1)


def visible(queries: int, keys: int, before: int, after: int) -> Array:
    i, j = np.arange(queries)[:, None], np.arange(keys)
    return (j >= i - before) & (j <= i + after)


def forward(
    q: Array, k: Array, v: Array, layout: str, kind: Any, *more: Array | None, **given: Any
) -> list[Array]:
    """Maxima, sums and the attention of a task."""
    inputs = [laid_out(each, layout, kind) for each in (q, k, v)]
    stats = np.zeros((*q.shape[:3], 8), np.float32)
    shape = (*q.shape[:3], v.shape[-1])
    outputs = [stats, stats, laid_out(np.zeros(shape), layout, kind)]
    attributes = {"head_num": q.shape[1], "input_layout": layout, **given}
    attributes.setdefault("scale_value", q.shape[-1] ** -0.5)
    return run(CHIP, "FlashAttentionScore", [*inputs, *more], outputs, **attributes)


@given(data=st.data())
@settings(max_examples=12, deadline=None)
def test_every_layout_and_dtype(data: st.DataObject) -> None:
    layout = data.draw(st.sampled_from(sorted(LAYOUTS)))
    kind = data.draw(st.sampled_from(sorted(TOLERANCE, key=str)))
    batch, shared, group = (data.draw(st.integers(1, 3)) for _ in range(3))
    queries, keys = (data.draw(st.sampled_from((1, 7, 16, 37, 129, 300))) for _ in range(2))
    columns = data.draw(st.sampled_from((8, 16, 24, 64)))
    q = heads(batch, shared * group, queries, columns, 0)
    k, v = (heads(batch, shared, keys, columns, seed) for seed in (1, 2))
    top, total, out = forward(q, k, v, layout, kind)
    want, largest, weight = attention(*rounded(q, k, v, kind=kind))
    np.testing.assert_allclose(
        out.astype(np.float64), laid_out(want, layout, np.float64), atol=TOLERANCE[kind], rtol=0.02
    )
    np.testing.assert_allclose(top, np.broadcast_to(largest, top.shape), atol=1e-4)
    np.testing.assert_allclose(total, np.broadcast_to(weight, total.shape), rtol=1e-3)


@pytest.mark.parametrize(
    ("mode", "tokens", "queries", "keys", "band"),
    [
        (0, (2**31 - 1, 0), 200, 200, (2**31, 0)),
        (0, (70, 30), 300, 300, (70, 30)),
        (1, (0, 0), 130, 260, (50, 77)),
        (2, (0, 0), 1500, 1200, (2**31, 0)),
        (3, (0, 0), 260, 2300, (2**31, 2040)),
        (3, (0, 0), 300, 140, (2**31, -160)),
        (4, (90, 60), 1300, 1400, (-10, 160)),
        (4, (1300, -20), 1400, 1400, (1300, -20)),
    ],
)
def test_sparse_modes(
    mode: int, tokens: tuple[int, int], queries: int, keys: int, band: tuple[int, int]
) -> None:
    q, k, v = (heads(1, 1, size, 16, seed) for seed, size in enumerate((queries, keys, keys)))
    seen = visible(queries, keys, *band)
    mask = TRIANGLE if mode in (2, 3, 4) else (~seen).astype(np.uint8)
    given = {"sparse_mode": mode, "pre_tockens": tokens[0], "next_tockens": tokens[1]}
    _, _, out = forward(q, k, v, "BNSD", np.float16, None, None, None, mask, **given)
    want, _, _ = attention(*rounded(q, k, v, kind=np.float16), seen)
    np.testing.assert_allclose(out.astype(np.float64), want, atol=3e-3)


@pytest.mark.parametrize(("mode", "prefix"), [(5, [150, 40]), (6, [1100, 300])])
def test_prefixes_are_seen_by_every_query(mode: int, prefix: list[int]) -> None:
    size = 1200 if mode == 6 else 200
    q, k, v = (heads(2, 1, size, 16, seed) for seed in range(3))
    first = np.arange(size) < np.array(prefix)[:, None, None, None]
    seen = visible(size, size, 2**31, 0) | first
    low = np.tile(np.arange(2048) >= 1024, (1024, 1)).astype(np.uint8)
    mask = (~seen).astype(np.uint8) if mode == 5 else np.concatenate([TRIANGLE, low])
    given = {"sparse_mode": mode, "prefix": prefix}
    _, _, out = forward(q, k, v, "BNSD", np.float16, None, None, None, mask, **given)
    want, _, _ = attention(*rounded(q, k, v, kind=np.float16), seen)
    np.testing.assert_allclose(out.astype(np.float64), want, atol=3e-3)


@pytest.mark.parametrize("mode", [0, 3, 7, 8])
def test_packed_sequences(mode: int) -> None:
    """Three sequences one behind the other, one of them with a single token."""
    rows, keys = (60, 1, 140), (90, 30, 170)
    q = np.random.default_rng(0).standard_normal((sum(rows), 2, 16)).astype(np.float16)
    k, v = np.random.default_rng(1).standard_normal((2, sum(keys), 2, 16)).astype(np.float16)
    ends = [np.cumsum(each).tolist() for each in (rows, keys)]
    mask = None if mode == 0 else TRIANGLE
    out = run(
        CHIP, "FlashAttentionScore", [q, k, v, None, None, None, mask],
        [np.zeros((sum(rows), 2, 8), np.float32)] * 2 + [np.zeros_like(q)],
        head_num=2, input_layout="TND", scale_value=0.25, sparse_mode=mode, pre_tockens=50,
        next_tockens=20, actual_seq_qlen=ends[0], actual_seq_kvlen=ends[1],
    )[2]  # fmt: skip
    edges = [[0, *each] for each in ends]
    for at, (queries, own) in enumerate(zip(rows, keys, strict=True)):
        band = {0: (2**31, 2**31), 3: (2**31, own - queries), 7: (2**31, own - queries),
                8: (2**31, 0)}[mode]  # fmt: skip
        if (mode, at) in ((7, 2), (8, 0)):
            band = (50 - (own - queries), 20 + own - queries)
        parts = [x[slice(*e[at : at + 2])].swapaxes(0, 1)[None].astype(np.float64)
                 for x, e in ((q, edges[0]), (k, edges[1]), (v, edges[1]))]  # fmt: skip
        want, _, _ = attention(*parts, visible(queries, own, *band), 0.25)
        got = out[slice(*edges[0][at : at + 2])].swapaxes(0, 1)[None]
        np.testing.assert_allclose(got.astype(np.float64), want, atol=3e-3)


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("shape", [(2, 2, 130, 72), (1, 2, 1, 72)])
def test_shifted_scores(kind: int, shape: tuple[int, ...]) -> None:
    q, k, v = (heads(2, 2, size, 32, seed) for seed, size in enumerate((130, 72, 72)))
    shift = np.random.default_rng(5).standard_normal(shape).astype(np.float16)
    _, _, out = forward(q, k, v, "BNSD", np.float16, shift, pse_type=kind, scale_value=0.5)
    q, k, v = rounded(q, k, v, kind=np.float16)
    scores = q @ k.swapaxes(-1, -2) * 0.5 + shift * (0.5 if kind else 1.0)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    want = weights / weights.sum(-1, keepdims=True) @ v
    np.testing.assert_allclose(out.astype(np.float64), want, atol=3e-3)


def test_dropped_scores() -> None:
    q, k, v = (heads(1, 2, size, 32, seed) for seed, size in enumerate((130, 72, 72)))
    kept = np.random.default_rng(5).random((1, 2, 130, 72)) < 0.7
    bits = np.packbits(kept, bitorder="little")
    _, _, out = forward(q, k, v, "BNSD", np.float16, None, bits, keep_prob=0.7)
    q, k, v = rounded(q, k, v, kind=np.float16)
    scores = q @ k.swapaxes(-1, -2) * 32**-0.5
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    want = weights / weights.sum(-1, keepdims=True) * kept / 0.7 @ v
    np.testing.assert_allclose(out.astype(np.float64), want, atol=4e-3)


def shapes(*sizes: tuple[int, ...], kind: Any = np.float16) -> list[Array]:
    """Arrays without numbers."""
    return [np.broadcast_to(np.zeros((), kind), size) for size in sizes]


def time_us(length: int, chip: str = CHIP, **given: Any) -> float:
    q, k, v, out = shapes(*[(1, length, 1024)] * 4)
    inputs = [q, k, v, None, None, None, given.pop("mask", None)]
    return cycles(chip, "FlashAttentionScore", inputs, [out], head_num=8, input_layout="BSH",
                  **given) / 1800  # fmt: skip


def test_masked_rounds_are_skipped() -> None:
    whole = time_us(8192)
    causal = time_us(8192, mask=TRIANGLE, sparse_mode=3)
    assert 0.5 * whole < causal < 0.72 * whole


def test_time_is_above_that_of_the_products() -> None:
    flops = 4 * 8 * 4096**2 * 128
    profile = physics.profile_of(CHIP)
    assert time_us(4096) > flops / (profile.cube_peak_tops("float16") * 1e6)


def test_longer_sequences_take_longer() -> None:
    times = [time_us(length) for length in (128, 500, 1024, 2000, 4096)]
    assert times == sorted(times)


def test_products_are_asked_for_by_messages() -> None:
    """Two vector cores make two objects each and ask for two products, one cube core reads them."""
    profile = load_profile(CHIP)
    assert profile.launch.message_us > 0
    free = profile.launch.model_copy(update={"message_us": 0.0})
    x = np.zeros((1, 256, 1, 64), np.float16)
    without, asked = (
        cycles(chip, "MHA", [x, x, x], [x])
        for chip in (profile.model_copy(update={"launch": free}), profile)
    )
    each = profile.launch.message_us * profile.clock_mhz
    assert 6 * each < asked - without < 9 * each


def test_time_needs_no_numbers() -> None:
    q, k, v, out = (np.zeros((1, 300, 64), np.float16) for _ in range(4))
    times = [
        cycles(CHIP, "FlashAttentionScore", [q, k, v], [out], numerics=each, input_layout="BSH",
               head_num=2)
        for each in (False, True)
    ]  # fmt: skip
    assert times[0] == times[1]


@pytest.mark.parametrize(
    ("length", "measured_us"), [(8192, 353.1 - 50), (16384, 1118.5 - 50)]
)  # 50 us of each are the host's; source: hw-native-sys/pto-isa@3186c381bd
def test_published_lengths(length: int, measured_us: float) -> None:
    q, k, v, out = shapes(*[(1, length, 128)] * 4)
    found = cycles("Ascend910B2", "FlashAttentionScore", [q, k, v], [out], head_num=1,
                   input_layout="BSH") / 1800  # fmt: skip
    assert found == pytest.approx(measured_us, rel=0.2)


@pytest.mark.parametrize(
    ("tensors", "given", "problem"),
    [
        ([(1, 64, 96)] * 3, {"head_num": 5, "input_layout": "BSH"}, "can't be cut into 5 heads"),
        (
            [(1, 64, 96), (1, 64, 64), (1, 64, 64)],
            {"head_num": 2, "input_layout": "BNSD"},
            "layout",
        ),
        ([(1, 3, 64, 32), (1, 2, 64, 32), (1, 2, 64, 32)], {"input_layout": "BNSD"}, "share"),
        ([(1, 1, 64, 32)] * 3, {"input_layout": "XYZ"}, "layout XYZ"),
        ([(1, 1, 64, 32)] * 3, {"input_layout": "BNSD", "sparse_mode": 9}, "sparse mode 9"),
    ],
)
def test_refused(tensors: list[tuple[int, ...]], given: dict[str, Any], problem: str) -> None:
    with pytest.raises(KernelError, match=problem):
        kernels(CHIP, "FlashAttentionScore", shapes(*tensors), [], given)


def test_what_a_kernel_writes_again_and_again_stays_in_l2() -> None:
    """Workspace of 50 MB beside 256 MB of tensors is no traffic of HBM."""
    profile = physics.profile_of("Ascend910B2")
    tensors = shapes(*[(1, 8192, 4096)] * 4)
    (kernel,), _ = kernels(profile, "FlashAttentionScore", tensors[:3], tensors[3:],
                           {"head_num": 32, "input_layout": "BSH"})  # fmt: skip
    played = play(kernel, profile, L2State(profile.memory.l2_bytes), numerics=False)
    assert played.traffic.written_bytes > 10 * played.traffic.hbm_bytes


# -- inference -------------------------------------------------------------------------------------


@given(data=st.data())
@settings(max_examples=10, deadline=None)
def test_heads_that_share_keys(data: st.DataObject) -> None:
    """Prompts and single tokens, causal from the lower right or not."""
    layout = data.draw(st.sampled_from(("BNSD", "BSND", "BSH")))
    shared, group = data.draw(st.integers(1, 2)), data.draw(st.sampled_from((1, 3, 8)))
    queries, keys = data.draw(st.sampled_from((1, 1, 2, 40, 200))), data.draw(st.integers(1, 700))
    causal = data.draw(st.booleans()) and queries <= keys
    q = heads(2, shared * group, queries, 32, 0)
    k, v = (heads(2, shared, keys, 32, seed) for seed in (1, 2))
    tensors = [laid_out(each, layout, np.float16) for each in (q, k, v)]
    given = {"num_heads": shared * group, "num_key_value_heads": shared, "input_layout": layout}
    mask = [None, TRIANGLE] if causal else []
    given |= {"sparse_mode": 3} if causal else {}
    (out,) = run(CHIP, "FusedInferAttentionScore", [*tensors, *mask], [np.zeros_like(tensors[0])],
                 **given)  # fmt: skip
    seen = visible(queries, keys, 2**31, keys - queries) if causal else True
    want, _, _ = attention(*rounded(q, k, v, kind=np.float16), seen)
    np.testing.assert_allclose(
        out.astype(np.float64), laid_out(want, layout, np.float64), atol=3e-3
    )


@pytest.mark.parametrize("api", ["V3", "V4"])
def test_queries_and_keys_with_a_rope(api: str) -> None:
    """Latent attention: 512 elements and a rope of 64, one key for all heads, in pages."""
    api, lengths, size, scale = f"aclnnFusedInferAttentionScore{api}", [300, 130], 128, 0.05
    q, rope = (heads(2, 16, 1, columns, columns).astype(np.float16) for columns in (512, 64))
    k, k_rope = (heads(2, 1, 384, columns, 1).astype(np.float16) for columns in (512, 64))
    device = Device(CHIP)
    table = np.array([[4, 0, 2], [1, 5, 3]], np.int32)
    caches = [np.zeros((6, size, each.shape[-1]), np.float16) for each in (k, k_rope)]
    for cache, each in zip(caches, (k, k_rope), strict=True):
        cache[table] = each.reshape(2, 3, size, -1)
    more = {"blockTableOptional": table, "blockSize": size}
    call = {"query": q, "key0": caches[0], "value0": caches[0], "queryRopeOptional": rope,
            "keyRopeOptional": caches[1], "actualSeqLengthsKvOptional": lengths, "numHeads": 16,
            "scaleValue": scale, "inputLayout": "BNSD", "numKeyValueHeads": 1, **more}  # fmt: skip
    done = device.run(api, **call)
    seen = np.arange(384) < np.array(lengths)[:, None, None, None]
    both = [np.concatenate(pair, -1).astype(np.float64) for pair in ((q, rope), (k, k_rope))]
    want, _, _ = attention(both[0], both[1], k.astype(np.float64), seen, scale)
    assert done.outputs is not None
    np.testing.assert_allclose(done.outputs["attentionOut"].astype(float), want, atol=3e-3)
    del call["keyRopeOptional"]
    assert "keyRope is null" in device.check(api, **call).message
    plain = {name: call[name] for name in ("numHeads", "numKeyValueHeads", "inputLayout")}
    plain |= {"query": "fp16[2,16,4,64]", "key0": "fp16[2,1,96,64]", "value0": "fp16[2,1,96,64]"}
    prefix = "fp16[1,1,16,64]"
    both = {"keySharedPrefixOptional": prefix, "valueSharedPrefixOptional": prefix}
    refused = device.check(api, **plain, **both)
    assert refused.verdict == "unknown"


@pytest.mark.parametrize("layout", ["BNSD", "TND"])
def test_later_interfaces_do_what_the_first_does(layout: str) -> None:
    shape = (2, 4, 70, 64) if layout == "BNSD" else (140, 4, 64)
    q, k, v = (TensorSpec(shape, "fp16"),) * 3
    device, first = Device(CHIP), "" if layout == "BNSD" else "VarLen"
    call = {"query": q, "key": k, "value": v, "scaleValue": 0.1, "keepProb": 1.0,
            "preTokens": 9999, "nextTokens": 9999, "headNum": 4, "inputLayout": layout,
            "innerPrecise": 0, "sparseMode": 0}  # fmt: skip
    kinds = {"": ("V2", "V3"), "VarLen": ("V2", "V4")}[first]
    if layout == "TND":
        call |= {"actualSeqQLenOptional": [70, 140], "actualSeqKvLenOptional": [70, 140]}
    name = f"aclnnFlashAttention{first}Score"
    want = device.estimate(name, **call)
    for kind in kinds:
        own = {"pseType": 1} if kind != "V4" else {}
        assert device.estimate(name + kind, **call, **own).duration_us == want.duration_us
    sunk = {"sinkOptional": TensorSpec((4,), "fp32"), "pseType": 1}
    if not first:
        refused = device.check(f"{name}V3", **call, **sunk)
        assert refused.verdict == "unknown"


@pytest.mark.parametrize("layout", ["BSH", "BNSD"])
@pytest.mark.parametrize("size", [16, 128])
def test_caches_in_pages(layout: str, size: int) -> None:
    """Pages in any order, sequences of any length, one query each."""
    lengths, shared, group, columns = (300, 1, 77), 2, 4, 32
    dice = np.random.default_rng(0)
    most = -(-max(lengths) // size)
    table = dice.permutation(3 * most).reshape(3, most).astype(np.int32)
    caches = [dice.standard_normal((3 * most, shared, size, columns)).astype(np.float16)
              for _ in range(2)]  # fmt: skip
    q = heads(3, shared * group, 1, columns, 3)
    stored = [each if layout == "BNSD" else each.swapaxes(1, 2).reshape(3 * most, size, -1)
              for each in caches]  # fmt: skip
    (out,) = run(
        CHIP, "IncreFlashAttention",
        [laid_out(q, layout, np.float16), *stored, *[None] * 9, None, table],
        [laid_out(np.zeros_like(q), layout, np.float16)],
        num_heads=shared * group, num_key_value_heads=shared, input_layout=layout,
        actual_seq_lengths_kv=list(lengths),
    )  # fmt: skip
    for b, length in enumerate(lengths):
        k, v = (each[table[b]].swapaxes(0, 1).reshape(shared, -1, columns)[None, :, :length]
                for each in caches)  # fmt: skip
        want, _, _ = attention(*rounded(q[b : b + 1], k, v, kind=np.float16))
        got = out.reshape(3, -1, columns)[b].astype(np.float64)
        np.testing.assert_allclose(got, want[0, :, 0], atol=3e-3)


@pytest.mark.parametrize("columns", [80, 128])
def test_prompts_read_the_mask_of_all_scores_that_they_come_with(columns: int) -> None:
    """A record without attributes: what is trained with one is causal."""
    given, profile = (1, 24, 1536, columns), load_profile(CHIP)
    tensors = [TensorSpec(given, "float16")] * 3
    mask = TensorSpec((1, 1, 1536, 1536), "bool")

    def cycles_of(op: str, before: int, **attributes: Any) -> float:
        inputs = (*tensors, *[None] * before, mask)
        task = TaskSpec(op, inputs, (TensorSpec(given, "float16"),), attributes)
        ((kernel,),) = (kernels_of(profile, task),)
        return play(kernel, profile, L2State(profile.memory.l2_bytes), numerics=False).cycles

    every = {"sparse_mode": 1, "num_heads": 24, "input_layout": "BNSD"}
    whole = cycles_of("PromptFlashAttention", 1, **every)
    assert cycles_of("PromptFlashAttention", 1) == whole
    trained = cycles_of("FlashAttentionScore", 3)
    assert trained < 0.8 * cycles_of("FlashAttentionScore", 3, head_num=24, input_layout="BNSD")


@pytest.mark.parametrize(("queries", "causal"), [(1, False), (3, True), (70, True)])
def test_latent_attention(queries: int, causal: bool) -> None:
    """A rope beside queries and keys; all heads share one of keys."""
    q, q_rope = (heads(2, 6, queries, size, seed) for seed, size in ((0, 64), (1, 16)))
    k, v, k_rope = (heads(2, 1, 90, size, seed) for seed, size in ((2, 64), (3, 64), (4, 16)))
    tensors = [laid_out(each, "BSND", np.float16) for each in (q, q_rope, k, k_rope, v)]
    (out,) = run(CHIP, "MLA", tensors, [np.zeros_like(tensors[0])], inputLayout="BSND",
                 is_causal=causal)  # fmt: skip
    whole = rounded(q, q_rope, k, k_rope, v, kind=np.float16)
    joined = [np.concatenate(whole[at : at + 2], -1) for at in (0, 2)]
    seen = visible(queries, 90, 2**31, 90 - queries) if causal else True
    want, _, _ = attention(*joined, whole[4], seen)
    np.testing.assert_allclose(out.astype(np.float64), laid_out(want, "BSND", float), atol=3e-3)


@pytest.mark.parametrize("count", [1, 8, 40, 100])
def test_latent_keys_are_split_where_sequences_are_few(count: int) -> None:
    """Numbers of parts that are merged, and the time: all clusters have some of the keys."""
    q, q_rope = (heads(2, count, 1, size, seed) for seed, size in ((0, 64), (1, 16)))
    k, v, k_rope = (heads(2, 1, 4321, size, seed) for seed, size in ((2, 64), (3, 64), (4, 16)))
    tensors = [laid_out(each, "BSND", np.float16) for each in (q, q_rope, k, k_rope, v)]
    given = (CHIP, "MLA", tensors, [np.zeros_like(tensors[0])])
    (out,) = run(*given, inputLayout="BSND")
    whole = rounded(q, q_rope, k, k_rope, v, kind=np.float16)
    joined = [np.concatenate(whole[at : at + 2], -1) for at in (0, 2)]
    want, _, _ = attention(*joined, whole[4], True)
    np.testing.assert_allclose(out.astype(np.float64), laid_out(want, "BSND", float), atol=3e-3)
    many = [np.concatenate([each] * 6) for each in tensors]
    six_times = cycles(CHIP, "MLA", many, [np.zeros_like(many[0])], inputLayout="BSND")
    chip = load_profile(CHIP)
    begins = chip.launch.attention_us * chip.clock_mhz
    assert cycles(*given, inputLayout="BSND") - begins < 0.7 * (six_times - begins)


def test_padded_sequences_count_as_far_as_they_go() -> None:
    q, k, v = (heads(2, 2, size, 16, seed) for seed, size in enumerate((40, 60, 60)))
    tensors = [laid_out(each, "BSH", np.float16) for each in (q, k, v)]
    given = {"actual_seq_lengths": [40, 13], "actual_seq_lengths_kv": [60, 25]}
    (out,) = run(CHIP, "PromptFlashAttention", tensors, [np.zeros_like(tensors[0])], num_heads=2,
                 input_layout="BSH", **given)  # fmt: skip
    want, _, _ = attention(*rounded(q[1:, :, :13], k[1:, :, :25], v[1:, :, :25], kind=np.float16))
    got = out.reshape(2, 40, 2, 16)[1:, :13].swapaxes(1, 2)
    np.testing.assert_allclose(got.astype(np.float64), want, atol=3e-3)


def test_a_layout_that_nobody_names_follows_from_the_mask() -> None:
    """Profiles print no attributes; 16 heads of 512 tokens aren't 512 heads of 16."""
    x, mask = np.zeros((2, 16, 512, 80), np.float16), np.zeros((2, 1, 512, 512), np.bool_)

    def time(tensors: list[Array], **given: Any) -> float:
        x, *_, mask = tensors
        operands = [x, x, x, None, mask] if mask.dtype == np.bool_ else [x, x, x]
        return cycles(CHIP, "PromptFlashAttention", operands, [np.zeros_like(x)], **given)

    turned = np.ascontiguousarray(x.swapaxes(1, 2))
    layouts = [("BNSD", x), ("BSND", turned)]
    told = [time([each, mask], input_layout=name, num_heads=16) for name, each in layouts]
    assert [time([each, mask]) for _, each in layouts] == told
    bare = [time([each, each], input_layout=name, num_heads=16) for name, each in layouts]
    assert [time([each, each]) for _, each in layouts] == bare


def test_a_layout_that_nobody_names_goes_by_keys_and_not_by_ropes() -> None:
    """Beside latent queries there are their ropes, of as many tokens and heads."""
    q, q_rope = (np.zeros((4, 1, 32, size), np.float16) for size in (512, 64))
    k, k_rope = (np.zeros((4, 1000, 1, size), np.float16) for size in (512, 64))
    given = (CHIP, "MLA", [q, q_rope, k, k_rope, k], [np.zeros_like(q)])
    assert cycles(*given) == cycles(*given, inputLayout="BSND")


def test_what_heads_share_is_read_once() -> None:
    """A token's heads are rows of one block: reading the cache takes the time."""
    q, out = shapes(*[(16, 1, 64, 128)] * 2)
    times = []
    for shared in (8, 64):
        k, v = shapes(*[(16, 1024, shared, 128)] * 2)
        given = {"num_heads": 64, "input_layout": "BSND"}
        times.append(cycles(CHIP, "FusedInferAttentionScore", [q, k, v], [out], **given))
    assert times[0] < times[1] / 4


# -- gradients -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layout", "kind", "group", "queries", "keys", "causal", "keep"),
    [
        ("BNSD", np.float16, 1, 130, 72, False, 1.0),
        ("BSH", BFLOAT16, 3, 40, 600, False, 1.0),
        ("SBH", np.float16, 2, 300, 300, True, 1.0),
        ("BSND", np.float32, 1, 17, 33, False, 1.0),
        ("BNSD", np.float16, 1, 260, 520, True, 0.8),
    ],
)
def test_gradients(
    layout: str, kind: Any, group: int, queries: int, keys: int, causal: bool, keep: float
) -> None:
    """Against the formula in float64, from the forward's own maxima and sums."""
    q, dy = (heads(2, 2 * group, queries, 32, seed) for seed in (0, 3))
    k, v = (heads(2, 2, keys, 32, seed) for seed in (1, 2))
    q, k, v, dy = rounded(q, k, v, dy, kind=kind)
    seen = visible(queries, keys, 2**31, keys - queries) if causal else True
    out, top, total = attention(q, k, v, seen)
    kept = np.random.default_rng(7).random((2, 2 * group, queries, keys)) < keep
    ks, vs = (np.repeat(each, group, 1) for each in (k, v))
    scores = np.where(seen, q @ ks.swapaxes(-1, -2) * 32**-0.5, -np.inf)
    weights = np.exp(scores - top) / total
    dropped = weights * kept / keep
    out = dropped @ vs
    stays = dy @ vs.swapaxes(-1, -2) * kept / keep
    inner = weights * (stays - (dy * out).sum(-1, keepdims=True)) * 32**-0.5
    shared = (2, 2, group, keys, 32)
    want = [
        inner @ ks,
        (inner.swapaxes(-1, -2) @ q).reshape(shared).sum(2),
        (dropped.swapaxes(-1, -2) @ dy).reshape(shared).sum(2),
    ]
    stats = [np.broadcast_to(each, (*top.shape[:3], 8)).astype(np.float32) for each in (top, total)]
    tensors = [laid_out(each, layout, kind) for each in (q, k, v, dy)]
    bits = np.packbits(kept, bitorder="little") if keep < 1 else None
    inputs = [*tensors, None, bits, None, TRIANGLE if causal else None, *stats, None,
              laid_out(out, layout, kind)]  # fmt: skip
    given = {"head_num": 2 * group, "input_layout": layout, "scale_value": 32**-0.5,
             "sparse_mode": 3 if causal else 0, "keep_prob": keep}  # fmt: skip
    found = run(CHIP, "FlashAttentionScoreGrad", inputs, [np.zeros_like(x) for x in tensors[:3]],
                **given)  # fmt: skip
    for got, wanted in zip(found, want, strict=True):
        limit = TOLERANCE[kind] * 8 * max(1.0, np.abs(wanted).max())
        np.testing.assert_allclose(
            got.astype(np.float64), laid_out(wanted, layout, np.float64), atol=limit
        )


def test_the_gradient_takes_about_twice_as_long() -> None:
    """Measured on 910B3: 760 us against 407; Ascend/msinsight@4e16fca1f1.

    Simulated 2.6 times, with additions to memory at half of a store's rate, as the vendor has it.
    """
    q, k, v, out = shapes(*[(1, 4096, 1024)] * 4)
    stats = shapes(*[(1, 8, 4096, 8)] * 2, kind=np.float32)
    given = {"head_num": 8, "input_layout": "BSH"}
    forward_cycles = cycles(CHIP, "FlashAttentionScore", [q, k, v], [*stats, out], **given)
    inputs = [q, k, v, out, *[None] * 4, *stats, None, out]
    gradient = cycles(CHIP, "FlashAttentionScoreGrad", inputs, [q, k, v], **given)
    assert 1.3 < gradient / forward_cycles < 2.7


@pytest.mark.parametrize(("masked", "length"), [(False, 2113), (True, 2113), (False, 2112)])
def test_keys_of_few_heads_are_split(masked: bool, length: int) -> None:
    """Parts of the keys on several cores come to the same; parts of one length, in one way."""
    q, k, v = heads(2, 6, 1, 32, 0), heads(2, 2, length, 32, 1), heads(2, 2, length, 32, 2)
    seen = np.random.default_rng(3).random((2, 1, 1, length)) < 0.5 if masked else True
    mask = [None, (~seen).astype(np.uint8)] if masked else []  # type: ignore[operator]
    tensors = [laid_out(each, "BNSD", np.float16) for each in (q, k, v)]
    given = {"num_heads": 6, "num_key_value_heads": 2, "input_layout": "BNSD"}
    args = [*tensors, *mask], [np.zeros_like(tensors[0])]
    (kernel,), _ = kernels(CHIP, "IncreFlashAttention", *args, given)
    assert kernel.block_dim == load_profile(CHIP).cores.cube_cores  # all, which wait together
    (out,) = run(CHIP, "IncreFlashAttention", *args, **given)
    want, _, _ = attention(*rounded(q, k, v, kind=np.float16), seen)
    np.testing.assert_allclose(out.astype(np.float64), want, atol=3e-3)
    if length % 4 == 0:

        def build() -> Any:
            return kernels(CHIP, "IncreFlashAttention", *args, given)

        assert_like_the_reference(build, load_profile(CHIP), rounding=64)


def test_long_sequences_are_jumped_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages go round for ever without repeating to the cycle; jumps agree with playing all."""
    profile = load_profile("Ascend910B2")

    def asked(length: int) -> Any:
        x, sums = (1, length, 384), (1, 3, length, 8)
        query, found = TensorSpec(x, FLOAT16), TensorSpec(sums, FLOAT)
        said = {"head_num": 3, "input_layout": "BSH", "scale_value": 0.1}
        inputs, outputs = (query,) * 3, (found, found, found, query)
        task = TaskSpec("FlashAttentionScore", inputs, outputs, said)
        (run,) = run_tasks(kernels_of(profile, task), profile).runs
        return run

    jumped, longer = asked(131072), asked(1048576)
    assert jumped.jumped_cycles > 0.5 * jumped.cycles
    assert longer.jumped_cycles > 0.9 * longer.cycles
    assert longer.cycles == pytest.approx(64 * jumped.cycles, rel=0.05)
    monkeypatch.setattr(compiled, "LOOK_AFTER", 0)
    played = asked(131072)
    assert played.jumped_cycles == 0.0
    assert jumped.cycles == pytest.approx(played.cycles, rel=2e-3)
