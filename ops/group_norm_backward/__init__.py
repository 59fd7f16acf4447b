"""aclnnGroupNormBackward: the gradients of group normalisation."""
