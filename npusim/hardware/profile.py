"""The model of one chip: every number the simulator needs.

A profile is data; the numbers stand in ``hw_profiles/*.yaml``, and `npusim.hardware.loading` reads
them into the groups of `npusim.hardware.groups` and `npusim.hardware.execution`.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated

from pydantic import Field

from npusim.hardware import codes, execution, groups
from npusim.hardware.execution import AiCpu, Cube, Launch, RandomEngine, Scalar, Vector
from npusim.hardware.groups import (
    Buffers,
    Clocks,
    Cores,
    Family,
    Features,
    Group,
    Intrinsics,
    Memory,
    Path,
    Paths,
    Published,
    Software,
    Words,
)
from npusim.hardware.numbers import Count
from npusim.hardware.provenance import CONFIDENCES, Provenance, Source
from npusim.values.errors import ArgumentError, UnknownNameError, brief, expect
from npusim.values.language import say
from npusim.values.takes import takes

_FEATURES = frozenset(Features.model_fields)


class Profile(Group):
    """One chip. Load it with `npusim.load_profile`."""

    name: Annotated[str, Field(min_length=1)] = Field(description="SoC name")
    family: Family = Field(description="family of products that it is of")
    product_line: Annotated[str, Field(min_length=1)] = Field(
        description="line of products on the operator pages"
    )
    architecture: Annotated[str, Field(min_length=1)] = Field(
        description="microarchitecture, e.g. dav-c220"
    )
    npu_arch: Count = Field(description="number of the microarchitecture (NpuArch)")
    aliases: Words = Field((), description="other names, in any case")
    cores: Cores = Field(description="how many cores of which kind")
    clocks: Clocks = Field(description="clocks, MHz")
    buffers: Buffers = Field(description="on-chip memories of a core, bytes")
    memory: Memory = Field(description="HBM, L2 and atomics")
    paths: Paths = Field(description="ways for data through a core")
    vector: Vector = Field(description="the vector unit")
    scalar: Scalar = Field(description="the scalar unit")
    ai_cpu: AiCpu = Field(description="the AI CPUs")
    random_engine: RandomEngine = Field(
        RandomEngine.model_construct(), description="the engine that draws random numbers"
    )
    cube: Cube = Field(description="the matrix unit")
    launch: Launch = Field(description="what a task costs beside its kernel")
    features: Features = Field(description="abilities that are no instruction")
    software: Software = Field(description="which generation of kernels runs")
    intrinsics: Intrinsics = Field(description="which instruction takes which dtypes")
    published: Published = Field(
        Published.model_construct(), description="peaks as advertised, to compare with"
    )
    provenance: Annotated[Mapping[str, Provenance], Field(exclude=True, repr=False)] = Field(
        description="key -> source and confidence"
    )

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def clock_mhz(self) -> int:
        """The clock that turns the cycles of a kernel into microseconds: that of the AI cores."""
        return self.clocks.cube_mhz

    @property
    def hbm_sustained_gbps(self) -> float:
        """What a long stream gets from the device memory, GB/s."""
        return self.memory.hbm_nominal_gbps * self.memory.hbm_sustained_fraction

    @property
    def l2_sustained_gbps(self) -> float:
        """What a long stream gets from the L2, GB/s."""
        return self.memory.l2_gbps * self.memory.l2_sustained_fraction

    def cube_peak_tops(self, dtype_name: str) -> float:
        """Peak of all matrix units together, 10^12 operations (2 per multiply-add) a second.

        Raises UnknownNameError for a dtype that the cube doesn't multiply.
        """
        expect(dtype_name, str, "a dtype")
        if dtype_name not in self.cube.dtypes:
            raise UnknownNameError("dtype of the cube", dtype_name, self.cube.dtypes)
        rate = self.cube.dtypes[dtype_name]
        macs = self.cube.fractal_m * self.cube.fractal_n * rate.k_per_fractal
        per_cycle = 2 * macs / rate.cycles_per_fractal
        return self.cores.cube_cores * per_cycle * self.clocks.cube_mhz * 1e6 / 1e12

    def vector_peak_tops(self, itemsize: int) -> float:
        """Peak of all vector units, 10^12 operations a second, on elements of `itemsize` bytes.

        As vendors count: a repeat of multiply-adds in every cycle, two operations on an element.
        Raises ArgumentError for what is no size.
        """
        expect(itemsize, int, "itemsize")
        if itemsize < 1:
            raise ArgumentError(
                say("itemsize is {itemsize}").format(itemsize=brief(itemsize)),
                say("Give 1 byte or more."),
            )
        cores = self.cores.vector_cores + self.cores.extra_vector_cores
        elements = self.vector.repeat_bytes // itemsize
        return 2 * cores * elements * self.clocks.vector_mhz * 1e6 / 1e12

    @takes()
    def provenance_of(self, key: str) -> Provenance:
        """The provenance of ``memory.l2_gbps``; of a group of values, that of the least sure one.

        Raises UnknownNameError when the profile has no such key.
        """
        known, groups = self._least_sure
        if known is not self.provenance:  # a copy has another
            known, groups = self.provenance, _least_sure(self.provenance)
        found = known.get(key) or groups.get(key)
        if found is None:
            raise UnknownNameError("profile key", key, self.provenance)
        return found

    def has(self, feature: str) -> bool:
        """Whether the chip has a feature (a field of `Features`) or an intrinsic (``vgatherb``)."""
        expect(feature, str, "a feature")
        if feature in _FEATURES:
            return bool(getattr(self.features, feature))
        return feature in self.intrinsics.vector or feature in self.intrinsics.cube

    def vector_dtypes(self, intrinsic: str) -> tuple[str, ...]:
        """The dtypes that a vector intrinsic takes, spelled out; empty if the chip lacks it."""
        if type(intrinsic) is not str:  # asked for every instruction: a message only where needed
            expect(intrinsic, str, say("an intrinsic"))
        return self._vector_dtypes.get(intrinsic, ())

    def supports_vector(self, intrinsic: str, dtype_name: str) -> bool:
        """Whether a vector intrinsic takes a dtype (``"vadd"``, ``"bfloat16"``)."""
        return dtype_name in self.vector_dtypes(intrinsic)

    def supports_convert(self, src: str, dst: str) -> bool:
        """Whether ``vconv`` converts from one dtype to the other, with whatever rounding."""
        return (src, dst) in self._conversions

    def supports_mmad(self, a: str, b: str, accumulator: str) -> bool:
        """Whether the matrix unit multiplies these dtypes into this accumulator."""
        return (a, b, accumulator) in self._multiply_accumulates

    def supports_fixpipe(self, source: str, target: str, *, scaled: bool = False) -> bool:
        """Whether results of one dtype may leave the matrix unit as the other, perhaps scaled."""
        if scaled:
            names = (f"fix_pipe_pre_conv_{way}" for way in ("dequant", "requant"))
            forms = [each for name in names for each in self.intrinsics.cube.get(name, ())]
            return (source, target) in map(codes.conversion, forms)
        if source == target:
            return True
        if self.paths.l0c_to_gm is None:  # the vector unit takes them out
            return self.supports_convert(source, target)
        listed = self.intrinsics.cube.get("fix_pipe_pre_conv_cast", ())
        return (source, target) in map(codes.conversion, listed)

    def load3d_bytes_per_cycle(self, path: Path, step_bytes: float) -> float:
        """Rate at which load3d fills L0 from blocks that are ``step_bytes`` apart in L1.

        L1 is read in lines of what L0A takes in a cycle, so windows that move on by several blocks
        leave part of each line out. Source: MTE1 of a convolution of 11 x 11 taps with stride 4
        takes 171 cycles for 16 fractals of float32, the start and eight lines for each
        (Ascend910B2, Ascend/msinsight).
        """
        rates, line = self.cube.load3d, self.paths.l1_to_l0a.bytes_per_cycle
        most = path.bytes_per_cycle
        if path is self.paths.l1_to_l0b:
            most = min(most, rates.l0b_bytes_per_cycle or most)
        block = self.buffers.block_bytes
        return min(most, line * block / min(max(block, step_bytes), line))

    @cached_property
    def mmad_forms(self) -> tuple[str, ...]:
        """What the matrix unit multiplies, as ``float16 x float16 -> float32``."""
        return tuple(sorted(f"{a} x {b} -> {c}" for a, b, c in self._multiply_accumulates))

    @cached_property
    def _least_sure(self) -> tuple[Mapping[str, Provenance], dict[str, Provenance]]:
        return self.provenance, _least_sure(self.provenance)

    @cached_property
    def _vector_dtypes(self) -> dict[str, tuple[str, ...]]:
        return {
            name: tuple(dict.fromkeys(filter(None, map(codes.operand, listed))))
            for name, listed in self.intrinsics.vector.items()
        }

    @cached_property
    def _conversions(self) -> frozenset[tuple[str, str]]:
        listed = self.intrinsics.vector.get("vconv", ())
        return frozenset(filter(None, map(codes.conversion, listed)))

    @cached_property
    def _multiply_accumulates(self) -> frozenset[tuple[str, str, str]]:
        listed = self.intrinsics.cube.get("mmad", ())
        return frozenset(filter(None, map(codes.multiply_accumulate, listed)))


# The parts of a profile that carry provenance; the others say what the chip is called.
GROUPS = tuple(
    name
    for name, field in Profile.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, Group)
)

_OWN = (groups.__name__, execution.__name__, __name__)

# What a profile is made of.
PARTS = (
    *(each for each in Group.__subclasses__() if each.__module__ in _OWN),
    Provenance,
    Source,
)


def _least_sure(provenance: Mapping[str, Provenance]) -> dict[str, Provenance]:
    """The provenance of the least sure value of every group of values."""
    found: dict[str, Provenance] = {}
    for leaf, entry in provenance.items():
        above, dot, _ = leaf.rpartition(".")
        while dot:
            known = found.setdefault(above, entry)
            if CONFIDENCES.index(entry.confidence) > CONFIDENCES.index(known.confidence):
                found[above] = entry
            above, dot, _ = above.rpartition(".")
    return found
