"""Kinds of operators that passes treat alike."""

from __future__ import annotations

from typing import Final

_ELEMENTWISE = """
    Abs Add AddN Adds Cast Ceil ClipByValue Cos Div Elu Equal Erf Exp FastGeluV2 Floor FusedMulAdd
    Gelu Greater GreaterEqual HardSigmoid HardSwish LeakyRelu Less LessEqual Log LogicalAnd
    LogicalNot LogicalOr Maximum Minimum Mish Mul Muls Neg NotEqual PRelu Pow RealDiv Reciprocal
    Relu Relu6 Round Rsqrt SelectV2 Selu Sigmoid Sign Sin Softplus Softsign Sqrt Square Sub
    Swish Tanh
"""
ELEMENTWISE: Final = frozenset(_ELEMENTWISE.split())
"""One result element from the operands' elements at its place; any format does."""

FUSED: Final = ELEMENTWISE - {"Exp", "SelectV2", "Erf", "PRelu"}
"""Those that can go into another kernel: a formula of their operands and nothing else."""

_PLANES = """
    AvgPoolV2 BNInfer Conv2D Conv2DTranspose DepthwiseConv2D INTrainingReduceV2 INTrainingUpdateV2
    MaxPoolV3 ResizeBilinearV2 ResizeNearestNeighborV2
"""
PLANES: Final = frozenset(_PLANES.split())
"""Kernels for images, which they take in NC1HWC0."""

VOLUMES: Final = frozenset(("AvgPool3D", "Conv3D", "Conv3DTranspose", "MaxPool3D"))
"""Kernels for volumes, which they take in NDC1HWC0."""

PRODUCTS: Final = frozenset(("BatchMatMulV2", "MatMulV2"))
"""Matrix products, which the AI Core of the first generation takes in FRACTAL_NZ."""

VIEWS: Final = ("Identity", "Reshape", "PhonySplit")
"""The same bytes, or a part of them, under another name or shape, which need no task."""

NO_TASK: Final = (*VIEWS, "PhonyConcat")
"""Those, and what joins tensors that were written side by side. Names: hicann/ge, nn_engine."""


def is_elementwise(op: str) -> bool:
    """Whether an operator works element by element, fused or by itself."""
    return op.removeprefix("FusionOp_").partition("_")[0] in ELEMENTWISE
