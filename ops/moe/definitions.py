"""Routing of mixtures of experts."""

from npusim.operators.definition import Aclnn, Operator, family, whole
from npusim.operators.shape_checks import fits
from npusim.ops.moe.checks import experts_chosen, finalized
from npusim.ops.moe.results import gated

_GIVEN = "expanded_x expanded_row_idx x1? x2? bias? scales? expanded_expert_idx? -> out"
_OPTIONAL = "x1Optional? x2Optional? biasOptional? scalesOptional? expertIdxOptional?"

# fmt: off
OPERATORS = family(
    "moe",
    gating=(
        Operator("MoeGatingTopKSoftmax", "x finished? -> y expert_idx row_idx", (whole("k"),),
            Aclnn("aclnnMoeGatingTopKSoftmax",
                "x finishedOptional? -> yOut expertIdxOut rowIdxOut", (whole("k"),)),
            kernel="moe_gating_top_k_softmax", infer=gated,
            checks=((fits, "x", "*rows e", "finished", "*rows", "y", "*rows k", "expert_idx",
                "*rows k", "row_idx", "*rows k"), (experts_chosen, "x", "y", "k"))),
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
    finalize=(
        Operator("MoeFinalizeRoutingV2", _GIVEN, (whole("drop_pad_mode?"),),
            Aclnn("aclnnMoeFinalizeRoutingV2", f"expandedX expandedRowIdx {_OPTIONAL} -> out",
                (whole("dropPadMode", "drop_pad_mode"),)),
            also=("MoeFinalizeRouting",), kernel="moe_finalize_routing",
            checks=((finalized, "expanded_x", "expanded_row_idx", "x1", "x2", "bias", "scales",
                "expanded_expert_idx", "out"),)),
    ),
)
