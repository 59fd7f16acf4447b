"""aclnnUpsampleNearestExact1dBackward: the gradient of 1-D nearest-exact upsampling."""

PROVIDES = {
    "aclnnUpsampleNearestExact1dBackward": "contract:CONTRACT",
}
ALIASES = {
    "_upsample_nearest_exact1d_backward": "aclnnUpsampleNearestExact1dBackward",
}
