"""Layer normalisation and its gradients."""

from npusim.operators.definition import Aclnn, Operator, family, ints, real
from npusim.operators.results import sums_of_rows

_EPSILON = (real("epsilon?"),)
_EPS = (real("eps?", "epsilon"),)
_OPTIONAL = "input weightOptional biasOptional -> out meanOutOptional rstdOutOptional"

# fmt: off
OPERATORS = family(
    "layer_norm",
    kernel=(
        Operator("LayerNorm", "x gamma beta -> y mean variance", _EPSILON),
        Operator("LayerNormV3", "x gamma beta -> y mean rstd", _EPSILON,
            Aclnn("aclnnLayerNorm", _OPTIONAL, (ints("normalizedShape?", None), *_EPS))),
        Operator("LayerNormXBackpropV2", "dy x variance mean gamma -> pd_x res_for_gamma"),
        Operator("LayerNormXBackpropV3", "dy x rstd mean gamma -> pd_x res_for_gamma"),
    ),
    parameters=(
        Operator("LayerNormBetaGammaBackpropV2", "dy res_for_gamma -> pd_gamma pd_beta",
            infer=sums_of_rows),
    ),
)
