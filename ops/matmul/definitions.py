"""Matrix products: MatMul, BatchMatMul, Gemm, quantised ones, and fusions with what follows."""

from npusim.operators.definition import Aclnn, Attribute, Operator, Page, family, flag, whole
from npusim.ops.matmul.checks import product, scales_fit
from npusim.values.dtypes import BFLOAT16, FLOAT, FLOAT16, INT8

_TURNED = (flag("transpose_x1?"), flag("transpose_x2?"))
_TURNED_EACH = (flag("adj_x1?"), flag("adj_x2?"))
_HF32 = flag("enable_hf32?")
_BIASED = "x1 x2 bias? -> y"


def _checked(flags: tuple[Attribute, ...]) -> tuple[tuple[object, ...], ...]:
    return ((product, "x1", "x2", "bias", "y", {"turned": tuple(each.name for each in flags)}),)


_SAID = (flag("transposeX1", "transpose_x1"), flag("transposeX2", "transpose_x2"))
_SCALED = (
    *_checked(_TURNED),
    (scales_fit, "x1", "x2", "y", "scale", "bias", "pertoken_scale"),
)
_WIDENED = ((product, "x", "weight", "bias", "y", {"turned": ("transpose_x", "transpose_weight")}),)
# As its second version, which goes by this name in profiles.
_WIDENED_DTYPES = dict.fromkeys(("A2", "A3"), (FLOAT16, BFLOAT16, INT8, FLOAT))

# fmt: off
OPERATORS = family(
    "matmul",
    Page("aclnnMatmul", "contract:MATMUL", ("matmul",)),
    Page("aclnnMm", "contract:MM", ("mm",)),
    Page("aclnnAddmm", "contract:ADDMM", ("addmm",)),
    Page("aclnnBatchMatMul", "contract:BATCH_MATMUL", ("bmm",)),
    fused="records:fused_product",
    records=(
        Operator("MatMul", _BIASED, _TURNED, also=("MatMulV2",), kernel="product",
            checks=_checked(_TURNED)),
        Operator("MatMulV3", _BIASED, (*_TURNED, _HF32), kernel="product",
            checks=_checked(_TURNED)),
        Operator("BatchMatMul", "x1 x2 -> y", _TURNED_EACH, kernel="product",
            checks=_checked(_TURNED_EACH)),
        Operator("BatchMatMulV2", _BIASED, _TURNED_EACH, kernel="product",
            checks=_checked(_TURNED_EACH)),
        Operator("BatchMatMulV3", _BIASED, (*_TURNED_EACH, _HF32), kernel="product",
            checks=_checked(_TURNED_EACH)),
        Operator("Gemm", kernel="product"),
    ),
    grouped_calls=(
        Operator("GroupedMatmul", "x weight bias? scale? offset? antiquant_scale? "
            "antiquant_offset? group_list? per_token_scale? -> y",
            (flag("transpose_x?"), flag("transpose_weight?"), whole("group_type?"),
             whole("group_list_type?")), kernel="grouped_matmul", checks=(
), band_class="grouped_matmul"),
    ),
    grouped_swiglu=(
        Operator("GroupedMatmulSwigluQuant",
            "x weight weight_scale x_scale group_list? -> y y_scale", (),
            Aclnn("aclnnGroupedMatmulSwigluQuant",
                "x weight weightScale xScale groupList biasOptional? offsetOptional? -> "
                "output outputScale outputOffset?"),
            also=("GroupedMatmulSwigluQuantV2",), kernel="grouped_matmul_swiglu_quant", checks=(),
            band_class="grouped_matmul"),
    ),
    weight_quant=(
        Operator("WeightQuantBatchMatmulV2",
            "x weight antiquant_scale antiquant_offset? quant_scale? quant_offset? bias? -> y",
            (flag("transpose_x?"), flag("transpose_weight?"),
             whole("antiquant_group_size?", only=0)),
            Aclnn("aclnnWeightQuantBatchMatmulV2",
                "x weight antiquantScale antiquantOffsetOptional? quantScaleOptional? "
                "quantOffsetOptional? biasOptional? -> y",
                (whole("antiquantGroupSize", only=0),)),
            kernel="weight_quant_batch_matmul_v2", checks=_WIDENED,
            band_class="weight_quant_matmul"),
        Operator("WeightQuantBatchMatmul",
            "x weight antiquant_scale antiquant_offset? bias? -> y",
            (flag("transpose_x?"), flag("transpose_weight?")),
            kernel="weight_quant_batch_matmul", checks=_WIDENED, dtypes=_WIDENED_DTYPES,
            band_class="weight_quant_matmul"),
    ),
    quantised=(
        Operator("QuantBatchMatmulV3", "x1 x2 scale offset? bias? pertoken_scale? -> y",
            (whole("dtype?", None), *_TURNED),
            Aclnn("aclnnQuantMatmulV4",
                "x1 x2 scale offset? bias? pertokenScaleOptional? -> out", _SAID),
            kernel="quant_batch_matmul", checks=_SCALED, band_class="quant_matmul"),
        Operator("QuantMatmul", "x1 x2 scale offset? pertoken_scale? bias? -> y", _TURNED,
            checks=_SCALED, kernel="quant_matmul", band_class="quant_matmul"),
    ),
)
