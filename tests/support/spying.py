"""Watching a run from inside: which elements it writes, what it reads, what it computes on.

The watcher is told what happens to the numbers, independently of the instruction streams that the
time comes from.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc import GlobalTensor, GmBuffer, GmSlice, Kernel
from npusim.ascendc.observer import observed_by

if TYPE_CHECKING:
    from collections.abc import Iterator

    from npusim.ascendc.issuer import Issuer, Tile

Array = np.ndarray[Any, Any]


@dataclass
class TaskWatch:
    """What one task did: plain and added stores per element of every buffer, and traffic."""

    kernel: Kernel
    writes: dict[int, Array] = field(default_factory=dict)
    adds: dict[int, Array] = field(default_factory=dict)
    overwritten_sums: set[str] = field(default_factory=set)
    bytes_read: int = 0
    bytes_written: int = 0
    loads: int = 0
    stores: int = 0
    largest_tile_bytes: int = 0
    elements: Counter[str] = field(default_factory=Counter)

    def count(self, table: dict[int, Array], buffer: GmBuffer) -> Array:
        """How often each element of a buffer was stored to."""
        if buffer.number not in table:
            assert buffer.data is not None
            table[buffer.number] = np.zeros(buffer.data.size, np.int64)
        return table[buffer.number]

    def note_store(self, core: Issuer, target: GmSlice, *, adds: bool) -> None:
        """Count a store for every element that it reaches."""
        depth, buffer = core.depth, target.tensor.buffer
        stack = [core.stack_size(level, level + 1) for level in range(depth)]
        moving = tuple(size if level in target.depths else 1 for level, size in enumerate(stack))
        times = prod(stack) // prod(moving)  # iterations that store to one place all count
        offsets = np.add.outer(target.starts(depth), target.offsets())
        offsets = np.broadcast_to(offsets, moving + target.shape)
        if not adds:
            added = self.adds.get(buffer.number)
            if added is not None and added[offsets].any():
                self.overwritten_sums.add(buffer.name)
        np.add.at(self.count(self.adds if adds else self.writes, buffer), offsets, times)

    def of_tensor(self, table: dict[int, Array], tensor: GlobalTensor) -> Array:
        """The counts of a tensor's own elements, in its shape."""
        counts = table.get(tensor.buffer.number)
        if counts is None:
            return np.zeros(tensor.shape, np.int64)
        spot = GlobalTensor(
            GmBuffer(tensor.buffer.name, 0, counts),
            tensor.dtype,
            tensor.shape,
            tensor.start,
            tensor.strides,
        )
        shown = spot.array
        assert shown is not None
        return shown


class Watching:
    """An observer that keeps a watch for every task."""

    def __init__(self) -> None:
        self.watches: list[TaskWatch] = []

    def begin(self, kernel: Kernel) -> None:
        self.watches.append(TaskWatch(kernel))

    def loaded(self, core: Issuer, source: GmSlice) -> None:
        nbytes, times = self._moved(core, source)
        watch = self.watches[-1]
        watch.loads += times
        watch.bytes_read += times * nbytes

    def stored(self, core: Issuer, target: GmSlice, *, adds: bool) -> None:
        nbytes, times = self._moved(core, target)
        watch = self.watches[-1]
        watch.stores += times
        watch.bytes_written += times * nbytes
        watch.note_store(core, target, adds=adds)

    def computed(self, core: Issuer, name: str, tile: Tile, times: int) -> None:
        turns = core.stack_size(0, core.depth)
        self.watches[-1].elements[name] += turns * prod(tile.shape) * times

    def _moved(self, core: Issuer, gm: GmSlice) -> tuple[int, int]:
        """Bytes of a tile, and the iterations that move one each."""
        run, runs = gm.bursts()
        nbytes = run * runs * gm.tensor.dtype.itemsize
        watch = self.watches[-1]
        watch.largest_tile_bytes = max(watch.largest_tile_bytes, nbytes)
        return nbytes, core.stack_size(0, core.depth)


@contextmanager
def watching() -> Iterator[list[TaskWatch]]:
    """Everything that runs inside is watched, task by task (runs with numbers only)."""
    watcher = Watching()
    with observed_by(watcher):
        yield watcher.watches
