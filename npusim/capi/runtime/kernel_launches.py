"""Kernels of C++ programs: a launch waits in its stream, and runs on every core of the chip.

The library runs the cores and computes their numbers; what they did comes back as lists of
instructions, which are priced and played here.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from npusim.ascendc import GlobalTensor, GmBuffer
from npusim.ascendc.allowance import SECONDS_VARIABLE
from npusim.ascendc.flat.listings import PIPES, Kind, ListedKernel, Listing, Symbol
from npusim.capi.runtime.journal import PRODUCTS_VARIABLE
from npusim.capi.runtime.refusals import Refusal, task_fault
from npusim.runtime.cache_start import new_cache
from npusim.runtime.grids import require_blocks
from npusim.runtime.stream import result_of
from npusim.runtime.task import run_tasks
from npusim.values.dtypes import UINT8, from_acl
from npusim.values.errors import ArgumentError, DeviceFault, KernelError, NpusimError
from npusim.values.sites import site_of
from npusim.values.status import AclError

if TYPE_CHECKING:
    from npusim.capi.runtime.memory import Block
    from npusim.capi.runtime.session import Session
    from npusim.capi.runtime.streams import Stream
    from npusim.hardware.profile import Profile
    from npusim.runtime.results import Result

_PLAY = "int(*)(npusim_job_t *)"
_DROP = "void(*)(uintptr_t)"
_MEMORIES = ("ub", "l1", "l0a", "l0b", "l0c", "bias_table", "fixpipe_buffer")
_MOST_INSTRUCTIONS = 10_000_000  # of a pipe of a core; more are a loop that doesn't end
_MOST_SECONDS = 60  # of a processor, without an instruction
_UNIFIED, _CUBE, _MIX = -1, 1, 2  # a core that is both cube and vector is neither of the others
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
        ffi, profile = self.session.ffi, self.session.npu.profile
        blocks = self.session.memory.blocks()
        job = ffi.new("npusim_job_t *")
        split = profile.cores.style == "split"
        vectors = profile.cores.vector_cores // profile.cores.cube_cores if split else 0
        if not split and self.kind >= _MIX:
            raise KernelError(self.name, *_no_mix(profile))
        kind = self.kind if split else _UNIFIED
        job.body, job.context, job.kind = self.body, self.context, kind
        job.blocks, job.vectors, job.buffers = self.blocks, vectors, len(blocks)
        job.at_once = _at_once(profile, kind)
        job.products = not os.environ.get(PRODUCTS_VARIABLE)
        job.most_instructions = _MOST_INSTRUCTIONS
        job.most_seconds = int(os.environ.get(SECONDS_VARIABLE) or _MOST_SECONDS)
        sizes = [getattr(profile.buffers, f"{name}_bytes") or 0 for name in _MEMORIES]
        for place, nbytes in enumerate(sizes):
            job.memory[place] = nbytes
        given = [
            ffi.new("uint64_t[]", numbers or [0])
            for numbers in (
                [each.address for each in blocks],
                [each.size for each in blocks],
                [each.content.ctypes.data for each in blocks],
            )
        ]
        job.addresses, job.sizes, job.contents = given
        touched = ffi.new("uint8_t[]", max(1, len(blocks)))
        footprint = ffi.new("uint64_t[]", max(1, len(blocks)))
        job.touched, job.footprint = touched, footprint
        if ffi.cast(_PLAY, self.play)(job):
            raise self._failure(job)
        memories = [
            _memory(f"global memory {number}", min(block.size, footprint[number]))
            for number, block in enumerate(blocks)
        ]
        listing = _listing(ffi, job, memories, vectors if split else 0)
        cores: Literal["vector", "cube"] = "cube" if kind == _CUBE else "vector"
        made = ListedKernel.named(self.name, "__main__", cores, is_mix=kind >= _MIX)
        cache = new_cache(profile, (), "cold")
        memo = self.session.npu.memo
        done = run_tasks((made(listing),), profile, cache, numerics=False, memo=memo)
        tensors = _tensors(blocks, memories, bytes(ffi.buffer(touched, len(blocks))))
        return result_of(self.name, profile, done, None), tensors

    def _failure(self, job: Any) -> KernelError:
        text = self.session.ffi.string
        remedy = text(job.remedy).decode() if job.remedy else ""
        message = text(job.message).decode(errors="replace")
        site = site_of(text(job.file).decode(), job.line) if job.file else ""
        return KernelError(self.name, message, remedy, site=site)


def _tell(session: Session, name: str, stream: Stream, start_us: float, fault: DeviceFault) -> None:
    """Notes why a kernel didn't run; many programs don't look at the code."""
    if not session.journal.is_kept:
        session.say(f"{fault.message} {fault.remedy}".rstrip())
    session.journal.fault(name, stream.name, start_us, fault)


def _no_mix(profile: Profile) -> tuple[str, str]:
    """Why a kernel for cube and vector cores can't run, and what to do."""
    why = (
        f"it is for cube cores with vector cores beside them, but a core of {profile.name} is both"
    )
    there = "Run it on an Atlas A2 chip such as Ascend910B3"
    return why, f"{there}, or write it without __mix__, flags between cores and Matmul objects."


def _at_once(profile: Profile, kind: int) -> int:
    """So many blocks of a kernel find a core each."""
    cores = profile.cores
    if cores.style != "split":
        return cores.ai_cores
    return cores.cube_cores if kind else cores.vector_cores


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


def _listing(ffi: Any, job: Any, memories: Sequence[GlobalTensor], vectors: int) -> Listing:
    """What the cores of a launch did."""
    symbols = [_symbol(ffi, job.symbols[place]) for place in range(job.symbol_count)]
    starts = np.frombuffer(ffi.buffer(job.starts, 8 * (job.bodies + 1)), np.int64).tolist()
    words = ffi.buffer(job.entries, 8 * starts[-1]) if starts[-1] else b""
    pairs = np.frombuffer(words, np.uint32).reshape(-1, 2).tolist()
    entries = [(which, count) for which, count in pairs]
    bodies = [entries[first:last] for first, last in pairwise(starts)]
    roots = [job.roots[place] for place in range(job.cores)]
    each = vectors + 1 if job.kind >= _MIX else 1
    grouped = [tuple(roots[first : first + each]) for first in range(0, len(roots), each)]
    return Listing(symbols, bodies, grouped, memories)


def _symbol(ffi: Any, told: Any) -> Symbol:
    return Symbol(
        ffi.string(told.intrinsic).decode(),
        Kind(told.kind),
        PIPES[told.pipe],
        from_acl(told.dtype),
        tuple(told.number),
        site_of(ffi.string(told.file).decode(), told.line) if told.file else "",
    )


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
