"""LayerNormGradV3 of Atlas A2 and A3: all gradients of aclnnLayerNormBackward in one task.

Cores share the rows. Of 768 columns and more they add every row's share of the gradients of gamma
and beta to two rows of workspace of their own, each when the one before it is there; fewer are
added up in UB. Behind a barrier all cores add these rows up, 64 columns at a time. A tile has as
many rows as the formula's buffers leave room for. Source: ops-nn norm/layer_norm_grad_v3 (tilings
single_read, common, workspace; kernels). The one for short ragged rows, which are turned, is as the
others here.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING

from npusim.ascendc import GlobalTensor, GmBuffer, TBuf, TPosition, TQue
from npusim.ascendc.events import Event
from npusim.ascendc.folds import SUM
from npusim.ascendc.task import Task, made
from npusim.engine.program import Pipe
from npusim.schedules.rows.formula import Form, RowFormula
from npusim.schedules.rows.kernel import RowKernel, RowOperator
from npusim.schedules.rows.layouts import Need, Piece, RowsLayout
from npusim.schedules.rows.play import Place, RowRun
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from npusim.ascendc import Core, Kernel, LocalTensor
    from npusim.engine.program import Barrier
    from npusim.hardware.profile import Profile
    from npusim.schedules.formula import Term
    from npusim.schedules.rows.program import Results

_T, _C, _L = Form.TILE, Form.COLUMN, Form.LINE
_SUMS = 2  # of gamma and of beta, behind the first result
_WIDE = 768  # columns that aren't added up in UB
_TOGETHER = 64  # columns that are added up behind the barrier at a time


def _gradients(f: RowFormula, grad: Term, x: Term, rstd: Term, mean: Term, gamma: Term) -> Results:
    """The gradient of x, and what is added up over rows for those of gamma and beta."""
    normalised = f.mul(f.sub(x, mean), rstd)
    scaled = f.mul(grad, gamma)
    falls = f.mul(normalised, f.mean(f.mul(scaled, normalised)))
    result = f.mul(f.sub(f.sub(scaled, falls), f.mean(scaled)), rstd)
    return result, f.mul(grad, normalised), f.mul(grad, 1.0)


class LayerNormGradV3(RowKernel):
    """dx = (g - xn * mean(g * xn) - mean(g)) * rstd, dgamma = sum(dy * xn), dbeta = sum(dy).

    xn = (x - mean) * rstd, g = dy * gamma. Shapes: dy, x and dx alike, rstd and mean (float32) one
    number for each row, gamma, dgamma and dbeta (float32) one row.
    """

    op_type = "LayerNormGradV3"
    hard_sync = True
    row = RowOperator(
        "LayerNormGradV3",
        _gradients,
        operands=(_T, _T, _C, _C, _L),
        results=(_T, _T, _T),
        wide=(1, 2),
        generated=False,
        depth=1,
    )

    def __init__(self, profile: Profile, *tensors: GlobalTensor) -> None:
        *given, dgamma, dbeta = tensors
        x = given[1]
        super().__init__(profile, *given, made(x.shape, FLOAT), made(x.shape, FLOAT))  # in UB alone
        self.sums = tuple(each.view(each.numel) for each in (dgamma, dbeta))
        self.writes = (given[-1], dgamma, dbeta)
        self.independent = False
        self.workers, self.block_dim = self.layout.block_dim, profile.cores.vector_cores
        shape = (self.workers, _SUMS, self.layout.columns)
        buffer = GmBuffer("sums", self.workers * _SUMS * self.layout.columns * FLOAT.itemsize)
        self.partial = GlobalTensor(buffer, FLOAT, shape)
        self.scratch = (self.partial,)

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        """dy, x, rstd, mean and gamma; results may be left out."""
        grad, x, rstd, mean, gamma = task.present(5)
        found = task.outputs if len(task.outputs) > _SUMS else (
            made(x.shape, x.dtype, "dx"), made(gamma.shape, FLOAT), made(gamma.shape, FLOAT)
        )  # fmt: skip
        return (cls(task.profile, grad, x, rstd, mean, gamma, *found),)

    @property
    def by_rows(self) -> bool:
        """Whether rows are added to workspace one by one."""
        return self.layout.columns >= _WIDE or not self.layout.whole

    def need(self) -> Need:
        """Two rows of sums, and one for a part of them, besides what the formula needs."""
        found = super().need()
        return replace(found, place=found.place + (_SUMS + 1) * FLOAT.itemsize)

    def block_kind(self, block_idx: int) -> Hashable:
        rows = self.layout.block_kind(block_idx) if block_idx < self.workers else None
        return rows, tuple(size for _, size in self._shares(block_idx))

    def process(self, core: Core) -> Iterator[Barrier]:
        """Tiles of rows; behind a barrier, what all cores have summed up."""
        block = core.get_block_idx()
        if block < self.workers:
            run = _SumsOfRows(core, self)
            if isinstance(self.layout, RowsLayout) and not self.by_rows:
                stretch = self.layout.stretch(block)
                for first, rows in core.tiles(*stretch, self.layout.tile_rows, accumulates=True):
                    run.piece(Piece((first,), rows))
            else:
                run.pieces(self.layout.pieces(core))
            run.free_lines()
            run.finish()
        yield core.sync_all()
        core.pipe.reset()
        self._add_up(core)

    def _shares(self, block: int) -> Iterator[tuple[int, int]]:
        columns = self.layout.columns
        for turn in range(block, ceil(columns / _TOGETHER), self.block_dim):
            yield turn * _TOGETHER, min(_TOGETHER, columns - turn * _TOGETHER)

    def _add_up(self, core: Core) -> None:
        columns, flat = self.layout.columns, self.partial.view(self.partial.numel)
        queues = TQue(TPosition.VECIN, 2, "parts"), TQue(TPosition.VECOUT, 2, "sums")
        for queue, rows in zip(queues, (self.workers, 1), strict=True):
            core.pipe.init_buffer(queue, 2, rows * _TOGETHER * FLOAT.itemsize)
        for first, size in self._shares(core.get_block_idx()):
            for part, total in enumerate(self.sums):
                start, steps = ((part * columns + first, 1),), (_SUMS * columns, 1)
                tile = queues[0].copy_in(flat.window(start, (self.workers, size), steps))
                found = core.add_up_rows(queues[1].alloc_tensor(FLOAT, size), tile)
                queues[0].free_tensor(tile)
                queues[1].copy_out(total.span(first, size), found)


class _SumsOfRows(RowRun):
    """Adds rows of the second and third result up instead of storing them."""

    def __init__(self, core: Core, kernel: LayerNormGradV3) -> None:
        super().__init__(core, kernel.layout, kernel.program, kernel.depth)
        self.by_rows, self.columns = kernel.by_rows, kernel.layout.columns
        rows = kernel.partial.view(kernel.partial.numel)
        self.start, self.partial = core.get_block_idx() * _SUMS * self.columns, rows
        self.sums, self.part = TBuf("sums"), TBuf("part")
        room = min(self.columns, _WIDE) * FLOAT.itemsize
        core.pipe.init_buffer(self.sums, _SUMS, room)
        core.pipe.init_buffer(self.part, 1, room)
        width = min(self.columns, _WIDE)
        self.rows = [self.sums.get(FLOAT, width, part=index) for index in range(_SUMS)]
        for each in self.rows:
            core.duplicate(each, 0.0)
        if self.by_rows:
            self._clear()

    def finish(self) -> None:
        """Leave what was added up in UB in workspace."""
        if self.by_rows:
            return
        self._ordered(Pipe.VECTOR)
        for index, row in enumerate(self.rows):
            place = self.partial.span(self.start + index * self.columns, self.columns)
            self.core.copy_runs(place, row)

    def _clear(self) -> None:
        """Zeros into workspace, before anything is added to it."""
        self._ordered(Pipe.VECTOR)
        whole, zeros = _SUMS * self.columns, self.rows[0]
        for first in range(0, whole, zeros.numel):
            size = min(zeros.numel, whole - first)
            self.core.copy_runs(self.partial.span(self.start + first, size), zeros[:size])
        self._ordered(Pipe.MTE3)

    def _store(self, term: Term, value: LocalTensor, place: Place) -> None:
        index = self.program.by_term[term].index - 1
        if index < 0:
            super()._store(term, value, place)
            return
        core, queue, (_, begin, length) = self.core, self.queues[term], place
        if not self.by_rows:
            part = core.add_up_rows(self.part.get(FLOAT, self.columns), value)
            core.accumulate(SUM, self.rows[index], part)
            queue.free_tensor(value, by=Pipe.VECTOR)
            return
        queue.enque(value)
        tile = queue.deque(value)
        core.set_atomic_add()
        places = ((self.start + index * self.columns, 1), (begin, 1))
        for row in core.loop(tile.shape[0]):
            self._ordered(Pipe.MTE3)
            core.copy_runs(self.partial.window(places, (length,), (1,)), tile[row])
        core.set_atomic_none()
        queue.free_tensor(tile)

    def _ordered(self, pipe: Pipe) -> None:
        """Stores from here on wait for what the pipe was given before."""
        done = Event(self.core, pipe, Pipe.MTE3)
        done.set()
        done.wait()
