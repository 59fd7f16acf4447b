"""Quantised tensors: made from numbers, row by row or by given scales, and turned back."""

from npusim.operators.checks import attribute_at_least
from npusim.operators.definition import Aclnn, Operator, family, flag, real, text, whole
from npusim.operators.shape_checks import broadcast, fits
from npusim.ops.quant.checks import halves_fit, mode_known

_EPSILON = real("epsilon?")
_TYPE = whole("dst_type?", None)
_INT8 = whole("dstType", only=2)  # aclDataType
_MODES = (flag("activate_left?"), text("quant_mode?"))
_GATE = (flag("activateLeft", "activate_left"), text("quantModeOptional?", "quant_mode"))
_SQRT = flag("sqrtMode", "sqrt_mode")
_ROUND = text("roundMode?", None)
_ROWS = "*rows row"
_NORMAL = ("x1", _ROWS, "x2", _ROWS, "gamma", "row")
_POSITIVE = (attribute_at_least, "epsilon", 0)
_GIVEN = "x weight_scale? activation_scale? bias? quant_scale? quant_offset? group_index? -> "
_NAMES = ("weightScaleOptional? activationScaleOptional? biasOptional? quantScaleOptional? "
    "quantOffsetOptional? groupIndexOptional?")  # fmt: skip

# fmt: off
OPERATORS = family(
    "quant",
    rows=(
        Operator("DynamicQuant", "x smooth_scales? -> y scale", (_TYPE,),
            Aclnn("aclnnDynamicQuant", "x smoothScalesOptional? -> yOut scaleOut"),
            checks=((fits, "x", _ROWS, "smooth_scales", "row", "y", _ROWS, "scale", "*rows"),)),
        Operator("AddRmsNormDynamicQuant",
            "x1 x2 gamma smooth_scale1? smooth_scale2? -> y1 y2 x scale1 scale2", (_EPSILON,),
            Aclnn("aclnnAddRmsNormDynamicQuant",
                "x1 x2 gamma smoothScale1Optional? smoothScale2Optional? -> "
                "y1Out y2Out xOut scale1Out scale2Out", (_EPSILON,)),
            checks=((fits, *_NORMAL, "smooth_scale1", "row", "smooth_scale2", "row", "y1", _ROWS,
                "y2", _ROWS, "x", _ROWS, "scale1", "*rows", "scale2", "*rows"), _POSITIVE)),
        Operator("AddRmsNormQuant",
            "x1 x2 gamma scales1 scales2? zero_points1? zero_points2? -> y1 y2 x",
            (whole("axis?", None), _EPSILON, flag("div_mode?")),
            Aclnn("aclnnAddRmsNormQuant",
                "x1 x2 gamma scales1 scales2Optional? zeroPoints1Optional? zeroPoints2Optional? "
                "-> y1Out y2Out xOut",
                (whole("axis", only=-1), _EPSILON, flag("divMode", "div_mode"))),
            checks=((fits, *_NORMAL, "scales1", "row", "scales2", "row", "zero_points1", "row",
                "zero_points2", "row", "y1", _ROWS, "y2", _ROWS, "x", _ROWS), _POSITIVE)),
    ),
    gated=(
        Operator("SwiGluQuant", "x smooth_scales? offsets? group_index? -> y scale", _MODES,
            Aclnn("aclnnSwiGluQuant",
                "x smoothScalesOptional? offsetsOptional? groupIndexOptional? -> yOut scaleOut",
                _GATE), kernel="swi_glu_quant", checks=((mode_known, "quant_mode"),
                (halves_fit, "x", "y", "scale", ("smooth_scales", "offsets"), (), ""))),
        Operator("DequantSwigluQuant", f"{_GIVEN}y scale", _MODES,
            Aclnn("aclnnDequantSwigluQuant", f"x {_NAMES} -> yOut scaleOut", _GATE),
            kernel="dequant_swiglu_quant", checks=((mode_known, "quant_mode"),
                (halves_fit, "x", "y", "scale", ("quant_scale", "quant_offset"),
                    ("weight_scale", "bias"), "activation_scale"))),
    ),
    elementwise=(
        Operator("AscendQuantV2", "x scale offset? -> y",
            (flag("sqrt_mode?"), text("round_mode?", None), _TYPE, whole("axis?", None)),
            (Aclnn("aclnnAscendQuant", "x scale offset? -> y", (_SQRT, _ROUND, _INT8)),
             Aclnn("aclnnAscendQuantV3", "x scale offset? -> y",
                (_SQRT, _ROUND, _INT8, whole("axis", only=-1)))),
            checks=((broadcast, "y", "x", "scale", "offset"),)),
        Operator("AscendAntiQuantV2", "x scale offset? -> y", (_TYPE, flag("sqrt_mode?")),
            Aclnn("aclnnAscendAntiQuant", "x scale offset? -> y",
                (whole("dstType", None), _SQRT)),
            checks=((broadcast, "y", "x", "scale", "offset"),)),
        Operator("AscendDequant", "x deq_scale -> y",
            (flag("sqrt_mode?"), flag("relu_flag?"), _TYPE),
            checks=((broadcast, "y", "x", "deq_scale"),)),
    ),
)
