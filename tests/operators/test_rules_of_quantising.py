"""Rules of quantising activations, of gates, and of scales, on both sides of each limit.

Source: hicann/ops-nn quant/*/docs and activation/*/docs.
"""

from __future__ import annotations

import pytest

from support.both_sides import (
    A2,
    INFERENCE,
    NO_KERNEL,
    NULL,
    REFUSED,
    TILING,
    TRAINING,
    Case,
    changed,
    code,
)

UNMADE = 561103
_QUANT = "x=fp16[4,64] scale=fp16[64] sqrtMode=false roundMode=round dstType=2 y=int8[4,64]"
_BACK = "x=int8[4,64] scale=fp32[64] dstType=1 sqrtMode=false y=fp16[4,64]"
_GROUPED = (
    "x=fp16[16,64] smoothScalesOptional=fp16[4,64] groupIndexOptional=int32[4] dstType=2 "
    "yOut=int8[16,64] scaleOut=fp32[16]"
)
CASES: list[Case] = [
    ("aclnnDynamicQuant", "x=bf16[4,64] yOut=int8[4,64] scaleOut=fp32[4]", {
        "smoothScalesOptional=bf16[64]": 0, "smoothScalesOptional=bf16[63]": REFUSED,
        "smoothScalesOptional=fp16[64]": REFUSED, "yOut=int8[4,63]": REFUSED,
        "scaleOut=fp32[4,1]": REFUSED, "x=bf16[64] yOut=int8[64] scaleOut=fp32[1]": REFUSED,
        # Results of four bits aren't modelled; what the page refuses is refused.
        "yOut=int4[4,64]": None, "yOut=int32[4,8]": None, "yOut=int32[4,7]": REFUSED,
        "x=bf16[4,63] yOut=int4[4,63]": REFUSED, "x=bf16[4,60] yOut=int32[4,7]": REFUSED,
        "x=bf16[4,50] yOut=int8[4,50]": 0,
    }),
    ("aclnnDynamicQuantV2", _GROUPED, {
        "groupIndexOptional=null smoothScalesOptional=fp16[64]": 0,
        "groupIndexOptional=null": REFUSED, "smoothScalesOptional=null": REFUSED,
        "groupIndexOptional=int32[3]": REFUSED, "dstType=3": REFUSED, "dstType=4": REFUSED,
        "dstType=3 yOut=int32[16,8]": 0, "dstType=29 yOut=int4[16,64]": 0,
        "dstType=29 x=fp16[16,63] yOut=int4[16,63] smoothScalesOptional=fp16[4,63]": REFUSED,
        "offsetOut=fp32[16]": 0, "offsetOut=fp32[15]": REFUSED,
        "smoothScalesOptional=fp16[1025,64] groupIndexOptional=int32[1025]": REFUSED,
    }),
    ("aclnnAscendQuant", _QUANT, {
        "scale=fp16[1]": 0, "scale=fp16[1,64]": 0, "scale=fp16[4,1]": REFUSED,
        "scale=fp16[63]": REFUSED, "offset=fp16[64]": 0, "offset=fp16[1]": REFUSED,
        "offset=fp32[64]": REFUSED, "roundMode=rint": REFUSED, "dstType=4": REFUSED,
        "dstType=3": REFUSED, "dstType=3 y=int32[4,8]": None, "dstType=29 y=int4[4,64]": None,
        "dstType=29 x=fp16[4,63] scale=fp16[63] y=int4[4,63]": REFUSED, "y=int8[4,63]": REFUSED,
        "scale=bf16[64]": REFUSED, "x=fp32[4,64]": 0,
    }),
    ("aclnnAscendQuantV3", f"{_QUANT} axis=-1", {
        "axis=-2": REFUSED, "axis=-2 scale=fp16[4]": None, "axis=-3": REFUSED,
        "axis=-2 scale=fp16[4,1]": None,
    }),
    ("aclnnAscendAntiQuant", _BACK, {
        "scale=fp32[1]": 0, "scale=fp32[63]": REFUSED, "scale=fp32[1,64]": REFUSED,
        "offset=fp32[64]": 0, "offset=fp32[1]": REFUSED, "dstType=27": REFUSED,
        "dstType=0": REFUSED, "dstType=27 y=bf16[4,64]": 0,
    }),
    ("aclnnTransQuantParamV2", "scale=fp32[64] out=uint64[64]", {
        "offset=fp32[64]": 0, "offset=fp32[1]": 0, "offset=fp32[63]": REFUSED,
        "out=uint64[63]": REFUSED, "scale=fp32[1,64] out=uint64[1,64]": 0,
        "scale=fp32[4,64] out=uint64[4,64]": 0,
        "scale=fp32[4,64] offset=fp32[4,64] out=uint64[4,64]": REFUSED,
        "scale=fp32[0] out=uint64[0]": REFUSED, "scale=null": NULL,
    }),
    ("aclnnTransQuantParamV3", "scale=fp32[64] roundMode=0 out=uint64[64]", {
        "roundMode=1": 0, "roundMode=2": REFUSED,
    }),
    ("aclnnSwiGluQuant", ("x=fp16[16,128] smoothScalesOptional=fp32[64] activateLeft=false "
        "quantModeOptional=dynamic yOut=int8[16,64] scaleOut=fp32[16]"), {
        "quantModeOptional=mx": REFUSED, "x=fp16[16,127]": REFUSED, "yOut=int8[16,63]": REFUSED,
        "x=fp16[16,8194] smoothScalesOptional=fp32[4097] yOut=int8[16,4097]": REFUSED,
        "smoothScalesOptional=fp32[4,64] groupIndexOptional=int32[4]": None,
        "smoothScalesOptional=fp32[3,64] groupIndexOptional=int32[4]": REFUSED,
    }),
    ("aclnnSwiGluQuantV2", ("x=fp16[16,128] smoothScalesOptional=fp32[4,64] "
        "groupIndexOptional=int32[4] activateLeft=false quantModeOptional=dynamic groupListType=0 "
        "dstType=2 yOut=int8[16,64] scaleOut=fp32[16]"), {
        "dstType=3": REFUSED, "dstType=29 yOut=int4[16,64]": 0, "groupListType=2": REFUSED,
        "dstType=29 x=fp16[16,126] smoothScalesOptional=fp32[4,63] yOut=int4[16,63]": REFUSED,
        "smoothScalesOptional=fp32[4]": 0, "dstType=29": REFUSED,
    }),
    ("aclnnDequantSwigluQuant", ("x=int32[16,128] weightScaleOptional=fp32[128] "
        "activationScaleOptional=fp32[16,1] activateLeft=false quantModeOptional=dynamic "
        "yOut=int8[16,64] scaleOut=fp32[16]"), {
        "weightScaleOptional=null": NULL, "x=bf16[16,128]": REFUSED,
        "weightScaleOptional=fp32[127]": REFUSED, "quantModeOptional=mx": REFUSED,
    }),
    ("aclnnSwiGlu", "x=fp16[4,128] dim=-1 out=fp16[4,64]", {
        "x=fp16[4,120] out=fp16[4,60]": 0, "dim=2": REFUSED,
    }),
    ("aclnnSwiGluGrad", "yGrad=fp16[4,64] x=fp16[4,128] dim=-1 out=fp16[4,128]", {
        "yGrad=fp16[4,63]": REFUSED, "yGrad=fp32[4,64]": REFUSED, "out=fp32[4,128]": REFUSED,
        "x=fp16[4,127] out=fp16[4,127]": REFUSED,
    }),
    ("aclnnGeGluV3", ("self=fp16[4,128] dim=-1 approximate=1 activateLeft=false out=fp16[4,64] "
        "outGelu=fp16[4,64]"), {
        "approximate=2": REFUSED, "dim=2": REFUSED, "out=fp32[4,64]": REFUSED,
        "self=fp16[4,127]": REFUSED, "outGelu=fp16[4,63]": REFUSED,
    }),
]  # fmt: skip
ON_310P: list[Case] = [
    ("aclnnDynamicQuant", "x=fp16[4,64] yOut=int8[4,64] scaleOut=fp32[4]", {
        "x=fp16[4,80] yOut=int8[4,80]": UNMADE, "yOut=int4[4,64]": REFUSED,
        "x=bf16[4,64]": REFUSED,
    }),
    ("aclnnDynamicQuantV2", _GROUPED, {"dstType=3 yOut=int32[16,8]": REFUSED}),
    ("aclnnAscendQuant", _QUANT, {"dstType=29 y=int4[4,64]": REFUSED}),
    ("aclnnAscendQuantV3", f"{_QUANT} axis=-1", {"axis=-2 scale=fp16[4]": REFUSED}),
    ("aclnnSwiGlu", "x=fp16[4,128] dim=-1 out=fp16[4,64]", {
        "x=fp16[4,120] out=fp16[4,60]": TILING, "x=fp32[4,32] out=fp32[4,16]": 0,
        "x=fp16[4,32] out=fp16[4,16]": TILING,
    }),
]  # fmt: skip
ON_910: list[Case] = [
    ("aclnnDynamicQuant", "x=fp16[4,64] yOut=int8[4,64] scaleOut=fp32[4]", {
        "x=fp16[4,80] yOut=int8[4,80]": UNMADE,
    }),
]  # fmt: skip
ROWS = [
    (soc, *row)
    for soc, cases in ((A2, CASES), (INFERENCE, ON_310P), (TRAINING, ON_910))
    for row in changed(cases)
]


@pytest.mark.parametrize(("soc", "name", "words", "change", "wanted"), ROWS)
def test_both_sides_of_each_limit(
    soc: str, name: str, words: dict[str, str], change: str, wanted: int | None
) -> None:
    assert code(soc, name, words) == wanted, change


def test_microscaling_is_of_later_products() -> None:
    words = {"x": "fp16[4,64]", "yOut": "fp8_e4m3fn[4,64]", "mxscaleOut": "fp8_e8m0[4,1,2]"}
    for name in ("aclnnDynamicMxQuant", "aclnnDynamicMxQuantV2", "aclnnDynamicMxQuantV3"):
        for soc in (A2, INFERENCE, TRAINING):
            from npusim import Device

            assert Device(soc).check(name, **words).code == NO_KERNEL
