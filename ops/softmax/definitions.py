"""Softmax and its logarithm along an axis, and their gradients."""

from npusim.operators.checks import same_shape
from npusim.operators.definition import Aclnn, Operator, family, flag, ints, whole
from npusim.operators.results import like
from npusim.operators.shape_checks import axes_in, one_element

_AXES = (ints("axes?"),)
_DIM = (whole("dim", "axes"),)
_ALONG = ((axes_in, "axes", "<"), (axes_in, "axis", "<"))

# fmt: off
OPERATORS = family(
    "softmax",
    checks={"kernel": (*_ALONG, (same_shape, "<", ">"))},
    kernel=(
        Operator("SoftmaxV2", "x -> y", _AXES, Aclnn("aclnnSoftmax", attributes=_DIM,
                rules="hicann/ops-nn activation/softmax_v2/docs/aclnnSoftmax.md"),
            infer=like, kernel="Softmax"),
        Operator("Softmax"),
        Operator("LogSoftmaxV2", "logits -> logsoftmax", _AXES,
            Aclnn("aclnnLogSoftmax", attributes=_DIM,
                rules="hicann/ops-nn activation/log_softmax_v2/docs/aclnnLogSoftmax.md"),
            infer=like, kernel="LogSoftmax"),
        Operator("LogSoftmax"),
        Operator("SoftmaxGrad", "softmax grad_softmax -> grad_x", _AXES,
            (Aclnn("aclnnSoftmaxBackward", "output gradOutput -> out", _DIM),
             Aclnn("aclnnSoftmaxGrad", "y dy -> dx")), infer=like),
        Operator("LogSoftmaxGrad", "grad x -> y", (ints("axis?"),),
            Aclnn("aclnnLogSoftmaxBackward", "gradOutput output -> out", (whole("dim", "axis"),)),
            infer=like),
        Operator("SoftmaxGradExt", "grad x1 x2 -> y", (*_AXES, flag("keep_dims?")),
            checks=(*_ALONG, (same_shape, "grad", "x1", "y"), (one_element, "x2"))),
    ),
)
