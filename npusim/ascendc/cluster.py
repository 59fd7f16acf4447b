"""The cores that run one block together, and the flags they set for each other.

A block of a mix kernel is a cube core with its vector cores. Each runs the kernel's code by itself;
they share global memory and meet by flags that take a while from core to core. All other kernels
have clusters of a single core.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from npusim.engine.program import VECTOR, Barrier, Pipe, Program, Unit
from npusim.values.errors import KernelError, UnsupportedIntrinsicError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from npusim.ascendc.core import Core
    from npusim.ascendc.kernel import Kernel
    from npusim.ascendc.recorder import Recorder
    from npusim.hardware.profile import Profile

# A flag between cores: its number in the kernel, who sets it and who waits for it.
Signal = tuple[int, Unit, Unit]


@dataclass(frozen=True, slots=True)
class CoreWait:
    """What kernel code yields while it waits for other cores; ``times`` counts waits of a loop."""

    signals: tuple[Signal, ...]
    times: int


class Cluster:
    """The cores of one block: a shared table of flags, and the order in which their code runs."""

    def __init__(self, kernel: Kernel, block: int) -> None:
        self.cores: list[Core] = []
        self._kernel = kernel
        self._block = block
        self._flags: list[int] = []
        self._delays: dict[int, float] = {}
        self._numbers: dict[Signal, int] = {}  # signal -> flag of the programs
        self._raised: Counter[Signal] = Counter()  # signals sent and not yet taken
        self._phases: list[Iterator[Barrier | CoreWait]] = []
        self._waits: dict[int, CoreWait | None] = {}

    def new_program(self) -> Program:
        """An empty program that shares its flags with those of the other cores."""
        return Program([], self._flags, self._delays)

    def flag(self, signal: Signal, delay_cycles: float) -> int:
        """The programs' flag for ``signal``, which takes ``delay_cycles`` to arrive."""
        number = self._numbers.get(signal)
        if number is None:
            number = self._numbers[signal] = len(self._flags)
            self._flags.append(0)
            self._delays[number] = delay_cycles
        return number

    def send(self, signal: Signal, times: int) -> None:
        """The numbers that ``signal`` speaks of are there."""
        self._raised[signal] += times

    def advance(self) -> bool:
        """Run every core to its next barrier, vector cores first; False when all have ended.

        A core that waits for another is left where it is until the other has come far enough.
        """
        if not self._phases:
            self._phases = [self._kernel.process(core) or iter(()) for core in self.cores]
        running = list(range(len(self.cores)))
        arrived = 0
        while running:
            ready = [place for place in running if self._may_go_on(place)]
            if not ready:
                waiting = ", ".join(str(self.cores[place].unit) for place in running)
                raise KernelError(
                    self._kernel.op_type, f"block {self._block}: {waiting} wait for each other"
                )
            for place in ready:
                step = next(self._phases[place], None)
                if isinstance(step, CoreWait):
                    self._waits[place] = step
                else:
                    running.remove(place)
                    arrived += step is not None
        if 0 < arrived < len(self.cores):
            raise KernelError(
                self._kernel.op_type,
                f"block {self._block}: some of its cores end while the others wait in sync_all",
            )
        return arrived > 0

    def _may_go_on(self, place: int) -> bool:
        wait = self._waits.get(place)
        if wait is None:
            return True
        if any(self._raised[signal] < wait.times for signal in wait.signals):
            return False
        for signal in wait.signals:
            self._raised[signal] -= wait.times
        self._waits[place] = None
        return True


class Crossing:
    """The part of :class:`npusim.ascendc.core.Core` that speaks to its cluster."""

    if TYPE_CHECKING:
        kernel_name: str
        profile: Profile
        recorder: Recorder
        numerics: bool
        recording: bool
        unit: Unit
        cluster: Cluster

        @property
        def depth(self) -> int: ...
        def stack_size(self, first: int, last: int) -> int: ...

    def get_sub_block_idx(self) -> int:
        """Which of the vector cores of its block this is; 0 for a cube core and on its own."""
        return self.unit.sub_block or 0

    def cross_core_set_flag(self, flag: int, pipe: Pipe, *, sub_block: int | None = None) -> None:
        """``pipe`` tells the other side that it has finished what it was given (CrossCoreSetFlag).

        A vector core tells the cube core; a cube core tells all its vector cores, or only
        ``sub_block``. Flags count: every wait takes one set.
        """
        times = self.stack_size(0, self.depth)
        for other in self._partners(sub_block):
            signal = (flag, self.unit, other)
            if self.recording:
                self.recorder.set_flag(pipe, self.cluster.flag(signal, self._delay_cycles()))
            if self.numerics:
                self.cluster.send(signal, times)

    def cross_core_wait_flag(self, flag: int, *, sub_block: int | None = None) -> CoreWait:
        """Wait for the other side: ``yield core.cross_core_wait_flag(...)`` (CrossCoreWaitFlag).

        A cube core waits for all its vector cores, or only for ``sub_block``. The scalar unit
        waits, and with it everything that is issued later.
        """
        signals = tuple((flag, other, self.unit) for other in self._partners(sub_block))
        if self.recording:
            for signal in signals:
                number = self.cluster.flag(signal, self._delay_cycles())
                self.recorder.wait_flag(Pipe.SCALAR, number)
            cycles = self.profile.scalar.issue_cycles
            self.recorder.emit(Pipe.SCALAR, "wait_flag_dev", cycles, detail=f"flag {flag}")
            self.recorder.hold_back()
        times = self.stack_size(0, self.depth) if self.numerics else 0
        return CoreWait(signals, times)

    def _partners(self, sub_block: int | None) -> list[Unit]:
        partners = [
            core.unit
            for core in self.cluster.cores
            if core.unit.kind != self.unit.kind
            and (sub_block is None or core.unit.sub_block in (None, sub_block))
        ]
        if not partners:
            raise KernelError(self.kernel_name, f"the {self.unit} has no other core in its cluster")
        return partners

    def _delay_cycles(self) -> float:
        delay_us = self.profile.launch.sync_flag_us
        if delay_us is None:
            raise UnsupportedIntrinsicError(
                self.kernel_name, "cross_core_flag", "any dtype", self.profile.name, ()
            )
        return delay_us * self.profile.clock_mhz


def units_of(kernel: Kernel, profile: Profile) -> tuple[Unit, ...]:
    """The cores that run one block of ``kernel``; vector cores come first, with what they leave."""
    if not kernel.is_mix:
        return (VECTOR if kernel.cores == "vector" else Unit("cube"),)
    if profile.cores.style != "split":
        raise KernelError(
            kernel.op_type, f"needs cube and vector cores of their own; {profile.name} has none"
        )
    vectors = profile.cores.vector_cores // profile.cores.cube_cores
    return (*(Unit("vector", sub_block) for sub_block in range(vectors)), Unit("cube"))
