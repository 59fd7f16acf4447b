"""aclnnBinaryCrossEntropyBackward: the gradient of the binary cross entropy."""
