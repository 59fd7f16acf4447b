"""Matrix products: MatMul, BatchMatMul, Gemm, and their fusions with what follows."""

from npusim.operators.definition import Attribute, Operator, Page, family, flag
from npusim.ops.matmul.checks import product

_TURNED = (flag("transpose_x1?"), flag("transpose_x2?"))
_TURNED_EACH = (flag("adj_x1?"), flag("adj_x2?"))
_HF32 = flag("enable_hf32?")
_BIASED = "x1 x2 bias? -> y"


def _checked(flags: tuple[Attribute, ...]) -> tuple[tuple[object, ...], ...]:
    return ((product, "x1", "x2", "bias", "y", {"turned": tuple(each.name for each in flags)}),)


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
)
