"""Numbers with their places, sorted by the vector unit: what it takes, without the numbers.

Groups of 32 pairs are sorted by one instruction (vbitsort32), four sorted lists are merged by
another (vmrgsort4v2). Lists that UB doesn't hold together are merged piece by piece.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from npusim.ascendc.queues import TPosition, TQue
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from npusim.ascendc.core import Core
    from npusim.ascendc.gm import GlobalTensor
    from npusim.ascendc.gm_slices import Place
    from npusim.ascendc.tensors import LocalTensor

GROUP = 32  # numbers that vbitsort32 sorts
LISTS = 4  # that are merged at a time
PAIR_BYTES = 2 * FLOAT.itemsize  # of a number and its place
_LIST_PAIRS = 2040  # of a list in UB while it is merged


def record_sort(core: Core, pairs: LocalTensor, length: int) -> None:
    """Groups of 32, then four lists at a time, all of their numbers."""
    core.scalar_loop()
    core.scalar_call()
    core.record_vector("vector_dup", pairs, GROUP)
    lanes = core.costs.repeat_elements(FLOAT.itemsize)
    groups = ceil(length / GROUP)
    merges = ceil(groups / LISTS)
    core.scalar_call()
    core.record_vector("vbitsort32", pairs, lanes, rows=groups)
    while groups > 1:
        core.scalar_call()
        core.record_vector("vmrgsort4v2", pairs, lanes, rows=merges)
        groups = ceil(groups / LISTS)


def merge_lists(
    core: Core,
    given: GlobalTensor,
    out: GlobalTensor,
    groups: Iterable[tuple[tuple[tuple[Place, int], ...], int]],
) -> None:
    """Four lists of ``given`` after the other, through UB into one of ``out``.

    A group is where its floats begin in both (index, stride) and how many pairs it has.
    """
    lanes = core.costs.repeat_elements(FLOAT.itemsize)
    most = LISTS * _LIST_PAIRS
    ins, outs = TQue(TPosition.VECIN, 1, "lists"), TQue(TPosition.VECOUT, 1, "merged")
    for queue in (ins, outs):
        core.pipe.init_buffer(queue, 1, most * PAIR_BYTES)
    source, target = given.view(given.numel), out.view(out.numel)
    for first, count in groups:
        for start, length in core.tiles(0, 2 * count, 2 * most):
            where = (*first, (start, 1))
            pairs = ins.copy_in(source.window(where, (length,), (1,)))
            merged = outs.alloc_tensor(FLOAT, length)
            merges = ceil(length / (2 * GROUP * LISTS))
            core.scalar_call(LISTS)
            core.record_vector("vmrgsort4v2", merged, lanes, rows=merges)
            ins.free_tensor(pairs)
            outs.copy_out(target.window(where, (length,), (1,)), merged)
