"""The chip that a program runs on, and what it launched there."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from npusim.runtime.cache_start import hold_code, new_cache
from npusim.runtime.listening import Heard, Operand, listening
from npusim.runtime.stream import result_of
from npusim.runtime.task import run_tasks
from npusim.values.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from npusim.ascendc import Kernel
    from npusim.ascendc.flat.copies import DeviceMemory
    from npusim.runtime.device import Device
    from npusim.runtime.results import Result
    from npusim.runtime.task import TaskRuns


@dataclass(slots=True)
class Session:
    """A program's run on a device."""

    device: Device
    launched: list[Heard] = field(default_factory=list)

    def play(
        self,
        kernel: Kernel,
        memories: Sequence[DeviceMemory],
        *,
        numerics: bool = True,
        assumptions: tuple[str, ...] = (),
    ) -> Result:
        """Run a kernel on memories, numbers and time; what it reads comes from HBM.

        On a device whose L2 is warm it runs in a loop: cores have its code, too.
        """
        profile, mode = self.device.profile, self.device.l2 or "cold"
        cache = new_cache(profile, kernel.reads, mode)
        hold_code(cache, (kernel,), mode)
        done = run_tasks(
            (kernel,), profile, cache, numerics=numerics, exact=self.device.exact,
            memo=self.device.memo,
        )  # fmt: skip
        result = result_of(kernel.op_type, profile, done, None, assumptions=assumptions)
        read, written = (
            tuple(
                Operand(each.name, tuple(each.shape), each.kind)
                for each in memories
                if each.number in touched(done, write=write)
            )
            for write in (False, True)
        )
        self.launched.append(Heard(kernel.block_dim, read, written, result))
        return result


def touched(done: TaskRuns, *, write: bool) -> set[int]:
    """The numbers of the buffers that a kernel's instructions read, or write."""
    programs = (record.program for run in done.runs for record in run.records)
    transfers = (each.transfer for program in programs for each, _ in program.instructions())
    return {each.buffer for each in transfers if each is not None and each.write == write}


_current: list[Session] = []


def session() -> Session:
    """The run that is going on. Raises UsageError where a program runs by itself."""
    if not _current:
        raise UsageError(
            "this program's kernels have no chip to run on",
            "Run it by npusim exec PROGRAM.py -s Ascend910B3.",
        )
    return _current[-1]


@contextmanager
def held(device: Device) -> Iterator[Session]:
    """A run of a program. It hears of npusim's own launches and calls, on whatever device."""
    run = Session(device)
    _current.append(run)
    try:
        with listening(run.launched.append):
            yield run
    finally:
        _current.pop()
