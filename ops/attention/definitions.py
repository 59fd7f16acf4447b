"""Attention, fused: for training, for prompts, and token by token."""

from npusim.operators.checks import attribute_in
from npusim.operators.definition import (
    Aclnn,
    Attribute,
    Operator,
    family,
    flag,
    ints,
    real,
    text,
    whole,
)
from npusim.operators.results import like
from npusim.ops.attention.checks import fits_together, packed, suits_one_core
from npusim.ops.attention.gradient_limits import GRADIENT
from npusim.ops.attention.gradient_limits import HOST as GRADIENT_HOST
from npusim.ops.attention.inference_limits import INFERENCE
from npusim.ops.attention.limits import launched, rows
from npusim.ops.attention.results import (
    backward,
    best_keys,
    forward,
    inference,
    merged,
    prompt,
)
from npusim.ops.attention.sparse_limits import INDEXER, SPARSE
from npusim.ops.attention.training_limits import HOST, TRAINING
from npusim.ops.attention.training_ropes import ROPES
from npusim.ops.attention.update import parts_fit

_TENSORS = "query key value real_shift? drop_mask? padding_mask? atten_mask?"
_UNSAID = " -" * 8  # lengths and starts, which attributes tell, and scales
_TURNED = f"{_TENSORS}{_UNSAID} query_rope? key_rope?"
_CALLED = ("query key value realShiftOptional? dropMaskOptional? paddingMaskOptional? "
           "attenMaskOptional?")  # fmt: skip
_RESULTS = "softmax_max softmax_sum softmax_out attention_out"
_CALLED_RESULTS = "softmaxMaxOut softmaxSumOut softmaxOutOut? attentionOutOut"
_ASKED_FORWARD = f"{_CALLED} -> {_CALLED_RESULTS}"
_DOCS = "hicann/ops-transformer attention"
_HEADS = (whole("head_num"), text("input_layout"))
_SPARSE = (whole("inner_precise?", None), whole("sparse_mode?"))


def _trained(name: str, tensors: str, attributes: tuple[Attribute, ...], host: str = "") -> Aclnn:
    """An interface for training, every rule of whose page is checked."""
    folder = f"flash_attention_score{'_grad' * ('Grad' in name)}"
    rules = f"{_DOCS}/{folder}/docs/aclnn{name}.md"
    return Aclnn(f"aclnn{name}", tensors, attributes, host=host, rules=rules)


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
_PACKED = (*_LENGTHS, *_STARTS)
_OUT_LAYOUT, _IN_LAYOUT = (
    (text(f"softmax{side}Layout?", f"softmax_{side.lower()}_layout"),) for side in ("Out", "In")
)
_OWN: tuple[Attribute, ...] = (
    real("scale_value?"), real("keep_prob?"), whole("pre_tockens?"), whole("next_tockens?"),
    *_HEADS, *_SPARSE, whole("pse_type?"), ints("prefix?"), ints("actual_seq_qlen?"),
    ints("actual_seq_kvlen?"),
)  # fmt: skip
_FORWARD, _BACKWARD = (
    (*_OWN, text(name)) for name in ("softmax_out_layout?", "softmax_in_layout?")
)


_QUANTISED = ("dequant_scale1? quant_scale1? dequant_scale2? quant_scale2? quant_offset2?",
              "dequantScale1? quantScale1? dequantScale2? quantScale2? quantOffset2?")  # fmt: skip
_QUERIES = ints("actualSeqLengths?", "actual_seq_lengths")
_KEYS = ints("actualSeqLengthsKv?", "actual_seq_lengths_kv")
_SHARED = whole("numKeyValueHeads?", "num_key_value_heads")
_NUMBER = (whole("numHeads", "num_heads"), real("scaleValue?", "scale_value"))
_TOKENS = (whole("preTokens?", "pre_tokens"), whole("nextTokens?", "next_tokens"))
_LAYOUT = text("inputLayout?", "input_layout")
_PRECISE = whole("innerPrecise?", None)
_PROMPT = "query key value pseShift? attenMask?"
_PAGED = f"{_QUANTISED[1]} antiquantScale? antiquantOffset? blocktable?"
_BLOCKS = (whole("blockSize?", None), _PRECISE)
_FUSED_SAID = (
    *_NUMBER, *_TOKENS, _LAYOUT, _SHARED, whole("sparseMode?", "sparse_mode"), _PRECISE,
    whole("blockSize?", None), whole("antiquantMode?", None), flag("softmaxLseFlag?", None),
)  # fmt: skip
_INFERENCE = (
    whole("num_heads"), real("scale_value?"), whole("pre_tokens?"), whole("next_tokens?"),
    text("input_layout?"), whole("num_key_value_heads?"), whole("sparse_mode?"),
    whole("inner_precise?", None), whole("block_size?", None), ints("actual_seq_lengths?"),
    ints("actual_seq_lengths_kv?"), whole("softmax_lse_flag?", only=0),
)  # fmt: skip
_FUSED = ("query key* value* pse_shift? atten_mask? "
          f"{_QUANTISED[0]} antiquant_scale? antiquant_offset? block_table?")  # fmt: skip
_ASKED = "query key value pse_shift atten_mask"
_FUSED_CALL = (
    "query key* value* pseShiftOptional? attenMaskOptional? deqScale1Optional? "
    "quantScale1Optional? deqScale2Optional? quantScale2Optional? quantOffset2Optional? "
    "antiquantScaleOptional? antiquantOffsetOptional? blockTableOptional? "
    "queryPaddingSizeOptional? kvPaddingSizeOptional? keyAntiquantScaleOptional? "
    "keyAntiquantOffsetOptional? valueAntiquantScaleOptional? valueAntiquantOffsetOptional? "
    "keySharedPrefixOptional? valueSharedPrefixOptional?"
)  # fmt: skip
_FUSED_OWN = (
    f"{_FUSED} query_padding_size? kv_padding_size? key_antiquant_scale? key_antiquant_offset? "
    "value_antiquant_scale? value_antiquant_offset? key_shared_prefix? value_shared_prefix? "
    "query_rope? key_rope? key_rope_antiquant_scale? dequant_scale_query? learnable_sink?"
)
_FUSED_DOCS = f"{_DOCS}/fused_infer_attention_score/docs"
_FUSED_LENGTHS = (
    ints("actualSeqLengthsOptional?", "actual_seq_lengths"),
    ints("actualSeqLengthsKvOptional?", "actual_seq_lengths_kv"),
    ints("actualSharedPrefixLenOptional?", None),
)


def _fits(
    read: str, tensors: str, results: str, own: tuple[Attribute, ...], check: object = fits_together
) -> tuple[object, ...]:
    """The check that a call is what records read it as."""
    names = tuple(each.name for each in own)
    given = tuple(name.rstrip("?*-") for name in tensors.split())
    return (check, given, tuple(results.split()), *names, {"read": read, "own": " ".join(names)})


_GRAD = ("query key value dy pse_shift? drop_mask? padding_mask? atten_mask? softmax_max? "
         "softmax_sum? softmax_in? attention_in? sink_in? query_rope? key_rope?")  # fmt: skip
_GRAD_CALL = ("query keyIn value dy pseShiftOptional? dropMaskOptional? paddingMaskOptional? "
              "attenMaskOptional? softmaxMaxOptional? softmaxSumOptional? softmaxInOptional? "
              "attentionInOptional?")  # fmt: skip
_GRADIENTS = "dqOut dkOut dvOut dpseOut?"

# fmt: off
OPERATORS = family(
    "attention",
    records=(
        Operator("FlashAttentionScore", f"{_TURNED} sink? -> {_RESULTS}", _FORWARD, (
            _trained("FlashAttentionScore", _ASKED_FORWARD,
                _called()),
            _trained("FlashAttentionScoreV2", _ASKED_FORWARD,
                _called(*_STARTS, last=_PSE)),
            _trained("FlashAttentionVarLenScore", _ASKED_FORWARD,
                _called(*_LENGTHS)),
            _trained("FlashAttentionScoreV3",
                f"{_CALLED}{_UNSAID} - - sinkOptional? -> {_CALLED_RESULTS}",
                _called(*_STARTS, last=_PSE)),
            _trained("FlashAttentionVarLenScoreV2", _ASKED_FORWARD,
                _called(*_PACKED, last=_PSE)),
            _trained("FlashAttentionVarLenScoreV3",
                f"{_CALLED}{_UNSAID} queryRope keyRope -> {_CALLED_RESULTS}",
                _called(*_PACKED, last=_PSE)),
            _trained("FlashAttentionVarLenScoreV4", _ASKED_FORWARD,
                _called(*_LENGTHS, last=_OUT_LAYOUT)),
            _trained("FlashAttentionVarLenScoreV5",
                f"{_CALLED}{_UNSAID} queryRope? keyRope? sinkOptional? -> {_CALLED_RESULTS}",
                _called(*_PACKED, last=(*_PSE, *_OUT_LAYOUT))),
        ), kernel="flash_attention_score", infer=forward,
            checks=((packed, "input_layout"), *rows(HOST),
                *rows(ROPES), *rows(TRAINING),
                _fits("training_call", _TURNED, _RESULTS, _FORWARD))),
        Operator("FlashAttentionScoreGrad", f"{_GRAD} -> dq dk dv dpse? dsink? dq_rope? dk_rope?",
            _BACKWARD, (
            _trained("FlashAttentionScoreGrad", f"{_GRAD_CALL} -> {_GRADIENTS}", _called()),
            _trained("FlashAttentionScoreGradV2", f"{_GRAD_CALL} -> {_GRADIENTS}",
                _called(*_STARTS, last=_PSE)),
            _trained("FlashAttentionUnpaddingScoreGrad", f"{_GRAD_CALL} -> {_GRADIENTS}",
                _called(*_LENGTHS)),
            _trained("FlashAttentionScoreGradV3",
                f"{_GRAD_CALL} sinkInOptional? -> {_GRADIENTS} dsinkOut?",
                _called(*_STARTS, last=_PSE)),
            _trained("FlashAttentionUnpaddingScoreGradV2", f"{_GRAD_CALL} -> {_GRADIENTS}",
                _called(*_PACKED, last=_PSE)),
            _trained("FlashAttentionUnpaddingScoreGradV4", f"{_GRAD_CALL} -> {_GRADIENTS}",
                _called(*_LENGTHS, last=_IN_LAYOUT), host="records:unpadding_gradient"),
            _trained("FlashAttentionUnpaddingScoreGradV3",
                f"{_GRAD_CALL} - queryRope keyInRope -> dqOut dkOut dvOut dpseOut? - "
                "dqRopeOut dkRopeOut", _called(*_PACKED, last=_PSE)),
            _trained("FlashAttentionUnpaddingScoreGradV5",
                f"{_GRAD_CALL} sinkInOptional? queryRope? keyInRope? -> {_GRADIENTS} dsinkOut? "
                "dqRopeOut? dkRopeOut?", _called(*_PACKED, last=(*_PSE, *_IN_LAYOUT)),
                host="records:unpadding_gradient"),
        ), kernel="flash_attention_score_grad", infer=backward,
            checks=((packed, "input_layout"), *rows(HOST),
                (attribute_in, "softmax_in_layout", ("", "same_as_input")), *rows(GRADIENT_HOST),
                *rows(ROPES), *rows(TRAINING), *rows(GRADIENT),
                _fits("backward_call", _GRAD, "dq dk dv", _BACKWARD))),
    ),
    sparse=(
        Operator("SparseFlashAttention", "query key value? sparse_indices block_table? "
            "actual_seq_lengths_query? actual_seq_lengths_kv? query_rope? key_rope? sinks? -> "
            "attention_out softmax_max? softmax_sum?",
            (real("scale_value"), whole("sparse_block_size?"), text("layout_query?"),
             text("layout_kv?"), whole("sparse_mode?"), whole("pre_tokens?"),
             whole("next_tokens?"), whole("attention_mode?"), flag("return_softmax_lse?")),
            Aclnn("aclnnSparseFlashAttention", "query key value? sparseIndices "
                "blockTableOptional? actualSeqLengthsQueryOptional? actualSeqLengthsKvOptional? "
                "queryRopeOptional? keyRopeOptional? -> attentionOut softmaxMax? softmaxSum?",
                (real("scaleValue", "scale_value"),
                 whole("sparseBlockSizeOptional", "sparse_block_size"),
                 text("layoutQueryOptional", "layout_query"),
                 text("layoutKvOptional", "layout_kv"), whole("sparseMode", "sparse_mode"),
                 whole("preTokens", "pre_tokens"), whole("nextTokens", "next_tokens"),
                 whole("attentionMode", "attention_mode"),
                 flag("returnSoftmaxLse", "return_softmax_lse")),
                checks=SPARSE, rules=f"{_DOCS}/sparse_flash_attention (docs, op_host)"),
            kernel="sparse_flash_attention", infer=like, checks=()),
    ),
    indexer=(
        Operator("LightningIndexer", "query key weights actual_seq_lengths_query? "
            "actual_seq_lengths_key? block_table? -> sparse_indices sparse_values?",
            (text("layout_query?"), text("layout_key?"), whole("sparse_count?"),
             whole("sparse_mode?"), whole("pre_tokens?"), whole("next_tokens?"),
             flag("return_value?")),
            Aclnn("aclnnLightningIndexer", "query key weights actualSeqLengthsQueryOptional? "
                "actualSeqLengthsKeyOptional? blockTableOptional? -> sparseIndicesOut "
                "sparseValuesOut?",
                (text("layoutQueryOptional", "layout_query"),
                 text("layoutKeyOptional", "layout_key"), whole("sparseCount", "sparse_count"),
                 whole("sparseMode", "sparse_mode"), whole("preTokens", "pre_tokens"),
                 whole("nextTokens", "next_tokens"), flag("returnValues", "return_value")),
                checks=INDEXER, rules=f"{_DOCS}/lightning_indexer (docs, op_host)"),
            kernel="lightning_indexer", infer=best_keys, checks=()),
    ),
    update=(
        Operator("AttentionUpdate", "lse* local_out* -> out lse_out?",
            (whole("update_type"), whole("sp?", None)),
            Aclnn("aclnnAttentionUpdate", "lse* localOut* -> out lseOut?",
                (whole("updateType", "update_type"),),
                checks=((parts_fit, "lse", "local_out", "out", "lse_out", "update_type"),)),
            kernel="attention_update", infer=merged, checks=()),
    ),
    inference=(
        Operator("PromptFlashAttention",
            f"query key value pse_shift? atten_mask? {_QUANTISED[0]} -> attention_out", _INFERENCE,
            (Aclnn("aclnnPromptFlashAttention", f"{_PROMPT} -> attentionOut",
                (_QUERIES, *_NUMBER, *_TOKENS, _LAYOUT, _SHARED)),
             *(Aclnn(name, f"{_PROMPT} deqScale1? quantScale1? deqScale2? quantScale2? "
                "quantOffset2? -> attentionOut", (_QUERIES, _KEYS, *_NUMBER, *_TOKENS, _LAYOUT,
                 _SHARED, whole("sparseMode?", "sparse_mode"), *more))
               for name, more in (("aclnnPromptFlashAttentionV2", ()),
                                  ("aclnnPromptFlashAttentionV3", (_PRECISE,))))),
            kernel="prompt_flash_attention", infer=prompt,
            checks=(*rows(launched(INFERENCE)),
                _fits("prompt_call", _ASKED, "attention_out", _INFERENCE, suits_one_core))),
        Operator("IncreFlashAttention", f"{_FUSED} kv_padding_size? -> attention_out", _INFERENCE,
            tuple(Aclnn(name, f"query key* value* pseShift? attenMask? {more} -> attentionOut",
                (ints("actualSeqLengths?", "actual_seq_lengths_kv"), *_NUMBER, _LAYOUT, _SHARED,
                 *blocks))
              for name, more, blocks in (
                  ("aclnnIncreFlashAttention", "", ()),
                  ("aclnnIncreFlashAttentionV2", _QUANTISED[1], ()),
                  ("aclnnIncreFlashAttentionV3", _PAGED, _BLOCKS),
                  ("aclnnIncreFlashAttentionV4", f"{_PAGED} kvPaddingSize?", _BLOCKS))),
            also=("PaddleGqaIncreFlashAttentionAiv",),
            kernel="fused_infer_attention_score", infer=prompt,
            checks=(*rows(INFERENCE),
                _fits("fused_call", _ASKED, "attention_out", _INFERENCE, suits_one_core))),
        Operator("FusedInferAttentionScore", f"{_FUSED_OWN} -> attention_out softmax_lse",
            _INFERENCE,
            (Aclnn("aclnnFusedInferAttentionScore", "query key* value* pseShift? attenMask? "
                "deqScale1? quantScale1? deqScale2? quantScale2? quantOffset2? antiquantScale? "
                "antiquantOffset? blockTable? queryPaddingSize? kvPaddingSize? -> "
                "attentionOut softmaxLse?", (_QUERIES, _KEYS, *_FUSED_SAID)),
             Aclnn("aclnnFusedInferAttentionScoreV2",
                f"{_FUSED_CALL} -> attentionOut softmaxLse?",
                (*_FUSED_LENGTHS, *_FUSED_SAID,
                 whole("keyAntiquantMode?", None), whole("valueAntiquantMode?", None)),
                rules=f"{_FUSED_DOCS}/aclnnFusedInferAttentionScoreV2.md"),
             *(Aclnn(name, f"{_FUSED_CALL} queryRopeOptional? keyRopeOptional? "
                f"keyRopeAntiquantScaleOptional?{more} -> attentionOut softmaxLse?",
                (*_FUSED_LENGTHS, *_FUSED_SAID, whole("keyAntiquantMode?", None),
                 whole("valueAntiquantMode?", None), *mode), rules=rules)
               for name, more, mode, rules in (
                   ("aclnnFusedInferAttentionScoreV3", "", (),
                    f"{_FUSED_DOCS}/aclnnFusedInferAttentionScoreV3.md"),
                   ("aclnnFusedInferAttentionScoreV4",
                    " dequantScaleQueryOptional? learnableSinkOptional?",
                    (whole("queryQuantMode?", None),), "")))),
            kernel="fused_infer_attention_score", infer=inference, checks=rows(INFERENCE)),
        Operator("GQA", "query key value -> out", (), also=("MHA", "FlashAttention"),
            kernel="shared_heads", infer=prompt),
        Operator("MLA", "query query_rope key key_rope value -> out", (), kernel="latent"),
    ),
)
