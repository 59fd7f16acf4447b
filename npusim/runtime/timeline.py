"""What happened on the device in a call: its tasks, and everything on every pipe."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

from npusim.engine import KernelRun, Pipe, Unit
from npusim.engine.arrows import linked
from npusim.engine.program import VECTOR
from npusim.values.takes import TEXT, each, maybe, of, takes

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile
    from npusim.runtime.work import Place, TaskWork


@dataclass(frozen=True, slots=True)
class TaskResult:
    """One task on the device, named by its OpType as the profiler names it.

    Times in microseconds from the start of the call; ``pipes`` are busy ratios; bytes are what the
    kernel asked for, ``hbm_bytes`` what of it (rounded to bus granules) came from or went to HBM.
    """

    name: str
    block_dim: int
    cycles: int
    start_us: float
    duration_us: float
    launch_us: float
    bound: str
    pipes: Mapping[str, float]
    bytes_read: int
    bytes_written: int
    hbm_bytes: int
    bandwidth_gbps: float
    band_us: tuple[float, float]
    band_basis: str
    jumped_ratio: float


@dataclass(frozen=True, slots=True)
class Origin:
    """What an instruction waited for on its own core: the pipe, and when that started and ended."""

    pipe: str
    start_us: float
    end_us: float


@dataclass(frozen=True, slots=True)
class Slice:
    """One instruction on one pipe of one core; times in microseconds from the start of the call.

    ``waited_for`` are the instructions whose flags it took.
    """

    task: str
    core: str
    pipe: str
    name: str
    start_us: float
    duration_us: float
    bytes: int
    detail: str
    site: str
    waited_for: tuple[Origin, ...] = ()


_LATE_IN_A_ROW = 2_000


@dataclass(frozen=True, eq=False)
class Timeline:
    """Everything that happened on every pipe; repetitions are unfolded only while iterating."""

    tasks: tuple[TaskResult, ...]
    _runs: tuple[KernelRun, ...] = field(repr=False)
    _profile: Profile = field(repr=False)

    @property
    def runs(self) -> tuple[KernelRun, ...]:
        """What the engine played for each task."""
        return self._runs

    @property
    def profile(self) -> Profile:
        """The chip that it happened on."""
        return self._profile

    @property
    def cores(self) -> tuple[str, ...]:
        """Names of the cores that any task uses, in the order of their index."""
        places = {
            _place(self._profile, block, record.unit)
            for run in self._runs
            for record in run.records
            for block in record.blocks
        }
        return tuple(_name(self._profile, *place) for place in sorted(places))

    @takes()
    def work(self) -> tuple[TaskWork, ...]:
        """What the cores did in each task, added up by instruction."""
        from npusim.runtime.work import work_of

        return tuple(
            work_of(task.name, run, self._profile, self._places(run))
            for task, run in zip(self.tasks, self._runs, strict=True)
        )

    def _places(self, run: KernelRun) -> dict[int, tuple[Place, ...]]:
        """The cores of every record of a run."""
        from npusim.runtime.work import Place

        return {
            index: tuple(
                Place(
                    core_name(self._profile, block, record.unit),
                    block,
                    f"{record.unit.kind}{record.unit.sub_block or 0}",
                )
                for block in record.blocks
            )
            for index, record in enumerate(run.records)
        }

    @takes(cores=maybe(each(TEXT)))
    def count(self, cores: Collection[str] | None = None) -> int:
        """How many slices there are, without unfolding them."""
        return sum(
            step.times * sum(cores is None or place.core in cores for place in group.places)
            for task in self.work()
            for group in task.cores
            for step in group.steps
        )

    @takes(cores=maybe(each(TEXT)), until_us=of(int, float))
    def slices(
        self, cores: Collection[str] | None = None, until_us: float = inf
    ) -> Iterator[Slice]:
        """All instructions, task by task and core by core.

        Of the named cores only if ``cores`` is given, and of each hardly more than what begins
        before ``until_us``.
        """
        for task, run in zip(self.tasks, self._runs, strict=True):
            first_us = task.start_us + task.launch_us
            places = sorted(
                (_place(self._profile, block, record.unit), index)
                for index, record in enumerate(run.records)
                for block in record.blocks
            )
            for place, index in places:
                core = _name(self._profile, *place)
                if cores is None or core in cores:
                    yield from self._core_slices(task, core, run, index, first_us, until_us)

    def _core_slices(
        self,
        task: TaskResult,
        core: str,
        run: KernelRun,
        index: int,
        first_us: float,
        until_us: float,
    ) -> Iterator[Slice]:
        clock = self._profile.clock_mhz
        late = 0
        for span, origins in linked(run.records[index]):
            # Pipes run ahead of each other, so one late instruction isn't the end.
            late = late + 1 if first_us + span.start / clock > until_us else 0
            if late > _LATE_IN_A_ROW:
                return
            instruction = span.instruction
            yield Slice(
                task.name,
                core,
                str(span.pipe),
                instruction.name,
                first_us + span.start / clock,
                (span.end - span.start) / clock,
                instruction.transfer.payload_bytes if instruction.transfer else 0,
                instruction.detail,
                instruction.site,
                tuple(
                    Origin(
                        str(origin.pipe),
                        first_us + origin.start / clock,
                        first_us + origin.end / clock,
                    )
                    for origin in origins
                ),
            )


def core_name(profile: Profile, block: int, unit: Unit = VECTOR) -> str:
    """A core's name in traces; the cores of a split chip are named by their cluster."""
    return _name(profile, *_place(profile, block, unit))


def _name(profile: Profile, cluster: int, core: int) -> str:
    if profile.cores.style != "split":
        return f"core{cluster}"
    return f"core{cluster}.veccore{core - 1}" if core else f"core{cluster}.cubecore0"


def _place(profile: Profile, block: int, unit: Unit) -> tuple[int, int]:
    """The cluster that a core of a block is in, and which core of it: the cube core comes first."""
    if profile.cores.style != "split" or unit.kind == "cube":
        return block, 0
    if unit.sub_block is not None:
        return block, 1 + unit.sub_block
    per_cube = profile.cores.vector_cores // profile.cores.cube_cores
    return block // per_cube, 1 + block % per_cube


def pipe_ratios(ratios: Mapping[Pipe, float]) -> dict[str, float]:
    """Busy ratio of every pipe that the kernel uses, by their names in their order."""
    return {str(pipe): ratios[pipe] for pipe in Pipe if pipe in ratios}
