"""Root-mean-square normalisation, with the sum of two tensors in front of it, and its gradient."""

from npusim.operators.checks import attribute_at_least, same_dtype
from npusim.operators.definition import Aclnn, Operator, family, real
from npusim.operators.dtype_checks import together
from npusim.operators.shape_checks import fits, one_per_row
from npusim.ops.rms_norm.results import root_per_row

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

# fmt: off
OPERATORS = family(
    "rms_norm",
    kernel=(
        Operator("RmsNorm", "x gamma -> y rstd", _EPSILON,
            Aclnn("aclnnRmsNorm", "x gamma -> yOut rstdOut", _EPSILON, checks=(
                (together, "x", "gamma", "y", "rstd", {"rows": _PLAIN}),)),
            checks=((fits, "gamma", "*row", "x", _ROWS, "y", _ROWS), _PER_ROW, _POSITIVE)),
        Operator("AddRmsNorm", "x1 x2 gamma -> y rstd x", _EPSILON,
            Aclnn("aclnnAddRmsNorm", "x1 x2 gamma -> yOut rstdOut xOut", _EPSILON,
                checks=((same_dtype, "x1", "x2", "gamma", "y", "x"),)),
            checks=((fits, "gamma", "*row", "x1", _ROWS, "x2", _ROWS, "y", _ROWS, "x", _ROWS),
                (one_per_row, "x1", "gamma", "rstd"), _POSITIVE)),
        Operator("GemmaRmsNorm", "x gamma -> y rstd", _EPSILON,
            Aclnn("aclnnGemmaRmsNorm", "x gamma -> yOut rstdOut", _EPSILON),
            checks=((fits, "gamma", "*row", "x", _ROWS, "y", _ROWS), _PER_ROW, _POSITIVE)),
        Operator("AddRmsNormCast", "x1 x2 gamma -> y1 y2 rstd x", _EPSILON,
            Aclnn("aclnnAddRmsNormCast", "x1 x2 gamma -> y1Out y2Out rstdOut xOut", _EPSILON),
            checks=((fits, "gamma", "*row", "x1", _ROWS, "x2", _ROWS, "y1", _ROWS, "y2", _ROWS,
                "x", _ROWS), (one_per_row, "x1", "gamma", "rstd"), _POSITIVE)),
        Operator("InplaceAddRmsNorm", "x1 x2 gamma -> x1 rstd x2", _EPSILON,
            Aclnn("aclnnInplaceAddRmsNorm", "x1Ref x2Ref gamma -> x1Ref rstdOut x2Ref", _EPSILON),
            kernel="AddRmsNorm", infer=root_per_row,
            checks=((fits, "gamma", "*row", "x1", _ROWS, "x2", _ROWS),
                (one_per_row, "x1", "gamma", "rstd"), _POSITIVE)),
    ),
    gradient=(
        Operator("RmsNormGrad", "dy x rstd gamma -> dx dgamma", (),
            Aclnn("aclnnRmsNormGrad", "dy x rstd gamma -> dxOut dgammaOut"),
            checks=((fits, "gamma", "*row", "x", _ROWS, "dy", _ROWS, "dx", _ROWS, "dgamma", "*row"),
                _PER_ROW)),
    ),
)
