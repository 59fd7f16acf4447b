"""Blocks that kernels launch against the profiler's counts, which no prediction is told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from npusim.hardware import load_profile
from npusim.operators.tasks import kernels_of
from npusim.values.errors import NpusimError

if TYPE_CHECKING:
    from npusim.validation.table import MeasuredRow


def counted(rows: Iterable[MeasuredRow]) -> Iterator[tuple[MeasuredRow, tuple[int, ...]]]:
    """Rows that record their blocks and can be modelled, with the blocks of their kernels."""
    known: dict[object, tuple[int, ...]] = {}
    for row in rows:
        if not row.blocks or not row.soc or row.task is None:
            continue
        if row.question not in known:
            try:
                kernels = kernels_of(load_profile(row.soc), row.task)
                known[row.question] = tuple(kernel.block_dim for kernel in kernels)
            except NpusimError:
                known[row.question] = ()
        if known[row.question]:
            yield row, known[row.question]


def by_family(rows: Iterable[MeasuredRow]) -> dict[str, tuple[int, int]]:
    """Rows that record their blocks, and how many launch as many, by chip and family."""
    found: dict[str, tuple[int, int]] = {}
    for row, blocks in counted(rows):
        name = f"{row.chip}, {row.family}"
        count, right = found.get(name, (0, 0))
        found[name] = count + 1, right + (row.blocks in blocks)
    return found
