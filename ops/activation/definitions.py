"""Activation functions and their gradients."""

from npusim.operators.checks import attribute_in, rank_in, same_dtype, same_shape
from npusim.operators.conditions import coded, on
from npusim.operators.definition import (
    Aclnn,
    Composed,
    Operator,
    family,
    flag,
    page,
    real,
    scalar,
    text,
    whole,
)
from npusim.operators.dtype_checks import convertible, storable
from npusim.operators.number_checks import not_zero
from npusim.operators.results import half_each, like, like_second
from npusim.operators.shape_checks import axes_in, bits_of, broadcast
from npusim.ops.activation.checks import half_of, halved, halves_fill
from npusim.values.status import StatusCode

_ALIKE = ((same_shape, "<", ">"),)
_SLOPE = (real("negativeSlope?", "negative_slope"),)
_ELU = (real("alpha?"), real("scale?"), real("inputScale?", "input_scale"))
_SOFTPLUS = (real("beta?"), real("threshold?"))
_LAMBDA = (real("lambd?"),)
_LIMITS = (real("min", "min_val"), real("max", "max_val"))
_APPROXIMATE = (text("approximate?"),)
_SCALE = (real("scale?"),)
_BETA = (real("betaOptional?", "scale"),)
_EVEN = ((rank_in, range(1, 9), "self"), (axes_in, "dim", "self"), (halved, "dim", "self"))
_TILING = StatusCode.ACLNN_ERR_INNER_TILING_ERROR
_FILLED = (on, ("310P",), (coded, _TILING, (halves_fill, "x", "dim")))
_GELU = ((halved, "dim", "x"), (attribute_in, "approximate", (0, 1)),
    (same_dtype, "x", "y", "gelu"))  # fmt: skip
_PAGES = "hicann/ops-nn activation"
_FROM_RESULT = "output gradOutput -> gradInput"

# fmt: off
OPERATORS = family(
    "activation",
    fused=".elementwise.fusion:fused_kernel",
    checks={
        "forward": _ALIKE,
        "gradients": ((broadcast, ">", "<"),),
        "shrinking": ((broadcast, ">", "<"),),
    },
    forward=(
        Operator("Elu", "x -> y", (*_ELU[:2], real("input_scale?")),
            Aclnn("aclnnElu", attributes=_ELU, in_place=True)),
        Operator("FastGelu", "x -> y", (), Aclnn("aclnnFastGelu")),
        Operator("FastGeluV2", "x -> y", (), Aclnn("aclnnFastGeluV2", "x -> out")),
        Operator("Gelu", "x -> y", (), Aclnn("aclnnGelu"), ("GeLU",)),
        Operator("GeluV2", "x -> y", _APPROXIMATE, Aclnn("aclnnGeluV2", "x -> y", _APPROXIMATE)),
        Operator("HardSigmoid", "input_x -> output_y", (real("alpha?"), real("beta?")),
            (Aclnn("aclnnHardsigmoid"), Aclnn("aclnnInplaceHardsigmoid", "self -> self"))),
        Operator("HardSwish", "x -> y", (),
            (Aclnn("aclnnHardswish"), Aclnn("aclnnInplaceHardswish", "self -> self"))),
        Operator("LeakyRelu", "x -> y", (real("negative_slope?"),),
            Aclnn("aclnnLeakyRelu", attributes=_SLOPE, in_place=True)),
        Operator("Mish", "x -> y", (), Aclnn("aclnnMish", in_place=True)),
        Operator("Relu", "x -> y", (), Aclnn("aclnnRelu", in_place=True), ("ReLU",)),
        Operator("Relu6", "x -> y"),
        Operator("ReluV2", "x -> y mask", checks=((same_shape, "x", "y"),)),
        Operator("Selu", "x -> y", (), Aclnn("aclnnSelu", in_place=True)),
        Operator("Sigmoid", "x -> y", (), Aclnn("aclnnSigmoid", in_place=True,
            rules="hicann/ops-nn activation/sigmoid/docs/aclnnSigmoid&aclnnInplaceSigmoid.md")),
        Operator("Silu"),
        Operator("SoftplusV2", "x -> y", _SOFTPLUS,
            Aclnn("aclnnSoftplus",
                attributes=(scalar("beta", default=1), scalar("threshold", default=20)),
                checks=((convertible, "beta", ("x",)), (convertible, "threshold", ("x",)),
                    (storable, ("x",), ("y",))),
                rules=page("ops-nn activation/softplus_v2", "Softplus"))),
        Operator("Softplus", "x -> y"),
        Operator("Softsign", "x -> y", (), Aclnn("aclnnSoftsign")),
        Operator("Swish", "x -> y", _SCALE,
            (Aclnn("aclnnSilu", checks=((same_dtype, "x", "y"),),
                rules="hicann/ops-nn activation/swish/docs/aclnnSilu.md"),
             Aclnn("aclnnSwish", attributes=_BETA))),
        Operator("Tanh", "x -> y", (), Aclnn("aclnnTanh", in_place=True, floating=True)),
    ),
    gradients=(
        Operator("GeluGrad", "dy x y -> z", (),
            Aclnn("aclnnGeluBackward", "gradOutput self gradOutput -> gradInput"), ("GeLUGrad",)),
        Operator("ReluGrad", "gradients features -> backprops"),
        Operator("SigmoidGrad", "y dy -> z", (), Aclnn("aclnnSigmoidBackward", _FROM_RESULT)),
        Operator("SiluGrad", "dy x -> dx", (),
            Aclnn("aclnnSiluBackward", "gradOutput self -> gradInput")),
        Operator("SwishGrad", "grad x y -> grad_x", _SCALE),
        Operator("TanhGrad", "y dy -> z", (),
            (Aclnn("aclnnTanhBackward", _FROM_RESULT), Aclnn("aclnnTanhGrad", "y dy -> dx"))),
    ),
    shrinking=(
        Operator("CeluV2", "x -> y", (real("alpha?"),),
            Aclnn("aclnnCelu", attributes=(real("alpha"),), in_place=True,
                checks=((not_zero, "alpha"),)), checks=_ALIKE),
        Operator("HardShrink", "input_x -> output_y", _LAMBDA,
            Aclnn("aclnnHardshrink", attributes=(real("lambd"),)), checks=_ALIKE),
        Operator("Heaviside", "input values -> out", (),
            Aclnn("aclnnHeaviside", "input values -> out")),
        Operator("LogSigmoid", "x -> y", (), Aclnn("aclnnLogSigmoid"), checks=_ALIKE),
        Operator("Shrink", "input_x -> output_y", (*_LAMBDA, real("bias?")),
            Aclnn("aclnnShrink", attributes=(real("lambd"), real("bias"))), checks=_ALIKE),
        Operator("SoftShrink", "input_x -> output_y", _LAMBDA,
            Aclnn("aclnnSoftshrink", attributes=(real("lambd"),)), checks=_ALIKE),
        Operator("SquaredRelu", "x -> y", (), Aclnn("aclnnSquaredRelu", "input -> out"),
            checks=_ALIKE),
        Operator("Threshold", "x -> y", (real("threshold?"), real("value?")),
            Aclnn("aclnnThreshold", attributes=(real("threshold"), real("value")), in_place=True),
            checks=_ALIKE),
        Operator("EluGradV2", "grads activations -> y",
            (*_ELU[:2], real("input_scale?"), flag("is_result?")),
            Aclnn("aclnnEluBackward", "gradOutput selfOrResult -> gradInput",
                (real("alpha"), real("scale"), real("inputScale", "input_scale"),
                 flag("isResult", "is_result")))),
        Operator("FastGeluGrad", "dy x -> z", (),
            Aclnn("aclnnFastGeluBackward", "gradOutput self -> gradInput")),
        Operator("GeluGradV2", "dy x -> z", _APPROXIMATE,
            Aclnn("aclnnGeluBackwardV2", "gradOutput self -> gradInput", _APPROXIMATE)),
        Operator("HardShrinkGrad", "gradients features -> backprops", _LAMBDA,
            Aclnn("aclnnHardshrinkBackward", "gradOutput self -> gradInput", (real("lambd"),))),
        Operator("HardSigmoidGrad", "grads input_x -> y", (real("alpha?"), real("beta?")),
            Aclnn("aclnnHardsigmoidBackward", "gradOutput self -> out")),
        Operator("HardSwishGrad", "grad x -> y", (),
            Aclnn("aclnnHardswishBackward", "gradOutput self -> out")),
        Operator("HardSwishGradV2", "grad x -> y", (),
            Aclnn("aclnnHardswishBackwardV2", "gradOutput self -> out")),
        Operator("HardtanhGrad", "result grad -> y", (real("min_val?"), real("max_val?")),
            Aclnn("aclnnHardtanhBackward", "self gradOutput -> out", _LIMITS)),
        Operator("LeakyReluGrad", "gradients features -> backprops", (real("negative_slope?"),),
            Aclnn("aclnnLeakyReluBackward", "gradOutput self -> out",
                (real("negativeSlope", "negative_slope"), flag("selfIsResult", None)))),
        Operator("LogSigmoidGrad", "grads features -> backprops"),
        Operator("PRelu", "x weight -> y", (),
            Aclnn("aclnnPrelu", "self weight -> out", host="host:prelu"), checks=()),
        Operator("MishGrad", "grad x tanhx? -> x_grad", (),
            Aclnn("aclnnMishBackward", "gradOutput self -> gradInput")),
        Operator("SeluGrad", "gradients outputs -> y", (),
            Aclnn("aclnnSeluBackward", "gradOutput result -> gradInput")),
        Operator("SoftShrinkGrad", "input_grad input_x -> output_y", _LAMBDA,
            Aclnn("aclnnSoftshrinkBackward", "gradOutput self -> gradInput",
                (real("lambda", "lambd"),))),
        Operator("SoftplusV2Grad", "input_gradients input_features -> output_backprops", _SOFTPLUS,
            Aclnn("aclnnSoftplusBackward", "gradOutput self -> gradInput",
                (real("beta"), real("threshold")))),
        Operator("ThresholdGradV2D", "gradients features -> backprops", (real("threshold?"),),
            Aclnn("aclnnThresholdBackward", "gradOutput self -> out", (real("threshold"),))),
    ),
    host=(
        Composed("aclnnAddRelu", "self other -> out", (scalar("alpha?"),), "add_relu",
            in_place=True, checks=((broadcast, "out", "self", "other"),)),
        Composed("aclnnGlu", "self -> out", (whole("dim"),), "glu", checks=_EVEN),
        Composed("aclnnGluBackward", "gradOut self -> out", (whole("dim"),), "glu_backward",
            checks=(*_EVEN, (half_of, "gradOut", "dim", "self"), (same_shape, "self", "out"))),
        Composed("aclnnLogSigmoidForward", "self -> out buffer", (), "log_sigmoid_forward"),
        Composed("aclnnLogSigmoidBackward", "gradOutput self buffer -> gradInput", (),
            "log_sigmoid_backward", checks=((same_shape, "gradOutput", "self", "gradInput"),)),
        Composed("aclnnSwishBackward", "gradOutput self -> gradInput",
            (scalar("betaOptional?", "scale"),), "swish_backward",
            checks=((same_shape, "gradOutput", "self", "gradInput"),)),
    ),
    masked=(Operator("ReluGradV2", "gradients mask -> backprops", infer=like,
        checks=((bits_of, "gradients", "mask"),)),),
    gated=(
        Operator("GeGluV2", "x -> y gelu",
            (whole("dim?"), whole("approximate?"), flag("activate_left?")),
            (Aclnn("aclnnGeGlu", "self -> out outGelu",
                (whole("dim"), whole("approximate")), checks=_GELU,
                rules=f"{_PAGES}/ge_glu_v2 (docs)"),
             Aclnn("aclnnGeGluV3", "self -> out outGelu",
                (whole("dim"), whole("approximate"),
                 flag("activateLeft", "activate_left")), checks=_GELU,
                rules=f"{_PAGES}/ge_glu_v2 (docs)")), kernel="ge_glu", infer=half_each(2),
            checks=((axes_in, "dim", "x"),)),
        Operator("SwiGluGrad", "dy x -> dx", (whole("dim?"),),
            Aclnn("aclnnSwiGluGrad", "yGrad x -> out", (whole("dim"),), checks=(
                (halved, "dim", "x"), (half_of, "dy", "dim", "x"), (same_dtype, "x", "dy", "dx"),
                _FILLED)), kernel="swi_glu_grad",
            infer=like_second,
            checks=((axes_in, "dim", "x"), (same_shape, "x", "dx"))),
        Operator("SwiGlu", "x -> y", (whole("dim?"),),
            Aclnn("aclnnSwiGlu", "x -> out", (whole("dim?"),), checks=((halved, "dim", "x"),
                (same_dtype, "x", "y"), _FILLED), rules=f"{_PAGES}/swi_glu (docs, op_host)"),
            kernel="swi_glu",
            infer=half_each(1, even=True),
            checks=((axes_in, "dim", "x"),)),
    ),
)
