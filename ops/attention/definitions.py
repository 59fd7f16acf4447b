"""Attention, fused: for training, for prompts, and token by token."""

from npusim.operators.definition import Aclnn, Attribute, Operator, family, ints, real, text, whole
from npusim.ops.attention.checks import fits_together
from npusim.ops.attention.results import forward

_TENSORS = "query key value real_shift? drop_mask? padding_mask? atten_mask?"
_CALLED = ("query key value realShiftOptional? dropMaskOptional? paddingMaskOptional? "
           "attenMaskOptional?")  # fmt: skip
_RESULTS = "softmax_max softmax_sum softmax_out attention_out"
_CALLED_RESULTS = "softmaxMaxOut softmaxSumOut softmaxOutOut attentionOutOut"
_HEADS = (whole("head_num"), text("input_layout"))
_SPARSE = (whole("inner_precise?", None), whole("sparse_mode?"))


def _called(*more: Attribute, last: tuple[Attribute, ...] = ()) -> tuple[Attribute, ...]:
    """Attributes of the aclnn interfaces, in their order."""
    return (
        ints("prefixOptional?", "prefix"), *more,
        real("scaleValue?", "scale_value"), real("keepProb?", "keep_prob"),
        whole("preTokens?", "pre_tockens"), whole("nextTokens?", "next_tockens"),
        whole("headNum", "head_num"), text("inputLayout", "input_layout"),
        whole("innerPrecise?", None), whole("sparseMode?", "sparse_mode"), *last,
    )  # fmt: skip


_LENGTHS = (ints("actualSeqQLenOptional?", "actual_seq_qlen"),
            ints("actualSeqKvLenOptional?", "actual_seq_kvlen"))  # fmt: skip
_STARTS = (ints("qStartIdxOptional?", None), ints("kvStartIdxOptional?", None))
_PSE = (whole("pseType?", "pse_type"),)
_OWN = (
    real("scale_value?"), real("keep_prob?"), whole("pre_tockens?"), whole("next_tockens?"),
    *_HEADS, *_SPARSE, whole("pse_type?"), ints("prefix?"), ints("actual_seq_qlen?"),
    ints("actual_seq_kvlen?"),
)  # fmt: skip

_CHECKS = (fits_together, tuple(_TENSORS.replace("?", "").split()), tuple(_RESULTS.split()),
           *(each.name for each in _OWN),
           {"read": "training_call", "own": tuple(each.name for each in _OWN)})  # fmt: skip

# fmt: off
OPERATORS = family(
    "attention",
    records=(
        Operator("FlashAttentionScore", f"{_TENSORS} -> {_RESULTS}", _OWN, (
            Aclnn("aclnnFlashAttentionScore", f"{_CALLED} -> {_CALLED_RESULTS}",
                _called()),
            Aclnn("aclnnFlashAttentionScoreV2", f"{_CALLED} -> {_CALLED_RESULTS}",
                _called(*_STARTS, last=_PSE)),
            Aclnn("aclnnFlashAttentionVarLenScore", f"{_CALLED} -> {_CALLED_RESULTS}",
                _called(*_LENGTHS)),
        ), kernel="flash_attention_score", infer=forward,
            checks=(_CHECKS,)),
    ),
)
