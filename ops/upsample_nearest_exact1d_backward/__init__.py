"""aclnnUpsampleNearestExact1dBackward: the gradient of 1-D nearest-exact upsampling."""

PROVIDES = {
    "aclnnUpsampleNearestExact1dBackward": "contract:CONTRACT",
    "UpsampleNearestExact2dGrad": "kernel:UpsampleNearestExact2dGrad",
}
ALIASES = {
    "_upsample_nearest_exact1d_backward": "aclnnUpsampleNearestExact1dBackward",
}
