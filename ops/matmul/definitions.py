"""Matrix products: MatMul, BatchMatMul, Gemm, and their fusions with what follows."""

from npusim.operators.definition import Operator, Page, family, flag

_TURNED = (flag("transpose_x1?"), flag("transpose_x2?"))
_TURNED_EACH = (flag("adj_x1?"), flag("adj_x2?"))
_HF32 = flag("enable_hf32?")
_BIASED = "x1 x2 bias? -> y"

OPERATORS = family(
    "matmul",
    Page("aclnnMatmul", "contract:MATMUL", ("matmul",)),
    Page("aclnnMm", "contract:MM", ("mm",)),
    Page("aclnnAddmm", "contract:ADDMM", ("addmm",)),
    Page("aclnnBatchMatMul", "contract:BATCH_MATMUL", ("bmm",)),
    Operator("MatMul", _BIASED, "records:product", _TURNED, also=("MatMulV2",)),
    Operator("MatMulV3", _BIASED, "records:product", (*_TURNED, _HF32)),
    Operator("BatchMatMul", "x1 x2 -> y", "records:product", _TURNED_EACH),
    Operator("BatchMatMulV2", _BIASED, "records:product", _TURNED_EACH),
    Operator("BatchMatMulV3", _BIASED, "records:product", (*_TURNED_EACH, _HF32)),
    Operator("Gemm", kernel="records:product"),
    Operator(
        "FusionOp_BatchMatMul_FusedMulAdd",
        kernel="records:fused_product",
        also=(
            *("FusionOp_MatMul_Add", "FusionOp_MatMul_AddN", "FusionOp_MatMul_Mul"),
            *("FusionOp_MatMul_Gelu", "FusionOp_MatMul_GeLU"),
            *("FusionOp_MatMul_GeluGrad", "FusionOp_MatMul_GeLUGrad"),
            *("FusionOp_MatMul_Relu", "FusionOp_MatMul_ReLU", "FusionOp_MatMul_Tanh"),
        ),
    ),
)
