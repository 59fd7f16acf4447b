"""Rows taken from, put into or added to a tensor at places that several lists name together.

A list for each indexed axis, all of one shape. A core brings its part of every list to UB; the
scalar unit works out an address for each place (a remainder and a product for each axis), and every
row is a transfer of its own. What is taken leaves a tile at a time; what is put comes and goes row
by row through one buffer, so that each waits for the one before. No more of the tensor is touched.
Source: the operator that CANN 8.1 installs (impl/dynamic/index_put_v2.py), pipes of recorded
kernels (of Index MTE2 is busy for 71 %, of IndexPutV2 MTE2 and MTE3 one after the other for 85 %).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from npusim.ascendc import Core, GlobalTensor, Kernel, LocalTensor, Scalar, TPosition, TQue
from npusim.ascendc.ai_cpu import AiCpuKernel
from npusim.engine.program import Pipe
from npusim.schedules.bounds import fault_outside
from npusim.schedules.rows.shares import RowShare
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import BFLOAT16, BOOL, FLOAT, FLOAT16, INT8, INT32, INT64, UINT8
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc.gm_slices import GmSlice, Place
    from npusim.ascendc.loops import Index as Number
    from npusim.ascendc.loops import LoopIndex
    from npusim.ascendc.task import Task
    from npusim.hardware.profile import Profile

    Array = NDArray[Any]

_FEW, _SHORT = 100, 128  # places, elements behind the indexed axes: stored without adding
_TAKEN = (FLOAT, FLOAT16, BFLOAT16, INT64, INT32, BOOL, INT8, UINT8)
_ADDED = (FLOAT, INT32, FLOAT16, INT8, BOOL, BFLOAT16)  # by the memory of A2 and A3
_FIXED = 3  # operands in front of the lists: Index has two sizes, IndexPutV2 the values as well


class _ByLists(Kernel):
    """A tensor as (places of the indexed axes..., width), lists, and as many rows as places."""

    takes: ClassVar[bool]

    def __init__(
        self,
        profile: Profile,
        table: GlobalTensor,
        lists: Sequence[GlobalTensor],
        rows: GlobalTensor,
    ) -> None:
        kinds = {each.dtype for each in lists}
        if len({each.shape for each in lists}) != 1 or not kinds <= {INT32, INT64}:
            raise KernelError(self.op_type, "lists of one shape, INT32 or INT64, are modelled")
        if rows.dtype is not table.dtype:
            raise KernelError(self.op_type, f"{rows.dtype} and {table.dtype}")
        self.axes = table.shape[: len(lists)]
        self.width, self.count = prod(table.shape[len(lists) :]), lists[0].numel
        if rows.numel != self.count * self.width:
            raise KernelError(self.op_type, f"{rows.shape} for {self.count} rows of {self.width}")
        self.lists = tuple(each.view(self.count) for each in lists)
        self.table, self.rows = table.view(table.numel), rows.view(rows.numel)
        self.kind = table.dtype
        size, buffers = self.kind.itemsize, profile.buffers
        self.block = buffers.block_bytes // size
        names = sum(each.dtype.itemsize for each in self.lists)
        room = int(buffers.ub_bytes) - (len(lists) + 2) * buffers.block_bytes
        self.chunk = min(self.width, room // 2 // size // self.block * self.block)
        padded = round_up(self.chunk, self.block) * size
        self.packs = self.width < self.block
        if self.takes and self.chunk == self.width:
            tile = room // ((self.width * size if self.packs else padded) + names)
        else:
            tile = (room - padded) // names
        cores = profile.cores.vector_cores
        self.division = self.share = RowShare.of(self.count, cores, max(1, tile))
        self.block_dim = self.share.cores

    def process(self, core: Core) -> None:
        """Some places after the other."""
        for each, size in zip(self.lists, self.axes, strict=True):
            fault_outside(core, self.op_type, each, size, wraps=True)
        tile = self.share.tile
        queues = [TQue(TPosition.VECIN, 1, f"list{at}", consumer=Pipe.SCALAR)
                  for at in range(len(self.lists))]  # fmt: skip
        for queue, each in zip(queues, self.lists, strict=True):
            core.pipe.init_buffer(queue, 1, tile * each.dtype.itemsize)
        rows = TQue(TPosition.VECIN, 1, "rows", consumer=Pipe.MTE3)
        self.together = tile if self.takes and self.chunk == self.width else 1
        line = self.chunk if self.packs and self.together > 1 else round_up(self.chunk, self.block)
        held = round_up(self.together * line, self.block)
        core.pipe.init_buffer(rows, 1, held * self.kind.itemsize)
        self.one = TQue(TPosition.VECIN, 1, "row", consumer=Pipe.SCALAR)
        if self.packs and self.together > 1:
            core.pipe.init_buffer(self.one, 1, self.block * self.kind.itemsize)
        for first, count in self.share.tiles(core):
            named = [queue.copy_in(each.span(first, count))
                     for queue, each in zip(queues, self.lists, strict=True)]  # fmt: skip
            if self.together > 1:
                self._take(core, rows, named, first, count)
            else:
                self._one_by_one(core, rows, named, first, count)
            for queue, tile_of in zip(queues, named, strict=True):
                queue.free_tensor(tile_of)

    def _address(
        self, core: Core, named: Sequence[LocalTensor], row: Number
    ) -> list[tuple[Place, int]]:
        """Where a row is: negative places count from the end."""
        found: list[tuple[Place, int]] = []
        for at, (each, size) in enumerate(zip(named, self.axes, strict=True)):
            place = _wrapped(core, core.get_value(each, row // 1), size)
            core.scalar_alu("mul", 2)
            found.append((place, prod(self.axes[at + 1 :]) * self.width))
        return found

    def _take(
        self, core: Core, queue: TQue, named: Sequence[LocalTensor], first: Number, count: int
    ) -> None:
        """Rows to their places in UB, and all of them out."""
        size = count * self.width
        if self.packs:
            tile = queue.alloc_tensor(self.kind, size).view(count, self.width)
        else:
            tile = queue.alloc_tensor(self.kind, count, self.width)
        for row in core.loop(count):
            where = tuple(self._address(core, named, row))
            source = self.table.window(where, (self.width,), (1,))
            if self.packs:
                self._pack(core, tile, row, source)
            else:
                core.copy_runs(tile[row], source)
        queue.enque(tile)
        queue.deque(tile)
        if self.packs:
            core.copy_runs(self.rows.window(((first, self.width),), (size,), (1,)), tile)
        else:
            place = (first, self.width)
            target = self.rows.window((place,), (count, self.width), (self.width, 1))
            core.copy_runs(target.by_rows(), tile)
        queue.free_tensor(tile)

    def _pack(self, core: Core, tile: LocalTensor, row: LoopIndex, source: GmSlice) -> None:
        """A row shorter than a block: loaded alone, and put behind the last by the scalar unit."""
        piece = self.one.copy_in(source)
        core.move_elements(tile, piece, self.width)
        core.arrange(tile[row], piece)
        self.one.free_tensor(piece)

    def _one_by_one(
        self, core: Core, queue: TQue, named: Sequence[LocalTensor], first: Number, count: int
    ) -> None:
        """Each row through UB, in parts where it is long."""
        for row in core.loop(count):
            where = self._address(core, named, row)
            for column, width in core.tiles(0, self.width, self.chunk):
                inside = self.table.window((*where, (column, 1)), (width,), (1,))
                place = (first, self.width), (row, self.width), (column, 1)
                outside = self.rows.window(place, (width,), (1,))
                source, target = (inside, outside) if self.takes else (outside, inside)
                tile = queue.copy_in(source)
                core.copy_runs(target, tile)
                queue.free_tensor(tile)


class Index(_ByLists):
    """out[k, :] = x[lists[0][k], lists[1][k], ..., :]."""

    op_type = "Index"
    takes = True

    def __init__(
        self, profile: Profile, x: GlobalTensor, lists: Sequence[GlobalTensor], out: GlobalTensor
    ) -> None:
        super().__init__(profile, x, lists, out)
        self.reads, self.writes = (x, *lists), (out,)


class IndexPutV2(_ByLists):
    """x[lists[0][k], lists[1][k], ..., :] = values[k, :] in place, or += with ``accumulate``."""

    op_type = "IndexPutV2"
    takes = False

    def __init__(
        self, profile: Profile, x: GlobalTensor, lists: Sequence[GlobalTensor],
        values: GlobalTensor, *, accumulate: bool,
    ) -> None:  # fmt: skip
        super().__init__(profile, x, lists, values)
        self.reads, self.writes, self.accumulate = (values, *lists), (x,), accumulate

    def process(self, core: Core) -> None:
        """Additions are those of memory."""
        if self.accumulate:
            core.set_atomic_add(1.0)
        super().process(core)
        core.set_atomic_none()


def index(task: Task) -> tuple[Kernel, ...]:
    """x, two tensors of sizes, a list for each indexed axis; what isn't the cores' is the AI CPU's.

    Source: ops-nn index/index/op_api/aclnn_index.cpp (check_index_aicore).
    """
    x, lists = _operands(task, _FIXED)
    if not task.outputs:
        raise task.refused("how many places are named isn't known")
    out = task.outputs[0]
    if x.dtype in _TAKEN and _alike(lists):
        return (Index(task.profile, x, lists, out),)
    compute = partial(_taken, shape=out.shape)
    return (AiCpuKernel(task.op_type, (x, *lists), (out,), out.numel, compute),)


def index_put(task: Task) -> tuple[Kernel, ...]:
    """x, values, two tensors of sizes, a list for each indexed axis; ``accumulate`` adds.

    Without memory that adds every dtype the cores put few places only. Source: ops-nn
    index/index_put_v2/op_api/aclnn_index_put_impl.cpp (IsAiCPUSupport).
    """
    x, lists = _operands(task, _FIXED + 1)
    values = task.present(2)[1]
    adds = task.first("accumulate") is True
    if _is_on_cores(task.profile, x, lists, adds=adds):
        return (IndexPutV2(task.profile, x, lists, values, accumulate=adds),)
    compute = partial(_put, adds=adds)
    return (AiCpuKernel(task.op_type, (x, values, *lists), (x,), values.numel, compute),)


def _is_on_cores(
    profile: Profile, x: GlobalTensor, lists: Sequence[GlobalTensor], *, adds: bool
) -> bool:
    width, count = prod(x.shape[len(lists) :]), lists[0].numel
    if x.dtype not in _TAKEN or not _alike(lists):
        return False
    many = count > _FEW or width > _SHORT
    if not profile.software.compiled_for_shape and profile.has("data_move_pad"):
        return not many or x.dtype in _ADDED
    return not many or (x.dtype in (FLOAT, FLOAT16) and adds)


def _alike(lists: Sequence[GlobalTensor]) -> bool:
    return len({each.shape for each in lists}) == 1


def _operands(task: Task, fixed: int) -> tuple[GlobalTensor, tuple[GlobalTensor, ...]]:
    """The tensor and the lists, which are those of its first axes."""
    given = task.present(fixed + 1)
    sizes, lists = given[fixed - 2], tuple(each for each in task.inputs[fixed:] if each is not None)
    x = given[0]
    if sizes.numel > len(lists) or len(lists) > len(x.shape):
        raise task.refused("places along other than the first axes aren't modelled")
    return x, lists


def _taken(x: Array, *lists: Array, shape: tuple[int, ...]) -> tuple[Array]:
    return (x[lists].reshape(shape),)


def _put(x: Array, values: Array, *lists: Array, adds: bool) -> tuple[Array]:
    found = x.copy()
    shape = np.broadcast_shapes(*(each.shape for each in lists))
    given = values.reshape(*shape, *x.shape[len(lists) :])
    if adds:
        np.add.at(found, lists, given)
    else:
        found[lists] = given
    return (found,)


def _wrapped(core: Core, place: Scalar, size: int) -> Scalar:
    """A place from the front, by a sum and a remainder."""
    core.scalar_alu("add")
    core.scalar_alu("div")
    if place.value is None:
        return Scalar(core, None, place.depth)
    return Scalar(core, (place.value.astype(np.int64) + size) % size, place.depth)
