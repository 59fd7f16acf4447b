"""Activation functions and their gradients."""

_TABLES = {
    "forward": (
        "Elu", "FastGelu", "FastGeluV2", "Gelu", "GeLU", "GeluV2", "HardSigmoid", "HardSwish",
        "LeakyRelu", "Mish", "Relu", "Relu6", "ReluV2", "Selu", "Sigmoid", "Silu", "Softplus",
        "SoftplusV2", "Softsign", "Swish", "Tanh",
    ),
    "gradients": (
        "EluGradV2", "GeLUGrad", "GeluGrad", "ReluGrad", "SigmoidGrad", "SiluGrad",
        "SwishGrad", "TanhGrad",
    ),
    "masked": ("ReluGradV2",),
}  # fmt: skip

PROVIDES = {name: f"{module}:{name}" for module, names in _TABLES.items() for name in names}
PROVIDES["SwiGlu"] = "gated:swi_glu"
ALIASES: dict[str, str] = {}
