"""The groups of a chip's numbers, each with its unit in its name.

Rates are bytes per core cycle, times are core cycles (or microseconds where the name says
so), sizes are bytes. What executing costs stands in `npusim.hardware.execution`. Modules of these
groups don't postpone their annotations: pydantic would compile each, 10 ms of every start.
"""

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
    Share,
    Speed,
)
from npusim.reading.limits import MOST_CORES
from npusim.values.language import say


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
    """How many cores of which kind."""

    style: Literal["unified", "split", "unified_plus_vector"] = Field(
        description=(
            "`unified`: a core has a matrix and a vector unit; `split`: they are cores of "
            "their own; `unified_plus_vector`: unified ones and vector cores beside them"
        )
    )
    ai_cores: CoreCount = Field(description="AI cores, as the vendor counts them")
    cube_cores: CoreCount = Field(description="cores with a matrix unit")
    vector_cores: CoreCount = Field(description="cores that a vector kernel may use")
    extra_vector_cores: Annotated[int, Field(ge=0, le=MOST_CORES)] = Field(
        0, description="vector cores beside the AI cores, which only some kernels use"
    )
    ai_cpus: CoreCount = Field(description="AI CPUs for operators without a kernel of AI cores")
    pipe_events: Count = Field(
        description="events that each pair of pipes has for programs to set and wait for"
    )

    @property
    def most(self) -> int:
        """How many cores of one kind there are, the kind that has most."""
        return max(self.ai_cores, self.vector_cores) + self.extra_vector_cores


class Clocks(Group):
    """Core clocks."""

    cube_mhz: Megahertz = Field(description="clock of the AI cores, MHz")
    vector_mhz: Megahertz = Field(description="clock of the vector cores, MHz")
    profiler_mhz: Megahertz | None = Field(
        None, description="what profilers count cycles with, MHz, where that is another clock"
    )


class Buffers(Group):
    """On-chip memories of one core, in bytes."""

    ub_bytes: BufferBytes = Field(description="unified buffer of a vector core, bytes")
    l1_bytes: BufferBytes = Field(description="L1 of a cube core, bytes")
    l0a_bytes: BufferBytes = Field(description="L0A, the left operand of the matrix unit, bytes")
    l0b_bytes: BufferBytes = Field(description="L0B, the right operand, bytes")
    l0c_bytes: BufferBytes = Field(description="L0C, the results, bytes")
    bias_table_bytes: Bytes | None = Field(
        None, description="bias table, bytes; none where a bias is added otherwise"
    )
    fixpipe_buffer_bytes: Bytes | None = Field(
        None, description="buffer of the FIXPIPE's parameters, bytes"
    )
    block_bytes: Annotated[int, Field(ge=16, le=512, multiple_of=16)] = Field(
        description="a block, which addresses in UB are multiples of, bytes"
    )
    ub_bank_groups: Count = Field(description="groups of banks of UB")
    ub_banks: Count = Field(description="banks of UB, a multiple of its groups")

    @field_validator("ub_banks")
    @classmethod
    def _whole_groups(cls, banks: int, info: ValidationInfo) -> int:
        if banks % info.data.get("ub_bank_groups", 1):
            raise ValueError(say("a multiple of ub_bank_groups"))
        return banks


class Memory(Group):
    """The memory that all cores share: HBM (or DDR) behind the L2, and what atomics cost in it."""

    capacity_bytes: Bytes = Field(description="device memory of one chip, bytes")
    hbm_nominal_gbps: Speed = Field(description="rate of HBM (or DDR) as published, GB/s")
    hbm_sustained_fraction: Fraction = Field(description="part of it that a long stream gets")
    hbm_turnaround_share: Share = Field(
        0.0,
        description=(
            "where HBM reads and writes in turn, each byte of what it does less of takes as "
            "long as 1 + this many bytes"
        ),
    )
    hbm_latency_cycles: Cycles = Field(description="cycles until the first bytes of HBM arrive")
    l2_bytes: Bytes = Field(description="L2 cache, bytes")
    l2_gbps: Speed = Field(description="rate of L2, GB/s")
    l2_sustained_fraction: Fraction = Field(description="part of it that a long stream gets")
    l2_write_fraction: Fraction = Field(
        description="rate of writing to L2 as a part of that of reading"
    )
    l2_line_bytes: Bytes = Field(description="a line of L2, bytes")
    l2_sector_bytes: Bytes = Field(
        description="the part of a line that is loaded at once, bytes; a divisor of the line"
    )
    l2_ways: Count = Field(description="lines of L2 that one address may be in")
    l2_latency_cycles: Cycles = Field(description="cycles until the first bytes of L2 arrive")
    miss_cycles: Cycles = Field(
        0.0,
        description=(
            "how much later data arrive that L2 doesn't hold; 0 where the latencies of the "
            "paths are those of both"
        ),
    )
    miss_rate_fraction: Fraction = Field(
        1.0,
        description="rate of loading what L2 doesn't hold, as a part of the paths' rates",
    )
    bypass_rate_fraction: Fraction = Field(1.0, description="the same for what is loaded past L2")
    bypass_shared_fraction: Fraction = Field(
        1.0,
        description=(
            "part of HBM's rate that is left where cores load the same bytes past L2 at the "
            "same time"
        ),
    )
    atomic_rate_fraction: Fraction = Field(
        description="rate of atomic additions as a part of that of writing"
    )
    atomic_conflict_cycles: Cycles = Field(
        description=(
            "cycles that a transfer which adds waits for each other core at the same line of L2"
        )
    )
    atomic_dtypes: Words = Field(("float32",), description="dtypes that stores may add in")
    load_conflict_cycles: Cycles = Field(
        0.0, description="cycles that a load waits for each other core at the same line of L2"
    )
    l2_in_graph_share: Share = Field(
        description="inside a graph, the share of L2 that still holds what an operator reads"
    )
    l2_recent_share: Share = Field(
        description="inside a graph, the share of inputs that were used lately enough to be there"
    )
    l2_write_back_share: Share = Field(
        description=(
            "inside a graph, the part of written bytes that push modified bytes of others "
            "out of L2, where no input is there any more"
        )
    )
    l2_reuse_fraction: Fraction = Field(
        description="part of L2 that serves a kernel which reads the same bytes again"
    )
    l2_stream_bytes: Bytes | None = Field(
        None,
        description=(
            "inside a graph, tensors of this size and more have driven themselves out of L2 "
            "before they are used; none: no size does"
        ),
    )

    @field_validator("l2_sector_bytes")
    @classmethod
    def _whole_sectors(cls, sector: int, info: ValidationInfo) -> int:
        if info.data.get("l2_line_bytes", sector) % sector:
            raise ValueError(say("a divisor of l2_line_bytes"))
        return sector


class Path(Group):
    """One way for data through a core."""

    bytes_per_cycle: Speed = Field(description="rate, bytes for a cycle of the core")
    setup_cycles: Cycles = Field(
        description="how long a transfer occupies its pipe besides moving bytes"
    )
    latency_cycles: Cycles = Field(
        0, description="how long after its end its data may be used; the pipe goes on meanwhile"
    )
    burst_cycles: Cycles = Field(
        description="what each further non-contiguous burst of the same transfer adds"
    )
    ragged_burst_cycles: Cycles = Field(
        0,
        description=(
            "the same for bursts that are no whole granules, whose last one is read, "
            "changed and written back; 0: they cost the same"
        ),
    )
    granule_bytes: Bytes = Field(
        description="the multiple that the traffic of a burst is rounded up to, bytes"
    )
    shared_fraction: Fraction = Field(
        1, description="what remains of the rate of L2 when all cores read the same lines"
    )


class Paths(Group):
    """The ways between the memories; None where the chip has no such way."""

    gm_to_ub: Path = Field(description="device memory to UB (MTE2)")
    ub_to_gm: Path = Field(description="UB to device memory (MTE3)")
    gm_to_l1: Path = Field(description="device memory to L1 (MTE2)")
    l1_to_gm: Path | None = Field(None, description="L1 to device memory (MTE3)")
    l1_to_l0a: Path = Field(description="L1 to L0A (MTE1)")
    l1_to_l0b: Path = Field(description="L1 to L0B (MTE1)")
    l1_to_bias_table: Path | None = Field(None, description="L1 to the bias table")
    l0c_to_gm: Path | None = Field(None, description="L0C to device memory (FIXPIPE)")
    l0c_to_l1: Path | None = Field(None, description="L0C to L1 (FIXPIPE)")
    l0c_to_ub: Path | None = Field(None, description="L0C to UB, of unified cores")
    l1_to_ub: Path | None = Field(None, description="L1 to UB, of unified cores")
    ub_to_l1: Path | None = Field(None, description="UB to L1, of unified cores")
    ub_to_ub: Path = Field(description="within UB")


class Features(Group):
    """Abilities that are no instruction of the dtype lists."""

    bfloat16: bool = Field(description="whether there is bfloat16")
    inf_nan: bool = Field(description="whether infinities and NaN are kept; else results saturate")
    syncall_software: bool = Field(
        description="whether all cores can wait for each other by memory"
    )
    syncall_hardware: bool = Field(description="whether they can by hardware")
    cross_core_flag: bool = Field(
        description="whether cube and vector cores have flags for each other"
    )


class SearchedGradients(Group):
    """Layers of a network whose tilings the vendor has searched for, from some images on."""

    images: int = Field(description="from how many images on")
    layers: Words = Field(
        description=(
            "output and input channels in blocks of 16, side of the kernel, stride, side of the "
            "input, with commas"
        )
    )


class SearchedPath(Group):
    """A way of data as the search for blocks takes it to be."""

    latency_cycles: Cycles = Field(description="cycles of a request")
    in_flight: Count = Field(description="requests at a time")
    shared_bytes_per_cycle: Speed = Field(description="what all cores get, bytes for a cycle")
    core_bytes_per_cycle: Speed = Field(description="what a core gets, bytes for a cycle")


class SearchedBanks(Group):
    """The banks of L2 and of memory as the search for blocks takes them to be.

    Requests of several cores for one line take ``conflict_share`` of a cycle each, more where
    cores load few bytes: ``conflict_reach`` and ``conflict_decay_per_mb`` say how much.
    """

    count: Count = Field(description="banks")
    clock_ghz: Speed = Field(description="their clock, GHz")
    bytes_per_cycle: Speed = Field(description="bytes of a bank for a cycle of its clock")
    conflict_share: Fraction = Field(description="cycles of a request for a line asked for")
    conflict_reach: Fraction = Field(description="largest share that few bytes add to them")
    conflict_decay_per_mb: Cycles = Field(description="how fast that share falls with megabytes")


class BlockSearch(Group):
    """What the vendor's search for blocks of large products takes the chip to be.

    Its figures choose a tiling and time nothing: they differ from what is measured.
    """

    clock_ghz: Speed = Field(description="clock of the cores, GHz")
    l2_loads: SearchedPath = Field(description="loads that L2 holds")
    l2_stores: SearchedPath = Field(description="stores")
    memory_loads: SearchedPath = Field(description="loads that L2 doesn't hold")
    banks: SearchedBanks = Field(description="banks of L2 and of memory")
    plain_row_fraction: Fraction = Field(description="of the rate of fractals that rows reach")
    memory_slower: Speed = Field(description="how much longer memory takes than L2")
    one_address_slower: Speed = Field(description="the same where all cores load the same")
    store_share: Fraction = Field(description="what a result costs of what a load does")
    enough: Speed = Field(
        description="products of half precision by byte loaded from which a grid of cores is good"
    )
    little: Speed = Field(description="the same for grids that are near the best")
    busy: Fraction = Field(description="share of cores that the former keep busy at least")
    busy_near: Fraction = Field(description="the same of the latter")


class Software(Group):
    """Which generation of kernels runs on the chip; the hardware alone doesn't decide that."""

    compiled_for_shape: bool = Field(
        description=(
            "whether kernels are compiled for one shape, so that loops are unrolled; else "
            "they are code for any shape"
        )
    )
    matmul_generation: Literal[2, 3] = Field(description="the V of MatMulV2 and MatMulV3")
    matmul_overlaps: bool = Field(
        True,
        description=(
            "whether a block of a matrix product is loaded while the one before is multiplied"
        ),
    )
    searched_gradients: SearchedGradients | None = Field(
        None, description="gradients of weights whose tilings the vendor has searched for"
    )
    turns_ragged_rows: bool = Field(
        False,
        description=(
            "whether many rows that aren't whole blocks are turned by vnchwconv, to be "
            "worked on side by side"
        ),
    )
    matmul_load_bytes_per_cycle: Speed | None = Field(
        None,
        description=(
            "what the search for matmul tilings takes a load into L1 to reach; none: no "
            "such search is made"
        ),
    )
    matmul_load_setup_cycles: Cycles = Field(
        0, description="how many cycles later it takes the load to begin"
    )
    matmul_step_operations: int = Field(
        0,
        description=(
            "operations of the scalar unit for a step of k in L0, where the compiler makes "
            "products for any shape"
        ),
    )
    block_search: BlockSearch | None = Field(
        None, description="what the search for blocks of large products goes by; none is made"
    )


class Intrinsics(Group):
    """Which instruction takes which dtypes, in the spelling of the vendor's platform files."""

    vector: Mapping[str, Words] = Field(
        description="instruction -> dtypes that a vector kernel may give it"
    )
    cube: Mapping[str, Words] = Field(description="the same on the core that owns the matrix unit")


class Published(Group):
    """Peaks as advertised; kept to compare with, never used to compute (TFLOPS, TOPS)."""

    fp16_tflops: Speed | None = Field(None, description="float16 with the matrix unit, TFLOPS")
    bf16_tflops: Speed | None = Field(None, description="bfloat16, TFLOPS")
    fp32_tflops: Speed | None = Field(None, description="float32, TFLOPS")
    int8_tops: Speed | None = Field(None, description="int8, TOPS")
