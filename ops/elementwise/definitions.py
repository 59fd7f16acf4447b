"""Elementwise arithmetic with broadcasting, comparisons, selections, copies and fills."""

from npusim.operators.checks import attribute_at_least, broadcasts_to, rank_is, same_shape
from npusim.operators.definition import Aclnn, Operator, family, ints, real, scalar
from npusim.operators.results import filled, like
from npusim.operators.shape_checks import (
    bits_of,
    broadcast,
    needs,
    one_element,
)

_BROADCAST = (broadcast, ">", "<")
_ALIKE = (same_shape, "<", ">")
_TWO = "self other -> out"
_THREE = "x1 x2 x3 -> y"
_ALPHA = (scalar("alpha?"),)
_VALUE = (real("value?"),)
_POWER = (real("base?"), real("scale?"), real("shift?"))
_NATURAL = (real("base?", only=-1.0), real("scale?", only=1.0), real("shift?", only=0.0))

# fmt: off
OPERATORS = family(
    "elementwise",
    checks={
        "arithmetic": (_BROADCAST,),
        "comparison": (_BROADCAST,),
        "moves": (_ALIKE,),
        "composed": (_ALIKE,),
    },
    fused="fusion:fused_kernel",
    arithmetic=(
        Operator("Abs", "x -> y", (), Aclnn("aclnnAbs")),
        Operator("Add", "x1 x2 -> y", (),
            Aclnn("aclnnAdd", _TWO, _ALPHA, in_place=True, host="host:add"), ("AddV2",)),
        Operator("AddN", "x* -> y", (), Aclnn("aclnnAddN", "tensors* -> out")),
        Operator("Adds", "x -> y", _VALUE,
            Aclnn("aclnnAdds", attributes=(scalar("other"), *_ALPHA), in_place=True,
                host="host:adds")),
        Operator("AssignAdd", "ref value -> ref", checks=((broadcasts_to, "ref", "value"),)),
        Operator("AssignSub", "var value -> var", checks=((broadcasts_to, "var", "value"),)),
        Operator("BiasAdd", "x bias -> y", checks=((rank_is, 1, "bias"), _BROADCAST)),
        Operator("Ceil", "x -> y", (), Aclnn("aclnnCeil", in_place=True)),
        Operator("ClipByValue", "x clip_value_min clip_value_max -> y"),
        Operator("ClipByNormNoDivSum", "x greater_zeros select_ones maximum_ones -> y"),
        Operator("Cos", "x -> y", (),
            (Aclnn("aclnnCos", "input -> out"), Aclnn("aclnnInplaceCos", "inputRef -> inputRef"))),
        Operator("Div", "x1 x2 -> y"),
        Operator("Floor", "x -> y", (), Aclnn("aclnnFloor", in_place=True)),
        Operator("FusedMulAdd", "x1 x2 x3 -> y"),
        Operator("FusedMulAddAdd", "x1 x2 x3 x4 -> y"),
        Operator("FusedMulAddN", _THREE, (), Aclnn("aclnnFusedMulAddN", _THREE)),
        Operator("Log", "x -> y", _NATURAL, Aclnn("aclnnLog", in_place=True)),
        Operator("Log1p", "x -> y", (), Aclnn("aclnnLog1p", in_place=True)),
        Operator("Maximum", "x1 x2 -> y", (), Aclnn("aclnnMaximum", _TWO, promoted=True)),
        Operator("MaximumGrad", "grads x1 x2 -> y1 y2"),
        Operator("Minimum", "x1 x2 -> y", (), Aclnn("aclnnMinimum", _TWO, promoted=True)),
        Operator("MinimumGrad", "grads x1 x2 -> y1 y2"),
        Operator("Mul", "x1 x2 -> y", (), Aclnn("aclnnMul", _TWO, in_place=True, promoted=True)),
        Operator("Muls", "x -> y", _VALUE,
            Aclnn("aclnnMuls", attributes=(scalar("other"),), in_place=True, host="host:muls")),
        Operator("Neg", "x -> y", (), Aclnn("aclnnNeg", in_place=True)),
        Operator("Pow", "x1 x2 -> y", (), Aclnn("aclnnPowTensorTensor", "self exponent -> out")),
        Operator("RealDiv", "x1 x2 -> y", (),
            (Aclnn("aclnnDiv", _TWO, in_place=True), Aclnn("aclnnRealDiv", _TWO))),
        Operator("Reciprocal", "x -> y", (), Aclnn("aclnnReciprocal", in_place=True), ("Inv",)),
        Operator("Round", "x -> y", (), Aclnn("aclnnRound", in_place=True)),
        Operator("Rsqrt", "x -> y", (), Aclnn("aclnnRsqrt", in_place=True)),
        Operator("Sign", "x -> y", (), Aclnn("aclnnSign", "self -> result")),
        Operator("Sin", "x -> y", (), Aclnn("aclnnSin", in_place=True)),
        Operator("Sqrt", "x -> y", (), Aclnn("aclnnSqrt")),
        Operator("Square", "x -> y"),
        Operator("Sub", "x1 x2 -> y", (),
            Aclnn("aclnnSub", _TWO, _ALPHA, in_place=True, host="host:sub")),
    ),
    comparison=(
        Operator("Equal", "x1 x2 -> y", (), Aclnn("aclnnEqTensor", _TWO, promoted=True)),
        Operator("Greater", "x1 x2 -> y", (), Aclnn("aclnnGtTensor", _TWO, promoted=True)),
        Operator("GreaterEqual", "x1 x2 -> y", (), Aclnn("aclnnGeTensor", _TWO, promoted=True)),
        Operator("Less", "x1 x2 -> y", (), Aclnn("aclnnLtTensor", _TWO, promoted=True)),
        Operator("LessEqual", "x1 x2 -> y", (), Aclnn("aclnnLeTensor", _TWO, promoted=True)),
        Operator("LogicalAnd", "x1 x2 -> y", (), Aclnn("aclnnLogicalAnd", _TWO, in_place=True)),
        Operator("LogicalNot", "x -> y", (), Aclnn("aclnnLogicalNot", in_place=True)),
        Operator("LogicalOr", "x1 x2 -> y", (), Aclnn("aclnnLogicalOr", _TWO, in_place=True)),
        Operator("NotEqual", "x1 x2 -> y", (), Aclnn("aclnnNeTensor", _TWO, promoted=True)),
        Operator("Select", "condition x1 x2 -> y"),
        Operator("SelectV2", "condition then else -> result", (),
            Aclnn("aclnnSWhere", "condition self other -> out"), kernel="Select"),
    ),
    fills=(
        Operator("AtomicAddrClean"),
        Operator("Fill", "- value? -> y", (ints("dims?"),), infer=filled,
            checks=((needs, "dims", "y"), (attribute_at_least, "dims", 0), (one_element, "value"))),
        Operator("MemSet", kernel="ZerosLike"),
        Operator("NPUAllocFloatStatus", "-> data", kernel="ZerosLike"),
        Operator("NPUClearFloatStatus", "addr -> data", also=("NPUGetFloatStatus",), infer=like),
        Operator("OnesLike", "x -> y", infer=like),
        Operator("Range", "start limit delta -> y",
            checks=((needs, "y"), (one_element, "start", "limit", "delta"))),
        Operator("ZerosLike", "x -> y", infer=like),
    ),
    fusion=(Operator("AutomaticBufferFusionOp", kernel="unnamed_kernel"),),
    masks=(
        Operator("DropOutDoMask", "x mask keep_prob -> y", also=("DropoutDoMask",), infer=like,
            checks=((bits_of, "x", "mask"), (one_element, "keep_prob"))),
    ),
    moves=(
        Operator("Assign", "ref value -> ref"),
        Operator("TensorMove", "x -> y", (), Aclnn("aclnnTensorMove", "x -> y"), infer=like),
    ),
    composed=(
        Operator("Exp", "x -> y", _POWER, Aclnn("aclnnExp", in_place=True), kernel="exp"),
        Operator("MaskedScale", "x mask -> y", (real("value?", "scale"),), kernel="masked_scale"),
    ),
)
