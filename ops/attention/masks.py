"""Which keys a query sees, and where the mask that says so is read.

Sparse modes: 0 and 1 read a mask as large as the scores, 2 to 4 a triangle of 2048 x 2048 that is
shifted to the edge (causal from the upper left, from the lower right, band), 5 and 6 let every
query see a prefix besides, 7 and 8 are 3 and 4 for packed sequences of which one has a band of its
own. Source: ops-transformer attention/flash_attention_score/docs/aclnnFlashAttentionScoreV2.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from npusim.ops.attention.asked import FAR
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npusim.ascendc import GlobalTensor
    from npusim.ascendc.gm_slices import GmSlice, Place

TRIANGLE = 2048  # rows and columns of a compressed mask
_MOST_ROWS = 128  # of a block
_ALIGNED_KEYS = 128  # what a band begins at is rounded down to


class Sparse(IntEnum):
    """Sparse modes by their numbers."""

    DEFAULT = 0
    ALL = 1
    LEFT_UP = 2
    RIGHT_DOWN = 3
    BAND = 4
    PREFIX = 5
    PREFIX_COMPRESSED = 6
    PACKED_BAND_LAST = 7
    PACKED_BAND_FIRST = 8


_COMPRESSED = frozenset(Sparse) - {Sparse.DEFAULT, Sparse.ALL, Sparse.PREFIX}


class Band(NamedTuple):
    """Query i sees keys from i - ``before`` to i + ``after``, and those before ``prefix``."""

    before: int
    after: int
    prefix: int = 0

    def from_key(self, first: int) -> Band:
        """The same, of keys that are counted from a later one."""
        return Band(self.before + first, self.after - first, max(0, self.prefix - first))


class Edge(NamedTuple):
    """A window of the mask; keys stay where it is zero, or where it isn't (``inverted``)."""

    window: GmSlice
    inverted: bool = False


@dataclass(frozen=True, slots=True)
class Mask:
    """The mask of a call; without a ``tensor`` every query sees every key.

    ``parts`` are the sequence and the first key of each part, where keys are split; ``group`` rows
    of a block are the heads of one query.
    """

    tensor: GlobalTensor | None
    mode: Sparse
    bands: tuple[Band, ...]
    parts: tuple[tuple[int, int], ...] = ()
    group: int = 1

    @classmethod
    def of(
        cls,
        tensor: GlobalTensor | None,
        mode: int,
        tokens: tuple[int, int],
        lengths: Sequence[tuple[int, int]],
        prefix: Sequence[int] = (),
    ) -> Mask:
        """For sequences of ``lengths`` (queries, keys); ``tokens`` are those before and after."""
        if mode not in tuple(Sparse):
            raise KernelError("attention", f"sparse mode {mode}: 0 to 8 are known")
        sparse = Sparse(mode)
        if tensor is None:
            return cls(None, Sparse.DEFAULT, (Band(FAR, FAR),) * len(lengths))
        if sparse in _COMPRESSED and tensor.shape[-1] < TRIANGLE:
            raise KernelError(
                "attention",
                f"sparse mode {mode} takes a mask of {TRIANGLE} x {TRIANGLE}, not {tensor.shape}",
            )
        prefixes = list(prefix) or [0] * len(lengths)
        bands = [_band(sparse, tokens, *each) for each in lengths]
        if sparse is Sparse.PACKED_BAND_LAST:
            bands[-1] = _band(Sparse.BAND, tokens, *lengths[-1])
        if sparse is Sparse.PACKED_BAND_FIRST:
            bands[0] = _band(Sparse.BAND, tokens, *lengths[0])
        found = zip(bands, prefixes, strict=False)
        return cls(tensor, sparse, tuple(band._replace(prefix=each) for band, each in found))

    def keys(self, sequence: int, first: int, rows: int, keys: int) -> tuple[int, int]:
        """The keys, from one up to another, of which some of these queries sees one."""
        band, (first, rows) = self.bands[sequence], self._queries(first, rows)
        begin = max(0, first - band.before) // _ALIGNED_KEYS * _ALIGNED_KEYS
        end = max(band.prefix, first + rows + band.after)
        if band.prefix:
            begin = 0
        begin = max(0, min(begin, keys - 1))
        # Queries that see nothing read some masked keys all the same.
        return begin, min(keys, max(end, begin + min(_ALIGNED_KEYS, keys)))

    def edges(self, sequence: int, first: int, rows: int, key: int, keys: int) -> tuple[str, ...]:
        """The parts of the mask that cut through a block of scores."""
        if self.tensor is None:
            return ()
        if self.mode not in _COMPRESSED:
            return ("given",)
        band, (first, rows) = self.bands[sequence], self._queries(first, rows)
        found = []
        if key + keys - 1 > first + band.after:
            found.append("after" if not band.prefix else "prefix")
        if key < first + rows - 1 - band.before:
            found.append("before")
        return tuple(found)

    @property
    def is_compressed(self) -> bool:
        """Whether it is a triangle that is shifted to the edge."""
        return self.tensor is not None and self.mode in _COMPRESSED

    def _queries(self, first: int, rows: int) -> tuple[int, int]:
        """The first query of some rows, and how many they have."""
        begin = first // self.group
        return begin, -(-(first + rows) // self.group) - begin

    def runs(self, job: Spot, row: Place, rows: int) -> Sequence[tuple[int, int, Place]]:
        """(row among these, rows, row of the mask) of those whose rows of the mask lie evenly."""
        if self.group == 1:
            return [(0, rows, row)]
        assert isinstance(row, int)  # of a mask that is read, slices come one by one
        found, first, done = [], job.row % self.group + row, 0
        while done < rows:
            query, inner = divmod(first + done, self.group)
            found.append((done, min(self.group - inner, rows - done), query))
            done += found[-1][1]
        return found

    def read(self, edge: str, job: Spot, row: Place, rows: int, keys: int) -> list[Edge]:
        """Windows of the mask for some rows of a block; of two, the smaller of each element."""
        assert self.tensor is not None
        if edge == "given":
            return [Edge(self._given(job, row, rows, keys))]
        band, job = self.bands[job.sequence], job._replace(row=job.row // self.group)
        if edge == "before":
            shift = job.key - job.row + band.before + 1
            return [Edge(self._triangle(shift, row, rows, keys), inverted=True)]
        shift = job.key - job.row - band.after
        found = [Edge(self._triangle(shift, row, rows, keys))]
        if edge == "prefix":
            half = TRIANGLE // 2
            column = half - max(0, min(half, band.prefix - job.key))
            place = ((TRIANGLE * TRIANGLE + column, 1), (row, TRIANGLE))
            found.append(Edge(self.tensor.window(place, (rows, keys), (self._step, 1))))
        return found

    def _given(self, job: Spot, row: Place, rows: int, keys: int) -> GmSlice:
        """A mask as large as the scores, for all heads and sequences or for each."""
        assert self.tensor is not None
        *outer, high, wide = self.tensor.shape
        step = wide if high > 1 else 0
        sequence, begin = self.parts[job.sequence] if self.parts else (job.sequence, 0)
        first = job.row * step + begin + job.key
        if len(outer) > 1 and outer[-1] > 1:
            first += job.head * high * wide
        if outer and outer[0] > 1:
            first += sequence * self.tensor.numel // outer[0]
        place = ((first, 1), (row, step), *((turn, each * step) for turn, each in job.down),
                 *job.along)  # fmt: skip
        return self.tensor.window(place, (rows, keys), (step, 1))

    def _triangle(self, shift: int, row: Place, rows: int, keys: int) -> GmSlice:
        """Zeros where j + shift <= i, for row i and column j."""
        assert self.tensor is not None
        shift = max(_MOST_ROWS - TRIANGLE, min(TRIANGLE // 2, shift))
        place = ((max(0, -shift) * TRIANGLE + max(0, shift), 1), (row, TRIANGLE))
        return self.tensor.window(place, (rows, keys), (self._step, 1))

    @property
    def _step(self) -> int:
        """From one row of a triangle to the next: heads of one query read the same."""
        return TRIANGLE if self.group == 1 else 0


class Spot(NamedTuple):
    """Where a block of scores is; ``down`` and ``along`` are the loops that move it."""

    sequence: int
    head: int
    row: int
    key: int
    down: tuple[tuple[Place, int], ...] = ()  # by so many rows
    along: tuple[tuple[Place, int], ...] = ()  # by so many keys


def _band(sparse: Sparse, tokens: tuple[int, int], queries: int, keys: int) -> Band:
    """What one sequence sees; ``tokens`` count from the corner that the mode names."""
    before, after = tokens
    beyond = keys - queries
    match sparse:
        case Sparse.DEFAULT:
            return Band(before, after)
        case Sparse.ALL:
            return Band(FAR, FAR)
        case Sparse.LEFT_UP | Sparse.PACKED_BAND_FIRST:
            return Band(FAR, 0)
        case Sparse.BAND:
            return Band(before - beyond, after + beyond)
        case _:
            return Band(FAR, beyond)
