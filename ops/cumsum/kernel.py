"""Cumsum: what lies at one place of the axis is loaded, added to the sum so far, and stored.

Whatever stands before the axis is shared by the cores, whatever stands behind it goes through UB
together. Source: public operator sources (impl/cum_computer.py).
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc import Core, GlobalTensor, Kernel, TBuf, TPosition, TQue
from npusim.schedules.rows.shares import RowShare

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc.loops import Index
    from npusim.ascendc.task import Task
    from npusim.hardware.profile import Profile

_TOGETHER = 2**20  # elements whose sums the host finds at a time
_TILES = 3  # of UB: what comes, the sum, what goes


class Cumsum(Kernel):
    """y[outer, i, inner] = the sum of x[outer, : i + 1, inner].

    ``exclusive`` sums leave out the place itself, ``reverse`` ones begin at the end.
    """

    op_type = "Cumsum"
    generated = True

    def __init__(
        self, profile: Profile, x: GlobalTensor, y: GlobalTensor, axis: int,
        *, exclusive: bool = False, reverse: bool = False,
    ) -> None:  # fmt: skip
        self.exclusive, self.reverse = exclusive, reverse
        self.reads, self.writes = (x,), (y,)
        self.length, self.inner = x.shape[axis], prod(x.shape[axis + 1 :])
        self.x, self.y, self.kind = x.view(x.numel), y.view(y.numel), x.dtype
        outer = prod(x.shape[:axis])
        self.division = self.share = RowShare.of(outer, profile.cores.vector_cores, 1)
        self.block_dim = self.share.cores
        room = profile.buffers.ub_bytes // _TILES - profile.buffers.block_bytes
        self.width = min(self.inner, room // x.dtype.itemsize)

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        """x to y along ``axis``, the first by default."""
        x, y = task.present(1, 1)
        axis, rank = task.whole_number("axis", 0), len(x.shape)
        if not -rank <= axis < rank or y.shape != x.shape or y.dtype is not x.dtype:
            raise task.refused(f"running sums along axis {axis} of {x.shape} as {y.shape}")
        told = {name: bool(task.first(name)) for name in ("exclusive", "reverse")}
        return (cls(task.profile, x, y, axis % rank, **told),)

    def process(self, core: Core) -> None:
        """A part of what stands behind the axis after the other."""
        nbytes = self.width * self.kind.itemsize
        come, go = TQue(TPosition.VECIN, 1, "part"), TQue(TPosition.VECOUT, 1, "sums")
        total = TBuf("sum so far")
        core.pipe.init_buffer(come, 1, nbytes)
        core.pipe.init_buffer(go, 1, nbytes)
        core.pipe.init_buffer(total, 1, nbytes)
        for row, _ in self.share.tiles(core):
            for begin, width in core.tiles(0, self.inner, self.width, sequential=True):
                self._along(core, (come, go, total), (row, begin), width)

    def _along(
        self, core: Core, buffers: tuple[TQue, TQue, TBuf], where: tuple[Index, Index], width: int
    ) -> None:
        come, go, total = buffers
        so_far = core.duplicate(total.get(self.kind, width), 0)
        row, begin = where
        start = (row, self.length * self.inner), (begin, 1)
        last, step = (self.length - 1, -self.inner) if self.reverse else (0, self.inner)

        def place_by_place() -> None:
            for place in core.loop(self.length, sequential=True):
                places = (*start, (last, self.inner), (place, step))
                part = come.copy_in(self.x.window(places, (width,), (1,)))
                sums = go.alloc_tensor(self.kind, width)
                if self.exclusive:
                    core.move(sums, so_far)
                    core.add(so_far, so_far, part)
                else:
                    core.add(sums, so_far, part)
                    core.move(so_far, sums)
                come.free_tensor(part)
                go.copy_out(self.y.window(places, (width,), (1,)), sums)

        def at_once() -> None:
            core.chain.run()
            together = max(1, _TOGETHER // (width * core.stack_size(0, core.depth)))
            sums: NDArray[Any] | int = 0
            for first in range(0, self.length, together):
                shape = (min(together, self.length - first), width)
                lowest = self.length - first - shape[0] if self.reverse else first
                places = (*start, (lowest, self.inner))
                x, y = (each.window(places, shape, (self.inner, 1)) for each in (self.x, self.y))
                turn = slice(None, None, -1 if self.reverse else 1)
                values, before = np.array(x.read(core.depth)[..., turn, :]), sums
                values[..., 0, :] += sums  # the first of all to zero, which turns -0.0 into 0.0
                np.add.accumulate(values, axis=-2, out=values)
                sums = values[..., -1, :]
                if self.exclusive:
                    values = np.roll(values, 1, axis=-2)
                    values[..., 0, :] = before
                y.write(values[..., turn, :], core.depth)

        # A chip without infinities cuts every sum off.
        if self.kind.is_float and (core.widened or not core.profile.features.inf_nan):
            place_by_place()
        else:
            core.separately(place_by_place, at_once)
