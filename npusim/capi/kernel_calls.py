"""What launches of kernels in C++ tell the simulator, and what it finds when they have run."""

from __future__ import annotations

# One structure for every instruction, lists of them with loops, and the launch itself. `kind` of a
# job is -1 on cores that are both, 0 on vector cores, 1 on cube cores and 2 on both, `vectors` of
# which belong to a cube core. `at_once` blocks find a core each. Without `products` the cube
# computes no numbers. An entry with a count is a loop over the body that `symbol` numbers.
JOB = """
typedef struct npusim_symbol {
    const char *intrinsic;
    const char *name;
    const char *file;
    int32_t line;
    int32_t kind;
    int32_t pipe;
    int32_t dtype;
    int64_t number[8];
} npusim_symbol_t;

typedef struct npusim_entry {
    uint32_t symbol;
    uint32_t count;
} npusim_entry_t;

typedef struct npusim_job {
    uintptr_t body;
    uintptr_t context;
    int32_t kind;
    int32_t blocks;
    int32_t vectors;
    int32_t buffers;
    int32_t at_once;
    int32_t products;
    uint64_t most_instructions;
    int64_t most_seconds;
    int64_t memory[7];
    const uint64_t *addresses;
    const uint64_t *sizes;
    const uint64_t *contents;
    uint8_t *touched;
    uint64_t *footprint;
    int32_t cores;
    int32_t line;
    const npusim_symbol_t *symbols;
    int64_t symbol_count;
    const npusim_entry_t *entries;
    const int64_t *starts;
    int64_t bodies;
    const uint32_t *roots;
    const char *message;
    const char *remedy;
    const char *file;
} npusim_job_t;
"""

LAUNCH = (
    "int npusim_kernel_launch(const char *name, int kind, uint32_t blocks, uintptr_t stream,"
    " uintptr_t play, uintptr_t body, uintptr_t drop, uintptr_t context);"
)
# What hosts ask: numbers of the chip, and the blocks of a matrix product.
CHIP = "int64_t npusim_chip(int what);"
TILING = "int npusim_matmul_tiling(const int64_t *given, int32_t *found);"
ENTRIES = (LAUNCH, CHIP, TILING)
