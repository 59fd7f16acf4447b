"""aclnnMultiScaleDeformableAttentionGrad: the gradients of multi-scale deformable attention."""

PROVIDES = {
    "aclnnMultiScaleDeformableAttentionGrad": "contract:CONTRACT",
    "MultiScaleDeformableAttentionGrad": "kernel:MultiScaleDeformableAttentionGrad",
}
ALIASES = {
    "multi_scale_deformable_attn_backward": "aclnnMultiScaleDeformableAttentionGrad",
}
