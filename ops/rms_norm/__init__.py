"""Root-mean-square normalisation, with the sum of two tensors in front of it, and its gradient."""

PROVIDES = {
    "RmsNorm": "kernel:RmsNorm",
    "AddRmsNorm": "kernel:AddRmsNorm",
    "RmsNormGrad": "gradient:RmsNormGrad",
}
ALIASES: dict[str, str] = {}
