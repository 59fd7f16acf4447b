"""One reduction to be done, and the tiles it works on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

from npusim.ascendc import (
    Core,
    GlobalTensor,
    GmSlice,
    LocalTensor,
    RoundMode,
    TBuf,
    TPosition,
    TQue,
)
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import UINT8

if TYPE_CHECKING:
    from npusim.ascendc.gm_slices import Place
    from npusim.ascendc.loops import Index
    from npusim.hardware.profile import Profile
    from npusim.ops.reduction.axes import Axis, Nest
    from npusim.ops.reduction.kinds import Kind
    from npusim.values.dtypes import DType

Places = tuple[tuple["Place", int], ...]

UB_SHARE = 0.9  # of UB for tiles; the rest is for results
_LEAST_TILE = 64  # elements


@dataclass(frozen=True, slots=True)
class Job:
    """``x`` folded into ``out`` along the loops of ``nest``; ``kept`` takes the prepared elements.

    ``beside`` is taken off the elements first.
    """

    profile: Profile
    kind: Kind
    nest: Nest
    x: GlobalTensor
    out: GlobalTensor
    kept: GlobalTensor | None = None
    beside: GlobalTensor | None = None
    dtype: DType = field(init=False)
    """What is computed in."""

    def __post_init__(self) -> None:
        found = self.kind.compute_dtype(self.profile, self.x.dtype)
        object.__setattr__(self, "dtype", found)

    @property
    def for_one_shape(self) -> bool:
        """True where kernels are compiled for one shape."""
        return self.profile.software.compiled_for_shape

    @property
    def adds_in_memory(self) -> bool:
        """Whether parts of a result may be added up in global memory, in the result's own type."""
        return self.kind.is_linear and self.out.dtype is self.dtype

    def depth(self, *, by_rows: bool) -> int:
        """Slots of the input's queue: 2, or 1 where a tile is loaded when the last one is folded.

        Compilers for one shape have two schedules. That of sums which may be added in memory counts
        on two tiles where rows are folded, and none of its buffers is doubled where columns stay;
        the other doubles them only where columns stay. Source: public tensor compiler (reduce
        schedules, _calculate_double_buffer); sums of the first generation over 2560 to 10240 rows
        take the whole latency of a load for each row, largest elements that of each tile.
        """
        if not self.for_one_shape or by_rows == self.adds_in_memory:
            return 2
        return 1

    @property
    def cores(self) -> int:
        """Cores that a vector kernel may use."""
        return self.profile.cores.vector_cores

    @property
    def block(self) -> int:
        """Results that fill a block of 32 bytes."""
        return self.profile.buffers.block_bytes // self.out.dtype.itemsize

    def aligned(self, elements: int) -> bool:
        """Whether a run of the input is whole blocks."""
        return elements * self.x.dtype.itemsize % self.profile.buffers.block_bytes == 0

    def padded(self, elements: int) -> int:
        """Elements of a row in UB, where rows begin at block boundaries."""
        block = self.profile.buffers.block_bytes // min(self.x.dtype.itemsize, self.dtype.itemsize)
        return round_up(elements, block)

    def tile_limit(self, depth: int) -> int:
        """Elements of a tile that fit into UB with its slots and copies.

        Compilers for one shape count what is computed of a tile even where it takes no room, and
        all of it twice.
        """
        copies = depth if self.kept is not None or self.for_one_shape else 1
        width = depth * self.read_bytes
        if self.has_copy or self.for_one_shape:
            width += copies * self.copy_bytes
        room = int(self.profile.buffers.ub_bytes * UB_SHARE / width)
        return max(_LEAST_TILE, room // _LEAST_TILE * _LEAST_TILE)

    def most_results(self, elements: int, depth: int) -> int:
        """Results of so many elements each that fit into UB with these, slots and copies."""
        width, out = self.dtype.itemsize, self.out.dtype.itemsize
        copies = depth if self.kept is not None else int(self.has_copy)
        read = depth * self.read_bytes + copies * self.copy_bytes
        each = elements * read + 2 * width + depth * out
        buffers = self.profile.buffers
        slots = 3 * depth + 2 + (self.beside is not None) * (depth + 1)  # each of whole blocks
        return (buffers.ub_bytes - slots * buffers.block_bytes) // each

    def adders(self, block: int, blocks: int) -> int:
        """Blocks of a launch that add at the end of their work when ``block`` does.

        Blocks end in the order in which they start, so a core that has another block to do was
        the first to end, and met nobody.
        """
        if block + self.cores < blocks:
            return 1
        return min(self.cores, blocks - block // self.cores * self.cores)

    def tiles(self, core: Core, elements: int, depth: int) -> Tiles:
        """The input's tiles in UB."""
        return Tiles(core, self, elements, depth)

    @property
    def has_copy(self) -> bool:
        """Whether tiles are brought into another buffer before they are folded."""
        return self.x.dtype is not self.dtype or bool(self.kind.before)

    @property
    def read_bytes(self) -> int:
        """Bytes that are loaded for an element."""
        return self.x.dtype.itemsize * (1 if self.beside is None else 2)

    @property
    def copy_bytes(self) -> int:
        """Bytes of an element in the buffers that it is brought into before it is folded."""
        widened = self.beside is not None and self.x.dtype is not self.dtype
        return self.dtype.itemsize * (1 + widened + self.kind.masks)


class Tiles:
    """The input's tiles in UB: loaded, brought to the type computed in, prepared."""

    def __init__(self, core: Core, job: Job, elements: int, depth: int) -> None:
        self.core, self.job = core, job
        self.queue = TQue(TPosition.VECIN, depth, "x")
        core.pipe.init_buffer(self.queue, depth, elements * job.x.dtype.itemsize)
        self.beside = TQue(TPosition.VECIN, depth, "beside")
        if job.beside is not None:
            core.pipe.init_buffer(self.beside, depth, elements * job.x.dtype.itemsize)
        self.wide, self.wide_beside, self.mask = TBuf("prepared"), TBuf("widened"), TBuf("mask")
        if job.beside is not None and job.x.dtype is not job.dtype:
            core.pipe.init_buffer(self.wide_beside, 1, elements * job.dtype.itemsize)
        if job.kind.masks:
            # Rows of a mask begin at blocks too: as much as a row of one block needs.
            core.pipe.init_buffer(self.mask, 1, elements * job.dtype.itemsize)
        self.kept_que = TQue(TPosition.VECOUT, depth, "kept")
        if job.kept is not None:
            core.pipe.init_buffer(self.kept_que, depth, elements * job.dtype.itemsize)
        elif job.has_copy:
            core.pipe.init_buffer(self.wide, 1, elements * job.dtype.itemsize)

    def load(self, source: GmSlice, shape: tuple[int, ...], *, turned: int = 0) -> LocalTensor:
        """A tile in one transfer, as ``shape``; ``turned`` repeats of vnchwconv turn its lines."""
        loaded = [self.queue.copy_in(source, shape)]
        if self.job.beside is not None:
            loaded.append(self.beside.copy_in(source.of(self.job.beside), shape))
        for each in loaded if turned else ():
            self.core.turn_lines(each, each, turned)
        return self._prepared(*loaded)

    def load_at(self, first: Place, count: int) -> LocalTensor:
        """So many elements of the flattened input."""
        flat = self.job.x.view(self.job.x.numel)
        return self.load(flat.span(first, count), (count,))

    def release(self, tile: LocalTensor, source: GmSlice | None = None) -> None:
        """The tile has been folded; ``source`` is where it came from, if it is to be kept."""
        if self.job.kept is not None and source is not None:
            self.kept_que.copy_out(source, tile)
        if not self.job.has_copy:
            self.queue.free_tensor(tile)

    def _prepared(self, loaded: LocalTensor, beside: LocalTensor | None = None) -> LocalTensor:
        core, job = self.core, self.job
        if not job.has_copy:
            return loaded
        if job.kept is not None:
            target = self.kept_que.alloc_tensor(job.dtype, *loaded.shape)
        else:
            target = self.wide.get(job.dtype, *loaded.shape)
        source = loaded
        if loaded.dtype is not job.dtype:
            source = core.cast(target, loaded, RoundMode.CAST_NONE)
        if beside is not None:
            source = core.sub(target, source, self._widened(beside))
            self.beside.free_tensor(beside)
        if job.kind.before:
            mask = self.mask.get(UINT8, *loaded.shape) if job.kind.masks else None
            job.kind.prepare(core, target, source, mask)
        self.queue.free_tensor(loaded)
        return target

    def _widened(self, loaded: LocalTensor) -> LocalTensor:
        wanted = self.job.dtype
        if loaded.dtype is wanted:
            return loaded
        wide = self.wide_beside.get(wanted, *loaded.shape)
        return self.core.cast(wide, loaded, RoundMode.CAST_NONE)


class Results:
    """Folded numbers on their way out."""

    def __init__(self, core: Core, job: Job, elements: int, depth: int = 1) -> None:
        self.core, self.job = core, job
        self.sums, self.part = TBuf("sums"), TBuf("part")
        for buffer in (self.sums, self.part):
            core.pipe.init_buffer(buffer, 1, elements * job.dtype.itemsize)
        self.queue = TQue(TPosition.VECOUT, depth, "out")
        core.pipe.init_buffer(self.queue, depth, elements * job.out.dtype.itemsize)

    def store(
        self, values: LocalTensor, places: Places, *, count: int | None = None, sharers: int = 0
    ) -> None:
        """Finish folded numbers, round and store or add them (``sharers`` cores do)."""
        core, job = self.core, self.job
        flat = values.numel
        job.kind.finish(core, values, job.nest.count if count is None else count)
        out = self.queue.alloc_tensor(job.out.dtype, *values.shape)
        if out.dtype is values.dtype:
            core.move(out, values)
        else:
            core.cast(out, values, RoundMode.CAST_RINT)
        if sharers:
            core.set_atomic_add(core.costs.adding_at_once(sharers))
        target = job.out.view(job.out.numel).window(places, (flat,), (1,))
        self.queue.copy_out(target, out)
        core.set_atomic_none()


def kept_places(axes: tuple[Axis, ...], index: Index, *, out: bool) -> Places:
    """The outer kept loops' part of an address, for one index that counts through them all."""
    places: list[tuple[Place, int]] = []
    after = prod(axis.size for axis in axes)
    for axis in axes:
        after //= axis.size
        step = axis.out_step if out else axis.step
        places.append((index if len(axes) == 1 else index // after % axis.size, step))
    return tuple(places)


def folded_places(core: Core, axes: tuple[Axis, ...]) -> Iterator[Places]:
    """All iterations of the outer folded loops, one after the other."""
    if not axes:
        yield ()
        return
    for index in core.loop(axes[0].size, sequential=True):
        for rest in folded_places(core, axes[1:]):
            yield ((index, axes[0].step), *rest)
