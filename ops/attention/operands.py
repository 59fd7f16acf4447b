"""Keys and values as a product's operand: in pages of a cache, or in two tensors side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from npusim.ascendc.loops import values_of
from npusim.library.operands import AsItLies, GmMatrix, bring_rows

if TYPE_CHECKING:
    from npusim.ascendc import Core, GlobalTensor
    from npusim.ascendc.gm_slices import Place
    from npusim.ascendc.loops import Index
    from npusim.ascendc.tensors import LocalTensor
    from npusim.library.operands import Span
    from npusim.values.dtypes import DType


@dataclass(frozen=True, slots=True)
class Pages:
    """A cache in pages of ``size`` tokens: a row of numbers of pages for each sequence.

    A page begins ``step`` elements behind the one before it. ``parts`` are the sequence and the
    first token of each part, where sequences are split. In loops that stand for many rounds pages
    follow one another, whatever the ``table`` says.
    """

    table: GlobalTensor
    size: int
    step: int
    parts: tuple[tuple[int, int], ...] = ()
    in_loops: bool = False

    @property
    def known(self) -> bool:
        """Whether the table says where pages are."""
        return self.table.array is not None and not self.in_loops

    def place(self, sequence: int, token: int) -> tuple[int, int]:
        """The row of the table that has a sequence, or a part, and the token there."""
        row, first = self.parts[sequence] if self.parts else (sequence, 0)
        return row, first + token

    def page(self, core: Core, sequence: int, place: int) -> int:
        """The page that a sequence has at a place, as the scalar unit reads it."""
        at = sequence * self.table.shape[-1] + place
        core.load_scalar(self.table.view(self.table.numel).span(at, 1))
        array = self.table.array
        return int(array.reshape(-1)[at]) if array is not None and self.known else at


@dataclass(frozen=True, slots=True)
class OnChip(AsItLies):
    """A matrix that is on the chip already; ``bring`` takes it to L1 where it isn't there."""

    tensor: LocalTensor
    bring: Callable[[LocalTensor, LocalTensor], None] | None = None

    @property
    def dtype(self) -> DType:
        return self.tensor.dtype

    def load_l1(self, core: Core, tile: LocalTensor, rows: Span, columns: Span) -> None:
        """As a whole."""
        del rows, columns
        if self.bring is not None:
            self.bring(tile, self.tensor)
        elif core.numerics:
            tile.alias(self.tensor.values(tile.depth))


@dataclass(frozen=True, slots=True)
class Gathered(GmMatrix):
    """A matrix of tokens, some rows or columns of which lie elsewhere.

    With ``pages`` the tokens lie in those of a ``sequence``, with a ``height`` in further matrices,
    from token ``first`` on; ``beside`` has the columns from ``width`` on.
    """

    pages: Pages | None = None
    sequence: int = 0
    first: int = 0
    beside: GmMatrix | None = None
    width: int = 0

    def load_l1(self, core: Core, tile: LocalTensor, rows: Span, columns: Span) -> None:
        """Page by page, and from each tensor its columns."""
        tokens, wide = (columns, rows) if self.transposed else (rows, columns)
        for start, count, outer, source in self._runs(core, tokens):
            for at, length, matrix, column in self._sides(wide):
                piece = tile[start : start + count, at : at + length]
                places = (*matrix.start, (outer, matrix.apart), (source, matrix.step), (column, 1))
                bring_rows(core, piece, matrix, places, (count, length))

    def _runs(self, core: Core, tokens: Span) -> Iterator[tuple[int, int, int, Place]]:
        """(row of the tile, tokens, their matrix, first token) of what lies together."""
        if self.pages is None:
            yield from self._matrices(tokens)
            return
        pages, done = self.pages, 0
        begin = self.first + _now(tokens[0])
        while done < tokens[1]:
            place, offset = divmod(begin + done, pages.size)
            count = min(pages.size - offset, tokens[1] - done)
            page = pages.page(core, self.sequence, place)
            yield done, count, 0, self._place(pages, page, offset, tokens[0])
            done += count

    def _matrices(self, tokens: Span) -> Iterator[tuple[int, int, int, Place]]:
        """One after the other, counted through all of them."""
        if not self.height:
            yield 0, tokens[1], 0, tokens[0]
            return
        begin, done = self.first + _now(tokens[0]), 0
        while done < tokens[1]:
            outer, inner = divmod(begin + done, self.height)
            count = min(self.height - inner, tokens[1] - done)
            yield done, count, outer, inner
            done += count

    def _place(self, pages: Pages, page: int, offset: int, token: Index) -> Place:
        """Where a token lies now, and where pages that follow one another have the ones after."""
        stride = pages.step // self.step
        found = page * stride + offset
        if isinstance(token, int) or pages.known:
            return found
        pace = max(1, stride // pages.size)
        return token * pace + (found - _now(token) * pace)

    def _sides(self, wide: Span) -> Iterator[tuple[int, int, GmMatrix, Place]]:
        """(column of the tile, columns, matrix, first column) of each tensor."""
        if self.beside is None:
            yield 0, wide[1], self, wide[0]
            return
        begin = _now(wide[0])
        own = max(0, min(wide[1], self.width - begin))
        if own:
            yield 0, own, self, wide[0]
        if own < wide[1]:
            yield own, wide[1] - own, self.beside, max(0, begin - self.width)


def _now(place: Index) -> int:
    """The place in the iteration worked on now, or in the first of several."""
    return int(values_of(place)[0])
