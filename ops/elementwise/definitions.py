"""Elementwise arithmetic with broadcasting, comparisons, selections, copies and fills."""

from dataclasses import replace

from npusim.operators.checks import (
    attribute_at_least,
    broadcasts_to,
    not_all_null,
    rank_in,
    rank_is,
    same_dtype,
    same_shape,
)
from npusim.operators.definition import (
    Aclnn,
    Composed,
    Operator,
    family,
    flag,
    ints,
    page,
    real,
    scalar,
    whole,
)
from npusim.operators.dtype_checks import convertible, not_all, real_alike, storable
from npusim.operators.number_checks import (
    between,
    elements,
    steps_lead,
    whole_power,
    zero_or_from,
)
from npusim.operators.results import broadcasted, filled, like
from npusim.operators.shape_checks import (
    bits_of,
    broadcast,
    needs,
    one_element,
)
from npusim.values.dtypes import BOOL

_RANGE = (scalar("start"), scalar("end"), scalar("step"))
_BROADCAST = (broadcast, ">", "<")
_ALIKE = (same_shape, "<", ">")
_TWO = "self other -> out"
_THREE = "x1 x2 x3 -> y"
_ALPHA = (scalar("alpha", default=1),)
_MODE = (whole("mode"),)
_IS_IN = (flag("assumeUnique", None), flag("invert"))
_BROADCAST_TWO = (broadcast, "out", "self", "other")
_SAME = (same_shape, "self", "out")
_VALUE = (real("value?"),)
_ASKED = (flag("grad_x?"), flag("grad_y?"))
_POWER = (real("base?"), real("scale?"), real("shift?"))

_DIAGONAL, _WANTED = (whole("diagonal?"),), (whole("diagonal"),)
_MATRICES = ((rank_in, range(2, 9), "x"), (same_shape, "x", "y"))
_TOLERANCES = (real("rtol?"), real("atol?"), flag("equal_nan?"))
_INSTEAD = (real("nan?"), real("posinf?"), real("neginf?"))
_LIMITS = (
    scalar("clipValueMin", "clip_value_min"), scalar("clipValueMax", "clip_value_max"),
)  # fmt: skip
_EITHER = tuple(replace(each, optional=True) for each in _LIMITS)
_BROADCASTING = ("trigonometry", "special", "quotients", "bits", "predicates", "blends")


_RULED = {
    name: f"hicann/ops-math math/{name.lower()}/docs/aclnn{name}&aclnnInplace{name}.md"
    for name in ("Cos", "Rsqrt", "Sin")
}


def _function(op_type: str, operand: str = "self", *, x: str = "x", y: str = "y") -> Operator:
    """A function of one number, in place too; of whole numbers in float32."""
    changed = f"aclnnInplace{op_type}", f"{operand}Ref -> {operand}Ref"
    aclnn = Aclnn(
        f"aclnn{op_type}", f"{operand} -> out", floating=True, rules=_RULED.get(op_type, "")
    )
    in_place = replace(aclnn, name=changed[0], tensors=changed[1])
    return Operator(op_type, f"{x} -> {y}", (), (aclnn, in_place))


def _comparison(op_type: str, name: str, folder: str) -> Operator:
    """With a tensor, or with a number."""
    kinds = (_tensor(f"{name}Tensor"), _scalar(f"{name}Scalar"))
    folder = f"ops-math math/{folder}"
    return _of_two(op_type, *(
        replace(each, rules=page(folder, each.name[5:], f"Inplace{each.name[5:]}"))
        for each in kinds
    ))  # fmt: skip


def _weighed(name: str) -> Aclnn:
    """A product or quotient times a number, added to a tensor."""
    tensors = "self tensor1 tensor2 -> out"
    return Aclnn(f"aclnn{name}", tensors, (scalar("value"),), in_place=True, promoted=True)


def _of_two(op_type: str, *aclnn: Aclnn) -> Operator:
    return Operator(op_type, "x1 x2 -> y", (), aclnn)


def _tensor(name: str, tensors: str = _TWO, *, floating: bool = False) -> Aclnn:
    """Two tensors in the dtype that they have together, in place too."""
    promoted = not floating
    return Aclnn(f"aclnn{name}", tensors, in_place=True, promoted=promoted, floating=floating)


def _scalar(name: str, number: str = "other", *, floating: bool = False) -> Aclnn:
    """A tensor and a number, in place too."""
    attributes = (scalar(number, "x2"),)
    return replace(_tensor(name, "self -> out", floating=floating), attributes=attributes)


def _scalar_first(name: str, *, floating: bool = False) -> Aclnn:
    """A number and a tensor."""
    tensors = "exponent -> out" if name == "PowScalarTensor" else "other -> out"
    first = (scalar("self", "x1"),)
    rules = page("ops-math math/pow", name) if name == "PowScalarTensor" else ""
    return Aclnn(
        f"aclnn{name}", tensors, first, promoted=not floating, floating=floating, rules=rules
    )


_ONE_DTYPE = ((same_dtype, "x", "y"),)
_STORED = ((storable, ("<",), (">",)), (convertible, "alpha", ("<",)))
_STORED_NUMBER = ((storable, ("<",), (">",), ("other",)),)
_WEIGHED_NUMBER = (*_STORED_NUMBER, (convertible, "alpha", ("<",), ("other",)))
_POWERS = (
    (storable, ("<",), (">",), ("exponent",)),
    (not_all, BOOL, "self", "exponent"),
    (whole_power, "exponent", "self"),
)
_NOT_BOTH_BOOL = ((not_all, BOOL, "self", "exponent"),)
_TO_TENSORS = page("ops-math math/pow", "PowTensorTensor", "InplacePowTensorTensor")
_TO_NUMBERS = page("ops-math math/pow", "PowTensorScalar", "InplacePowTensorScalar")
_LEADS = ((steps_lead, "start", "end", "step"),)
_FILLED = ((rank_is, 0, "value"), (storable, ("value",), (">",)))

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
        Operator("Abs", "x -> y", (), Aclnn("aclnnAbs", checks=((real_alike, "x", "y"),),
            rules=page("ops-math math/abs", "Abs"))),
        Operator("Add", "x1 x2 -> y", (),
            Aclnn("aclnnAdd", _TWO, _ALPHA, in_place=True, host="host:add", checks=_STORED,
                rules=page("ops-math math/add", "Add", "InplaceAdd")),
            ("AddV2",)),
        Operator("AddN", "x* -> y", (),
            (Aclnn("aclnnAddN", "tensors* -> out"), Aclnn("aclnnSum", "tensors* -> out")),
            ("AccumulateNV2",)),
        Operator("Adds", "x -> y", _VALUE,
            Aclnn("aclnnAdds", attributes=(scalar("other"), *_ALPHA), in_place=True,
                host="host:adds", checks=_WEIGHED_NUMBER,
                rules=page("ops-math math/add", "Adds") + ", aclnnInplaceAdds.md")),
        Operator("AssignAdd", "ref value -> ref", checks=((broadcasts_to, "ref", "value"),)),
        Operator("AssignSub", "var value -> var", checks=((broadcasts_to, "var", "value"),)),
        Operator("BiasAdd", "x bias -> y", checks=((rank_is, 1, "bias"), _BROADCAST)),
        Operator("Ceil", "x -> y", (), Aclnn("aclnnCeil", in_place=True)),
        Operator("ClipByValue", "x clip_value_min clip_value_max -> y"),
        Operator("ClipByNormNoDivSum", "x greater_zeros select_ones maximum_ones -> y"),
        _function("Cos", "input"),
        Operator("Div", "x1 x2 -> y"),
        Operator("Floor", "x -> y", (), Aclnn("aclnnFloor", in_place=True)),
        Operator("FusedMulAdd", "x1 x2 x3 -> y"),
        Operator("FusedMulAddAdd", "x1 x2 x3 x4 -> y"),
        Operator("FusedMulAddN", _THREE, (), Aclnn("aclnnFusedMulAddN", _THREE)),
        Operator("Log", "x -> y", _POWER, Aclnn("aclnnLog", in_place=True, floating=True,
            rules="hicann/ops-math math/log/docs/aclnnLog&aclnnInplaceLog.md")),
        _function("Log1p"),
        Operator("Maximum", "x1 x2 -> y", (), Aclnn("aclnnMaximum", _TWO, promoted=True,
            rules=page("ops-math math/maximum", "Maximum"))),
        Operator("MaximumGrad", "grads x1 x2 -> y1 y2", _ASKED),
        Operator("Minimum", "x1 x2 -> y", (), Aclnn("aclnnMinimum", _TWO, promoted=True)),
        Operator("MinimumGrad", "grads x1 x2 -> y1 y2", _ASKED),
        Operator("Mul", "x1 x2 -> y", (), Aclnn("aclnnMul", _TWO, in_place=True, promoted=True,
            rules=page("ops-math math/mul", "Mul", "InplaceMul"))),
        Operator("Muls", "x -> y", _VALUE,
            Aclnn("aclnnMuls", attributes=(scalar("other"),), in_place=True, host="host:muls",
                checks=_STORED_NUMBER,
                rules=page("ops-math math/muls", "Muls", "InplaceMuls"))),
        Operator("Neg", "x -> y", (), Aclnn("aclnnNeg", in_place=True)),
        _of_two("Pow", _scalar_first("PowScalarTensor"),
            Aclnn("aclnnPowTensorTensor", "self exponent -> out", promoted=True,
                checks=_NOT_BOTH_BOOL, rules=_TO_TENSORS),
            Aclnn("aclnnInplacePowTensorTensor", "self exponent -> self", promoted=True,
                checks=_NOT_BOTH_BOOL, rules=_TO_TENSORS)),
        Operator("RealDiv", "x1 x2 -> y", (),
            (Aclnn("aclnnDiv", _TWO, in_place=True, floating=True),
             Aclnn("aclnnRealDiv", _TWO, floating=True))),
        Operator("Reciprocal", "x -> y", (),
            Aclnn("aclnnReciprocal", in_place=True, floating=True), ("Inv",)),
        Operator("Round", "x -> y", (whole("decimals?"),),
            (Aclnn("aclnnRound", in_place=True),
             Aclnn("aclnnRoundDecimals", attributes=(whole("decimals"),), in_place=True))),
        _function("Rsqrt"),
        Operator("Sign", "x -> y", (), Aclnn("aclnnSign", "self -> result")),
        _function("Sin"),
        Operator("Sqrt", "x -> y", (),
            (Aclnn("aclnnSqrt", floating=True,
                rules="hicann/ops-math math/sqrt/docs/aclnnSqrt&aclnnInplaceSqrt.md"),
             Aclnn("aclnnInplaceSqrt", "self -> self", floating=True))),
        Operator("Square", "x -> y", (), Aclnn("aclnnSquare")),
        Operator("Sub", "x1 x2 -> y", (),
            Aclnn("aclnnSub", _TWO, _ALPHA, in_place=True, host="host:sub", checks=_STORED,
                rules=page("ops-math math/sub", "Sub", "InplaceSub"))),
    ),
    comparison=(
        _comparison("Equal", "Eq", "equal"),
        _comparison("Greater", "Gt", "greater"),
        _comparison("GreaterEqual", "Ge", "greater_equal"),
        _comparison("Less", "Lt", "less"),
        _comparison("LessEqual", "Le", "less_equal"),
        Operator("LogicalAnd", "x1 x2 -> y", (),
            Aclnn("aclnnLogicalAnd", _TWO, in_place=True, host="host:logical_and")),
        Operator("LogicalNot", "x -> y", (),
            Aclnn("aclnnLogicalNot", in_place=True, host="host:logical_not")),
        Operator("LogicalOr", "x1 x2 -> y", (),
            Aclnn("aclnnLogicalOr", _TWO, in_place=True, host="host:logical_or")),
        _comparison("NotEqual", "Ne", "not_equal"),
        Operator("Select", "condition x1 x2 -> y"),
        Operator("SelectV2", "condition then else -> result", (),
            Aclnn("aclnnSWhere", "condition self other -> out",
                checks=((storable, ("self", "other"), (">",)),),
                rules=page("ops-math math/select", "SWhere")), kernel="Select"),
    ),
    trigonometry=(
        _function("Acos", "input"),
        _function("Acosh"),
        _function("Asin"),
        _function("Asinh", "input"),
        _function("Atan", "input"),
        _of_two("Atan2", _tensor("Atan2", floating=True)),
        _function("Atanh", "input"),
        _function("Cosh"),
        _function("Sinh"),
        _function("Tan"),
    ),
    special=(
        _function("Erf"),
        _function("Erfc"),
        _function("Erfinv", x="input_x", y="output_y"),
        _function("Expm1"),
        Operator("LogAddExp", "x1 x2 -> y", (real("base?"),),
            Aclnn("aclnnLogAddExp", _TWO, floating=True)),
        Operator("Xlog1py", "x1 x2 -> y", (), Aclnn("aclnnXlog1py", "x y -> z", floating=True)),
        _of_two("Xlogy", _tensor("XLogYTensor", floating=True),
            _scalar("XLogYScalarOther", floating=True),
            _scalar_first("XLogYScalarSelf", floating=True)),
    ),
    quotients=(
        _of_two("FloorDiv", _tensor("FloorDivide"), _scalar("FloorDivides")),
        _of_two("FloorMod", _tensor("RemainderTensorTensor"), _scalar("RemainderTensorScalar"),
            _scalar_first("RemainderScalarTensor")),
        _of_two("Mod", _tensor("FmodTensor"), _scalar("FmodScalar")),
        Operator("Trunc", "input_x -> output_y", (), Aclnn("aclnnTrunc", in_place=True)),
        Operator("TruncateDiv", "x1 x2 -> y"),
    ),
    triangles=(
        Operator("Tril", "x -> y", _DIAGONAL, Aclnn("aclnnTril", "self -> out", _WANTED, True,
            checks=_ONE_DTYPE,
            rules="hicann/ops-math conversion/tril/docs/aclnnTril&aclnnInplaceTril.md"),
            kernel="tril", infer=like, checks=_MATRICES),
        Operator("Triu", "x -> y", _DIAGONAL, Aclnn("aclnnTriu", "self -> out", _WANTED, True,
            checks=_ONE_DTYPE,
            rules="hicann/ops-math conversion/triu/docs/aclnnTriu&aclnnInplaceTriu.md"),
            kernel="triu", infer=like, checks=_MATRICES),
    ),
    bits=(
        _of_two("BitwiseAnd", _tensor("BitwiseAndTensor"), _scalar("BitwiseAndScalar")),
        _of_two("BitwiseOr", _tensor("BitwiseOrTensor"), _scalar("BitwiseOrScalar")),
        _of_two("BitwiseXor", _tensor("BitwiseXorTensor"), _scalar("BitwiseXorScalar")),
        Operator("Invert", "x -> y", (), Aclnn("aclnnBitwiseNot"), kernel="invert"),
        Operator("LeftShift", "x y -> z", (),
            (Aclnn("aclnnLeftShift", "self shiftBits -> out", promoted=True),
             Aclnn("aclnnLeftShifts", attributes=(scalar("shiftBits", "y"),), promoted=True)),
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
            Aclnn("aclnnNanToNum", attributes=_INSTEAD, in_place=True, host="host:nan_to_num")),
    ),
    blends=(
        Operator("Addcdiv", "input_data x1 x2 value -> y", (), _weighed("Addcdiv")),
        Operator("Addcmul", "input_data x1 x2 value -> y", (), _weighed("Addcmul")),
        Operator("Axpy", "x1 x2 -> y", (real("alpha?"),)),
        Operator("AxpyV2", "x1 x2 alpha -> y"),
        Operator("ClipByValueV2", "x clip_value_min clip_value_max -> y", (),
            (Aclnn("aclnnClampTensor", "self clipValueMin? clipValueMax? -> out", promoted=True,
                rules=page("ops-math conversion/clip_by_value_v2", "ClampTensor")),
             Aclnn("aclnnClampMinTensor", "self clipValueMin -> out", in_place=True, promoted=True),
             Aclnn("aclnnClampMaxTensor", "self max -> out", host="host:clamp_max", in_place=True),
             Aclnn("aclnnClamp", attributes=_EITHER, promoted=True,
                rules=page("ops-math conversion/clip_by_value_v2", "Clamp")),
             Aclnn("aclnnHardtanh", attributes=_LIMITS, promoted=True, in_place=True),
             Aclnn("aclnnClampMin", attributes=_LIMITS[:1], promoted=True),
             Aclnn("aclnnClampMax", attributes=_LIMITS[1:], promoted=True, in_place=True)),
            checks=(_BROADCAST, (not_all_null, "clip_value_min", "clip_value_max"))),
        Operator("Lerp", "start end weight -> y", (),
            (Aclnn("aclnnLerp", "self end weight -> out", in_place=True, promoted=True),
             Aclnn("aclnnLerps", "self end -> out", (scalar("weight"),), True, promoted=True))),
        Operator("MaskedFill", "x mask value -> y", (),
            (Aclnn("aclnnInplaceMaskedFillTensor", "selfRef mask value -> selfRef",
                host="host:masked_fill", checks=_FILLED,
                rules=page("ops-math conversion/masked_fill", "InplaceMaskedFillTensor")),
             Aclnn("aclnnInplaceMaskedFillScalar", "selfRef mask -> selfRef", (scalar("value"),),
                host="host:masked_fill", checks=((storable, (), (">",), ("value",)),),
                rules=page("ops-math conversion/masked_fill", "InplaceMaskedFillScalar")))),
    ),
    host=(
        Composed("aclnnArange", "-> out", _RANGE, "arranged", checks=_LEADS,
            rules=page("ops-math math/range", "Arange")),
        Composed("aclnnLinspace", "-> out", (scalar("start"), scalar("end"), whole("steps")),
            "spaced", checks=((attribute_at_least, "steps", 0), (elements, "steps", "out")),
            rules=page("ops-math math/lin_space", "Linspace")),
        Composed("aclnnRange", "-> out", _RANGE, "arranged_through", checks=_LEADS),
        Composed("aclnnSubs", "self -> out", (scalar("other"), *_ALPHA), "subs", in_place=True,
            checks=(_ALIKE, *_WEIGHED_NUMBER),
            rules=page("ops-math math/sub", "Subs", "InplaceSubs")),
        Composed("aclnnDivMod", _TWO, _MODE, "divide", in_place=True, checks=(_BROADCAST_TWO,)),
        Composed("aclnnDivMods", "self -> out", (scalar("other"), *_MODE), "divide", in_place=True),
        Composed("aclnnDivs", "self -> out", (scalar("other"),), "divide", in_place=True),
        Composed("aclnnDropoutBackward", "gradOutput mask -> out", (real("scale"),),
            "dropped_gradient",
            checks=((zero_or_from, "scale", 1), (bits_of, "gradOutput", "mask"))),
        Composed("aclnnDropoutDoMask", "self mask -> out", (real("prob"),), "dropped",
            checks=((between, "prob", 0, 1), (bits_of, "self", "mask"))),
        Composed("aclnnEqual", _TWO, (), "equal"),
        Composed("aclnnExp2", "self -> out", (), "exp2", in_place=True, checks=(_SAME,)),
        Composed("aclnnFrac", "input -> out", (), "frac"),
        Composed("aclnnInplaceFrac", "inputRef -> inputRef", (), "frac"),
        Composed("aclnnInplaceFillScalar", "selfRef -> selfRef", (scalar("value"),), "filled",
            rules=page("ops-math conversion/fill", "InplaceFillScalar")),
        Composed("aclnnInplaceFillTensor", "selfRef value -> selfRef", (), "filled",
            checks=((rank_in, (0, 1), "value"), (one_element, "value")),
            rules=page("ops-math conversion/fill", "InplaceFillTensor")),
        Composed("aclnnInplaceOne", "selfRef -> selfRef", (), "ones",
            rules="hicann/ops-math math/ones_like/docs/aclnnInplaceOne.md"),
        Composed("aclnnInplaceZero", "selfRef -> selfRef", (), "zeros",
            rules="hicann/ops-math math/zero_op/docs/aclnnInplaceZero.md"),
        Composed("aclnnIsInScalarTensor", "testElements -> out", (scalar("element"), *_IS_IN),
            "number_is_in"),
        Composed("aclnnIsInTensorScalar", "element -> out",
            (scalar("testElement", "number"), *_IS_IN), "is_in_number"),
        Composed("aclnnLog2", "self -> out", (), "log2", in_place=True, checks=(_SAME,)),
        Composed("aclnnLog10", "self -> out", (), "log10", in_place=True, checks=(_SAME,)),
        Composed("aclnnLogAddExp2", _TWO, (), "log_add_exp2", checks=(_BROADCAST_TWO,)),
        Composed("aclnnLogicalXor", _TWO, (), "logical_xor", checks=(_BROADCAST_TWO,)),
        Composed("aclnnMaxN", "tensors* -> out", (), "largest"),
        Composed("aclnnMinN", "tensors* -> out", (), "smallest"),
        Composed("aclnnPowTensorScalar", "self -> out", (scalar("exponent"),), "power",
            checks=(_SAME, *_POWERS), rules=_TO_NUMBERS),
        Composed("aclnnInplacePowTensorScalar", "self -> self", (scalar("exponent"),), "power",
            checks=_POWERS, rules=_TO_NUMBERS),
        Composed("aclnnRsub", _TWO, _ALPHA, "subtracted_from",
            checks=(_BROADCAST_TWO, *_STORED)),
        Composed("aclnnRsubs", "self -> out", (scalar("other"), *_ALPHA), "subtracted_from",
            checks=(_SAME, *_WEIGHED_NUMBER)),
        Composed("aclnnSignbit", "self -> out", (), "sign_bit", checks=(_SAME,)),
        Composed("aclnnSinc", "self -> out", (), "sinc", in_place=True, checks=(_SAME,)),
    ),
    fills=(
        Operator("AtomicAddrClean"),
        Operator("Fill", "- value? -> y", (ints("dims?"),), infer=filled,
            checks=((needs, "dims", "y"), (attribute_at_least, "dims", 0), (one_element, "value"))),
        Operator("MemSet", kernel="ZerosLike"),
        Operator("LinSpace", "start stop num -> output",
            checks=((needs, "output"), (one_element, "start", "stop", "num"))),
        Operator("NPUAllocFloatStatus", "-> data", kernel="ZerosLike"),
        Operator("NPUClearFloatStatus", "addr -> data", infer=like),
        Operator("NPUGetFloatStatus", "addr -> data", infer=like),
        Operator("OnesLike", "x -> y", infer=like),
        Operator("Range", "start limit delta -> y",
            checks=((needs, "y"), (one_element, "start", "limit", "delta"))),
        Operator("ZerosLike", "x -> y", infer=like),
    ),
    fusion=(Operator("AutomaticBufferFusionOp", kernel="unnamed_kernel"),),
    along_axis=(
        Operator("FakeQuantAffineCachemask", "x scale zero_point -> y mask",
            (whole("axis"), whole("quant_min?"), whole("quant_max?")), checks=((needs, "y"),)),
        Operator("Modulate", "x scale? shift? -> y", infer=like, checks=()),
        Operator("Quantize", "x scales zero_points? -> y", (whole("axis?"),),
            checks=((needs, "y"),)),
        Operator("Scale", "x scale bias? -> y",
            (whole("axis?"), whole("num_axes?", None), flag("scale_from_blob?", None)), infer=like,
            checks=()),
    ),
    masks=(
        Operator("DropOutDoMask", "x mask keep_prob -> y", also=("DropoutDoMask",), infer=like,
            checks=((bits_of, "x", "mask"), (one_element, "keep_prob"))),
    ),
    moves=(
        Operator("Assign", "ref value -> ref"),
        Operator("TensorMove", "x -> y", (), Aclnn("aclnnTensorMove", "x -> y"), infer=like),
    ),
    composed=(
        Operator("Exp", "x -> y", _POWER,
            Aclnn("aclnnExp", in_place=True, floating=True,
                rules="hicann/ops-math math/exp/docs/aclnnExp&aclnnInplaceExp.md"), kernel="exp"),
        Operator("MaskedScale", "x mask -> y", (real("value?", "scale"),), kernel="masked_scale"),
    ),
)
