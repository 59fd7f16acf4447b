"""aclnnMultiScaleDeformableAttentionGrad: the gradients of multi-scale deformable attention."""
