"""BNTrainingUpdate: normalise with the sums of the batch and keep running statistics.

Fused forms add another tensor and cut off below zero, with a mask of one bit per element for the
gradient. Source: operator sources (impl/bn_training_update.py, relu_v2.py): order of computation;
public tensor compiler (bn_update_schedule): what is split, and the lines of a tile.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, ClassVar

from npusim.ascendc import (
    CmpMode,
    Core,
    GlobalTensor,
    GmSlice,
    Kernel,
    LocalTensor,
    TPosition,
    TQue,
)
from npusim.ascendc.events import Event
from npusim.engine.program import Pipe
from npusim.ops.batch_norm_training.cut import (
    Cut,
    Planes,
    Share,
    cut_batch,
    cut_leading,
    cut_slices,
    lines_of_tile,
)
from npusim.ops.batch_norm_training.maps import ChannelMap, Where
from npusim.schedules.masks import BITS
from npusim.values.dtypes import FLOAT, UINT8

if TYPE_CHECKING:
    from npusim.ascendc.loops import Index
    from npusim.ascendc.task import Task
    from npusim.hardware.profile import Profile

_SMALL_PLANE = 512  # elements up to which a plane is one core's
_TILES = 12  # that UB is laid out for: three in half of it, each with a second buffer
_GRAIN = 128  # elements that a tile is counted in


class BNTrainingUpdate(ChannelMap):
    """y = x * factor + shift from sums per channel, and the statistics that follow from them.

    Tensors: x, sum, square_sum, scale, offset, [mean, variance]; y, [running mean, running
    variance], batch mean, batch variance. Each channel's statistics are stored by one block.
    """

    op_type: str = "BNTrainingUpdate"
    kept = ("mean", "variance", "factor", "shift", "ones", "running")
    running: ClassVar[bool] = True  # whether there are running statistics
    adds: ClassVar[bool] = False  # whether another tensor is added to y
    cuts: ClassVar[bool] = False  # whether y is cut off below zero, with a mask of bits
    waits: bool = False  # whether a tile is stored before the next one is loaded

    def __init__(
        self,
        profile: Profile,
        x: GlobalTensor,
        per_channel: tuple[GlobalTensor, ...],
        other: GlobalTensor | None,
        y: GlobalTensor,
        mask: GlobalTensor | None,
        statistics: tuple[GlobalTensor, ...],
        *,
        epsilon: float,
        factor: float,
    ) -> None:
        planes = Planes.of(self.op_type, x)
        self.mask = mask
        inputs = (x,) if other is None else (x, other)
        super().__init__(profile, inputs, y, self._cut(profile, planes, y))
        self.per_channel, self.results = per_channel, statistics
        self.epsilon, self.momentum = epsilon, factor
        self.reads = (*inputs, *per_channel)
        self.writes = (y, *statistics) if mask is None else (y, mask, *statistics)

    def _cut(self, profile: Profile, planes: Planes, y: GlobalTensor) -> Cut:
        """Slices, except where planes are large and running statistics stored under a condition.

        That takes slices that can't be dealt out evenly, and a batch for every core, blocks of
        batch and slices that can be dealt out evenly, or less than a plane for each core.
        """
        cores = profile.cores.vector_cores
        batch, slices = planes.batch, planes.slices
        launched = cores if profile.software.compiled_for_shape else 0
        count = batch * slices
        uneven = slices < cores or slices % cores > 0
        divides = count >= cores and count % cores == 0 and cores % batch == 0
        conditional = uneven and (batch >= cores or divides or count < cores)
        if self.running and not (conditional and planes.rows * planes.lanes > _SMALL_PLANE):
            return cut_slices(planes, min(slices, cores), launched if slices >= cores else 0)
        if batch >= cores:
            return cut_batch(planes, cores, launched)
        if slices >= cores:
            return cut_slices(planes, cores, launched)
        if count >= cores:
            return Cut(planes, 1, count // cores, planes.rows)
        exact = profile.software.compiled_for_shape
        return cut_leading(planes, y.dtype.itemsize, cores, slices=True, exact=exact)

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        """Outputs are told apart by their sizes and types: fused records have y behind."""
        count = 7 if cls.running else 5
        tensors = task.present(count + cls.adds)
        x = tensors[0]
        wholes = [tensor for tensor in task.outputs if tensor.numel == x.numel]
        masks = [t for t in task.outputs if t.dtype is UINT8 and t.numel * BITS == x.numel]
        rest = tuple(t for t in task.outputs if t not in wholes and t not in masks)
        if not wholes or (cls.cuts and not masks):
            raise task.refused("no output has the shape of x, or the mask is missing")
        kernel = cls(
            task.profile,
            x,
            tensors[1:count],
            tensors[count] if cls.adds else None,
            wholes[0],
            masks[0] if cls.cuts else None,
            rest,
            epsilon=task.number("epsilon", 1e-4),
            factor=task.number("factor", 0.1),
        )
        return (kernel,)

    def fitting_rows(self, profile: Profile, most: int) -> int:
        """What the schedule lays UB out for, fewer than would fit."""
        elements = profile.buffers.ub_bytes // (_TILES * self.y.dtype.itemsize)
        return min(most, elements // _GRAIN * _GRAIN // self.planes.lanes)

    def slices_of_tile(self, profile: Profile) -> int:
        """Whole planes, where cores share the batch: as lines of a plane."""
        planes, share = self.planes, self.cut.share(0)
        whole = share.slices == planes.slices and share.rows == planes.rows == self.tile_rows
        if not whole or not profile.software.compiled_for_shape:
            return 1
        fitting = self.fitting_rows(profile, self.most_rows) // planes.rows
        return lines_of_tile(planes.slices, min(fitting, planes.slices), exact=False)

    def rows_of_tile(self, share: Share, most: int) -> int:
        """Whole lines of the plane, or a part of a line."""
        width = self.planes.rows // self.planes.height
        if share.rows % width or width > most:
            return lines_of_tile(min(width, share.rows), most, exact=False)
        return lines_of_tile(share.rows // width, most // width, exact=False) * width

    @property
    def result_bytes(self) -> float:
        mask = self.buffer_num / BITS if self.cuts else 0.0
        return super().result_bytes + mask

    def block_kind(self, block_idx: int) -> Hashable:
        share = self.cut.share(block_idx)
        return share.amounts, self._stores(share)

    def reserve(self, core: Core, elements: int) -> None:
        super().reserve(core, elements)
        if self.cuts:
            self.mask_que = TQue(TPosition.VECOUT, self.buffer_num, "mask")
            core.pipe.init_buffer(self.mask_que, self.buffer_num, -(-elements // BITS))
            self.edge_que = TQue(TPosition.VECIN, 1, "edge")
            core.pipe.init_buffer(self.edge_que, 1, core.block_bytes)
            self.stored = Event(core, Pipe.MTE3, Pipe.MTE2, set_before=True)
            zeros = self.scratch_buffer(core, "zeros", core.block_bytes)
            self.zero = core.duplicate(zeros.get(self.y.dtype, self._zeros), 0.0)[:1]

    def result_buffers(self, core: Core) -> int:
        """Of a tile that completes blocks of others nothing overlaps the next one."""
        self.waits = self.cuts and self._shares_blocks(core.block_bytes)
        return 1 if self.waits else super().result_buffers(core)

    def load(self, batch: Index, piece: Index, first: Index, rows: int) -> list[LocalTensor]:
        """Tiles; none before this core's own last store, where that was part of others' blocks."""
        if self.waits:
            self.stored.wait()
        return super().load(batch, piece, first, rows)

    def prepare(self, core: Core, share: Share) -> None:
        self.store_que = TQue(TPosition.VECOUT, 1, "stored")
        core.pipe.init_buffer(self.store_que, 1, self.statistics.size * FLOAT.itemsize)
        rows, count = self.statistics, self.planes.batch * self.planes.rows
        total, squares, scale, offset = self.per_channel[:4]
        mean, variance = rows.load("mean", total), rows.load("variance", squares)
        factor, shift, work = rows.get("factor"), rows.get("shift"), rows.get("running")
        core.muls(mean, mean, 1.0 / count)
        core.muls(variance, variance, 1.0 / count)
        core.mul(work, mean, mean)
        core.sub(variance, variance, work)
        self._keep_running(core, share, count)
        rows.rstd("factor", variance, self.epsilon, "ones")
        core.mul(factor, factor, rows.load("ones", scale))
        core.mul(work, mean, factor)
        core.sub(shift, rows.load("shift", offset), work)
        batch = self.results[-2:]
        for result, value in zip(batch, (mean, variance), strict=False):
            self._store_row(core, share, result, value)

    def compute(self, core: Core, where: Where, tiles: list[LocalTensor]) -> LocalTensor:
        x = self.by_channel(core, "vmul", tiles[0], tiles[0], where, "factor")
        y = self.result(core, "vadd", x, where, "shift")
        if self.adds:
            core.add(y, y, tiles[1])
        if self.cuts:
            _cut_off(core, y)
            self._store_mask(core, y, where.place)
        return y

    def _store_mask(
        self, core: Core, y: LocalTensor, place: tuple[Index, Index, Index, int]
    ) -> None:
        assert self.mask is not None
        bits = self.mask_que.alloc_tensor(UINT8, y.numel // BITS)
        core.compare(bits, y, self.zero, CmpMode.GT, packed=True)
        if self.waits:
            self._complete_block(core, place)
        self.mask_que.copy_out(self._mask_piece(place), bits)
        if self.waits:
            self.stored.set()

    def _shares_blocks(self, block_bytes: int) -> bool:
        """True where a plane's mask ends inside a block that another core writes to as well."""
        plane_bytes = self.planes.rows * self.planes.lanes // BITS
        return self.cut.slice_share < self.planes.slices and plane_bytes % block_bytes > 0

    def _complete_block(self, core: Core, place: tuple[Index, Index, Index, int]) -> None:
        """Whole blocks are stored, so what others wrote to the last one is read back first."""
        batch, piece, first, _ = place
        edge = self.edge_que.copy_in(self._mask_piece((batch, piece, first, 1)))
        core.move(edge, edge)
        self.edge_que.free_tensor(edge)

    def _mask_piece(self, place: tuple[Index, Index, Index, int]) -> GmSlice:
        assert self.mask is not None
        batch, piece, first, rows = place
        row = self.planes.lanes // BITS
        plane = self.planes.rows * row
        places = ((batch, self.planes.slices * plane), (piece, plane), (first, row))
        return self.mask.view(self.mask.numel).window(places, (rows * row,), (1,))

    def _keep_running(self, core: Core, share: Share, count: int) -> None:
        """running = factor * batch + (1 - factor) * running, the variance freed of its bias."""
        if not self.running:
            return
        rows = self.statistics
        unbiased = count / max(1, count - 1)
        pairs = (("mean", 4, 1.0), ("variance", 5, unbiased))
        for index, (name, place, scale) in enumerate(pairs):
            kept = rows.load("running", self.per_channel[place])
            core.muls(kept, kept, 1.0 - self.momentum)
            core.muls(rows.get("ones"), rows.get(name), self.momentum * scale)
            core.add(kept, kept, rows.get("ones"))
            if len(self.results) > 2:
                self._store_row(core, share, self.results[index], kept)

    def _store_row(
        self, core: Core, share: Share, target: GlobalTensor, value: LocalTensor
    ) -> None:
        if not self._stores(share):
            return
        stored = core.copy(self.store_que.alloc_tensor(FLOAT, value.numel), value)
        first = share.first_slice * self.planes.lanes
        self.store_que.copy_out(target.view(target.numel).span(first, value.numel), stored)

    def _stores(self, share: Share) -> bool:
        """One of the blocks that work on the same channels stores their statistics."""
        return share.first_batch == 0 and share.first_row == 0

    @property
    def _zeros(self) -> int:
        return 32 // self.y.dtype.itemsize


class BNTrainingUpdateV2(BNTrainingUpdate):
    """The same without running statistics: y, batch mean, batch variance."""

    op_type: str = "BNTrainingUpdateV2"
    running = False


class BNTrainingUpdateV3(BNTrainingUpdateV2):
    """The same as V2; what it reserves for the gradient are copies of the batch statistics."""

    op_type: str = "BNTrainingUpdateV3"


class BNTrainingUpdateRelu(BNTrainingUpdate):
    """BNTrainingUpdate and ReluV2 in one."""

    op_type: str = "FusionOp_BNTrainingUpdate_ReLUV2"
    cuts = True


class BNTrainingUpdateAddRelu(BNTrainingUpdateRelu):
    """BNTrainingUpdate, Add and ReluV2 in one."""

    op_type: str = "FusionOp_BNTrainingUpdate_Add_ReLUV2"
    names = ("x", "other")
    as_they_are = ("other",)
    adds = True


class BNInfer(ChannelMap):
    """y = (x - mean) * rstd * scale + offset with given statistics.

    Tensors: x, scale, offset, mean, variance; y.
    """

    op_type: str = "BNInfer"
    kept = ("factor", "shift", "ones")
    order: ClassVar[tuple[int, int, int, int]] = (1, 2, 3, 4)  # scale, offset, mean, variance

    def __init__(
        self,
        profile: Profile,
        x: GlobalTensor,
        per_channel: tuple[GlobalTensor | None, ...],
        y: GlobalTensor,
        *,
        epsilon: float,
    ) -> None:
        planes = Planes.of(self.op_type, x)
        cores = profile.cores.vector_cores
        exact = profile.software.compiled_for_shape
        cut = cut_leading(planes, y.dtype.itemsize, cores, slices=True, exact=exact)
        super().__init__(profile, (x,), y, cut)
        self.per_channel, self.epsilon = per_channel, epsilon
        self.reads = (x, *(tensor for tensor in per_channel if tensor is not None))
        self.writes = (y,)

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        (x,) = task.present(1)
        given = (*task.inputs, *(None,) * len(cls.order))
        rows = tuple(given[place] for place in cls.order)
        if rows[2] is None or rows[3] is None:
            raise task.refused("mean or variance is missing")
        return (cls(task.profile, x, rows, task.outputs[0], epsilon=task.number("epsilon", 1e-4)),)

    def prepare(self, core: Core, share: Share) -> None:
        del share
        scale, offset, mean, variance = self.per_channel
        assert mean is not None
        assert variance is not None
        rows = self.statistics
        factor = rows.rstd("factor", rows.load("factor", variance), self.epsilon, "ones")
        if scale is not None:
            core.mul(factor, factor, rows.load("ones", scale))
        centre = rows.load("shift", mean)
        core.mul(centre, centre, factor)
        if offset is None:
            core.muls(centre, centre, -1.0)
        else:
            core.sub(centre, rows.load("ones", offset), centre)

    def compute(self, core: Core, where: Where, tiles: list[LocalTensor]) -> LocalTensor:
        x = self.by_channel(core, "vmul", tiles[0], tiles[0], where, "factor")
        return self.result(core, "vadd", x, where, "shift")


class BNInferRelu(BNInfer):
    """BNInfer and Relu in one."""

    op_type: str = "FusionOp_BNInfer_Relu"

    def compute(self, core: Core, where: Where, tiles: list[LocalTensor]) -> LocalTensor:
        y = super().compute(core, where, tiles)
        _cut_off(core, y)
        return y


class BNInferenceD(BNInfer):
    """BNInfer with the tensors in the order x, mean, variance, scale, offset."""

    op_type: str = "BNInferenceD"
    order = (3, 4, 1, 2)


def _cut_off(core: Core, y: LocalTensor) -> None:
    """max(y, 0), by the chip's own instruction where it has one for the type."""
    if core.profile.supports_vector("vrelu", y.dtype.intrinsic):
        core.relu(y, y)
    else:
        core.maxs(y, y, 0.0)
