"""The cores that run one block together, and the flags they set for each other.

A block of a mix kernel is a cube core with its vector cores. Each runs the kernel's code by itself;
they share global memory and meet by flags that take a while from core to core. All other kernels
have clusters of a single core.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from npusim.ascendc.issuer import Issuer
from npusim.ascendc.views import Views
from npusim.engine.program import Pipe, Program, Unit
from npusim.values.errors import KernelError, UnsupportedIntrinsicError

# A flag between cores: its number in the kernel, who sets it and who waits for it.
Signal = tuple[int, Unit, Unit]


@dataclass(frozen=True, slots=True)
class CoreWait:
    """What kernel code yields while it waits for other cores; ``times`` counts waits of a loop."""

    signals: tuple[Signal, ...]
    times: int


@dataclass(slots=True)
class Progress:
    """How far the blocks up to ``last_block``, run one after the other, have come together.

    ``reached`` has the first task that isn't computed yet, for each loop over tasks, and ``first``
    what says which task a block begins with.
    """

    last_block: int
    reached: dict[int, int] = field(default_factory=dict)
    first: dict[int, Callable[[int], int]] = field(default_factory=dict)

    def has_had(self, block: int) -> bool:
        """Whether a block has tasks, and all of them are computed."""
        ends = {
            loop: first(block + 1)
            for loop, first in self.first.items()
            if first(block) < first(block + 1)
        }
        return bool(ends) and all(end <= self.reached.get(loop, 0) for loop, end in ends.items())


class Cluster:
    """The cores of one block: which kernel and block they run, and their shared table of flags."""

    def __init__(
        self,
        kernel_name: str,
        block_idx: int,
        block_num: int,
        *,
        widened: bool,
        reference: bool,
        progress: Progress | None = None,
    ) -> None:
        self.kernel_name = kernel_name
        self.block_idx = block_idx
        self.block_num = block_num
        self.widened = widened
        self.reference = reference
        self.progress = progress
        self.units: list[Unit] = []
        self.views = Views()  # of all its cores: what one stores another may show
        self._flags: list[int] = []
        self._delays: dict[int, float] = {}
        self._names: dict[int, str] = {}
        self._numbers: dict[Signal, int] = {}  # signal -> flag of the programs
        self._raised: Counter[Signal] = Counter()  # signals sent and not yet taken

    def new_program(self, unit: Unit) -> Program:
        """An empty program of another core, which shares its flags with those of the others."""
        self.units.append(unit)
        return Program([], self._flags, self._delays, self._names, self.kernel_name)

    def flag(self, signal: Signal, delay_cycles: float) -> int:
        """The programs' flag for ``signal``, which takes ``delay_cycles`` to arrive."""
        number = self._numbers.get(signal)
        if number is None:
            number = self._numbers[signal] = len(self._flags)
            self._flags.append(0)
            self._delays[number] = delay_cycles
            self._names[number] = f"cross-core flag {signal[0]} of the {signal[1]}"
        return number

    def send(self, signal: Signal, times: int) -> None:
        """The numbers that ``signal`` speaks of are there."""
        self._raised[signal] += times

    def take(self, wait: CoreWait) -> bool:
        """Take what a core waits for; False, and nothing is taken, while some of it is missing."""
        if any(self._raised[signal] < wait.times for signal in wait.signals):
            return False
        for signal in wait.signals:
            self._raised[signal] -= wait.times
        return True


class Crossing(Issuer):
    """The part of :class:`npusim.ascendc.core.Core` that speaks to its cluster."""

    cluster: Cluster

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
        if self.follower is not None:
            self.follower.waits()
        if self.recording:
            for signal in signals:
                number = self.cluster.flag(signal, self._delay_cycles())
                self.recorder.wait_flag(Pipe.SCALAR, number)
            cycles = self.costs.core_flag_wait()
            self.recorder.emit(Pipe.SCALAR, "wait_flag_dev", cycles, detail=f"flag {flag}")
            self.recorder.hold_back()
        times = self.stack_size(0, self.depth) if self.numerics else 0
        return self.awaits(CoreWait(signals, times))

    def take_messages(self, count: int) -> None:
        """The cube core reads and unpacks ``count`` messages of its vector cores.

        That is how they ask the Matmul library for a product, set its shapes and make its object:
        the scalar unit finds each in global memory before it issues what comes next.
        """
        cycles = self.costs.messages(count)
        if self.recording and cycles:
            self.recorder.emit(Pipe.SCALAR, "message", cycles, detail=f"{count} messages")
            self.recorder.hold_back()

    def _partners(self, sub_block: int | None) -> list[Unit]:
        partners = [
            unit
            for unit in self.cluster.units
            if unit.kind != self.unit.kind
            and (sub_block is None or unit.sub_block in (None, sub_block))
        ]
        if not partners:
            raise KernelError(self.kernel_name, f"the {self.unit} has no other core in its cluster")
        return partners

    def _delay_cycles(self) -> float:
        delay = self.costs.core_flag_delay()
        if delay is None:
            raise UnsupportedIntrinsicError(
                self.kernel_name, "cross_core_flag", "any dtype", self.profile.name, ()
            )
        return delay
