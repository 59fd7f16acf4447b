"""Layer normalisation and its gradients."""

from npusim.operators.checks import (
    asked_not_null,
    attribute_at_least,
    attribute_in,
    length_is,
    rank_in,
    same_dtype,
    same_shape,
)
from npusim.operators.conditions import on
from npusim.operators.definition import (
    Aclnn,
    Composed,
    Operator,
    family,
    flag,
    flags,
    ints,
    real,
    whole,
)
from npusim.operators.dtype_checks import together
from npusim.operators.norm_checks import (
    mode_of_halves,
    not_empty,
    one_kind_or_wide,
    ones_behind,
    rows_fill,
    wide_enough,
)
from npusim.operators.results import sums_of_rows
from npusim.operators.shape_checks import fits, one_per_row
from npusim.ops.layer_norm.checks import image_lines, row_of, rows_of_shape

_EPSILON = (real("epsilon?"),)
_NEEDED = (real("epsilon"),)  # in C nothing is left out
_EPS = (real("eps?", "epsilon"),)
_SHAPED = (ints("normalizedShape", "shape"), *_EPS)
_HOST = "host:normalised"
_OPTIONAL = "input weightOptional? biasOptional? -> out meanOutOptional? rstdOutOptional?"
_ADAPTED = "x scale shift weightOptional? biasOptional? -> out"
_ADAPTS = ((rank_in, range(2, 9), "x"), (image_lines, "x", "scale", "shift"),
    (fits, "weightOptional", "h", "biasOptional", "h", "x", "*rows h", "out", "*rows h"),
    (attribute_at_least, "epsilon", 0))  # fmt: skip

_SIZES = ("gamma", "*row", "beta", "*row", "x", "*rows *row", "y", "*rows *row")

_PAGES = "hicann/ops-nn norm"
_KINDS = ((same_dtype, "x", "y"), (one_kind_or_wide, "x", "gamma", "beta"))
# x1 x2 gamma beta bias y x: norm/add_layer_norm/docs/aclnnAddLayerNorm.md
_WIDE = "FLOAT FLOAT -/FLOAT FLOAT -/FLOAT"
_ADDED = {
    "310P": (f"FLOAT FLOAT {_WIDE}", "FLOAT16 FLOAT16 FLOAT16 FLOAT16 -/FLOAT16 FLOAT16 -/FLOAT16"),
    **dict.fromkeys(("A2", "A3"), (
        f"FLOAT FLOAT16/BFLOAT16/FLOAT {_WIDE}", f"FLOAT16/BFLOAT16 FLOAT {_WIDE}",
        *(f"{each} {each} {wide} {wide} -/{each} {each} -/{each}"
          for each in ("FLOAT16", "BFLOAT16") for wide in ("FLOAT", each)))),
}  # fmt: skip


def _norm(second: str) -> tuple[tuple[object, ...], ...]:
    """A row of gains and shifts; one mean and one spread per row; no negative epsilon."""
    rows = (one_per_row, "x", "gamma", "mean", second)
    least = (attribute_at_least, "epsilon", 0)
    return (row_of, "shape", "x", "y", "gamma", "beta"), (fits, *_SIZES), rows, least


def _gradient(spread: str, *more: str) -> tuple[tuple[object, ...], ...]:
    alike = (same_shape, "dy", "x", "pd_x", *more)
    sizes = (fits, "gamma", "*row", "x", "*rows *row")
    return alike, sizes, (one_per_row, "x", "gamma", "mean", spread)


# fmt: off
OPERATORS = family(
    "layer_norm",
    kernel=(
        Operator("LayerNorm", "x gamma beta -> y mean variance", _EPSILON,
            checks=_norm("variance")),
        Operator("LayerNormV3", "x gamma beta -> y mean rstd", _EPSILON,
            (Aclnn("aclnnLayerNorm", _OPTIONAL, _SHAPED, also=("aclnnFastLayerNorm",), host=_HOST,
                checks=_KINDS, rules=f"{_PAGES}/layer_norm_v4 (docs)"),
             Aclnn("aclnnLayerNormWithImplMode", _OPTIONAL,
                (*_SHAPED, whole("implMode?", None)), host=_HOST, checks=(*_KINDS,
                    (attribute_in, "implMode", (0, 1, 2)),
                    (mode_of_halves, "implMode", 2, "x", "gamma", "beta", "y")),
                rules=f"{_PAGES}/layer_norm_v4 (docs)")),
            checks=_norm("rstd")),
        Operator("LayerNormXBackpropV2", "dy x variance mean gamma -> pd_x res_for_gamma",
            checks=_gradient("variance", "res_for_gamma")),
        Operator("LayerNormXBackpropV3", "dy x rstd mean gamma -> pd_x res_for_gamma",
            checks=_gradient("rstd", "res_for_gamma")),
    ),
    single_read=(
        Operator("LayerNormV4", "x normalized_shape gamma? beta? -> y mean rstd", _EPSILON,
            kernel="layer_norm_v4", checks=_norm("rstd")),
    ),
    gradient=(
        Operator("LayerNormGradV3", "dy x rstd mean gamma -> pd_x pd_gamma pd_beta",
            (flags("output_mask?", None),), checks=_gradient("rstd")),
    ),
    added=(
        Operator("AddLayerNorm", "x1 x2 gamma beta bias? -> y mean rstd x", _EPSILON,
            Aclnn("aclnnAddLayerNorm",
                "x1 x2 gamma beta biasOptional? -> yOut meanOut rstdOut xOut",
                (*_EPSILON, flag("additionalOutput", None)), checks=(
                    (together, "x1", "x2", "gamma", "beta", "bias", "y", "x", {"rows": _ADDED}),
                    (on, ("310P",), (rows_fill, "x1", "gamma")), (not_empty, "x1", "gamma"),
                    (on, ("A2", "A3"), (ones_behind, "x1", "gamma", "mean", "rstd"))),
                rules=f"{_PAGES}/add_layer_norm (docs)"),
            checks=((fits, "gamma", "*row", "beta", "*row", "bias", "*row", "x1", "*rows *row",
                "x2", "*rows *row", "y", "*rows *row", "x", "*rows *row"),
                (one_per_row, "x1", "gamma", "mean", "rstd"),
                (attribute_at_least, "epsilon", 0))),
        Operator("DeepNorm", "x gx beta gamma -> mean rstd y", (real("alpha?"), *_EPSILON),
            Aclnn("aclnnDeepNorm", "x gx beta gamma -> meanOut rstdOut yOut",
                (real("alpha"), *_EPSILON), checks=(
                    (same_dtype, "x", "gx", "beta", "gamma", "y"),
                    (on, ("A2", "A3"), (ones_behind, "x", "gamma", "mean", "rstd"))),
                rules=f"{_PAGES}/deep_norm (docs)"),
            checks=((fits, "gamma", "*row", "beta", "*row", "x", "*rows *row",
                "gx", "*rows *row", "y", "*rows *row"),
                (one_per_row, "x", "gamma", "mean", "rstd"), (attribute_at_least, "epsilon", 0))),
    ),
    host=(
        Composed("aclnnAddLayerNormGrad",
            "dy x1 x2 rstd mean gamma dsumOptional? -> dxOut dgammaOut dbetaOut", (),
            "gradient_of_sum", checks=((same_shape, "dy", "x1", "x2", "dsumOptional", "dxOut"),
                (fits, "gamma", "*row", "dy", "*rows *row"),
                (one_per_row, "dy", "gamma", "rstd", "mean"))),
        Composed("aclnnDeepNormGrad",
            "dy x gx gamma mean rstd -> dxOut dgxOut dbetaOut dgammaOut", (real("alpha"),),
            "gradient_of_deep_norm", checks=((same_shape, "dy", "x", "gx", "dxOut", "dgxOut"),
                (fits, "gamma", "*row", "dy", "*rows *row"),
                (one_per_row, "dy", "gamma", "rstd", "mean"))),
        Composed("aclnnAdaLayerNorm", _ADAPTED, _NEEDED, "adapted", checks=_ADAPTS),
        Composed("aclnnAdaLayerNormV2", f"{_ADAPTED} meanOutOptional? rstdOutOptional?", _NEEDED,
            "adapted", checks=_ADAPTS),
        Composed("aclnnLayerNormBackward",
            "gradOut input mean rstd weightOptional? biasOptional? -> "
            "gradInputOut? gradWeightOut? gradBiasOut?",
            (ints("normalizedShape", "shape"), flags("outputMask", "mask")), "backward",
            checks=((length_is, 3, "outputMask"),
                (asked_not_null, "gradInputOut", "gradWeightOut", "gradBiasOut"),
                (same_shape, "gradOut", "input", "gradInputOut"),
                (same_dtype, "gradOut", "input", "gradInputOut"),
                (wide_enough, "input", "mean", "rstd"),
                (one_kind_or_wide, "input", "weightOptional", "biasOptional"),
                (row_of, "normalizedShape", "input", "gradInputOut", "weightOptional",
                    "biasOptional", "gradWeightOut", "gradBiasOut"),
                (rows_of_shape, "input", "normalizedShape", "mean", "rstd"),
                (same_dtype, "weightOptional", "gradWeightOut", "gradBiasOut")),
            rules=f"{_PAGES}/layer_norm_grad_v3 (docs)"),
    ),
    parameters=(
        Operator("LayerNormBetaGammaBackpropV2", "dy res_for_gamma -> pd_gamma pd_beta",
            infer=sums_of_rows,
            checks=((fits, "dy", "*rows row", "res_for_gamma", "*rows row"),)),
    ),
)
