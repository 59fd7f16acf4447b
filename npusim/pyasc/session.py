"""The chip that a program runs on, and what it launched there."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from npusim.runtime.cache_start import new_cache
from npusim.runtime.stream import result_of
from npusim.runtime.task import run_tasks
from npusim.values.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from npusim.ascendc import Kernel
    from npusim.ascendc.flat.copies import DeviceMemory
    from npusim.runtime.device import Device
    from npusim.runtime.results import Result
    from npusim.runtime.task import TaskRuns


@dataclass(frozen=True, slots=True)
class Launched:
    """One launch: blocks, the memories that it read and that it wrote, and what came of it."""

    blocks: int
    read: tuple[DeviceMemory, ...]
    written: tuple[DeviceMemory, ...]
    result: Result


@dataclass(slots=True)
class Session:
    """A program's run on a device."""

    device: Device
    launched: list[Launched] = field(default_factory=list)

    def play(self, kernel: Kernel, memories: Sequence[DeviceMemory]) -> Result:
        """Run a kernel on memories, numbers and time; what it reads comes from HBM."""
        profile = self.device.profile
        cache = new_cache(profile, kernel.reads, self.device.l2 or "cold")
        done = run_tasks(
            (kernel,), profile, cache, numerics=True, exact=self.device.exact,
            memo=self.device.memo,
        )  # fmt: skip
        result = result_of(kernel.op_type, profile, done, None)
        read, written = (
            tuple(each for each in memories if each.number in touched(done, write=write))
            for write in (False, True)
        )
        self.launched.append(Launched(kernel.block_dim, read, written, result))
        return result


def touched(done: TaskRuns, *, write: bool) -> set[int]:
    """The numbers of the buffers that a kernel's instructions read, or write."""
    programs = (record.program for run in done.runs for record in run.records)
    transfers = (each.transfer for program in programs for each, _ in program.instructions())
    return {each.buffer for each in transfers if each is not None and each.write == write}


_current: list[Session] = []
_overridden: dict[str, float] = {}  # arguments of kernels, by name


@contextmanager
def overriding(arguments: Mapping[str, float]) -> Iterator[None]:
    """Launches inside give these values for parameters of these names."""
    _overridden.update(arguments)
    try:
        yield
    finally:
        _overridden.clear()


def overridden(name: str, value: object) -> object:
    """The argument of a launch, or the value in its place."""
    return _overridden.get(name, value)


def session() -> Session:
    """The run that is going on. Raises UsageError where a program runs by itself."""
    if not _current:
        raise UsageError(
            "this program's kernels have no chip to run on",
            "Run it by npusim exec PROGRAM.py -s Ascend910B3.",
        )
    return _current[-1]


def begin(device: Device) -> Session:
    """A run of a program; :func:`end` ends it."""
    _current.append(Session(device))
    return _current[-1]


def end() -> None:
    """The program has ended."""
    _current.pop()
