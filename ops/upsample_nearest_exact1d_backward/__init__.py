"""aclnnUpsampleNearestExact1dBackward: the gradient of 1-D nearest-exact upsampling."""
