"""GroupNorm: groups of channels dealt out to cores, each group read twice.

The first time its elements and their squares are added up, the second time every channel is scaled
and shifted. The scalar unit computes mean and deviation of a group, scale and shift of a channel.
Channels of one element are worked on together. Source: ops-nn norm/group_norm_silu, schedule.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, ClassVar

from npusim.ascendc import (
    Core,
    GlobalTensor,
    Kernel,
    LocalTensor,
    RoundMode,
    Scalar,
    TBuf,
    TPosition,
    TQue,
)
from npusim.ascendc.task import Task, made
from npusim.schedules.rows.shares import RowShare
from npusim.values.dtypes import FLOAT
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.ascendc.loops import Index
    from npusim.hardware.profile import Profile

_MOST = 8192  # elements of a tile
_UB_SHARE = 0.9


@dataclass(frozen=True, slots=True)
class _Statistics:
    """What is known of a group: two numbers of the scalar unit."""

    mean: Scalar
    rstd: Scalar


class GroupNorm(Kernel):
    """y = (x - mean) * rstd * gamma + beta; mean and rstd are those of each group of channels.

    Shapes: x and y (images, channels, ...), gamma and beta one number for each channel, mean and
    rstd one for each group of each image.
    """

    op_type = "GroupNorm"
    gates: ClassVar[bool] = False  # whether the result is multiplied by its sigmoid

    def __init__(
        self,
        profile: Profile,
        x: GlobalTensor,
        gamma: GlobalTensor,
        beta: GlobalTensor,
        y: GlobalTensor,
        mean: GlobalTensor,
        rstd: GlobalTensor,
        *,
        groups: int = 1,
        epsilon: float = 1e-5,
    ) -> None:
        images, channels = x.shape[0], x.shape[1]
        if groups < 1 or channels % groups:
            raise KernelError(self.op_type, f"{channels} channels aren't {groups} equal groups")
        if gamma.numel != channels or beta.numel != channels or y.shape != x.shape:
            raise KernelError(self.op_type, f"{gamma.shape} and {beta.shape} for {x.shape}")
        self.reads, self.writes = (x, gamma, beta), (y, mean, rstd)
        self.groups, self.channels = groups, channels // groups
        self.area = prod(x.shape[2:])
        self.length, self.epsilon = self.channels * self.area, epsilon
        self.x, self.y = x.view(x.numel), y.view(y.numel)
        self.gamma, self.beta = gamma.view(channels), beta.view(channels)
        self.statistics = tuple(each.view(each.numel) for each in (mean, rstd))
        self.kind, self.line = x.dtype, gamma.dtype
        self.division = self.share = RowShare.of(images * groups, profile.cores.vector_cores, 1)
        self.block_dim = self.share.cores
        wide = 0 if self.kind is FLOAT else FLOAT.itemsize
        each = 2 * self.buffer_num * self.kind.itemsize + wide + (2 + self.gates) * FLOAT.itemsize
        line = self.line.itemsize + (0 if self.line is FLOAT else FLOAT.itemsize)
        room = profile.buffers.ub_bytes * _UB_SHARE - 2 * self.channels * line
        block = profile.buffers.block_bytes
        self.tile = min(_MOST, int(room / each) // block * block)
        if self.tile < block:
            raise KernelError(
                self.op_type, f"{self.channels} channels of a group don't fit into UB"
            )

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        """x, gamma and beta; results may be left out."""
        x, gamma, beta = task.present(3)
        if len(x.shape) < 2:
            raise task.refused(f"{x.shape} has no channels")
        groups = task.whole_number("num_groups", 1)
        shapes = (x.shape, (x.shape[0] * groups,), (x.shape[0] * groups,))
        fresh = (made(shape, x.dtype) for shape in shapes[len(task.outputs) :])
        y, mean, rstd = (*task.outputs[:3], *fresh)
        epsilon = task.number("epsilon", task.number("eps", 1e-5))
        return (cls(task.profile, x, gamma, beta, y, mean, rstd, groups=groups, epsilon=epsilon),)

    def process(self, core: Core) -> None:
        """Group by group."""
        self._reserve(core)
        first = core.get_block_idx() * self.share.per_core
        for group in core.loop(self.share.length(core.get_block_idx())):
            place = group + first
            (gamma, beta), loaded = self._lines(core, place)
            found = self._statistics(core, place)
            self._keep(core, found, place)
            if self.area == 1:
                self._single_elements(core, place, found, gamma, beta)
            else:
                self._channels(core, place, found, gamma, beta)
            for queue, tile in zip((self.gamma_que, self.beta_que), loaded, strict=True):
                queue.free_tensor(tile)

    def _reserve(self, core: Core) -> None:
        size, line = self.kind.itemsize, self.channels * self.line.itemsize
        self.in_que = TQue(TPosition.VECIN, self.buffer_num, "x")
        self.out_que = TQue(TPosition.VECOUT, self.buffer_num, "y")
        self.gamma_que, self.beta_que = (TQue(TPosition.VECIN, 1, name) for name in ("g", "b"))
        self.one_que = TQue(TPosition.VECOUT, 2, "statistics")
        for queue in (self.in_que, self.out_que):
            core.pipe.init_buffer(queue, self.buffer_num, self.tile * size)
        for queue in (self.gamma_que, self.beta_que):
            core.pipe.init_buffer(queue, 1, line)
        core.pipe.init_buffer(self.one_que, 2, core.block_bytes)
        self.wide, self.other, self.gate = TBuf("wide"), TBuf("other"), TBuf("gate")
        self.lines, self.sums = TBuf("lines"), TBuf("sums")
        if self.kind is not FLOAT:
            core.pipe.init_buffer(self.wide, 1, self.tile * FLOAT.itemsize)
        core.pipe.init_buffer(self.other, 1, self.tile * FLOAT.itemsize)
        if self.gates:
            core.pipe.init_buffer(self.gate, 1, self.tile * FLOAT.itemsize)
        if self.line is not FLOAT:
            core.pipe.init_buffer(self.lines, 2, self.channels * FLOAT.itemsize)
        core.pipe.init_buffer(self.sums, 4, core.block_bytes)

    def _lines(self, core: Core, place: Index) -> tuple[list[LocalTensor], list[LocalTensor]]:
        """Scales and shifts of the group's channels, in float32, and as they were loaded."""
        group = place % self.groups
        found, loaded = [], []
        for part, (queue, tensor) in enumerate(
            ((self.gamma_que, self.gamma), (self.beta_que, self.beta))
        ):
            source = tensor.window(((group, self.channels),), (self.channels,), (1,))
            line = queue.copy_in(source)
            loaded.append(line)
            if self.line is not FLOAT:
                target = self.lines.get(FLOAT, self.channels, part=part)
                line = core.cast(target, line, RoundMode.CAST_NONE)
            found.append(line)
        return found, loaded

    def _statistics(self, core: Core, place: Index) -> _Statistics:
        """Mean and reciprocal deviation, by the sums of the elements and of their squares."""
        totals = [self.sums.get(FLOAT, 1, part=part) for part in (0, 1)]
        parts = [self.sums.get(FLOAT, 1, part=part) for part in (2, 3)]
        for total in totals:
            core.duplicate(total, 0.0)
        for first, count in core.tiles(0, self.length, self.tile, sequential=True):
            x, loaded = self._load(core, place, first, count)
            squares = core.mul(self.other.get(FLOAT, count), x, x)
            for total, part, values in zip(totals, parts, (x, squares), strict=True):
                core.reduce_sum(part, values)
                core.add(total, total, part)
            self.in_que.free_tensor(loaded)
        share = 1.0 / self.length
        mean, square = (core.get_value(total) * share for total in totals)
        deviation = core.scalar_sqrt(square - mean * mean + self.epsilon)
        return _Statistics(mean, 1.0 / deviation)

    def _keep(self, core: Core, found: _Statistics, place: Index) -> None:
        for tensor, value in zip(self.statistics, (found.mean, found.rstd), strict=True):
            one = core.duplicate(self.one_que.alloc_tensor(tensor.dtype, 1), value)
            self.one_que.copy_out(tensor.window(((place, 1),), (1,), (1,)), one)

    def _channels(
        self, core: Core, place: Index, found: _Statistics, gamma: LocalTensor, beta: LocalTensor
    ) -> None:
        """Every channel with a scale and a shift of its own."""
        for channel in core.loop(self.channels):
            index = channel // 1
            scale = core.get_value(gamma, index) * found.rstd
            shift = core.get_value(beta, index) - scale * found.mean
            for first, count in core.tiles(0, self.area, self.tile):
                begin = channel * self.area
                x, loaded = self._load(core, place, first, count, begin)
                y = core.muls(self.other.get(FLOAT, count), x, scale)
                core.adds(y, y, shift)
                self.in_que.free_tensor(loaded)
                self._store(core, place, first, y, begin)

    def _single_elements(
        self, core: Core, place: Index, found: _Statistics, gamma: LocalTensor, beta: LocalTensor
    ) -> None:
        """Channels of one element: gamma and beta are tiles like x."""
        for first, count in core.tiles(0, self.channels, self.tile, sequential=True):
            x, loaded = self._load(core, place, first, count)
            y = core.adds(self.other.get(FLOAT, count), x, found.mean * -1.0)
            core.muls(y, y, found.rstd)
            self.in_que.free_tensor(loaded)
            if count != self.channels:
                raise KernelError(self.op_type, f"{self.channels} channels of one element")
            core.mul(y, y, gamma)
            core.add(y, y, beta)
            self._store(core, place, first, y)

    def _load(
        self, core: Core, place: Index, first: Index, count: int, begin: Index = 0
    ) -> tuple[LocalTensor, LocalTensor]:
        """A tile in float32, and as it was loaded."""
        places = ((place, self.length), (begin, 1), (first, 1))
        loaded = self.in_que.copy_in(self.x.window(places, (count,), (1,)))
        if self.kind is FLOAT:
            return loaded, loaded
        return core.cast(self.wide.get(FLOAT, count), loaded, RoundMode.CAST_NONE), loaded

    def _store(
        self, core: Core, place: Index, first: Index, y: LocalTensor, begin: Index = 0
    ) -> None:
        count = y.numel
        if self.gates:
            gate = self.gate.get(FLOAT, count)
            core.exp(gate, core.muls(gate, y, -1.0))
            core.div(y, y, core.adds(gate, gate, 1.0))
        out = self.out_que.alloc_tensor(self.kind, count)
        if self.kind is FLOAT:
            core.copy(out, y)
        else:
            core.cast(out, y, RoundMode.CAST_RINT)
        places = ((place, self.length), (begin, 1), (first, 1))
        self.out_que.copy_out(self.y.window(places, (count,), (1,)), out)


class GroupNormSilu(GroupNorm):
    """The same, multiplied by its own sigmoid."""

    op_type = "GroupNormSilu"
    gates = True

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        """Without the gate where the record says so."""
        if task.attributes.get("activate_silu") is False:
            return GroupNorm.called(task.op_type).from_task(task)
        return super().from_task(task)
