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
    Operator("MatMul", _BIASED, "records", _TURNED),
    Operator("MatMulV2", _BIASED, "records", _TURNED),
    Operator("MatMulV3", _BIASED, "records", (*_TURNED, _HF32)),
    Operator("BatchMatMul", "x1 x2 -> y", "records", _TURNED_EACH),
    Operator("BatchMatMulV2", _BIASED, "records", _TURNED_EACH),
    Operator("BatchMatMulV3", _BIASED, "records", (*_TURNED_EACH, _HF32)),
    Operator("Gemm", kernel="records"),
    Operator("FusionOp_BatchMatMul_FusedMulAdd", kernel="records"),
    Operator("FusionOp_MatMul_Add", kernel="records"),
    Operator("FusionOp_MatMul_AddN", kernel="records"),
    Operator("FusionOp_MatMul_Mul", kernel="records"),
    Operator("FusionOp_MatMul_Gelu", kernel="records"),
    Operator("FusionOp_MatMul_GeLU", kernel="records"),
    Operator("FusionOp_MatMul_GeluGrad", kernel="records"),
    Operator("FusionOp_MatMul_GeLUGrad", kernel="records"),
    Operator("FusionOp_MatMul_Relu", kernel="records"),
    Operator("FusionOp_MatMul_ReLU", kernel="records"),
    Operator("FusionOp_MatMul_Tanh", kernel="records"),
)
