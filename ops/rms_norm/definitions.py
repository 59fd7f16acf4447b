"""Root-mean-square normalisation, with the sum of two tensors in front of it, and its gradient."""

from npusim.operators.checks import attribute_at_least, same_dtype
from npusim.operators.conditions import on, unsure
from npusim.operators.definition import Aclnn, Operator, family, real
from npusim.operators.dtype_checks import together
from npusim.operators.norm_checks import (
    given_with,
    not_empty,
    ones_behind,
    rows_fill,
    rows_of,
)
from npusim.operators.shape_checks import fits, one_per_row
from npusim.ops.rms_norm.results import normalised_sum, root_per_row
from npusim.values.dtypes import BFLOAT16, FLOAT, FLOAT16

_EPSILON = (real("epsilon?"),)
_ROWS = "*rows *row"
_PER_ROW = (one_per_row, "x", "gamma", "rstd")
_POSITIVE = (attribute_at_least, "epsilon", 0)

# x gamma y rstd: hicann/ops-nn norm/rms_norm/docs/aclnnRmsNorm.md
_PLAIN = {
    "310P": ("FLOAT16 FLOAT16 FLOAT16 FLOAT", "FLOAT FLOAT FLOAT FLOAT"),
    **dict.fromkeys(("A2", "A3"), (
        "FLOAT16 FLOAT/FLOAT16 FLOAT16 FLOAT", "BFLOAT16 FLOAT/BFLOAT16 BFLOAT16 FLOAT",
        "FLOAT FLOAT FLOAT FLOAT")),
}  # fmt: skip

# dy x rstd gamma dx dgamma: norm/rms_norm_grad/docs/aclnnRmsNormGrad.md
_GRADIENT = {
    "310P": ("FLOAT16 FLOAT16 FLOAT FLOAT16 FLOAT16 FLOAT", "FLOAT FLOAT FLOAT FLOAT FLOAT FLOAT"),
    **dict.fromkeys(("A2", "A3"), (
        "FLOAT16 FLOAT16 FLOAT FLOAT/FLOAT16 FLOAT16 FLOAT",
        "BFLOAT16 BFLOAT16 FLOAT FLOAT/BFLOAT16 BFLOAT16 FLOAT",
        "FLOAT FLOAT FLOAT FLOAT FLOAT FLOAT")),
}  # fmt: skip
_PAGES = "hicann/ops-nn norm"
_SPLIT, _REAL = ("A2", "A3"), "FLOAT16/FLOAT/BFLOAT16"
_BIASED = "vllm-ascend csrc/moe/add_rms_norm_bias (definition, host tiling)"


def _little(*names: str) -> tuple[object, ...]:
    return (on, ("310P",), (rows_fill, *names))


def _spread(x: str) -> tuple[object, ...]:
    """The page has one shape; the tiling doesn't ask."""
    return (unsure, (ones_behind, x, "gamma", "rstd"))


# fmt: off
OPERATORS = family(
    "rms_norm",
    kernel=(
        Operator("RmsNorm", "x gamma -> y rstd", _EPSILON,
            Aclnn("aclnnRmsNorm", "x gamma -> yOut rstdOut", _EPSILON, checks=(
                (together, "x", "gamma", "y", "rstd", {"rows": _PLAIN}), _little("x", "gamma"),
                (not_empty, "gamma"), _spread("x")), rules=f"{_PAGES}/rms_norm (docs)"),
            checks=((fits, "gamma", "*row", "x", _ROWS, "y", _ROWS), _PER_ROW, _POSITIVE)),
        Operator("AddRmsNorm", "x1 x2 gamma -> y rstd x", _EPSILON,
            Aclnn("aclnnAddRmsNorm", "x1 x2 gamma -> yOut rstdOut? xOut?", _EPSILON,
                checks=((given_with, "x", "rstd"), (same_dtype, "x1", "x2", "gamma", "y", "x"),
                    (on, ("A2", "A3"), _spread("x1"))), rules=f"{_PAGES}/add_rms_norm (docs)"),
            checks=((fits, "x1", "*x", "x2", "*x", "y", "*x", "x", "*x"), (rows_of, "gamma", "x1"),
                (one_per_row, "x1", "gamma", "rstd"), _POSITIVE)),
        Operator("AddRmsNormBias", "x1 x2 gamma beta? -> y rstd x", _EPSILON,
            Aclnn("aclnnAddRmsNormBias", "x1 x2 gamma betaOptional? -> yOut rstdOut xOut", _EPSILON,
                rules=_BIASED),
            infer=normalised_sum,
            checks=((same_dtype, "x1", "x2", "gamma", "beta", "y", "x"),
                (together, "x1", "rstd", {"rows": dict.fromkeys(_SPLIT, (f"{_REAL} FLOAT",))}),
                (not_empty, "x1", "gamma"),
                (fits, "x1", "*x", "x2", "*x", "y", "*x", "x", "*x"), (rows_of, "gamma", "x1"),
                (fits, "gamma", "*row", "beta", "*row"), (ones_behind, "x1", "gamma", "rstd"),
                _POSITIVE),
            dtypes=dict.fromkeys(_SPLIT, (FLOAT16, FLOAT, BFLOAT16))),
        Operator("GemmaRmsNorm", "x gamma -> y rstd", _EPSILON,
            Aclnn("aclnnGemmaRmsNorm", "x gamma -> yOut rstdOut", _EPSILON,
                checks=((same_dtype, "x", "y"), _spread("x"))),
            checks=((fits, "gamma", "*row", "x", _ROWS, "y", _ROWS), _PER_ROW, _POSITIVE)),
        Operator("AddRmsNormCast", "x1 x2 gamma -> y1 y2 rstd x", _EPSILON,
            Aclnn("aclnnAddRmsNormCast", "x1 x2 gamma -> y1Out y2Out rstdOut xOut", _EPSILON,
                checks=((same_dtype, "x1", "x2", "gamma", "y2", "x"), _spread("x1")),
                rules=f"{_PAGES}/add_rms_norm_cast (docs)"),
            checks=((fits, "gamma", "*row", "x1", _ROWS, "x2", _ROWS, "y1", _ROWS, "y2", _ROWS,
                "x", _ROWS), (one_per_row, "x1", "gamma", "rstd"), _POSITIVE)),
        Operator("InplaceAddRmsNorm", "x1 x2 gamma -> x1 rstd x2", _EPSILON,
            Aclnn("aclnnInplaceAddRmsNorm", "x1Ref x2Ref gamma -> x1Ref rstdOut x2Ref", _EPSILON,
                checks=((same_dtype, "x1", "x2", "gamma"), (not_empty, "x1", "gamma"),
                    (on, ("A2", "A3"), _spread("x1"))),
                rules=f"{_PAGES}/inplace_add_rms_norm (docs)"),
            kernel="AddRmsNorm", infer=root_per_row,
            checks=((fits, "gamma", "*row", "x1", _ROWS, "x2", _ROWS),
                (one_per_row, "x1", "gamma", "rstd"), _POSITIVE)),
    ),
    gradient=(
        Operator("RmsNormGrad", "dy x rstd gamma -> dx dgamma", (),
            Aclnn("aclnnRmsNormGrad", "dy x rstd gamma -> dxOut dgammaOut", checks=(
                (together, "dy", "x", "rstd", "gamma", "dx", "dgamma", {"rows": _GRADIENT}),
                _little("x", "gamma")), rules=f"{_PAGES}/rms_norm_grad (docs)"),
            checks=((fits, "gamma", "*row", "x", _ROWS, "dy", _ROWS, "dx", _ROWS, "dgamma", "*row"),
                _PER_ROW)),
    ),
)
