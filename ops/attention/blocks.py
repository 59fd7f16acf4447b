"""How attention is cut into blocks of rows and rounds of keys, and dealt to the cores.

A vector core works on up to 128 rows of a head; its cluster's cube core multiplies them with up to
1024 keys at a time. Blocks are numbered rows innermost, then heads, then sequences; each cluster
takes a stretch of them, two at a time, so that the longest stretch is short. Source:
ops-transformer attention/flash_attention_score/op_host/flash_attention_score_tiling_general.cpp.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import ceil
from statistics import fmean as mean
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from npusim.ops.attention.masks import Mask

ROWS = 128  # of a block: what the cube multiplies at a time
KEYS = 1024  # of a round: eight blocks of the cube
_LOAD_OF_A_BLOCK = 1  # beside its keys, in blocks of the cube


class Round(NamedTuple):
    """Some keys for a block of rows, and the parts of the mask that cut through its scores."""

    key: int
    keys: int
    edges: tuple[str, ...]


class Rows(NamedTuple):
    """A block of rows of one head."""

    sequence: int
    head: int
    row: int
    rows: int


class Shape(NamedTuple):
    """What blocks have in common that are worked on alike."""

    rows: int
    rounds: int
    first: tuple[int, tuple[str, ...]]  # keys and edges of the first round and of the last one
    last: tuple[int, tuple[str, ...]]


class Repeated(NamedTuple):
    """A pair of blocks, so many ``times``: rows of each; all have ``middle`` rounds together."""

    rows: tuple[int, ...]
    times: int
    first: tuple[int, tuple[str, ...]] | None  # None where the only round is the last one
    middle: int
    last: tuple[int, tuple[str, ...]]


@dataclass(frozen=True)
class Dealing:
    """The blocks of a call; ``lengths`` has (queries, keys) of each sequence.

    ``lanes`` blocks are worked on side by side by a cluster. The last round is ``trimmed`` to the
    keys that are seen, or whole.
    """

    mask: Mask
    lengths: tuple[tuple[int, int], ...]
    heads: int
    cores: int
    rows: int = ROWS
    keys: int = KEYS
    lanes: int = 2
    trimmed: bool = True

    @cached_property
    def _table(self) -> tuple[NDArray[np.intp], list[Shape]]:
        """The shape of every block, by its number among different ones."""
        known: dict[Shape, int] = {}
        parts, seen = [], {}
        for sequence, size in enumerate(self.lengths):
            asked = (size, self.mask.bands[sequence])
            if asked not in seen:
                shapes = self._shapes(sequence, range(0, size[0], self.rows))
                numbers = [known.setdefault(each, len(known)) for each in shapes]
                seen[asked] = np.tile(np.array(numbers, np.intp), self.heads)
            parts.append(seen[asked])
        return np.concatenate(parts), list(known)

    def _shapes(self, sequence: int, firsts: range) -> list[Shape]:
        """Those of a head's blocks; where nothing is masked, all but the last are alike."""
        if self.mask.tensor is None and len(firsts) > 1:
            whole, last = self._shape(sequence, 0), self._shape(sequence, firsts[-1])
            return [whole] * (len(firsts) - 1) + [last]
        return [self._shape(sequence, first) for first in firsts]

    @cached_property
    def _starts(self) -> NDArray[np.intp]:
        """The first block of each sequence, and the number of all blocks."""
        each = [ceil(queries / self.rows) * self.heads for queries, _ in self.lengths]
        return np.concatenate([[0], np.cumsum(each)]).astype(np.intp)

    @cached_property
    def stretches(self) -> tuple[tuple[int, int], ...]:
        """The pairs of blocks of every cluster, from one up to another."""
        numbers, shapes = self._table
        loads = np.array([_load(each) for each in shapes])[numbers]
        missing = -len(loads) % self.lanes
        pairs = np.concatenate([loads, np.zeros(missing, loads.dtype)]).reshape(-1, self.lanes)
        return tuple(pairwise(_dealt(pairs.max(axis=1), self.cores)))

    def pair(self, number: int) -> list[Rows]:
        """The blocks of a pair."""
        first = number * self.lanes
        return [self._block(each) for each in range(first, min(first + self.lanes, self.count))]

    @property
    def count(self) -> int:
        """Number of blocks."""
        return int(self._starts[-1])

    def rounds(self, block: Rows) -> list[Round]:
        """The rounds of a block; whole ones but for the last."""
        begin, end = self._seen(block)
        return [self._round(block, key, end) for key in range(begin, end, self.keys)]

    def _seen(self, block: Rows) -> tuple[int, int]:
        """The keys of a block, from one up to another."""
        keys = self.lengths[block.sequence][1]
        begin, end = self.mask.keys(block.sequence, block.row, block.rows, keys)
        if not self.trimmed:
            end = min(keys, begin + ceil((end - begin) / self.keys) * self.keys)
        return begin, end

    def _round(self, block: Rows, key: int, end: int) -> Round:
        """The round of a block that begins at a key."""
        size = min(self.keys, end - key)
        edges = self.mask.edges(block.sequence, block.row, block.rows, key, size)
        return Round(key, size, edges)

    @cached_property
    def typical(self) -> tuple[Repeated, ...]:
        """What stands for the blocks of every cluster: those of the one that has most to do.

        Pairs of whole blocks and others, each with as many rounds as they have together and the
        mean of what differs among them.
        """
        numbers, shapes = self._table
        loads = np.array([_load(each) for each in shapes])[numbers]
        firsts = [first * self.lanes for first, _ in self.stretches]
        most = int(np.add.reduceat(loads, firsts).argmax())
        first, last = (each * self.lanes for each in self.stretches[most])
        own = numbers[first:last].tolist()
        pairs = Counter(tuple(own[at : at + self.lanes]) for at in range(0, len(own), self.lanes))
        kinds: dict[tuple[bool, bool], list[tuple[list[Shape], int]]] = {}
        for pair, count in sorted(pairs.items()):
            members = [shapes[number] for number in pair]
            whole = len(members) == self.lanes and all(each.rows == self.rows for each in members)
            several = any(each.rounds > 1 for each in members)
            kinds.setdefault((several, whole), []).append((members, count))
        return tuple(_mean(kinds[kind]) for kind in sorted(kinds, reverse=True))

    def _block(self, number: int) -> Rows:
        sequence = int(np.searchsorted(self._starts, number, "right")) - 1
        queries = self.lengths[sequence][0]
        head, row = divmod(number - int(self._starts[sequence]), ceil(queries / self.rows))
        row *= self.rows
        return Rows(sequence, head, row, min(self.rows, queries - row))

    def _shape(self, sequence: int, row: int) -> Shape:
        rows = min(self.rows, self.lengths[sequence][0] - row)
        block = Rows(sequence, 0, row, rows)
        begin, end = self._seen(block)
        starts = range(begin, end, self.keys)
        first, last = (self._round(block, key, end) for key in (starts[0], starts[-1]))
        return Shape(rows, len(starts), first[1:], last[1:])


def _mean(pairs: list[tuple[list[Shape], int]]) -> Repeated:
    """What stands for pairs of blocks and how often each of them comes."""
    count = sum(times for _, times in pairs)
    longest = [(max(each, key=lambda shape: (shape.rounds, shape.last)), n) for each, n in pairs]
    rounds = sum(shape.rounds * times for shape, times in longest)
    several = any(shape.rounds > 1 for shape, _ in longest)
    lanes = max(len(each) for each, _ in pairs)
    rows = tuple(
        ceil(sum(each[lane].rows * n for each, n in pairs if lane < len(each)) / count)
        for lane in range(lanes)
    )
    known = {shape.last[0] for shape, _ in longest}
    keys = sum(n * mean(shape.last[0] for shape in each) for each, n in pairs) / count
    keys = known.pop() if len(known) == 1 else round(keys / ROWS) * ROWS or ROWS
    usual, _ = max(longest, key=lambda each: each[1])
    return Repeated(
        rows,
        count,
        usual.first if several else None,
        max(0, rounds - (1 + several) * count),
        (keys, usual.last[1]),
    )


def _load(shape: Shape) -> int:
    """Blocks of the cube that a block of rows takes, about."""
    whole = (shape.rounds - 1) * KEYS + shape.last[0]
    return ceil(whole / ROWS) + _LOAD_OF_A_BLOCK


def _dealt(loads: NDArray[np.int64], cores: int) -> list[int]:
    """Where stretches end that are as even as they can be, for up to ``cores`` of them."""
    ends = np.cumsum(loads).tolist()
    most, mean_load = int(loads.max()), ceil(ends[-1] / cores)
    low, high = max(most, mean_load), mean_load + most  # what is cut there is longer than the mean
    while low < high:
        middle = (low + high) // 2
        if len(_cuts(ends, middle)) - 1 <= cores:
            high = middle
        else:
            low = middle + 1
    return _cuts(ends, low)


def _cuts(ends: Sequence[int], most: int) -> list[int]:
    """Stretches of at most that load each, as long as they can be."""
    cuts, done = [0], 0
    while cuts[-1] < len(ends):
        cuts.append(bisect_right(ends, done + most))
        done = ends[cuts[-1] - 1]
    return cuts
