"""Keys and values of tokens into caches in pages: ScatterPaKvCache.

Cores share the tokens. Slots and rows of some tokens come to UB; the scalar unit finds page and
place of each, and MTE3 stores its row: in one run, or in pieces of 32 bytes where pages lie in
fractals (PA_NZ). Pieces are alone in their lines, which memory reads and writes back. The kernel
isn't public: a transfer for each row, and its pieces, follow from the operator's page. Published
times in fractals (hicann/cann-bench, 14 on 910B3) are 0.7 to 2 times the simulated ones.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from npusim.ascendc import Core, GlobalTensor, Kernel, Scalar, TPosition, TQue
from npusim.engine.program import Pipe
from npusim.schedules.bounds import fault_outside
from npusim.schedules.rows.shares import RowShare
from npusim.values.dtypes import INT32, INT64

if TYPE_CHECKING:
    from npusim.ascendc.loops import Index
    from npusim.ascendc.task import Task
    from npusim.hardware.profile import Profile

_MODES = ("", "Norm", "PA_NZ")
_SCATTERED = ("", "None")
_BY_HEADS = 5  # axes of pages in fractals, where heads are one
_QUEUES = 2  # one for keys, one for values


class Cache(NamedTuple):
    """Rows of ``width`` elements and the pages they go to: ``size`` tokens each.

    In fractals a page has pieces of ``lanes`` elements, of all its tokens each.
    """

    rows: GlobalTensor
    pages: GlobalTensor
    width: int
    size: int
    lanes: int = 0


class ScatterPaKvCache(Kernel):
    """cache[slot // size, ..., slot % size] = row, for keys and for values."""

    op_type = "ScatterPaKvCache"

    def __init__(self, profile: Profile, slots: GlobalTensor, caches: tuple[Cache, ...]) -> None:
        self.slots = slots.view(slots.numel)
        self.caches = tuple(
            each._replace(rows=each.rows.view(each.rows.numel),
                          pages=each.pages.view(each.pages.numel))
            for each in caches
        )  # fmt: skip
        self.reads = (*(each.rows for each in caches), slots)
        self.writes = tuple(each.pages for each in caches)
        buffers = profile.buffers
        room = buffers.ub_bytes // (_QUEUES * self.buffer_num) - 2 * buffers.block_bytes
        widest = max(each.width * each.rows.dtype.itemsize for each in caches)
        self.room = min(room, widest) // buffers.block_bytes * buffers.block_bytes
        self.room = max(self.room, buffers.block_bytes)
        tile = max(1, room // widest)
        self.division = self.share = RowShare.of(slots.numel, profile.cores.vector_cores, tile)
        self.block_dim = min(profile.cores.vector_cores, slots.numel)

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        """key, its cache, slots, value, its cache; the attribute says how pages lie."""
        key, keys, slots, value, values = task.present(5)
        if any(each is not None for each in task.inputs[5:]):
            raise task.refused("compressed sequences aren't modelled")
        mode = str(task.first("cache_mode") or "")
        if mode not in _MODES:
            raise task.refused(f"cache mode {mode!r}; {', '.join(_MODES[1:])} are modelled")
        if str(task.first("scatter_mode") or "") not in _SCATTERED:
            raise task.refused("compressed sequences and pages by heads (NHSD) aren't modelled")
        if slots.dtype not in (INT32, INT64) or key.shape[:1] != (slots.numel,):
            raise task.refused(f"{slots.numel} slots of {slots.dtype} for {key.shape}")
        if value.shape[:1] != key.shape[:1] or not slots.numel:
            raise task.unfit(f"keys {key.shape} and values {value.shape}")
        pairs = (key, keys), (value, values)
        return (cls(task.profile, slots, tuple(_cache(task, *each, mode) for each in pairs)),)

    def process(self, core: Core) -> None:
        """Some tokens after the other."""
        least = min(each.pages.numel // each.width for each in self.caches)
        fault_outside(core, self.op_type, self.slots, least)
        share, depth = self.share, self.buffer_num
        if any(each.lanes for each in self.caches):
            core.set_store_alone()
        slots = TQue(TPosition.VECIN, depth, "slots", consumer=Pipe.SCALAR)
        core.pipe.init_buffer(slots, depth, share.tile * self.slots.dtype.itemsize)
        queues = [TQue(TPosition.VECIN, depth, name, consumer=Pipe.MTE3) for name in ("k", "v")]
        for queue in queues:
            core.pipe.init_buffer(queue, depth, share.tile * self.room)
        for start, count in share.tiles(core):
            ids = slots.copy_in(self.slots.span(start, count))
            for cache, queue in zip(self.caches, queues, strict=True):
                chunk = self.room // cache.rows.dtype.itemsize
                chunk -= chunk % (cache.lanes or 1)
                for column, width in core.tiles(0, cache.width, chunk):
                    places = (start, cache.width), (column, 1)
                    given = cache.rows.window(places, (count, width), (cache.width, 1))
                    tile = queue.copy_in(given)
                    for row in core.loop(count):
                        slot = core.get_value(ids, row // 1)
                        self._store(core, cache, (slot, column, width), tile[row])
                    queue.free_tensor(tile)
            slots.free_tensor(ids)

    def _store(
        self, core: Core, cache: Cache, where: tuple[Scalar, Index, int], row: object
    ) -> None:
        slot, column, width = where
        page, place = _divided(core, slot, cache.size)
        step, lanes = cache.size * cache.width, cache.lanes
        if not lanes:
            places = (page, step), (place, cache.width), (column, 1)
            core.copy_runs(cache.pages.window(places, (width,), (1,)), row)  # type: ignore[arg-type]
            return
        places = (page, step), (place, lanes), (column, cache.size)
        window = (width // lanes, lanes), (cache.size * lanes, 1)
        core.copy_runs(cache.pages.window(places, *window), row)  # type: ignore[arg-type]


def _cache(task: Task, rows: GlobalTensor, pages: GlobalTensor, mode: str) -> Cache:
    """Where rows go; KernelError where pages have no room for them as the mode says."""
    width, shape = prod(rows.shape[1:]), pages.shape
    lanes = task.profile.buffers.block_bytes // rows.dtype.itemsize if mode == "PA_NZ" else 0
    if lanes and len(shape) == _BY_HEADS and shape[1] == rows.shape[1]:
        shape = (shape[0], shape[1] * shape[2], *shape[3:])  # the same places
    wanted = (width // lanes, lanes) if lanes else rows.shape[1:]
    found = (shape[1], *shape[3:]) if lanes else shape[2:]
    if len(shape) < 2 or tuple(found) != tuple(wanted) or rows.dtype is not pages.dtype:
        raise task.unfit(f"rows of {rows.shape[1:]} in pages of {shape}, {mode or 'Norm'}")
    return Cache(rows, pages, width, shape[2] if lanes else shape[1], lanes)


def _divided(core: Core, slot: Scalar, size: int) -> tuple[Scalar, Scalar]:
    """Page and place in it."""
    core.scalar_alu("div", 2)
    if slot.value is None:
        return Scalar(core, None, slot.depth), Scalar(core, None, slot.depth)
    whole, rest = np.divmod(slot.value.astype(np.int64), size)
    return Scalar(core, whole, slot.depth), Scalar(core, rest, slot.depth)
