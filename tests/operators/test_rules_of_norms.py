"""Rules of normalisations on both sides of each limit. Source: hicann/ops-nn norm/*/docs."""

from __future__ import annotations

import pytest

from support.both_sides import A2, INFERENCE, NULL, REFUSED, TILING, Case, changed, code

_ROOT = "x=fp16[4,8,64] gamma=fp16[64] epsilon=1e-6 yOut=fp16[4,8,64] rstdOut=fp32[4,8,1]"
_SUM = (
    "x1=fp16[4,8,64] x2=fp16[4,8,64] gamma=fp16[64] epsilon=1e-6 yOut=fp16[4,8,64] "
    "rstdOut=fp32[4,8,1] xOut=fp16[4,8,64]"
)
_LAYER = (
    "input=fp16[4,8,64] normalizedShape=[64] weightOptional=fp16[64] biasOptional=fp16[64] "
    "eps=1e-5 out=fp16[4,8,64]"
)
_GRADIENT = (
    "gradOut=fp16[4,8,64] input=fp16[4,8,64] normalizedShape=[64] mean=fp32[4,8,1] "
    "rstd=fp32[4,8,1] weightOptional=fp16[64] biasOptional=fp16[64] outputMask=[true,true,true] "
    "gradInputOut=fp16[4,8,64] gradWeightOut=fp16[64] gradBiasOut=fp16[64]"
)
_ADDED = (
    "x1=fp16[4,8,64] x2=fp16[4,8,64] gamma=fp16[64] beta=fp16[64] epsilon=1e-5 "
    "additionalOutput=true yOut=fp16[4,8,64] meanOut=fp32[4,8,1] rstdOut=fp32[4,8,1] "
    "xOut=fp16[4,8,64]"
)
_GROUPS = (
    "self=fp16[2,32,16] gamma=fp16[32] beta=fp16[32] N=2 C=32 HxW=16 group=8 eps=1e-5 "
    "out=fp16[2,32,16] meanOut=fp16[2,8] rstdOut=fp16[2,8]"
)
CASES: list[Case] = [
    ("aclnnRmsNorm", _ROOT, {
        "gamma=fp16[8,64] rstdOut=fp32[4,1,1]": 0, "gamma=fp16[63]": TILING,
        # As many numbers with other axes: the page has one shape, and the tiling doesn't ask.
        "rstdOut=fp32[4,8]": None, "rstdOut=fp32[4,7,1]": TILING, "rstdOut=fp16[4,8,1]": REFUSED,
    }),
    ("aclnnRmsNormGrad", ("dy=fp16[4,8,64] x=fp16[4,8,64] rstd=fp32[4,8] gamma=fp16[64] "
        "dxOut=fp16[4,8,64] dgammaOut=fp32[64]"), {
        "gamma=fp32[64]": 0, "gamma=bf16[64]": TILING, "dy=fp32[4,8,64]": TILING,
        "dgammaOut=fp16[64]": REFUSED, "rstd=fp32[4,7]": TILING,
    }),
    ("aclnnAddRmsNorm", _SUM, {
        "rstdOut=null": 0, "rstdOut=null gamma=fp16[1,64]": 0, "rstdOut=null xOut=null": 0,
        "xOut=null": NULL, "x2=fp16[4,8,63]": REFUSED,
        "gamma=fp32[64]": REFUSED, "epsilon=-1.0": REFUSED, "rstdOut=fp32[4,8]": None,
    }),
    ("aclnnAddRmsNormBias", _SUM, {
        "betaOptional=fp16[64]": 0, "gamma=fp16[8,64] rstdOut=fp32[4,1,1]": 0,
        "betaOptional=bf16[64]": REFUSED, "betaOptional=fp16[1,64]": REFUSED,
        "x2=fp16[4,8,63]": REFUSED, "gamma=fp16[63]": REFUSED, "epsilon=-1.0": REFUSED,
        "rstdOut=fp32[4,8]": REFUSED, "rstdOut=fp16[4,8,1]": REFUSED, "rstdOut=null": NULL,
        "xOut=null": NULL, "x1=fp16[0,8,64] x2=fp16[0,8,64] yOut=fp16[0,8,64] "
        "xOut=fp16[0,8,64] rstdOut=fp32[0,8,1]": REFUSED,
    }),
    ("aclnnAddRmsNormCast", (_SUM.replace("yOut=", "y2Out=") + " y1Out=fp32[4,8,64]"), {
        "y2Out=bf16[4,8,64]": TILING, "x2=bf16[4,8,64]": TILING, "y1Out=fp32[4,8,63]": TILING,
    }),
    ("aclnnInplaceAddRmsNorm", ("x1Ref=fp16[4,64] x2Ref=fp16[4,64] gamma=fp16[64] epsilon=1e-6 "
        "rstdOut=fp32[4,1]"), {
        "x2Ref=fp32[4,64]": REFUSED, "gamma=fp32[64]": REFUSED, "x2Ref=fp16[4,63]": REFUSED,
        "gamma=fp16[0] x1Ref=fp16[4,0] x2Ref=fp16[4,0]": REFUSED,
    }),
    ("aclnnLayerNorm", _LAYER, {
        "weightOptional=fp32[64] biasOptional=fp32[64]": 0, "biasOptional=fp32[64]": REFUSED,
        "weightOptional=bf16[64] biasOptional=bf16[64]": REFUSED, "out=fp32[4,8,64]": REFUSED,
        "normalizedShape=[8,64]": REFUSED, "normalizedShape=[63]": REFUSED,
        "biasOptional=null": 0, "weightOptional=null biasOptional=null": 0,
        "weightOptional=fp16[8,64]": REFUSED,
    }),
    ("aclnnLayerNormWithImplMode", f"{_LAYER} implMode=0", {
        "implMode=2": 0, "implMode=3": REFUSED,
        "implMode=2 input=fp32[4,8,64] out=fp32[4,8,64] weightOptional=null biasOptional=null":
        REFUSED,
    }),
    ("aclnnLayerNormBackward", _GRADIENT, {
        "gradOut=fp32[4,8,64]": REFUSED, "mean=fp16[4,8,1]": REFUSED, "mean=fp32[4,7,1]": REFUSED,
        "weightOptional=fp16[63]": REFUSED, "normalizedShape=[63]": REFUSED,
        "biasOptional=fp32[64]": REFUSED, "gradWeightOut=fp32[64]": REFUSED,
        "gradInputOut=fp16[4,8,63]": REFUSED,
    }),
    ("aclnnAddLayerNorm", _ADDED, {
        "gamma=fp32[64] beta=fp32[64]": 0, "gamma=fp32[64]": TILING, "xOut=fp32[4,8,64]": TILING,
        "x2=fp32[4,8,64]": TILING, "meanOut=fp32[4,8]": TILING, "rstdOut=fp32[4,1,1]": TILING,
        "beta=fp16[63]": TILING,
    }),
    ("aclnnDeepNorm", ("x=fp16[4,8,64] gx=fp16[4,8,64] beta=fp16[64] gamma=fp16[64] alpha=0.3 "
        "epsilon=1e-6 meanOut=fp32[4,8,1] rstdOut=fp32[4,8,1] yOut=fp16[4,8,64]"), {
        "gx=fp32[4,8,64]": REFUSED, "gamma=fp32[64]": REFUSED, "meanOut=fp32[4,8]": REFUSED,
        "yOut=fp32[4,8,64]": REFUSED,
    }),
    ("aclnnGroupNorm", _GROUPS, {
        "N=3": REFUSED, "C=16": REFUSED, "HxW=17": REFUSED, "group=7": REFUSED, "group=0": REFUSED,
        "eps=0.0": REFUSED, "gamma=fp32[32]": REFUSED, "meanOut=fp16[15]": REFUSED,
        "meanOut=fp32[2,8]": REFUSED, "gamma=fp16[31]": REFUSED, "out=fp16[2,32,15]": REFUSED,
    }),
    ("aclnnGroupNormSiluV2", _GROUPS.replace("N=2 C=32 HxW=16 ", "") + " activateSilu=true", {
        "eps=0.0": REFUSED, "gamma=fp32[32] beta=fp32[32]": 0, "gamma=fp32[32]": REFUSED,
        "group=7": REFUSED, "meanOut=fp16[2,7]": REFUSED,
    }),
]  # fmt: skip
ON_310P: list[Case] = [
    ("aclnnRmsNorm", _ROOT, {
        "x=fp16[4,8,15] gamma=fp16[15] yOut=fp16[4,8,15]": TILING, "gamma=fp32[64]": TILING,
        "x=fp16[4,8,16] gamma=fp16[16] yOut=fp16[4,8,16]": 0,
    }),
    ("aclnnAddLayerNorm", _ADDED, {
        "gamma=fp32[64] beta=fp32[64]": TILING,
        "x1=fp16[4,8,8] x2=fp16[4,8,8] gamma=fp16[8] beta=fp16[8] yOut=fp16[4,8,8] "
        "xOut=fp16[4,8,8]": TILING,
    }),
]  # fmt: skip
ROWS = [(soc, *row) for soc, cases in ((A2, CASES), (INFERENCE, ON_310P)) for row in changed(cases)]


@pytest.mark.parametrize(("soc", "name", "words", "change", "wanted"), ROWS)
def test_both_sides_of_each_limit(
    soc: str, name: str, words: dict[str, str], change: str, wanted: int | None
) -> None:
    assert code(soc, name, words) == wanted, change
