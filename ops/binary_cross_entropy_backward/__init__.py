"""aclnnBinaryCrossEntropyBackward: the gradient of the binary cross entropy."""

PROVIDES = {
    "aclnnBinaryCrossEntropyBackward": "contract:CONTRACT",
    "BinaryCrossEntropyGrad": "kernel:BinaryCrossEntropyGrad",
}
ALIASES = {
    "binary_cross_entropy_backward": "aclnnBinaryCrossEntropyBackward",
}
