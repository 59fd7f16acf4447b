"""Quantised tensors: made from numbers, row by row or by given scales, and turned back."""

from npusim.operators.checks import (
    attribute_at_least,
    attribute_in,
    rank_in,
    rank_is,
    same_dtype,
    same_shape,
)
from npusim.operators.conditions import coded, on, unsure, when_in
from npusim.operators.definition import (
    Aclnn,
    Composed,
    Operator,
    family,
    flag,
    flags,
    real,
    text,
    whole,
)
from npusim.operators.norm_checks import rows_of
from npusim.operators.shape_checks import axes_in, broadcast, fits, needs, one_element
from npusim.ops.quant.checks import (
    halves_fit,
    line_or_one,
    mode_known,
    one_for_each,
    one_or_alike,
)
from npusim.ops.quant.pages import (
    bytes_made,
    dtype_is,
    gated_row,
    grouped_lines,
    line_along,
    needed_by_sums,
    only_of_sums,
    packed_alike,
    scales_packed,
    short_rows,
)
from npusim.ops.quant.results import bytes_and_scales
from npusim.values.status import StatusCode

_EPSILON = real("epsilon?")
_EPS = real("epsilon")  # in C nothing is left out
_TYPE = whole("dst_type?", None)
_INT8 = whole("dstType", only=2)  # aclDataType
_MODES = (flag("activate_left?"), text("quant_mode?"))
_GATE = (flag("activateLeft", "activate_left"), text("quantModeOptional?", "quant_mode"))
_SQRT = flag("sqrtMode", "sqrt_mode")
_ROUND = text("roundMode?", None)
_ROWS = "*rows row"
_NORMAL = ("x1", _ROWS, "x2", _ROWS, "gamma", "row")
_POSITIVE = (attribute_at_least, "epsilon", 0)
_PAGES = "hicann/ops-nn quant"
_LITTLE, _OLD = ("310P",), ("310P", "910")
_KINDS = (2, 3, 29)  # aclDataType: INT8, INT32 for packed ones, INT4
# Tilings refuse other rows there, and the host code finds nothing made.
_ROWS_OF_32 = (on, _OLD, (coded, StatusCode.ACLNN_ERR_INNER_NULLPTR,
    (fits, "x", "*rows row", {"within": {"row": range(0, 1 << 31, 32)}})))  # fmt: skip
_DYNAMIC = ((same_dtype, "x", "smooth_scales"), (packed_alike, "x", "y"), _ROWS_OF_32,
    (unsure, (bytes_made, "y")))  # fmt: skip
_DYNAMIC_LATER = ((attribute_in, "dstType", _KINDS), (dtype_is, "dstType", "yOut"),
    (on, _OLD, (attribute_in, "dstType", (2,))), (same_dtype, "x", "smoothScalesOptional"),
    (fits, "x", "*rows row", "scaleOut", "*rows", "offsetOut", "*rows"),
    (packed_alike, "x", "yOut"),
    (on, ("A2", "A3"), (grouped_lines, "x", "groupIndexOptional", 1024,
        "smoothScalesOptional")))  # fmt: skip
_ROUNDED = (attribute_in, "roundMode", ("round", "ceil", "trunc", "floor"))
_TO = ((attribute_in, "dstType", _KINDS), (on, _LITTLE, (attribute_in, "dstType", (2,))),
    (dtype_is, "dstType", "y"), _ROUNDED, (same_shape, "scale", "offset"),
    (same_dtype, "scale", "offset"))  # fmt: skip
_FROM = ((attribute_in, "dstType", (1, 27)), (dtype_is, "dstType", "y"),
    (same_shape, "scale", "offset"), (same_dtype, "scale", "offset"),
    (line_along, "x", "axis", "scale", {"alone": True}))  # fmt: skip
_TRANS_PARAM = ((one_or_alike, "scale", "offset"), (scales_packed, "scale", "offset", "out"))
_SUMS = ((only_of_sums, "x", "weight_scale", "activation_scale", "bias"),
    (needed_by_sums, "x", "weight_scale"))  # fmt: skip
_GIVEN = "x weight_scale? activation_scale? bias? quant_scale? quant_offset? group_index? -> "
_NAMES = ("weightScaleOptional? activationScaleOptional? biasOptional? quantScaleOptional? "
    "quantOffsetOptional? groupIndexOptional?")  # fmt: skip


def _like_row(x: str, *lines: str) -> tuple[tuple[object, ...], ...]:
    """Lines as long as a row of x, which is as long as the first of them."""
    return ((rows_of, lines[0], x), (same_shape, *lines))


def _like_row_or_one(line: str, *others: str) -> tuple[tuple[object, ...], ...]:
    return ((line_or_one, line, *others),)


# fmt: off
OPERATORS = family(
    "quant",
    ruled=(
        Composed("aclnnDynamicQuantV2",
            "x smoothScalesOptional? groupIndexOptional? -> yOut scaleOut offsetOut?",
            (whole("dstType"),), checks=(*_DYNAMIC_LATER, _ROWS_OF_32),
            rules=f"{_PAGES}/dynamic_quant_v2 (docs, op_api)"),
        Composed("aclnnSwiGluQuantV2",
            "x smoothScalesOptional? offsetsOptional? groupIndexOptional? -> yOut scaleOut",
            (flag("activateLeft"), text("quantModeOptional?"), whole("groupListType"),
             whole("dstType")),
            checks=((mode_known, "quantModeOptional"), (attribute_in, "groupListType", (0, 1)),
                (attribute_in, "dstType", (2, 29)), (dtype_is, "dstType", "yOut"),
                (gated_row, "x", "yOut"), (halves_fit, "x", "yOut", "scaleOut",
                    ("smoothScalesOptional", "offsetsOptional"), (), "",
                    {"groups": ("groupIndexOptional",)}))),
    ),
    rows=(
        Operator("DynamicQuant", "x smooth_scales? -> y scale", (_TYPE,),
            Aclnn("aclnnDynamicQuant", "x smoothScalesOptional? -> yOut scaleOut",
                checks=_DYNAMIC, rules=f"{_PAGES}/dynamic_quant (docs, op_api)"),
            infer=bytes_and_scales,
            checks=((fits, "x", _ROWS, "smooth_scales", "row", "scale", "*rows"),)),
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
    norms=(
        Operator("LayerNormQuant", "x gamma beta scale? zero_points? -> res scale_out",
            (whole("quant_mode?"), _EPSILON),
            checks=((fits, "x", _ROWS, "gamma", "row", "beta", "row", "scale", "row",
                "zero_points", "row", "res", _ROWS), _POSITIVE)),
        Operator("AddLayerNormQuant",
            "x1 x2 gamma beta bias? scales1? scales2? zero_points1? zero_points2? -> "
            "y1 y2 x y out_scales1 out_scales2",
            (_EPSILON, flag("dynamic?"), flag("div_mode?")), checks=((fits, *_NORMAL,
                "beta", "row", "bias", "row", "scales1", "row", "scales2", "row",
                "zero_points1", "row", "zero_points2", "row"), _POSITIVE)),
        Operator("RmsNormQuant", "x gamma beta scale offset? -> y", (_EPSILON,),
            checks=((fits, "x", _ROWS, "gamma", "row", "beta", "row", "scale", "row",
                "offset", "row", "y", _ROWS), _POSITIVE)),
        Operator("RmsNormDynamicQuant", "x gamma smooth_scales? beta? -> y scale", (_EPSILON,),
            Aclnn("aclnnRmsNormDynamicQuant",
                "x gamma smoothScalesOptional? betaOptional? -> yOut scaleOut",
                (_EPSILON, whole("dstType", only=2))),
            checks=((fits, "x", _ROWS, "gamma", "row", "smooth_scales", "row", "beta", "row",
                "y", _ROWS), _POSITIVE)),
        Operator("AddRmsNormDynamicQuantV2",
            "x1 x2 gamma smooth_scale1? smooth_scale2? beta? -> y1 y2 x scale1 scale2",
            (_EPSILON,), checks=((fits, *_NORMAL, "smooth_scale1", "row", "smooth_scale2", "row",
                "beta", "row"), _POSITIVE)),
        Operator("AddRmsNormQuantV2",
            "x1 x2 gamma scales1 scales2? zero_points1? zero_points2? beta? -> y1 y2 x norm",
            (_EPSILON, flag("div_mode?")), checks=((fits, *_NORMAL, "scales1", "row",
                "scales2", "row", "zero_points1", "row", "zero_points2", "row", "beta", "row"),
                _POSITIVE)),
    ),
    packed=(
        Operator("TransQuantParamV2", "scale offset? -> y", (whole("round_mode?"),),
            kernel="TransQuantParam", checks=((needs, "y"), (one_or_alike, "scale", "offset"))),
        Operator("GroupQuant", "x scale group_index offset? -> y", (), kernel="group_quant",
            checks=((needs, "y"), (fits, "x", "n row", "scale", "g row", "group_index", "g",
                "offset", "1", "y", "n row"))),
    ),
    host=(
        Composed("aclnnLayerNormQuant",
            "x gammma beta scale zeroPointsOptional? -> res scaleOut?",
            (whole("quantMode", "quant_mode"), _EPS), "layer_norm_quant",
            checks=(*_like_row("x", "gammma", "beta"),
                *_like_row_or_one("gammma", "scale", "zeroPointsOptional"), _POSITIVE)),
        Composed("aclnnRmsNormQuant", "x gamma beta scale offset -> y", (_EPS,),
            "rms_norm_quant", checks=(*_like_row("x", "gamma", "beta"),
                *_like_row_or_one("gamma", "scale", "offset"), _POSITIVE)),
        *(Composed(name, "x1 x2 gamma beta biasOptional? scales1Optional? scales2Optional? "
            "zeroPoints1Optional? zeroPoints2Optional? -> "
            f"y1Out y2Out? xOut{more} outScales1Out? outScales2Out?",
            (text("quantMode", "mode"), _EPS, flag("additionalOutput", "additional"), *last),
            host, checks=((same_shape, "x1", "x2", "y1Out"), *_like_row("x1", "gamma", "beta"),
                *_like_row_or_one("gamma", "scales1Optional", "scales2Optional",
                    "zeroPoints1Optional", "zeroPoints2Optional", "biasOptional"), _POSITIVE))
          for name, more, last, host in (
              ("aclnnAddLayerNormQuantV2", " layernormRes", (flag("divMode", "div_mode"),),
               "add_layer_norm_quant"),)),
        Composed("aclnnAdaLayerNormQuant",
            "x scale shift weightOptional? biasOptional? smoothScalesOptional? -> "
            "out quantScale quantOffsetOptional?", (_EPS, text("quantMode", "mode")),
            "ada_layer_norm_quant", checks=((rank_in, (3,), "x"),
                (fits, "x", "b s h", "scale", "b h", "shift", "b h", "weightOptional", "h",
                    "biasOptional", "h", "smoothScalesOptional", "h", "out", "b s h"), _POSITIVE)),
        Composed("aclnnAddRmsNormDynamicQuantV2",
            "x1 x2 gamma smoothScale1Optional? smoothScale2Optional? betaOptional? -> "
            "y1Out y2Out? xOut scale1Out scale2Out?", (_EPS, flags("outputMask?", "mask")),
            "add_rms_norm_dynamic_quant", checks=((fits, *_NORMAL, "smoothScale1Optional", "row",
                "smoothScale2Optional", "row", "betaOptional", "row"), _POSITIVE)),
        Composed("aclnnAddRmsNormQuantV2",
            "x1 x2 gamma scales1 scales2Optional? zeroPoints1Optional? zeroPoints2Optional? "
            "betaOptional? -> y1Out y2Out? xOut rmsNormOut?",
            (whole("axis", only=-1), _EPS, flag("divMode", "div_mode")), "add_rms_norm_quant",
            checks=((fits, *_NORMAL, "betaOptional", "row"), *_like_row_or_one("gamma", "scales1",
                "scales2Optional", "zeroPoints1Optional", "zeroPoints2Optional"), _POSITIVE)),
        Composed("aclnnTransQuantParamV2", "scale offset? -> out", (), "packed_scales",
            checks=_TRANS_PARAM, rules=f"{_PAGES}/trans_quant_param_v2 (docs)"),
        Composed("aclnnTransQuantParamV3", "scale offset? -> out",
            (whole("roundMode", "round_mode"),), "packed_scales",
            checks=(*_TRANS_PARAM, (attribute_in, "roundMode", (0, 1))),
            rules=f"{_PAGES}/trans_quant_param_v2 (docs)"),
        Composed("aclnnFakeQuantPerChannelAffineCachemask", "self scale zeroPoint -> out mask",
            (whole("axis"), whole("quantMin", "least"), whole("quantMax", "most")),
            "fake_quantised", checks=((axes_in, "axis", "self"), (same_shape, "scale", "zeroPoint"),
                (one_for_each, "scale", "self", "axis"))),
        Composed("aclnnFakeQuantPerTensorAffineCachemask", "self scale zeroPoint -> out mask",
            (real("fakeQuantEnbled", "enabled"), whole("quantMin", "least"),
             whole("quantMax", "most")), "fake_quantised",
            checks=((one_element, "scale", "zeroPoint"),)),
        Composed("aclnnQuantize", "x scales zeroPoints? -> out",
            (text("dtype", None), whole("axis")), "quantised",
            checks=((axes_in, "axis", "x"), (same_shape, "scales", "zeroPoints"),
                (one_for_each, "scales", "x", "axis"))),
        Composed("aclnnGroupQuant", "x scale groupIndex offsetOptional? -> y",
            (whole("dstType", only=2),), "grouped_quantised",
            checks=((fits, "x", "n row", "scale", "g row", "groupIndex", "g",
                "offsetOptional", "1", "y", "n row"),)),
    ),
    gated=(
        Operator("SwiGluQuant", "x smooth_scales? offsets? group_index? -> y scale", _MODES,
            Aclnn("aclnnSwiGluQuant",
                "x smoothScalesOptional? offsetsOptional? groupIndexOptional? -> yOut scaleOut",
                _GATE, checks=((gated_row, "x", "y"),)), kernel="swi_glu_quant",
            checks=((mode_known, "quant_mode"), (halves_fit, "x", "y", "scale",
                ("smooth_scales", "offsets"), (), "", {"groups": ("group_index",)}))),
        Operator("DequantSwigluQuant", f"{_GIVEN}y scale", _MODES,
            (Aclnn("aclnnDequantSwigluQuant", f"x {_NAMES} -> yOut scaleOut", _GATE,
                checks=_SUMS),
             Aclnn("aclnnDequantSwigluQuantV2", f"x {_NAMES} -> yOut scaleOut",
                (*_GATE, whole("dstType", only=2), text("roundModeOptional?", None),
                 whole("activateDim", only=-1), whole("swigluMode", only=0),
                 *(real(name, None) for name in ("clampLimit", "gluAlpha", "gluBias"))),
                checks=(*_SUMS, (attribute_in, "dstType", (2,)),
                    (attribute_in, "activateDim", (-1,)), (attribute_in, "swigluMode", (0, 1, 2)),
                    (attribute_in, "roundModeOptional", ("", "rint")), (rank_is, 2, "x"),
                    (rank_is, 1, "group_index"), (short_rows, "x", "group_index")))),
            kernel="dequant_swiglu_quant", checks=((mode_known, "quant_mode"),
                (halves_fit, "x", "y", "scale", ("quant_scale", "quant_offset"),
                    ("weight_scale", "bias"), "activation_scale",
                    {"groups": ("group_index",)}))),
    ),
    elementwise=(
        Operator("AscendQuantV2", "x scale offset? -> y",
            (flag("sqrt_mode?"), text("round_mode?", None), _TYPE, whole("axis?", None)),
            (Aclnn("aclnnAscendQuant", "x scale offset? -> y", (_SQRT, _ROUND, _INT8),
                checks=(*_TO, (line_along, "x", "", "scale"),
                    (when_in, "x", ("FLOAT16", "BFLOAT16"), (same_dtype, "x", "scale"))),
                rules=f"{_PAGES}/ascend_quant_v2 (docs)"),
             Aclnn("aclnnAscendQuantV3", "x scale offset? -> y",
                (_SQRT, _ROUND, _INT8, whole("axis", only=-1)),
                checks=(*_TO, (same_dtype, "x", "scale"),
                    (on, ("A2", "A3"), (line_along, "x", "axis", "scale", {"last": 2})),
                    (on, _LITTLE, (line_along, "x", "axis", "scale"))),
                rules=f"{_PAGES}/ascend_quant_v2 (docs)")),
            checks=((packed_alike, "x", "y"),
                (line_along, "x", "axis", "scale", "offset", {"last": 8}))),
        Operator("AscendAntiQuantV2", "x scale offset? -> y", (_TYPE, flag("sqrt_mode?")),
            Aclnn("aclnnAscendAntiQuant", "x scale offset? -> y",
                (whole("dstType", None), _SQRT), checks=_FROM),
            checks=((broadcast, "y", "x", "scale", "offset"),)),
        Operator("AscendDequant", "x deq_scale -> y",
            (flag("sqrt_mode?"), flag("relu_flag?"), _TYPE),
            checks=((broadcast, "y", "x", "deq_scale"),)),
    ),
)
