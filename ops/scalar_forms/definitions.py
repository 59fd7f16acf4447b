"""Interfaces of elementwise operators with a number in the place of a tensor, and in place."""

from npusim.operators.checks import same_shape
from npusim.operators.definition import Composed, family, scalar, whole
from npusim.operators.shape_checks import broadcast, one_element

_OTHER = (scalar("other"),)
_ALPHA = scalar("alpha?")
_MODE = whole("mode")
_RANGE = (scalar("start"), scalar("end"), scalar("step"))
_TWO = "self other -> out"
_SPREAD = ((broadcast, ">", "<"),)
_ALIKE = ((same_shape, "<", ">"),)


def _with_number(name: str, op_type: str) -> Composed:
    """``aclnnNameScalar(self, other)`` and in place."""
    return Composed(f"aclnn{name}", "self -> out", _OTHER, op_type, in_place=True, checks=_ALIKE)


def _in_place(name: str, op_type: str) -> Composed:
    """``aclnnInplaceName(selfRef, other)`` on two tensors."""
    return Composed(f"aclnnInplace{name}", "selfRef other -> selfRef", (), op_type, checks=_SPREAD)


_THREE = "self tensor1 tensor2 -> out"
_LOW, _HIGH = scalar("clipValueMin?", "low"), scalar("clipValueMax?", "high")
_WITH_NUMBER = {
    "FloorDivides": "FloorDiv", "FmodScalar": "Mod", "RemainderTensorScalar": "FloorMod",
    "BitwiseAndScalar": "BitwiseAnd", "BitwiseOrScalar": "BitwiseOr",
    "BitwiseXorScalar": "BitwiseXor", "XLogYScalarOther": "Xlogy",
}  # fmt: skip
_COMPARED = {
    "Eq": "Equal", "Ge": "GreaterEqual", "Gt": "Greater", "Le": "LessEqual", "Lt": "Less",
    "Ne": "NotEqual",
}  # fmt: skip

# fmt: off
OPERATORS = family(
    "elementwise",
    host=(
        *(_with_number(f"{name}Scalar", op) for name, op in _COMPARED.items()),
        *(_in_place(f"{name}Tensor", op) for name, op in _COMPARED.items()),
        *(_with_number(name, op) for name, op in _WITH_NUMBER.items()),
        Composed("aclnnLeftShifts", "self -> out", (scalar("shiftBits", "other"),), "LeftShift",
            checks=_ALIKE),
        Composed("aclnnRemainderScalarTensor", "other -> out", (scalar("self", "first"),),
            "FloorMod", checks=_ALIKE),
        Composed("aclnnXLogYScalarSelf", "other -> out", (scalar("self", "first"),), "Xlogy",
            checks=_ALIKE),
        Composed("aclnnLogAddExp2", _TWO, (), "log_add_exp2", checks=_SPREAD),
        Composed("aclnnLerps", "self end -> out", (scalar("weight"),), "lerped", in_place=True,
            checks=_SPREAD),
        Composed("aclnnAddcmul", _THREE, (scalar("value"),), "addcmul", in_place=True,
            checks=_SPREAD),
        Composed("aclnnAddcdiv", _THREE, (scalar("value"),), "addcdiv", in_place=True,
            checks=_SPREAD),
        Composed("aclnnClamp", "self -> out", (_LOW, _HIGH), "clamped", checks=_ALIKE),
        Composed("aclnnHardtanh", "self -> out", (_LOW, _HIGH), "clamped", in_place=True,
            checks=_ALIKE),
        Composed("aclnnClampMin", "self -> out", (_LOW,), "clamped", checks=_ALIKE),
        Composed("aclnnClampMax", "self -> out", (_HIGH,), "clamped", in_place=True,
            checks=_ALIKE),
        Composed("aclnnClampMinTensor", "self clipValueMin -> out", (), "at_least",
            in_place=True, checks=_SPREAD),
        Composed("aclnnClampMaxTensor", "self max -> out", (), "at_most", in_place=True,
            checks=_SPREAD),
        Composed("aclnnInplaceMaskedFillScalar", "selfRef mask -> selfRef", (scalar("value"),),
            "masked_fill", checks=_SPREAD),
        Composed("aclnnPowTensorScalar", "self -> out", (scalar("exponent", "other"),), "Pow",
            checks=_ALIKE),
        Composed("aclnnInplacePowTensorScalar", "self -> self", (scalar("exponent", "other"),),
            "Pow"),
        Composed("aclnnInplacePowTensorTensor", "self exponent -> self", (), "Pow",
            checks=_SPREAD),
        Composed("aclnnPowScalarTensor", "exponent -> out", (scalar("self", "first"),), "Pow",
            checks=_ALIKE),
        Composed("aclnnExp2", "self -> out", (), "power_of_two", in_place=True, checks=_ALIKE),
        Composed("aclnnLog2", "self -> out", (), "log2", in_place=True, checks=_ALIKE),
        Composed("aclnnLog10", "self -> out", (), "log10", in_place=True, checks=_ALIKE),
        Composed("aclnnDivs", "self -> out", _OTHER, "divided", in_place=True, checks=_ALIKE),
        Composed("aclnnDivMod", _TWO, (_MODE,), "divided", in_place=True, checks=_SPREAD),
        Composed("aclnnDivMods", "self -> out", (*_OTHER, _MODE), "divided", in_place=True,
            checks=_ALIKE),
        Composed("aclnnSubs", "self -> out", (*_OTHER, _ALPHA), "subtracted", in_place=True,
            checks=_ALIKE),
        Composed("aclnnRsub", _TWO, (_ALPHA,), "subtracted_from", checks=_SPREAD),
        Composed("aclnnRsubs", "self -> out", (*_OTHER, _ALPHA), "subtracted_from", checks=_ALIKE),
        Composed("aclnnLogicalXor", _TWO, (), "exclusive_or", checks=_SPREAD),
        Composed("aclnnSignbit", "self -> out", (), "is_negative", checks=_ALIKE),
        Composed("aclnnSinc", "self -> out", (), "sinc", in_place=True, checks=_ALIKE),
        Composed("aclnnMaxN", "tensors* -> out", (), "maximum_of", checks=_SPREAD),
        Composed("aclnnMinN", "tensors* -> out", (), "minimum_of", checks=_SPREAD),
        Composed("aclnnInplaceFillScalar", "selfRef -> selfRef", (scalar("value"),), "filled"),
        Composed("aclnnInplaceFillTensor", "selfRef value -> selfRef", (), "filled",
            checks=((one_element, "value"),)),
        Composed("aclnnInplaceZero", "selfRef -> selfRef", (), "zeros"),
        Composed("aclnnInplaceOne", "selfRef -> selfRef", (), "ones"),
        Composed("aclnnArange", "-> out", _RANGE, "arranged"),
        Composed("aclnnRange", "-> out", _RANGE, "arranged"),
        Composed("aclnnLinspace", "-> out", (scalar("start"), scalar("end"), whole("steps")),
            "spaced"),
    ),
)
