"""Root-mean-square normalisation, with the sum of two tensors in front of it, and its gradient."""

from npusim.operators.definition import Aclnn, Operator, family, real

_EPSILON = (real("epsilon?"),)

OPERATORS = family(
    "rms_norm",
    Operator(
        "RmsNorm",
        "x gamma -> y rstd",
        "kernel",
        _EPSILON,
        Aclnn("aclnnRmsNorm", "x gamma -> yOut rstdOut", _EPSILON),
    ),
    Operator(
        "AddRmsNorm",
        "x1 x2 gamma -> y rstd x",
        "kernel",
        _EPSILON,
        Aclnn("aclnnAddRmsNorm", "x1 x2 gamma -> yOut rstdOut xOut", _EPSILON),
    ),
    Operator(
        "RmsNormGrad",
        "dy x rstd gamma -> dx dgamma",
        "gradient",
        aclnn=Aclnn("aclnnRmsNormGrad", "dy x rstd gamma -> dxOut dgammaOut"),
    ),
)
