"""Negative log likelihoods: of each row the element that its target names, weighted, and summed up.

Rows come to UB whole, as many as fit, and the scalar unit picks from them; rows that don't fit, and
weights, element by element. Sums of the cores meet in workspace behind a barrier. A cross entropy
is a logarithm of softmax, weights of one and the likelihood, as the framework has it. Source:
public operator sources (impl/dynamic/nll_loss.py, op_tiling/nll_loss.cc).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc import Core, GlobalTensor, GmBuffer, Kernel, LocalTensor, TBuf, TPosition, TQue
from npusim.ascendc.folds import SUM
from npusim.ascendc.task import Task, made
from npusim.engine.program import Pipe
from npusim.operators.registry import builder, kernel_class
from npusim.schedules.rows.shares import RowShare
from npusim.values.dtypes import FLOAT, FLOAT16, INT32, INT64
from npusim.values.errors import KernelError, RefusedTaskError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc.loops import Index
    from npusim.engine.program import Barrier
    from npusim.hardware.profile import Profile

REDUCTIONS = ("none", "mean", "sum")  # as the aclnn interfaces count them
IGNORED = -100
_PER_LINE = 5  # numbers that each row needs besides itself: target, picked ones, what is computed


class NLLLoss(Kernel):
    """out = -weight[target] x[target] of every row, their sum or their weighted mean.

    Shapes: x (rows, classes), target (rows,), weight (classes,); out (rows,) without a reduction,
    else one number, as the total weight is. Targets of ``ignore_index`` count nothing.
    """

    hard_sync = True

    def __init__(
        self,
        profile: Profile,
        x: GlobalTensor,
        target: GlobalTensor,
        weight: GlobalTensor,
        out: GlobalTensor,
        total: GlobalTensor | None = None,
        *,
        reduction: str = "mean",
        ignore_index: int = IGNORED,
    ) -> None:
        if target.dtype not in (INT32, INT64):
            raise KernelError(self.op_type, f"targets of {target.dtype}")
        if reduction not in REDUCTIONS:
            raise RefusedTaskError(self.op_type, f"reduction {reduction!r}, not none, mean or sum")
        self.classes = x.shape[-1]
        self.lines = x.numel // self.classes
        if target.numel != self.lines or weight.numel != self.classes:
            problem = f"targets {target.shape} and weights {weight.shape} for {x.shape}"
            raise RefusedTaskError(self.op_type, problem)
        self.reduction, self.ignored = reduction, ignore_index
        self.reads, self.writes = (x, target, weight), (out,) if total is None else (out, total)
        self.x, self.target = x.view(self.lines, self.classes), target.view(self.lines)
        self.weight, self.out, self.total = weight.view(self.classes), out, total
        self.share = self._shared(profile)
        self.block_dim = profile.cores.vector_cores  # those without rows wait for the others, too
        self.lanes = profile.buffers.block_bytes // FLOAT.itemsize
        size = self.block_dim * self.lanes
        partials = GlobalTensor(GmBuffer("partial", 2 * size * FLOAT.itemsize), FLOAT, (2 * size,))
        self.scratch = () if reduction == "none" else (partials,)

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        """x, target and weight, by default ones; reductions by name or by number."""
        x, target = task.present(2)
        weight = task.inputs[2] if len(task.inputs) > 2 else None
        if weight is None:
            raise task.refused("needs weights")
        said = task.attributes.get("reduction", "mean")
        reduction = REDUCTIONS[said] if isinstance(said, int) and 0 <= said <= 2 else str(said)
        shape = target.shape if reduction == "none" else ()
        outputs = task.outputs or (made(shape, x.dtype), made((), x.dtype))
        ignored = task.whole_number("ignore_index", IGNORED)
        named = {"reduction": reduction, "ignore_index": ignored}
        return (cls(task.profile, x, target, weight, *outputs[:2], **named),)  # type: ignore[arg-type]

    def block_kind(self, block_idx: int) -> Hashable:
        return self.share.length(block_idx), bool(self.scratch) and block_idx == 0

    def process(self, core: Core) -> Iterator[Barrier]:
        """A core's rows; then, behind a barrier, what all cores found."""
        self._reserve(core)
        sums = [core.duplicate(self.sums.get(FLOAT, 1, part=part), 0.0) for part in range(2)]
        block = core.get_block_idx()
        start, length = block * self.share.per_core, self.share.length(block)
        for first, count in core.tiles(start, length, self.share.tile, accumulates=True):
            losses, weights = self._losses(core, first, count)
            if self.reduction == "none":
                self._store(core, first, losses)
                continue
            for total, values in zip(sums, (losses, weights), strict=True):
                part = core.reduce_sum(self.sums.get(FLOAT, 1, part=2), values)
                core.accumulate(SUM, total, part)
        if not self.scratch:
            return
        self._leave(core, sums)
        yield core.sync_all()
        core.pipe.reset()
        if block == 0:
            self._finish(core)

    # -- rows --------------------------------------------------------------------------------------

    def _shared(self, profile: Profile) -> RowShare:
        """Rows of each core, and how many of them fit into UB at a time."""
        size, cores = self.x.dtype.itemsize, profile.cores.vector_cores
        room = profile.buffers.ub_bytes - 24 * profile.buffers.block_bytes
        each = _PER_LINE * INT64.itemsize
        fitting = (room - self.classes * size) // (self.classes * size + each)
        self.whole = fitting > 0
        return RowShare.of(self.lines, cores, max(1, fitting if self.whole else room // each))

    def _reserve(self, core: Core) -> None:
        lines, size = self.share.tile, self.x.dtype.itemsize
        queues = {
            "x": lines * self.classes if self.whole else 1,
            "weight": self.classes if self.whole else 1,
        }
        self.queues = {
            name: TQue(TPosition.VECIN, 1, name, consumer=Pipe.SCALAR) for name in queues
        }
        for name, count in queues.items():
            core.pipe.init_buffer(self.queues[name], 1, count * size)
        self.queues["target"] = TQue(TPosition.VECIN, 1, "target", consumer=Pipe.SCALAR)
        core.pipe.init_buffer(self.queues["target"], 1, lines * self.target.dtype.itemsize)
        self.picked, self.wide, self.sums = TBuf("picked"), TBuf("wide"), TBuf("sums")
        core.pipe.init_buffer(self.picked, 2, lines * size)
        if self.x.dtype is not FLOAT:
            core.pipe.init_buffer(self.wide, 2, lines * FLOAT.itemsize)
        core.pipe.init_buffer(self.sums, 3, core.block_bytes)
        self.loss_que = TQue(TPosition.VECOUT, 1, "loss")
        if self.reduction == "none":
            core.pipe.init_buffer(self.loss_que, 1, lines * size)

    def _losses(self, core: Core, first: Index, count: int) -> tuple[LocalTensor, LocalTensor]:
        """Losses of some rows and their weights, in float32."""
        targets = self.queues["target"].copy_in(self.target.span(first, count))
        picked = [self.picked.get(self.x.dtype, count, part=part) for part in range(2)]
        pick = self._from_rows if self.whole else self._one_by_one
        pick(core, first, targets, picked)
        ignored = self.ignored
        core.scalar_alu("compare", count)
        core.filled(picked[1])
        core.arrange(picked[1], picked[1], targets, how=lambda w, t: np.where(t == ignored, 0, w))
        self.queues["target"].free_tensor(targets)
        x, weights = picked
        if self.x.dtype is not FLOAT:
            wide = (self.wide.get(FLOAT, count, part=part) for part in range(2))
            x, weights = (core.cast(to, each) for to, each in zip(wide, picked, strict=True))
        core.muls(x, x, -1.0)
        return core.mul(x, x, weights), weights

    def _from_rows(
        self, core: Core, first: Index, targets: LocalTensor, picked: list[LocalTensor]
    ) -> None:
        """Rows and weights in UB; of every row the scalar unit moves two numbers."""
        count = targets.numel
        window = self.x.window(((first, self.classes),), (count * self.classes,), (1,))
        rows = self.queues["x"].copy_in(window)
        weights = self.queues["weight"].copy_in(self.weight.span(0, self.classes))
        core.emit_scalar("ld_ub", loads=count, operations=2 * count, turns=count, detail="targets")
        for dst, src in zip(picked, (rows, weights), strict=True):
            core.move_elements(dst, src, count)
        classes = self.classes

        def of_rows(values: NDArray[Any], places: NDArray[Any]) -> NDArray[Any]:
            table = values.reshape(*values.shape[:-1], count, classes)
            return np.take_along_axis(table, _inside(places, classes)[..., None], -1)[..., 0]

        def of_weights(values: NDArray[Any], places: NDArray[Any]) -> NDArray[Any]:
            return np.take_along_axis(values, _inside(places, classes), -1)

        core.arrange(picked[0], rows, targets, how=of_rows)
        core.arrange(picked[1], weights, targets, how=of_weights)
        for dst, name, src in zip(picked, ("x", "weight"), (rows, weights), strict=True):
            dst.check_write()
            self.queues[name].free_tensor(src)

    def _one_by_one(
        self, core: Core, first: Index, targets: LocalTensor, picked: list[LocalTensor]
    ) -> None:
        """The two numbers of each row from device memory."""
        for dst in picked:
            core.duplicate(dst, 0.0)
        for index in core.loop(targets.numel, sequential=True):
            named = core.scalar_max(core.get_value(targets, index // 1), 0)
            place = core.scalar_min(named, self.classes - 1)
            rows = ((first, self.classes), (index, self.classes), (place, 1))
            for dst, name, source in (
                (picked[0], "x", self.x.window(rows, (1,), (1,))),
                (picked[1], "weight", self.weight.window(((place, 1),), (1,), (1,))),
            ):
                number = self.queues[name].copy_in(source)
                core.move_elements(dst, number, 1)
                core.arrange(dst[index], number)
                self.queues[name].free_tensor(number)

    # -- sums --------------------------------------------------------------------------------------

    def _store(self, core: Core, first: Index, losses: LocalTensor) -> None:
        out = self.loss_que.alloc_tensor(self.out.dtype, losses.numel)
        if self.out.dtype is FLOAT:
            core.copy(out, losses)
        else:
            core.cast(out, losses)
        self.loss_que.copy_out(self.out.view(self.lines).span(first, losses.numel), out)

    def _leave(self, core: Core, sums: list[LocalTensor]) -> None:
        """A core's two sums, each with a block of its own in workspace."""
        queue = TQue(TPosition.VECOUT, 2, "partial")
        core.pipe.init_buffer(queue, 2, core.block_bytes)
        for part, total in enumerate(sums):
            row = core.duplicate(queue.alloc_tensor(FLOAT, self.lanes), 0.0)
            core.move(row[:1], total)
            place = (part * self.block_dim + core.get_block_idx()) * self.lanes
            queue.copy_out(self.scratch[0].span(place, self.lanes), row)

    def _finish(self, core: Core) -> None:
        """Sums of the cores' sums; the mean divides by the weights."""
        size = self.block_dim * self.lanes
        queue, buffer = TQue(TPosition.VECIN, 2, "partials"), TBuf("totals")
        out_que = TQue(TPosition.VECOUT, 2, "y")
        core.pipe.init_buffer(queue, 2, size * FLOAT.itemsize)
        core.pipe.init_buffer(buffer, 2, core.block_bytes)
        core.pipe.init_buffer(out_que, 2, core.block_bytes)
        totals = []
        for part in range(2):
            partials = queue.copy_in(self.scratch[0].span(part * size, size))
            totals.append(core.reduce_sum(buffer.get(FLOAT, 1, part=part), partials))
            queue.free_tensor(partials)
        if self.reduction == "mean":
            core.div(totals[0], *totals)
        for target, total in zip(self.writes, totals, strict=False):
            y = out_que.alloc_tensor(target.dtype, 1)
            if target.dtype is FLOAT:
                core.copy(y, total)
            else:
                core.cast(y, total)
            out_que.copy_out(target.view(1).span(0, 1), y)


def _inside(places: NDArray[Any], count: int) -> NDArray[Any]:
    """Targets; what is to be ignored may name no class at all."""
    found: NDArray[Any] = np.clip(places, 0, count - 1).astype(np.intp)
    return found


def cross_entropy(task: Task) -> tuple[Kernel, ...]:
    """The logarithm of softmax along axis 1, classes brought to the back, and the likelihood.

    float16 is widened in front of the likelihood, and its results are narrowed behind it.
    """
    x, target = task.present(2)
    if len(x.shape) < 2 or target.shape != (x.shape[0], *x.shape[2:]):
        raise task.unfit(f"targets {target.shape} for {x.shape}")
    tasks: list[Kernel] = []

    def launch(
        op_type: str, given: GlobalTensor, result: GlobalTensor, **said: Any
    ) -> GlobalTensor:
        named = Task(task.profile, op_type, (given,), (result,), said)
        tasks.extend(builder(op_type)(named))
        return result

    classes = x.shape[1]
    logs = launch("LogSoftmaxV2", x, made(x.shape, x.dtype), axes=[1])
    weight = task.inputs[2] if len(task.inputs) > 2 else None
    if weight is None:
        weight = made((classes,), x.dtype, "weight")
        tasks.extend(builder("OnesLike")(
            Task(task.profile, "OnesLike", (weight,), (weight,))
        ))  # fmt: skip
    if len(x.shape) > 2:
        order = (0, *range(2, len(x.shape)), 1)
        turned = made((*target.shape, classes), x.dtype)
        tasks.append(kernel_class("Transpose")(task.profile, logs.permuted(order), turned))
        logs = turned
    if x.dtype is FLOAT16:
        logs, weight = (launch("Cast", each, made(each.shape, FLOAT)) for each in (logs, weight))
    reduction = str(task.attributes.get("reduction", "mean"))
    shape = target.shape if reduction == "none" else ()
    loss, total = made(shape, logs.dtype, "loss"), made((), logs.dtype, "total")
    results = (*task.outputs[:1], made(shape, x.dtype, "y"))[0], made((), x.dtype, "total")
    if x.dtype is not FLOAT16:
        loss, total = results
    if reduction != "none":
        tasks.append(kernel_class("MemSet")(task.profile, loss))
    ignored = task.whole_number("ignore_index", IGNORED)
    rows = logs.view(prod(target.shape), classes)
    named = {"reduction": reduction, "ignore_index": ignored}
    tasks.append(NLLLoss(task.profile, rows, target, weight, loss, total, **named))  # type: ignore[arg-type]
    if x.dtype is FLOAT16:
        for given, result in zip((loss, total), results, strict=True):
            launch("Cast", given, result)
    return tuple(tasks)
