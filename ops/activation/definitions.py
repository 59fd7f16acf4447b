"""Activation functions and their gradients."""

from npusim.operators.checks import same_shape
from npusim.operators.definition import Aclnn, Operator, family, flag, real, text, whole
from npusim.operators.results import like, like_second
from npusim.operators.shape_checks import axes_in, bits_of, broadcast

_SLOPE = (real("negativeSlope?", "negative_slope"),)
_ELU = (real("alpha?"), real("scale?", only=1.0), real("inputScale?", only=1.0))
_SOFTPLUS = (real("beta?", only=1.0), real("threshold?", only=20.0))
_APPROXIMATE = (text("approximate?"),)
_SCALE = (real("scale?"),)
_BETA = (real("betaOptional?", "scale"),)
_FROM_RESULT = "output gradOutput -> gradInput"

# fmt: off
OPERATORS = family(
    "activation",
    fused=".elementwise.fusion:fused_kernel",
    checks={"forward": ((same_shape, "<", ">"),), "gradients": ((broadcast, ">", "<"),)},
    forward=(
        Operator("Elu", "x -> y", _ELU[:2], Aclnn("aclnnElu", attributes=_ELU, in_place=True)),
        Operator("FastGelu", "x -> y", (), Aclnn("aclnnFastGelu")),
        Operator("FastGeluV2", "x -> y", (), Aclnn("aclnnFastGeluV2", "x -> out"),
            kernel="FastGelu"),
        Operator("Gelu", "x -> y", (), Aclnn("aclnnGelu"), ("GeLU",)),
        Operator("GeluV2", "x -> y", _APPROXIMATE, Aclnn("aclnnGeluV2", "x -> y", _APPROXIMATE)),
        Operator("HardSigmoid", "input_x -> output_y", (real("alpha?"), real("beta?")),
            Aclnn("aclnnHardsigmoid")),
        Operator("HardSwish", "x -> y", (), Aclnn("aclnnHardswish")),
        Operator("LeakyRelu", "x -> y", (real("negative_slope?"),),
            Aclnn("aclnnLeakyRelu", attributes=_SLOPE, in_place=True)),
        Operator("Mish", "x -> y", (), Aclnn("aclnnMish", in_place=True)),
        Operator("Relu", "x -> y", (), Aclnn("aclnnRelu", in_place=True), ("ReLU",)),
        Operator("Relu6", "x -> y"),
        Operator("ReluV2", "x -> y mask", checks=((same_shape, "x", "y"),)),
        Operator("Selu", "x -> y", (), Aclnn("aclnnSelu", in_place=True)),
        Operator("Sigmoid", "x -> y", (), Aclnn("aclnnSigmoid", in_place=True)),
        Operator("Silu"),
        Operator("SoftplusV2", "x -> y", _SOFTPLUS, Aclnn("aclnnSoftplus", attributes=_SOFTPLUS)),
        Operator("Softplus", "x -> y"),
        Operator("Softsign", "x -> y", (), Aclnn("aclnnSoftsign")),
        Operator("Swish", "x -> y", _SCALE,
            (Aclnn("aclnnSilu"), Aclnn("aclnnSwish", attributes=_BETA))),
        Operator("Tanh", "x -> y", (), Aclnn("aclnnTanh", in_place=True)),
    ),
    gradients=(
        Operator("EluGradV2", "grads activations -> y", _ELU[:2]),
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
    masked=(Operator("ReluGradV2", "gradients mask -> backprops", infer=like,
        checks=((bits_of, "gradients", "mask"),)),),
    gated=(
        Operator("GeGluV2", "x -> y gelu",
            (whole("dim?"), whole("approximate?", only=1), flag("activate_left?")),
            (Aclnn("aclnnGeGlu", "self -> out outGelu",
                (whole("dim"), whole("approximate", only=1))),
             Aclnn("aclnnGeGluV3", "self -> out outGelu",
                (whole("dim"), whole("approximate", only=1),
                 flag("activateLeft", "activate_left")))), kernel="ge_glu",
            checks=((axes_in, "dim", "x"),)),
        Operator("SwiGluGrad", "dy x -> dx", (whole("dim?"),),
            Aclnn("aclnnSwiGluGrad", "yGrad x -> out", (whole("dim"),)), kernel="swi_glu_grad",
            infer=like_second,
            checks=((axes_in, "dim", "x"), (same_shape, "x", "dx"))),
        Operator("SwiGlu", "x -> y", (whole("dim?"),),
            Aclnn("aclnnSwiGlu", "x -> out", (whole("dim?"),)), kernel="swi_glu",
            checks=((axes_in, "dim", "x"),)),
    ),
)
