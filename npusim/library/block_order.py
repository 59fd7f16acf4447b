"""The order in which a cube core works on blocks of C: parts of like ones, and loops over them."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from npusim.ascendc.core import Core
    from npusim.ascendc.loops import Index
    from npusim.library.matmul_tiling import MatmulTiling
    from npusim.library.operands import Span

Part = tuple[int, int, int]  # first element, elements of a block, number of blocks


def blocks_of(core: Core, tiling: MatmulTiling, m: int, n: int) -> Iterator[tuple[Span, Span]]:
    """Rows and columns of the blocks of one matrix, in the order of ``BlockMatmul.iterate``.

    For vector cores that take over what a cube core multiplies.
    """
    for rows, columns in pairs(tiling, m, n):
        if not (tiling.keep_a or tiling.keep_b):
            for row, column in turns(core, tiling, rows[2], columns[2]):
                yield span_of(row, rows), span_of(column, columns)
            continue
        outer, inner = (rows, columns) if tiling.keep_a else (columns, rows)
        for first in core.loop(outer[2]):
            for turn in core.loop(inner[2]):
                fixed, moving = span_of(first, outer), span_of(turn, inner)
                yield (fixed, moving) if tiling.keep_a else (moving, fixed)


def pairs(tiling: MatmulTiling, m: int, n: int) -> Iterator[tuple[Part, Part]]:
    """Parts of rows and of columns, in the order in which they are worked on."""
    rows, columns = parts(m, tiling.base_m), parts(n, tiling.base_n)
    if tiling.rows_outside:
        yield from product(rows, columns)
        return
    for part, other in product(columns, rows):
        yield other, part


def turns(core: Core, tiling: MatmulTiling, high: int, wide: int) -> Iterator[tuple[Index, Index]]:
    """Rows and columns of blocks that are streamed, one loop over all of them."""
    inner, outer = (wide, high) if tiling.rows_outside else (high, wide)
    for turn in core.loop(inner * outer):
        fast = (turn % inner if outer > 1 else turn) if inner > 1 else 0
        slow = (turn // inner if inner > 1 else turn) if outer > 1 else 0
        yield (slow, fast) if tiling.rows_outside else (fast, slow)


def span_of(turn: Index, part: tuple[int, int, int]) -> Span:
    """The rows or columns of the ``turn``-th block of a part."""
    return turn * part[1] + part[0], part[1]


def parts(total: int, step: int) -> list[Part]:
    """Whole blocks and what remains."""
    whole, rest = divmod(total, step)
    found = [(0, step, whole)] if whole else []
    if rest:
        found.append((whole * step, rest, 1))
    return found
