"""Matrix products: MatMul, BatchMatMul, Gemm, and their fusions with what follows."""

_PLAIN = (
    "MatMul", "MatMulV2", "MatMulV3", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Gemm",
)  # fmt: skip
_FUSED = (
    "FusionOp_BatchMatMul_FusedMulAdd", "FusionOp_MatMul_Add", "FusionOp_MatMul_AddN",
    "FusionOp_MatMul_GeLU", "FusionOp_MatMul_GeLUGrad", "FusionOp_MatMul_Gelu",
    "FusionOp_MatMul_GeluGrad", "FusionOp_MatMul_Mul", "FusionOp_MatMul_ReLU",
    "FusionOp_MatMul_Relu", "FusionOp_MatMul_Tanh",
)  # fmt: skip

PROVIDES = {
    "aclnnMatmul": "contract:MATMUL",
    "aclnnMm": "contract:MM",
    "aclnnAddmm": "contract:ADDMM",
    "aclnnBatchMatMul": "contract:BATCH_MATMUL",
    **{name: f"records:{name}" for name in _PLAIN},
    **{name: f"records:{name}" for name in _FUSED},
}
ALIASES = {
    "addmm": "aclnnAddmm",
    "bmm": "aclnnBatchMatMul",
    "matmul": "aclnnMatmul",
    "mm": "aclnnMm",
}
