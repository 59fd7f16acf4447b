"""GroupNormGrad: one task per (batch, group), parameter gradients summed in global memory.

Everything is computed in float32. xh is formed as x * r + (-m * r), as on the device.
Source: ops-nn norm/group_norm_grad, device schedule (modes, order of passes, accumulation).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from npusim.ascendc import (
    Core,
    GlobalTensor,
    GmBuffer,
    GmSlice,
    Kernel,
    LocalTensor,
    LoopIndex,
    Scalar,
)
from npusim.ops.group_norm_backward.buffers import Buffers
from npusim.ops.group_norm_backward.sums import ParameterSums
from npusim.ops.group_norm_backward.tiling import SYSTEM_WORKSPACE_BYTES, Mode, tile
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from npusim.engine.program import Barrier
    from npusim.hardware.profile import Profile


@dataclass(frozen=True, slots=True)
class _Task:
    """One (batch, group): its index, and the two scalars its group was normalised with."""

    index: LoopIndex
    rstd: Scalar
    shift: Scalar  # -mean * rstd


@dataclass(frozen=True, slots=True)
class _Tiles:
    """A whole group in UB: dy, x (later xh), and where dx will be."""

    dy: LocalTensor
    x: LocalTensor
    work: LocalTensor


_KAHAN_STEPS = 8  # scalar operations of two compensated additions


class GroupNormGrad(Kernel):
    """The gradients of a group normalisation of N x C x S elements in ``group`` groups.

    A gradient that isn't wanted is None and costs nothing.
    """

    op_type = "GroupNormGrad"
    hard_sync = True
    independent = True

    def __init__(
        self,
        profile: Profile,
        grad_out: GlobalTensor,
        x: GlobalTensor,
        mean: GlobalTensor,
        rstd: GlobalTensor,
        gamma: GlobalTensor,
        *,
        batch: int,
        channels: int,
        size: int,
        group: int,
        grad_input: GlobalTensor | None,
        grad_gamma: GlobalTensor | None,
        grad_beta: GlobalTensor | None,
    ) -> None:
        self.tiling = tiling = tile(profile, batch, channels, size, group, grad_out.dtype)
        self.block_dim = tiling.block_dim
        shape = (tiling.tasks, tiling.group_channels, size)
        self.grad_out, self.x = grad_out.view(*shape), x.view(*shape)
        self.mean, self.rstd = mean.view(tiling.tasks), rstd.view(tiling.tasks)
        self.gamma = gamma.view(group, tiling.group_channels)
        self.grad_input = grad_input.view(*shape) if grad_input is not None else None
        workspace = GmBuffer("sums", tiling.user_workspace_bytes)
        self.sums = ParameterSums(tiling, grad_gamma, grad_beta, workspace)
        self.reads = (grad_out, x, mean, rstd, gamma)
        self.writes = tuple(
            tensor for tensor in (grad_input, grad_gamma, grad_beta) if tensor is not None
        )
        self.scratch = self.sums.workspace
        if self.sums.stage2 is not None:
            self.block_dim = max(self.block_dim, self.sums.stage2.cores)

    @property
    def workspace_bytes(self) -> int:
        return SYSTEM_WORKSPACE_BYTES + self.tiling.user_workspace_bytes

    def block_kind(self, block_idx: int) -> Hashable:
        return (self._task_count(block_idx), self.sums.block_kind(block_idx))

    def process(self, core: Core) -> Iterator[Barrier]:
        if self.sums.needs_zero:
            self.sums.clear(core)
            yield core.sync_all()
        buffers = Buffers(core, self.tiling, self.buffer_num)
        # Where a group is more than a tile, one task fills the core's buffers many times over; a
        # third tensor of its size passes through the caches alone.
        group_bytes = 2 * self.tiling.group_channels * self.tiling.size * FLOAT.itemsize
        for index in core.share(self.tiling.first_task, inner_bytes=group_bytes):
            rstd = core.load_scalar(self.rstd.span(index, 1))
            mean = core.load_scalar(self.mean.span(index, 1))
            self._task(core, buffers, _Task(index, rstd, -(mean * rstd)))
        core.pipe.reset()
        if self.sums.stage2 is not None:
            yield core.sync_all()
            self.sums.finish(core)

    def _task_count(self, block: int) -> int:
        return self.tiling.task_count(block) if block < self.tiling.block_dim else 0

    def _task(self, core: Core, buffers: Buffers, task: _Task) -> None:
        tiling = self.tiling
        gamma = buffers.gamma(self.gamma[task.index % tiling.group])
        sums = buffers.sums(tiling.group_channels)
        tiles = self._load_group(buffers, task)
        if tiles is None:
            for channel in core.loop(tiling.group_channels):
                self._sum_channel(core, buffers, task, channel, sums[0, channel], sums[1, channel])
        elif tiling.mode is Mode.ELEMENTS:
            self._normalise(core, task, tiles.x)
            core.copy(sums[0], tiles.dy)
            core.mul(sums[1], tiles.dy, tiles.x)
        else:
            for channel in core.loop(tiling.group_channels):
                row = (tiles.dy[channel], tiles.x[channel], tiles.work[channel])
                self._reduce_row(core, task, *row, sums[0, channel], sums[1, channel])
        sums = self.sums.add(core, buffers, task.index, sums)
        if self.grad_input is None:
            buffers.drop_sums(sums)
            if tiles is not None:
                buffers.drop(tiles.dy, tiles.x)
                buffers.drop_work(tiles.work)
        else:
            terms = self._terms(core, buffers, task, gamma, sums)
            buffers.drop_sums(sums)
            self._second_pass(core, buffers, task, tiles, gamma, terms)
        buffers.drop_gamma(gamma)

    # -- first pass: sums of dy and dy * xh ------------------------------------------------------

    def _load_group(self, buffers: Buffers, task: _Task) -> _Tiles | None:
        """dy and x of a whole group where UB holds them for both passes, else None."""
        tiling = self.tiling
        shape = (
            (tiling.group_channels,)
            if tiling.mode is Mode.ELEMENTS
            else (tiling.group_channels, tiling.size)
        )
        if tiling.refetches:
            flat = (tiling.tasks, tiling.group_channels * tiling.size)
            buffers.fetch_group(
                self.grad_out.view(*flat)[task.index], self.x.view(*flat)[task.index]
            )
        if not tiling.keeps_group:
            return None
        work = buffers.work_tile(*shape)
        dy = buffers.dy(self.grad_out.view(tiling.tasks, *shape)[task.index])
        return _Tiles(dy, buffers.x(self.x.view(tiling.tasks, *shape)[task.index]), work)

    def _sum_channel(
        self,
        core: Core,
        buffers: Buffers,
        task: _Task,
        channel: LoopIndex,
        beta_sum: LocalTensor,
        gamma_sum: LocalTensor,
    ) -> None:
        """One channel, whole or in passes whose sums are added up one after the other."""
        tiling = self.tiling
        if tiling.mode is not Mode.PART_OF_CHANNEL:
            dy, x = (
                buffers.dy(self.grad_out[task.index, channel]),
                buffers.x(self.x[task.index, channel]),
            )
            work = buffers.work_tile(tiling.size)
            self._reduce_row(core, task, dy, x, work, beta_sum, gamma_sum)
            buffers.drop(dy, x)
            buffers.drop_work(work)
            return
        core.duplicate(beta_sum, 0.0)
        core.duplicate(gamma_sum, 0.0)
        for first, length in core.tiles(0, tiling.size, tiling.elements_per_pass, sequential=True):
            dy = buffers.dy(self._part(self.grad_out, task, channel, first, length))
            x = buffers.x(self._part(self.x, task, channel, first, length))
            work = buffers.work_tile(length)
            parts = (buffers.small(0), buffers.small(1))
            self._reduce_row(core, task, dy, x, work, *parts)
            core.add(beta_sum, beta_sum, parts[0])
            core.add(gamma_sum, gamma_sum, parts[1])
            core.scalar_alu("kahan", _KAHAN_STEPS)
            buffers.drop(dy, x)
            buffers.drop_work(work)

    def _reduce_row(
        self,
        core: Core,
        task: _Task,
        dy: LocalTensor,
        x: LocalTensor,
        work: LocalTensor,
        beta_sum: LocalTensor,
        gamma_sum: LocalTensor,
    ) -> None:
        """beta_sum = sum(dy), gamma_sum = sum(dy * xh); x becomes xh."""
        core.reduce_sum(beta_sum, dy)
        self._normalise(core, task, x)
        core.mul(work, dy, x)
        core.reduce_sum(gamma_sum, work)
        core.get_value(gamma_sum)

    def _normalise(self, core: Core, task: _Task, x: LocalTensor) -> None:
        core.muls(x, x, task.rstd)
        core.adds(x, x, task.shift)

    def _part(
        self, tensor: GlobalTensor, task: _Task, channel: LoopIndex, first: LoopIndex, length: int
    ) -> GmSlice:
        tiling = self.tiling
        places = (
            (task.index, tiling.group_channels * tiling.size),
            (channel, tiling.size),
            (first, 1),
        )
        return tensor.window(places, (length,), (1,))

    # -- second pass: gradInput = dy * gamma * r - c1 * r - xh * c2 * r --------------------------

    def _terms(
        self, core: Core, buffers: Buffers, task: _Task, gamma: LocalTensor, sums: LocalTensor
    ) -> tuple[Scalar, Scalar]:
        """-c1 * r and -c2 * r, the means over the group of gamma * dy and gamma * dy * xh."""
        scale = -1.0 / (self.tiling.group_channels * self.tiling.size)
        terms = []
        for row in (0, 1):
            core.mul(sums[row], sums[row], gamma)
            total = core.reduce_sum(buffers.small(row), sums[row])
            terms.append(core.get_value(total) * scale * task.rstd)
        return terms[0], terms[1]

    def _second_pass(
        self,
        core: Core,
        buffers: Buffers,
        task: _Task,
        tiles: _Tiles | None,
        gamma: LocalTensor,
        terms: tuple[Scalar, Scalar],
    ) -> None:
        assert self.grad_input is not None
        tiling = self.tiling
        if tiles is None:
            for channel in core.loop(tiling.group_channels):
                slope = core.get_value(gamma[channel]) * task.rstd
                self._grad_channel(core, buffers, task, channel, slope, terms)
            return
        if tiling.mode is Mode.ELEMENTS:
            core.mul(tiles.dy, tiles.dy, gamma)
            self._combine(core, tiles.dy, tiles.x, tiles.work, task.rstd, terms)
            flat = self.grad_input.view(tiling.tasks, tiling.group_channels)
            buffers.store_part(flat[task.index], tiles.work)
        else:
            for channel in core.loop(tiling.group_channels):
                slope = core.get_value(gamma[channel]) * task.rstd
                work = tiles.work[channel]
                self._combine(core, tiles.dy[channel], tiles.x[channel], work, slope, terms)
                buffers.store_part(self.grad_input[task.index, channel], work)
        buffers.drop(tiles.dy, tiles.x)
        buffers.drop_stored(tiles.work)

    def _grad_channel(
        self,
        core: Core,
        buffers: Buffers,
        task: _Task,
        channel: LoopIndex,
        slope: Scalar,
        terms: tuple[Scalar, Scalar],
    ) -> None:
        assert self.grad_input is not None
        tiling = self.tiling
        step = tiling.elements_per_pass if tiling.mode is Mode.PART_OF_CHANNEL else tiling.size
        for first, length in core.tiles(0, tiling.size, step):
            dy = buffers.dy(self._part(self.grad_out, task, channel, first, length))
            x = buffers.x(self._part(self.x, task, channel, first, length))
            work = buffers.work_tile(length)
            self._normalise(core, task, x)
            self._combine(core, dy, x, work, slope, terms)
            buffers.drop(dy, x)
            buffers.store_part(self._part(self.grad_input, task, channel, first, length), work)
            buffers.drop_stored(work)

    def _combine(
        self,
        core: Core,
        dy: LocalTensor,
        xh: LocalTensor,
        out: LocalTensor,
        slope: Scalar,
        terms: tuple[Scalar, Scalar],
    ) -> None:
        """out = dy * slope + xh * terms[1] + terms[0]; xh is used up."""
        core.muls(out, dy, slope)
        core.muls(xh, xh, terms[1])
        core.add(out, out, xh)
        core.adds(out, out, terms[0])
