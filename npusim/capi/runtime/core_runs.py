"""Cores of C++ kernels played by the library: lists of instructions, and what memory they touched.

The library runs the cores and computes their numbers in the blocks of memory that it is given.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from npusim.ascendc.allowance import SECONDS_VARIABLE
from npusim.ascendc.flat.listings import PIPES, Kind, Listing, Symbol
from npusim.capi.runtime.journal import PRODUCTS_VARIABLE
from npusim.values.dtypes import from_acl
from npusim.values.errors import KernelError
from npusim.values.sites import site_of

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor
    from npusim.capi.runtime.memory import Block
    from npusim.hardware.profile import Profile

_PLAY = "int(*)(npusim_job_t *)"
_MEMORIES = ("ub", "l1", "l0a", "l0b", "l0c", "bias_table", "fixpipe_buffer")
_MOST_INSTRUCTIONS = 10_000_000  # of a pipe of a core; more are a loop that doesn't end
_MOST_SECONDS = 60  # of a processor, without an instruction
# A core that is both cube and vector is neither of the others; with a cube core one vector core.
_UNIFIED, CUBE, MIX, _ONE_EACH = -1, 1, 2, 4
_MEETINGS = frozenset((Kind.CROSS_SET, Kind.CROSS_WAIT, Kind.SYNC_ALL))


class Launch(NamedTuple):
    """A kernel's name and kind of cores, its blocks, and the addresses of functions and context.

    With ``auto_sync`` its compiler puts the scalar unit in order with the other pipes.
    """

    name: str
    kind: int
    blocks: int
    play: int
    body: int
    context: int
    auto_sync: bool = False


@dataclass(frozen=True, eq=False)
class Played:
    """A launch whose cores have run: what they did, until the library plays the next one."""

    ffi: Any
    job: Any
    touched: bytes
    footprint: Sequence[int]
    beside: int  # vector cores that a cube core has

    @property
    def cores(self) -> Literal["vector", "cube"]:
        """The cores its blocks are."""
        return "cube" if self.job.kind == CUBE else "vector"

    @property
    def is_mix(self) -> bool:
        """Whether it ran on cube and vector cores at once."""
        return bool(self.job.kind >= MIX)

    def listing(self, memories: Sequence[GlobalTensor]) -> Listing:
        """The instructions of its cores on these tensors, one for each block of memory."""
        return _listing(self.ffi, self.job, memories, self.beside)


def play_cores(ffi: Any, profile: Profile, launch: Launch, blocks: Sequence[Block]) -> Played:
    """Runs a launch on blocks of device memory. Raises KernelError with the line that is wrong."""
    job = ffi.new("npusim_job_t *")
    split = profile.cores.style == "split"
    vectors = profile.cores.vector_cores // profile.cores.cube_cores if split else 0
    if not split and launch.kind >= MIX:
        raise KernelError(launch.name, *_no_mix(profile))
    beside, kind = vectors, launch.kind if split else _UNIFIED
    if kind == _ONE_EACH:
        vectors, kind = 1, MIX
    job.body, job.context, job.kind = launch.body, launch.context, kind
    job.blocks, job.vectors, job.buffers = launch.blocks, vectors, len(blocks)
    job.at_once = _at_once(profile, kind)
    job.products = not os.environ.get(PRODUCTS_VARIABLE)
    job.auto_sync = launch.auto_sync
    job.most_seconds = int(os.environ.get(SECONDS_VARIABLE) or _MOST_SECONDS)
    share = min(max(job.most_seconds, 1), _MOST_SECONDS)  # who waits for less looks at less
    job.most_instructions = _MOST_INSTRUCTIONS * share // _MOST_SECONDS
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
    if ffi.cast(_PLAY, launch.play)(job):
        raise _failure(ffi, launch.name, job)
    return Played(ffi, job, bytes(ffi.buffer(touched, len(blocks))), list(footprint), beside)


def _failure(ffi: Any, name: str, job: Any) -> KernelError:
    text = ffi.string
    remedy = text(job.remedy).decode() if job.remedy else ""
    message = text(job.message).decode(errors="replace")
    site = site_of(text(job.file).decode(), job.line) if job.file else ""
    return KernelError(name, message, remedy, site=site)


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


def _listing(ffi: Any, job: Any, memories: Sequence[GlobalTensor], vectors: int) -> Listing:
    """What the cores of a launch did."""
    symbols = [_symbol(ffi, job.symbols[place]) for place in range(job.symbol_count)]
    starts = np.frombuffer(ffi.buffer(job.starts, 8 * (job.bodies + 1)), np.int64).tolist()
    words = ffi.buffer(job.entries, 8 * starts[-1]) if starts[-1] else b""
    pairs = np.frombuffer(words, np.uint32).reshape(-1, 2).tolist()
    entries = [(which, count) for which, count in pairs]
    bodies = [entries[first:last] for first, last in pairwise(starts)]
    roots = [job.roots[place] for place in range(job.cores)]
    each = job.vectors + 1 if job.kind >= MIX else 1
    grouped = [tuple(roots[first : first + each]) for first in range(0, len(roots), each)]
    if job.kind >= MIX and job.vectors < vectors:
        idle = [
            (_meetings(group[0], symbols, bodies, {}),) * (vectors - job.vectors)
            for group in grouped
        ]
        grouped = [
            (*group[:-1], *more, group[-1]) for group, more in zip(grouped, idle, strict=True)
        ]
    return Listing(symbols, bodies, grouped, memories)


def _meetings(
    body: int,
    symbols: Sequence[Symbol],
    bodies: list[list[tuple[int, int]]],
    known: dict[int, int],
) -> int:
    """The body of a core that does nothing but meet the others, where the core of ``body`` does."""
    if body not in known:
        met = [
            (_meetings(which, symbols, bodies, known) if count else which, count)
            for which, count in bodies[body]
            if count or symbols[which].kind in _MEETINGS
        ]
        known[body] = len(bodies)
        bodies.append(met)
    return known[body]


def _symbol(ffi: Any, told: Any) -> Symbol:
    return Symbol(
        ffi.string(told.intrinsic).decode(),
        Kind(told.kind),
        PIPES[told.pipe],
        from_acl(told.dtype),
        tuple(told.number),
        site_of(ffi.string(told.file).decode(), told.line) if told.file else "",
    )
