"""Losses that are computed element by element, and their gradients."""

from npusim.operators.definition import Aclnn, Operator, family, real, whole

_UNREDUCED = (whole("reduction", only=0),)
_SIGMA = (real("sigma?"),)
_SMOOTH = (*_UNREDUCED, real("beta", "sigma"))

OPERATORS = family(
    "loss",
    Operator(
        "BinaryCrossEntropy",
        "x y weight? -> output",
        "kernel",
        aclnn=Aclnn("aclnnBinaryCrossEntropy", "self target weight? -> out", _UNREDUCED),
    ),
    Operator(
        "L1LossGrad",
        "grads predict label -> y",
        "kernel",
        aclnn=Aclnn("aclnnL1LossBackward", "gradOutput self target -> gradInput", _UNREDUCED),
    ),
    Operator(
        "MseLoss",
        "predict label -> y",
        "kernel",
        aclnn=Aclnn("aclnnMseLoss", "self target -> out", _UNREDUCED),
    ),
    Operator(
        "MseLossGrad",
        "predict label dout -> y",
        "kernel",
        aclnn=Aclnn("aclnnMseLossBackward", "self target gradOutput -> out", _UNREDUCED),
    ),
    Operator("SigmoidCrossEntropyWithLogits", "predict target -> loss", "kernel"),
    Operator("SigmoidCrossEntropyWithLogitsGrad", "predict target dout -> gradient", "kernel"),
    Operator(
        "SmoothL1LossV2",
        "predict label -> loss",
        "kernel",
        _SIGMA,
        Aclnn("aclnnSmoothL1Loss", "self target -> result", _SMOOTH),
        also=("SmoothL1Loss",),
    ),
    Operator(
        "SmoothL1LossGradV2",
        "predict label dout -> gradient",
        "kernel",
        _SIGMA,
        Aclnn("aclnnSmoothL1LossBackward", "self target gradOut -> gradInput", _SMOOTH),
        also=("SmoothL1LossGrad",),
    ),
)
