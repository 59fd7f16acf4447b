"""Attention, rotary embeddings and caches: both sides of each rule of a page or of host code.

Sources: the page that `rules=` of each interface cites (hicann/ops-transformer), and the host code
that the tables of limits name (ops/attention/*_limits.py, inference_*.py, training_*.py,
ops/rotary/limits.py, ops/indexing/paged_limits.py).
"""

from __future__ import annotations

import numpy as np
import pytest

from npusim import Device
from npusim.operators.resolve import resolve
from support.coded import Rows, code, read, spread

A2 = "Ascend910B3"
NULL, REFUSED, TILING, LAUNCH, ABSENT = 161001, 161002, 561002, 561103, 561003

_TRAINED = (
    "query=bf16[2,4,256,64] key=bf16[2,4,256,64] value=bf16[2,4,256,64] headNum=4 inputLayout=BNSD "
    "scaleValue=0.1 keepProb=1.0 sparseMode=0 pseType=1"
)
_LONG = _TRAINED.replace("256", "2048")
_ENDS = "actualSeqQLenOptional=[100,256] actualSeqKvLenOptional=[100,256]"
_PACKED = (
    "query=bf16[256,4,64] key=bf16[256,4,64] value=bf16[256,4,64] headNum=4 inputLayout=TND "
    f"scaleValue=0.1 keepProb=1.0 sparseMode=0 pseType=1 {_ENDS}"
)
_TURNED = (
    _PACKED.replace(",64]", ",128]")
    + " queryRope=bf16[256,4,64] keyRope=bf16[256,4,64] attenMaskOptional=bool[156,156]"
)
_CAUSAL = "attenMaskOptional=bool[2048,2048] sparseMode=2"
_WIDE = " ".join(f"{name}=bf16[256,4,576]" for name in ("query", "key"))
_NARROW = " ".join(f"{name}=bf16[256,4,120]" for name in ("query", "key", "value"))
_BLOCKS = "attenMaskOptional=bool[2048,2048] nextTokens=0 realShiftOptional=fp32[4] pseType=2"
TRAINING: Rows = [
    ("aclnnFlashAttentionScoreV3", _TRAINED, {
        "sinkOptional=fp32[4]": None, "sinkOptional=fp32[3]": LAUNCH,
        "sinkOptional=bf16[4]": REFUSED, "key=fp16[2,4,256,64]": REFUSED,
        "attentionOutOut=fp16[2,4,256,64]": REFUSED, "value=bf16[2,4,256,32]": 0,
        "value=bf16[2,2,256,64]": LAUNCH, "softmaxMaxOut=fp32[2,4,256,8]": 0,
        "softmaxMaxOut=fp32[2,4,256,1]": REFUSED,
        "paddingMaskOptional=bf16[2,4,256,256]": None,  # reserved by the page
        "realShiftOptional=fp32[4] pseType=2": None, "realShiftOptional=fp32[2,4] pseType=3": None,
        "realShiftOptional=fp32[4] pseType=2 key=bf16[2,4,128,64] value=bf16[2,4,128,64]": LAUNCH,
    }),
    ("aclnnFlashAttentionScoreV2", _LONG, {
        "realShiftOptional=bf16[2,4,1024,2048]": LAUNCH,  # not causal
        f"realShiftOptional=bf16[2,4,1024,2048] {_CAUSAL}": None,
        f"realShiftOptional=bf16[1,4,1024,2048] {_CAUSAL}": None,
        f"realShiftOptional=bf16[2,4,512,2048] {_CAUSAL}": LAUNCH,
        "realShiftOptional=bf16[1,4,2048,2048]": 0, "realShiftOptional=bf16[1,4,1,2048]": 0,
    }),
    ("aclnnFlashAttentionScore", ("query=bf16[256,2,256] key=bf16[256,2,256] value=bf16[256,2,256] "
        "headNum=4 inputLayout=SBH scaleValue=0.1 keepProb=1.0 sparseMode=0"), {
        "value=bf16[256,2,128]": 0, "value=bf16[256,2,128] attentionOutOut=bf16[256,2,128]": 0,
        "value=bf16[256,2,128] attentionOutOut=bf16[256,2,256]": REFUSED,
        "key=bf16[256,2,192] value=bf16[256,2,192]": LAUNCH, "value=bf16[256,2,384]": REFUSED,
    }),
    ("aclnnFlashAttentionVarLenScoreV2", _PACKED, {
        f"{_BLOCKS} sparseMode=8": None, f"{_BLOCKS} sparseMode=7": LAUNCH,
        f"{_BLOCKS} sparseMode=8 actualSeqKvLenOptional=[120,256]": LAUNCH,
        f"{_BLOCKS} sparseMode=8 qStartIdxOptional=[10] kvStartIdxOptional=[0]": LAUNCH,
        "realShiftOptional=bf16[137344]": None, "realShiftOptional=bf16[137345]": LAUNCH,
        "realShiftOptional=bf16[1,4,1024,156]": LAUNCH,
        f"realShiftOptional=bf16[1,4,1024,156] {_CAUSAL}": None,
        "realShiftOptional=bf16[1024] actualSeqQLenOptional=[0,256]": LAUNCH,
        "actualSeqQLenOptional=[0,256] actualSeqKvLenOptional=[0,256]": 0,
        "actualSeqQLenOptional=[100,256,0] actualSeqKvLenOptional=[100,256,0]": 0,
        "actualSeqQLenOptional=[256,100]": LAUNCH,
    }),
    ("aclnnFlashAttentionVarLenScoreV3", _TURNED, {
        "queryRope=null": NULL, "attenMaskOptional=-": NULL, "keepProb=0.9": REFUSED,
        "queryRope=bf16[256,4,32]": REFUSED, "keyRope=bf16[256,1,64]": REFUSED,
        "queryRope=bf16[256,4,60] keyRope=bf16[256,4,60]": REFUSED, "value=bf16[256,4,64]": 0,
        _NARROW: REFUSED, f"{_WIDE} value=bf16[256,4,512]": REFUSED,
        "dropMaskOptional=uint8[99999]": REFUSED, "queryRope=fp16[256,4,64]": REFUSED,
    }),
    ("aclnnFlashAttentionVarLenScoreV4", _PACKED.replace("pseType=1 ", ""), {
        "softmaxOutLayout=same_as_input": 0, "softmaxOutLayout=": 0, "softmaxOutLayout=TND": None,
    }),
    ("aclnnFlashAttentionVarLenScoreV5", _PACKED, {
        "softmaxOutLayout=same_as_input": 0, "sinkOptional=fp32[4]": None,
        "sinkOptional=fp32[3]": LAUNCH, "queryRope=bf16[256,4,32]": NULL,
        "queryRope=bf16[256,4,32] keyRope=bf16[256,4,32] attenMaskOptional=bool[156,156]": 0,
        "inputLayout=BSH": REFUSED,
    }),
]  # fmt: skip

_GRAD = _TRAINED.replace("key=", "keyIn=") + (
    " dy=bf16[2,4,256,64] softmaxMaxOptional=fp32[2,4,256,8] softmaxSumOptional=fp32[2,4,256,8] "
    "attentionInOptional=bf16[2,4,256,64]"
)
_PACKED_GRAD = _PACKED.replace("key=", "keyIn=").replace("pseType=1 ", "") + (
    " dy=bf16[256,4,64] softmaxMaxOptional=fp32[256,4,8] softmaxSumOptional=fp32[256,4,8] "
    "attentionInOptional=bf16[256,4,64]"
)
_THIN = "value=bf16[256,4,32] dy=bf16[256,4,32] attentionInOptional=bf16[256,4,32]"
_ROPES = "queryRope=bf16[256,4,32] keyInRope=bf16[256,4,32]"
GRADIENTS: Rows = [
    ("aclnnFlashAttentionScoreGradV3", _GRAD, {
        "softmaxMaxOptional=-": LAUNCH, "softmaxMaxOptional=fp32[2,4,255,8]": LAUNCH,
        "softmaxSumOptional=fp32[2,4,256,1]": LAUNCH, "dy=fp16[2,4,256,64]": REFUSED,
        "attentionInOptional=bf16[2,4,255,64]": LAUNCH, "dy=bf16[2,4,255,64]": LAUNCH,
        "attentionInOptional=fp16[2,4,256,64]": LAUNCH, "keepProb=0.5": LAUNCH,
        "keepProb=0.5 dropMaskOptional=uint8[65536]": 0,
        "dqOut=fp16[2,4,256,64] dkOut=bf16[2,4,256,64] dvOut=bf16[2,4,256,64]": REFUSED,
        "sinkInOptional=fp32[4]": None, "sinkInOptional=fp32[3]": LAUNCH,
        "pseType=2 pseShiftOptional=fp32[4]": None, "pseType=2 pseShiftOptional=fp32[3]": LAUNCH,
        "pseShiftOptional=fp32[2,4,1,256]": REFUSED, "pseShiftOptional=bf16[2,4,1,256]": 0,
        "pseShiftOptional=bf16[1,4,1,256]": LAUNCH,  # its forward takes it
    }),
    ("aclnnFlashAttentionUnpaddingScoreGrad", _PACKED_GRAD, {
        "softmaxMaxOptional=fp32[4,256,8]": LAUNCH, _THIN: 0, "inputLayout=BSH": REFUSED,
        "actualSeqQLenOptional=-": LAUNCH, "sparseMode=5": LAUNCH,
    }),
    ("aclnnFlashAttentionUnpaddingScoreGradV4", _PACKED_GRAD, {
        "softmaxInLayout=same_as_input": 0, "softmaxInLayout=TND": REFUSED, _THIN: None,
    }),
    ("aclnnFlashAttentionUnpaddingScoreGradV5", f"{_PACKED_GRAD} pseType=1", {
        f"{_ROPES} attenMaskOptional=bool[156,156]": None, _ROPES: NULL,
        "sinkInOptional=fp32[5]": LAUNCH, "pseType=2 pseShiftOptional=fp32[4]": None,
    }),
]  # fmt: skip

_FUSED = (
    "query=bf16[2,4,256,64] key0=bf16[2,4,256,64] value0=bf16[2,4,256,64] numHeads=4 "
    "numKeyValueHeads=4 inputLayout=BNSD scaleValue=0.1"
)
_WIDENED = (
    "query=bf16[2,4,1,64] key0=int8[2,4,256,64] value0=int8[2,4,256,64] numHeads=4 "
    "numKeyValueHeads=4 inputLayout=BNSD scaleValue=0.1"
)
_LATENT = (
    "query=bf16[2,32,1,512] key0=bf16[8,1,128,512] value0=bf16[8,1,128,512] numHeads=32 "
    "numKeyValueHeads=1 inputLayout=BNSD scaleValue=0.1 queryRopeOptional=bf16[2,32,1,64] "
    "keyRopeOptional=bf16[8,1,128,64] blockTableOptional=int32[2,4] blockSize=128 "
    "actualSeqLengthsKvOptional=[200,300]"
)
_TOKENS = (
    "query=bf16[256,4,128] key0=bf16[256,4,128] value0=bf16[256,4,128] numHeads=4 "
    "numKeyValueHeads=4 inputLayout=TND scaleValue=0.1 actualSeqLengthsOptional=[100,256] "
    "actualSeqLengthsKvOptional=[100,256]"
)
_BYTES = "attentionOut=int8[2,4,256,64]"
_BAND = "attenMaskOptional=bool[2048,2048] sparseMode=4"


def apart(kind: str, mode: int, other: int | None = None) -> str:
    """Scales of keys and values."""
    modes = f"keyAntiquantMode={mode} valueAntiquantMode={mode if other is None else other}"
    names = ("keyAntiquantScaleOptional", "valueAntiquantScaleOptional")
    return " ".join((*(f"{name}={kind}" for name in names), modes))


def prefixed(*shape: int, kind: str = "bf16") -> str:
    """Prefixes that sequences share."""
    tensor = f"{kind}{list(shape)}".replace(" ", "")
    return f"keySharedPrefixOptional={tensor} valueSharedPrefixOptional={tensor}"


INFERENCE: Rows = [
    ("aclnnFusedInferAttentionScoreV3", _FUSED, {
        "query=fp16[2,4,256,64]": TILING, "attentionOut=fp16[2,4,256,64]": TILING,
        "inputLayout=BNSD_BSND attentionOut=bf16[2,256,4,64]": None,
        "inputLayout=BNSD_BSND attentionOut=bf16[2,4,256,64]": REFUSED,
        "inputLayout=BNSD_NBSD": TILING, "value0=bf16[2,4,256,32]": TILING,
        _BYTES: TILING, f"{_BYTES} quantScale2Optional=fp32[1]": None,
        f"{_BYTES} quantScale2Optional=fp32[4,64]": None,
        f"{_BYTES} quantScale2Optional=bf16[4,64]": None,
        f"{_BYTES} quantScale2Optional=fp32[5]": TILING,
        f"{_BYTES} quantScale2Optional=fp32[1] quantOffset2Optional=fp32[2]": TILING,
        f"{_BYTES} quantScale2Optional=fp32[4,64] softmaxLseFlag=true "
        "softmaxLse=fp32[2,4,256,1]": TILING,
        f"{_BYTES} quantScale2Optional=fp32[1] {_BAND} preTokens=9 nextTokens=-1": TILING,
        "key0=int8[2,4,256,64] value0=int8[2,4,256,64]": TILING,
        "key0=int8[2,4,256,64] value0=int8[2,4,256,64] antiquantScaleOptional=bf16[2]": TILING,
        f"key0=int8[2,4,256,64] value0=int8[2,4,256,64] {apart('bf16[4,64]', 0)}": TILING,
        "attenMaskOptional=bool[256,256] preTokens=-1 nextTokens=-1": TILING,
        "attenMaskOptional=bool[256,256] preTokens=10 nextTokens=-20": TILING,
        "attenMaskOptional=bool[256,256] preTokens=10 nextTokens=-5": 0,
        f"{_BAND} preTokens=-300 nextTokens=300": TILING,
        prefixed(1, 4, 64, 64): None, prefixed(2, 4, 64, 64): TILING,
        prefixed(1, 4, 64, 64, kind="fp16"): TILING, prefixed(1, 4, 64, 32): TILING,
        f"{prefixed(1, 4, 64, 64)} actualSharedPrefixLenOptional=[65]": TILING,
        "keySharedPrefixOptional=bf16[1,4,64,64]": TILING,
        "actualSeqLengthsKvOptional=[0,256]": None, "actualSeqLengthsOptional=[1,2,3]": 0,
        "key0=bf16[1,4,256,64] key1=bf16[1,4,99,64] value0=bf16[1,4,256,64] "
        "value1=bf16[1,4,99,64]": None,
        "key0=bf16[1,4,256,64] key1=bf16[1,4,99,32] value0=bf16[1,4,256,64] "
        "value1=bf16[1,4,99,32]": TILING,
        "queryPaddingSizeOptional=int64[2] actualSeqLengthsOptional=[9]": TILING,
    }),
    ("aclnnFusedInferAttentionScoreV2", _WIDENED.replace("int8", "bf16"), {
        f"key0=int8[2,4,256,64] value0=int8[2,4,256,64] {apart('bf16[1,4,1,64]', 0)}": None,
        apart("bf16[1,4,1,64]", 0): TILING,  # of keys that aren't INT8
    }),
]  # fmt: skip

# Calls that need further arguments to be taken: each row is a whole one.
WHOLE: list[tuple[str, str, int | None]] = [
    (_WIDENED, "", TILING),
    (_WIDENED, "antiquantScaleOptional=bf16[2,4,1,64]", None),
    (_WIDENED, "antiquantScaleOptional=bf16[2]", None),
    (_WIDENED, "antiquantScaleOptional=bf16[2,4,64]", TILING),
    (_WIDENED, "antiquantScaleOptional=fp16[2,4,1,64]", TILING),
    (_WIDENED, "antiquantScaleOptional=fp32[2,2,256] antiquantMode=1", None),
    (_WIDENED, "antiquantScaleOptional=bf16[2,2,256] antiquantMode=1", TILING),
    (_WIDENED, "antiquantScaleOptional=bf16[2] antiquantMode=5", TILING),
    (_WIDENED, "antiquantScaleOptional=bf16[2] antiquantOffsetOptional=bf16[2,1]", TILING),
    *((_WIDENED, words, wanted) for words, wanted in (
        (apart("bf16[4,64]", 0), None), (apart("fp32[4,64]", 0), TILING),
        (apart("fp32[2,256]", 1), None), (apart("fp32[2,255]", 1), TILING),
        (apart("bf16[4]", 2), None), (apart("fp32[2,4,256]", 3), None),
        (apart("bf16[4,64]", 6), TILING), (apart("bf16[4,64]", 1, 0), TILING))),
    (_WIDENED.replace("int8", "int4"), apart("bf16[1,4,1,64]", 0), None),
    (_WIDENED.replace("int8", "int4"), "antiquantScaleOptional=bf16[2]", TILING),
    (_WIDENED.replace("int8[2,4,256,64]", "int32[2,4,256,8]"), apart("bf16[1,4,1,64]", 0), None),
    (_WIDENED.replace("bf16[2,4,1", "int8[2,4,1"), "", TILING),
    (_LATENT, "", 0),
    (_LATENT, "inputLayout=BNSD_NBSD attentionOut=bf16[32,2,1,512]", None),
    (_LATENT, "inputLayout=BNSD_NBSD attentionOut=bf16[2,32,1,512]", REFUSED),
    (_LATENT, "blockSize=64", TILING), (_LATENT, "keyRopeOptional=-", TILING),
    (_LATENT, "attentionOut=int8[2,32,1,512] quantScale2Optional=fp32[1]", TILING),
    (_TOKENS, "", 0), (_TOKENS, "inputLayout=TND_NTD", TILING),
    (_TOKENS, "attentionOut=int8[256,4,128] quantScale2Optional=fp32[1]", TILING),
    (_TOKENS, prefixed(4, 4, 128), TILING),
]  # fmt: skip

_ROTARY = "x=bf16[2,32,8,128] cos=bf16[2,32,1,128] sin=bf16[2,32,1,128] mode=0"
_APPLIED = (
    "queryRef=bf16[2,99,8,128] keyRef=bf16[2,99,2,128] cos=bf16[2,99,1,128] sin=bf16[2,99,1,128] "
    "layout=1"
)
_CACHED = (
    "positions=int64[16] queryIn=bf16[16,512] keyIn=bf16[16,128] cosSinCache=bf16[1024,128] "
    "headSize=128 isNeoxStyle=true"
)
_KEYS = (
    "kv=bf16[2,1,4,576] gamma=bf16[512] cos=bf16[2,1,4,64] sin=bf16[2,1,4,64] index=int64[2,4] "
    "kCacheRef=bf16[2,1,16,64] ckvCacheRef=bf16[2,1,16,512] epsilon=1e-5 isOutputKv=false"
)
_PAGED = (
    "key=bf16[16,8,128] keyCacheRef=bf16[10,128,8,128] slotMapping=int32[16] value=bf16[16,8,128] "
    "valueCacheRef=bf16[10,128,8,128]"
)
_PAGE = " ".join(
    f"{name}=bf16[4,16,1,{n}]" for name, n in (("kCacheRef", 64), ("ckvCacheRef", 512))
)
_NZ = "cacheModeOptional=PA_NZ keyCacheRef=bf16[10,{0},128,16] valueCacheRef=bf16[10,{0},128,16]"
_ONE = "keyCacheRef=bf16[10,128,1,128] valueCacheRef=bf16[10,128,1,128]"
_LENS = "compressLensOptional=int32[16] seqLensOptional=int32[2]"
CACHES: Rows = [
    ("aclnnRotaryPositionEmbedding", _ROTARY, {
        "cos=fp32[2,32,1,128] sin=fp32[2,32,1,128]": TILING, "out=fp16[2,32,8,128]": TILING,
        "sin=bf16[1,32,1,128]": TILING, "cos=bf16[2,32,8,128] sin=bf16[2,32,8,128]": 0,
    }),
    ("aclnnRotaryPositionEmbeddingV2", _ROTARY, {
        "mode=2": TILING, "rotate=bf16[128,128]": None, "rotate=bf16[64,64]": TILING,
        "rotate=fp16[128,128]": TILING,
        "x=bf16[32,8,128] cos=bf16[32,1,128] sin=bf16[32,1,128]": 0,
        "x=bf16[32,8,128] cos=bf16[32,8,128] sin=bf16[32,8,128]": 0,
        "x=bf16[32,8,128] cos=bf16[32,8,128] sin=bf16[32,8,128] mode=1": TILING,
        "x=bf16[32,8,128] cos=bf16[1,1,128] sin=bf16[1,1,128]": TILING,
    }),
    ("aclnnRotaryPositionEmbeddingGrad", _ROTARY.replace("x=", "dy="), {
        "xOptional=bf16[2,32,8,128]": None, "xOptional=bf16[2,32,8,64]": TILING,
        "xOptional=fp16[2,32,8,128]": TILING, "mode=2": TILING,
        "xOptional=bf16[2,32,8,128] dxOut=bf16[2,32,8,128] dcosOut=bf16[2,32,1,64] "
        "dsinOut=bf16[2,32,1,128]": TILING,
    }),
    ("aclnnApplyRotaryPosEmb", _APPLIED, {
        "keyRef=fp16[2,99,2,128]": TILING, "cos=fp32[2,99,1,128] sin=fp32[2,99,1,128]": TILING,
        "queryRef=bf16[2,0,8,128] keyRef=bf16[2,0,2,128] cos=bf16[2,0,1,128] "
        "sin=bf16[2,0,1,128]": TILING,
        "keyRef=bf16[2,98,2,128]": REFUSED, "layout=3": TILING,
    }),
    ("aclnnRopeWithSinCosCache", _CACHED, {
        "positions=int64[15]": REFUSED, "queryIn=bf16[16,500]": REFUSED,
        "cosSinCache=bf16[1024,64]": 0, "cosSinCache=bf16[1024,100]": REFUSED,
        "cosSinCache=bf16[1024,256]": REFUSED, "headSize=64": REFUSED,
        "mropeSection=[16,24,24] positions=int64[3,16]": 0, "mropeSection=[0,0,0]": 0,
        "mropeSection=[16,24,23] positions=int64[3,16]": REFUSED,
        "mropeSection=[8,12,12] positions=int64[3,16]": REFUSED, "mropeSection=[16,24,24]": REFUSED,
    }),
    ("aclnnKvRmsNormRopeCache", _KEYS, {
        "index=int64[8]": TILING, "ckvCacheRef=bf16[2,1,15,512]": TILING,
        "cacheModeOptional=XX": TILING, "cos=fp16[2,1,4,64] sin=fp16[2,1,4,64]": TILING,
        f"cacheModeOptional=PA index=int64[8] {_PAGE}": 0,
        f"cacheModeOptional=PA index=int64[2,4] {_PAGE}": TILING,
        "isOutputKv=true kRopeOut=bf16[2,1,4,64] cKvOut=bf16[2,1,4,512]": 0,
        "isOutputKv=true kRopeOut=bf16[2,1,4,32] cKvOut=bf16[2,1,4,512]": TILING,
    }),
    ("aclnnScatterPaKvCache", _PAGED, {
        "slotMapping=int32[15]": TILING, "value=bf16[15,8,128]": TILING,
        "value=bf16[16,8,64] valueCacheRef=bf16[10,128,8,64]": 0,
        "keyCacheRef=fp16[10,128,8,128]": REFUSED, "valueCacheRef=bf16[9,128,8,128]": TILING,
        "keyCacheRef=bf16[10,128,4,128]": TILING, "cacheModeOptional=PA_NZ": TILING,
        _NZ.format("64"): 0, _NZ.format("8,8"): 0, "cacheModeOptional=X": TILING,
        "scatterModeOptional=Nct stridesOptional=[2,2] offsetsOptional=[1,1]": None,
        "scatterModeOptional=Nct stridesOptional=[2]": TILING,
        "scatterModeOptional=NHSD": TILING,
        "scatterModeOptional=NHSD keyCacheRef=bf16[10,8,128,128] "
        "valueCacheRef=bf16[10,8,128,128]": None,
        f"scatterModeOptional=Alibi {_ONE} {_LENS}": None, "scatterModeOptional=Alibi": TILING,
        f"scatterModeOptional=Rope {_ONE} {_LENS}": TILING, "scatterModeOptional=Y": TILING,
        "key=bf16[2,8,8,128] value=bf16[2,8,8,128]": TILING,  # scenario 3 is for Ascend 950
        "seqLensOptional=int32[2]": TILING,
    }),
]  # fmt: skip

_HALF = _APPLIED.replace("bf16", "fp16")
_SIXTY_FOUR = (
    "queryRef=fp16[2,99,8,64] keyRef=fp16[2,99,2,64] cos=fp16[2,99,1,64] sin=fp16[2,99,1,64]"
)
PRODUCTS: list[tuple[str, str, str, int | None]] = [
    ("Ascend310P3", "aclnnApplyRotaryPosEmb", _HALF, 0),
    ("Ascend310P3", "aclnnApplyRotaryPosEmb", f"{_HALF} {_SIXTY_FOUR}", TILING),
    ("Ascend910A", "aclnnApplyRotaryPosEmb", f"{_HALF} {_SIXTY_FOUR}", TILING),
    ("Ascend910A", "aclnnApplyRotaryPosEmbV2", f"{_HALF} rotaryMode=half", ABSENT),
    ("Ascend310P3", "aclnnFlashAttentionVarLenScoreV5", _PACKED.replace("bf16", "fp16"), ABSENT),
    ("Ascend910A", "aclnnRotaryPositionEmbedding", _ROTARY.replace("bf16", "fp16"), ABSENT),
]


@pytest.mark.parametrize(
    ("name", "call", "change", "wanted"),
    spread([*TRAINING, *GRADIENTS, *INFERENCE, *CACHES]),
)
def test_both_sides_of_each_rule(name: str, call: str, change: str, wanted: int | None) -> None:
    assert code(A2, name, {**read(call), **read(change)}) == wanted


@pytest.mark.parametrize(("call", "change", "wanted"), WHOLE)
def test_caches_of_few_bits_and_latent_heads(call: str, change: str, wanted: int | None) -> None:
    words = {**read(call), **read(change)}
    assert code(A2, "aclnnFusedInferAttentionScoreV3", words) == wanted


@pytest.mark.parametrize(("soc", "name", "call", "wanted"), PRODUCTS)
def test_which_product_takes_it(soc: str, name: str, call: str, wanted: int | None) -> None:
    assert code(soc, name, read(call)) == wanted


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ("", None),  # gradients of ropes aren't modelled
        ("queryRope=null", NULL),
        ("attenMaskOptional=-", NULL),
        ("keepProb=0.9", REFUSED),
        ("queryRope=bf16[256,4,30] keyInRope=bf16[256,4,30]", REFUSED),
    ],
)
def test_gradients_with_ropes(change: str, wanted: int | None) -> None:
    results = " ".join(f"{name}RopeOut=bf16[256,4,32]" for name in ("dq", "dk"))
    call = f"{_PACKED_GRAD} pseType=1 {_ROPES} {results} attenMaskOptional=bool[156,156]"
    call += " ".join(("", *(f"{name}Out=bf16[256,4,64]" for name in ("dq", "dk", "dv"))))
    words = {**read(call), **read(change)}
    assert code(A2, "aclnnFlashAttentionUnpaddingScoreGradV3", words) == wanted


@pytest.mark.parametrize("version", ["ScoreV4", "ScoreGradV4"])
def test_what_only_ascend_950_has_is_a_no(version: str) -> None:
    found = Device(A2).check(f"aclnnFlashAttention{version}")
    assert (found.verdict, found.code) == ("no", ABSENT)


def test_a_yes_names_the_page_whose_rules_were_checked() -> None:
    for name, *_ in (*TRAINING, *GRADIENTS, *INFERENCE, *CACHES):
        assert resolve(name, {}).rules_source.endswith(f"{name}.md")


def test_tokens_are_turned_as_in_a_batch_of_one() -> None:
    draw = np.random.default_rng(3)
    x, cos, sin = (draw.standard_normal(size).astype(np.float32)
                   for size in ((50, 3, 64), (50, 1, 64), (50, 1, 64)))  # fmt: skip
    name, device = "aclnnRotaryPositionEmbeddingV2", Device(A2)
    flat = device.run(name, x=x, cos=cos, sin=sin, mode=0).outputs["out"]
    one = device.run(name, x=x[None], cos=cos[None], sin=sin[None], mode=0).outputs["out"]
    np.testing.assert_array_equal(flat, one[0])


def test_values_may_have_fewer_columns_than_keys() -> None:
    draw = np.random.default_rng(4)
    q, k = (draw.standard_normal((32, 1, 2 * 32)).astype(np.float16) for _ in range(2))
    v = draw.standard_normal((32, 1, 2 * 16)).astype(np.float16)
    done = Device(A2).run("aclnnFlashAttentionScore", query=q, key=k, value=v, headNum=2,
                          inputLayout="SBH", scaleValue=0.2, keepProb=1.0)  # fmt: skip
    got = done.outputs["attentionOutOut"]
    heads = [each.astype(np.float64).reshape(32, 2, -1).swapaxes(0, 1) for each in (q, k, v)]
    scores = heads[0] @ heads[1].swapaxes(1, 2) * 0.2
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = (weights / weights.sum(-1, keepdims=True)) @ heads[2]
    np.testing.assert_allclose(got, wanted.swapaxes(0, 1).reshape(32, 1, 32), atol=4e-3)
