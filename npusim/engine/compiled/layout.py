"""A kernel laid out in arrays as `player.h` describes them."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, chain, islice, repeat
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from npusim.engine.program import Pipe
from npusim.engine.schedule import MEETING, Kind, Step, projected
from npusim.engine.state import Flags
from npusim.engine.streams import moved_by, unordered

if TYPE_CHECKING:
    from npusim.engine.claims import Claim
    from npusim.engine.machine import Machine, Treatment
    from npusim.engine.program import CoreGroup, Transfer

    Treatments = Mapping[Transfer, Treatment]

# The structs of player.h, native and aligned.
_STEP = Struct("4dq10i")  # cycles, first, bytes, latency; iterations; kind, flags, claim ...
_pack = _STEP.pack
_SET = Struct("d2i")  # delay; flag
_CLAIM = Struct("7d")  # ceiling, loads and most of each resource
ENTRY = Struct("2i2d")  # pipe, step; start, end
_UNIT_FLAG, _IN_MTE1 = 1, 2
_WORK, _ENTER, _TURN, _MEET = Kind.WORK, Kind.ENTER, Kind.TURN, Kind.MEET

_POINTERS = (
    "group_of", "cluster_of", "first_step", "first_flag", "steps", "waits", "sets", "claims",
    "unordered", "held_first", "held", "issues",
)  # fmt: skip


class KernelStruct(ctypes.Structure):
    """``Kernel`` of player.h."""

    _fields_ = (
        *((name, ctypes.c_int32) for name in ("groups", "pipes", "flags", "clusters")),
        ("issue_entries", ctypes.c_int32),
        ("unused", ctypes.c_int32),
        ("look_after", ctypes.c_int64),
        ("sync_cycles", ctypes.c_double),
        ("bandwidths", ctypes.c_double * 3),
        *((name, ctypes.c_void_p) for name in _POINTERS),
    )


class ResultStruct(ctypes.Structure):
    """``Result`` of player.h."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("ends", "busy", "times", "cycles", "entries")),
        ("entry_room", ctypes.c_int64),
        ("entry_count", ctypes.c_int64),
        ("jumped_cycles", ctypes.c_double),
        ("played", ctypes.c_int64),
    )


class _Cluster(NamedTuple):
    """Groups that share their flags, which have numbers of the whole kernel from ``base`` on."""

    number: int
    base: int
    flags: int
    held: Mapping[int, Sequence[float]]
    setters: list[tuple[int, object]]


class Layout:
    """The arrays of one kernel: its pipes and their steps, flags, and shares of bandwidth."""

    def __init__(
        self,
        groups: Sequence[CoreGroup],
        machine: Machine,
        treated: Treatments,
    ) -> None:
        self._machine = machine
        self._steps: list[bytes] = []
        self._waits: list[int] = []
        self._sets: list[bytes] = []
        self._claims: dict[Claim, int] = {}
        self._barriers_in_loops = False
        self.pipes: list[Pipe] = []
        self.first_step = [0]
        self._first_pipe = [0]
        cluster_of: list[int] = []
        group_of: list[int] = []
        issues: list[bool] = []
        clusters = _clusters(groups)
        for index, group in enumerate(groups):
            cluster = clusters[_key(index, group)]
            issues.append(False)
            lines = projected(group.program)
            if not self._barriers_in_loops:  # all pipes have them
                self._barriers_in_loops = any(map(_meets_in_loop, islice(lines.values(), 1)))
            for pipe, steps in lines.items():
                issues[-1] |= self._add(pipe, steps, cluster, group, treated)
                self.first_step.append(len(self._steps))
                self.pipes.append(pipe)
                group_of.append(index)
                cluster_of.append(cluster.number)
            self._first_pipe.append(len(self.pipes))
        self._arrays = self._of_steps() | self._of_flags(list(clusters.values()))
        if self._barriers_in_loops:  # all cores go through them together
            cluster_of = [0] * len(cluster_of)
            self._arrays["first_flag"] = array("i", [0, self._arrays["first_flag"][-1]])
        self._arrays |= {
            "group_of": array("i", group_of),
            "cluster_of": array("i", cluster_of),
            "issues": array("i", issues),
        }

    def pipes_of(self, group: int) -> tuple[int, int]:
        """The first pipe of a group and the one behind its last."""
        return self._first_pipe[group], self._first_pipe[group + 1]

    def struct(self, look_after: int) -> KernelStruct:
        """The kernel for the player, which holds no references to the arrays.

        After so many steps it looks for what repeats; after 0, never.
        """
        return KernelStruct(
            len(self._first_pipe) - 1,
            len(self.pipes),
            len(self._arrays["unordered"]),
            len(self._arrays["first_flag"]) - 1,
            self._machine.issue_queue,
            0,
            look_after,
            self._machine.sync_cycles,
            (ctypes.c_double * 3)(*self._machine.rates.bandwidths.values()),
            *(self._arrays[name].buffer_info()[0] for name in _POINTERS),
        )

    def _add(
        self,
        pipe: Pipe,
        steps: Sequence[Step],
        cluster: _Cluster,
        group: CoreGroup,
        treated: Treatments,
    ) -> bool:
        """Add the steps of a pipe; whether some of its work waits inside it."""
        all_waits, all_sets, claims = self._waits, self._sets, self._claims
        base, delays, number = cluster.base, group.program.delays, len(self.first_step)
        size, work, told, pack_set = group.size, _WORK, self._steps.append, _SET.pack
        usual = _IN_MTE1 if pipe is Pipe.MTE1 else 0
        note, issues = cluster.setters.append, False
        for step in steps:
            kind = step.kind
            if kind is not work:
                told(_packed(kind, step.iterations, step.target))
                continue
            first, nbytes, latency, claim, flags = 0.0, 0.0, 0.0, -1, usual
            if (mover := step.mover) is not None:
                first = mover.first_cycles
                nbytes, claimed, latency, unit = moved_by(mover, size, treated)
                if claimed is not None:
                    claim = claims.setdefault(claimed, len(claims))
                if unit:
                    issues, flags = True, usual | _UNIT_FLAG
            waits, sets = step.waits, step.sets
            told(
                _pack(
                    step.cycles, first, nbytes, latency, 0, work, flags, claim, len(step.parts),
                    len(all_waits), len(waits), len(all_sets), len(sets), -1, 0,
                )
            )  # fmt: skip
            for flag in waits:
                all_waits.append(base + flag)
            for flag in sets:
                delay = latency + delays.get(flag, 0.0)
                all_sets.append(pack_set(delay, base + flag, 0))
                note((flag, (number, delay)))
        return issues

    def _of_steps(self) -> dict[str, array[int] | array[float]]:
        return {
            "first_step": array("i", self.first_step),
            "steps": array("B", b"".join(self._steps)),
            "waits": array("i", self._waits),
            "sets": array("B", b"".join(self._sets)),
            "claims": array("B", b"".join(self._told())),
        }

    def _of_flags(self, clusters: Sequence[_Cluster]) -> dict[str, array[int] | array[float]]:
        held: list[Sequence[float]] = []
        first_flag, loose = [0], array("i")
        for cluster in clusters:
            held += map(cluster.held.get, range(cluster.flags), repeat(()))
            loose += array("i", (0,)) * cluster.flags
            for flag in unordered(cluster.setters):
                loose[cluster.base + flag] = 1
            first_flag.append(len(loose))
        return {
            "first_flag": array("i", first_flag),
            "unordered": loose,
            "held_first": array("i", accumulate(map(len, held), initial=0)),
            "held": array("d", chain.from_iterable(held)),
        }

    def _told(self) -> Iterator[bytes]:
        """The claims, one after the other."""
        places = {name: place for place, name in enumerate(self._machine.rates.bandwidths)}
        for claim in self._claims:
            loads, most = [0.0] * len(places), [0.0] * len(places)
            for name, amount in claim.loads:
                loads[places[name]] = amount
            for name, amount in claim.most:
                most[places[name]] = amount
            yield _CLAIM.pack(claim.ceiling, *loads, *most)


def _meets_in_loop(steps: Sequence[Step]) -> bool:
    depth = 0
    for step in steps if MEETING in steps else ():
        depth += (step.kind is _ENTER) - (step.kind is _TURN)
        if depth and step.kind is _MEET:
            return True
    return False


@lru_cache(maxsize=4096)
def _packed(kind: Kind, iterations: int, target: int) -> bytes:
    """A step that does no work; most of them are met again and again."""
    return _pack(0.0, 0.0, 0.0, 0.0, iterations, kind, 0, -1, 0, 0, 0, 0, 0, target, 0)


def _key(index: int, group: CoreGroup) -> Hashable:
    return ("alone", index) if group.cluster is None else ("cluster", group.cluster)


def _clusters(groups: Sequence[CoreGroup]) -> dict[Hashable, _Cluster]:
    """All clusters in the order of their groups."""
    most: dict[Hashable, int] = {}
    first: dict[Hashable, CoreGroup] = {}
    for index, group in enumerate(groups):
        key = _key(index, group)
        first.setdefault(key, group)
        most[key] = max(most.get(key, 0), len(group.program.flags))
    clusters: dict[Hashable, _Cluster] = {}
    base = 0
    for key, count in most.items():
        held = Flags.at_launch(first[key]).held
        clusters[key] = _Cluster(len(clusters), base, count, held, [])
        base += count
    return clusters
