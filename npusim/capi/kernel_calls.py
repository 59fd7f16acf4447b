"""What launches of kernels in C++ tell the simulator, and what it finds when they have run."""

from __future__ import annotations

# One structure for every instruction, lists of them with loops, and the launch itself. `kind` of a
# job is -1 on cores that are both, 0 on vector cores, 1 on cube cores and 2 on both, `vectors` of
# which belong to a cube core. `at_once` blocks find a core each. Without `products` the cube
# computes no numbers; with `auto_sync` the scalar unit waits by itself. An entry with a count is a
# loop over the body that `symbol` numbers.
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
    int32_t auto_sync;
} npusim_job_t;
"""

# A call of an operator of somebody's project: what its tiling and inference are given, and find.
# `tensors` are the inputs, then the outputs.
OP_CALL = """
typedef struct npusim_op_tensor {
    int32_t present;
    int32_t dtype;
    int32_t format;
    int32_t rank;
    int64_t dims[25];
    const void *data;
} npusim_op_tensor_t;

typedef struct npusim_op_attribute {
    int32_t given;
    int64_t whole;
    double real;
    const char *text;
    const int64_t *list;
    int64_t count;
} npusim_op_attribute_t;

typedef struct npusim_op_call {
    int32_t op;
    int32_t inputs;
    int32_t outputs;
    int32_t attributes;
    npusim_op_tensor_t *tensors;
    const npusim_op_attribute_t *values;
    int32_t parameters;
    const int32_t *counts;
    uint32_t blocks;
    uint64_t key;
    uint64_t workspace_bytes;
    uint64_t tiling_bytes;
    const void *tiling;
} npusim_op_call_t;
"""
# The entries of a project's two libraries, npusim/op_entries.h and npusim/op_kernel_entry.h.
OP_HOST = """
void npusim_op_answers(int64_t (*chip)(int), int (*matmul)(const int64_t *, int32_t *));
const char *npusim_op_message(void);
const char *npusim_op_describe(void);
int npusim_op_tile(npusim_op_call_t *call);
int npusim_op_infer(npusim_op_call_t *call);
"""
OP_KERNEL = """
int npusim_op_parameters(void);
uintptr_t npusim_op_player(void);
void npusim_op_body(const uint64_t *given);
"""

LAUNCH = (
    "int npusim_kernel_launch(const char *name, int kind, uint32_t blocks, uintptr_t stream,"
    " uintptr_t play, uintptr_t body, uintptr_t drop, uintptr_t context);"
)
# What hosts ask: numbers of the chip, and the blocks of a matrix product.
CHIP = "int64_t npusim_chip(int what);"
TILING = "int npusim_matmul_tiling(const int64_t *given, int32_t *found);"
ENTRIES = (LAUNCH, CHIP, TILING)
