"""Layer normalisation and its gradients."""

from npusim.operators.checks import attribute_at_least, same_shape
from npusim.operators.definition import Aclnn, Composed, Operator, family, flags, ints, real, whole
from npusim.operators.results import sums_of_rows
from npusim.operators.shape_checks import fits, one_per_row

_EPSILON = (real("epsilon?"),)
_EPS = (real("eps?", "epsilon"),)
_SHAPED = (ints("normalizedShape?", None), *_EPS)
_OPTIONAL = "input weightOptional biasOptional -> out meanOutOptional rstdOutOptional"
_SIZES = ("gamma", "*row", "beta", "*row", "x", "*rows *row", "y", "*rows *row")


def _norm(second: str) -> tuple[tuple[object, ...], ...]:
    """A row of gains and shifts; one mean and one spread per row; no negative epsilon."""
    rows = (one_per_row, "x", "gamma", "mean", second)
    return (fits, *_SIZES), rows, (attribute_at_least, "epsilon", 0)


def _gradient(spread: str) -> tuple[tuple[object, ...], ...]:
    alike = (same_shape, "dy", "x", "pd_x", "res_for_gamma")
    sizes = (fits, "gamma", "*row", "x", "*rows *row")
    return alike, sizes, (one_per_row, "x", "gamma", "mean", spread)


# fmt: off
OPERATORS = family(
    "layer_norm",
    kernel=(
        Operator("LayerNorm", "x gamma beta -> y mean variance", _EPSILON,
            checks=_norm("variance")),
        Operator("LayerNormV3", "x gamma beta -> y mean rstd", _EPSILON,
            (Aclnn("aclnnLayerNorm", _OPTIONAL, _SHAPED, also=("aclnnFastLayerNorm",)),
             Aclnn("aclnnLayerNormWithImplMode", _OPTIONAL,
                (*_SHAPED, whole("implMode?", None)))),
            checks=_norm("rstd")),
        Operator("LayerNormXBackpropV2", "dy x variance mean gamma -> pd_x res_for_gamma",
            checks=_gradient("variance")),
        Operator("LayerNormXBackpropV3", "dy x rstd mean gamma -> pd_x res_for_gamma",
            checks=_gradient("rstd")),
    ),
    host=(
        Composed("aclnnLayerNormBackward",
            "gradOut input mean rstd weightOptional? biasOptional? -> "
            "gradInputOut gradWeightOut? gradBiasOut?",
            (ints("normalizedShape", "shape"), flags("outputMask", "mask")), "backward",
            checks=((same_shape, "gradOut", "input", "gradInputOut"),)),
    ),
    parameters=(
        Operator("LayerNormBetaGammaBackpropV2", "dy res_for_gamma -> pd_gamma pd_beta",
            infer=sums_of_rows,
            checks=((fits, "dy", "*rows row", "res_for_gamma", "*rows row"),)),
    ),
)
