"""How chunks of a group are dealt to clusters, stage by stage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from npusim.ascendc.loops import looked_up

if TYPE_CHECKING:
    from collections.abc import Hashable

    from npusim.ascendc import Core, GlobalTensor
    from npusim.ascendc.loops import Index

CHUNK, TOGETHER = 64, 4  # tokens of a chunk; heads of chunks that a cluster works on at a time

# Flags between the cores of a cluster.
ROWS, PRODUCTS, INVERSE, DECAYED, VALUES, HEARD, READ, WRITTEN, ADDED = range(9)


class Spaces(NamedTuple):
    """Workspace: of all chunks of a group by heads, and of the chunks that a cluster works on."""

    sums: GlobalTensor
    decayed: GlobalTensor
    inner: GlobalTensor
    queries: GlobalTensor
    keys: GlobalTensor
    heard: GlobalTensor
    mask: GlobalTensor
    own_decayed: GlobalTensor
    own_queries: GlobalTensor
    own_keys: GlobalTensor
    own_products: GlobalTensor
    own_inverse: GlobalTensor
    own_values: GlobalTensor
    own_heard: GlobalTensor


class Call(Protocol):
    """What both sides know of a kernel: its tensors, sizes and workspace."""

    query: GlobalTensor
    key: GlobalTensor
    value: GlobalTensor
    beta: GlobalTensor
    state: GlobalTensor
    decay: GlobalTensor | None
    out: GlobalTensor
    new: GlobalTensor
    spaces: Spaces
    scale: float
    heads: int
    keys: int
    values: int
    longest: int
    block_dim: int


class Place(NamedTuple):
    """A head of a chunk, and how many tokens the chunk has."""

    chunk: Index
    head: Index
    tokens: int


@dataclass(frozen=True)
class Part:
    """A group: so many tokens of a sequence from one on, the ``fresh`` first ones of it or not."""

    sequence: int
    first: int
    length: int
    fresh: bool
    heads: int

    @property
    def chunks(self) -> int:
        """Chunks, the last one perhaps shorter."""
        return -(-self.length // CHUNK)

    def tokens_of(self, chunk: int) -> int:
        """Tokens of a chunk."""
        return min(CHUNK, self.length - chunk * CHUNK)

    def kind(self, cluster: int, clusters: int) -> Hashable:
        """What a cluster has to do."""
        together = {size: len(rows) for size, rows in self._together(cluster, clusters).items()}
        single = {size: len(rows) for size, rows in self._single(cluster, clusters).items()}
        own = self.heads_of(cluster, clusters)
        return tuple(together.items()), len(own), self.chunks, self.length, tuple(single.items())

    def heads_of(self, cluster: int, clusters: int) -> range:
        """Heads whose states a cluster passes through all chunks."""
        each = -(-self.heads // clusters)
        return range(min(self.heads, cluster * each), min(self.heads, (cluster + 1) * each))

    def _together(self, cluster: int, clusters: int) -> dict[tuple[int, ...], list[list[int]]]:
        """A cluster's heads of chunks, four at a time, by the tokens of these; heads inside."""
        each, more = divmod(self.heads * self.chunks, clusters)
        first = cluster * each + min(cluster, more)
        last, found = first + each + (cluster < more), dict[tuple[int, ...], list[list[int]]]()
        for begin in range(first, last, TOGETHER):
            tasks = range(begin, min(begin + TOGETHER, last))
            sizes = tuple(self.tokens_of(task // self.heads) for task in tasks)
            row = [number for task in tasks for number in divmod(task, self.heads)]
            found.setdefault(sizes, []).append(row)
        return found

    def together(self, core: Core, clusters: int) -> Iterator[list[Place]]:
        """The same, those of like sizes in a loop."""
        for sizes, rows in self._together(core.get_block_idx(), clusters).items():
            table = np.array(rows, np.int64)
            for turn in core.loop(len(rows), sequential=True):
                places = [looked_up(turn, table[:, at]) for at in range(table.shape[1])]
                yield [
                    Place(chunk, head, size)
                    for chunk, head, size in zip(places[::2], places[1::2], sizes, strict=True)
                ]

    def _single(self, cluster: int, clusters: int) -> dict[int, list[tuple[int, int]]]:
        """A cluster's heads of chunks one by one; chunks inside."""
        total = self.heads * self.chunks
        each = -(-total // clusters)
        found: dict[int, list[tuple[int, int]]] = {}
        for task in range(min(total, cluster * each), min(total, (cluster + 1) * each)):
            head, chunk = divmod(task, self.chunks)
            found.setdefault(self.tokens_of(chunk), []).append((chunk, head))
        return found

    def single(self, core: Core, clusters: int) -> Iterator[Place]:
        """The same, those of like sizes in a loop."""
        for size, rows in self._single(core.get_block_idx(), clusters).items():
            table = np.array(rows, np.int64)
            for turn in core.loop(len(rows), sequential=True):
                yield Place(looked_up(turn, table[:, 0]), looked_up(turn, table[:, 1]), size)

    def states(self, core: Core, clusters: int) -> Iterator[tuple[Place, bool]]:
        """Heads whose states pass, chunk by chunk, and whether the state is that of the call."""
        for head in self.heads_of(core.get_block_idx(), clusters):
            yield Place(0, head, self.tokens_of(0)), self.fresh
            between = max(0, self.chunks - 2)
            for chunk in core.loop(between, sequential=True) if between else ():
                yield Place(chunk + 1, head, CHUNK), False
            if self.chunks > 1:
                yield Place(self.chunks - 1, head, self.tokens_of(self.chunks - 1)), False
