"""Softmax and its logarithm along an axis, and their gradients."""

PROVIDES = {
    "Softmax": "kernel:Softmax",
    "SoftmaxV2": "kernel:Softmax",
    "LogSoftmax": "kernel:LogSoftmax",
    "LogSoftmaxV2": "kernel:LogSoftmax",
    "SoftmaxGrad": "kernel:SoftmaxGrad",
    "LogSoftmaxGrad": "kernel:LogSoftmaxGrad",
    "SoftmaxGradExt": "kernel:SoftmaxGradExt",
}
ALIASES: dict[str, str] = {}
