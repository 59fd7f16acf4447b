"""aclnnMultiScaleDeformableAttentionGrad: the gradients of multi-scale deformable attention."""

from npusim.operators.definition import Operator, Page, family

# fmt: off
OPERATORS = family(
    "multi_scale_deformable_attention_grad",
    Page("aclnnMultiScaleDeformableAttentionGrad", "contract:CONTRACT",
        ("multi_scale_deformable_attn_backward",)),
    kernel=(Operator("MultiScaleDeformableAttentionGrad"),),
)
