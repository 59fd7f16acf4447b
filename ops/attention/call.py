"""A call of attention: its tensors as heads, its mask, and what else changes the scores."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from npusim.library.operands import GmMatrix
from npusim.ops.attention.operands import Gathered
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from npusim.ascendc import GlobalTensor
    from npusim.ascendc.gm_slices import GmSlice, Place
    from npusim.ops.attention.heads import Heads
    from npusim.ops.attention.masks import Mask
    from npusim.ops.attention.steps import Job

LANES = 8  # copies of each maximum and sum that the forward keeps for the gradient


class NotCoveredError(KernelError):
    """A call that a device runs, and these kernels don't."""


@dataclass(frozen=True, slots=True)
class Shift:
    """What is added to the scores: one row for all queries, or one for each (pse)."""

    tensor: GlobalTensor
    before_scale: bool = False

    def window(self, job: Job, row: Place, rows: int) -> GmSlice:
        """For some rows of a block."""
        batch, heads, queries, keys = self.tensor.shape
        step = keys if queries > 1 else 0
        first = job.block.row * step + job.key
        first += job.block.head * queries * keys if heads > 1 else 0
        first += job.block.sequence * heads * queries * keys if batch > 1 else 0
        moves = (*((turn, each * step) for turn, each in job.down), *job.along)
        return self.tensor.window(((first, 1), (row, step), *moves), (rows, job.keys), (step, 1))


@dataclass(frozen=True, slots=True)
class Dropout:
    """A bit for every score, 1 where it stays; those that do are divided by ``keep``."""

    bits: GlobalTensor
    keep: float

    def window(
        self, job: Job, queries: int, keys: int, heads: int, row: Place, rows: int
    ) -> GmSlice:
        """The bytes for some rows of a block."""
        step = keys // 8
        head = job.block.sequence * heads + job.block.head
        first = (head * queries + job.block.row) * step + job.key // 8
        moves = (
            *((turn, each * step) for turn, each in job.down),
            *((turn, each // 8) for turn, each in job.along),
        )
        flat = self.bits.view(prod(self.bits.shape))
        return flat.window(((first, 1), (row, step), *moves), (rows, -(-job.keys // 8)), (step, 1))


@dataclass(frozen=True, slots=True)
class Call:
    """out = dropout(softmax(scale * (q @ k.T) + shift, masked)) @ v, head by head.

    ``rope`` are further elements of queries and keys. ``maxima`` and ``sums`` are of each row of
    scores, eight copies in float32, None where nobody keeps them. Heads of queries share those of
    keys in groups.
    """

    query: Heads
    key: Heads
    value: Heads
    out: Heads
    mask: Mask
    scale: float
    shift: Shift | None = None
    dropout: Dropout | None = None
    maxima: Heads | None = None
    sums: Heads | None = None
    rope: tuple[Heads, Heads] | None = None

    def __post_init__(self) -> None:
        query, key, value = self.query, self.key, self.value
        if query.heads % key.heads or key.heads != value.heads:
            raise KernelError(
                "attention",
                f"{query.heads} heads of queries can't share {key.heads} of keys and "
                f"{value.heads} of values",
            )
        if query.columns != key.columns or query.batch != key.batch or key.rows != value.rows:
            raise KernelError(
                "attention",
                f"{query.tensor.shape}, {key.tensor.shape} and {value.tensor.shape} don't fit",
            )
        for whole, further in zip((query, key), self.rope or (), strict=False):
            if (whole.rows, whole.heads) != (further.rows, further.heads):
                raise KernelError(
                    "attention", f"{whole.tensor.shape} and {further.tensor.shape} don't fit"
                )

    @property
    def group(self) -> int:
        """Heads of queries that share one of keys."""
        return self.query.heads // self.key.heads

    @property
    def lengths(self) -> tuple[tuple[int, int], ...]:
        """Queries and keys of each sequence."""
        return tuple(zip(self.query.rows, self.key.rows, strict=True))

    @property
    def columns(self) -> int:
        """Elements of a query and of a key."""
        return self.query.columns + (self.rope[0].columns if self.rope else 0)

    def grouped(self, group: int) -> Call:
        """So many heads that share keys as rows of one, token after token."""
        query, out = (heads.grouped(group) for heads in (self.query, self.out))
        rope = self.rope and (self.rope[0].grouped(group), self.rope[1])
        mask = replace(self.mask, group=group if self.mask.is_compressed else 1)
        return replace(self, query=query, out=out, rope=rope, mask=mask)

    def queries(self, heads: Heads, job: Job, *, transposed: bool = False) -> GmMatrix:
        """The rows of a block in a tensor that has a row for each query."""
        plain = GmMatrix(heads.tensor, self.rows_at(heads, job), heads.token, transposed)
        if heads.inner:
            start = ((heads.at(job.block.sequence, job.block.head), 1),)
            plain = Gathered(heads.tensor, start, heads.token, transposed, first=job.block.row,
                             height=heads.inner, apart=heads.apart)  # fmt: skip
        if self.rope is None or heads is not self.query:
            return plain
        return _beside(plain, self.queries(self.rope[0], job, transposed=transposed), heads)

    def rows_at(self, heads: Heads, job: Job) -> tuple[tuple[Place, int], ...]:
        """Where they begin."""
        block = job.block
        first = heads.at(block.sequence, block.head) + block.row * heads.token
        return ((first, 1), *((turn, each * heads.token) for turn, each in job.down))

    def windows(
        self, heads: Heads, job: Job, row: Place, rows: int
    ) -> Iterator[tuple[int, int, GmSlice]]:
        """(row among these, rows, window) of some rows of a block."""
        tensor, wide, step = heads.tensor, heads.columns, (heads.token, 1)
        if not heads.inner:
            places = (*self.rows_at(heads, job), (row, heads.token))
            yield 0, rows, tensor.window(places, (rows, wide), step)
            return
        assert isinstance(row, int)  # rows that don't lie evenly come one slice at a time
        start = heads.at(job.block.sequence, job.block.head)
        for at, count, behind in heads.runs(job.block.row + row, rows):
            yield at, count, tensor.window(((start + behind, 1),), (count, wide), step)

    def keys(self, heads: Heads, job: Job, *, transposed: bool = False) -> GmMatrix:
        """The keys of a round in a tensor that has a row for each."""
        block = job.block
        first = heads.at(block.sequence, block.head // self.group) + job.key * heads.token
        moves = ((turn, each * heads.token) for turn, each in job.along)
        places = ((first, 1), *moves, *self._further(heads, job))
        plain = GmMatrix(heads.tensor, places, heads.token, transposed)
        if heads.pages is not None:
            head = heads.at(block.sequence, block.head // self.group)
            pages, onward = replace(heads.pages, in_loops=len(places) > 1), places[1:]
            sequence, token = pages.place(block.sequence, job.key)
            plain = Gathered(heads.tensor, ((head, 1), *onward), heads.token, transposed,
                             pages=pages, sequence=sequence, first=token)  # fmt: skip
        if self.rope is None or heads is not self.key:
            return plain
        return _beside(plain, self.keys(self.rope[1], job, transposed=transposed), heads)

    def _further(self, heads: Heads, job: Job) -> tuple[tuple[Place, int], ...]:
        """How the loops over blocks move on from head to head, in what is written down."""
        per_head = max(1, heads.tensor.numel // (heads.heads * heads.batch))
        blocks = max(1, sum(-(-rows // 128) for rows in self.query.rows) // self.query.batch)
        own = blocks * self.group  # that read the same keys
        found = []
        for turn, each in job.over:
            if own >= each:
                found.append((turn // (own // each) if own > each else turn, per_head))  # type: ignore[operator]
            else:
                found.append((turn, per_head * each // own))
        return tuple(found)


def _beside(first: GmMatrix, second: GmMatrix, heads: Heads) -> GmMatrix:
    """The columns of two matrices of the same rows."""
    own = (
        first
        if isinstance(first, Gathered)
        else Gathered(first.tensor, first.start, first.step, first.transposed)
    )
    return replace(own, beside=second, width=heads.columns)
