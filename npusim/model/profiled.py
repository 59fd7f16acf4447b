"""What a profiler's table tells beside its kernels: of which chip it is, and what it lacks.

The chip is told by its clock (cycles of all blocks, over time and blocks), by the largest number
of blocks that many kernels run on, which is the number of its cores, and by the rate of its memory:
of copies so large that L2 holds next to nothing of them. All stand in the profiles of chips; two
chips that have them in common can't be told apart.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from math import isclose, prod
from statistics import median
from typing import TYPE_CHECKING, Final

from npusim.hardware import load_profile, profile_names
from npusim.values.dtypes import dtype
from npusim.values.errors import NpusimError
from npusim.values.language import say

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from npusim.hardware import Profile
    from npusim.model.kernel_csv import Kernel

_SAME_CLOCK: Final = 0.01
_MANY: Final = 5  # launches on all cores of a chip tell it
_VERY_MANY: Final = 20  # launches, none of them on as many cores as a larger chip has
_SHARE: Final = 0.2  # of those on fewer cores: less are grids that happen to have this size
_FEW: Final = 4  # chips to name
_LEAST_US: Final = 2.0  # shorter times have too few digits
_COPIES: Final = frozenset(
    {"Cast", "TensorMove", "Identity", "ViewCopy", "Add", "Sub", "Mul", "Muls", "Adds", "Maximum",
     "Minimum", "Relu", "Neg", "Abs"}
)  # fmt: skip
"""What memory alone limits where it is large."""
_TIMES_L2: Final = 5  # how many times as much as L2 holds a copy moves that tells the memory
_SUSTAINED: Final = (0.55, 1.05)
"""Shares of the nominal bandwidth that such copies get: 0.70 to 0.9 are measured on chips of all
families (hw_profiles: memory.hbm_sustained_fraction); up to a fifth may come from L2."""


@dataclass(frozen=True)
class ProfiledChip:
    """What a table tells of its chip: clock, cores, memory; None where it doesn't tell.

    `vector` and `cube` count launches by their number of blocks, on vector cores of their own and
    on all others. `memory_gbps` is what the fastest copy moves that no L2 holds.
    """

    clock_mhz: float | None = None
    vector: Counter[int] = field(default_factory=Counter)
    cube: Counter[int] = field(default_factory=Counter)
    memory_gbps: float | None = None

    @property
    def vector_cores(self) -> int | None:
        """The largest number of vector cores that many launches fill."""
        return _filled(self.vector, {each.cores.vector_cores for each in _chips()})

    @property
    def cube_cores(self) -> int | None:
        """The largest number of AI cores that many launches fill."""
        return _filled(self.cube, {each.cores.cube_cores for each in _chips()})

    @property
    def is_told(self) -> bool:
        """Whether the table tells anything of its chip."""
        return bool(self.in_words)

    def can_be(self, chip: Profile) -> bool:
        """Whether nothing in the table speaks against this chip."""
        if self.clock_mhz is not None and not _has_clock(chip, self.clock_mhz):
            return False
        if self.memory_gbps is not None:
            low, high = (share * chip.memory.hbm_nominal_gbps for share in _SUSTAINED)
            if not low <= self.memory_gbps <= high:
                return False
        vector, cube = self.vector_cores, self.cube_cores
        if self.vector and chip.cores.style == "unified":
            return False  # it has no vector cores of their own
        if vector is not None and chip.cores.style == "split":
            return _fits(self.vector, vector, chip.cores.vector_cores)
        if vector is not None:
            return vector <= chip.cores.vector_cores + chip.cores.extra_vector_cores
        return cube is None or _fits(self.cube, cube, chip.cores.cube_cores)

    @property
    def fitting(self) -> tuple[str, ...]:
        """The built-in chips that it can be; none where the table doesn't tell."""
        return tuple(each.name for each in _chips() if self.can_be(each)) if self.is_told else ()

    @property
    def in_words(self) -> str:
        """What the table tells, e.g. ``1650 MHz and 40 vector cores``."""
        vector, cube = self.vector_cores, self.cube_cores
        told = [
            "" if self.clock_mhz is None else f"{self.clock_mhz:.0f} MHz",
            "" if vector is None else say("{vector} vector cores").format(vector=vector),
            say("{cube} AI cores").format(cube=cube) if cube is not None and vector is None else "",
            ""
            if self.memory_gbps is None
            else say("copies at {memory_gbps:.0f} GB/s").format(memory_gbps=self.memory_gbps),
        ]
        words = " and ".join(filter(None, told))
        return words or (say("vector cores of their own") if self.vector else "")

    def doubt(self, chip: Profile) -> str:
        """Why the table can't be of this chip, in a sentence; empty where it can."""
        if not self.is_told or self.can_be(chip):
            return ""
        clock = chip.clocks.profiler_mhz or chip.clocks.cube_mhz
        cores = say("{cube_cores} AI cores").format(cube_cores=chip.cores.cube_cores)
        if chip.cores.style == "split":
            cores = say("{vector_cores} vector cores").format(vector_cores=chip.cores.vector_cores)
        own = f"{clock} MHz, {cores}"
        if self.memory_gbps is not None:
            own += say(", {hbm_nominal_gbps:g} GB/s at the most").format(
                hbm_nominal_gbps=chip.memory.hbm_nominal_gbps
            )
        return say("the file is of a chip with {in_words}, which {chip} ({own}) isn't").format(
            in_words=self.in_words, chip=chip.name, own=own
        )

    def remedy(self, option: str = "-s") -> str:
        """Which chip to give instead, by an option of the command line."""
        if not (names := self.fitting):
            return "npusim has no profile of such a chip: the estimates are of another one."
        if len(names) == 1:
            return say("Give {option} {names}.").format(option=option, names=names[0])
        if len(names) > _FEW:
            return say("Give the chip that it was measured on with {option}.").format(option=option)
        *most, last = names
        choice = say("{most} or {last}").format(most=", ".join(most), last=last)
        return say("Give {option} {choice}: the file can't tell which of them.").format(
            option=option, choice=choice
        )


@dataclass(frozen=True)
class Profiled:
    """Where a step of a profile comes from.

    `file` is the table, `device_id` the device whose kernels these are, `skipped_lines` are rows
    that don't fit the header, `level_0` says that no kernel has tensors.
    """

    file: str
    device_id: str = ""
    skipped_lines: tuple[int, ...] = ()
    level_0: bool = False
    chip: ProfiledChip = field(default_factory=ProfiledChip)


def chip_of(kernels: Iterable[Kernel]) -> ProfiledChip:
    """What kernels tell of their chip."""
    most = max(each.cores.vector_cores for each in _chips())
    clocks: list[float] = []
    vector: Counter[int] = Counter()
    cube: Counter[int] = Counter()
    rates: list[float] = []
    for each in kernels:
        rates += _rate_of_memory(each)
        blocks, core = each.block_num, each.task_type.upper()
        if each.rated_mhz is not None:
            clocks.append(each.rated_mhz)
        if not blocks or core not in ("AI_VECTOR_CORE", "AI_CORE"):
            continue  # a mix counts blocks of one kind and cycles of both
        (vector if core == "AI_VECTOR_CORE" else cube)[blocks] += 1
        # Grids of more blocks than cores run one after the other, and look slower than they are.
        long_enough = each.duration_us is None or each.duration_us > _LEAST_US
        if each.cycles_per_us and blocks <= most and long_enough:
            clocks.append(each.cycles_per_us / blocks)
    clock = median(clocks) if clocks else None
    return ProfiledChip(clock, vector, cube, max(rates, default=None))


def _rate_of_memory(kernel: Kernel) -> Iterator[float]:
    """GB/s that a kernel moves, if it is a copy that no L2 holds."""
    if kernel.op not in _COPIES or not kernel.duration_us:
        return
    given = kernel.tensors
    sides = (
        (given.input_shapes, given.input_dtypes),
        (given.output_shapes, given.output_dtypes),
    )
    try:
        nbytes = sum(
            prod(int(size) for size in shape.split(",") if size.strip()) * dtype(kind).itemsize
            for shapes, kinds in sides
            for shape, kind in zip(shapes, kinds, strict=False)
            if kind.strip()
        )
    except (ValueError, NpusimError):
        return  # shapes or dtypes that nobody can read are told where they are read
    if nbytes >= _TIMES_L2 * max(each.memory.l2_bytes for each in _chips()):
        yield nbytes / kernel.duration_us / 1e3


@cache
def _chips() -> tuple[Profile, ...]:
    return tuple(map(load_profile, profile_names()))


def _has_clock(chip: Profile, mhz: float) -> bool:
    clocks = (chip.clocks.cube_mhz, chip.clocks.vector_mhz, chip.clocks.profiler_mhz)
    return any(each and isclose(each, mhz, rel_tol=_SAME_CLOCK) for each in clocks)


def _filled(blocks: Counter[int], cores: set[int]) -> int | None:
    """The largest number of cores that some chip has and many launches fill."""
    launches = {number: blocks[number] for number in cores if blocks[number] >= _MANY}
    most = max(launches.values(), default=0)
    return max((each for each, times in launches.items() if times >= _SHARE * most), default=None)


def _fits(blocks: Counter[int], filled: int, cores: int) -> bool:
    """Whether launches that fill so many cores can be those of a chip with `cores`."""
    if cores > filled:
        return cores in blocks or blocks[filled] < _VERY_MANY
    return cores == filled
