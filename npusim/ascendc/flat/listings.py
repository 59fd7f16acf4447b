"""Kernels that have run elsewhere: lists of instructions, priced and played as all others are.

A list has loops where instructions follow once more on themselves; every body and every instruction
is there once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from math import gcd
from typing import TYPE_CHECKING, Literal

from npusim.ascendc.flat.launching import named_kernel
from npusim.ascendc.kernel import Kernel
from npusim.ascendc.mistakes import on_behalf
from npusim.ascendc.reuse import note
from npusim.engine.program import Pipe, Transfer
from npusim.values.dtypes import DType, from_acl
from npusim.values.errors import KernelError, UnsupportedIntrinsicError

if TYPE_CHECKING:
    from npusim.ascendc.cluster import CoreWait
    from npusim.ascendc.core import Core
    from npusim.ascendc.costs import GmCopy
    from npusim.ascendc.gm import GlobalTensor
    from npusim.engine.program import Barrier

Steps = Iterator["Barrier | CoreWait"]

PIPES = (
    Pipe.SCALAR, Pipe.VECTOR, Pipe.CUBE, Pipe.MTE1, Pipe.MTE2, Pipe.MTE3, Pipe.FIXP,
)  # fmt: skip
PATHS = (
    "gm_to_ub", "ub_to_gm", "gm_to_l1", "l0c_to_gm", "l1_to_l0a", "l1_to_l0b", "l1_to_bias_table",
    "l0c_to_l1", "l1_to_gm",
)  # fmt: skip
_BY_THE_CUBE = frozenset(("gm_to_l1", "l0c_to_gm", "l1_to_gm"))
_STORES = frozenset(("ub_to_gm", "l0c_to_gm", "l1_to_gm"))


class Kind(IntEnum):
    """What an instruction is priced as; its numbers are told in ``kernel_runtime.h``."""

    VECTOR = 0
    GM_COPY = 1
    CHIP_COPY = 2
    MMAD = 3
    SCALAR = 4
    SET = 5
    WAIT = 6
    JOIN = 7
    SYNC_ALL = 8
    CROSS_SET = 9
    CROSS_WAIT = 10
    UB_COPY = 11


@dataclass(frozen=True, slots=True)
class Symbol:
    """An instruction: what the chip calls it, its kind and numbers, and the line it stands in."""

    intrinsic: str
    kind: Kind
    pipe: Pipe
    dtype: DType
    number: tuple[int, ...]
    site: str


# An instruction or, with a count, a loop over the body of that number.
Entry = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Listing:
    """What the cores of a launch did: instructions, bodies, and each core's body by its number.

    ``roots`` are those of each block, its vector cores first. ``memories`` are the pieces of device
    memory, each as large as what the launch touched of it.
    """

    symbols: Sequence[Symbol]
    bodies: Sequence[Sequence[Entry]]
    roots: Sequence[tuple[int, ...]]
    memories: Sequence[GlobalTensor]

    def barriers(self, body: int) -> int:
        """How often a body waits for all cores."""
        return sum(
            count * self.barriers(which) if count else self.symbols[which].kind is Kind.SYNC_ALL
            for which, count in self.bodies[body]
        )


class ListedKernel(Kernel):
    """A launch whose cores have run: blocks that did alike share one stream."""

    def __init__(self, listing: Listing) -> None:
        self._listing = listing
        self.reads = self.writes = tuple(listing.memories)
        self.block_dim = len(listing.roots)
        each = {listing.barriers(root) for roots in listing.roots for root in roots}
        self._meets = len(each) == 1  # else some cores meet without the others

    @staticmethod
    def named(
        name: str, module: str, cores: Literal["vector", "cube"], *, is_mix: bool
    ) -> type[ListedKernel]:
        """The class under a function's name, whose errors are told as those of ``module``."""
        return named_kernel(ListedKernel, name, module, cores, is_mix=is_mix)

    def block_kind(self, block_idx: int) -> Hashable:
        """Blocks are alike whose cores have done the same."""
        return self._listing.roots[block_idx]

    def process(self, core: Core) -> Steps:
        """The instructions of one core."""
        roots = self._listing.roots[core.get_block_idx()]
        place = core.unit.sub_block if self.is_mix else 0
        root = roots[-1] if place is None else roots[place]
        return _Player(core, self._listing, meets=self._meets).body(root)


class _Player:
    """Writes the instructions of a list down for one core."""

    def __init__(self, core: Core, listing: Listing, *, meets: bool) -> None:
        self._core, self._listing, self._meets = core, listing, meets
        self._flags: dict[tuple[int, ...], int] = {}
        self._depth = 0

    def body(self, number: int) -> Steps:
        recorder = self._core.recorder
        for which, count in self._listing.bodies[number]:
            if count:
                recorder.enter_loop(count)
                self._depth += 1
                yield from self.body(which)
                self._depth -= 1
                recorder.leave_loop(count, self._depth)
                continue
            symbol = self._listing.symbols[which]
            with on_behalf(symbol.site):
                try:
                    step = _WORK[symbol.kind](self, symbol)
                except KernelError as error:
                    error.site = error.site or symbol.site
                    raise
            if step is not None:
                yield step

    def vector(self, symbol: Symbol) -> None:
        core, dtype = self._core, symbol.dtype
        rows, elements, chained, *apart, target, _ = symbol.number
        core.slowed = max((core.costs.bank_conflicts(each) for each in apart), default=1.0)
        name, wide = dtype.intrinsic, dtype.itemsize
        if symbol.intrinsic == "vconv":
            into = from_acl(target - 1)
            if not core.profile.supports_convert(name, into.intrinsic):
                self._refuse(symbol, f"{name}->{into.intrinsic}", ())
            name, wide = f"{name}->{into.intrinsic}", max(wide, into.itemsize)
        else:
            known = core.profile.vector_dtypes(symbol.intrinsic)
            if known and name not in known:
                self._refuse(symbol, name, known)
        cycles = core.costs.vector(
            symbol.intrinsic, name, wide, elements, rows=rows, chained=bool(chained)
        )
        detail = f"{name} {rows}x{elements}"
        if core.slowed > 1:
            cycles, detail = cycles * core.slowed, f"{detail}, bank conflicts x{core.slowed:g}"
        core.slowed = 1.0
        core.recorder.emit(Pipe.VECTOR, symbol.intrinsic, cycles, detail=detail)

    def gm_copy(self, symbol: Symbol) -> None:
        core = self._core
        path_name = PATHS[symbol.number[0]]
        buffer, run_bytes, runs, since, way, turns, apart = symbol.number[1:]
        adds, bypasses = way & _ADDS, way & _BYPASSES_L2
        at_once = core.profile.memory.bypass_shared_fraction if way & _AT_ONCE else 1.0
        path = core.costs.path(path_name)
        if path is None:
            self._refuse(symbol, "any dtype", ())
            return
        sharers = 1.0 if adds else 0.0
        line = core.profile.memory.l2_line_bytes
        grain = gcd(apart, line) if apart else line
        if path_name in _BY_THE_CUBE:
            sizes = path, run_bytes, runs, grain
            cost = core.costs.matrix_copy(*sizes, atomic_sharers=sharers, turned=bool(turns))
        else:
            cost = core.costs.gm_copy(
                path,
                run_bytes,
                runs,
                None if path_name in _STORES else grain,
                rows_apart=False,
                atomic_sharers=sharers,
            )
        if turns:
            cost = self._turned(symbol, cost)
        number = self._listing.memories[buffer].buffer.number
        transfer = Transfer(
            number,
            path_name in _STORES,
            run_bytes * runs,
            cost.traffic_bytes,
            cost.bytes_per_cycle / at_once,
            atomic=sharers > 0,
            path=path_name,
            shared_cost=cost.shared_cost,
            rate_fraction=cost.rate_fraction * at_once,
            bypasses_l2=bool(bypasses),
            setup_cycles=cost.setup_cycles,
        )
        detail = f"global memory {buffer} {runs}x{run_bytes}B"
        detail += f"{' atomic add' if adds else ''}{' past L2' if bypasses else ''}"
        instruction = core.recorder.emit(
            symbol.pipe, symbol.intrinsic, cost.cycles, transfer, detail, cost.latency_cycles
        )
        if since >= 0:
            note(instruction, 1.0, {number: float(since)})

    def _turned(self, symbol: Symbol, cost: GmCopy) -> GmCopy:
        """A copy that turns rows into fractals."""
        setup = self._core.profile.cube.nd2nz_setup_cycles
        if setup is None:
            self._refuse(symbol, symbol.dtype.intrinsic, ())
        return cost._replace(latency_cycles=cost.latency_cycles + (setup or 0.0))

    def chip_copy(self, symbol: Symbol) -> None:
        if symbol.number[0] < 0:  # part of the copy before it
            return
        path = self._core.costs.path(PATHS[symbol.number[0]])
        if path is None:
            self._refuse(symbol, "any dtype", ())
            return
        nbytes = symbol.number[1]
        cycles = self._core.costs.on_chip(path, nbytes)
        detail = f"{nbytes} bytes"
        self._core.recorder.emit(symbol.pipe, symbol.intrinsic, cycles, detail=detail)

    def mmad(self, symbol: Symbol) -> None:
        core, (m, n, k, other, into, *_) = self._core, symbol.number
        dtypes = (symbol.dtype, from_acl(other), from_acl(into))
        a, b, c = (each.intrinsic for each in dtypes)
        if not core.profile.supports_mmad(a, b, c):
            self._refuse(symbol, f"{a} x {b} -> {c}", core.profile.mmad_forms)
        cycles = core.costs.mmad(a, m, n, k)
        core.recorder.emit(Pipe.CUBE, "mad", cycles, detail=f"{a} {m}x{k}x{n}")

    def scalar(self, symbol: Symbol) -> None:
        loads, stores, operations, from_gm, turns, misses, *_ = symbol.number
        name = "ld_ub" if loads else "st_ub" if stores else "scalar"
        self._core.emit_scalar(name, loads=loads, stores=stores, operations=operations, turns=turns)
        for _ in range(from_gm):
            self._core.recorder.emit(Pipe.SCALAR, "ld_gm", self._core.costs.gm_element())
        if misses:
            self._core.recorder.emit(Pipe.SCALAR, "ld_gm", self._core.costs.gm_lines(misses))

    def flag(self, symbol: Symbol) -> None:
        setter, waiter, number, initial = symbol.number[:4]
        recorder = self._core.recorder
        if number < 0:  # the scalar unit waits for vector results by itself
            if symbol.kind is Kind.SET:
                recorder.link(Pipe.VECTOR, Pipe.SCALAR)
            return
        key = (setter, waiter, number)
        if key not in self._flags:
            own = self._core.profile.cores.pipe_events
            self._flags[key] = recorder.new_flag(initial, _flag_name(symbol, own))
        if symbol.kind is Kind.SET:
            recorder.set_flag(PIPES[setter], self._flags[key])
        else:
            recorder.wait_flag(PIPES[waiter], self._flags[key])
            if PIPES[waiter] is Pipe.SCALAR:
                recorder.hold_back()

    def join(self, symbol: Symbol) -> None:  # noqa: ARG002 - all are alike
        self._core.recorder.join(self._core.profile.scalar.issue_cycles)

    def sync_all(self, symbol: Symbol) -> Barrier | None:
        if self._meets:
            return self._core.sync_all()
        self.join(symbol)
        return None

    def cross_set(self, symbol: Symbol) -> None:
        flag, pipe, mode, one = symbol.number[:4]
        if self._within(mode):
            self._core.cross_core_set_flag(flag, PIPES[pipe], sub_block=one - 1 if one else None)

    def cross_wait(self, symbol: Symbol) -> CoreWait | None:
        flag, _, mode, one = symbol.number[:4]
        if self._within(mode):
            return self._core.cross_core_wait_flag(flag, sub_block=one - 1 if one else None)
        self.join(symbol)
        return None

    def _within(self, mode: int) -> bool:
        """Whether a flag goes between the cube core and the vector cores of a block."""
        return mode == _MODE_WITHIN and len(self._core.cluster.units) > 1

    def ub_copy(self, symbol: Symbol) -> None:
        bursts, blocks, stride = symbol.number[:3]
        cycles = self._core.costs.ub_bursts(bursts, blocks, stride if bursts > 1 else 0)
        detail = f"{bursts} x {blocks} blocks"
        self._core.recorder.emit(Pipe.VECTOR, "copy_ubuf_to_ubuf", cycles, detail=detail)

    def _refuse(self, symbol: Symbol, dtype: str, known: Sequence[str]) -> None:
        core = self._core
        raise UnsupportedIntrinsicError(
            core.kernel_name, symbol.intrinsic, dtype, core.profile.name, tuple(known)
        )


def _flag_name(symbol: Symbol, own: int) -> str:
    """What reports call a flag: a queue's by the line that made it, an event by who sets it.

    Programs have ``own`` events for a pair of pipes; those beyond are of interfaces.
    """
    setter, _, number, initial = symbol.number[:4]
    if symbol.intrinsic:
        return f"a {'free' if initial else 'filled'} tile of queue {symbol.intrinsic}"
    return f"an event set by {PIPES[setter]}" if number < own else f"event {number}"


_ADDS, _BYPASSES_L2, _AT_ONCE = 1, 2, 4  # CopyWay of kernel_runtime.h
_MODE_WITHIN = 2  # source: public API page of CrossCoreSetFlag
_WORK: Mapping[Kind, Callable[[_Player, Symbol], Barrier | CoreWait | None]] = {
    Kind.VECTOR: _Player.vector,
    Kind.GM_COPY: _Player.gm_copy,
    Kind.CHIP_COPY: _Player.chip_copy,
    Kind.MMAD: _Player.mmad,
    Kind.SCALAR: _Player.scalar,
    Kind.SET: _Player.flag,
    Kind.WAIT: _Player.flag,
    Kind.JOIN: _Player.join,
    Kind.SYNC_ALL: _Player.sync_all,
    Kind.CROSS_SET: _Player.cross_set,
    Kind.CROSS_WAIT: _Player.cross_wait,
    Kind.UB_COPY: _Player.ub_copy,
}
