"""Kernels of C++ programs: a launch waits in its stream, and runs on every core of the chip."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from npusim.ascendc.flat.copies import DeviceMemory
from npusim.ascendc.flat.launching import ProgramKernel
from npusim.capi.runtime.refusals import task_fault
from npusim.pyasc.session import touched
from npusim.runtime.cache_start import new_cache
from npusim.runtime.stream import result_of
from npusim.runtime.task import run_tasks
from npusim.values.errors import KernelError, NpusimError

if TYPE_CHECKING:
    from npusim.ascendc.flat.station import Station
    from npusim.capi.runtime.memory import Block
    from npusim.capi.runtime.session import Session
    from npusim.capi.runtime.streams import Stream

_RUN = "int(*)(uintptr_t, int)"


@dataclass(eq=False)
class Launched:
    """What the cores of a launch share: the device's blocks that its instructions touched."""

    session: Session
    memories: dict[int, tuple[DeviceMemory, Block]] = field(default_factory=dict)

    def memory_of(self, block: Block) -> DeviceMemory:
        """A block of device memory, as copies take it."""
        if block.address not in self.memories:
            name = f"global memory {len(self.memories)}"
            self.memories[block.address] = DeviceMemory(name, block.content), block
        return self.memories[block.address][0]


@dataclass(eq=False)
class KernelState:
    """A core's objects by their handles, and the error that ended its kernel."""

    objects: list[Any] = field(default_factory=list)
    failure: NpusimError | None = None

    def add(self, value: object) -> int:
        """A handle for an object."""
        self.objects.append(value)
        return len(self.objects) - 1


@dataclass(eq=False)
class _Task:
    """A launch that waits in a stream."""

    session: Session
    name: str
    kind: int
    blocks: int
    run: int
    context: int
    stream: Stream

    def __call__(self, start_us: float) -> float:
        """Runs the kernel and returns its simulated duration. Raises DeviceFault."""
        call = self.session.ffi.cast(_RUN, self.run)
        shared = Launched(self.session)
        profile = self.session.npu.profile

        def code(station: Station) -> None:
            station.program = KernelState()
            if call(self.context, 0):
                failure = station.program.failure
                raise failure or KernelError(self.name, "the kernel ended early")

        cores: Literal["vector", "cube"] = "cube" if self.kind == 1 else "vector"
        kind = ProgramKernel.named(self.name, "__main__", cores, is_mix=self.kind > 1)
        kernel = kind(code, (), self.blocks, shared=shared)
        try:
            cache = new_cache(profile, (), "cold")
            memo = self.session.npu.memo
            done = run_tasks((kernel,), profile, cache, numerics=True, memo=memo)
        except NpusimError as problem:
            fault = task_fault(problem, profile)
            if not self.session.journal.is_kept:  # many programs don't look at the code
                self.session.say(str(problem))
            self.session.journal.fault(self.name, self.stream.name, start_us, fault)
            raise fault from None
        finally:
            call(self.context, 1)
        result = result_of(self.name, profile, done, None)
        tensors = {}
        for memory, block in shared.memories.values():
            block.version += 1
            for io, write in (("in", False), ("out", True)):
                if memory.number in touched(done, write=write):
                    told = {"shape": [block.size], "dtype": "bytes", "io": io}
                    tensors[f"{io} {memory.name}"] = told
        self.session.journal.ran(tensors, self.stream.name, start_us, result)
        return result.duration_us


def launch(
    session: Session, name: Any, kind: int, blocks: int, stream: int, run: int, context: int
) -> None:
    """Queues a kernel on a stream."""
    queue = session.stream(stream)
    told = session.ffi.string(name).decode()
    queue.submit(_Task(session, told, kind, blocks, run, context, queue))
