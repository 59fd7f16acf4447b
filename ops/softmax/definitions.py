"""Softmax and its logarithm along an axis, and their gradients."""

from npusim.operators.definition import Aclnn, Operator, family, flag, ints, whole

_AXES = (ints("axes?"),)
_DIM = (whole("dim", "axes"),)

OPERATORS = family(
    "softmax",
    Operator(
        "SoftmaxV2", "x -> y", "kernel:Softmax", _AXES, Aclnn("aclnnSoftmax", attributes=_DIM)
    ),
    Operator("Softmax", kernel="kernel"),
    Operator(
        "LogSoftmaxV2",
        "logits -> logsoftmax",
        "kernel:LogSoftmax",
        _AXES,
        Aclnn("aclnnLogSoftmax", attributes=_DIM),
    ),
    Operator("LogSoftmax", kernel="kernel"),
    Operator(
        "SoftmaxGrad",
        "softmax grad_softmax -> grad_x",
        "kernel",
        _AXES,
        (
            Aclnn("aclnnSoftmaxBackward", "output gradOutput -> out", _DIM),
            Aclnn("aclnnSoftmaxGrad", "y dy -> dx"),
        ),
    ),
    Operator(
        "LogSoftmaxGrad",
        "grad x -> y",
        "kernel",
        (ints("axis?"),),
        Aclnn("aclnnLogSoftmaxBackward", "gradOutput output -> out", (whole("dim", "axis"),)),
    ),
    Operator("SoftmaxGradExt", "grad x1 x2 -> y", "kernel", (*_AXES, flag("keep_dims?"))),
)
