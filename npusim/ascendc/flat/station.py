"""One core as a program sees it: its memories, flags, atomic mode, and what runs on it now."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import local
from typing import TYPE_CHECKING, Any

from npusim.ascendc.events import Event
from npusim.ascendc.flat.global_order import bytes_of
from npusim.ascendc.flat.memory import Memory, Place
from npusim.ascendc.flat.order import Order
from npusim.ascendc.mistakes import site
from npusim.ascendc.queues import place_of
from npusim.engine.program import Pipe
from npusim.values.arithmetic import round_up
from npusim.values.errors import BufferOverflowError, KernelError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from npusim.ascendc.cluster import CoreWait
    from npusim.ascendc.core import Core
    from npusim.ascendc.flat.global_order import GlobalOrder, Runs
    from npusim.ascendc.flat.memory import View
    from npusim.ascendc.flat.strand import Strand
    from npusim.ascendc.gm_buffers import GmBuffer
    from npusim.ascendc.queues import TPosition
    from npusim.engine.program import Barrier
    from npusim.values.dtypes import DType

# Pipes that cores of one kind lack (source: public pages on the separated architecture).
_MISSING = {"vector": (Pipe.CUBE, Pipe.MTE1, Pipe.FIXP), "cube": (Pipe.VECTOR,)}
_threads = local()


@dataclass(slots=True)
class _Flag:
    """An event and how often it was set more than waited for; ``lines`` are those of the sets."""

    event: Event
    lines: list[str] = field(default_factory=list)
    waits: int = 0
    waited: str = ""


class Station:
    """What a program's calls on one core have in common.

    ``across`` is the order of the launch's cores; ``links`` puts pipes in order that nothing else
    does (pyasc's insert_sync); ``shared`` is what
    the cores of the launch have in common.
    """

    def __init__(
        self,
        core: Core,
        strand: Strand,
        across: GlobalOrder,
        *,
        links: bool = False,
        shared: Any = None,
    ) -> None:
        self.core, self._strand, self._across, self.shared = core, strand, across, shared
        self._adds_at = ""
        self._links = links
        self.order = Order(core.kernel_name, core.recorder, links=links)
        self.order.block, self.order.lane = core.get_block_idx(), lane_of(core)
        core.recorder.watcher = self.order
        self._memories: dict[str, Memory] = {}
        self._flags: dict[tuple[Pipe, Pipe, int], _Flag] = {}
        self._automatic: dict[object, Place] = {}
        self.program: Any = None  # what a program in another language keeps of this core
        self.pipe: object = None  # what the program calls its pipe
        self.products: list[object] = []  # high-level matrix products, in the order of their making

    @classmethod
    def here(cls) -> Station:
        """The core that the calling code runs on. Raises KernelError outside of kernels."""
        found: Station | None = getattr(_threads, "station", None)
        if found is None:
            raise KernelError("", "this function works in kernels alone", "Call it from a kernel.")
        return found

    def enter(self) -> None:
        """From here on the calling thread is this core."""
        _threads.station = self

    def memory(self, position: TPosition) -> Memory:
        """The memory that a logical position is in."""
        name = place_of(position)
        if name not in self._memories:
            self._memories[name] = Memory(self.core, name)
        return self._memories[name]

    def place(self, position: TPosition, dtype: DType, start: int, nbytes: int, name: str) -> Place:
        """A tensor at an address; refuses what the memory doesn't have."""
        memory = self.memory(position)
        if start < 0 or start + nbytes > memory.nbytes:
            raise BufferOverflowError(
                self.core.kernel_name,
                f"{memory.name} with {name} ({nbytes} bytes from byte {start} on)",
                start + nbytes,
                memory.nbytes,
            )
        return Place(memory, dtype, start, start + nbytes, name)

    def allocated(self, position: TPosition, dtype: DType, nbytes: int, name: str) -> Place:
        """A tensor for the line that asks for it, the same one in each turn of a loop."""
        frame, lines = sys._getframe(1), []
        while frame.f_back is not None:
            lines.append((frame.f_code, frame.f_lasti))
            frame = frame.f_back
        key = (tuple(lines), dtype, nbytes)
        if key not in self._automatic:
            size = round_up(nbytes, self.core.block_bytes)
            start = self.core.pipe.reserve(place_of(position), size, name)
            self._automatic[key] = self.place(position, dtype, start, nbytes, name)
        return self._automatic[key]

    def set_flag(self, setter: Pipe, waiter: Pipe, number: int) -> None:
        """``setter`` sets an event when it has done what it was given (SetFlag)."""
        flag = self._flag(setter, waiter, number)
        if len(flag.lines) > flag.waits:
            raise KernelError(
                self.core.kernel_name,
                f"event {number} from {setter} to {waiter} is set again before anything has "
                f"waited for it ({flag.lines[-1]})",
                "Wait for it first, or use another event.",
            )
        flag.event.set()
        flag.lines.append(site())

    def wait_flag(self, setter: Pipe, waiter: Pipe, number: int) -> None:
        """``waiter`` goes on when the event has been set (WaitFlag)."""
        flag = self._flag(setter, waiter, number)
        flag.event.wait()
        flag.waits, flag.waited = flag.waits + 1, site()

    def _flag(self, setter: Pipe, waiter: Pipe, number: int) -> _Flag:
        events = self.core.profile.cores.pipe_events
        if not 0 <= number < events:
            raise KernelError(
                self.core.kernel_name,
                f"event {number} doesn't exist",
                f"A pair of pipes has events 0 to {events - 1}.",
            )
        kind = self.core.unit.kind
        missing = _MISSING[kind] if self.core.profile.cores.style == "split" else ()
        for pipe in (setter, waiter):
            if pipe in missing:
                raise KernelError(
                    self.core.kernel_name,
                    f"an event from {setter} to {waiter}: a {kind} core has no {pipe} pipe",
                    "Use events between pipes that this core has.",
                )
        key = (setter, waiter, number)
        if key not in self._flags:
            self._flags[key] = _Flag(Event(self.core, setter, waiter))
        return self._flags[key]

    def pipe_barrier(self) -> None:
        """All pipes wait for each other (PipeBarrier of PIPE_ALL)."""
        self.core.pipe_barrier()
        self.order.join()

    def wait(self, step: Barrier | CoreWait) -> None:
        """Let the other cores go on until what is waited for has come."""
        self._strand.wait(step)
        self.enter()
        self._across.learn_all(self.order)

    def sync_all(self) -> None:
        """Wait for all cores (SyncAll)."""
        number = self._across.arrive(self.order)
        self._strand.wait(self.core.sync_all())
        self.enter()
        self.order.join()
        self._across.leave(self.order, number)

    def check_scalar(self, view: View) -> None:
        """Refuse what the scalar unit reads before the vector unit has certainly written it."""
        if not self._links:
            self.order.after_waits_of_vector()
            self.order.check(Pipe.SCALAR, [view], [])

    @contextmanager
    def storing(self, pipe: Pipe, memory: GmBuffer, runs: Runs) -> Iterator[None]:
        """Inside, runs of global memory are written, or added to."""
        held = bytes_of(memory)
        before = None if held is None else runs.content(held)
        yield
        after = None if held is None else runs.content(held)
        if not self._links:
            adds = bool(self._adds_at)
            self._across.touch(
                self.order, pipe, memory, runs, writes=True, adds=adds, before=before, after=after
            )

    def loaded(self, pipe: Pipe, memory: GmBuffer, runs: Runs) -> None:
        """Runs of global memory are read."""
        if not self._links:
            self._across.touch(self.order, pipe, memory, runs, writes=False)

    def set_atomic_add(self) -> None:
        """Stores to global memory add from here on (SetAtomicAdd)."""
        self.core.set_atomic_add()
        self._adds_at = site()

    def set_atomic_none(self) -> None:
        """Stores to global memory overwrite again (SetAtomicNone)."""
        self.core.set_atomic_none()
        self._adds_at = ""

    def finish(self) -> None:
        """Refuse flags set and not waited for or waited for too often, and atomics left on."""
        if self._adds_at:
            raise KernelError(
                self.core.kernel_name,
                "atomic operations are still on when the kernel ends",
                "Call set_atomic_none behind the copies that add.",
                site=self._adds_at,
            )
        for (setter, waiter, number), flag in self._flags.items():
            spare = len(flag.lines) - flag.waits
            if not spare:
                continue
            name = f"event {number} from {setter} to {waiter}"
            where = flag.lines[-1] if spare > 0 else flag.waited
            told = f"set {len(flag.lines)} times and waited for {flag.waits} times"
            raise KernelError(
                self.core.kernel_name,
                f"{name} is {told} ({where})",
                "Every set_flag needs one wait_flag, and the other way round.",
                site=where,
            )


def lane_of(core: Core) -> int:
    """Which of the cores runs a block: in a launch of more, each runs several, one by one."""
    cores = core.profile.cores
    cube = len(core.cluster.units) > 1 or core.unit.kind == "cube"
    return core.cluster.block_idx % (cores.cube_cores if cube else cores.vector_cores)
