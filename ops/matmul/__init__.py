"""Matrix products: MatMul, BatchMatMul, Gemm, and their fusions with what follows."""
