"""Activation functions and their gradients."""

from npusim.operators.definition import Aclnn, Operator, family, real, text, whole
from npusim.operators.results import like

_SLOPE = (real("negativeSlope?", "negative_slope"),)
_ELU = (real("alpha?"), real("scale?", only=1.0), real("inputScale?", only=1.0))
_SOFTPLUS = (real("beta?", only=1.0), real("threshold?", only=20.0))
_APPROXIMATE = (text("approximate?"),)
_SCALE = (real("scale?"),)
_BETA = (real("betaOptional?", "scale"),)
_FROM_RESULT = "output gradOutput -> gradInput"

OPERATORS = family(
    "activation",
    Operator(
        "Elu",
        "x -> y",
        "forward",
        _ELU[:2],
        aclnn=Aclnn("aclnnElu", attributes=_ELU, in_place=True),
    ),
    Operator("FastGelu", "x -> y", "forward", aclnn=Aclnn("aclnnFastGelu")),
    Operator("FastGeluV2", "x -> y", "forward:FastGelu", (), Aclnn("aclnnFastGeluV2", "x -> out")),
    Operator("Gelu", "x -> y", "forward", also=("GeLU",), aclnn=Aclnn("aclnnGelu")),
    Operator(
        "GeluV2", "x -> y", "forward", _APPROXIMATE, Aclnn("aclnnGeluV2", "x -> y", _APPROXIMATE)
    ),
    Operator(
        "HardSigmoid",
        "input_x -> output_y",
        "forward",
        (real("alpha?"), real("beta?")),
        Aclnn("aclnnHardsigmoid"),
    ),
    Operator("HardSwish", "x -> y", "forward", aclnn=Aclnn("aclnnHardswish")),
    Operator(
        "LeakyRelu",
        "x -> y",
        "forward",
        (real("negative_slope?"),),
        Aclnn("aclnnLeakyRelu", attributes=_SLOPE, in_place=True),
    ),
    Operator("Mish", "x -> y", "forward", aclnn=Aclnn("aclnnMish", in_place=True)),
    Operator("Relu", "x -> y", "forward", aclnn=Aclnn("aclnnRelu", in_place=True)),
    Operator("Relu6", "x -> y", "forward"),
    Operator("ReluV2", "x -> y mask", "forward"),
    Operator("Selu", "x -> y", "forward", aclnn=Aclnn("aclnnSelu", in_place=True)),
    Operator("Sigmoid", "x -> y", "forward", aclnn=Aclnn("aclnnSigmoid", in_place=True)),
    Operator("Silu", kernel="forward"),
    Operator(
        "SoftplusV2",
        "x -> y",
        "forward",
        _SOFTPLUS,
        Aclnn("aclnnSoftplus", attributes=_SOFTPLUS),
    ),
    Operator("Softplus", "x -> y", "forward"),
    Operator("Softsign", "x -> y", "forward", aclnn=Aclnn("aclnnSoftsign")),
    Operator(
        "Swish",
        "x -> y",
        "forward",
        _SCALE,
        (Aclnn("aclnnSilu"), Aclnn("aclnnSwish", attributes=_BETA)),
    ),
    Operator("Tanh", "x -> y", "forward", aclnn=Aclnn("aclnnTanh", in_place=True)),
    Operator("EluGradV2", "grads activations -> y", "gradients", _ELU[:2]),
    Operator(
        "GeluGrad",
        "dy x y -> z",
        "gradients",
        aclnn=Aclnn("aclnnGeluBackward", "gradOutput self gradOutput -> gradInput"),
        also=("GeLUGrad",),
    ),
    Operator("ReluGrad", "gradients features -> backprops", "gradients"),
    Operator(
        "SigmoidGrad", "y dy -> z", "gradients", (), Aclnn("aclnnSigmoidBackward", _FROM_RESULT)
    ),
    Operator(
        "SiluGrad",
        "dy x -> dx",
        "gradients",
        aclnn=Aclnn("aclnnSiluBackward", "gradOutput self -> gradInput"),
    ),
    Operator("SwishGrad", "grad x y -> grad_x", "gradients", _SCALE),
    Operator(
        "TanhGrad",
        "y dy -> z",
        "gradients",
        (),
        (Aclnn("aclnnTanhBackward", _FROM_RESULT), Aclnn("aclnnTanhGrad", "y dy -> dx")),
    ),
    Operator("ReluGradV2", "gradients mask -> backprops", "masked", infer=like),
    Operator(
        "SwiGlu",
        "x -> y",
        "gated:swi_glu",
        (whole("dim?"),),
        Aclnn("aclnnSwiGlu", "x -> out", (whole("dim?"),)),
    ),
)
