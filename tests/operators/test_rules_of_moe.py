"""Rules of routing, and of tokens handed to other cards, on both sides of each limit.

Source: hicann/ops-transformer moe/*/docs and mc2/moe_distribute_*/docs.
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
    Case,
    changed,
    code,
    read,
)

UNMADE = 561103
A3 = "Ascend910_9391"
_ROUTED = (
    "x=bf16[16,128] expertIdx=int32[16,8] activeNum=0 expertCapacity=0 expertNum=64 dropPadMode=0 "
    "expertTokensCountOrCumsumFlag=1 expertTokensBeforeCapacityFlag=false"
)
_EP = (
    "tokens=bf16[16,128] indices=int32[16,4] probsOptional=bf16[16,4] rangeOptional=[0,32] "
    "numOutTokens=0 paddedMode=false permuteTokensOut=bf16[32,128] sortedIndicesOut=int32[64] "
    "permuteProbsOut=bf16[32]"
)
_MAP = (
    "tokens=bf16[16,128] routingMap=bool[16,64] probsOptional=bf16[16,64] numOutTokens=64 "
    "dropAndPad=false permuteTokensOut=bf16[64,128] permuteProbsOutOptional=bf16[64] "
    "sortedIndicesOut=int32[64]"
)
_HASHED = (
    "x=bf16[16,256] biasOptional=bf16[256] inputIdsOptional=int64[16] tid2eidOptional=int32[500,8] "
    "k=8 kGroup=1 groupCount=1 groupSelectMode=1 renorm=0 normType=2 outFlag=false "
    "routedScalingFactor=1.0 eps=1e-20 yOut=bf16[16,8] expertIdxOut=int32[16,8] outOut=fp32[16,256]"
)
_UNTOLD = "inputIdsOptional=null tid2eidOptional=null"
CASES: list[Case] = [
    ("aclnnMoeGatingTopKHash", _HASHED, {
        "inputIdsOptional=int32[16] tid2eidOptional=int64[500,8]": 0, _UNTOLD: 0,
        "inputIdsOptional=null": REFUSED, "tid2eidOptional=null": REFUSED,
        "tid2eidOptional=int32[500,7]": None, "inputIdsOptional=int64[17]": None,
        "outOut=null": NULL, "yOut=fp32[16,8]": REFUSED, "biasOptional=fp32[256]": REFUSED,
        "outOut=bf16[16,256]": REFUSED, "biasOptional=bf16[255]": REFUSED, "renorm=1": REFUSED,
        "x=bf16[16,16,16]": REFUSED, "k=0": REFUSED, "k=257": REFUSED, "normType=3": REFUSED,
        "groupCount=8 kGroup=4 normType=1": 0, "groupCount=8 kGroup=4": REFUSED,
        "groupCount=7 kGroup=4 normType=1": REFUSED, "groupCount=256 normType=1": REFUSED,
        "groupCount=256 normType=1 kGroup=8 groupSelectMode=0": 0,
        "groupSelectMode=2": REFUSED, "kGroup=2": REFUSED,
        "x=bf16[16,2049] biasOptional=null outOut=fp32[16,2049]": REFUSED,
    }),
    ("aclnnMoeInitRouting", ("x=fp16[16,128] rowIdx=int32[16,8] expertIdx=int32[16,8] "
        "activeNum=16 expandedXOut=fp16[128,128] expandedRowIdxOut=int32[128] "
        "expandedExpertIdxOut=int32[128]"), {
        "activeNum=-1": TILING, "activeNum=8 expandedXOut=fp16[64,128]": 0, "activeNum=8": TILING,
        "rowIdx=int32[8,16]": TILING, "x=fp16[1,16,128]": TILING, "expandedXOut=fp32[128,128]":
        TILING, "expandedRowIdxOut=int32[127]": TILING,
    }),
    ("aclnnMoeInitRoutingV2", _ROUTED, {
        "expertTokensCountOrCumsumFlag=3": UNMADE, "expertNum=0": UNMADE, "dropPadMode=2": UNMADE,
        "expertNum=0 expertTokensCountOrCumsumFlag=0": 0, "expandedXOut=fp16[128,128]": UNMADE,
        "dropPadMode=1": UNMADE, "expertIdx=int32[8,16]": UNMADE,
    }),
    ("aclnnMoeInitRoutingQuantV2", (f"{_ROUTED} quantMode=1 "
        "expandedXOut=int8[128,128]"), {
        # Scales that smooth rows aren't modelled.
        "scaleOptional=fp32[64,128]": None, "scaleOptional=fp32[1,128]": None,
        "scaleOptional=fp32[63,128]": TILING, "scaleOptional=fp32[128]": TILING,
        "quantMode=0": TILING, "quantMode=0 scaleOptional=fp32[1] offsetOptional=fp32[1]": 0,
        "quantMode=0 scaleOptional=fp32[1]": TILING, "quantMode=2": TILING,
        "expandedXOut=int4[128,128]": None,
    }),
    ("aclnnMoeGatingTopKSoftmax", ("x=fp16[16,64] k=8 yOut=fp16[16,8] expertIdxOut=int32[16,8] "
        "rowIdxOut=int32[16,8]"), {
        "k=65 yOut=fp16[16,65] expertIdxOut=int32[16,65] rowIdxOut=int32[16,65]": TILING,
        "yOut=fp32[16,8]": TILING, "finishedOptional=bool[16]": 0,
        "finishedOptional=bool[15]": TILING,
        "x=fp16[2,8,64] yOut=fp16[2,8,8] expertIdxOut=int32[2,8,8] rowIdxOut=int32[2,8,8]": 0,
    }),
    ("aclnnMoeComputeExpertTokens", "sortedExperts=int32[128] numExperts=64 out=int32[64]", {
        "numExperts=2048 out=int32[2048]": 0, "numExperts=2049 out=int32[2049]": TILING,
        "numExperts=0 out=int32[0]": TILING, "out=int32[63]": TILING,
        "sortedExperts=int32[16777216]": TILING,
    }),
    ("aclnnMoeFinalizeRouting", ("expandedX=fp16[128,256] expandedRowIdx=int32[128] "
        "x1=fp16[16,256] bias=fp16[64,256] scales=fp16[16,8] "
        "expandedExpertIdx=int32[16,8] out=fp16[16,256]"), {
        "x1=fp32[16,256]": REFUSED, "scales=fp32[16,8]": REFUSED, "bias=fp16[64,255]": REFUSED,
    }),
    ("aclnnMoeFinalizeRoutingV2", ("expandedX=bf16[128,256] expandedRowIdx=int32[128] "
        "scalesOptional=bf16[16,8] dropPadMode=2 out=bf16[16,256]"), {
        "scalesOptional=fp32[16,8]": 0, "scalesOptional=fp16[16,8]": UNMADE,
        "x2Optional=bf16[16,256]": UNMADE, "out=fp16[16,256]": UNMADE,
    }),
    ("aclnnMoeTokenPermute", ("tokens=bf16[16,128] indices=int32[16,4] numOutTokens=0 "
        "paddedMode=false permuteTokensOut=bf16[64,128] sortedIndicesOut=int32[64]"), {
        "paddedMode=true": TILING, "indices=int32[15,4]": TILING, "indices=int32[16,4,1]": TILING,
        "permuteTokensOut=fp16[64,128]": TILING, "permuteTokensOut=bf16[63,128]": TILING,
        "indices=int32[16] permuteTokensOut=bf16[16,128] sortedIndicesOut=int32[16]": 0,
    }),
    ("aclnnMoeTokenPermuteGrad", ("permutedOutputGrad=bf16[64,128] sortedIndices=int32[64] "
        "numTopk=4 paddedMode=false out=bf16[16,128]"), {
        "paddedMode=true": REFUSED, "numTopk=3": REFUSED, "out=fp16[16,128]": REFUSED,
        "numTopk=0": REFUSED,
    }),
    ("aclnnMoeTokenUnpermute", ("permutedTokens=bf16[64,128] sortedIndices=int32[64] "
        "probsOptional=bf16[16,4] paddedMode=false out=bf16[16,128]"), {
        "paddedMode=true": TILING, "restoreShapeOptional=[16,128]": TILING,
        "sortedIndices=int32[63]": TILING, "out=fp16[16,128]": TILING,
        "permutedTokens=bf16[8208,128] sortedIndices=int32[8208] probsOptional=bf16[16,513]":
        TILING,
    }),
    ("aclnnMoeTokenUnpermuteGrad", ("permutedTokens=bf16[64,128] unpermutedTokensGrad=bf16[16,128] "
        "sortedIndices=int32[64] probsOptional=bf16[16,4] paddedMode=false "
        "permutedTokensGradOut=bf16[64,128] probsGradOut=bf16[16,4]"), {
        "paddedMode=true": REFUSED, "sortedIndices=int32[63]": REFUSED,
        "unpermutedTokensGrad=fp16[16,128]": REFUSED, "probsGradOut=fp32[16,4]": REFUSED,
    }),
    ("aclnnMoeTokenPermuteWithEp", _EP, {
        "paddedMode=true": TILING, "rangeOptional=[0,31]": TILING, "rangeOptional=[32,0]": TILING,
        "rangeOptional=[0,32,64]": TILING, "probsOptional=bf16[16,3]": TILING,
        "indices=int32[15,4]": TILING, "permuteTokensOut=fp16[32,128]": TILING,
        "rangeOptional=null": 0, "probsOptional=null permuteProbsOut=null": 0,
    }),
    ("aclnnMoeTokenPermuteWithEpGrad", ("permutedTokensOutputGrad=bf16[32,128] "
        "sortedIndices=int32[64] permutedProbsOutputGradOptional=bf16[32] numTopk=4 "
        "rangeOptional=[0,32] paddedMode=false tokenGradOut=bf16[16,128] "
        "probsGradOut=bf16[16,4]"), {
        "numTopk=513": REFUSED, "numTopk=3": REFUSED, "paddedMode=true": REFUSED,
        "sortedIndices=int32[63]": REFUSED,
    }),
    ("aclnnMoeTokenUnpermuteWithEp", ("permutedTokens=bf16[32,128] sortedIndices=int32[64] "
        "probsOptional=bf16[16,4] numTopk=4 rangeOptional=[0,32] paddedMode=false "
        "out=bf16[16,128]"), {
        "numTopk=5": REFUSED, "out=bf16[15,128]": REFUSED, "restoreShapeOptional=[16,128]": REFUSED,
    }),
    ("aclnnMoeTokenUnpermuteWithEpGrad", ("unpermutedTokensGrad=bf16[16,128] "
        "sortedIndices=int32[64] permutedTokensOptional=bf16[32,128] probsOptional=bf16[16,4] "
        "paddedMode=false rangeOptional=[0,32] topkNum=4 permutedTokensGradOut=bf16[32,128] "
        "probsGradOut=bf16[16,4]"), {
        "topkNum=513": TILING, "rangeOptional=[32,0]": TILING, "probsGradOut=bf16[16,3]": TILING,
        "permutedTokensGradOut=fp16[32,128]": TILING,
    }),
    ("aclnnMoeTokenPermuteWithRoutingMap", _MAP, {
        "numOutTokens=1025": REFUSED, "numOutTokens=-1": REFUSED, "numOutTokens=80": REFUSED,
        "numOutTokens=79": 0, "dropAndPad=true": 0, "probsOptional=fp32[16,64] "
        "permuteProbsOutOptional=fp32[64]": 0, "probsOptional=fp16[16,64] "
        "permuteProbsOutOptional=fp16[64]": REFUSED, "routingMap=bool[15,64]": REFUSED,
    }),
    ("aclnnMoeTokenPermuteWithRoutingMapGrad", ("permutedTokenOutputGrad=bf16[64,128] "
        "sortedIndices=int32[64] routingMapOptional=bool[16,64] numExperts=64 tokensNum=16 "
        "dropAndPad=false tokensGradOut=bf16[16,128]"), {
        "tokensNum=15": REFUSED, "sortedIndices=int32[63]": REFUSED, "numExperts=63": REFUSED,
        "permutedTokenOutputGrad=bf16[8208,128] sortedIndices=int32[8208]": REFUSED,
        "permutedTokenOutputGrad=bf16[8208,128] sortedIndices=int32[8208] dropAndPad=true": 0,
    }),
    ("aclnnMoeTokenUnpermuteWithRoutingMap", ("permutedTokens=bf16[64,128] sortedIndices=int32[64] "
        "routingMapOptional=bool[16,64] probsOptional=bf16[16,64] paddedMode=false "
        "restoreShapeOptional=[16,128] unpermutedTokens=bf16[16,128] outIndex=int32[64] "
        "permuteTokenId=int32[64] permuteProbs=bf16[64]"), {
        "routingMapOptional=null": REFUSED, "probsOptional=bf16[16,63]": REFUSED,
        "restoreShapeOptional=[16]": REFUSED, "outIndex=int32[63]": REFUSED,
        "permutedTokens=bf16[8208,128] sortedIndices=int32[8208] outIndex=int32[8208] "
        "permuteTokenId=int32[8208] permuteProbs=bf16[8208]": UNMADE,
    }),
    ("aclnnMoeTokenUnpermuteWithRoutingMapGrad", ("unpermutedTokensGrad=bf16[16,128] "
        "outIndex=int32[64] permuteTokenId=int32[64] dropAndPad=false "
        "permutedTokensGradOut=bf16[64,128]"), {
        "probsOptional=bf16[16,64]": TILING, "permuteTokenId=int32[63]": TILING,
        "permutedTokensGradOut=fp16[64,128]": TILING,
    }),
]  # fmt: skip
_CARDS = (
    "groupEp=ep epWorldSize=16 epRankId=0 moeExpertNum=256 tpWorldSize=0 tpRankId=0 "
    "expertShardType=0 sharedExpertNum=0 sharedExpertRankNum=0"
)
_OUT = (
    "x=bf16[8,7168] expertIds=int32[8,8] quantMode=0 globalBs=0 expertTokenNumsType=1 {}=bf16[1024,"
    "7168] {}=int32[131072] {}=int64[16] {}=int32[256]"
)
_FIRST = f"{_CARDS} " + _OUT.format("expandX", "expandIdx", "expertTokenNums", "epRecvCounts")
_LATER = f"{_CARDS} " + _OUT.format(
    "expandXOut", "assistInfoForCombineOut", "expertTokenNumsOut", "epRecvCountsOut"
)
_BACK = (
    f"{_CARDS} expandX=bf16[1024,7168] expertIds=int32[8,8] assistInfoForCombine=int32[131072] "
    "epSendCounts=int32[256] expertScales=fp32[8,8] globalBs=0 outDtype=0 commQuantMode=0 "
    "groupListType=0 xOut=bf16[8,7168]"
)
_BOTH: dict[str, int | None] = {
    "epRankId=16": TILING, "moeExpertNum=250": TILING, "tpWorldSize=2": TILING,
    "expertShardType=1": TILING, "expandX=bf16[1023,7168] expandXOut=bf16[1023,7168]": TILING,
}  # fmt: skip


def _only(changes: dict[str, int | None], names: str) -> dict[str, int | None]:
    """The changes, of the parameters that an interface has."""
    kept = {}
    for change, wanted in changes.items():
        words = [word for word in change.split() if f"{word.split('=')[0]}=" in names]
        kept[" ".join(words)] = wanted
    return kept


ON_A2: list[Case] = [
    ("aclnnMoeDistributeDispatch", _FIRST, {
        **_only(_BOTH, _FIRST), "epWorldSize=8": TILING, "sharedExpertNum=1": TILING,
        "x=bf16[8,7200] expandX=bf16[1024,7200]": TILING, "quantMode=1": TILING,
        "x=bf16[8,7136] expandX=bf16[1024,7136]": 0, "scales=fp32[256,7168]": TILING,
        "quantMode=2 expandX=int8[1024,7168] scales=fp32[256,7168]": 0,
        "quantMode=2 expandX=int8[1024,7168] scales=fp32[255,7168]": TILING,
        "quantMode=2": TILING, "expertTokenNumsType=2": TILING, "expertIds=int32[8,17]": TILING,
        "x=fp32[8,7168]": REFUSED, "globalBs=127": TILING, "globalBs=128": 0,
        "expertTokenNums=int64[15]": TILING, "epRecvCounts=null": NULL,
        "xActiveMask=bool[8]": TILING,
    }),
    ("aclnnMoeDistributeDispatchV2", _LATER, {
        **_only(_BOTH, _LATER), "epWorldSize=8 epRecvCountsOut=int32[256] "
        "expertTokenNumsOut=int64[32]": 0, "epWorldSize=9": TILING,
        "epWorldSize=8 expertTokenNumsOut=int64[32] commAlg=hierarchy": TILING,
        "commAlg=tree": TILING, "xActiveMaskOptional=bool[8]": 0,
        "xActiveMaskOptional=bool[8] commAlg=hierarchy": TILING,
        "x=bf16[8,10240] expandXOut=bf16[1024,10240]": 0,
        "x=bf16[8,10272] expandXOut=bf16[1024,10272]": TILING,
        "assistInfoForCombineOut=int32[131071]": TILING,
    }),
    ("aclnnMoeDistributeDispatchV3",
        f"{_LATER} zeroExpertNum=1 copyExpertNum=0 constExpertNum=0", {
        "zeroExpertNum=-1": TILING, "constExpertNum=1": TILING,
        "elasticInfoOptional=int32[36]": TILING,
    }),
    ("aclnnMoeDistributeCombineV2", _BACK, {
        **_only(_BOTH, _BACK), "expertScales=fp32[8,7]": TILING, "outDtype=1": TILING,
        "commQuantMode=1": TILING, "xOut=fp16[8,7168]": TILING, "xOut=bf16[7,7168]": TILING,
        "sharedExpertXOptional=bf16[8,7168]": TILING,
    }),
]  # fmt: skip
ON_A3: list[Case] = [
    ("aclnnMoeDistributeDispatch", _FIRST, {
        "epWorldSize=8 epRecvCounts=int32[256] expertTokenNums=int64[32]": 0,
        "epWorldSize=9": TILING, "expertIds=int32[8,9] expandX=bf16[1152,7168] "
        "expandIdx=int32[131072]": TILING, "x=bf16[8,4096] expandX=bf16[1024,4096]": TILING,
        "epRecvCounts=int32[255]": TILING,
    }),
    ("aclnnMoeDistributeDispatchV2", _LATER, {
        "x=bf16[8,4096] expandXOut=bf16[1024,4096]": 0, "epWorldSize=769": TILING,
        "x=bf16[8,1000] expandXOut=bf16[1024,1000]": TILING,
        "sharedExpertNum=2": TILING, "sharedExpertNum=1": 0,
        "xActiveMaskOptional=bool[8,8]": 0, "xActiveMaskOptional=bool[7,8]": TILING,
        "moeExpertNum=1024 expertTokenNumsOut=int64[64] epRecvCountsOut=int32[1024]": 0,
    }),
    ("aclnnMoeDistributeCombineV2", _BACK, {
        "expandScalesOptional=fp32[1024]": TILING, "sharedExpertXOptional=bf16[8,7168]": 0,
        "epSendCounts=int32[255]": TILING,
    }),
]  # fmt: skip
ON_310P: list[Case] = [
    ("aclnnMoeInitRoutingV2", _ROUTED.replace("bf16", "fp16"), {
        "x=fp16[16,120]": UNMADE, "dropPadMode=1 expertCapacity=4": UNMADE,
    }),
    ("aclnnMoeGatingTopKSoftmax", ("x=fp16[16,64] k=8 yOut=fp16[16,8] expertIdxOut=int32[16,8] "
        "rowIdxOut=int32[16,8]"), {
        "x=fp16[16,60]": TILING, "x=fp16[16,272]": TILING, "finishedOptional=bool[16]": TILING,
    }),
    ("aclnnMoeFinalizeRoutingV2", ("expandedX=fp16[128,256] expandedRowIdx=int32[128] "
        "scalesOptional=fp16[16,8] dropPadMode=2 out=fp16[16,256]"), {
        "dropPadMode=0": UNMADE, "x1Optional=fp16[16,256]": UNMADE,
        "expandedX=fp16[128,250] out=fp16[16,250]": UNMADE, "scalesOptional=fp32[16,8]": UNMADE,
    }),
]  # fmt: skip
PRODUCTS = [(A2, CASES), (A2, ON_A2), (A3, ON_A3), (INFERENCE, ON_310P)]
ROWS = [(soc, *row) for soc, cases in PRODUCTS for row in changed(cases)]


@pytest.mark.parametrize(("soc", "name", "words", "change", "wanted"), ROWS)
def test_both_sides_of_each_limit(
    soc: str, name: str, words: dict[str, str], change: str, wanted: int | None
) -> None:
    assert code(soc, name, words) == wanted, change


@pytest.mark.parametrize(("name", "call", "_"), ON_A2)
def test_other_products_dont_offer_them(name: str, call: str, _: object) -> None:
    assert code(INFERENCE, name, read(call)) == NO_KERNEL
