"""Layer normalisation and its gradients."""

PROVIDES = {
    "LayerNorm": "kernel:LayerNorm",
    "LayerNormV3": "kernel:LayerNormV3",
    "LayerNormXBackpropV2": "kernel:LayerNormXBackpropV2",
    "LayerNormXBackpropV3": "kernel:LayerNormXBackpropV3",
    "LayerNormBetaGammaBackpropV2": "parameters:LayerNormBetaGammaBackpropV2",
}
ALIASES: dict[str, str] = {}
