"""Losses: element by element, of rows against labels, and their gradients."""

from npusim.operators.checks import attribute_at_least
from npusim.operators.definition import Aclnn, Operator, family, real, text, whole
from npusim.operators.shape_checks import broadcast, fits

_UNREDUCED = (whole("reduction", only=0),)
_SIGMA = (real("sigma?"),)
_SMOOTH = (*_UNREDUCED, real("beta", "sigma"))

# fmt: off
OPERATORS = family(
    "loss",
    checks={"kernel": ((broadcast, ">", "<"), (attribute_at_least, "sigma", 0))},
    kernel=(
        Operator("BinaryCrossEntropy", "x y weight? -> output", (),
            Aclnn("aclnnBinaryCrossEntropy", "self target weight? -> out", _UNREDUCED)),
        Operator("L1LossGrad", "grads predict label -> y", (),
            Aclnn("aclnnL1LossBackward", "gradOutput self target -> gradInput", _UNREDUCED)),
        Operator("MseLoss", "predict label -> y", (),
            Aclnn("aclnnMseLoss", "self target -> out", _UNREDUCED)),
        Operator("MseLossGrad", "predict label dout -> y", (),
            Aclnn("aclnnMseLossBackward", "self target gradOutput -> out", _UNREDUCED)),
        Operator("SigmoidCrossEntropyWithLogits", "predict target -> loss"),
        Operator("SigmoidCrossEntropyWithLogitsGrad", "predict target dout -> gradient"),
        Operator("SmoothL1LossV2", "predict label -> loss", _SIGMA,
            Aclnn("aclnnSmoothL1Loss", "self target -> result", _SMOOTH), ("SmoothL1Loss",)),
        Operator("SmoothL1LossGradV2", "predict label dout -> gradient", _SIGMA,
            Aclnn("aclnnSmoothL1LossBackward", "self target gradOut -> gradInput", _SMOOTH),
            ("SmoothL1LossGrad",)),
    ),
    likelihood=(
        Operator("CrossEntropyLoss", "input target weight? -> loss",
            (text("reduction?"), whole("ignore_index?")), kernel="cross_entropy",
            checks=((fits, "input", "n c *d", "target", "n *d", "weight", "c"),)),
        Operator("NLLLoss", "x target weight -> y total_weight",
            (text("reduction?"), whole("ignore_index?")),
            Aclnn("aclnnNLLLoss", "self target weight -> out totalWeightOut",
                (whole("reduction"), whole("ignoreIndex", "ignore_index"))),
            checks=((fits, "x", "n c", "target", "n", "weight", "c"),)),
    ),
    rows=(
        Operator("SoftmaxCrossEntropyWithLogits", "features labels -> loss backprop", (),
            Aclnn("aclnnSoftmaxCrossEntropyWithLogits", "features labels -> loss backprop"),
            checks=((fits, "features", "n c", "labels", "n c", "loss", "n", "backprop", "n c"),)),
    ),
)
