"""GroupNorm: groups of channels dealt out to cores, each group read twice, or once if it fits.

The first time its elements and their squares are added up tile by tile, the second time every
channel is scaled and shifted. The scalar unit computes mean and deviation of a group, scale and
shift of a channel. Channels of one element are worked on together.
Source: ops-nn norm/group_norm_silu, schedule.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from npusim.ascendc import (
    Core,
    GlobalTensor,
    Kernel,
    LocalTensor,
    Pipe,
    RoundMode,
    Scalar,
    TBuf,
    TPosition,
    TQue,
)
from npusim.ascendc.task import Task, made
from npusim.ops.group_norm.tiling import Tiling
from npusim.values.dtypes import FLOAT
from npusim.values.errors import RefusedTaskError

if TYPE_CHECKING:
    from npusim.ascendc.gm_slices import Place
    from npusim.ascendc.loops import Index
    from npusim.hardware.profile import Profile


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
        channels = x.shape[1]
        if groups < 1 or channels % groups:
            problem = f"{channels} channels aren't {groups} equal groups"
            raise RefusedTaskError(self.op_type, problem)
        if gamma.numel != channels or beta.numel != channels or y.shape != x.shape:
            raise RefusedTaskError(self.op_type, f"{gamma.shape} and {beta.shape} for {x.shape}")
        self.reads, self.writes = (x, gamma, beta), (y, mean, rstd)
        self.groups, self.epsilon = groups, epsilon
        self.x, self.y = x.view(x.numel), y.view(y.numel)
        self.lines = (gamma.view(channels), beta.view(channels))
        self.statistics = tuple(each.view(each.numel) for each in (mean, rstd))
        self.kind, self.line = x.dtype, gamma.dtype
        self.tiling = Tiling.of(profile, x.shape, groups, x.dtype, gamma.dtype)
        self.division = self.tiling.share
        self.block_dim = self.tiling.share.cores

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        """x, gamma and beta; results may be left out."""
        x, gamma, beta = task.present(3)
        if len(x.shape) < 2:
            raise task.unfit(f"{x.shape} has no channels")
        groups = task.whole_number("num_groups", 1)
        shapes = (x.shape, (x.shape[0] * groups,), (x.shape[0] * groups,))
        fresh = (made(shape, x.dtype) for shape in shapes[len(task.outputs) :])
        y, mean, rstd = (*task.outputs[:3], *fresh)
        epsilon = task.number("epsilon", task.number("eps", 1e-5))
        return (cls(task.profile, x, gamma, beta, y, mean, rstd, groups=groups, epsilon=epsilon),)

    def process(self, core: Core) -> None:
        """Group by group."""
        block, share = core.get_block_idx(), self.tiling.share
        self._reserve(core)
        first, count = block * share.per_core, share.length(block)
        if self.tiling.together:
            self._together(core, first, count)
            return
        for group in core.loop(count):
            place = group + first
            kept = self._new_statistics(1)
            found, _ = self._statistics(core, place)
            self._note(core, [each[0] for each in kept], found)
            self._keep(core, kept, place)
            if self.tiling.area == 1:
                self._single_elements(core, place, found)
            else:
                self._channels(core, place, found)

    def _together(self, core: Core, first: int, count: int) -> None:
        """All scales and shifts are loaded at the beginning, all statistics stored at the end."""
        loaded, lines = self._load_lines(core, ((0, 1),), self.lines[0].numel)
        core.wait_vector()
        kept = self._new_statistics(count)
        for group in core.loop(count):
            found, x = self._statistics(core, group + first)
            self._note(core, [each[group] for each in kept], found)
            if self.tiling.rows:
                self._rows(core, group + first, found, lines, x)
            else:
                self._channels(core, group + first, found, lines)
        self._free_lines(loaded)
        self._keep(core, kept, first)

    def _reserve(self, core: Core) -> None:
        tiling, alone = self.tiling, self.tiling.area == 1
        lines = self.lines[0].numel if tiling.together else tiling.tile if alone else 1
        kept = tiling.share.per_core if tiling.together else 1
        # Factors of a channel go to the scalar unit: from the load where nothing casts them.
        taker = Pipe.SCALAR if self.line is FLOAT and not alone else Pipe.VECTOR
        self.in_que = TQue(TPosition.VECIN, tiling.buffer_num, "x")
        self.out_que = TQue(TPosition.VECOUT, tiling.buffer_num, "y")
        self.line_ques = [TQue(TPosition.VECIN, 1, name, consumer=taker) for name in ("g", "b")]
        self.kept_ques = [TQue(TPosition.VECOUT, 1, name) for name in ("mean", "rstd")]
        self.kept, self.sums, self.wide_lines = TBuf("kept"), TBuf("sums"), TBuf("lines")
        for queue in (self.in_que, self.out_que):
            core.pipe.init_buffer(queue, tiling.buffer_num, tiling.tile * self.kind.itemsize)
        for queue in self.line_ques:
            core.pipe.init_buffer(queue, 1, lines * self.line.itemsize)
        for queue in self.kept_ques:
            core.pipe.init_buffer(queue, 1, kept * self.kind.itemsize)
        core.pipe.init_buffer(self.sums, 2, core.block_bytes)
        if self.kind is not FLOAT:
            core.pipe.init_buffer(self.kept, 2, kept * FLOAT.itemsize)
        if self.line is not FLOAT and not alone:
            core.pipe.init_buffer(self.wide_lines, 2, lines * FLOAT.itemsize)
        self._reserve_work(core, tiling.tile * FLOAT.itemsize)

    def _reserve_work(self, core: Core, nbytes: int) -> None:
        """What sums are collected in; those of squares of float32 are in a tile of y otherwise."""
        self.wide, self.total, self.squares = TBuf("wide"), TBuf("total"), TBuf("squares")
        self.first_que = TQue(TPosition.VECIN, 1, "total")
        if self.kind is not FLOAT:
            for buffer in (self.wide, self.total, self.squares):
                core.pipe.init_buffer(buffer, 1, nbytes)
        elif self.tiling.whole:
            core.pipe.init_buffer(self.squares, 1, nbytes)
        elif self.tiling.together:
            core.pipe.init_buffer(self.first_que, 1, nbytes)
        else:
            core.pipe.init_buffer(self.total, 1, nbytes)

    # -- scales and shifts --

    def _load_lines(
        self, core: Core, places: tuple[tuple[Place, int], ...], count: int
    ) -> tuple[list[LocalTensor], list[LocalTensor]]:
        """Scales and shifts of channels as they were loaded, and in float32."""
        buffers = (self.total, self.squares) if self.tiling.area == 1 else (self.wide_lines,) * 2
        loaded, lines = [], []
        for part, (queue, tensor) in enumerate(zip(self.line_ques, self.lines, strict=True)):
            line = queue.copy_in(tensor.window(places, (count,), (1,)))
            loaded.append(line)
            if self.line is not FLOAT:
                wide = buffers[part].get(FLOAT, count, part=part)
                line = core.cast(wide, line, RoundMode.CAST_NONE)
            lines.append(line)
        return loaded, lines

    def _free_lines(self, loaded: list[LocalTensor]) -> None:
        for queue, line in zip(self.line_ques, loaded, strict=True):
            queue.free_tensor(line)

    # -- statistics --

    def _statistics(self, core: Core, place: Index) -> tuple[_Statistics, LocalTensor | None]:
        """Mean and reciprocal deviation by two sums; and the group, if it fits into a tile."""
        tiling, kept = self.tiling, None
        count = min(tiling.length, tiling.tile)
        sums = [self.sums.get(FLOAT, 1, part=part) for part in (0, 1)]
        if tiling.whole:
            total = self._load(core, self.total, ((place, count),), count)
            squares = core.mul(self.squares.get(FLOAT, count), total, total)
        else:
            total, squares = self._collect(core, place)
        core.reduce_sum(sums[0], total.stretch(0, count))
        core.reduce_sum(sums[1], squares.stretch(0, count))
        if tiling.rows and tiling.whole:
            kept = total
        elif tiling.whole:
            self._let_go(total)
        elif self.kind is FLOAT:
            self.out_que.free_tensor(squares, by=Pipe.VECTOR)
            if tiling.together:
                self.first_que.free_tensor(total)
        share = 1.0 / tiling.length
        mean, square = (core.get_value(each) * share for each in sums)
        deviation = core.scalar_sqrt(square - mean * mean + self.epsilon)
        return _Statistics(mean, 1.0 / deviation), kept

    def _collect(self, core: Core, place: Index) -> tuple[LocalTensor, LocalTensor]:
        """The elements and their squares, those of all tiles added up lane by lane."""
        tile, length = self.tiling.tile, self.tiling.length
        start = tile if self.tiling.together else 0
        if start and self.kind is FLOAT:
            total = self.first_que.copy_in(self.x.window(((place, length),), (tile,), (1,)))
        elif start:
            total = self._load(core, self.total, ((place, length),), tile)
        else:
            total = core.duplicate(self.total.get(FLOAT, tile), 0.0)
        room = self.out_que.alloc_tensor if self.kind is FLOAT else self.squares.get
        squares = room(FLOAT, tile)
        if start:
            core.mul(squares, total, total)
        else:
            core.duplicate(squares, 0.0)
        for first, count in core.tiles(start, length - start, tile, sequential=True):
            x = self._load(core, self.wide, ((place, length), (first, 1)), count)
            core.add(total.stretch(0, count), total.stretch(0, count), x)
            core.mul(x, x, x)
            core.add(squares.stretch(0, count), squares.stretch(0, count), x)
            self._let_go(x)
        return total, squares

    def _new_statistics(self, count: int) -> list[LocalTensor]:
        """Room for as many means and deviations, in float32."""
        if self.kind is FLOAT:
            return [queue.alloc_tensor(FLOAT, count) for queue in self.kept_ques]
        return [self.kept.get(FLOAT, count, part=part) for part in (0, 1)]

    def _note(self, core: Core, kept: list[LocalTensor], found: _Statistics) -> None:
        for tile, value in zip(kept, (found.mean, found.rstd), strict=True):
            core.set_value(tile, 0, value)

    def _keep(self, core: Core, kept: list[LocalTensor], first: Index) -> None:
        """Store them, from that of group ``first`` on."""
        for tensor, queue, tile in zip(self.statistics, self.kept_ques, kept, strict=True):
            out = tile
            if self.kind is not FLOAT:
                out = core.cast(
                    queue.alloc_tensor(self.kind, tile.numel), tile, RoundMode.CAST_RINT
                )
            queue.copy_out(tensor.window(((first, 1),), (tile.numel,), (1,)), out)

    # -- results --

    def _rows(
        self,
        core: Core,
        place: Index,
        found: _Statistics,
        lines: list[LocalTensor],
        kept: LocalTensor | None,
    ) -> None:
        """Tiles of several channels, each with a scale and a shift of its own."""
        area, length = self.tiling.area, self.tiling.length
        for first, rows in core.tiles(0, self.tiling.channels, self.tiling.rows):
            places = ((place, length), (first, area))
            x = self._load(core, self.total, places, rows * area) if kept is None else kept
            out, y = self._result(x)
            for row in core.loop(rows):
                factors = self._factors(core, found, self._picked(core, lines, place, first, row))
                to, part = (each.view(rows, area)[row] for each in (y, x))
                self._scale(core, to, part, factors)
            self._finish(core, x, out, places)

    def _channels(
        self,
        core: Core,
        place: Index,
        found: _Statistics,
        lines: list[LocalTensor] | None = None,
    ) -> None:
        """Tiles of one channel each."""
        tiling = self.tiling
        for channel in core.loop(tiling.channels):
            if lines is None:
                places = ((place % self.groups, tiling.channels), (channel, 1))
                loaded, picked = self._load_lines(core, places, 1)
                factors = self._factors(core, found, picked)
                self._free_lines(loaded)
            else:
                factors = self._factors(core, found, self._picked(core, lines, place, channel))
            for first, count in core.tiles(0, tiling.area, tiling.tile):
                at = ((place, tiling.length), (channel, tiling.area), (first, 1))
                x = self._load(core, self.wide, at, count)
                out, y = self._result(x)
                self._scale(core, y, x, factors)
                self._finish(core, x, out, at)

    def _single_elements(self, core: Core, place: Index, found: _Statistics) -> None:
        """Channels of one element: gamma and beta are tiles like x."""
        length = self.tiling.length
        for first, count in core.tiles(0, length, self.tiling.tile):
            group = place % self.groups
            loaded, (gamma, beta) = self._load_lines(core, ((group, length), (first, 1)), count)
            places = ((place, length), (first, 1))
            x = self._load(core, self.wide, places, count)
            out, y = self._result(x)
            core.adds(x, x, found.mean * -1.0)
            core.muls(x, x, found.rstd)
            core.mul(x, x, gamma)
            core.add(y, x, beta)
            self._free_lines(loaded)
            self._finish(core, x, out, places)

    def _picked(
        self, core: Core, lines: list[LocalTensor], place: Index, *channels: Index
    ) -> list[LocalTensor]:
        """Scale and shift of a channel of the group at ``place``."""
        index = core.counter(place % self.groups * self.tiling.channels)
        for each in channels:
            index = index + core.counter(each)
        return [core.at(line.view(line.numel, 1), index) for line in lines]

    def _factors(
        self, core: Core, found: _Statistics, picked: list[LocalTensor]
    ) -> tuple[Scalar, Scalar]:
        """What to multiply a channel by, and what to add."""
        gamma, beta = (core.get_value(each) for each in picked)
        scale = gamma * found.rstd
        return scale, beta - scale * found.mean

    def _scale(
        self, core: Core, y: LocalTensor, x: LocalTensor, factors: tuple[Scalar, Scalar]
    ) -> None:
        core.muls(x, x, factors[0])
        core.adds(y, x, factors[1])

    # -- tiles --

    def _load(
        self, core: Core, wide: TBuf, places: tuple[tuple[Place, int], ...], count: int
    ) -> LocalTensor:
        """A tile of x in float32."""
        loaded = self.in_que.copy_in(self.x.window(places, (count,), (1,)))
        if self.kind is FLOAT:
            return loaded
        tile = core.cast(wide.get(FLOAT, count), loaded, RoundMode.CAST_NONE)
        self.in_que.free_tensor(loaded)
        return tile

    def _let_go(self, x: LocalTensor) -> None:
        if self.kind is FLOAT:
            self.in_que.free_tensor(x)

    def _result(self, x: LocalTensor) -> tuple[LocalTensor, LocalTensor]:
        """A tile of y, and where the sum goes: into it, unless it has to be worked on further."""
        out = self.out_que.alloc_tensor(self.kind, x.numel)
        return out, x if self.gates or self.kind is not FLOAT else out

    def _finish(
        self,
        core: Core,
        x: LocalTensor,
        out: LocalTensor,
        places: tuple[tuple[Place, int], ...],
    ) -> None:
        """Gate and cast a tile, and store it."""
        if self.gates:
            gate = out if self.kind is FLOAT else self.squares.get(FLOAT, x.numel)
            core.exp(gate, core.muls(gate, x, -1.0))
            core.adds(gate, gate, 1.0)
            core.div(out if self.kind is FLOAT else x, x, gate)
        self._let_go(x)
        if self.kind is not FLOAT:
            core.cast(out, x, RoundMode.CAST_RINT)
        self.out_que.copy_out(self.y.window(places, (out.numel,), (1,)), out)


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
