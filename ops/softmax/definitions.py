"""Softmax and its logarithm along an axis, and their gradients."""

from npusim.operators.definition import Aclnn, Operator, family, flag, ints, whole

_AXES = (ints("axes?"),)
_DIM = (whole("dim", "axes"),)

# fmt: off
OPERATORS = family(
    "softmax",
    kernel=(
        Operator("SoftmaxV2", "x -> y", _AXES, Aclnn("aclnnSoftmax", attributes=_DIM),
            kernel="Softmax"),
        Operator("Softmax"),
        Operator("LogSoftmaxV2", "logits -> logsoftmax", _AXES,
            Aclnn("aclnnLogSoftmax", attributes=_DIM), kernel="LogSoftmax"),
        Operator("LogSoftmax"),
        Operator("SoftmaxGrad", "softmax grad_softmax -> grad_x", _AXES,
            (Aclnn("aclnnSoftmaxBackward", "output gradOutput -> out", _DIM),
             Aclnn("aclnnSoftmaxGrad", "y dy -> dx"))),
        Operator("LogSoftmaxGrad", "grad x -> y", (ints("axis?"),),
            Aclnn("aclnnLogSoftmaxBackward", "gradOutput output -> out", (whole("dim", "axis"),))),
        Operator("SoftmaxGradExt", "grad x1 x2 -> y", (*_AXES, flag("keep_dims?"))),
    ),
)
