"""Root-mean-square normalisation, with the sum of two tensors in front of it, and its gradient."""

from npusim.operators.definition import Aclnn, Operator, family, real

_EPSILON = (real("epsilon?"),)

# fmt: off
OPERATORS = family(
    "rms_norm",
    kernel=(
        Operator("RmsNorm", "x gamma -> y rstd", _EPSILON,
            Aclnn("aclnnRmsNorm", "x gamma -> yOut rstdOut", _EPSILON)),
        Operator("AddRmsNorm", "x1 x2 gamma -> y rstd x", _EPSILON,
            Aclnn("aclnnAddRmsNorm", "x1 x2 gamma -> yOut rstdOut xOut", _EPSILON)),
    ),
    gradient=(
        Operator("RmsNormGrad", "dy x rstd gamma -> dx dgamma", (),
            Aclnn("aclnnRmsNormGrad", "dy x rstd gamma -> dxOut dgammaOut")),
    ),
)
