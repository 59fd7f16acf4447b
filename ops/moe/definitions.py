"""Routing of mixtures of experts."""

from functools import partial
from typing import Any

from npusim.operators.checks import absent, attribute_at_least, attribute_in, same_dtype
from npusim.operators.conditions import on, unsure
from npusim.operators.definition import (
    Aclnn,
    Operator,
    family,
    flag,
    ints,
    real,
    text,
    whole,
)
from npusim.operators.dtype_checks import together
from npusim.operators.shape_checks import fits
from npusim.ops.moe.checks import (
    experts_chosen,
    experts_counted,
    finalized,
    groups_chosen,
    padded_rows,
    per_token,
    routed,
    routed_in_range,
    rows_of_mode,
    scaled_by_mode,
    shared_out,
)
from npusim.ops.moe.distribute import RULED as DISTRIBUTED
from npusim.ops.moe.results import (
    gated,
    gated_in_groups,
    gated_with_all,
    gated_with_shares,
    routed_later,
    weighed,
)
from npusim.ops.moe.results import routed as routed_results
from npusim.ops.moe.ruled import RULED, chosen_at_most, few_pairs, like_tokens, no_shape
from npusim.values.dtypes import BFLOAT16, FLOAT, FLOAT16, INT8, INT32, INT64, DType

_GIVEN = "expanded_x expanded_row_idx x1? x2? bias? scales? expanded_expert_idx? -> out"
_OPTIONAL = "x1Optional? x2Optional? biasOptional? scalesOptional? expertIdxOptional?"

_ROUTED = (whole("active_num?"), whole("expert_capacity?"), whole("expert_num?"),
    whole("drop_pad_mode?"), whole("expert_tokens_count_or_cumsum_flag?"),
    flag("expert_tokens_before_capacity_flag?"))  # fmt: skip
_ROUTED_CALL = (whole("activeNum", "active_num"), whole("expertCapacity", "expert_capacity"),
    whole("expertNum", "expert_num"), whole("dropPadMode", "drop_pad_mode"),
    whole("expertTokensCountOrCumsumFlag", "expert_tokens_count_or_cumsum_flag"),
    flag("expertTokensBeforeCapacityFlag", "expert_tokens_before_capacity_flag"))  # fmt: skip
_FIRST_CALL = "x rowIdx expertIdx -> expandedXOut expandedRowIdxOut expandedExpertIdxOut"
_TOKENS = (fits, "x", "t h", "expert_idx", "t k")
_IDS = (fits, "x", "t h", "row_idx", "t k", "expert_idx", "t k")


def _rows(op_type: str, kind: DType | None = None) -> dict[str, Any]:
    """What comes out of an operator that routes."""
    return {"infer": partial(routed_results, op_type=op_type, kind=kind)}


# What Atlas inference products ask beside: rows of whole 32 or 16, and one way of routing.
_LITTLE = ("310P",)
_ROWS_OF_32 = (on, _LITTLE, (fits, "x", "t h", {"within": {"h": range(32, 1 << 31, 32)}}))
_ROUTED_RULES = (
    (attribute_in, "expert_tokens_count_or_cumsum_flag", (0, 1, 2)),
    (experts_counted, "expert_tokens_count_or_cumsum_flag", "expert_num", "drop_pad_mode"),
)
_ALIKE = (
    (same_dtype, "expanded_x", "x1", "x2", "bias", "out"),
    (same_dtype, "expanded_x", "scales"),
)
_UNPADDED = ((attribute_in, "padded_mode", (False,)),)
_GATED = (
    (same_dtype, "x", "y"),
    (on, _LITTLE, (fits, "x", "t e", {"within": {"e": range(16, 257, 16)}})),
    (on, _LITTLE, (absent, "finished")),
)
_PAGES = "hicann/ops-transformer moe"

_IN_GROUPS = (
    whole("k"), whole("k_group?"), whole("group_count?"), whole("group_select_mode?"),
    whole("renorm?", only=0), whole("norm_type?"), flag("out_flag?"),
    real("routed_scaling_factor?"), real("eps?"))  # fmt: skip
_IN_GROUPS_CALL = (
    whole("k"), whole("kGroup", "k_group"), whole("groupCount", "group_count"),
    whole("groupSelectMode", "group_select_mode"), whole("renorm", only=0),
    whole("normType", "norm_type"), flag("outFlag", "out_flag"),
    real("routedScalingFactor", "routed_scaling_factor"), real("eps"))  # fmt: skip
# x bias numbers table y experts shares; numbers of tokens and their table are given together.
_HASHED = dict.fromkeys(("A2", "A3"), tuple(
    f"{kind} {kind}/- {told} {kind} INT32 FLOAT"
    for kind in ("FLOAT16", "BFLOAT16", "FLOAT")
    for told in ("INT32/INT64 INT32/INT64", "- -")))  # fmt: skip

_ROOM = (routed, "x", "active_num", "expert_capacity", "expert_num", "drop_pad_mode")
_FEWER = (routed, "x", "active_num")

_PEERS = (text("group_ep?", None), whole("ep_world_size?"), whole("ep_rank_id?"),
    whole("moe_expert_num?"), text("group_tp?", None), whole("tp_world_size?"),
    whole("tp_rank_id?", None), whole("expert_shard_type?", None), whole("shared_expert_num?"),
    whole("shared_expert_rank_num?"), whole("global_bs?"), text("comm_alg?", None),
    *(whole(f"{each}_expert_num?") for each in ("zero", "copy", "const")))  # fmt: skip

# fmt: off
OPERATORS = family(
    "moe",
    ruled=RULED,
    distribute=DISTRIBUTED,
    dispatch=(
        Operator("MoeDistributeDispatchV2", "x expert_ids scales? x_active_mask? expert_scales? "
            "elastic_info? performance_info? -> expand_x dynamic_scales? assist_info_for_combine? "
            "expert_token_nums? ep_recv_count? tp_recv_count? expand_scales?",
            (*_PEERS, whole("quant_mode?"), whole("expert_token_nums_type?")),
            also=("MoeDistributeDispatch",), kernel="moe_distribute_dispatch",
            checks=((fits, "x", "t h", "expert_ids", "t k", "expand_x", "a h"),)),
    ),
    combine=(
        Operator("MoeDistributeCombineV2", "expand_x expert_ids assist_info_for_combine "
            "ep_send_counts expert_scales tp_send_counts? x_active_mask? activation_scale? "
            "weight_scale? group_list? expand_scales? shared_expert_x? elastic_info? ori_x? "
            "const_expert_alpha_1? const_expert_alpha_2? const_expert_v? performance_info? -> x",
            (*_PEERS, whole("comm_quant_mode?"), whole("out_dtype?", None),
             whole("group_list_type?", None)),
            also=("MoeDistributeCombine",), kernel="moe_distribute_combine",
            checks=((fits, "expand_x", "a h", "expert_ids", "t k", "expert_scales", "t k",
                "shared_expert_x", "t h", "x", "t h"),)),
    ),
    gating=(
        Operator("MoeGatingTopKSoftmax", "x finished? -> y expert_idx row_idx", (whole("k"),),
            Aclnn("aclnnMoeGatingTopKSoftmax",
                "x finishedOptional? -> yOut expertIdxOut rowIdxOut", (whole("k"),),
                checks=_GATED, rules=f"{_PAGES}/moe_gating_top_k_softmax (docs)"),
            kernel="moe_gating_top_k_softmax", infer=gated,
            checks=((fits, "x", "*rows e", "finished", "*rows", "y", "*rows k", "expert_idx",
                "*rows k", "row_idx", "*rows k"), (experts_chosen, "x", "y", "k"))),
        Operator("MoeGatingTopKSoftmaxV2", "x finished? -> y expert_idx softmax_result?",
            (whole("k"), whole("renorm?"), flag("output_softmax_result_flag?")),
            Aclnn("aclnnMoeGatingTopKSoftmaxV2",
                "x finishedOptional? -> yOut expertIdxOut softmaxResultOutOptional?",
                (whole("k"), whole("renorm"),
                 flag("outputSoftmaxResultFlag", "output_softmax_result_flag")),
                checks=_GATED[:1], rules=f"{_PAGES}/moe_gating_top_k_softmax_v2 (docs)"),
            kernel="moe_gating_top_k_softmax_v2", infer=gated_with_shares,
            checks=((fits, "x", "*rows e", "finished", "*rows", "y", "*rows k", "expert_idx",
                "*rows k", "softmax_result", "*rows e"), (experts_chosen, "x", "y", "k"),
                (attribute_in, "renorm", (0, 1)))),
    ),
    group_gating=(
        Operator("MoeGatingTopK", "x bias? -> y expert_idx out?",
            _IN_GROUPS,
            Aclnn("aclnnMoeGatingTopK", "x biasOptional? -> yOut expertIdxOut outOut?",
                _IN_GROUPS_CALL,
                checks=((same_dtype, "x", "bias", "y"), (groups_chosen, "x"))),
            kernel="moe_gating_top_k", infer=gated_in_groups,
            checks=((fits, "x", "rows e", "bias", "e", "y", "rows k", "expert_idx", "rows k",
                "out", "rows e"), (experts_chosen, "x", "y", "k"))),
        Operator("MoeGatingTopKHash", "x bias? input_ids? tid2eid? -> y expert_idx out",
            _IN_GROUPS,
            Aclnn("aclnnMoeGatingTopKHash",
                "x biasOptional? inputIdsOptional? tid2eidOptional? -> yOut expertIdxOut outOut",
                _IN_GROUPS_CALL, checks=((groups_chosen, "x", {"hashed": True}),),
                rules="vllm-ascend csrc/moe/moe_gating_top_k_hash (definition, host tiling)"),
            kernel="moe_gating_top_k_hash", infer=gated_with_all,
            checks=((fits, "x", "rows e", "bias", "e", "y", "rows k", "expert_idx", "rows k",
                "out", "rows e"), (experts_chosen, "x", "y", "k"),
                (together, "x", "bias", "input_ids", "tid2eid", "y", "expert_idx", "out",
                    {"rows": _HASHED}), (unsure, (fits, "input_ids", "*rows", "x", "*rows e")),
                (unsure, (fits, "tid2eid", "*words k", "y", "rows k"))),
            dtypes=dict.fromkeys(("A2", "A3"), (FLOAT16, BFLOAT16, FLOAT, INT32, INT64))),
    ),
    routing_calls=(
        Operator("MoeInitRoutingV2", "x expert_idx -> expanded_x expanded_row_idx "
            "expert_tokens_count_or_cumsum? expert_tokens_before_capacity?", _ROUTED,
            Aclnn("aclnnMoeInitRoutingV2", "x expertIdx -> expandedXOut expandedRowIdxOut "
                "expertTokensCountOrCumsumOut? expertTokensBeforeCapacityOut?", _ROUTED_CALL,
                checks=(*_ROUTED_RULES, (same_dtype, "x", "expanded_x"), _ROWS_OF_32,
                    (on, _LITTLE, (attribute_in, "drop_pad_mode", (0,)))),
                rules=f"{_PAGES}/moe_init_routing_v2 (docs)"),
            kernel="moe_init_routing_v2", **_rows("MoeInitRoutingV2"), checks=(_TOKENS, _ROOM)),
        Operator("MoeInitRouting", "x row_idx expert_idx -> "
            "expanded_x expanded_row_idx expanded_expert_idx", (whole("active_num?"),),
            Aclnn("aclnnMoeInitRouting", _FIRST_CALL, (whole("activeNum", "active_num"),),
                checks=((same_dtype, "x", "expanded_x"),),
                rules=f"{_PAGES}/moe_init_routing (docs)"),
            kernel="moe_init_routing", **_rows("MoeInitRouting"), checks=(_IDS, _FEWER)),
        Operator("MoeInitRoutingQuant", "x row_idx expert_idx -> "
            "expanded_x expanded_row_idx expanded_expert_idx",
            (whole("active_num?"), real("scale?"), real("offset?")),
            Aclnn("aclnnMoeInitRoutingQuant", _FIRST_CALL,
                (whole("activeNum", "active_num"), real("scale"), real("offset")),
                rules=f"{_PAGES}/moe_init_routing_quant (docs)"),
            kernel="moe_init_routing_quant", **_rows("MoeInitRoutingQuant", INT8),
            checks=(_IDS, _FEWER)),
        Operator("MoeInitRoutingQuantV2", "x expert_idx scale? offset? -> expanded_x "
            "expanded_row_idx expert_tokens_count_or_cumsum? expert_tokens_before_capacity? "
            "dynamic_quant_scale?", (*_ROUTED, whole("quant_mode?")),
            Aclnn("aclnnMoeInitRoutingQuantV2", "x expertIdx scaleOptional? offsetOptional? -> "
                "expandedXOut expandedRowIdxOut expertTokensCountOrCumsumOutOptional? "
                "expertTokensBeforeCapacityOutOptional? dynamicQuantScaleOutOptional?",
                (*_ROUTED_CALL, whole("quantMode", "quant_mode")),
                checks=(*_ROUTED_RULES, (scaled_by_mode, "x", "scale", "offset", "expanded_x")),
                rules=f"{_PAGES}/moe_init_routing_quant_v2 (docs)"),
            kernel="moe_init_routing_quant_v2", **_rows("MoeInitRoutingQuantV2", INT8),
            checks=(_TOKENS, (attribute_in, "quant_mode", (0, 1)), _ROOM)),
        Operator("MoeInitRoutingV3", "x expert_idx scale? offset? -> expanded_x expanded_row_idx "
            "expert_tokens_count_or_cumsum? expanded_scale?", (whole("active_num?"),
            whole("expert_capacity?", None), whole("expert_num?"), whole("drop_pad_mode?"),
            whole("expert_tokens_num_type?"), flag("expert_tokens_num_flag?"),
            whole("quant_mode?"), ints("active_expert_range?"), whole("row_idx_type?")),
            Aclnn("aclnnMoeInitRoutingV3", "x expertIdx scaleOptional? offsetOptional? -> "
                "expandedXOut expandedRowIdxOut expertTokensCountOrCumsumOut? expandedScaleOut?",
                (whole("activeNum", "active_num"), whole("expertCapacity", None),
                 *_ROUTED_CALL[2:4], whole("expertTokensNumType", "expert_tokens_num_type"),
                 flag("expertTokensNumFlag", "expert_tokens_num_flag"),
                 whole("quantMode", "quant_mode"),
                 ints("activeExpertRangeOptional?", "active_expert_range"),
                 whole("rowIdxType", "row_idx_type")),
                checks=((routed_in_range, "x", "expert_idx", "scale"),)),
            kernel="moe_init_routing_v3", infer=routed_later, checks=(_TOKENS,)),
        Operator("MoeTokenPermute", "tokens indices -> permuted_tokens sorted_indices",
            (whole("num_out_tokens?"), flag("padded_mode?")),
            Aclnn("aclnnMoeTokenPermute",
                "tokens indices -> permuteTokensOut sortedIndicesOut",
                (whole("numOutTokens", "num_out_tokens"), flag("paddedMode", "padded_mode")),
                checks=(*_UNPADDED, (same_dtype, "tokens", "permuted_tokens"),
                    (few_pairs, "indices")), rules=f"{_PAGES}/moe_token_permute (docs)"),
            kernel="moe_token_permute", **_rows("MoeTokenPermute"),
            checks=((fits, "tokens", "t h", "indices", "t *k"),)),
    ),
    re_routing=(
        Operator("MoeReRouting",
            "tokens expert_token_num_per_rank per_token_scales? -> permute_tokens "
            "permute_per_token_scales permute_token_idx expert_token_num",
            (whole("expert_token_num_type?", only=1), whole("idx_type?", only=0)),
            kernel="moe_re_routing",
            checks=((fits, "tokens", "t h", "expert_token_num_per_rank", "r e",
                "per_token_scales", "t", "permute_tokens", "t h", "permute_per_token_scales", "t",
                "permute_token_idx", "t", "expert_token_num", "e"),)),
    ),
    routing_grad=(
        Operator("MoeInitRoutingV2Grad", "grad_expanded_x expanded_row_idx -> grad_x",
            (whole("top_k"), whole("drop_pad_mode?"), whole("active_num?")),
            Aclnn("aclnnMoeInitRoutingV2Grad", "gradExpandedX expandedRowIdx -> out",
                (whole("topK", "top_k"), whole("dropPadMode", "drop_pad_mode"),
                 whole("activeNum", "active_num"))),
            kernel="moe_init_routing_v2_grad", checks=((attribute_in, "drop_pad_mode", (0, 1)),
                (attribute_at_least, "active_num", 0),
                (rows_of_mode, "grad_expanded_x", "expanded_row_idx", "drop_pad_mode",
                    "active_num"),
                (fits, "grad_expanded_x", "*p h", "grad_x", "t h"),
                (shared_out, "expanded_row_idx", "grad_x", "top_k"))),
    ),
    gradients=(
        Operator("MoeTokenUnpermuteGrad", "permuted_tokens unpermuted_tokens_grad sorted_indices "
            "probs? -> permuted_tokens_grad probs_grad?",
            (flag("padded_mode?"), ints("restore_shape?", None)),
            Aclnn("aclnnMoeTokenUnpermuteGrad",
                "permutedTokens unpermutedTokensGrad sortedIndices probsOptional? -> "
                "permutedTokensGradOut probsGradOut?",
                (flag("paddedMode", "padded_mode"), ints("restoreShapeOptional?", None)),
                checks=(*_UNPADDED, (no_shape, "restoreShapeOptional"), (same_dtype,
                    "permuted_tokens", "unpermuted_tokens_grad", "permuted_tokens_grad"),
                    (same_dtype, "probs", "probs_grad"), (chosen_at_most, "sorted_indices",
                    "unpermuted_tokens_grad")),
                rules=f"{_PAGES}/moe_token_unpermute_grad (docs)"),
            kernel="moe_token_unpermute_grad", infer=weighed, checks=((fits,
                "unpermuted_tokens_grad", "t h", "probs", "t k", "permuted_tokens", "p h",
                "permuted_tokens_grad", "p h", "probs_grad", "t k"), (per_token, "sorted_indices",
                "unpermuted_tokens_grad", "probs"))),
        Operator("MoeFinalizeRoutingV2Grad", "grad_y expanded_row_idx expanded_x? scales? "
            "expert_idx? bias? -> grad_expanded_x grad_scales?",
            (whole("drop_pad_mode?"), whole("active_num?"), whole("expert_num?"),
             whole("expert_capacity?")),
            Aclnn("aclnnMoeFinalizeRoutingV2Grad",
                "gradY expandedRowIdx expandedXOptional? scalesOptional? expertIdxOptional? "
                "biasOptional? -> gradExpandedXOut gradScalesOut?",
                (whole("dropPadMode", "drop_pad_mode"), whole("activeNum", "active_num"),
                 whole("expertNum", "expert_num"), whole("expertCapacity", "expert_capacity"))),
            kernel="moe_finalize_routing_v2_grad", checks=((attribute_in, "drop_pad_mode", (0, 1)),
                (fits, "grad_y", "t h", "scales", "t k", "expert_idx", "t k", "bias", "e h",
                "grad_scales", "t k"),
                (per_token, "expanded_row_idx", "grad_y", "scales"))),
    ),
    finalize=(
        Operator("MoeTokenPermuteGrad", "permuted_output_grad sorted_indices -> input_grad",
            (whole("num_topk?"), flag("padded_mode?")),
            Aclnn("aclnnMoeTokenPermuteGrad", "permutedOutputGrad sortedIndices -> out",
                (whole("numTopk", "num_topk"), flag("paddedMode", "padded_mode")),
                checks=(*_UNPADDED, (attribute_in, "num_topk", range(1, 513)),
                    (same_dtype, "permuted_output_grad", "input_grad")),
                rules=f"{_PAGES}/moe_token_permute_grad (docs)"),
            kernel="moe_token_permute_grad", checks=((fits, "permuted_output_grad", "p h",
                "input_grad", "t h"), (shared_out, "sorted_indices", "input_grad", "num_topk"))),
        Operator("MoeTokenUnpermute", "permuted_tokens sorted_indices probs? -> "
            "unpermuted_tokens", (flag("padded_mode?"), ints("restore_shape?", None)),
            Aclnn("aclnnMoeTokenUnpermute", "permutedTokens sortedIndices probsOptional? -> out",
                (flag("paddedMode", "padded_mode"), ints("restoreShapeOptional?", None)),
                checks=(*_UNPADDED, (no_shape, "restoreShapeOptional"), (same_dtype,
                    "permuted_tokens", "unpermuted_tokens"), (chosen_at_most, "sorted_indices",
                    "unpermuted_tokens"), (fits, "probs", "t k", "unpermuted_tokens", "t *h",
                    "sorted_indices", "t*k")), rules=f"{_PAGES}/moe_token_unpermute (docs)"),
            kernel="moe_token_unpermute", checks=((fits, "permuted_tokens", "p h",
                "sorted_indices", "i", "probs", "t k", "unpermuted_tokens", "t h"),)),
        Operator("MoeFinalizeRoutingV2", _GIVEN, (whole("drop_pad_mode?"),),
            (Aclnn("aclnnMoeFinalizeRouting", "expandedX expandedRowIdx x1 x2Optional? bias "
                "scales expandedExpertIdx -> out", (), checks=_ALIKE,
                rules=f"{_PAGES}/moe_finalize_routing (docs)"),
             Aclnn("aclnnMoeFinalizeRoutingV2", f"expandedX expandedRowIdx {_OPTIONAL} -> out",
                (whole("dropPadMode", "drop_pad_mode"),),
                checks=((padded_rows, "expanded_x", "drop_pad_mode"), _ALIKE[0],
                    (like_tokens, "expanded_x", "scales"),
                    *((on, _LITTLE, (absent, name)) for name in
                      ("x1", "x2", "bias", "expanded_expert_idx")),
                    (on, _LITTLE, (attribute_in, "drop_pad_mode", (2,))),
                    (on, _LITTLE, (same_dtype, "expanded_x", "scales")),
                    (on, _LITTLE, (fits, "expanded_x", "*p h",
                        {"within": {"h": range(32, 1 << 31, 32)}}))),
                rules=f"{_PAGES}/moe_finalize_routing_v2 (docs)")),
            also=("MoeFinalizeRouting",), kernel="moe_finalize_routing",
            checks=((finalized, "expanded_x", "expanded_row_idx", "x1", "x2", "bias", "scales",
                "expanded_expert_idx", "out"),)),
    ),
)
