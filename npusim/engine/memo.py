"""What has been played before in this process need not be played again.

A kernel is known again by everything that decides what happens when: the instructions of all its
cores, how memory treats their transfers, and the chip's rates. Which buffers they move doesn't.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING

from npusim.engine.player import Player
from npusim.engine.program import Barrier, Loop

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping, Sequence

    from npusim.engine.player import Treatment
    from npusim.engine.program import CoreGroup, Node
    from npusim.engine.simulate import Machine
    from npusim.engine.timeline import CoreRecord

# The last cycle, what every group of cores did, and the cycles that were jumped over.
Played = tuple[float, "tuple[CoreRecord, ...]", float]

_MOST_ENTRIES = 300_000  # of all records that are kept: some 80 MB
_LONGEST = 100_000  # entries of a kernel that is worth keeping


class Store:
    """The runs that are kept, those used last at the end; for any number of threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: OrderedDict[Hashable, Played] = OrderedDict()
        self._entries = 0

    def get(self, key: Hashable) -> Played | None:
        """What is kept under ``key``."""
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
        return found

    def keep(self, key: Hashable, found: Played) -> None:
        """Keep a run, if it is worth its room; those used longest ago have to go."""
        size = _size(found)
        with self._lock:
            if size > _LONGEST or key in self._kept:
                return
            self._kept[key] = found
            self._entries += size
            while self._entries > _MOST_ENTRIES:
                _, oldest = self._kept.popitem(last=False)
                self._entries -= _size(oldest)


_store = Store()


def played(
    groups: tuple[CoreGroup, ...],
    machine: Machine,
    treated: Mapping[int, Treatment],
    *,
    exact: bool,
) -> Played:
    """Play the programs of all cores, or remember how the same ones went.

    The records are shared with others who ask the same: they are only to be read.
    """
    key = (machine.rates, machine.sync_cycles, exact, tuple(_groups(groups, treated)))
    found = _store.get(key)
    if found is None:
        player = Player(groups, machine.rates, machine.sync_cycles, treated, exact)
        player.play()
        end = max((group.record.end for group in player.groups), default=0.0)
        found = end, tuple(group.record for group in player.groups), player.shift
        _store.keep(key, found)
    return found


def _groups(groups: tuple[CoreGroup, ...], treated: Mapping[int, Treatment]) -> Iterator[Hashable]:
    for group in groups:
        program = group.program
        about = (group.blocks, group.unit, group.cluster, tuple(program.flags))
        yield (*about, tuple(program.delays.items()), tuple(_nodes(program.body, treated)))


def _nodes(nodes: Sequence[Node], treated: Mapping[int, Treatment]) -> list[Hashable]:
    found: list[Hashable] = []
    for node in nodes:
        if isinstance(node, Loop):
            found.append((node.count, *_nodes(node.body, treated)))
        elif isinstance(node, Barrier):
            found.append(node.site)
        else:
            about = (node.pipe, node.name, node.cycles, node.latency, node.detail, node.site)
            moved = node.transfer
            if moved is None:
                found.append((*about, node.waits, node.sets))
            else:
                bus = (moved.traffic_bytes, moved.ceiling, moved.payload_bytes, moved.write)
                found.append((*about, node.waits, node.sets, *bus, treated[id(moved)]))
    return found


def _size(found: Played) -> int:
    return sum(len(record.entries) for record in found[1])
