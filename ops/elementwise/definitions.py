"""Elementwise arithmetic with broadcasting, comparisons, selections, copies and fills."""

from npusim.operators.definition import Aclnn, Operator, family, ints, real
from npusim.operators.results import filled, like

_TWO = "self other -> out"
_THREE = "x1 x2 x3 -> y"
_ALPHA = (real("alpha?", only=1.0),)
_VALUE = (real("value?"),)
_POWER = (real("base?"), real("scale?"), real("shift?"))
_NATURAL = (real("base?", only=-1.0), real("scale?", only=1.0), real("shift?", only=0.0))

OPERATORS = family(
    "elementwise",
    Operator("Abs", "x -> y", "arithmetic", aclnn=Aclnn("aclnnAbs"), fusable=True),
    Operator(
        "Add",
        "x1 x2 -> y",
        "arithmetic",
        (),
        Aclnn("aclnnAdd", _TWO, _ALPHA, in_place=True),
        ("AddV2",),
        fusable=True,
    ),
    Operator(
        "AddN", "x* -> y", "arithmetic", (), Aclnn("aclnnAddN", "tensors* -> out"), fusable=True
    ),
    Operator(
        "Adds",
        "x -> y",
        "arithmetic",
        _VALUE,
        Aclnn("aclnnAdds", attributes=(real("other", "value"), *_ALPHA), in_place=True),
    ),
    Operator("AssignAdd", "ref value -> ref", "arithmetic"),
    Operator("AssignSub", "var value -> var", "arithmetic"),
    Operator("BiasAdd", "x bias -> y", "arithmetic", fusable=True),
    Operator("Ceil", "x -> y", "arithmetic", aclnn=Aclnn("aclnnCeil", in_place=True)),
    Operator("ClipByValue", "x clip_value_min clip_value_max -> y", "arithmetic"),
    Operator("Div", "x1 x2 -> y", "arithmetic"),
    Operator("Floor", "x -> y", "arithmetic", aclnn=Aclnn("aclnnFloor", in_place=True)),
    Operator("FusedMulAdd", "x1 x2 x3 -> y", "arithmetic"),
    Operator("FusedMulAddAdd", "x1 x2 x3 x4 -> y", "arithmetic"),
    Operator("FusedMulAddN", _THREE, "arithmetic", (), Aclnn("aclnnFusedMulAddN", _THREE)),
    Operator(
        "Log", "x -> y", "arithmetic", _NATURAL, Aclnn("aclnnLog", in_place=True), fusable=True
    ),
    Operator("Log1p", "x -> y", "arithmetic", aclnn=Aclnn("aclnnLog1p", in_place=True)),
    Operator("Maximum", "x1 x2 -> y", "arithmetic", (), Aclnn("aclnnMaximum", _TWO), fusable=True),
    Operator("MaximumGrad", "grads x1 x2 -> y1 y2", "arithmetic"),
    Operator("Minimum", "x1 x2 -> y", "arithmetic", (), Aclnn("aclnnMinimum", _TWO), fusable=True),
    Operator("MinimumGrad", "grads x1 x2 -> y1 y2", "arithmetic"),
    Operator(
        "Mul",
        "x1 x2 -> y",
        "arithmetic",
        aclnn=Aclnn("aclnnMul", _TWO, in_place=True),
        fusable=True,
    ),
    Operator(
        "Muls",
        "x -> y",
        "arithmetic",
        _VALUE,
        Aclnn("aclnnMuls", attributes=(real("other", "value"),), in_place=True),
    ),
    Operator("Neg", "x -> y", "arithmetic", aclnn=Aclnn("aclnnNeg", in_place=True), fusable=True),
    Operator(
        "Pow", "x1 x2 -> y", "arithmetic", (), Aclnn("aclnnPowTensorTensor", "self exponent -> out")
    ),
    Operator(
        "RealDiv",
        "x1 x2 -> y",
        "arithmetic",
        aclnn=(Aclnn("aclnnDiv", _TWO, in_place=True), Aclnn("aclnnRealDiv", _TWO)),
        fusable=True,
    ),
    Operator(
        "Reciprocal",
        "x -> y",
        "arithmetic",
        (),
        Aclnn("aclnnReciprocal", in_place=True),
        ("Inv",),
        fusable=True,
    ),
    Operator("Round", "x -> y", "arithmetic", aclnn=Aclnn("aclnnRound", in_place=True)),
    Operator("Rsqrt", "x -> y", "arithmetic", aclnn=Aclnn("aclnnRsqrt", in_place=True)),
    Operator("Sign", "x -> y", "arithmetic", aclnn=Aclnn("aclnnSign", "self -> result")),
    Operator("Sqrt", "x -> y", "arithmetic", aclnn=Aclnn("aclnnSqrt"), fusable=True),
    Operator("Square", "x -> y", "arithmetic", fusable=True),
    Operator(
        "Sub",
        "x1 x2 -> y",
        "arithmetic",
        aclnn=Aclnn("aclnnSub", _TWO, _ALPHA, in_place=True),
        fusable=True,
    ),
    Operator("Equal", "x1 x2 -> y", "comparison", aclnn=Aclnn("aclnnEqTensor", _TWO)),
    Operator("Greater", "x1 x2 -> y", "comparison", aclnn=Aclnn("aclnnGtTensor", _TWO)),
    Operator(
        "GreaterEqual",
        "x1 x2 -> y",
        "comparison",
        aclnn=Aclnn("aclnnGeTensor", _TWO),
    ),
    Operator("Less", "x1 x2 -> y", "comparison", aclnn=Aclnn("aclnnLtTensor", _TWO)),
    Operator("LessEqual", "x1 x2 -> y", "comparison", aclnn=Aclnn("aclnnLeTensor", _TWO)),
    Operator(
        "LogicalAnd",
        "x1 x2 -> y",
        "comparison",
        aclnn=Aclnn("aclnnLogicalAnd", _TWO, in_place=True),
    ),
    Operator("LogicalNot", "x -> y", "comparison", aclnn=Aclnn("aclnnLogicalNot", in_place=True)),
    Operator(
        "LogicalOr", "x1 x2 -> y", "comparison", aclnn=Aclnn("aclnnLogicalOr", _TWO, in_place=True)
    ),
    Operator("NotEqual", "x1 x2 -> y", "comparison", aclnn=Aclnn("aclnnNeTensor", _TWO)),
    Operator("Select", "condition x1 x2 -> y", "comparison"),
    Operator(
        "SelectV2",
        "condition then else -> result",
        "comparison:Select",
        aclnn=Aclnn("aclnnSWhere", "condition self other -> out"),
    ),
    Operator("AtomicAddrClean", kernel="fills"),
    Operator("Fill", "- value? -> y", "fills", (ints("dims?"),), infer=filled),
    Operator("MemSet", kernel="fills:ZerosLike"),
    Operator("NPUAllocFloatStatus", "-> data", "fills:ZerosLike"),
    Operator(
        "NPUClearFloatStatus", "addr -> data", "fills", also=("NPUGetFloatStatus",), infer=like
    ),
    Operator("OnesLike", "x -> y", "fills", infer=like),
    Operator("ZerosLike", "x -> y", "fills", infer=like),
    Operator("FusionOp_Mul_Neg", kernel="fusion:fused_kernel", also=("FusionOp_RealDiv_Neg",)),
    Operator(
        "DropOutDoMask", "x mask keep_prob -> y", "masks", also=("DropoutDoMask",), infer=like
    ),
    Operator("Assign", "ref value -> ref", "moves"),
    Operator(
        "TensorMove",
        "x -> y",
        "moves",
        aclnn=Aclnn("aclnnTensorMove", "x -> y"),
        infer=like,
    ),
    Operator("Exp", "x -> y", "composed:exp", _POWER, Aclnn("aclnnExp", in_place=True)),
    Operator("MaskedScale", "x mask -> y", "composed:masked_scale", (real("value?", "scale"),)),
)
