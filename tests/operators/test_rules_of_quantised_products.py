"""Rules of quantised products: groups that share scales, blocks of weights, on both sides.

Source: hicann/ops-nn matmul/quant_batch_matmul_v4/docs/aclnnQuantMatmulV5.md,
matmul/quant_batch_matmul_v3/docs/aclnnQuantMatmulWeightNz.md, matmul/quant_matmul/docs.
"""

from __future__ import annotations

import pytest

from support.both_sides import A2, INFERENCE, REFUSED, Case, changed, code, read

_FIFTH = (
    "x1=int8[16,1024] x2=int8[512,1024] x1Scale=fp32[16] x2Scale=fp32[512] transposeX1=false "
    "transposeX2=true groupSize=0 out=bf16[16,512]"
)
_BLOCKS = (  # 1 << 32 | 128 << 16 | 128
    "groupSize=4303356032 x1Scale=fp32[16,8] x2Scale=fp32[4,8] bias=fp32[512]"
)
_FOURS = (
    "x1=int4[16,1024] x2=int4[512,1024] groupSize=256 x1Scale=fp32[16,1] x2Scale=fp32[4,512] "
    "x2Offset=fp16[4,512]"
)
_EIGHT = (
    "x1=int8[16,1024] x2=int32[1024,64] transposeX2=false groupSize=256 x1Scale=fp32[16,1] "
    "x2Scale=uint64[4,512] yOffset=fp32[512]"
)
_NZ = (
    "x1=int8[16,1024] x2=int8[32,32,16,32]:FRACTAL_NZ x1Scale=fp32[16] x2Scale=fp32[512] "
    "transposeX1=false transposeX2=true groupSize=0 out=bf16[16,512]"
)
# What isn't modelled is None: groups, and numbers of four bits.
CASES: list[Case] = [
    ("aclnnQuantMatmulV2", ("x1=int8[16,64] x2=int8[64,96] deqScale=uint64[96] adjX1=false "
        "adjX2=false out=fp16[16,96]"), {
        "deqScale=uint64[1]": REFUSED, "bias=int32[96]": 0, "bias=int32[1,96]": REFUSED,
        "bias=int32[112]": REFUSED, "deqScale=uint64[1,96]": REFUSED,
        # Scales that are filled up aren't modelled.
        "x2=int8[64,100] deqScale=uint64[112] out=fp16[16,100]": None,
        "x2=int8[64,100] deqScale=uint64[100] out=fp16[16,100]": REFUSED,
        "x1=int8[16,63]": REFUSED,
    }),
    ("aclnnQuantMatmulV5", _FIFTH, {
        "x2Scale=fp32[511]": REFUSED, "x1Scale=fp32[15]": REFUSED, "x2Scale=fp32[1]": 0,
        _BLOCKS: None, "groupSize=128": REFUSED, f"{_BLOCKS} x1Scale=fp32[16]": REFUSED,
        f"{_BLOCKS} x2Scale=fp32[8,4]": REFUSED, f"{_BLOCKS} groupSize=256": REFUSED,
        f"{_BLOCKS} transposeX2=false x2=int8[1024,512]": REFUSED,
        f"{_BLOCKS} x2=int8[384,1024] x2Scale=fp32[3,8] out=bf16[16,384] bias=fp32[384]": REFUSED,
        _FOURS: None, f"{_FOURS} x2Offset=fp16[512]": REFUSED,
        f"{_FOURS} x1=int4[16,768] x2=int4[512,768] x2Scale=fp32[3,512] x2Offset=fp16[3,512]":
        REFUSED,
        _EIGHT: None, f"{_EIGHT} x2Scale=uint64[8,512]": REFUSED,
        f"{_EIGHT} x1=int8[16,1000] x2=int32[1000,64]": REFUSED,
    }),
    ("aclnnQuantMatmulWeightNz", _NZ, {
        "groupSize=256": REFUSED, "x2=int8[31,32,16,32]:FRACTAL_NZ": REFUSED,
        "x2=int8[32,31,16,32]:FRACTAL_NZ": REFUSED,
        "x2=int8[16,64,16,32]:FRACTAL_NZ transposeX2=false": 0,
        "x2=int8[32,32,16,32]:FRACTAL_NZ transposeX2=false": REFUSED,
        "x2=int8[1,1024]:FRACTAL_NZ x2Scale=fp32[1] out=bf16[16,1]": REFUSED,
    }),
]  # fmt: skip


@pytest.mark.parametrize(("name", "words", "change", "wanted"), changed(CASES))
def test_both_sides_of_each_limit(
    name: str, words: dict[str, str], change: str, wanted: int | None
) -> None:
    assert code(A2, name, words) == wanted, change


def test_groups_are_of_later_products() -> None:
    words = {
        **read(_FIFTH), "x2": "int8[512,1024]:FRACTAL_NZ", "out": "fp16[16,512]",
        "x1Scale": "fp32[16,1]", "x2Scale": "fp32[4,512]", "groupSize": "256",
    }  # fmt: skip
    assert code(INFERENCE, "aclnnQuantMatmulV5", words) == REFUSED
