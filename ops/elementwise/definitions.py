"""Elementwise arithmetic with broadcasting, comparisons, selections, copies and fills."""

from npusim.operators.checks import attribute_at_least, broadcasts_to, rank_is, same_shape
from npusim.operators.definition import Aclnn, Operator, family, flag, ints, real, scalar, whole
from npusim.operators.results import broadcasted, filled, like
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

_TOLERANCES = (real("rtol?"), real("atol?"), flag("equal_nan?"))
_INSTEAD = (real("nan?"), real("posinf?"), real("neginf?"))
_BROADCASTING = ("trigonometry", "special", "quotients", "bits", "predicates", "blends")


def _of_input(name: str) -> tuple[Aclnn, Aclnn]:
    """An interface that calls its operand so."""
    return (
        Aclnn(f"aclnn{name}", "input -> out"),
        Aclnn(f"aclnnInplace{name}", "inputRef -> inputRef"),
    )


# fmt: off
OPERATORS = family(
    "elementwise",
    checks={
        "arithmetic": (_BROADCAST,),
        "comparison": (_BROADCAST,),
        "moves": (_ALIKE,),
        "composed": (_ALIKE,),
        **dict.fromkeys(_BROADCASTING, (_BROADCAST,)),
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
        Operator("Log", "x -> y", _POWER, Aclnn("aclnnLog", in_place=True)),
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
        Operator("Round", "x -> y", (whole("decimals?"),),
            (Aclnn("aclnnRound", in_place=True),
             Aclnn("aclnnRoundDecimals", attributes=(whole("decimals"),), in_place=True))),
        Operator("Rsqrt", "x -> y", (), Aclnn("aclnnRsqrt", in_place=True)),
        Operator("Sign", "x -> y", (), Aclnn("aclnnSign", "self -> result")),
        Operator("Sin", "x -> y", (), Aclnn("aclnnSin", in_place=True)),
        Operator("Sqrt", "x -> y", (),
            (Aclnn("aclnnSqrt"), Aclnn("aclnnInplaceSqrt", "self -> self"))),
        Operator("Square", "x -> y", (), Aclnn("aclnnSquare")),
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
    trigonometry=(
        Operator("Acos", "x -> y", (), _of_input("Acos")),
        Operator("Acosh", "x -> y", (), Aclnn("aclnnAcosh", in_place=True)),
        Operator("Asin", "x -> y", (), Aclnn("aclnnAsin", in_place=True)),
        Operator("Asinh", "x -> y", (), _of_input("Asinh")),
        Operator("Atan", "x -> y", (), _of_input("Atan")),
        Operator("Atan2", "x1 x2 -> y", (), Aclnn("aclnnAtan2", _TWO, in_place=True)),
        Operator("Atanh", "x -> y", (), _of_input("Atanh")),
        Operator("Cosh", "x -> y", (), Aclnn("aclnnCosh", in_place=True)),
        Operator("Sinh", "x -> y", (), Aclnn("aclnnSinh", in_place=True)),
        Operator("Tan", "x -> y", (), Aclnn("aclnnTan", in_place=True)),
    ),
    special=(
        Operator("Erf", "x -> y", (), Aclnn("aclnnErf", in_place=True)),
        Operator("Erfc", "x -> y", (), Aclnn("aclnnErfc", in_place=True)),
        Operator("Erfinv", "input_x -> output_y", (), Aclnn("aclnnErfinv", in_place=True)),
        Operator("Expm1", "x -> y", (), Aclnn("aclnnExpm1", in_place=True)),
        Operator("LogAddExp", "x1 x2 -> y", (real("base?"),), Aclnn("aclnnLogAddExp", _TWO)),
        Operator("Xlog1py", "x1 x2 -> y", (), Aclnn("aclnnXlog1py", "x y -> z")),
        Operator("Xlogy", "x1 x2 -> y", (), Aclnn("aclnnXLogYTensor", _TWO, in_place=True)),
    ),
    quotients=(
        Operator("FloorDiv", "x1 x2 -> y", (), Aclnn("aclnnFloorDivide", _TWO, in_place=True)),
        Operator("FloorMod", "x1 x2 -> y", (),
            Aclnn("aclnnRemainderTensorTensor", _TWO, in_place=True)),
        Operator("Mod", "x1 x2 -> y", (), Aclnn("aclnnFmodTensor", _TWO, in_place=True)),
        Operator("Trunc", "input_x -> output_y", (), Aclnn("aclnnTrunc", in_place=True)),
        Operator("TruncateDiv", "x1 x2 -> y"),
    ),
    bits=(
        Operator("BitwiseAnd", "x1 x2 -> y", (),
            Aclnn("aclnnBitwiseAndTensor", _TWO, in_place=True)),
        Operator("BitwiseOr", "x1 x2 -> y", (), Aclnn("aclnnBitwiseOrTensor", _TWO, in_place=True)),
        Operator("BitwiseXor", "x1 x2 -> y", (),
            Aclnn("aclnnBitwiseXorTensor", _TWO, in_place=True)),
        Operator("Invert", "x -> y", (), Aclnn("aclnnBitwiseNot"), kernel="invert"),
        Operator("LeftShift", "x y -> z", (), Aclnn("aclnnLeftShift", "self shiftBits -> out"),
            kernel="left_shift", infer=broadcasted),
        Operator("RightShift", "x y -> z", (), Aclnn("aclnnRightShift", "input shiftBits -> out"),
            kernel="right_shift", infer=broadcasted),
    ),
    predicates=(
        Operator("IsClose", "x1 x2 -> y", _TOLERANCES, Aclnn("aclnnIsClose", _TWO, _TOLERANCES)),
        Operator("IsFinite", "x -> y", (), Aclnn("aclnnIsFinite")),
        Operator("IsInf", "x -> y", (), Aclnn("aclnnIsInf", "x -> out")),
        Operator("IsNan", "x -> y"),
        Operator("IsNegInf", "x -> y", (), Aclnn("aclnnIsNegInf")),
        Operator("IsPosInf", "x -> y", (), Aclnn("aclnnIsPosInf")),
        Operator("NanToNum", "x -> y", _INSTEAD,
            Aclnn("aclnnNanToNum", attributes=_INSTEAD, in_place=True)),
    ),
    blends=(
        Operator("Addcdiv", "input_data x1 x2 value -> y"),
        Operator("Addcmul", "input_data x1 x2 value -> y"),
        Operator("Axpy", "x1 x2 -> y", (real("alpha?"),)),
        Operator("AxpyV2", "x1 x2 alpha -> y"),
        Operator("ClipByValueV2", "x clip_value_min clip_value_max -> y", (),
            Aclnn("aclnnClampTensor", "self clipValueMin? clipValueMax? -> out")),
        Operator("Lerp", "start end weight -> y", (),
            Aclnn("aclnnLerp", "self end weight -> out", in_place=True)),
        Operator("MaskedFill", "x mask value -> y", (),
            Aclnn("aclnnInplaceMaskedFillTensor", "selfRef mask value -> selfRef")),
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
