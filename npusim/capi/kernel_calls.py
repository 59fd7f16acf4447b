"""What kernels in C++ tell the simulator: one structure for every instruction, and two entries."""

from __future__ import annotations

# `kind` is 1 for a tensor in on-chip memory (`handle`, and bytes from its start) and 2 for one in
# global memory (addresses). `whole` and `answer` are what a call gives back.
CALL = """
typedef struct npusim_operand {
    int kind;
    int dtype;
    int64_t handle;
    int64_t start;
    int64_t limit;
} npusim_operand_t;

typedef struct npusim_call {
    const char *name;
    const char *file;
    int line;
    int operands;
    int integers;
    int reals;
    npusim_operand_t operand[4];
    int64_t integer[16];
    double real[4];
    int64_t whole;
    double answer;
} npusim_call_t;
"""

PLAY = "int npusim_kernel_call(npusim_call_t *call);"
LAUNCH = (
    "int npusim_kernel_launch(const char *name, int kind, uint32_t blocks, uintptr_t stream,"
    " uintptr_t run, uintptr_t context);"
)
ENTRIES = (PLAY, LAUNCH)
