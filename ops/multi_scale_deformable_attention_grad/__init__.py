"""aclnnMultiScaleDeformableAttentionGrad: the gradients of multi-scale deformable attention."""

PROVIDES = {
    "aclnnMultiScaleDeformableAttentionGrad": "contract:CONTRACT",
}
ALIASES = {
    "multi_scale_deformable_attn_backward": "aclnnMultiScaleDeformableAttentionGrad",
}
