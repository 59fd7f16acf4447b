"""What has been traced or played before need not be traced or played again.

A kernel is known again by everything that decides what happens when: the instructions of all its
cores, how memory treats their transfers, and the chip's rates. Which buffers they move doesn't.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from npusim.engine.program import CoreGroup, Instruction, Loop, Node, Program, Transfer
from npusim.engine.timeline import Played
from npusim.values.locks import lock

if TYPE_CHECKING:
    from npusim.engine.machine import Machine, Treatment

DEFAULT_BYTES = 80_000_000
_RUN_BYTES, _STEP_BYTES = 2500, 20
_BYTES = (2500, 450)  # a record, an instruction (its part of the key too): measured
_LARGEST_SHARE = 1 / 3  # of the limit, for one kernel: more isn't worth keeping


class Streams(NamedTuple):
    """The instruction streams of a kernel on a chip, and the numbers of its buffers in them.

    ``asked`` says whether the kernel has asked for numbers that decide what it does.
    """

    groups: tuple[CoreGroup, ...]
    buffers: tuple[int, ...]
    profile: object  # kept, so that no other takes its place
    asked: bool


class Key:
    """What something is known by: it may be long, so that it is hashed once."""

    __slots__ = ("_hash", "_told")

    def __init__(self, told: Hashable) -> None:
        self._told, self._hash = told, hash(told)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and self._hash == other._hash and self._told == other._told


class Memo:
    """Runs and instruction streams that are kept, those used last at the end; for any threads.

    All together take about ``limit_bytes``; with 0 nothing is kept. Its length counts runs.
    """

    def __init__(self, limit_bytes: int = DEFAULT_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0
        self._lock = lock()
        self._kept: OrderedDict[Hashable, tuple[Played | Streams, int]] = OrderedDict()

    def __len__(self) -> int:
        with self._lock:
            return sum(isinstance(found, Played) for found, _ in self._kept.values())

    def run(self, key: Hashable) -> Played | None:
        """The run that is kept under ``key``."""
        found = self._get(key)
        return found if isinstance(found, Played) else None

    def keep_run(self, key: Hashable, found: Played) -> None:
        """Keep a run, if it is worth its room; those used longest ago have to go."""
        steps = sum(len(group.times) for group in found.groups)
        self._keep(key, found, _RUN_BYTES + _STEP_BYTES * steps)

    def streams(self, key: Hashable) -> Streams | None:
        """The instruction streams that are kept under ``key``."""
        found = self._get(key)
        return found if isinstance(found, Streams) else None

    def keep_streams(self, key: Hashable, found: Streams) -> None:
        """Keep instruction streams, as :meth:`keep_run` does."""
        record, instruction = _BYTES
        instructions = sum(len(group.program.listed()) for group in found.groups)
        self._keep(key, found, record + instruction * instructions)

    def _get(self, key: Hashable) -> Played | Streams | None:
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                return None
            self._kept.move_to_end(key)
        return found[0]

    def _keep(self, key: Hashable, found: Played | Streams, nbytes: int) -> None:
        with self._lock:
            if nbytes > _LARGEST_SHARE * self.limit_bytes or key in self._kept:
                return
            self._kept[key] = found, nbytes
            self.held_bytes += nbytes
            while self.held_bytes > self.limit_bytes:
                _, (_, freed) = self._kept.popitem(last=False)
                self.held_bytes -= freed


@cache
def process_memo() -> Memo:
    """What this process has traced and played, for work that asks for many calls."""
    return Memo()


def key_of(
    groups: tuple[CoreGroup, ...],
    machine: Machine,
    treated: Mapping[Transfer, Treatment],
    *,
    exact: bool,
) -> Key:
    """Equal for kernels that go alike."""
    return Key((machine.rates, machine.sync_cycles, exact, tuple(_groups(groups, treated))))


def _groups(
    groups: tuple[CoreGroup, ...], treated: Mapping[Transfer, Treatment]
) -> Iterator[Hashable]:
    for group in groups:
        program = group.program
        treatments = tuple([treated[each] for each in program.moved()])
        yield group.blocks, group.unit, group.cluster, _known(program), treatments


def _known(program: Program) -> Hashable:
    """Equal for programs that go alike where their transfers are treated alike; found once."""
    if program.known_as is None:
        told: list[Hashable] = []
        _tell(told, program.body, {each: n for n, each in enumerate(program.moved())})
        times = (tuple(program.starts.items()), tuple(program.delays.items()))
        program.known_as = Key((tuple(program.flags), *times, tuple(told)))
    return program.known_as


def _tell(told: list[Hashable], nodes: Sequence[Node], places: Mapping[Transfer, int]) -> None:
    """One flat list for all nodes: what begins each says how much of it is the node's."""
    for node in nodes:
        if isinstance(node, Instruction):
            moved = node.transfer
            told += (
                node.pipe, node.name, node.cycles, node.latency, node.detail, node.site,
                node.waits, node.sets, node.unit_flag, moved is None,
            )  # fmt: skip
            if moved is not None:
                told += (moved.bus_bytes, moved.ceiling, moved.payload_bytes, moved.write)
                told.append(places[moved])
        elif isinstance(node, Loop):
            told += (node.count, len(node.body))
            _tell(told, node.body, places)
        else:
            told += (None, node.site)
