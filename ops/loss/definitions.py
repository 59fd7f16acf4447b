"""Losses that are computed element by element, and their gradients."""

from npusim.operators.definition import Aclnn, Operator, family, real, whole

_UNREDUCED = (whole("reduction", only=0),)
_SIGMA = (real("sigma?"),)

OPERATORS = family(
    "loss",
    Operator(
        "BinaryCrossEntropy",
        "x y weight? -> output",
        "kernel",
        aclnn=Aclnn("aclnnBinaryCrossEntropy", "self target weight? -> out", _UNREDUCED),
    ),
    Operator("L1LossGrad", "grads predict label -> y", "kernel"),
    Operator(
        "MseLoss",
        "predict label -> y",
        "kernel",
        aclnn=Aclnn("aclnnMseLoss", "self target -> out", _UNREDUCED),
    ),
    Operator("MseLossGrad", "predict label dout -> y", "kernel"),
    Operator("SigmoidCrossEntropyWithLogits", "predict target -> loss", "kernel"),
    Operator("SigmoidCrossEntropyWithLogitsGrad", "predict target dout -> gradient", "kernel"),
    Operator("SmoothL1Loss", "predict label -> loss", "kernel", _SIGMA, also=("SmoothL1LossV2",)),
    Operator(
        "SmoothL1LossGrad",
        "predict label dout -> gradient",
        "kernel",
        _SIGMA,
        also=("SmoothL1LossGradV2",),
    ),
)
