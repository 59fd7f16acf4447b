"""Tensors of several chips brought together, by themselves and beside a matrix product."""

from npusim.operators.checks import rank_is
from npusim.operators.definition import Composed, Operator, family, real, text, whole
from npusim.operators.shape_checks import fits

_TURNS = (whole("commTurn", only=0), whole("streamMode", only=1))
_REDUCED = (text("group", None), text("reduceOp", "reduction"), *_TURNS)
_SIZE = (whole("rank_size?"),)
_MATRICES = (rank_is, 2, "x2")

_NORMALISED = (_MATRICES, (fits, "x1", "*b m k", "x2", "k n", "bias", "n", "residual", "*b m n",
    "gamma", "n", "y", "*b m n", "normOut", "*b m n"))  # fmt: skip
_SCALED = (_MATRICES, (fits, "x1", "*b m k", "x2", "k n", "bias", "n", "biasOptional", "n",
    "x3", "*b m n", "x3Optional", "*b m n", "output", "*b m n"))  # fmt: skip

# fmt: off
OPERATORS = family(
    "collective",
    exchange=(
        Operator("HcomAllReduce", "x -> y", (text("reduction?"), *_SIZE), kernel="all_reduce"),
        Operator("HcomAllGather", "x -> y", _SIZE, kernel="all_gather"),
        Operator("HcomReduceScatter", "x -> y", (text("reduction?"), *_SIZE),
            kernel="reduce_scatter"),
    ),
    host=(
        Composed("aclnnMatmulAllReduce", "x1 x2 bias? -> output", _REDUCED, "all_reduced",
            checks=(_MATRICES, (fits, "x1", "*b m k", "x2", "k n", "bias", "n",
                "output", "*b m n"))),
        Composed("aclnnMatmulAllReduceV2", "x1 x2 bias? x3? -> output", _REDUCED, "all_reduced",
            checks=(_MATRICES, (fits, "x1", "*b m k", "x2", "k n", "bias", "n", "x3", "*b m n",
                "output", "*b m n"))),
        Composed("aclnnMatmulAllReduceV3", "x1 x2 bias? x3? -> output",
            (*_REDUCED[:2], text("commMode?", None), *_TURNS), "all_reduced",
            checks=(_MATRICES, (fits, "x1", "*b m k", "x2", "k n", "bias", "n", "x3", "*b m n",
                "output", "*b m n"))),
        Composed("aclnnMatmulAllReduceAddRmsNorm", "x1 x2 bias? residual gamma -> y normOut",
            (real("epsilon"), *_REDUCED), "reduced_and_normalised", checks=_NORMALISED),
        Composed("aclnnInplaceMatmulAllReduceAddRmsNorm",
            "x1 x2 bias? residual gamma -> residual normOut",
            (real("epsilon"), *_REDUCED), "reduced_and_normalised", checks=_NORMALISED),
        Composed("aclnnQuantMatmulAllReduce", "x1 x2 dequantScale bias? x3? -> output", _REDUCED,
            "bytes_reduced", checks=_SCALED),
        Composed("aclnnQuantMatmulAllReduceV2",
            "x1 x2 dequantScale biasOptional? x3Optional? pertokenScaleOptional? -> output",
            _REDUCED, "bytes_reduced", checks=_SCALED),
        Composed("aclnnAllGatherMatmul", "x1 x2 bias? -> output gatherOut?",
            (text("group", None), whole("gatherIndex", only=0), *_TURNS), "gathered",
            checks=((fits, "x1", "m k", "x2", "k n", "bias", "n", "output", "r n",
                "gatherOut", "r k"),)),
        Composed("aclnnMatmulReduceScatter", "x1 x2 bias? -> output", _REDUCED, "scattered",
            checks=((fits, "x1", "m k", "x2", "k n", "bias", "n", "output", "r n"),)),
    ),
)
