"""Rules of pages and host code that decide in practice: calls on both sides of each limit."""

from __future__ import annotations

import pytest

from support.coded import Rows, code, read, spread

A2, INFERENCE = "Ascend910B3", "Ascend310P3"
REFUSED, TILING = 161002, 561002

_QUANT = "x1=int8[16,64] x2=int8[64,128] transposeX1=false transposeX2=false"
_WIDENED = (
    "x=fp16[16,256] weight=int8[256,128] antiquantScale=fp16[128] antiquantGroupSize=0 "
    "y=fp16[16,128]"
)
_GROUPS = (
    "x0=bf16[64,128] weight0=bf16[4,128,256] groupListOptional=int64[4] splitItem=3 groupType=0 "
    "groupListType=0 actType=0 out0=bf16[64,256]"
)
_LINES = "antiquantScaleOptional0=bf16[4,256] antiquantOffsetOptional0=bf16[4,256]"
_BYTES = "x0=int8[64,128] weight0=int8[4,128,256] scaleOptional0=bf16[4,256]"
_CHOSEN = (
    "x=bf16[16,256] k=8 kGroup=4 groupCount=8 groupSelectMode=1 renorm=0 normType=1 outFlag=false "
    "routedScalingFactor=1.0 eps=1e-20 yOut=bf16[16,8] expertIdxOut=int32[16,8]"
)
_ROUTED = (
    "x=bf16[16,128] expertIdx=int32[16,8] activeNum=128 expertCapacity=0 expertNum=64 "
    "dropPadMode=0 expertTokensNumType=1 expertTokensNumFlag=true quantMode=-1 "
    "activeExpertRangeOptional=[0,64] rowIdxType=0"
)
CALLS: Rows = [
    ("aclnnQuantMatmulV3", f"{_QUANT} scale=int64[128] out=fp16[16,128]", {
        "scale=fp32[128]": REFUSED, "scale=fp32[128] out=bf16[16,128]": 0,
        "offset=fp32[128]": REFUSED, "offset=fp32[128] out=int8[16,128]": None,
        "bias=int32[128]": 0, "bias=fp32[128]": REFUSED,
        "x1=int8[16,65535] x2=int8[65535,128]": 0, "x1=int8[16,65536] x2=int8[65536,128]": REFUSED,
    }),
    ("aclnnQuantMatmulV4",
        f"{_QUANT} scale=fp32[128] pertokenScaleOptional=fp32[16] out=fp16[16,128]", {
        "pertokenScaleOptional=fp32[15]": REFUSED, "scale=bf16[128]": REFUSED,
        "scale=bf16[128] out=bf16[16,128]": 0, "bias=fp16[128]": 0, "bias=bf16[128]": REFUSED,
        "scale=fp32[1]": 0, "scale=fp32[2]": REFUSED,
        "x1=int32[16,8] x2=int32[64,16]": None,
        "x1=int32[16,8] x2=int32[128,8] transposeX2=true": None,
        "x1=int32[16,7] x2=int32[64,16]": REFUSED,
        "x1=int32[64,2] x2=int32[64,16] transposeX1=true": REFUSED,
        "x1=int8[16,65536] x2=int8[65536,128]": 0,
    }),
    ("aclnnQuantMatmulV5",
        f"{_QUANT} x1Scale=fp32[16] x2Scale=bf16[128] groupSize=0 out=bf16[16,128]", {
        "out=fp16[16,128]": REFUSED, "x2Offset=fp32[128]": REFUSED, "bias=bf16[128]": 0,
        "bias=fp16[128]": REFUSED, "yScale=uint64[1,128]": REFUSED,
    }),
    ("aclnnWeightQuantBatchMatmulV2", _WIDENED, {
        "antiquantGroupSize=33 antiquantScale=fp16[8,128]": REFUSED,
        "antiquantGroupSize=256 antiquantScale=fp16[1,128]": REFUSED,
        "antiquantGroupSize=128 antiquantScale=fp16[2,128]": None,
        "antiquantGroupSize=128": REFUSED, "antiquantScale=fp16[127]": REFUSED,
        "antiquantScale=fp16[1,128]": 0, "antiquantScale=bf16[128]": REFUSED,
        "antiquantOffsetOptional=fp16[128]": 0, "antiquantOffsetOptional=fp16[1]": REFUSED,
        "biasOptional=fp16[128]": 0, "biasOptional=fp32[128]": REFUSED,
        "weight=int32[256,16]": 0, "weight=int32[256,15]": REFUSED,
        "weight=int4[256,128]:FRACTAL_NZ antiquantGroupSize=64 antiquantScale=fp16[4,128]": None,
        "weight=int4[256,128]:FRACTAL_NZ antiquantGroupSize=32 antiquantScale=fp16[8,128]": REFUSED,
    }),
    ("aclnnGroupedMatmulV4", _GROUPS, {
        "groupListOptional=int64[3]": REFUSED, "groupListOptional=int32[4]": REFUSED,
        "groupType=1": REFUSED, "groupType=-1": REFUSED, "splitItem=2": 0, "splitItem=1": REFUSED,
        "groupListType=1": 0, "groupListType=3": REFUSED, "actType=1": REFUSED,
        "actType=3": REFUSED,
        "x0=bf16[64,127]": REFUSED, "out0=bf16[63,256]": REFUSED, "biasOptional0=fp32[4,256]": 0,
        "biasOptional0=fp32[256]": REFUSED,
        f"weight0=int32[4,128,32] {_LINES}": 0, f"weight0=int32[4,128,31] {_LINES}": REFUSED,
        f"{_BYTES} perTokenScaleOptional0=fp32[64]": 0,
        f"{_BYTES} perTokenScaleOptional0=fp32[63]": REFUSED,
        f"{_BYTES} scaleOptional0=fp32[4,256]": REFUSED,
        f"{_BYTES} scaleOptional0=bf16[4,255]": REFUSED,
    }),
    ("aclnnGroupedMatmulV2", ("x0=bf16[64,128] weight0=bf16[4,128,256] "
        "groupListOptional=[10,20,30,64] splitItem=3 groupType=0 y0=bf16[64,256]"), {
        "groupListOptional=[10,20,15,64]": REFUSED, "groupListOptional=[10,20,30,63]": REFUSED,
        "groupListOptional=[0,0,0,64]": 0, "groupListOptional=[30,64]": REFUSED,
    }),
    ("aclnnMoeGatingTopK", _CHOSEN, {
        "kGroup=8": 0, "kGroup=9": TILING, "groupCount=7": TILING, "k=33 kGroup=1 yOut=bf16[16,33] "
        "expertIdxOut=int32[16,33]": TILING, "groupSelectMode=2": TILING, "normType=2": TILING,
        "renorm=1": TILING, "x=bf16[16,2048] groupCount=1 kGroup=1": 0,
        "x=bf16[16,2049] groupCount=1 kGroup=1": TILING, "biasOptional=fp32[256]": TILING,
    }),
    ("aclnnMoeInitRoutingV3", _ROUTED, {
        "activeNum=127": TILING, "dropPadMode=1": TILING, "expertTokensNumType=0": TILING,
        "expertTokensNumType=2": None, "quantMode=0": TILING,
        "activeExpertRangeOptional=[0,65]": TILING,
        "activeExpertRangeOptional=[8,32]": None,
        "expertTokensNumFlag=false": TILING, "rowIdxType=2": TILING,
    }),
    ("aclnnMoeFinalizeRoutingV2", ("expandedX=bf16[128,256] expandedRowIdx=int32[128] "
        "scalesOptional=bf16[16,8] dropPadMode=0 out=bf16[16,256]"), {
        "dropPadMode=4": 561103, "dropPadMode=1": 561103, "dropPadMode=2": 0,
    }),
    ("aclnnRmsNorm", ("x=fp16[4,128] gamma=fp16[128] epsilon=1e-6 yOut=fp16[4,128] "
        "rstdOut=fp32[4,1]"), {
        "gamma=fp32[128]": 0, "gamma=bf16[128]": TILING, "yOut=fp32[4,128]": TILING,
    }),
    ("aclnnAddRmsNorm", ("x1=fp16[4,128] x2=fp16[4,128] gamma=fp16[128] epsilon=1e-6 "
        "yOut=fp16[4,128] rstdOut=fp32[4,1] xOut=fp16[4,128]"), {
        "x2=bf16[4,128]": REFUSED, "gamma=fp32[128]": REFUSED,
    }),
    ("aclnnInplaceAdd", "selfRef=fp16[4,4] other=fp16[4,1] alpha=1", {
        "other=fp32[4,4]": 0, "other=fp16[2,4,4]": REFUSED, "selfRef=int32[4,4]": REFUSED,
    }),
    ("aclnnInplaceDiv", "selfRef=fp32[4,4] other=int32[4,4]", {"selfRef=int32[4,4]": REFUSED}),
    ("aclnnInplaceAdds", "selfRef=int32[4,4] other=1 alpha=1", {"other=1.5": REFUSED}),
    ("aclnnInplaceMuls", "selfRef=bool[4,4] other=true", {"other=2": REFUSED}),
    ("aclnnMul", "self=fp32[4,4] other=int32[4,4] out=fp16[4,4]", {"out=int32[4,4]": REFUSED}),
    ("aclnnSwiGlu", "x=fp16[4,128] dim=-1 out=fp16[4,64]", {
        "x=fp16[4,127] out=fp16[4,63]": REFUSED, "out=fp32[4,64]": REFUSED,
    }),
    ("aclnnIndexPutImpl",
        "selfRef=fp16[60,32] indices0=int64[42] values=fp16[42,32] accumulate=false unsafe=true", {
        "values=fp16[41,32]": REFUSED, "values=fp16[32]": 0,
        # How many places a mask takes, its values tell.
        "indices0=bool[60] values=fp16[41,32]": None,
    }),
    ("aclnnAbs", "self=fp32[4] out=fp32[4]", {"out=fp16[4]": REFUSED}),
    ("aclnnTriu", "self=fp32[4,4] diagonal=0 out=fp32[4,4]", {"out=fp16[4,4]": REFUSED}),
    ("aclnnGather", "self=fp32[4,4] dim=0 index=int64[4,4] out=fp32[4,4]", {
        "out=fp16[4,4]": REFUSED,
    }),
]  # fmt: skip
ON_INFERENCE: list[tuple[str, str, int]] = [
    ("aclnnGroupedMatmulV4", ("x0=fp16[64,128] weight0=fp16[4,128,256] groupListOptional=int64[4] "
        "splitItem=3 groupType=0 groupListType=0 actType=0 out0=fp16[64,256]"), 0),
    ("aclnnGroupedMatmulV2", ("x0=fp16[64,128] weight0=fp16[4,128,256] "
        "groupListOptional=[1,2,3,64] splitItem=3 groupType=0 y0=fp16[64,256]"), REFUSED),
    ("aclnnQuantMatmulV4", ("x1=int8[16,64] x2=int8[128,64]:FRACTAL_NZ scale=int64[128] "
        "transposeX1=false transposeX2=true out=fp16[16,128]"), 0),
    ("aclnnRmsNorm", ("x=fp16[4,128] gamma=fp32[128] epsilon=1e-6 yOut=fp16[4,128] "
        "rstdOut=fp32[4,1]"), TILING),
]  # fmt: skip


@pytest.mark.parametrize(("name", "call", "change", "wanted"), spread(CALLS))
def test_both_sides_of_each_limit(name: str, call: str, change: str, wanted: int | None) -> None:
    assert code(A2, name, {**read(call), **read(change)}) == wanted


@pytest.mark.parametrize(("name", "call", "wanted"), ON_INFERENCE)
def test_what_other_products_take(name: str, call: str, wanted: int) -> None:
    assert code(INFERENCE, name, read(call)) == wanted
