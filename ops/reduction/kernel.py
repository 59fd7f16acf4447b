"""ReduceSum: axes collapsed to (outer, reduced, inner), half types summed in float32."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from math import ceil, prod

from npusim.dialect import Core, GlobalTensor, Kernel, LocalTensor, RoundMode, TBuf, TPosition, TQue
from npusim.dialect.gm import Place
from npusim.hardware.profile import Profile
from npusim.values.dtypes import FLOAT
from npusim.values.errors import KernelError

Places = tuple[tuple[Place, int], ...]

_TILE_SHARE = 4  # of UB: two slots of the input, its float32 copy, and sums


class ReduceSum(Kernel):
    """out = sum of x over neighbouring axes ``first_axis .. last_axis``.

    Cores share the outer rows, or the inner columns where there is one outer row. A core goes through the reduced axis
    in tiles and adds up what the tiles give.
    """

    op_type = "ReduceSum"

    def __init__(
        self,
        profile: Profile,
        x: GlobalTensor,
        out: GlobalTensor,
        *,
        first_axis: int,
        last_axis: int,
    ) -> None:
        self.reads, self.writes = (x,), (out,)
        outer = prod(x.shape[:first_axis])
        reduced = prod(x.shape[first_axis : last_axis + 1])
        inner = prod(x.shape[last_axis + 1 :])
        self.x, self.out = x.view(outer, reduced, inner), out.view(outer, inner)
        self.outer, self.reduced, self.inner = outer, reduced, inner
        block = profile.buffers.block_bytes // out.dtype.itemsize
        cores = profile.cores.vector_cores
        self.by_column = inner > 1
        total = outer if not self.by_column else inner
        # Neighbouring results share a block; a core's share ends at a block so that no two cores store into one.
        self.per_core = ceil(ceil(total / cores) / block) * block
        self.block_dim = ceil(total / self.per_core)
        self.limit = profile.buffers.ub_bytes // _TILE_SHARE // FLOAT.itemsize // 64 * 64

    @classmethod
    def from_task(
        cls,
        profile: Profile,
        inputs: tuple[GlobalTensor | None, ...],
        outputs: tuple[GlobalTensor, ...],
        attributes: Mapping[str, object],
    ) -> Kernel:
        """The axes follow from the shapes: those that the output lacks or has only one of."""
        x, out = inputs[0], outputs[0]
        if x is None:
            raise KernelError(cls.op_type, "the record has no input")
        first, last = reduced_axes(x.shape, out.shape)
        return cls(profile, x, out, first_axis=first, last_axis=last)

    def work(self, block_idx: int) -> Hashable:
        return self._share(block_idx)

    def process(self, core: Core) -> None:
        if self.by_column:
            self._columns(core)
        else:
            self._rows(core)

    def _share(self, block: int) -> int:
        total = self.inner if self.by_column else self.outer
        return min(self.per_core, total - block * self.per_core)

    def _rows(self, core: Core) -> None:
        """inner == 1: every outer row is a run of numbers."""
        padded = ceil(self.reduced / 16) * 16
        tile = min(self.reduced, self.limit)
        rows = max(1, min(self._share(core.get_block_idx()), self.limit // padded))
        self._buffers(core, rows * (padded if rows > 1 else tile), rows)
        start = core.get_block_idx() * self.per_core
        x = self.x.view(self.outer, self.reduced)
        for first, count in core.tiles(start, self._share(core.get_block_idx()), rows):
            sums = self.out_sums.get(FLOAT, count)
            if rows > 1 or tile == self.reduced:
                part = self._load(
                    core, x, ((first, self.reduced),), (count, self.reduced), (self.reduced, 1)
                )
                core.reduce_sum(sums, part)
                self._release(part)
            else:
                core.duplicate(sums, 0.0)
                for begin, length in core.tiles(0, self.reduced, tile, sequential=True):
                    places = ((first, self.reduced), (begin, 1))
                    part = self._load(core, x, places, (count, length), (self.reduced, 1))
                    core.add(sums, sums, core.reduce_sum(self.part_sums.get(FLOAT, count), part))
                    self._release(part)
            self._store(core, sums, ((first, 1),), count)

    def _columns(self, core: Core) -> None:
        """inner > 1: rows of ``inner`` numbers are added to each other."""
        share = self._share(core.get_block_idx())
        width = min(share, self.limit // 2)
        rows = max(1, min(self.reduced, self.limit // (ceil(width / 16) * 16)))
        self._buffers(core, rows * ceil(width / 16) * 16, width)
        start = core.get_block_idx() * self.per_core
        x = self.x.view(self.outer * self.reduced, self.inner)
        for outer in core.loop(self.outer):
            for first, count in core.tiles(start, share, width):
                sums = core.duplicate(self.out_sums.get(FLOAT, count), 0.0)
                for begin, length in core.tiles(0, self.reduced, rows, sequential=True):
                    places = ((outer, self.reduced * self.inner), (begin, self.inner), (first, 1))
                    part = self._load(core, x, places, (length, count), (self.inner, 1))
                    core.add(sums, sums, core.fold_rows(self.part_sums.get(FLOAT, count), part))
                    self._release(part)
                self._store(core, sums, ((outer, self.inner), (first, 1)), count)

    def _buffers(self, core: Core, elements: int, results: int) -> None:
        narrow = elements * self.x.dtype.itemsize
        self.in_que, self.wide = TQue(TPosition.VECIN, self.buffer_num, "x"), TBuf("x32")
        core.pipe.init_buffer(self.in_que, self.buffer_num, narrow)
        if self.x.dtype is not FLOAT:
            core.pipe.init_buffer(self.wide, 1, elements * FLOAT.itemsize)
        self.out_sums, self.part_sums = TBuf("sums"), TBuf("part")
        self.out_que = TQue(TPosition.VECOUT, 1, "out")
        for buffer in (self.out_sums, self.part_sums, self.out_que):
            core.pipe.init_buffer(buffer, 1, results * FLOAT.itemsize)

    def _load(
        self,
        core: Core,
        x: GlobalTensor,
        places: Places,
        shape: tuple[int, ...],
        steps: tuple[int, ...],
    ) -> LocalTensor:
        part = self.in_que.copy_in(x.window(places, shape, steps))
        if part.dtype is FLOAT:
            return part
        wide = core.cast(self.wide.get(FLOAT, *shape), part, RoundMode.CAST_NONE)
        self.in_que.free_tensor(part)
        return wide

    def _release(self, part: LocalTensor) -> None:
        if self.x.dtype is FLOAT:
            self.in_que.free_tensor(part)

    def _store(self, core: Core, sums: LocalTensor, places: Places, count: int) -> None:
        out = self.out_que.alloc_tensor(self.out.dtype, count)
        if out.dtype is FLOAT:
            core.copy(out, sums)
        else:
            core.cast(out, sums, RoundMode.CAST_RINT)
        target = self.out.view(self.out.numel).window(places, (count,), (1,))
        self.out_que.copy_out(target, out)


def reduced_axes(shape: tuple[int, ...], result: tuple[int, ...]) -> tuple[int, int]:
    """First and last of the neighbouring axes that a reduction from ``shape`` to ``result`` removed.

    Axes of size one count as they come. Raises KernelError where no such axes explain the result.
    """
    kept = [size for size in result if size != 1]
    for first in range(len(shape) + 1):
        for last in range(first - 1, len(shape)):
            rest = [size for size in (*shape[:first], *shape[last + 1 :]) if size != 1]
            if rest == kept and prod(shape[first : last + 1]) > 1:
                return first, last
    if prod(shape) == prod(result):
        return 0, -1
    raise KernelError("reduction", f"{shape} can't be reduced to {result} over neighbouring axes")
