"""The groups of a chip's numbers, each with its unit in its name.

Rates are bytes per core cycle, times are core cycles (or microseconds where the name says
so), sizes are bytes.  A *repeat* is what the vector unit does in one step: 256 bytes of the widest
dtype that the instruction touches.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
)

from npusim.hardware.numbers import (
    BufferBytes,
    Bytes,
    CoreCount,
    Count,
    Cycles,
    Fraction,
    Megahertz,
    Microseconds,
    RepeatBytes,
    Scale,
    Share,
    Speed,
)
from npusim.reading.limits import MOST_CHIP_BYTES, MOST_CORES


def as_tuple(value: object) -> object:
    """A list of a file as a tuple, which nobody changes."""
    return tuple(value) if isinstance(value, list) else value


def _words(value: object) -> object:
    """A list may be written as words in one string, which keeps the long dtype lists readable."""
    return tuple(value.split()) if isinstance(value, str) else as_tuple(value)


Words = Annotated[tuple[str, ...], BeforeValidator(_words)]
Family = Literal["910", "A2", "310P", "A3", "310B", "950"]


class Group(BaseModel):
    """Base of the groups: immutable, no unknown keys, no silent conversion between types."""

    # Validators are built when the first value is validated; a remembered profile needs none.
    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, defer_build=True
    )


class Cores(Group):
    """How many cores of which kind; `vector_cores` is what a vector kernel may use.

    Each pair of pipes has `pipe_events` for programs to set and wait for.
    """

    style: Literal["unified", "split", "unified_plus_vector"]
    ai_cores: CoreCount
    cube_cores: CoreCount
    vector_cores: CoreCount
    extra_vector_cores: Annotated[int, Field(ge=0, le=MOST_CORES)] = 0
    ai_cpus: CoreCount
    pipe_events: Count

    @property
    def most(self) -> int:
        """How many cores of one kind there are, the kind that has most."""
        return max(self.ai_cores, self.vector_cores) + self.extra_vector_cores


class Clocks(Group):
    """Core clocks in MHz; `profiler_mhz` is what profilers count with, where that is another."""

    cube_mhz: Megahertz
    vector_mhz: Megahertz
    profiler_mhz: Megahertz | None = None


class Buffers(Group):
    """On-chip memories of one core, in bytes."""

    ub_bytes: BufferBytes
    l1_bytes: BufferBytes
    l0a_bytes: BufferBytes
    l0b_bytes: BufferBytes
    l0c_bytes: BufferBytes
    bias_table_bytes: Bytes | None = None
    fixpipe_buffer_bytes: Bytes | None = None
    block_bytes: Annotated[int, Field(ge=16, le=512, multiple_of=16)]
    ub_bank_groups: Count
    ub_banks: Count

    @field_validator("ub_banks")
    @classmethod
    def _whole_groups(cls, banks: int, info: ValidationInfo) -> int:
        if banks % info.data.get("ub_bank_groups", 1):
            raise ValueError("a multiple of ub_bank_groups")
        return banks


class Memory(Group):
    """The memory that all cores share: HBM (or DDR) behind the L2, and what atomics cost in it.

    Where HBM reads and writes in turn, each byte of what it does less of takes as long as
    1 + `hbm_turnaround_share` bytes.
    `miss_cycles` is how much later data arrive that L2 doesn't hold; 0 where the latencies of the
    paths are those of both. A core loads them at `miss_rate_fraction` of its paths' rates, and what
    is loaded past L2 at `bypass_rate_fraction`; `bypass_shared_fraction` is the part of HBM's rate
    that is left where cores load the same bytes past L2 at the same time. A transfer waits
    `load_conflict_cycles`, or `atomic_conflict_cycles` where it adds, for each other core that is
    at the same line of L2. Inside a graph, tensors of `l2_stream_bytes` and more have driven
    themselves out of L2 before they are used (None: no size does).
    """

    capacity_bytes: Bytes
    hbm_nominal_gbps: Speed
    hbm_sustained_fraction: Fraction
    hbm_turnaround_share: Share = 0.0
    hbm_latency_cycles: Cycles
    l2_bytes: Bytes
    l2_gbps: Speed
    l2_sustained_fraction: Fraction
    l2_write_fraction: Fraction
    l2_line_bytes: Bytes
    l2_sector_bytes: Bytes
    l2_ways: Count
    l2_latency_cycles: Cycles
    miss_cycles: Cycles = 0.0
    miss_rate_fraction: Fraction = 1.0
    bypass_rate_fraction: Fraction = 1.0
    bypass_shared_fraction: Fraction = 1.0
    atomic_rate_fraction: Fraction
    atomic_conflict_cycles: Cycles
    load_conflict_cycles: Cycles = 0.0
    l2_in_graph_share: Share
    l2_recent_share: Share
    l2_write_back_share: Share
    l2_reuse_fraction: Fraction
    l2_stream_bytes: Bytes | None = None

    @field_validator("l2_sector_bytes")
    @classmethod
    def _whole_sectors(cls, sector: int, info: ValidationInfo) -> int:
        if info.data.get("l2_line_bytes", sector) % sector:
            raise ValueError("a divisor of l2_line_bytes")
        return sector


class Path(Group):
    """One way for data through a core.

    `setup_cycles` is how long a transfer occupies its pipe besides moving bytes, `latency_cycles`
    how long after its end its data may be used (the pipe goes on meanwhile), `burst_cycles` what
    each further non-contiguous burst of the same transfer adds, and `granule_bytes` the multiple
    that the traffic of a burst is rounded up to. `ragged_burst_cycles` replaces `burst_cycles` for
    bursts that are no whole granules (0: they cost the same): the last one is read, changed and
    written back. `shared_fraction` is what remains of the rate of L2 when all cores read the same
    lines.
    """

    bytes_per_cycle: Speed
    setup_cycles: Cycles
    latency_cycles: Cycles = 0
    burst_cycles: Cycles
    ragged_burst_cycles: Cycles = 0
    granule_bytes: Bytes
    shared_fraction: Fraction = 1


class Paths(Group):
    """The ways between the memories; None where the chip has no such way."""

    gm_to_ub: Path
    ub_to_gm: Path
    gm_to_l1: Path
    l1_to_gm: Path | None = None
    l1_to_l0a: Path
    l1_to_l0b: Path
    l1_to_bias_table: Path | None = None
    l0c_to_gm: Path | None = None
    l0c_to_l1: Path | None = None
    l0c_to_ub: Path | None = None
    l1_to_ub: Path | None = None
    ub_to_l1: Path | None = None
    ub_to_ub: Path


class Rate(Group):
    """Cycles of a vector instruction: `start_cycles` once, `cycles_per_repeat` for each repeat."""

    start_cycles: Cycles
    cycles_per_repeat: Speed


class Vector(Group):
    """The vector unit; `instructions` is keyed by hardware intrinsic and dtype.

    A conversion is keyed ``vconv`` and ``"float16->float32"``.  `default` prices what has no row.
    """

    repeat_bytes: RepeatBytes
    unaligned_floor_cycles: Cycles
    start_scale: Scale
    simple_scale: Scale
    special_scale: Scale
    default: Rate
    instructions: Mapping[str, Mapping[str, Rate]]


class Scalar(Group):
    """Cycles of the scalar unit: arithmetic, loads, stores, issue of an instruction, a loop.

    `argument_cycles` are its own in front of another pipe's instruction: addresses, arguments. A
    call on a number of elements sets its mask by hand and back: `call_operations` of arithmetic.
    It runs ahead of another pipe by the `issue_queue` of that.
    """

    alu_cycles: Cycles
    ub_load_cycles: Cycles
    ub_store_cycles: Cycles
    gm_load_cycles: Cycles
    gm_miss_cycles: Cycles
    call_operations: Count
    issue_cycles: Cycles
    argument_cycles: Cycles = 0.0
    loop_cycles: Cycles
    issue_queue: Count | None = None


class AiCpu(Group):
    """Tasks of the AI CPUs: what each costs, and an operation while all of them share the work.

    Of what they have written last, `cache_bytes` stay in their own caches, out of which AI cores
    get them at `cache_gbps` before they begin.
    """

    task_us: Microseconds
    operation_ns: Speed
    cache_bytes: Annotated[int, Field(ge=0, le=MOST_CHIP_BYTES)] = 0
    cache_gbps: Speed = 1.0


class RandomEngine(Group):
    """Tasks of the engine that draws random numbers (DSA): each, a number, a bit of a mask.

    Chips without one have the AI CPUs draw them: all is 0.
    """

    task_us: Microseconds = 0.0
    number_ns: Annotated[float, Field(ge=0)] = 0.0
    bit_ns: Annotated[float, Field(ge=0)] = 0.0


class CubeRate(Group):
    """One fractal of a dtype: its depth k in elements, and the cycles it takes."""

    k_per_fractal: Count
    cycles_per_fractal: Speed


class Load3d(Group):
    """What unfolds feature maps on their way into L0: its start, and what its fields can say.

    It fills L0B at `l0b_bytes_per_cycle` where that is less than the path's own rate.
    """

    setup_cycles: Cycles
    l0b_bytes_per_cycle: Speed | None = None
    longest_kernel: Count
    longest_stride: Count
    longest_dilation: Count
    longest_padding: Count
    longest_plane: Count


class Cube(Group):
    """The matrix unit: a fractal is ``fractal_m x k x fractal_n``.

    A fractal of B takes `l0b_bytes_per_cycle` to come out of L0B, however few rows it is multiplied
    with. Elements of a byte that don't lie along k in memory move into L0 at `turned_byte_fraction`
    of the usual rate. Results leave L0C in turns: read at `l0c_read_bytes_per_cycle`, sent on at
    `fixpipe_bytes_per_cycle`, or at `fixpipe_split_bytes_per_cycle` where blocks of fewer columns
    than a fractal has are their layout.
    """

    fractal_m: Count
    fractal_n: Count
    dtypes: Mapping[str, CubeRate]
    mad_start_cycles: Cycles
    mad_isolated_cycles: Cycles
    mte1_setup_cycles: Cycles
    load3d: Load3d
    nd2nz_setup_cycles: Cycles | None = None
    l0b_bytes_per_cycle: Speed | None = None
    turned_byte_fraction: Fraction = 1.0
    l0c_read_bytes_per_cycle: Speed | None = None
    fixpipe_bytes_per_cycle: Speed | None = None
    fixpipe_split_bytes_per_cycle: Speed | None = None


class Launch(Group):
    """What a task costs beside its kernel, and what cores pay to wait for each other.

    A launch has at most `most_blocks` blocks; where they are more than cores, they run in rounds. A
    task of one block costs `base_us`, and `per_block_us` for each further block. On the core,
    `kernel_head_cycles` of entry code run, `tiling_head_cycles` more in vector kernels for any
    shape, which read their tiling data field by field and choose among variants (and
    `tiling_per_block_cycles` for each further block that reads the same lines), and `buffer_cycles`
    for each buffer that those written in Ascend C reserve; `guard_cycles` more for each operand
    where kernels are compiled for a shape and some blocks have less to do than others. They wait
    `code_us` for their code, except where it is one of the last `code_kernels` that they ran, which
    their instruction caches hold; from layer to layer of a network they lose `code_lost_share` of
    it. What is for any shape and hasn't run for long comes from HBM, `code_far_us` later; kernels
    on cube and vector cores have many times the code, and wait `mix_code_us` and
    `mix_code_per_block_us` for each further block. All cores fetch the same lines of code and
    tiling data, which are served one after the other: `code_per_block_us` more for each further
    block. The first loads and stores of a core, the more so the nearer they come to
    `code_spread_bytes`, wait in the same line: `load_queue_us` and `store_queue_us` for each
    further block. Kernels of vector cores that can wait for all others, and generated ones that
    find out along which axes their operands repeat or what cube cores multiply, take `preparing_us`
    to begin. Generated kernels with a variant for each way of cutting shapes they don't know
    (reductions, rows) wait `variants_code_us` for more code, `variants_per_block_us` more for each
    further block. A cube core is busy for `message_us` with each message by which a vector core
    asks for a product. The host needs `host_dispatch_us` to launch an operator; the call of a whole
    offline model costs `model_call_us` beside its tasks.
    """

    most_blocks: Count
    base_us: Microseconds
    per_block_us: Microseconds
    mix_extra_us: Microseconds
    sync_all_us: Microseconds
    sync_flag_us: Microseconds | None = None
    message_us: Microseconds = 0.0
    kernel_head_cycles: Cycles
    tiling_head_cycles: Cycles = 0.0
    tiling_per_block_cycles: Cycles = 0.0
    buffer_cycles: Cycles = 0.0
    guard_cycles: Cycles = 0.0
    code_us: Microseconds = 0.0
    code_per_block_us: Microseconds = 0.0
    load_queue_us: Microseconds = 0.0
    store_queue_us: Microseconds = 0.0
    code_spread_bytes: Annotated[int, Field(ge=0, le=MOST_CHIP_BYTES)] = 0
    preparing_us: Microseconds = 0.0
    variants_code_us: Microseconds = 0.0
    variants_per_block_us: Microseconds = 0.0
    code_kernels: Annotated[int, Field(ge=0)] = 0
    code_lost_share: Fraction = 1.0
    code_far_us: Microseconds = 0.0
    mix_code_us: Microseconds = 0.0
    mix_code_per_block_us: Microseconds = 0.0
    elementwise_core_bytes: Bytes
    host_dispatch_us: Microseconds
    model_call_us: Microseconds = 0.0


class Features(Group):
    """Abilities that are no instruction of the dtype lists."""

    bfloat16: bool
    inf_nan: bool
    syncall_software: bool
    syncall_hardware: bool
    cross_core_flag: bool


class Software(Group):
    """Which generation of kernels runs on the chip; the hardware alone doesn't decide that.

    `compiled_for_shape`: kernels are compiled for one shape, so that loops are unrolled; else they
    are code for any shape. `matmul_generation` is the V of MatMulV2 and MatMulV3.
    `matmul_overlaps`: a block of a matrix product is loaded while the one before is multiplied.
    `turns_ragged_rows`: many rows that aren't whole blocks are turned by vnchwconv, to be worked on
    side by side. `matmul_load_bytes_per_cycle` is what the search for matmul tilings takes a load
    into L1 to reach, `matmul_load_setup_cycles` later; without the first no such search is made.
    """

    compiled_for_shape: bool
    matmul_generation: Literal[2, 3]
    matmul_overlaps: bool = True
    turns_ragged_rows: bool = False
    matmul_load_bytes_per_cycle: Speed | None = None
    matmul_load_setup_cycles: Cycles = 0


class Intrinsics(Group):
    """Which instruction takes which dtypes, in the spelling of the vendor's platform files.

    `vector` governs a vector kernel; `cube` the core that owns the matrix unit.
    """

    vector: Mapping[str, Words]
    cube: Mapping[str, Words]


class Published(Group):
    """Peaks as advertised; kept to compare with, never used to compute (TFLOPS, TOPS)."""

    fp16_tflops: Speed | None = None
    bf16_tflops: Speed | None = None
    fp32_tflops: Speed | None = None
    int8_tops: Speed | None = None
