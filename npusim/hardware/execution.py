"""The groups of a chip's numbers that say what executing costs: its units, and launches.

Units of measure as in `npusim.hardware.groups`. A *repeat* is what the vector unit does in one
step: 256 bytes of the widest dtype that the instruction touches.
"""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from npusim.hardware.groups import Group
from npusim.hardware.numbers import (
    Bytes,
    Count,
    Cycles,
    Fraction,
    Microseconds,
    RepeatBytes,
    Scale,
    Speed,
)
from npusim.reading.limits import MOST_CHIP_BYTES


class Rate(Group):
    """Cycles of a vector instruction."""

    start_cycles: Cycles = Field(description="cycles once")
    cycles_per_repeat: Speed = Field(description="cycles for each repeat")


class Vector(Group):
    """The vector unit."""

    repeat_bytes: RepeatBytes = Field(
        description="bytes of the widest dtype that the unit works on in one repeat"
    )
    unaligned_floor_cycles: Cycles = Field(
        description="least cycles of filling a row with a number where it isn't whole repeats"
    )
    start_scale: Scale = Field(description="factor on every `start_cycles`")
    simple_scale: Scale = Field(
        description="factor on the repeats of all instructions but those of `special_scale`"
    )
    special_scale: Scale = Field(
        description="factor on the repeats of exp, ln, sqrt, rsqrt, rec and div"
    )
    default: Rate = Field(description="price of what `instructions` has no row for")
    instructions: Mapping[str, Mapping[str, Rate]] = Field(
        description=(
            "hardware intrinsic -> dtype -> its price; a conversion is keyed `vconv` and "
            "`float16->float32`"
        )
    )


class Scalar(Group):
    """The scalar unit."""

    alu_cycles: Cycles = Field(description="cycles of an arithmetic operation")
    ub_load_cycles: Cycles = Field(description="cycles of a load from UB")
    ub_store_cycles: Cycles = Field(description="cycles of a store to UB")
    gm_load_cycles: Cycles = Field(
        description="cycles of a load from device memory that its cache holds"
    )
    gm_miss_cycles: Cycles = Field(description="cycles of one that it doesn't hold")
    call_operations: Count = Field(
        description=(
            "operations by which a call on a number of elements sets its mask by hand and back"
        )
    )
    issue_cycles: Cycles = Field(description="cycles to issue an instruction of another pipe")
    argument_cycles: Cycles = Field(
        0.0, description="cycles in front of another pipe's instruction: addresses and arguments"
    )
    loop_cycles: Cycles = Field(description="cycles of a turn of a loop")
    issue_queue: Count | None = Field(
        None,
        description=(
            "instructions of a pipe by which the scalar unit may run ahead of it; none: any number"
        ),
    )


class AiCpu(Group):
    """Tasks of the AI CPUs."""

    task_us: Microseconds = Field(description="a task, microseconds")
    operation_ns: Speed = Field(
        description="an operation while all AI CPUs share the work, nanoseconds"
    )
    vector_bytes: Annotated[int, Field(ge=4, le=1024)] = Field(
        description="a vector register of an AI CPU, bytes"
    )
    cache_bytes: Annotated[int, Field(ge=0, le=MOST_CHIP_BYTES)] = Field(
        0, description="of what they have written last, how much stays in their own caches, bytes"
    )
    cache_gbps: Speed = Field(
        1.0, description="rate at which AI cores get that before they begin, GB/s"
    )


class RandomEngine(Group):
    """Tasks of the engine that draws random numbers (DSA).

    Chips without one have the AI CPUs draw them: all is 0.
    """

    task_us: Microseconds = Field(0.0, description="a task, microseconds")
    number_ns: Annotated[float, Field(ge=0)] = Field(0.0, description="a number, nanoseconds")
    bit_ns: Annotated[float, Field(ge=0)] = Field(0.0, description="a bit of a mask, nanoseconds")


class CubeRate(Group):
    """One fractal of a dtype."""

    k_per_fractal: Count = Field(description="depth of a fractal, elements")
    cycles_per_fractal: Speed = Field(description="cycles that a fractal takes")


class Load3d(Group):
    """What unfolds feature maps on their way into L0, and what its fields can say."""

    setup_cycles: Cycles = Field(description="cycles to start")
    l0b_bytes_per_cycle: Speed | None = Field(
        None, description="rate into L0B, bytes for a cycle, where that is less than the path's"
    )
    longest_kernel: Count = Field(description="largest side of a kernel that its fields can say")
    longest_stride: Count = Field(description="largest stride")
    longest_dilation: Count = Field(description="largest dilation")
    longest_padding: Count = Field(description="largest padding")
    longest_plane: Count = Field(description="largest side of a feature map")


class Cube(Group):
    """The matrix unit: a fractal is ``fractal_m x k x fractal_n``.

    Results leave L0C in turns: read, then sent on.
    """

    fractal_m: Count = Field(description="rows of a fractal")
    fractal_n: Count = Field(description="columns of a fractal")
    dtypes: Mapping[str, CubeRate] = Field(description="dtype -> its fractal")
    mad_start_cycles: Cycles = Field(description="cycles to start a product")
    mad_isolated_cycles: Cycles = Field(
        description="cycles to start one that follows no other, as published; nothing reads it"
    )
    mte1_setup_cycles: Cycles = Field(description="cycles to start a load into L0")
    load3d: Load3d = Field(description="what unfolds feature maps on their way into L0")
    nd2nz_setup_cycles: Cycles | None = Field(
        None,
        description=(
            "cycles to start a transfer that changes ND to NZ on its way; none where no "
            "transfer does"
        ),
    )
    l0b_bytes_per_cycle: Speed | None = Field(
        None,
        description=(
            "rate at which a fractal of B comes out of L0B, however few rows it is "
            "multiplied with; none: at any"
        ),
    )
    turned_byte_fraction: Fraction = Field(
        1.0,
        description=(
            "rate at which elements of a byte that don't lie along k in memory move into "
            "L0, as a part of the usual one"
        ),
    )
    l0c_read_bytes_per_cycle: Speed | None = Field(
        None, description="rate at which results are read from L0C, bytes for a cycle"
    )
    fixpipe_bytes_per_cycle: Speed | None = Field(
        None, description="rate at which they are sent on, bytes for a cycle"
    )
    fixpipe_split_bytes_per_cycle: Speed | None = Field(
        None,
        description="the same where blocks of fewer columns than a fractal has are their layout",
    )


class Launch(Group):
    """What a task costs beside its kernel, and what cores pay to wait for each other.

    All cores fetch the same lines of code and tiling data, which are served one after the other;
    the first loads and stores of a core wait in the same line.
    """

    most_blocks: Count = Field(
        description="most blocks of a launch; where they are more than cores, they run in rounds"
    )
    base_us: Microseconds = Field(description="a task of one block, microseconds beside its kernel")
    per_block_us: Microseconds = Field(description="each further block")
    mix_extra_us: Microseconds = Field(description="more for a kernel on cube and vector cores")
    sync_all_us: Microseconds = Field(description="a barrier of all cores (SyncAll)")
    sync_flag_us: Microseconds | None = Field(
        None,
        description=(
            "a flag between a cube core and its vector cores; none where there is no such flag"
        ),
    )
    message_us: Microseconds = Field(
        0.0,
        description=(
            "how long a cube core is busy with each message by which a vector core asks for "
            "a product"
        ),
    )
    kernel_head_cycles: Cycles = Field(description="cycles of entry code on the core")
    tiling_head_cycles: Cycles = Field(
        0.0,
        description=(
            "cycles more in vector kernels for any shape, which read their tiling data "
            "field by field and choose among variants"
        ),
    )
    tiling_per_block_cycles: Cycles = Field(
        0.0, description="cycles for each further block that reads the same lines of tiling data"
    )
    buffer_cycles: Cycles = Field(
        0.0, description="cycles for each buffer that kernels written in Ascend C reserve"
    )
    guard_cycles: Cycles = Field(
        0.0,
        description=(
            "cycles more for each operand where kernels are compiled for a shape and some "
            "blocks have less to do than others"
        ),
    )
    code_us: Microseconds = Field(0.0, description="wait for a kernel's code")
    code_per_block_us: Microseconds = Field(
        0.0,
        description=(
            "more for each further block, which fetches the same lines of code and tiling data"
        ),
    )
    load_queue_us: Microseconds = Field(
        0.0,
        description=(
            "the first loads of a core wait for those of each further block, the more so "
            "the nearer they come to `code_spread_bytes`"
        ),
    )
    store_queue_us: Microseconds = Field(0.0, description="the same for its first stores")
    code_spread_bytes: Annotated[int, Field(ge=0, le=MOST_CHIP_BYTES)] = Field(
        0, description="bytes over which lines of code and tiling data lie"
    )
    preparing_us: Microseconds = Field(
        0.0,
        description=(
            "to begin kernels of vector cores that can wait for all others, and generated "
            "ones that find out along which axes operands repeat"
        ),
    )
    attention_us: Microseconds = Field(
        0.0,
        description=(
            "to begin kernels of attention whose cube and vector cores meet by flags, beside what "
            "others take"
        ),
    )
    variants_code_us: Microseconds = Field(
        0.0,
        description=(
            "wait for more code of generated kernels with a variant for each way of cutting "
            "shapes that they don't know (reductions, rows)"
        ),
    )
    variants_per_block_us: Microseconds = Field(0.0, description="the same for each further block")
    code_kernels: Annotated[int, Field(ge=0)] = Field(
        0, description="kernels that ran last whose code the instruction caches still hold"
    )
    code_lost_share: Fraction = Field(
        1.0, description="part of that which is lost from layer to layer of a network"
    )
    code_far_us: Microseconds = Field(
        0.0, description="how much later code for any shape that hasn't run for long comes from HBM"
    )
    mix_code_us: Microseconds = Field(
        0.0, description="wait for the code of a kernel on cube and vector cores"
    )
    mix_code_per_block_us: Microseconds = Field(0.0, description="the same for each further block")
    elementwise_core_bytes: Bytes = Field(
        description=(
            "least bytes of an operand for each core of an elementwise kernel; half of it "
            "where there are many operands"
        )
    )
    host_dispatch_us: Microseconds = Field(description="what the host needs to launch an operator")
    model_call_us: Microseconds = Field(
        0.0, description="the call of a whole offline model, beside its tasks"
    )
