"""What the cores did in one task, added up: instruction by instruction, core by core.

A timeline says when; this says how often, for how long and how many bytes, without unfolding
anything, so that it costs the same for a thousand and for a million instructions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Final

from npusim.engine import KernelRun, Pipe, l2_cycles, machine_of

if TYPE_CHECKING:
    from npusim.engine.timeline import CoreRecord, Total
    from npusim.hardware.profile import Profile

_PRODUCT = re.compile(r"(\w+) (\d+)x(\d+)x(\d+)")
_ROWS = re.compile(r"(\w+) (\d+(?:x\d+)*)\b")
_ARITHMETIC: Final = {
    **dict.fromkeys(
        ["vadd", "vsub", "vmul", "vdiv", "vmax", "vmin", "vadds", "vmuls", "vmaxs", "vmins"], 1
    ),
    **dict.fromkeys(["vabs", "vrelu", "vlrelu", "vexp", "vln", "vsqrt", "vrsqrt", "vrec"], 1),
    **dict.fromkeys(["vcadd", "vcmax", "vcmin", "vcgadd", "vcgmax", "vcgmin", "vcpadd"], 1),
    **dict.fromkeys(["vaxpy", "vmla", "vmadd", "vaddrelu"], 2),
    "vmaddrelu": 3,
}
"""Operations for each element; what moves, converts, compares or selects counts none."""


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction of a kernel on one core: how often it ran, for how many cycles in all.

    ``site`` is the line of kernel code that issued it; ``path`` names the copy path of a transfer
    with global memory (else empty) and ``bytes`` is what all executions asked it for.
    """

    pipe: str
    name: str
    detail: str
    site: str
    path: str
    write: bool
    times: int
    cycles: float
    bytes: int


@dataclass(frozen=True, slots=True)
class Place:
    """A core by its name, the block it ran, and what it is in the block: vector1, cube0."""

    core: str
    block: int
    unit: str


@dataclass(frozen=True, slots=True)
class CoreWork:
    """What each of a few cores in lockstep did, in cycles from the start of the first core."""

    places: tuple[Place, ...]
    kind: str
    cycles: float
    busy: Mapping[str, float]
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class TaskWork:
    """All cores of one task.

    ``core_cycles`` is the task without its launch.  ``bus_bytes`` is the traffic with global memory
    in whole bus granules and ``hbm_bytes`` what of it L2 didn't serve.  The shares are of the roofs
    during ``core_cycles``: the busier of vector and cube unit of all cores in use, sustained HBM
    and L2 bandwidth of the chip.
    """

    name: str
    clock_mhz: float
    core_cycles: float
    launch_cycles: float
    bus_bytes: float
    hbm_bytes: float
    compute_share: float
    hbm_share: float
    l2_share: float
    cores: tuple[CoreWork, ...]

    @property
    def l2_hit_ratio(self) -> float | None:
        """Share of the traffic that L2 served; None without traffic."""
        return 1.0 - self.hbm_bytes / self.bus_bytes if self.bus_bytes else None

    @property
    def cube_operations(self) -> Mapping[str, int]:
        """Operations of the matrix unit, two per multiply-add, by the dtype that it multiplies."""
        found: dict[str, int] = {}
        for group in self.cores:
            for step in group.steps:
                if step.name == "mad" and (product := _PRODUCT.fullmatch(step.detail)):
                    dtype, *sizes = product.groups()
                    done = 2 * prod(map(int, sizes)) * step.times * len(group.places)
                    found[dtype] = found.get(dtype, 0) + done
        return found

    @property
    def vector_operations(self) -> Mapping[str, int]:
        """Arithmetic of the vector unit on elements, two for a multiply-add, by its dtype."""
        found: dict[str, int] = {}
        for group in self.cores:
            for step in group.steps:
                each = _ARITHMETIC.get(step.name, 0)
                if each and (rows := _ROWS.match(step.detail)):
                    elements = prod(map(int, rows[2].split("x")))
                    done = each * elements * step.times * len(group.places)
                    found[rows[1]] = found.get(rows[1], 0) + done
        return found

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of cores at work: vector, cube or both."""
        return tuple(dict.fromkeys(sorted(group.kind for group in self.cores)))


def work_of(
    name: str, run: KernelRun, profile: Profile, places: Mapping[int, tuple[Place, ...]]
) -> TaskWork:
    """The work of one kernel; ``places`` are the cores of each of its records."""
    rates = machine_of(profile, 1).rates
    core_cycles = max(run.core_cycles, 1e-9)
    traffic = run.traffic
    return TaskWork(
        name,
        profile.clock_mhz,
        run.core_cycles,
        run.launch_cycles,
        traffic.gm_bytes,
        traffic.hbm_bytes,
        max(run.busy_ratio(Pipe.VECTOR), run.busy_ratio(Pipe.CUBE)),
        traffic.hbm_bytes / rates.hbm / core_cycles,
        l2_cycles(traffic, rates) / core_cycles,
        tuple(
            _core_work(record, places[index])
            for index, record in enumerate(run.records)
            if places[index]
        ),
    )


def _core_work(record: CoreRecord, places: tuple[Place, ...]) -> CoreWork:
    busy = {str(pipe): cycles for pipe, cycles in record.busy.items()}
    steps = tuple(_step(total) for total in record.totals())
    return CoreWork(places, record.unit.kind, record.end, busy, steps)


def _step(total: Total) -> Step:
    instruction, transfer = total.instruction, total.instruction.transfer
    return Step(
        str(total.pipe),
        instruction.name,
        instruction.detail,
        instruction.site,
        transfer.path if transfer else "",
        transfer.write if transfer else False,
        total.times,
        total.cycles,
        transfer.payload_bytes * total.times if transfer else 0,
    )
