"""The gradient of the largest element: gradients go where the masks say, and add up there.

A pass takes a few rows of gradients and, for each element of a window, the words of its mask:
gradients whose bit is set are added to the rows of the result that lie under that element. Rows
that no later window reaches are stored, those that the next pass reaches too are moved to the top.
Chips with load3d add columns up by col2img in float32, others by vadd in the images' own dtype.
Source: public operator sources (max_pool_grad_with_argmax.py, .._cut_one_h.py, .._cut_h.py,
.._resnet50.py).
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil, prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from npusim.ascendc import Core, GlobalTensor, Kernel, LocalTensor, TBuf, TPosition, TQue
from npusim.ascendc.loops import Index, values_of
from npusim.ops.pooling.max_argmax import OWN_ROWS, has_own_schedule
from npusim.ops.pooling.windows import Windows, square_windows
from npusim.schedules.tile_grid import Grid
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT, UINT16
from npusim.values.errors import KernelError, RefusedTaskError
from npusim.values.formats import C0

if TYPE_CHECKING:
    from npusim.ascendc.task import Task
    from npusim.hardware.profile import Profile

_DESCRIBED = 6  # axes of a mask together with some of its description
_ADDRESS_OPERATIONS = 18  # of the scalar unit for a row of masks: where it lies, where it goes


class _Pass(NamedTuple):
    """Rows of gradients; how many rows of the result are final behind them, from which on.

    In front of those are ``skipped`` rows of padding.
    """

    row: Index
    rows: int
    first: Index
    final: int
    skipped: int


def _stored(mask: GlobalTensor) -> GlobalTensor:
    """A mask without the axes of its description that profilers list among those of its storage.

    Masks are laid out as [batch, channels / 16, elements of a window, words / 16, 16]. Frameworks
    describe them as images of so many channels and elements, [batch, channels, elements], and
    kernel_details then has these three in front of the last three of the storage.
    """
    if len(mask.shape) != _DESCRIBED or mask.shape[2] != mask.shape[3] or mask.strides is not None:
        return mask
    batch, channels, *_, elements, fractals, lanes = mask.shape
    shape, buffer = (batch, ceil(channels / C0), elements, fractals, lanes), mask.buffer
    if not buffer.has_data:
        buffer = buffer.shown_as(None, nbytes=prod(shape) * mask.dtype.itemsize)
    return replace(mask, shape=shape, buffer=buffer)


class MaxPoolGradWithArgmax(Kernel):
    """dx = the gradients, each at the element of its window that was largest (NC1HWC0)."""

    op_type = "MaxPoolGradWithArgmax"
    generated = True

    def __init__(
        self,
        profile: Profile,
        x: GlobalTensor,
        grad: GlobalTensor,
        mask: GlobalTensor,
        dx: GlobalTensor,
        *,
        windows: tuple[Windows, Windows],
    ) -> None:
        if len(x.shape) != 5 or x.shape[-1] != C0 or grad.dtype is not dx.dtype:
            raise KernelError(self.op_type, f"takes NC1HWC0 images of {C0} lanes, not {x.shape}")
        if dx.shape != x.shape or grad.shape[:2] != x.shape[:2] or len(mask.shape) != len(x.shape):
            shapes = f"{x.shape}, {grad.shape} and {mask.shape} to {dx.shape}"
            raise RefusedTaskError(self.op_type, f"tensors that don't fit together: {shapes}")
        if mask.dtype.is_float:
            raise KernelError(self.op_type, f"masks of {mask.dtype}, which have no bits")
        self.reads, self.writes = (grad, mask), (dx,)
        self.grad, self.mask, self.dx = (each.view(each.numel) for each in (grad, mask, dx))
        self.height, self.width = windows
        self.elements = self.height.window * self.width.window
        planes = x.shape[0] * x.shape[1]
        self.words = mask.shape[-2] * mask.shape[-1]
        self.by_load3d = profile.paths.l1_to_ub is not None
        self.own = has_own_schedule(windows)
        self.sums = FLOAT if self.by_load3d or self.own else dx.dtype
        self.rows = self._rows(profile)
        cores = planes if self.own else profile.cores.vector_cores
        self.division = self.grid = Grid((planes,), (1,), cores)
        self.block_dim = self.grid.used_cores

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        x, grad, mask, dx = task.present(3, 1)
        mask = _stored(mask)
        elements = mask.shape[2]
        windows = square_windows(task, x.shape[2:4], grad.shape[2:4], elements)
        return (cls(task.profile, x, grad, mask, dx, windows=windows),)

    @property
    def padded_width(self) -> int:
        """Columns under the windows of a row, whose number is rounded up to whole fractals."""
        wide = self.width
        return (round_up(wide.out, C0) - 1) * wide.stride + max(wide.window, wide.stride)

    def high(self, rows: int) -> int:
        """Rows under so many rows of windows."""
        return (rows - 1) * self.height.stride + max(self.height.window, self.height.stride)

    def process(self, core: Core) -> None:
        """Plane by plane, pass by pass."""
        size, line = self.dx.dtype.itemsize, round_up(self.width.out, C0)
        buffers = 2 if self.own else 1
        self._grads, self._out = TQue(TPosition.VECIN, buffers), TQue(TPosition.VECOUT, buffers)
        self._masks = TQue(TPosition.VECIN, 2, "masks")
        selected, sums = TBuf("selected"), TBuf("sums")
        at_once = self.elements if self.own else 1
        high = self.high(self.rows)
        core.pipe.init_buffer(self._grads, buffers, self.rows * line * C0 * size)
        core.pipe.init_buffer(self._masks, 2, at_once * self.rows * line * UINT16.itemsize)
        most = self._most_final(self.rows) * self.width.size * C0 * size
        core.pipe.init_buffer(self._out, buffers, most)
        core.pipe.init_buffer(selected, 1, self.rows * line * C0 * self.sums.itemsize)
        core.pipe.init_buffer(sums, 1, high * self.padded_width * C0 * self.sums.itemsize)
        for piece in self.grid.pieces(core):
            total = sums.get(self.sums, high, self.padded_width, C0)
            core.duplicate(total, 0.0)
            self._plane(core, piece.starts[0], selected, total)

    def _plane(self, core: Core, plane: Index, selected: TBuf, total: LocalTensor) -> None:
        """Passes whose rows are all in the padding, the first to store, alike ones, the last."""
        high, rows = self.height, self.rows
        passes, step = ceil(high.out / rows), rows * high.stride
        silent = min(passes - 1, high.before // step)
        for index in range(silent):
            self._pass(core, plane, _Pass(index * rows, rows, 0, 0, step), selected, total)
        if silent < passes - 1:
            skipped = high.before - silent * step
            work = _Pass(silent * rows, rows, 0, step - skipped, skipped)
            self._pass(core, plane, work, selected, total)
            for turn in core.loop(passes - 2 - silent, sequential=True):
                later = turn + (silent + 1)
                work = _Pass(later * rows, rows, later * step + -high.before, step, 0)
                self._pass(core, plane, work, selected, total)
        last = (passes - 1) * rows
        start = last * high.stride - high.before
        first, skipped = max(0, start), max(0, -start)
        work = _Pass(last, high.out - last, first, high.size - first, skipped)
        self._pass(core, plane, work, selected, total)

    def _pass(
        self, core: Core, plane: Index, work: _Pass, selected: TBuf, total: LocalTensor
    ) -> None:
        wide, out = self.width, self.height.out * self.width.out * C0
        core.wait_vector()
        places = ((plane, out), (work.row, wide.out * C0))
        grads = self._grads.copy_in(self.grad.window(places, (work.rows * wide.out * C0,), (1,)))
        chosen = selected.get(self.sums, work.rows * wide.out * C0)
        masks = self._load_masks(core, plane, work, 0, self.elements) if self.own else None
        for element in core.loop(self.elements, sequential=True):
            if masks is None:
                mask = self._load_masks(core, plane, work, element, 1)
                self._add(core, work, grads, mask, chosen, total, element)
                self._masks.free_tensor(mask)
            else:
                self._add(core, work, grads, masks[element], chosen, total, element)
        self._grads.free_tensor(grads)
        if masks is not None:
            self._masks.free_tensor(masks)
        self._store(core, plane, work, total)

    def _load_masks(
        self, core: Core, plane: Index, work: _Pass, element: Index, count: int
    ) -> LocalTensor:
        words = work.rows * self.width.out
        if not self.own:
            core.scalar_loop(work.rows)
            core.scalar_alu("address", _ADDRESS_OPERATIONS * work.rows)
        places = ((plane, self.elements * self.words), (element, self.words),
            (work.row, self.width.out))  # fmt: skip
        return self._masks.copy_in(self.mask.window(places, (count, words), (self.words, 1)))

    def _add(
        self,
        core: Core,
        work: _Pass,
        grads: LocalTensor,
        mask: LocalTensor,
        chosen: LocalTensor,
        total: LocalTensor,
        element: Index,
    ) -> None:
        """The gradients whose bit is set, added where the element lies."""
        pixels = work.rows * round_up(self.width.out, C0)
        if self.own:
            pixels = work.rows * self.width.out
        lanes = core.costs.repeat_elements(self.grad.dtype.itemsize)
        for _ in core.loop(ceil(pixels * C0 / lanes)):
            core.set_register()
            core.record_vector("set_cmpmask", chosen, 1)
            core.set_register()
            core.record_vector("vsel", chosen, lanes)
        if self.sums is not self.grad.dtype:
            core.record_vector("vconv", chosen, pixels * C0)
        if self.own or not self.by_load3d:
            for _ in core.loop(work.rows):
                core.record_vector("vadd", total, ceil(pixels / work.rows) * C0)
        else:
            self._add_columns(core, total, pixels * C0)
        self._numbers(core, work, grads, mask, total, element)

    def _add_columns(self, core: Core, total: LocalTensor, elements: int) -> None:
        """Neighbours in a row by repeats; those that the stride keeps apart block by block."""
        block = core.block_bytes // total.dtype.itemsize
        if self.width.stride == 1:
            core.record_vector("col2img", total, elements)
        else:
            core.record_vector("col2img", total, block, rows=elements // block)

    def _numbers(
        self,
        core: Core,
        work: _Pass,
        grads: LocalTensor,
        mask: LocalTensor,
        total: LocalTensor,
        element: Index,
    ) -> None:
        if not core.numerics:
            return
        high, wide, depth = self.height, self.width, core.depth
        down, across = divmod(int(values_of(element)[0]), wide.window)
        sums, given = total.target(depth, whole=False), grads.values(depth)
        stack = sums.shape[:depth]
        given = given.reshape(*given.shape[:depth], work.rows, wide.out, C0)
        words = mask.values(depth)
        words = words.reshape(*words.shape[:depth], work.rows, wide.out, 1)
        set_ = words >> np.arange(C0, dtype=np.uint16) & 1
        added = np.broadcast_to(np.where(set_, given, 0), (*stack, work.rows, wide.out, C0))
        rows = slice(down, down + (work.rows - 1) * high.stride + 1, high.stride)
        columns = slice(across, across + (wide.out - 1) * wide.stride + 1, wide.stride)
        sums[..., rows, columns, :] += added.astype(sums.dtype)

    def _store(self, core: Core, plane: Index, work: _Pass, total: LocalTensor) -> None:
        """Final rows go out; those that later windows reach too are moved to the top."""
        high, wide = self.height, self.width
        width = wide.size * C0
        if work.final:
            out = self._out.alloc_tensor(self.dx.dtype, work.final * width)
            self._leave(core, work, total, out)
            places = ((plane, high.size * width), (work.first, width))
            self._out.copy_out(self.dx.window(places, (work.final * width,), (1,)), out)
        left = max(0, high.window - high.stride) * self.padded_width * C0
        core.record_vector("vadds", total, left)
        core.record_vector("vector_dup", total, self.high(self.rows) * self.padded_width * C0)
        if core.numerics:
            held = total.target(core.depth, whole=False)
            kept = held[..., work.skipped + work.final :, :, :].copy()
            held[..., : kept.shape[-3], :, :] = kept
            held[..., kept.shape[-3] :, :, :] = 0

    def _leave(self, core: Core, work: _Pass, total: LocalTensor, out: LocalTensor) -> None:
        """Final rows without the padding beside them, in the dtype of the result."""
        wide, taken = self.width, work.final * self.padded_width * C0
        core.record_vector("vconv" if self.sums is not self.dx.dtype else "vadds", out, taken)
        if not core.numerics:
            return
        depth, columns = core.depth, slice(wide.before, wide.before + wide.size)
        rows = total.values(depth)[..., work.skipped : work.skipped + work.final, columns, :]
        made = np.zeros((*rows.shape[:depth], work.final, wide.size, C0), out.dtype.numpy)
        made[..., : rows.shape[-3], : rows.shape[-2], :] = rows
        out.target(depth)[...] = made.reshape(*made.shape[:depth], -1)

    def _rows(self, profile: Profile) -> int:
        """Rows of gradients of a pass: one where windows overlap widely, else what fits."""
        high, wide = self.height, self.width
        if self.own:
            return OWN_ROWS
        apart = high.window <= 2 * high.stride and wide.window <= 2 * wide.stride
        rows = high.out if apart else 1
        while (need := self._bytes(rows)) > profile.buffers.ub_bytes:
            if rows == 1:
                least = f"{high.window} rows of {wide.size} columns take {need} bytes of UB"
                raise KernelError(self.op_type, f"{least}, the chip has {profile.buffers.ub_bytes}")
            rows = ceil(rows / 2)
        return rows

    def _most_final(self, rows: int) -> int:
        """The most rows of the result that a pass of so many rows stores."""
        high = self.height
        behind = (ceil(high.out / rows) - 1) * rows * high.stride - high.before
        return max(rows * high.stride if behind > 0 else 0, high.size - max(0, behind))

    def _bytes(self, rows: int) -> int:
        """Bytes of UB for passes of so many rows."""
        pixels, size = rows * round_up(self.width.out, C0), self.dx.dtype.itemsize
        image = self._most_final(rows) * self.width.size * C0 * size
        sums = self.high(rows) * self.padded_width * C0 * self.sums.itemsize
        words = 2 * pixels * UINT16.itemsize
        return image + sums + pixels * C0 * (size + self.sums.itemsize) + words
