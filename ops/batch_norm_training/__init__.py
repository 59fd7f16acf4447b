"""The two halves of batch normalisation's gradient, on tensors in NC1HWC0."""

PROVIDES = {
    "BNTrainingUpdateGrad": "kernel:BNTrainingUpdateGrad",
    "BNTrainingReduceGrad": "kernel:BNTrainingReduceGrad",
}
ALIASES: dict[str, str] = {}
