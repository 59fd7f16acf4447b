"""aclnnMultiScaleDeformableAttentionGrad: the gradients of multi-scale deformable attention."""

from npusim.operators.definition import Operator, Page, family

OPERATORS = family(
    "multi_scale_deformable_attention_grad",
    Page(
        "aclnnMultiScaleDeformableAttentionGrad",
        "contract:CONTRACT",
        ("multi_scale_deformable_attn_backward",),
    ),
    Operator("MultiScaleDeformableAttentionGrad", kernel="kernel"),
)
