"""Kernels of C++ programs: a launch waits in its stream, and runs on every core of the chip.

The library runs the cores and computes their numbers; what they did comes back as lists of
instructions, which are priced and played here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from npusim.ascendc import GlobalTensor, GmBuffer
from npusim.ascendc.flat.listings import ListedKernel
from npusim.capi.runtime.core_runs import Launch, play_cores
from npusim.capi.runtime.refusals import Refusal, task_fault
from npusim.runtime.cache_start import new_cache
from npusim.runtime.grids import require_blocks
from npusim.runtime.stream import result_of
from npusim.runtime.task import run_tasks
from npusim.values.dtypes import UINT8
from npusim.values.errors import ArgumentError, DeviceFault, NpusimError
from npusim.values.status import AclError

if TYPE_CHECKING:
    from npusim.capi.runtime.memory import Block
    from npusim.capi.runtime.session import Session
    from npusim.capi.runtime.streams import Stream
    from npusim.runtime.results import Result

_DROP = "void(*)(uintptr_t)"
_READ, _WRITTEN = 1, 2


@dataclass(eq=False)
class _Task:
    """A launch that waits in a stream."""

    session: Session
    name: str
    kind: int
    blocks: int
    play: int
    body: int
    drop: int
    context: int
    stream: Stream

    def __call__(self, start_us: float) -> float:
        """Runs the kernel and returns its simulated duration. Raises DeviceFault."""
        profile = self.session.npu.profile
        try:
            result, tensors = self._run()
        except NpusimError as problem:
            fault = task_fault(problem, profile)
            _tell(self.session, self.name, self.stream, start_us, fault)
            raise fault from None
        finally:
            self.session.ffi.cast(_DROP, self.drop)(self.context)
        self.session.journal.ran(tensors, self.stream.name, start_us, result)
        return result.duration_us

    def _run(self) -> tuple[Result, dict[str, dict[str, Any]]]:
        profile, blocks = self.session.npu.profile, self.session.memory.blocks()
        launch = Launch(self.name, self.kind, self.blocks, self.play, self.body, self.context)
        played = play_cores(self.session.ffi, profile, launch, blocks)
        memories = [
            _memory(f"global memory {number}", min(block.size, used))
            for number, (block, used) in enumerate(zip(blocks, played.footprint, strict=False))
        ]
        made = ListedKernel.named(self.name, "__main__", played.cores, is_mix=played.is_mix)
        cache = new_cache(profile, (), "cold")
        memo = self.session.npu.memo
        kernel = made(played.listing(memories))
        done = run_tasks((kernel,), profile, cache, numerics=False, memo=memo)
        tensors = _tensors(blocks, memories, played.touched)
        return result_of(self.name, profile, done, None), tensors


def _tell(session: Session, name: str, stream: Stream, start_us: float, fault: DeviceFault) -> None:
    """Notes why a kernel didn't run; many programs don't look at the code."""
    if not session.journal.is_kept:
        session.say(f"{fault.message} {fault.remedy}".rstrip())
    session.journal.fault(name, stream.name, start_us, fault)


def _tensors(
    blocks: Sequence[Block], memories: Sequence[GlobalTensor], touched: bytes
) -> dict[str, dict[str, Any]]:
    """What the journal says of the blocks that a kernel read or wrote."""
    tensors: dict[str, dict[str, Any]] = {}
    for block, memory, how in zip(blocks, memories, touched, strict=True):
        block.version += bool(how & _WRITTEN)
        for io, way in (("in", _READ), ("out", _WRITTEN)):
            if how & way:
                told = {"shape": [block.size], "dtype": "bytes", "io": io}
                tensors[f"{io} {memory.buffer.name}"] = told
    return tensors


def _memory(name: str, nbytes: int) -> GlobalTensor:
    return GlobalTensor(GmBuffer(name, nbytes), UINT8, (nbytes,))


def launch(
    session: Session,
    name: Any,
    kind: int,
    blocks: int,
    stream: int,
    play: int,
    body: int,
    drop: int,
    context: int,
) -> None:
    """Queues a kernel on a stream. Refusal 107000 for a grid that no launch has."""
    queue = session.stream(stream)
    told = session.ffi.string(name).decode()
    profile = session.npu.profile
    try:
        require_blocks(blocks, profile, "blocks")
    except ArgumentError as problem:
        code = AclError.ACL_ERROR_RT_PARAM_INVALID
        fault = DeviceFault(code, f"{told}<<<>>>: {problem.message}", problem.remedy)
        _tell(session, told, queue, queue.clock_us, fault)
        raise Refusal(code, problem.message, problem.remedy) from None
    queue.submit(_Task(session, told, kind, blocks, play, body, drop, context, queue))
