"""The gradients of RmsNorm: that of x row by row, that of gamma summed up over all rows.

Cores share the rows. Each adds up its rows of dy * x * rstd in UB and adds the sum to device memory
at its end; rows that don't fit into UB are added to device memory piece by piece. Another task has
cleared the gradient of gamma. Source: ops-nn norm/rms_norm_grad, device schedule.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from npusim.ascendc.events import Event
from npusim.ascendc.queues import TBuf
from npusim.ascendc.task import Task, made
from npusim.engine.program import Pipe
from npusim.schedules.rows.formula import Form, RowFormula
from npusim.schedules.rows.kernel import RowKernel, RowOperator
from npusim.schedules.rows.layouts import Need, Piece, RowsLayout
from npusim.schedules.rows.play import Place, RowRun
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from npusim.ascendc import Core, GlobalTensor, Kernel, LocalTensor
    from npusim.hardware.profile import Profile
    from npusim.schedules.formula import Term
    from npusim.schedules.rows.program import Results

_T, _C, _L = Form.TILE, Form.COLUMN, Form.LINE
_PRODUCTS = 1  # the result whose rows are added up


def _gradients(f: RowFormula, grad: Term, x: Term, rstd: Term, gamma: Term) -> Results:
    """The gradient of x, and what is added up over rows for that of gamma."""
    normalised = f.mul(x, rstd)
    scaled = f.mul(grad, gamma)
    mean = f.mean(f.mul(scaled, normalised))
    result = f.mul(f.sub(scaled, f.mul(normalised, mean)), rstd)
    return result, f.mul(grad, normalised)


class RmsNormGrad(RowKernel):
    """dx = (g - xn * mean(g * xn)) * rstd, dgamma += sum(dy * xn); xn = x * rstd, g = dy * gamma.

    Shapes: dy, x and dx alike, rstd one number for each row, gamma and dgamma (float32) one row.
    """

    op_type = "RmsNormGrad"
    row = RowOperator(
        "RmsNormGrad",
        _gradients,
        operands=(_T, _T, _C, _L),
        results=(_T, _T),
        wide=(_PRODUCTS,),
        generated=False,
        depth=1,
    )

    def __init__(
        self,
        profile: Profile,
        grad: GlobalTensor,
        x: GlobalTensor,
        rstd: GlobalTensor,
        gamma: GlobalTensor,
        dx: GlobalTensor,
        dgamma: GlobalTensor,
    ) -> None:
        products = made(x.shape, FLOAT)  # in UB alone
        super().__init__(profile, grad, x, rstd, gamma, dx, products)
        self.independent = False  # rows are added up in their order
        self.dgamma = dgamma.view(dgamma.numel)
        self.writes, self.adds_into = (dx, dgamma), (dgamma,)

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        """dy, x, rstd and gamma; results may be left out."""
        grad, x, rstd, gamma = task.present(4)
        dx, dgamma = task.outputs or (
            made(x.shape, x.dtype, "dx"),
            made(gamma.shape, FLOAT, "dgamma"),
        )
        return (cls(task.profile, grad, x, rstd, gamma, dx, dgamma),)

    def need(self) -> Need:
        """Two rows of sums besides what the formula needs."""
        found = super().need()
        return replace(found, place=found.place + 2 * FLOAT.itemsize)

    def process(self, core: Core) -> None:
        """Tiles of rows, one after the other, then the sums."""
        run = _SumsOfRows(core, self)
        if isinstance(self.layout, RowsLayout) and self.layout.whole:
            start, count = self.layout.stretch(core.get_block_idx())
            for first, rows in core.tiles(start, count, self.layout.tile_rows, sequential=True):
                run.piece(Piece((first,), rows))
            run.free_lines()
            run.finish()
            return
        for piece in self.layout.pieces(core):
            run.piece(piece)
        run.free_lines()


class _SumsOfRows(RowRun):
    """Adds rows of the second result up instead of storing them."""

    def __init__(self, core: Core, kernel: RmsNormGrad) -> None:
        super().__init__(core, kernel.layout, kernel.program, kernel.depth)
        self.dgamma, self.sharers = kernel.dgamma, kernel.block_dim
        self.columns = kernel.layout.columns
        if self.layout.whole:
            self.buffer = TBuf("sums")
            core.pipe.init_buffer(self.buffer, 2, self.columns * FLOAT.itemsize)
            core.duplicate(self._row(0), 0.0)

    def finish(self) -> None:
        """Add what this core has summed up to device memory."""
        core = self.core
        summed = Event(core, Pipe.VECTOR, Pipe.MTE3)
        summed.set()
        summed.wait()
        core.set_atomic_add(self.sharers)
        core.copy_runs(self.dgamma.span(0, self.columns), self._row(0))
        core.set_atomic_none()

    def _store(self, term: Term, value: LocalTensor, place: Place) -> None:
        if self.program.by_term[term].index != _PRODUCTS:
            super()._store(term, value, place)
            return
        core, queue = self.core, self.queues[term]
        if self.layout.whole:
            core.add_up_rows(self._row(1), value)
            core.add(self._row(0), self._row(0), self._row(1))
            queue.free_tensor(value, by=Pipe.VECTOR)
            return
        _, begin, length = place
        core.set_atomic_add(self.sharers)
        target = self.dgamma.window(((begin, 1),), (1, length), (length, 1))
        queue.copy_out(target, value)
        core.set_atomic_none()

    def _row(self, part: int) -> LocalTensor:
        return self.buffer.get(FLOAT, self.columns, part=part)
