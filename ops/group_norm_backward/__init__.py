"""aclnnGroupNormBackward: the gradients of group normalisation."""

PROVIDES = {
    "aclnnGroupNormBackward": "contract:CONTRACT",
    "GroupNormGrad": "kernel:GroupNormGrad",
}
ALIASES = {
    "native_group_norm_backward": "aclnnGroupNormBackward",
}
