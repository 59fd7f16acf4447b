"""The gradient of a negative log likelihood: of each row one element, in zeros.

Tiles of rows are cleared, and the scalar unit writes each row's element where its target says; rows
that UB hasn't room for, part by part. Source: public operator sources (impl/dynamic/
nll_loss_grad.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc import Core, GlobalTensor, Kernel, TPosition, TQue
from npusim.ascendc.task import Task, made
from npusim.engine.program import Pipe
from npusim.ops.loss.likelihood import IGNORED, REDUCTIONS
from npusim.schedules.rows.shares import RowShare
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import INT32, INT64
from npusim.values.errors import KernelError, RefusedTaskError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc import LocalTensor
    from npusim.ascendc.loops import Index
    from npusim.hardware.profile import Profile

_OPERATIONS = 6  # of the scalar unit for a row: two comparisons, an address, two products


class NLLLossGrad(Kernel):
    """dx[row, target[row]] = -weight[target] grad, over the total weight for a mean.

    Shapes: target (rows,), grad (rows,) without a reduction, else one number, weight (classes,),
    total one number, dx (rows, classes). Targets of ``ignore_index`` have no gradient.
    """

    def __init__(
        self,
        profile: Profile,
        grad: GlobalTensor,
        target: GlobalTensor,
        weight: GlobalTensor,
        total: GlobalTensor,
        dx: GlobalTensor,
        *,
        reduction: str = "mean",
        ignore_index: int = IGNORED,
    ) -> None:
        if target.dtype not in (INT32, INT64) or reduction not in REDUCTIONS:
            raise KernelError(self.op_type, f"targets of {target.dtype}, reduction {reduction!r}")
        self.classes = weight.numel
        self.lines = dx.numel // max(1, self.classes)
        each = reduction == "none"
        if target.numel != self.lines or grad.numel != (self.lines if each else 1):
            problem = f"targets {target.shape} and gradients {grad.shape} for {dx.shape}"
            raise RefusedTaskError(self.op_type, problem)
        self.reads, self.writes = (grad, target, weight, total), (dx,)
        self.each, self.mean, self.ignored = each, reduction == "mean", ignore_index
        self.grad, self.target = grad.view(grad.numel), target.view(target.numel)
        self.weight, self.total = weight.view(weight.numel), total.view(total.numel)
        self.dx, self.kind = dx.view(self.lines, self.classes), dx.dtype
        block, size = profile.buffers.block_bytes, dx.dtype.itemsize
        room = profile.buffers.ub_bytes - 8 * block
        self.width = min(self.classes, room // (4 * size) // block * block)
        row = round_up(self.width * size, block)
        rows = (room - row) // (row + target.dtype.itemsize + size)
        cores = profile.cores.vector_cores
        self.division = self.share = RowShare.of(self.lines, cores, max(1, rows))
        self.block_dim = self.share.cores

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        """x for its shape, the gradient, target, weight and total weight."""
        x, grad, target, weight, total = task.present(5)
        said = task.attributes.get("reduction", "mean")
        reduction = REDUCTIONS[said] if isinstance(said, int) and 0 <= said <= 2 else str(said)
        dx = task.outputs[0] if task.outputs else made(x.shape, x.dtype)
        ignored = task.whole_number("ignore_index", IGNORED)
        named: dict[str, Any] = {"reduction": reduction, "ignore_index": ignored}
        return (cls(task.profile, grad, target, weight, total, dx, **named),)

    def process(self, core: Core) -> None:
        """Some rows after the other, part by part of their classes."""
        size, lines = self.kind.itemsize, self.share.tile
        self.queues = {
            name: TQue(TPosition.VECIN, 1, name, consumer=Pipe.SCALAR)
            for name in ("target", "grad", "weight", "total")
        }
        for name, nbytes in (
            ("target", lines * self.target.dtype.itemsize),
            ("grad", lines * size),
            ("weight", self.width * size),
            ("total", core.block_bytes),
        ):
            core.pipe.init_buffer(self.queues[name], 1, nbytes)
        rows = TQue(TPosition.VECOUT, 1, "rows")
        row = round_up(self.width * size, core.block_bytes)
        core.pipe.init_buffer(rows, 1, lines * row)
        total = self.queues["total"].copy_in(self.total.span(0, 1))
        once = None if self.each else self.queues["grad"].copy_in(self.grad.span(0, 1))
        for first, count in self.share.tiles(core):
            targets = self.queues["target"].copy_in(self.target.span(first, count))
            grads = once or self.queues["grad"].copy_in(self.grad.span(first, count))
            for column in range(0, self.classes, self.width):
                self._part(core, rows, (first, column), (targets, grads, total))
            self.queues["target"].free_tensor(targets)
            if once is None:
                self.queues["grad"].free_tensor(grads)
        self.queues["total"].free_tensor(total)
        if once is not None:
            self.queues["grad"].free_tensor(once)

    def _part(
        self,
        core: Core,
        rows: TQue,
        where: tuple[Index, int],
        given: tuple[LocalTensor, LocalTensor, LocalTensor],
    ) -> None:
        """Zeros, and the elements of rows whose targets are among some classes."""
        (first, column), (targets, grads, total) = where, given
        count, width = targets.numel, min(self.width, self.classes - where[1])
        weights = self.queues["weight"].copy_in(self.weight.span(column, width))
        out = core.duplicate(rows.alloc_tensor(self.kind, count, width), 0.0)
        core.emit_scalar(
            "ld_st_ub", loads=2 * count, stores=count, operations=_OPERATIONS * count, turns=count
        )
        core.filled(out)

        def written(
            labels: NDArray[Any], dy: NDArray[Any], weight: NDArray[Any], whole: NDArray[Any]
        ) -> NDArray[Any]:
            place = labels.reshape(-1, count) - column
            here = (place >= 0) & (place < width) & (place + column != self.ignored)
            place = np.clip(place, 0, width - 1).astype(np.intp)
            slope = -np.take_along_axis(
                np.broadcast_to(weight.reshape(-1, width), (len(place), width)), place, 1
            ).astype(np.float32)
            slope *= dy.reshape(len(dy), -1).astype(np.float32)
            if self.mean:
                slope /= whole.reshape(-1, 1).astype(np.float32)
            made_ = np.zeros((len(place), count, width), out.dtype.numpy)
            found = np.where(here, slope, 0)[..., None].astype(made_.dtype)
            np.put_along_axis(made_, place[..., None], found, 2)
            return made_

        core.arrange(out, targets, grads, weights, total, how=written)
        self.queues["weight"].free_tensor(weights)
        rows.enque(out)
        target = self.dx.window(((first, self.classes), (column, 1)), (count, width),
            (self.classes, 1))  # fmt: skip
        core.copy_runs(target.by_rows() if count > 1 else target, rows.deque(out))
        rows.free_tensor(out)
