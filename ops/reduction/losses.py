"""Losses that are folded by the kernel that computes them: one number comes out.

Shares and tiles are those of a sum of everything whose elements are computed first, as the tensor
compiler makes it of such a formula; MSELossV2, in Ascend C, has its own. Half types are cast to
float32 first and the sum is cast back: parts of it can't be added in memory then, so that a kernel
for one shape folds everything on one core. Source: ops-nn loss/* (op_api: the reduction is an
attribute of the operator; mse_loss_v2_tiling.cpp, mse_loss_v2_sum.h); public operator sources
(tbe/impl/dynamic/kl_div_v2.py) and tensor compiler (parts are added in memory where what is folded
is itself stored, as float32).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from inspect import signature
from math import ceil
from typing import TYPE_CHECKING, Any, ClassVar

from npusim.ascendc import Core, GlobalTensor, Kernel, LocalTensor, TBuf, TPosition, TQue
from npusim.ascendc.folds import SUM
from npusim.ascendc.task import Task, made
from npusim.ops.reduction.axes import Nest
from npusim.ops.reduction.job import UB_SHARE, Job, Tiles
from npusim.ops.reduction.kernel import Reduction
from npusim.ops.reduction.kinds import Kind
from npusim.ops.reduction.loss_formulas import FOLDED
from npusim.ops.reduction.total import TotalPlan
from npusim.schedules.buffers import BufferPlan
from npusim.schedules.formula_classes import kernel_of_call
from npusim.schedules.runner import Runner
from npusim.values.dtypes import FLOAT
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from collections.abc import Callable

    from npusim.ascendc import GmSlice
    from npusim.ascendc.gm_slices import Place
    from npusim.hardware.profile import Profile
    from npusim.schedules.formula import Term
    from npusim.schedules.formula_kernel import FormulaKernel
    from npusim.schedules.formula_row import Compute

_ALIGN = 64  # elements that tiles are multiples of
_LEAST_BLOCKS = 128  # of 32 bytes, for a core of MSELossV2
_CASTS = 4  # more parts of UB that MSELossV2 has for half types


@dataclass(frozen=True, slots=True)
class _Total(Kind):
    """A sum; ``share`` is what it is multiplied by."""

    share: float = 1.0

    def finish(self, core: Core, result: LocalTensor, count: int) -> LocalTensor:
        """The mean, where it is one."""
        del count
        return result if self.share == 1 else core.muls(result, result, self.share)


@dataclass(frozen=True)
class _Losses(Job):
    """All losses folded; ``each`` is the kernel that would store them."""

    each: FormulaKernel | None = None

    def tile_limit(self, depth: int) -> int:
        """Elements of a tile, all operands of which are in UB with what is computed of them."""
        assert self.each is not None
        inputs = sum(tensor.dtype.itemsize for tensor in self.each.inputs)
        width = depth * inputs + _buffers(self.each).bytes_per_element
        room = int(self.profile.buffers.ub_bytes * UB_SHARE / width)
        return max(_ALIGN, room // _ALIGN * _ALIGN)

    def tiles(self, core: Core, elements: int, depth: int) -> Tiles:
        """Tiles of losses."""
        assert self.each is not None
        return _LossTiles(core, self.each, elements, depth)


def _buffers(each: FormulaKernel) -> BufferPlan:
    """Buffers of what is computed, losses among it."""
    return BufferPlan.of(each.formula.steps, (), each.results)


class _LossTiles(Tiles):
    """Losses of the places that an operand's tile is loaded from.

    What Ascend C computes of float32 overwrites the operands, which are then given back at the end.
    """

    def __init__(self, core: Core, each: FormulaKernel, elements: int, depth: int) -> None:
        self.each, self.plan = each, _buffers(each)
        self.overwrites = not each.generated and each.inputs[0].dtype is FLOAT
        self.queues: list[TQue] = []
        for index, tensor in enumerate(each.inputs):
            self.queues.append(TQue(TPosition.VECIN, depth, f"x{index}"))
            core.pipe.init_buffer(self.queues[-1], depth, elements * tensor.dtype.itemsize)
        widths = () if self.overwrites else self.plan.widths
        self.temps = [TBuf(f"t{place}") for place in range(len(widths))]
        for buffer, width in zip(self.temps, widths, strict=True):
            core.pipe.init_buffer(buffer, 1, elements * width)
        self.runner = Runner(core, each.formula.steps)
        self.loaded: dict[Term, tuple[TQue, LocalTensor]] = {}

    def load_at(self, first: Place, count: int) -> LocalTensor:
        """The losses of so many places, from this one on."""
        each = self.each
        values: dict[Term, LocalTensor] = {}
        for index, term in each.operands.items():
            source, queue = each.inputs[index], self.queues[index]
            values[term] = queue.copy_in(source.view(source.numel).span(first, count), (count,))
            self.loaded[term] = queue, values[term]

        def target(term: Term, sources: list[LocalTensor]) -> LocalTensor:
            if self.overwrites:
                return sources[0]
            return self.temps[self.plan.places[term]].get(term.dtype, count)

        used = (lambda _: None) if self.overwrites else self._give_back
        self.runner.run(each.formula.steps, values, target, used)
        return values[each.results[0]]

    def release(self, tile: LocalTensor, source: GmSlice | None = None) -> None:
        """The losses have been folded."""
        del tile, source
        for term in tuple(self.loaded):
            self._give_back(term)

    def _give_back(self, term: Term) -> None:
        if term in self.loaded:
            queue, tensor = self.loaded.pop(term)
            queue.free_tensor(tensor)


class ReducedLoss(Reduction):
    """The sum of all losses times ``share``."""

    row: ClassVar[Compute]

    def __init__(
        self, profile: Profile, *tensors: GlobalTensor | None, share: float, **said: Any
    ) -> None:
        *operands, out = tensors
        given = tuple(each for each in operands if each is not None)
        x, shape = given[0], given[0].shape
        assert out is not None
        if any(each.shape != shape for each in given):
            raise KernelError(self.op_type, "operands of different shapes aren't folded")
        each = kernel_of_call(self.row)(profile, *operands, made(shape, FLOAT, "losses"), **said)
        kind = _Total(SUM, before="abs", share=share)
        nest, result = Nest.of(shape, range(len(shape))), out.view(out.numel)
        job = _Losses(profile, kind, nest, x.view(x.numel), result, each=each)
        self.reads, self.writes = given, (out,)
        self.plan = self.planned(job, shape)
        self.block_dim, self.scratch = self.plan.block_dim, self.plan.scratch
        self.adds_into = (out,) if self.plan.atomic else ()

    @staticmethod
    def planned(job: Job, shape: tuple[int, ...]) -> TotalPlan:
        """How the blocks share."""
        return TotalPlan(job, shape)


class _WholeBlocks(TotalPlan):
    """Shares of MSELossV2: as many blocks for each core, what is left over for the last."""

    def __init__(self, job: Job, shape: tuple[int, ...]) -> None:
        super().__init__(job, shape)
        block_bytes = job.profile.buffers.block_bytes
        lanes = block_bytes // job.x.dtype.itemsize
        blocks = job.x.numel // lanes
        self.block_dim = max(1, min(job.cores, ceil(blocks / _LEAST_BLOCKS)))
        self.share = blocks // self.block_dim * lanes
        kept = job.profile.buffers.ub_bytes - block_bytes * (self.block_dim + 1)
        casts = 0 if job.x.dtype is FLOAT else _CASTS
        for self.depth in (1, 2):
            self.tile = kept // block_bytes // (2 * self.depth + casts) * lanes
            if self.share // self.tile <= 1:
                break
        self.tile = max(lanes, min(self.tile, job.x.numel))
        self.meet()

    def length(self, block: int) -> int:
        last = block == self.block_dim - 1
        return self.elements - block * self.share if last else self.share


class ReducedMse(ReducedLoss):
    """MSELossV2."""

    generated = False

    @staticmethod
    def planned(job: Job, shape: tuple[int, ...]) -> TotalPlan:
        return _WholeBlocks(job, shape)


def _folding(row: Compute) -> Callable[[Task], tuple[Kernel, ...]]:
    """What makes the kernels of a loss: of one kernel class, and of so many operands."""
    base = ReducedMse if row.op_type == "MSELossV2" else ReducedLoss
    members = {"op_type": row.op_type, "row": row, "__doc__": base.__doc__}
    operands = len(signature(row.formula).parameters) - 1 - len(row.attributes)
    return partial(_kernels, row, type(row.op_type, (base,), members), operands)


def _kernels(
    row: Compute, folded: type[ReducedLoss], operands: int, task: Task
) -> tuple[Kernel, ...]:
    """One number where the reduction says so or, in a record without it, where one comes out."""
    task = replace(task, inputs=(*task.inputs, *(None,) * (operands - len(task.inputs))))
    chosen, x = task.attributes.get("reduction"), task.present(1)[0]
    whole = task.outputs and task.outputs[0].numel == 1
    if chosen == "none" or x.numel == 1 or not (chosen or whole or not task.outputs):
        return kernel_of_call(row).from_task(task)
    share = {"sum": 1.0, "batchmean": 1 / max(1, x.shape[0])}.get(str(chosen), 1 / x.numel)
    known = {name: task.attributes[name] for name in row.attributes if name in task.attributes}
    out = task.outputs[0] if task.outputs else made((), x.dtype)
    return (folded(task.profile, *task.inputs, out, share=share, **known),)


KERNELS = {row.op_type: _folding(row) for row in FOLDED}
