"""PromptFlashAttention and IncreFlashAttention: both sides of each rule of their newest pages.

Sources: hicann/ops-transformer attention/prompt_flash_attention/docs/
aclnnPromptFlashAttentionV3.md and attention/incre_flash_attention/docs/
aclnnIncreFlashAttentionV4.md, and the host tilings that ops/attention/inference_*.py name.
"""

from __future__ import annotations

import pytest

from support.coded import Rows, code, read, spread

REFUSED, TILING, LAUNCH = 161002, 561002, 561103

_PROMPT = (
    "query=fp16[2,8,256,64] key=fp16[2,8,256,64] value=fp16[2,8,256,64] numHeads=8 "
    "scaleValue=0.1 preTokens=2147483647 nextTokens=2147483647 inputLayout=BNSD sparseMode=0 "
    "innerPrecise=0"
)
_IN_BYTES = _PROMPT.replace("fp16", "int8") + (
    " attentionOut=fp16[2,8,256,64] deqScale1=uint64[1] quantScale1=fp32[1] deqScale2=uint64[1]"
)
_TO_BYTES = "attentionOut=int8[2,8,256,64]"
_PACKED = (
    "query=bf16[256,8,192] key=bf16[256,8,192] value=bf16[256,8,128] numHeads=8 scaleValue=0.1 "
    "preTokens=2147483647 nextTokens=2147483647 inputLayout=TND sparseMode=0 innerPrecise=0 "
    "actualSeqLengths=[100,256] actualSeqLengthsKv=[100,256]"
)
_RIGHT = "sparseMode=3 attenMask=bool[2048,2048]"
PROMPTS: Rows = [
    ("aclnnPromptFlashAttentionV3", _PROMPT, {
        "numHeads=3": LAUNCH, "numKeyValueHeads=4": LAUNCH, "key=bf16[2,8,256,64]": LAUNCH,
        "query=fp16[1,128,16,64] key=fp16[1,1,16,64] value=fp16[1,1,16,64] numHeads=128 "
        "numKeyValueHeads=1": LAUNCH,
        "inputLayout=BSH": LAUNCH, "inputLayout=SBH": LAUNCH,
        "inputLayout=BNSD_BSND attentionOut=fp16[2,256,8,64]": None,
        "inputLayout=BNSD_BSND attentionOut=fp16[2,8,256,64]": REFUSED,
        "attentionOut=fp16[2,256,8,64]": REFUSED, "attentionOut=bf16[2,8,256,64]": LAUNCH,
        "value=fp16[2,8,256,32]": LAUNCH, "value=fp16[2,8,128,64]": LAUNCH,
        "pseShift=fp16[2,8,256,256]": 0, "pseShift=fp16[1,8,256,256]": 0,
        "pseShift=bf16[2,8,256,256]": LAUNCH, "pseShift=fp16[2,8,100,256]": LAUNCH,
        "pseShift=fp16[2,4,256,256]": LAUNCH,
        "attenMask=bool[256,256]": 0, "attenMask=bool[2,256,256]": 0,
        "attenMask=bool[100,256]": LAUNCH, "attenMask=fp16[256,256]": REFUSED,
        "sparseMode=1": LAUNCH, "sparseMode=2": LAUNCH, "sparseMode=9": LAUNCH,
        "sparseMode=2 attenMask=bool[2048,2048]": 0, "sparseMode=3 attenMask=bool[256,256]": LAUNCH,
        "sparseMode=5 attenMask=bool[256,256]": LAUNCH,
        "innerPrecise=3": 0, "innerPrecise=5": 0,  # the host code warns
        "actualSeqLengths=[256]": 0, "actualSeqLengths=[256,100,7]": 0,
        "actualSeqLengths=[256,300]": LAUNCH, "actualSeqLengths=[-1,3]": LAUNCH,
        "actualSeqLengthsKv=[256,300]": LAUNCH,
        _TO_BYTES: LAUNCH, f"{_TO_BYTES} quantScale2=fp32[1]": None,
        f"{_TO_BYTES} quantScale2=fp32[8,64]": None, f"{_TO_BYTES} quantScale2=fp32[8,60]": LAUNCH,
        f"{_TO_BYTES} quantScale2=bf16[1]": LAUNCH, "quantScale2=fp32[1]": LAUNCH,
        f"{_TO_BYTES} quantScale2=fp32[1] quantOffset2=fp32[8,64]": LAUNCH,
        f"{_TO_BYTES} quantScale2=fp32[1] deqScale1=uint64[1]": LAUNCH,
        f"{_TO_BYTES} quantScale2=fp32[1] sparseMode=4 preTokens=-1 attenMask=bool[2048,2048]":
            LAUNCH,
    }),
    ("aclnnPromptFlashAttentionV3", _PACKED, {
        _RIGHT: 0, f"{_RIGHT} actualSeqLengths=[120,256]": LAUNCH,
        "sparseMode=2 attenMask=bool[2048,2048]": LAUNCH, "attenMask=bool[256,256]": LAUNCH,
        "actualSeqLengths=-": LAUNCH, "actualSeqLengths=[256,100]": LAUNCH,
        "actualSeqLengths=[100,250]": LAUNCH, "pseShift=bf16[1,8,256,256]": LAUNCH,
        "query=fp16[256,8,192] key=fp16[256,8,192] value=fp16[256,8,128]": LAUNCH,
        "query=bf16[256,8,160] key=bf16[256,8,160]": LAUNCH, "value=bf16[256,8,64]": LAUNCH,
    }),
]  # fmt: skip
BYTES = {
    "": None, "deqScale1=-": LAUNCH, "quantScale1=-": LAUNCH, "deqScale2=-": LAUNCH,
    "quantScale2=fp32[1]": LAUNCH, _TO_BYTES: LAUNCH, f"{_TO_BYTES} quantScale2=fp32[1]": None,
    "pseShift=bf16[2,8,256,256]": LAUNCH,
}  # fmt: skip

_SINGLE = (
    "query=fp16[2,8,1,64] key0=fp16[2,8,256,64] value0=fp16[2,8,256,64] numHeads=8 "
    "scaleValue=0.1 inputLayout=BNSD innerPrecise=1"
)
_PAGED = (
    "query=fp16[2,8,1,64] key0=fp16[40,16,512] value0=fp16[40,16,512] numHeads=8 scaleValue=0.1 "
    "inputLayout=BNSD innerPrecise=1 actualSeqLengths=[256,256] blocktable=int32[2,16] blockSize=16"
)
_FEW_BITS = "key0=int8[2,8,256,64] value0=int8[2,8,256,64]"
_RESULT = "attentionOut=int8[2,8,1,64]"
TOKENS: Rows = [
    ("aclnnIncreFlashAttentionV4", _SINGLE, {
        "numHeads=3": TILING, "numKeyValueHeads=3": TILING, "query=fp16[2,8,2,64]": TILING,
        "key0=bf16[2,8,256,64]": TILING, "key0=fp16[1,8,256,64] value0=fp16[1,8,256,64]": TILING,
        "inputLayout=TND": TILING, "inputLayout=SBH": TILING,
        "attentionOut=fp16[2,8,1,64]": 0, "attentionOut=fp16[2,1,8,64]": REFUSED,
        "innerPrecise=0": 0, "innerPrecise=2": TILING, "innerPrecise=-1": TILING,
        "attenMask=bool[2,1,1,256]": 0, "attenMask=bool[2,256]": 0,
        "attenMask=bool[2,1,1,200]": TILING,
        "pseShift=fp16[2,8,1,256]": 0, "pseShift=fp16[2,8,1,200]": TILING,
        "pseShift=bf16[2,8,1,256]": TILING,
        "actualSeqLengths=[256]": 0, "actualSeqLengths=[1,2,3]": 0,
        "actualSeqLengths=[256,300]": TILING, "kvPaddingSize=int64[1]": TILING,
        "antiquantScale=fp16[2,8,1,64]": TILING, _FEW_BITS: TILING,
        f"{_FEW_BITS} antiquantScale=fp16[2,8,1,64]": None,
        f"{_FEW_BITS} antiquantScale=fp16[2]": None,
        f"{_FEW_BITS} antiquantScale=bf16[2,8,1,64]": TILING,
        f"{_FEW_BITS} antiquantScale=fp16[3]": TILING,
        f"{_FEW_BITS} antiquantScale=fp16[2] antiquantOffset=fp16[2,512]": TILING,
        _RESULT: TILING, f"{_RESULT} quantScale2=fp32[1]": None,
        f"{_RESULT} quantScale2=fp32[8,64]": None, f"{_RESULT} quantScale2=fp32[3]": TILING,
        f"{_RESULT} quantScale2=fp32[1] dequantScale1=uint64[1]": TILING,
    }),
    ("aclnnIncreFlashAttentionV4", _PAGED, {
        "blockSize=0": TILING, "blockSize=17": TILING, "blockSize=1024": TILING,
        "actualSeqLengths=-": TILING, "actualSeqLengths=[256,257]": TILING,
        "blocktable=int32[3,16]": TILING, "blocktable=int32[2,15]": TILING,
        "blocktable=int64[2,16]": REFUSED, "value0=fp16[41,16,512]": TILING,
        "key0=fp16[30,16,512] value0=fp16[30,16,512]": TILING,
        "key0=fp16[40,8,16,64] value0=fp16[40,8,16,64]": 0,
        "key0=fp16[40,32,512] value0=fp16[40,32,512]": TILING,
        "attenMask=bool[2,1,1,256]": 0, "attenMask=bool[2,1,1,255]": TILING,
        "kvPaddingSize=int64[1]": TILING,
    }),
    ("aclnnFusedInferAttentionScoreV3", _SINGLE, {
        "innerPrecise=0": 0, "innerPrecise=2": TILING,
        "inputLayout=BNSD_BSND": TILING, "attentionOut=fp16[2,1,8,64]": REFUSED,
    }),
]  # fmt: skip


@pytest.mark.parametrize(("name", "call", "change", "wanted"), spread(PROMPTS + TOKENS))
def test_rules(name: str, call: str, change: str, wanted: int | None) -> None:
    assert code("Ascend910B3", name, read(call) | read(change)) == wanted


@pytest.mark.parametrize(("change", "wanted"), BYTES.items())
def test_queries_in_bytes_need_their_scales(change: str, wanted: int | None) -> None:
    words = read(_IN_BYTES) | read(change)
    assert code("Ascend910B3", "aclnnPromptFlashAttentionV3", words) == wanted
