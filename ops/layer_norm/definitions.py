"""Layer normalisation and its gradients."""

from npusim.operators.definition import Aclnn, Operator, family, ints, real
from npusim.operators.results import sums_of_rows

_EPSILON = (real("epsilon?"),)

OPERATORS = family(
    "layer_norm",
    Operator("LayerNorm", "x gamma beta -> y mean variance", "kernel", _EPSILON),
    Operator(
        "LayerNormV3",
        "x gamma beta -> y mean rstd",
        "kernel",
        _EPSILON,
        Aclnn(
            "aclnnLayerNorm",
            "input weightOptional biasOptional -> out meanOutOptional rstdOutOptional",
            (ints("normalizedShape?", None), real("eps?", "epsilon")),
        ),
    ),
    Operator("LayerNormXBackpropV2", "dy x variance mean gamma -> pd_x res_for_gamma", "kernel"),
    Operator("LayerNormXBackpropV3", "dy x rstd mean gamma -> pd_x res_for_gamma", "kernel"),
    Operator(
        "LayerNormBetaGammaBackpropV2",
        "dy res_for_gamma -> pd_gamma pd_beta",
        "parameters",
        infer=sums_of_rows,
    ),
)
