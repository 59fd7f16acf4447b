"""Limits of attention and rotary embeddings, both sides of each, by pages and host tilings.

Sources: pages of the interfaces and host tilings in ops-transformer, which the tables of limits in
ops/attention and ops/rotary name row by row.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from npusim import Device

DEVICE = Device("Ascend910B3")
TILING, PARAM, LAUNCH = 561002, 161002, 561103


def heads(kind: str, *shape: int, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: f"{kind}{list(shape)}".replace(" ", "") for name in names}


TRAINED = heads("bf16", 2, 4, 256, 64, names=("query", "key", "value")) | {
    "headNum": 4, "inputLayout": "BNSD", "scaleValue": 0.1, "keepProb": 1.0, "sparseMode": 0,
}  # fmt: skip
PACKED = heads("bf16", 256, 4, 64, names=("query", "key", "value")) | {
    "headNum": 4, "inputLayout": "TND", "scaleValue": 0.1, "keepProb": 1.0, "sparseMode": 0,
    "actualSeqQLenOptional": [100, 256], "actualSeqKvLenOptional": [120, 256],
}  # fmt: skip
MASK, MODE = "attenMaskOptional", "sparseMode"
PSE = "realShiftOptional"
LENGTHS = ("actualSeqQLenOptional", "actualSeqKvLenOptional")

# What a call changes, and the code: of aclnnFlashAttentionScoreV2.
TRAINING: list[tuple[dict[str, Any], int]] = [
    ({}, 0),
    ({MASK: "bool[2,4,256,256]"}, 0),
    ({MASK: "bool[2,1,256,256]"}, 0),
    ({MASK: "bool[1,1,256,256]"}, 0),
    ({MASK: "bool[256,256]"}, 0),
    ({MASK: "bool[2,1,1,256]"}, LAUNCH),
    ({MASK: "bool[1,4,256,256]"}, LAUNCH),
    ({MASK: "bool[1,1,1,256]"}, LAUNCH),
    ({MASK: "bool[512,512]"}, LAUNCH),
    ({MASK: "bool[1,256,256]"}, PARAM),  # 2 or 4 axes by the page
    *(({MASK: "bool[2048,2048]", MODE: mode}, 0) for mode in (2, 3, 4)),
    *(({MASK: "bool[256,256]", MODE: mode}, LAUNCH) for mode in (2, 3, 4)),
    ({MASK: "bool[2048,2048]"}, LAUNCH),
    ({MASK: "bool[2048,2048]", MODE: 7}, LAUNCH),
    ({MODE: -1}, LAUNCH),
    ({MASK: "bool[3072,2048]", MODE: 6, "prefixOptional": [0, 256]}, 0),
    ({MASK: "bool[3072,2048]", MODE: 6, "prefixOptional": [0, 257]}, LAUNCH),
    ({MASK: "bool[3072,2048]", MODE: 6, "prefixOptional": [0]}, LAUNCH),
    ({MASK: "bool[2048,2048]", MODE: 6, "prefixOptional": [0, 9]}, LAUNCH),
    ({MASK: "bool[256,256]", MODE: 5, "prefixOptional": [0, 9]}, LAUNCH),
    ({"headNum": 0}, PARAM),
    ({"headNum": 8}, LAUNCH),
    ({"inputLayout": "BSH"}, PARAM),
    ({"inputLayout": "NBSD"}, PARAM),
    ({"key": "bf16[2,2,256,64]", "value": "bf16[2,2,256,64]"}, 0),
    ({"key": "bf16[2,3,256,64]", "value": "bf16[2,3,256,64]"}, LAUNCH),
    ({"key": "bf16[2,4,256,32]"}, PARAM),
    ({"value": "bf16[2,4,256,128]"}, PARAM),
    ({"keepProb": 0.0}, LAUNCH),
    ({"keepProb": 1.5}, LAUNCH),
    ({"keepProb": 0.5, "dropMaskOptional": "uint8[65536]"}, 0),
    ({"keepProb": 0.5, "dropMaskOptional": "uint8[65535]"}, LAUNCH),
    ({PSE: "bf16[2,4,256,256]", "pseType": 1}, 0),
    ({PSE: "bf16[1,4,256,256]", "pseType": 1}, 0),
    ({PSE: "bf16[2,4,1,256]", "pseType": 1}, 0),
    ({PSE: "bf16[2,1,256,256]", "pseType": 1}, LAUNCH),
    ({PSE: "fp16[2,4,256,256]", "pseType": 1}, PARAM),
    ({PSE: "bf16[2,4,256,256]", "pseType": 4}, LAUNCH),
    ({"pseType": 0}, LAUNCH),
    ({"pseType": 2}, PARAM),
    ({PSE: "fp32[3]", "pseType": 2}, LAUNCH),
    ({MASK: "bool[256,256]", "preTokens": 10, "nextTokens": -5}, 0),
    ({MASK: "bool[256,256]", "preTokens": -1, "nextTokens": -1}, LAUNCH),
    ({MASK: "bool[256,256]", "preTokens": 4, "nextTokens": -5}, LAUNCH),
]  # fmt: skip


@pytest.mark.parametrize(("change", "code"), TRAINING)
def test_limits_of_training(change: dict[str, Any], code: int) -> None:
    call = {"pseType": 1, **TRAINED, **change}
    assert DEVICE.check("aclnnFlashAttentionScoreV2", **call).code == code


def test_heads_of_training_have_at_most_768_elements() -> None:
    for columns, code in ((768, 0), (776, PARAM)):
        own = heads("bf16", 1, 2, 128, columns, names=("query", "key", "value"))
        found = DEVICE.check("aclnnFlashAttentionScore", **{**TRAINED, **own, "headNum": 2})
        assert found.code == code


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({}, 0),
        ({MASK: "bool[156,136]"}, 0),
        ({MASK: "bool[256,256]"}, 0),
        ({MASK: "bool[156,135]"}, LAUNCH),
        ({MASK: "bool[2048,2048]", MODE: 2}, 0),
        ({MASK: "bool[2048,2048]", MODE: 3}, LAUNCH),  # 156 queries, 136 keys
        ({MASK: "bool[2048,2048]", MODE: 3, LENGTHS[0]: [120, 256]}, 0),
        ({MODE: 5}, LAUNCH),
        ({LENGTHS[1]: [256]}, LAUNCH),
        ({LENGTHS[1]: [120, 257]}, LAUNCH),
        ({LENGTHS[0]: [256, 100]}, LAUNCH),
        ({LENGTHS[0]: None}, LAUNCH),
        ({"inputLayout": "BSH"}, PARAM),
    ],
)
def test_limits_of_packed_training(change: dict[str, Any], code: int) -> None:
    assert DEVICE.check("aclnnFlashAttentionVarLenScore", **{**PACKED, **change}).code == code


def test_a_mask_that_broadcasts_is_offered_whole() -> None:
    refused = DEVICE.check(
        "aclnnFlashAttentionScore", **TRAINED, attenMaskOptional="bool[2,1,1,256]"
    )
    assert "unsupported atten_mask shape" in refused.message
    assert "Expand attenMaskOptional to [2, 1, 256, 256]" in refused.remedy


FUSED = heads("bf16", 2, 4, 256, 64, names=("query", "key0", "value0")) | {
    "numHeads": 4, "numKeyValueHeads": 4, "inputLayout": "BNSD", "scaleValue": 0.1,
}  # fmt: skip
SINGLE = {**FUSED, "query": "bf16[2,4,1,64]"}
PAGES = {**FUSED, "query": "bf16[2,1,256]", "inputLayout": "BSH", "blockSize": 128,
         "key0": "bf16[8,128,256]", "value0": "bf16[8,128,256]", "blockTableOptional": "int32[2,4]",
         "actualSeqLengthsKvOptional": [300, 130]}  # fmt: skip
TND = heads("bf16", 256, 4, 128, names=("query", "key0", "value0")) | {
    "numHeads": 4, "numKeyValueHeads": 4, "inputLayout": "TND", "scaleValue": 0.1,
    "actualSeqLengthsOptional": [100, 256], "actualSeqLengthsKvOptional": [120, 256],
}  # fmt: skip
WHOLE = {**PAGES, "query": "bf16[2,4,1,64]", "inputLayout": "BNSD"}
TOKENS = {**PAGES, "query": "bf16[2,4,128]", "inputLayout": "TND", "numKeyValueHeads": 2,
          "actualSeqLengthsOptional": [1, 2], "attenMaskOptional": "bool[2048,2048]",
          "sparseMode": 3}  # fmt: skip
KV = "actualSeqLengthsKvOptional"


def of(base: dict[str, Any], code: int, **change: Any) -> tuple[dict[str, Any], int]:
    return {**base, **change}, code


def columns(size: int, code: int) -> tuple[dict[str, Any], int]:
    return of(TND, code, **heads("bf16", 256, 4, size, names=("query", "key0", "value0")))


def pages(size: int, code: int, queries: int = 1) -> tuple[dict[str, Any], int]:
    more = {MASK: "bool[2048,2048]", MODE: 3} if queries > 1 else {}
    return of(PAGES, code, query=f"bf16[2,{queries},256]", key0=f"bf16[99,{size},256]",
              blockSize=size, value0=f"bf16[99,{size},256]",
              blockTableOptional="int32[2,40]", **more)  # fmt: skip


INFERENCE = [
    of(FUSED, 0),
    of(FUSED, 0, softmaxLseFlag=False, softmaxLse="fp32[1]", attentionOut="bf16[2,4,256,64]"),
    of(FUSED, TILING, softmaxLseFlag=True, softmaxLse="fp32[1]", attentionOut="bf16[2,4,256,64]"),
    of(FUSED, TILING, numKeyValueHeads=3),
    of(FUSED, TILING, numHeads=12, query="bf16[2,12,256,64]", numKeyValueHeads=5,
       key0="bf16[2,5,256,64]", value0="bf16[2,5,256,64]"),
    of(SINGLE, 0, numHeads=64, query="bf16[2,64,1,64]", numKeyValueHeads=1,
       key0="bf16[2,1,256,64]", value0="bf16[2,1,256,64]"),
    of(SINGLE, TILING, numHeads=65, query="bf16[2,65,1,64]", numKeyValueHeads=1,
       key0="bf16[2,1,256,64]", value0="bf16[2,1,256,64]"),
    of(FUSED, TILING, **heads("bf16", 2, 4, 256, 72, names=("query", "key0", "value0"))),
    of(FUSED, 0, **heads("bf16", 2, 4, 256, 512, names=("query", "key0", "value0"))),
    of(FUSED, TILING, **heads("bf16", 2, 4, 256, 528, names=("query", "key0", "value0"))),
    of(SINGLE, 0, **{KV: [256, 9]}),
    of(SINGLE, 0, **{KV: [256]}),
    of(SINGLE, TILING, **{KV: [257, 9]}),
    of(SINGLE, TILING, **{KV: [-1, 9]}),
    of(FUSED, TILING, inputLayout="SH"),
    of(FUSED, 0, **{MASK: "bool[256,256]"}),
    of(FUSED, 0, **{MASK: "bool[2,1,256,256]"}),
    of(FUSED, TILING, **{MASK: "bool[255,256]"}),
    of(FUSED, TILING, **{MASK: "bool[3,1,256,256]"}),
    of(FUSED, 0, **{MASK: "bool[2048,2048]", MODE: 3}),
    of(FUSED, TILING, **{MASK: "bool[256,256]", MODE: 3}),
    of(FUSED, TILING, **{MODE: 3}),
    of(FUSED, TILING, **{MODE: 5}),
    of(SINGLE, 0, **{MASK: "bool[2,1,1,256]"}),
    of(SINGLE, TILING, **{MASK: "bool[1,256]"}),
    of(SINGLE, TILING, **{MASK: "bool[2,1,1,255]"}),
    of(FUSED, TILING, innerPrecise=4),
    of(FUSED, TILING, pseShiftOptional="bf16[2,4,255,256]"),
    *(pages(size, code) for size, code in ((16, 0), (512, 0), (100, TILING), (528, TILING))),
    *(pages(size, code, 2) for size, code in ((128, 0), (64, TILING), (640, TILING))),
    of(PAGES, TILING, **{KV: None}),
    of(PAGES, TILING, blockTableOptional="int32[3,4]"),
    of(PAGES, TILING, blockTableOptional="int32[2,2]"),
    of(PAGES, TILING, key0="bf16[4,128,256]", value0="bf16[4,128,256]"),
    of(PAGES, 0, key0="bf16[5,128,256]", value0="bf16[5,128,256]"),
    of(PAGES, TILING, key0="bf16[8,4,128,64]", value0="bf16[8,4,128,64]"),
    # A result has as many columns as a head of the cache, however its pages lie.
    of(WHOLE, 0), of(WHOLE, 0, attentionOut="bf16[2,4,1,64]"),
    of(WHOLE, PARAM, attentionOut="bf16[2,4,1,256]"),
    of(WHOLE, 0, query="bf16[2,1,4,64]", inputLayout="BSND"),
    of(WHOLE, 0, key0="bf16[8,4,128,64]", value0="bf16[8,4,128,64]"),
    of(WHOLE, PARAM, key0="bf16[8,4,4,128,16]", value0="bf16[8,4,4,128,16]",
       attentionOut="bf16[2,4,1,128]"),
    of(TOKENS, 0), of(TOKENS, 0, attentionOut="bf16[2,4,128]"),
    of(TOKENS, PARAM, attentionOut="bf16[2,4,256]"),
    *(columns(size, code) for size, code in ((64, 0), (192, 0), (96, TILING), (256, TILING))),
    of(TND, TILING, **heads("fp16", 256, 4, 128, names=("query", "key0", "value0"))),
    of(TND, TILING, **{KV: [120, 257]}),
    of(TND, TILING, **{KV: [120, 255]}),
    of(TND, TILING, **{KV: [256]}),
    of(TND, TILING, **{KV: None}),
    of(TND, TILING, **{MASK: "bool[2048,2048]"}),
    of(TND, TILING, **{MASK: "bool[2048,2048]", MODE: 3}),  # 156 queries, 136 keys
    of(TND, 0, **{MASK: "bool[2048,2048]", MODE: 3, KV: [100, 256]}),
]  # fmt: skip


@pytest.mark.parametrize(("call", "code"), INFERENCE)
def test_limits_of_inference(call: dict[str, Any], code: int) -> None:
    assert DEVICE.check("aclnnFusedInferAttentionScoreV3", **call).code == code


@pytest.mark.parametrize("base", [PAGES, WHOLE])
def test_pages_in_fractals_are_not_modelled(base: dict[str, Any]) -> None:
    pages_ = heads("bf16", 8, 4, 4, 128, 16, names=("key0", "value0"))
    assert (
        str(DEVICE.check("aclnnFusedInferAttentionScoreV3", **base | pages_).verdict) == "unknown"
    )


def test_too_few_lengths_are_refused_by_every_device() -> None:
    own = heads("bf16", 16, 64, 256, names=("key0", "value0"))
    call = {**FUSED, **own, "query": "bf16[16,1,256]", "inputLayout": "BSH"}
    refused = DEVICE.check("aclnnFusedInferAttentionScoreV3", **call, **{KV: [*range(1, 10)]})
    assert (refused.code, refused.is_modelled) == (TILING, True)


def turned(x: str, angles: str, mode: int = 0) -> dict[str, Any]:
    return {"x": x, "cos": angles, "sin": angles, "mode": mode}


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (turned("bf16[8,64,64,64]", "bf16[1,1,64,64]"), 0),
        (turned("bf16[8,65,64,64]", "bf16[1,1,64,64]"), TILING),  # B * N > 8 * S
        (turned("bf16[1,64,16,894]", "bf16[1,64,1,894]"), 0),
        (turned("bf16[1,64,16,896]", "bf16[1,64,1,896]"), TILING),
        (turned("bf16[1,64,16,65]", "bf16[1,64,1,65]"), TILING),
        (turned("bf16[999,4,2,64]", "bf16[1,4,1,64]"), 0),
        (turned("bf16[1000,4,2,64]", "bf16[1,4,1,64]"), TILING),
        (turned("bf16[4,8,1000,64]", "bf16[1,8,1,64]"), TILING),
        (turned("bf16[4,8,16,64]", "bf16[4,1,1,64]", 1), 0),
        (turned("bf16[4,8,16,64]", "bf16[4,8,1,64]", 1), TILING),
        (turned("bf16[10,8,100,64]", "bf16[1,8,1,64]", 1), TILING),
        (turned("bf16[4,8,16,64]", "bf16[1,1,1,64]"), TILING),
        (turned("bf16[1,2,400,40]", "bf16[1,1,400,40]"), 0),  # one axis is no BNSD
        (turned("bf16[2,4,40,72]", "bf16[1,1,40,72]"), TILING),  # ragged and below 80
        (turned("bf16[2,4,40,88]", "bf16[1,1,40,88]"), 0),
        (turned("bf16[1,64,16,64]", "bf16[1,64,1,64]", 2), TILING),
    ],
)
def test_limits_of_rotary(call: dict[str, Any], code: int) -> None:
    assert DEVICE.check("aclnnRotaryPositionEmbedding", **call).code == code


@pytest.mark.parametrize(
    ("heads_", "columns_", "layout", "code"),
    [
        (8, 128, 1, 0),
        (8, 64, 1, TILING),
        (8, 128, 2, TILING),
        (18, 128, 1, 0),
        (40, 128, 1, TILING),
    ],
)
def test_limits_of_applied_rotary(heads_: int, columns_: int, layout: int, code: int) -> None:
    query, angles = f"bf16[2,99,{heads_},{columns_}]", f"bf16[2,99,1,{columns_}]"
    call = {"queryRef": query, "keyRef": query, "cos": angles, "sin": angles, "layout": layout}
    assert DEVICE.check("aclnnApplyRotaryPosEmb", **call).code == code


@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("columns_", [40, 80, 120])
def test_ragged_rows_are_turned(columns_: int, mode: int) -> None:
    draw = np.random.default_rng(columns_)
    x = draw.standard_normal((2, 50, 3, columns_)).astype(ml_dtypes.bfloat16)
    half = draw.uniform(-3, 3, (1, 50, 1, columns_ // 2))
    whole = np.concatenate([half, half], -1) if mode == 0 else np.repeat(half, 2, -1)
    cos, sin = (f(whole).astype(ml_dtypes.bfloat16) for f in (np.cos, np.sin))
    wide, middle = x.astype(float), columns_ // 2
    partner = (
        np.concatenate([-wide[..., middle:], wide[..., :middle]], -1)
        if mode == 0
        else np.stack([-wide[..., 1::2], wide[..., ::2]], -1).reshape(wide.shape)
    )
    done = DEVICE.run("aclnnRotaryPositionEmbedding", x=x, cos=cos, sin=sin, mode=mode)
    assert done.outputs is not None
    assert done.duration_us > 0
    wanted = wide * cos.astype(float) + partner * sin.astype(float)
    np.testing.assert_allclose(done.outputs["out"].astype(float), wanted, atol=4e-2)
