"""CTC: sequences of labels aligned with steps of time, and the gradient of that.

A core takes one sequence after the other, and of it one step after the other: what the step before
left goes to workspace and comes back moved by none, one and two places, whose exponents are added
up; probabilities of the labels are gathered from a row of them, slice by slice where UB doesn't
hold it. The gradient does so from the last step on, then adds up alphas and betas of each label:
one number after the other, by scalar and vector unit in turns. Labels are taken as different ones,
blanks apart. Source: ops-nn loss/ctc_loss_v3 and ctc_loss_v3_grad (tilings and kernels).
"""

from __future__ import annotations

from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from npusim.ascendc import Core, GlobalTensor, Kernel, TBuf, TPosition, TQue
from npusim.ascendc.events import Event
from npusim.ascendc.task import Task, made
from npusim.engine.program import Pipe
from npusim.ops.loss.alignment_numbers import gradients, losses, sequences
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import BFLOAT16, FLOAT, FLOAT16

if TYPE_CHECKING:
    from collections.abc import Hashable

    from numpy.typing import NDArray

    from npusim.ascendc import LocalTensor
    from npusim.ascendc.gm_slices import GmSlice
    from npusim.ascendc.loops import Index
    from npusim.hardware.profile import Profile

_LANES, _ALPHA_BLOCK = 64, 8
_KEPT_BYTES = 16 << 10  # beside what sequences and slices need
_ALPHA_BYTES, _LABEL_BYTES = 40, 64  # for each place of an alpha, for each label
_SUMMED = (  # of three alphas: the largest, what exponents make of it, and it again
    "vcmpv_gt", "vsel", "vsel", "vcmpv_gt", "vsel", "vcmpv_eq", "vsel", *("vsub",) * 3,
    *("vexp",) * 3, "vadd", "vadd", "vln", "vadd",
)  # fmt: skip
_PLACED = ("vcmpv_ge", "vcmpv_lt", "vadds", "vsel", "vsel", "vconv")  # labels in a slice
_LABEL_SCALARS, _SUM_SCALARS = 12, 8  # operations for a label, and for a sum of two exponents


class Alignment(Kernel):
    """What both directions have in common: sequences, their steps, and slices of a row."""

    slice_bytes: ClassVar[int] = 8  # of UB for each probability of a slice

    def _cut(self, profile: Profile, probs: GlobalTensor, given: tuple[Any, Any, int]) -> None:
        self.steps, self.batch, self.classes = probs.shape
        self.lengths, self.labels, self.width = given
        self.probs, self.kind = probs.view(probs.numel), probs.dtype
        cores = profile.cores.vector_cores
        self.block_dim = min(self.batch, cores)
        need = self.width * _ALPHA_BYTES + max(self.labels, default=0) * _LABEL_BYTES + _KEPT_BYTES
        room = max(_LANES, (profile.buffers.ub_bytes - need) // self.slice_bytes)
        self.slice = round_up(min(room // _LANES * _LANES, self.classes), _LANES)
        kept = made((self.batch * (self.width + _ALPHA_BLOCK),), FLOAT, "kept")
        self.scratch = (kept,)

    def block_kind(self, block_idx: int) -> Hashable:
        return tuple((self.lengths[each], self.labels[each]) for each in self._own(block_idx))

    def _own(self, block: int) -> range:
        """The sequences of a block: the first blocks have one more."""
        each, more = divmod(self.batch, self.block_dim)
        first = block * each + min(block, more)
        return range(first, first + each + (block < more))

    def _reserve(self, core: Core) -> None:
        size = FLOAT.itemsize
        self.single = TQue(TPosition.VECIN, 1, "one", consumer=Pipe.SCALAR)
        self.moved = TQue(TPosition.VECIN, 4, "moved", consumer=Pipe.SCALAR)
        self.rows, self.outs = TQue(TPosition.VECIN, 1, "row"), TQue(TPosition.VECOUT, 1, "out")
        self.work, self.wide = TBuf("work"), TBuf("slice")
        core.pipe.init_buffer(self.single, 1, 32)
        core.pipe.init_buffer(self.moved, 4, self.width * size)
        core.pipe.init_buffer(self.rows, 1, min(self.slice, self.classes) * self.kind.itemsize)
        core.pipe.init_buffer(self.outs, 1, max(self.width, self.slice_out) * size)
        core.pipe.init_buffer(self.work, 1, self.width * size)
        core.pipe.init_buffer(self.wide, 1, self.slice * size)
        self.stored = Event(core, Pipe.MTE3, Pipe.SCALAR)

    @property
    def slice_out(self) -> int:
        """Numbers of a slice that is stored."""
        return 0

    def _one(self, core: Core, step: Index, batch: int) -> None:
        """A probability that the scalar unit waits for."""
        place = ((step, self.batch * self.classes), (batch, self.classes))
        core.wait_vector()
        tile = self.single.copy_in(self.probs.window(place, (1,), (1,)))
        core.get_value(tile)
        self.single.free_tensor(tile)

    def _alphas(self, core: Core, batch: int, many: int) -> LocalTensor:
        """What is left of the step before, at three places, in one sum of exponents."""
        work = core.duplicate(self.work.get(FLOAT, self.width), 0.0)
        kept, where = self.scratch[0], batch * self.width
        tiles = [self.moved.copy_in(kept.span(where, many)) for _ in range(3)]
        for tile in tiles:
            core.get_value(tile)
        core.emit_scalar("st_ub", stores=3)
        for name in _SUMMED:
            core.record_vector(name, work, many)
        for tile in tiles:
            self.moved.free_tensor(tile)
        return work

    def _gathered(self, core: Core, step: Index, batch: int, work: LocalTensor) -> None:
        """Probabilities of the labels, blanks between them by way of workspace."""
        labels = self.labels[batch]
        if not labels:
            return
        for name in ("vconv", "vmuls"):
            core.record_vector(name, work, labels)
        for start in range(0, self.classes, self.slice):
            for name in _PLACED:
                core.record_vector(name, work, labels)
            self._slice(core, step, batch, start)
            core.record_vector("vgather", work, labels)
            for _ in range(2):
                core.record_vector("vsel", work, labels)
        for name in ("vconv", "vsel"):
            core.record_vector(name, work, 2 * labels)
        self._keep(core, batch, work, 2 * labels + 1)
        back = self.moved.copy_in(self.scratch[0].span(batch * self.width, 2 * labels + 1))
        core.get_value(back)
        core.emit_scalar("st_ub", stores=1)
        core.record_vector("vadd", work, 2 * labels + 1)
        self.moved.free_tensor(back)

    def _slice(self, core: Core, step: Index, batch: int, start: int) -> LocalTensor:
        """A slice of a step's probabilities in float32."""
        count = min(self.slice, self.classes - start)
        place = ((step, self.batch * self.classes), (batch * self.classes + start, 1))
        row = self.rows.copy_in(self.probs.window(place, (count,), (1,)))
        wide = self.wide.get(FLOAT, count)
        core.move(wide, row) if row.dtype is FLOAT else core.cast(wide, row)
        self.rows.free_tensor(row)
        return wide

    def _keep(self, core: Core, batch: int, work: LocalTensor, count: int) -> None:
        """Numbers to workspace; the scalar unit waits until they are there."""
        tile = self.outs.alloc_tensor(FLOAT, count)
        core.duplicate(tile, 0.0)
        self.outs.copy_out(self.scratch[0].span(batch * self.width, count), tile)
        core.noted(work)
        self._wait()

    def _wait(self) -> None:
        self.stored.set()
        self.stored.wait()

    def _put(
        self, core: Core, target: GmSlice, work: LocalTensor, numbers: NDArray[Any] | None,
        step: Index,
    ) -> None:  # fmt: skip
        """A row of results, of the steps worked on; ``numbers`` has those of all steps."""
        tile = self.outs.alloc_tensor(self.kind, *target.shape)
        core.record_vector("vconv" if self.kind is not FLOAT else "vadd", tile, tile.numel)
        core.arrange(tile, work, how=partial(_rows_of, core, numbers, step))
        self.outs.copy_out(target, tile)
        self._wait()


def _rows_of(core: Core, numbers: NDArray[Any] | None, step: Index, _: Any) -> NDArray[Any]:
    assert numbers is not None
    found: NDArray[Any] = numbers[core.counter(step).values(core.depth).astype(np.int64)]
    return found


class CTCLossV3(Alignment):
    """losses [n], alphas [n, t, 2 s + 1 in eights] of log probabilities [t, n, c]."""

    op_type = "CTCLossV3"

    def __init__(
        self, profile: Profile, tensors: tuple[GlobalTensor, ...],
        results: tuple[GlobalTensor, GlobalTensor], given: tuple[Any, Any, int],
        *, blank: int = 0, zero_infinity: bool = False,
    ) -> None:  # fmt: skip
        self.reads, self.writes = tensors, results
        self.blank, self.zero_infinity = blank, zero_infinity
        self._cut(profile, tensors[0], given)
        self._found: tuple[NDArray[Any], NDArray[Any]] | None = None

    def process(self, core: Core) -> None:
        """Step after step of a block's sequences."""
        if core.numerics and not core.get_block_idx():
            arrays = [np.asarray(each.array) for each in self.reads]
            self._found = losses(arrays, self.width, self.blank, zero=self.zero_infinity)
        self._reserve(core)
        loss, alphas = (each.view(each.numel) for each in self.writes)
        for batch in self._own(core.get_block_idx()):
            many, steps = 2 * self.labels[batch] + 1, self.lengths[batch]
            place, line = batch * self.steps * self.width, self.width
            for step in core.loop(steps):
                self._one(core, step, batch)
                work = self._alphas(core, batch, many)
                self._gathered(core, step, batch, work)
                self._keep(core, batch, work, self.width)
                target = alphas.window(((step, line), (place, 1)), (line,), (1,))
                known = None if self._found is None else self._found[1][batch]
                self._put(core, target, work, known, step)
            core.wait_vector()
            work = core.duplicate(self.work.get(FLOAT, self.width), 0.0)
            core.get_value(work)
            for name in ("vexp", "vadd", "vln"):
                core.record_vector(name, work, _ALPHA_BLOCK)
            known = None if self._found is None else self._found[0][batch : batch + 1, None]
            for one in core.loop(1):
                self._put(core, loss.window(((batch, 1),), (1,), (1,)), work, known, one)


class CTCLossV3Grad(Alignment):
    """grad [t, n, c] of the log probabilities: what a label's alphas and betas have in common."""

    op_type = "CTCLossV3Grad"
    slice_bytes = 16

    def __init__(
        self, profile: Profile, tensors: tuple[GlobalTensor, ...], grad: GlobalTensor,
        given: tuple[Any, Any, int], *, blank: int = 0, zero_infinity: bool = False,
    ) -> None:  # fmt: skip
        self.reads, self.writes = tensors, (grad,)
        self.blank, self.zero_infinity = blank, zero_infinity
        self._cut(profile, tensors[1], given)
        self._found: NDArray[Any] | None = None

    @property
    def slice_out(self) -> int:
        return min(self.slice, self.classes)

    def process(self, core: Core) -> None:
        """Step after step of a block's sequences, zeros behind their ends."""
        if core.numerics and not core.get_block_idx():
            arrays = [np.asarray(each.array) for each in self.reads]
            self._found = gradients(arrays, self.blank, zero=self.zero_infinity)
        self._reserve(core)
        alphas = self.reads[6].view(self.reads[6].numel)
        for batch in self._own(core.get_block_idx()):
            many, place = 2 * self.labels[batch] + 1, batch * self.steps * self.width
            for step in core.loop(self.lengths[batch]):
                row = self.moved.copy_in(
                    alphas.window(((step, self.width), (place, 1)), (self.width,), (1,))
                )
                core.get_value(row)
                for _ in range(2):
                    self._one(core, step, batch)
                work = self._alphas(core, batch, many)
                self._gathered(core, step, batch, work)
                self._keep(core, batch, work, self.width)
                core.record_vector("vadd", work, many)
                self.moved.free_tensor(row)
                for start in range(0, self.classes, self.slice):
                    self._labels(core, batch, start)
                    self._graded(core, step, batch, start)
            for more in core.loop(self.steps - self.lengths[batch]):
                for start in range(0, self.classes, self.slice):
                    self._store(core, more + self.lengths[batch], batch, start)

    def _labels(self, core: Core, batch: int, start: int) -> None:
        """Alphas and betas of one label after the other, and those of the blanks as one sum."""
        labels, work = self.labels[batch], self.work.get(FLOAT, self.width)
        core.record_vector("vector_dup", work, min(self.slice, self.classes - start))
        core.wait_vector()
        core.emit_scalar("ld_ub", loads=2 * labels, operations=_LABEL_SCALARS * labels)
        if not start <= self.blank < start + self.slice:
            return
        for _ in core.loop(labels):
            core.emit_scalar("ld_ub", loads=2, operations=_SUM_SCALARS)
            core.emit_scalar("st_ub", stores=2)
            for name in ("vexp", "vcadd", "vln"):
                core.record_vector(name, work, 2)
            core.wait_vector()
            core.emit_scalar("ld_ub", loads=1)
            core.emit_scalar("st_ub", stores=1)

    def _graded(self, core: Core, step: Index, batch: int, start: int) -> None:
        wide = self._slice(core, step, batch, start)
        for name in ("vadds", "vsub", "vexp", "vexp", "vsub", "vmuls"):
            core.record_vector(name, wide, wide.numel)
        self._store(core, step, batch, start)

    def _store(self, core: Core, step: Index, batch: int, start: int) -> None:
        """A slice of the gradient."""
        count = min(self.slice, self.classes - start)
        place = ((step, self.batch * self.classes), (batch * self.classes + start, 1))
        target = self.writes[0].view(self.probs.numel).window(place, (count,), (1,))
        known = None if self._found is None else self._found[:, batch, start : start + count]
        work = core.duplicate(self.wide.get(FLOAT, count), 0.0)
        self._put(core, target, work, known, step)


def ctc_loss(task: Task) -> tuple[Kernel, ...]:
    """Log probabilities, labels, and how long both are."""
    given = _given(task, task.present(4))
    probs = task.inputs[0]
    assert probs is not None
    steps, batch, _ = probs.shape
    results = task.outputs or (
        made((batch,), probs.dtype, "loss"), made((batch, steps, given[2]), probs.dtype, "alphas")
    )  # fmt: skip
    if results[1].shape != (batch, steps, given[2]):
        raise task.unfit(f"alphas of {results[1].shape}")
    named = _named(task)
    return (CTCLossV3(task.profile, task.present(4), (results[0], results[1]), given, **named),)


def ctc_loss_grad(task: Task) -> tuple[Kernel, ...]:
    """The loss's gradient, what it was made of, and itself and the alphas."""
    tensors = task.present(7)
    given = _given(task, tensors[1:5])
    grad = task.outputs[0] if task.outputs else made(tensors[1].shape, tensors[1].dtype)
    steps, batch, _ = tensors[1].shape
    if tensors[6].shape != (batch, steps, given[2]):
        raise task.unfit(f"alphas of {tensors[6].shape}")
    if tensors[0].numel != batch or tensors[5].numel != batch:
        raise task.unfit(f"gradients and losses of {batch} sequences")
    return (CTCLossV3Grad(task.profile, tensors, grad, given, **_named(task)),)


def _named(task: Task) -> dict[str, Any]:
    zero = task.first("zero_infinity") is True
    return {"blank": task.whole_number("blank", 0), "zero_infinity": zero}


def _given(
    task: Task, tensors: tuple[GlobalTensor, ...]
) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Steps and labels of every sequence, as many as there may be where nobody knows; alphas."""
    probs, targets, lengths, labels = tensors
    if task.profile.cores.style != "split":
        raise task.refused(f"{task.profile.name} aligns by a kernel that isn't modelled")
    if probs.dtype not in (FLOAT, FLOAT16, BFLOAT16) or len(probs.shape) != 3:
        raise task.refused(f"{probs.dtype} of {probs.shape} is the AI CPUs'")
    if not targets.numel:
        raise task.refused("no labels are the AI CPUs'")
    steps, batch, _ = probs.shape
    if lengths.numel != batch or labels.numel != batch or targets.shape[:-1] not in ((), (batch,)):
        raise task.unfit(
            f"{batch} sequences don't go with labels {targets.shape} and {lengths.shape}"
        )
    most = targets.shape[-1] if len(targets.shape) > 1 else ceil(targets.numel / batch)
    known = sequences(lengths.array, batch, steps), sequences(labels.array, batch, most)
    return *known, round_up(2 * max(known[1]) + 1, _ALPHA_BLOCK)
