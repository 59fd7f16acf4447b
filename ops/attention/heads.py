"""Where the heads of queries, keys and values lie in device memory.

A layout names the axes of a tensor: batch B, sequence S, heads N, elements of a head D; H is N and
D together, T all sequences of a batch one behind the other. Source: ops-transformer
attention/flash_attention_score/docs/aclnnFlashAttentionScoreV2.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING

from npusim.ops.attention.operands import Pages
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from npusim.ascendc import GlobalTensor

LAYOUTS = {"BSH": 3, "SBH": 3, "BNSD": 4, "BSND": 4, "TND": 3}  # and how many axes they have


@dataclass(frozen=True, slots=True)
class Heads:
    """The heads of one tensor: ``rows[b]`` tokens in each, ``columns`` elements a token.

    Element 0 of token s of head n of sequence b is at ``starts[b] + n * head + s * token``, and
    ``head`` may be another for each sequence. Where several heads are rows of one, ``inner`` rows
    follow each other, and the next ``inner`` begin ``apart`` elements behind them.
    """

    tensor: GlobalTensor
    heads: int
    columns: int
    rows: tuple[int, ...]
    starts: tuple[int, ...]
    head: int | tuple[int, ...]
    token: int
    pages: Pages | None = None
    inner: int = 0
    apart: int = 0

    @classmethod
    def of(
        cls,
        tensor: GlobalTensor,
        layout: str,
        heads: int,
        ends: Sequence[int] | None = None,
        lengths: Sequence[int] | None = None,
    ) -> Heads:
        """The heads of a tensor of ``layout``; raises KernelError where they don't fit.

        ``ends`` are where the sequences of a packed tensor end; ``lengths`` how much of each
        sequence counts in a tensor that is padded.
        """
        shape = tensor.shape
        if layout not in LAYOUTS or len(shape) != LAYOUTS[layout] or heads < 1:
            raise KernelError("attention", f"{shape} has no {heads} heads in layout {layout}")
        sizes = dict(zip(layout, shape, strict=True))
        if "H" in sizes and sizes["H"] % heads:
            raise KernelError("attention", f"{shape} can't be cut into {heads} heads")
        columns = sizes["D"] if "D" in sizes else sizes["H"] // heads
        heads = sizes.get("N", heads)
        if not heads or not columns:
            raise KernelError("attention", f"{shape} has no elements in its heads")
        if layout == "TND":
            return cls._packed(tensor, columns, tuple(ends or (shape[0],)))
        batch, length = sizes["B"], sizes["S"]
        token = {"SBH": batch * heads * columns, "BNSD": columns}.get(layout, heads * columns)
        start = heads * columns * (1 if layout == "SBH" else length)
        rows = tuple(min(length, each) for each in _each(lengths, batch, length))
        head = length * columns if layout == "BNSD" else columns
        starts = tuple(sequence * start for sequence in range(batch))
        return cls(tensor, heads, columns, rows, starts, head, token)

    @classmethod
    def _packed(cls, tensor: GlobalTensor, columns: int, ends: tuple[int, ...]) -> Heads:
        heads = tensor.shape[1]
        edges = (0, *ends)
        if edges[-1] > tensor.shape[0] or any(b < a for a, b in pairwise(edges)):
            raise KernelError("attention", f"sequences that end at {ends} aren't {tensor.shape}")
        rows = tuple(b - a for a, b in pairwise(edges))
        token = heads * columns
        starts = tuple(first * token for first in edges[:-1])
        return cls(tensor, heads, columns, rows, starts, columns, token)

    @property
    def batch(self) -> int:
        """Number of sequences."""
        return len(self.rows)

    def at(self, sequence: int, head: int) -> int:
        """Element 0 of the first token of a head."""
        apart = self.head if isinstance(self.head, int) else self.head[sequence]
        return self.starts[sequence] + head * apart

    def grouped(self, group: int) -> Heads:
        """A row for each of ``group`` heads that share keys, token after token."""
        rows = tuple(each * group for each in self.rows)
        assert isinstance(self.head, int)  # queries and results
        even = self.token == group * self.head or max(self.rows, default=0) == 1
        return replace(
            self, heads=self.heads // group, rows=rows, head=group * self.head, token=self.head,
            inner=0 if even else group, apart=0 if even else self.token,
        )  # fmt: skip

    def runs(self, first: int, count: int) -> Iterator[tuple[int, int, int]]:
        """(row among these, rows, element behind that of row 0) of what lies evenly."""
        inner, done = self.inner or first + count, 0
        while done < count:
            outer, begin = divmod(first + done, inner)
            rows = min(inner - begin, count - done)
            yield done, rows, outer * self.apart + begin * self.token
            done += rows

    def stretches(self, where: Sequence[tuple[int, int]], rows: Sequence[int]) -> Heads:
        """Tokens of sequences from some on, each a sequence of its own."""
        if self.pages is not None:
            pages = replace(self.pages, parts=tuple(where))
            return replace(self, starts=(0,) * len(where), rows=tuple(rows), pages=pages)
        starts = tuple(self.starts[b] + first * self.token for b, first in where)
        return replace(self, starts=starts, rows=tuple(rows))

    @classmethod
    def paged(
        cls, cache: GlobalTensor, heads: int, table: GlobalTensor, lengths: Sequence[int]
    ) -> Heads:
        """A cache of pages (pages, tokens, H) or (pages, heads, tokens, D).

        Raises KernelError for others: one in fractals isn't modelled.
        """
        if len(cache.shape) not in (LAYOUTS["BSH"], LAYOUTS["BNSD"]):
            raise KernelError("attention", f"pages of {len(cache.shape)} axes, {cache.shape}")
        if len(cache.shape) == LAYOUTS["BNSD"]:
            _, heads, size, columns = cache.shape
            token, head = columns, size * columns
        else:
            _, size, width = cache.shape
            columns = width // heads
            token, head = width, columns
        step = prod(cache.shape[1:])
        if len(table.shape) != 2 or len(lengths) != table.shape[0]:
            raise KernelError("attention", f"a table {table.shape} of {len(lengths)} sequences")
        rows = tuple(min(each, table.shape[1] * size) for each in lengths)
        starts = (0,) * len(rows)
        return cls(cache, heads, columns, rows, starts, head, token, Pages(table, size, step))


def _each(lengths: Sequence[int] | None, batch: int, length: int) -> Sequence[int]:
    if not lengths:
        return [length] * batch
    return list(lengths) * (batch if len(lengths) == 1 else 1)
