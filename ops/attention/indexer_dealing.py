"""How queries and keys of an indexer are cut into blocks, and dealt to clusters.

Up to 8 queries of a sequence go with 512 keys at a time; all such blocks are dealt evenly, keys
innermost. Source: ops-transformer attention/lightning_indexer, device schedule (SplitCore).
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from npusim.values.arithmetic import round_up

if TYPE_CHECKING:
    from npusim.ops.attention.lengths import Lengths

QUERIES, KEYS = 8, 512  # of a block
_CACHED = 4  # sorted blocks that are merged at once, where queries are few
_FEW = 4  # queries of a sequence


class Row(NamedTuple):
    """Some queries of a sequence, and how many keys the last one sees.

    Those of a sequence that has ``few`` sort blocks of keys before they merge several.
    """

    sequence: int
    first: int
    queries: int
    keys: int
    few: bool

    @property
    def blocks(self) -> int:
        return ceil(self.keys / KEYS)


class Part(NamedTuple):
    """Blocks of keys of a row that one cluster has."""

    row: Row
    first: int
    last: int

    @property
    def whole(self) -> bool:
        return not self.first and self.last == self.row.blocks


class Turn(NamedTuple):
    """A block: its keys, sorted blocks that are merged behind it, and whether it is the last one.

    ``later`` are those that are merged into others before them; ``out`` tells where the best go.
    """

    queries: int
    keys: int
    merged: int
    later: bool
    out: str


class Dealt:
    """Rows of all sequences, and the parts of each cluster."""

    def __init__(self, lengths: Lengths, clusters: int, *, causal: bool) -> None:
        self.rows: list[Row] = []
        for sequence, (own, theirs) in enumerate(
            zip(lengths.queries.tolist(), lengths.keys.tolist(), strict=True)
        ):
            for first in range(0, own, QUERIES):
                count = min(QUERIES, own - first)
                keys = min(theirs, theirs - own + first + count) if causal else theirs
                if keys > 0:
                    self.rows.append(Row(sequence, first, count, keys, own <= _FEW))
        self.ends = np.cumsum([row.blocks for row in self.rows], dtype=np.int64)
        total = int(self.ends[-1]) if self.rows else 0
        each, more = divmod(total, clusters)
        self.used = clusters if each else more
        shares = [each + (place < more) for place in range(self.used)]
        self.bounds = [0, *np.cumsum(shares).tolist()]
        self.parts = [self._parts(*span) for span in pairwise(self.bounds)]

    def _parts(self, begin: int, end: int) -> list[Part]:
        found = []
        at = int(np.searchsorted(self.ends, begin, "right"))
        while begin < end:
            row = self.rows[at]
            start = int(self.ends[at]) - row.blocks
            last = min(end, int(self.ends[at]))
            found.append(Part(row, begin - start, last - start))
            begin, at = last, at + 1
        return found

    def turns(self, cluster: int) -> list[tuple[Part, int, Turn]]:
        """The blocks of a cluster, one by one."""
        return [
            (part, block, self._turn(part, block))
            for part in self.parts[cluster]
            for block in range(part.first, part.last)
        ]

    def typical(self, cluster: int) -> dict[Turn, tuple[Part, int]]:
        """How many blocks of each kind a cluster has, with the first part that has one.

        Last blocks of rows have as many keys as they have in the mean.
        """
        found: Counter[Turn] = Counter()
        firsts: dict[Turn, Part] = {}
        parts = self.parts[cluster]
        tails = [(part.row.keys - 1) % KEYS + 1 for part in parts if part.last == part.row.blocks]
        tail = round_up(ceil(sum(tails) / max(1, len(tails))), 8) if len(tails) > 1 else None
        for part in parts:
            count = part.last - part.first
            usual = {part.first + place for place in range(min(count, 2 * _CACHED))}
            for block in usual | {part.last - 1}:
                turn = self._turn(part, block)
                if tail is not None and turn.keys < KEYS:
                    turn = turn._replace(keys=tail)
                firsts.setdefault(turn, part)
                place = block - part.first
                again = (count - 2 - place) // _CACHED if _CACHED <= place < count - 1 else 0
                found[turn] += 1 + max(0, again)
        return {turn: (firsts[turn], times) for turn, times in found.items()}

    def _turn(self, part: Part, block: int) -> Turn:
        row, last = part.row, block == part.last - 1
        keys = min(KEYS, row.keys - block * KEYS)
        place = block - part.first
        merged = 1
        if row.few:
            merged = place % _CACHED + 1 if last or place % _CACHED == _CACHED - 1 else 0
        out = ("whole" if part.whole else "part") if last else ""
        return Turn(row.queries, keys, merged, not row.few or place >= _CACHED, out)
