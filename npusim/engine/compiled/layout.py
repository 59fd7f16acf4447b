"""A kernel laid out in arrays as `player.h` describes them."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from npusim.engine.program import Pipe
from npusim.engine.schedule import Burst, PipeLoop, PipeNode, projected
from npusim.engine.state import Flags
from npusim.engine.streams import Kind, moved_by, unordered

if TYPE_CHECKING:
    from npusim.engine.claims import Claim
    from npusim.engine.machine import Machine, Treatment
    from npusim.engine.program import CoreGroup, Transfer

    Treatments = Mapping[Transfer, Treatment]

# The structs of player.h, native and aligned.
_STEP = Struct("3dq10i")  # cycles, bytes, latency; iterations; kind, flags, claim, parts, waits ...
_SET = Struct("d2i")  # delay; flag
_CLAIM = Struct("7d")  # ceiling, loads and most of each resource
ENTRY = Struct("2i2d")  # pipe, step; start, end
_UNIT_FLAG, _IN_MTE1 = 1, 2
_WORK = int(Kind.WORK)

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


@dataclass(slots=True)
class _Pipe:
    """The pipe whose steps are being laid out, and whether some of its work waits inside it."""

    number: int
    is_mte1: bool
    cluster: _Cluster
    group: CoreGroup
    treated: Treatments
    issues: bool = False


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
            for pipe, nodes in projected(group.program).items():
                self._pipe = _Pipe(len(self.first_step), pipe is Pipe.MTE1, cluster, group, treated)
                self._add(nodes, in_loop=False)
                self._steps.append(_control(Kind.STOP))
                self.first_step.append(len(self._steps))
                issues[-1] |= self._pipe.issues
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

    def _add(self, nodes: Sequence[PipeNode], *, in_loop: bool) -> None:
        """Add steps of a pipe, one for one those of :func:`npusim.engine.streams.flatten`."""
        for node in nodes:
            if isinstance(node, Burst):
                self._work(node)
            elif isinstance(node, PipeLoop):
                count = node.loop.count
                self._steps.append(_control(Kind.ENTER, count))
                first = len(self._steps) - self.first_step[-1]
                self._add(node.body, in_loop=True)
                self._steps.append(_control(Kind.TURN, count, first))
            else:
                self._steps.append(_control(Kind.MEET))
                self._barriers_in_loops |= in_loop

    def _work(self, burst: Burst) -> None:
        pipe, all_waits, all_sets = self._pipe, self._waits, self._sets
        cluster, group = pipe.cluster, pipe.group
        told = moved_by(burst, group.program.delays, group.size, pipe.treated)
        nbytes, claim, sets, latency, unit = told
        number = -1 if claim is None else self._claims.setdefault(claim, len(self._claims))
        waits = burst.waits
        self._steps.append(
            _STEP.pack(
                burst.cycles, nbytes, latency, 0,
                _WORK, (_UNIT_FLAG if unit else 0) | (_IN_MTE1 if pipe.is_mte1 else 0),
                number, len(burst.parts),
                len(all_waits), len(waits), len(all_sets), len(sets), -1, 0,
            )
        )  # fmt: skip
        for flag in waits:
            all_waits.append(cluster.base + flag)
        for flag, delay in sets:
            all_sets.append(_SET.pack(delay, cluster.base + flag, 0))
            cluster.setters.append((flag, (pipe.number, delay)))
        pipe.issues |= unit

    def _of_steps(self) -> dict[str, array[int] | array[float]]:
        return {
            "first_step": array("i", self.first_step),
            "steps": array("B", b"".join(self._steps)),
            "waits": array("i", self._waits),
            "sets": array("B", b"".join(self._sets)),
            "claims": array("B", b"".join(map(self._told, self._claims))),
        }

    def _of_flags(self, clusters: Sequence[_Cluster]) -> dict[str, array[int] | array[float]]:
        held: list[float] = []
        held_first, first_flag = [0], [0]
        loose: list[bool] = []
        for cluster in clusters:
            late = unordered(cluster.setters)
            for flag in range(cluster.flags):
                held += cluster.held.get(flag, ())
                held_first.append(len(held))
                loose.append(flag in late)
            first_flag.append(len(loose))
        return {
            "first_flag": array("i", first_flag),
            "unordered": array("i", loose),
            "held_first": array("i", held_first),
            "held": array("d", held),
        }

    def _told(self, claim: Claim) -> bytes:
        names = self._machine.rates.bandwidths
        told = [dict(each).get(name, 0.0) for each in (claim.loads, claim.most) for name in names]
        return _CLAIM.pack(claim.ceiling, *told)


def _control(kind: Kind, count: int = 0, target: int = -1) -> bytes:
    """A step that isn't work."""
    return _STEP.pack(0.0, 0.0, 0.0, count, kind, 0, -1, 0, 0, 0, 0, 0, target, 0)


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
