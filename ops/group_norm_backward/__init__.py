"""aclnnGroupNormBackward: the gradients of group normalisation."""

PROVIDES = {
    "aclnnGroupNormBackward": "contract:CONTRACT",
}
ALIASES = {
    "native_group_norm_backward": "aclnnGroupNormBackward",
}
