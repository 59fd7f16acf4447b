"""Norms: sums of powers or largest elements, and roots of them.

A task folds the powers and another takes the root, or one does both; lists of tensors are one task.
Which one a framework takes depends on the order of the norm. Source: public operator sources
(impl/dynamic/lp_norm_reduce.py, lp_norm_update.py), ops-nn foreach/foreach_norm; kernels of
recorded calls.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from math import inf, isinf, isnan
from typing import TYPE_CHECKING

from npusim.ascendc import CmpMode, Core, GlobalTensor, Kernel, LocalTensor
from npusim.ascendc.folds import LARGEST, SMALLEST, SUM
from npusim.ascendc.task import Task, made
from npusim.library.tensor_lists import read_lists
from npusim.operators.tasks import Tasks
from npusim.ops.reduction.axes import Nest
from npusim.ops.reduction.job import Job
from npusim.ops.reduction.kernel import kernel_of
from npusim.ops.reduction.kinds import Kind
from npusim.ops.reduction.total import TotalPlan
from npusim.schedules import formula_classes
from npusim.schedules.formula_row import Compute
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from npusim.engine.program import Barrier
    from npusim.hardware.profile import Profile
    from npusim.schedules.formula import Formula, Term

_PARTS = 20  # of UB; half types are widened in one of them, piece by piece
_LANES = 64
_TILING_ARRAYS = 8  # that the task for lists reads
_LISTED = (1.0, 2.0)  # orders that the task for lists knows
_NOT_ZERO = 1e-7  # that norms are divided by at least, as PyTorch does
_AT_ONCE = (0.0, 3.0, inf, -inf)  # orders that one task folds and takes the root of


@dataclass(frozen=True, slots=True)
class NormKind(Kind):
    """Powers of absolute values folded; ``rooted`` takes the root of the result."""

    order: float = 2.0
    rooted: bool = False

    @property
    def masks(self) -> bool:
        """Elements that aren't zero are counted."""
        return self.order == 0

    def prepare(
        self, core: Core, dst: LocalTensor, src: LocalTensor, mask: LocalTensor | None = None
    ) -> LocalTensor:
        """|x| ** order; for the largest and the smallest element |x|."""
        order = self.order
        if order == 2:
            return core.mul(dst, src, src)
        if order == 3 and dst is not src:
            return core.abs(dst, core.mul(dst, core.mul(dst, src, src), src))
        if mask is not None:
            zero = 0.0 if dst is src else core.duplicate(dst, 0.0)
            there = core.compare(mask, src, zero, CmpMode.NE)
            return core.select(dst, there, core.duplicate(dst, 1.0), 0.0)
        size = core.abs(dst, src)
        if order == 1 or self.fold is not SUM:
            return size
        return core.exp(dst, core.muls(dst, core.ln(dst, size), order))

    def finish(self, core: Core, result: LocalTensor, count: int) -> LocalTensor:
        """The root, where it is to be taken."""
        del count
        if not self.rooted or self.order in (0, 1) or self.fold is not SUM:
            return result
        if self.order == 2:
            return core.sqrt(result, result)
        return core.exp(result, core.muls(result, core.ln(result, result), 1.0 / self.order))

    @property
    def is_linear(self) -> bool:
        """Sums of powers can be added up, roots can't."""
        return self.fold is SUM and not self.rooted


@dataclass(frozen=True, slots=True)
class RenormKind(NormKind):
    """By how much a slice has to shrink, so that its norm is at most ``limit``."""

    limit: float = 1.0

    def finish(self, core: Core, result: LocalTensor, count: int) -> LocalTensor:
        """The limit's share of the norm, at most one."""
        norm = NormKind.finish(self, core, result, count)
        core.reciprocal(norm, core.adds(norm, norm, _NOT_ZERO))
        return core.mins(norm, core.muls(norm, norm, self.limit), 1.0)


@cache
def _kind(order: float, *, rooted: bool) -> NormKind:
    fold = LARGEST if order == inf else SMALLEST if order == -inf else SUM
    return NormKind(fold, before="abs", order=order, rooted=rooted)


def _order(task: Task) -> float:
    """The order of the norm: a number, or the word for infinity."""
    found = task.first("p", "scalar", "ord")
    try:
        order = 2.0 if found is None else float(str(found))
    except ValueError:
        raise task.unfit(f"the order {found!r} is no number") from None
    if isnan(order):
        raise task.refused(f"norms of order {order} aren't modelled")
    return order


def _whole(task: Task, name: str, *, rooted: bool) -> tuple[Kernel, ...]:
    (x,) = task.present(1)
    out = task.outputs[0] if task.outputs else made((), x.dtype)
    kind = _kind(_order(task), rooted=rooted)
    fold = kernel_of(name, kind, many_variants=False, hard_sync=False)  # AI_VECTOR_CORE in profiles
    return fold.from_task(replace(task, outputs=(out,)))


def powers(task: Task) -> tuple[Kernel, ...]:
    """Sums of powers, or the largest of the elements."""
    return _whole(task, "LpNormReduceV2", rooted=False)


def norm(task: Task) -> tuple[Kernel, ...]:
    """Norms along axes."""
    return _whole(task, "LpNormV2", rooted=True)


def renorm(task: Task) -> tuple[Kernel, ...]:
    """By how much every slice along ``dim`` has to shrink."""
    x, out = task.present(1, 1)
    dim = task.whole_number("dim", 0) % max(1, len(x.shape))
    kind = _kind(_order(task), rooted=True)
    most = task.number("maxnorm", 1.0)
    shrinks = RenormKind(kind.fold, "abs", order=kind.order, rooted=True, limit=most)
    axes = [axis for axis in range(len(x.shape)) if axis != dim]
    return (kernel_of("Renorm", shrinks)(task.profile, x, out, axes=axes),)


def root(task: Task) -> tuple[Kernel, ...]:
    """x ** (1 / p): the square root, or by logarithms; what has no root is moved."""
    order = _order(task)

    def formula(f: Formula, x: Term) -> Term:
        if order in (0, 1) or isinf(order):
            return f.mul(x, 1.0)
        return f.sqrt(x) if order == 2 else f.exp(f.mul(f.ln(x), 1.0 / order))

    return formula_classes.kernel_of_call(
        Compute("LpNormUpdateV2", formula, half_in_float=True)
    ).from_task(task)


class ForeachNorm(Kernel):
    """The norm of every tensor of a list: all cores share each, then one takes its root."""

    hard_sync = True

    def __init__(self, profile: Profile, *tensors: GlobalTensor, scalar: float = 2.0) -> None:
        count = len(tensors) // 2
        self.reads, self.writes = tensors[:count], tensors[count:]
        kind = _kind(scalar, rooted=True)
        self.plans = []
        for place, (x, out) in enumerate(zip(self.reads, self.writes, strict=True)):
            axes = range(len(x.shape))
            job = Job(profile, kind, Nest.of(x.shape, axes), x.view(x.numel), out.view(1))
            plan = TotalPlan(job, x.shape)
            plan.finisher = place % plan.block_dim
            if x.dtype is not FLOAT:
                widened = profile.buffers.ub_bytes // _PARTS // FLOAT.itemsize
                plan.tile, plan.depth = min(plan.tile, widened // _LANES * _LANES), 2
            self.plans.append(plan)
        self.block_dim = max(plan.block_dim for plan in self.plans)
        self.scratch = tuple(each for plan in self.plans for each in plan.scratch)

    def block_kind(self, block_idx: int) -> Hashable:
        return tuple(
            plan.block_kind(block_idx) if block_idx < plan.block_dim else None
            for plan in self.plans
        )

    def process(self, core: Core) -> Iterator[Barrier]:
        """A share of every tensor; behind a barrier, the roots."""
        read_lists(core, 2, _TILING_ARRAYS)
        mine = [plan for plan in self.plans if core.get_block_idx() < plan.block_dim]
        for plan in mine:
            core.pipe.reset()
            plan.fold_share(core)
        yield core.sync_all()
        for plan in mine:
            core.pipe.reset()
            plan.finish(core)


def norms(task: Task) -> tuple[Kernel, ...]:
    """Of orders 1 and 2 one task for the list, else for each tensor one or two.

    Half types are widened in front of powers that two tasks take, and roots narrowed again.
    """
    given = [tensor for tensor in task.inputs if tensor is not None]
    order = _order(task)
    fresh = tuple(made((), x.dtype) for x in given)
    results = task.outputs if len(task.outputs) == len(given) else fresh
    if not given:
        raise task.unfit("no tensors")
    if order in _LISTED:
        return (ForeachNorm(task.profile, *given, *results, scalar=order),)
    tasks = Tasks(task.profile)
    for x, out in zip(given, results, strict=True):
        if order in _AT_ONCE:
            tasks.run("LpNormV2", x, out=out, p=order)
        else:
            _in_two(tasks, x, out, order)
    return tuple(tasks.kernels)


def _in_two(tasks: Tasks, x: GlobalTensor, out: GlobalTensor, order: float) -> None:
    x = tasks.cast(x, FLOAT)
    total = tasks.run("LpNormReduceV2", x, out=made((), FLOAT, "sum"), p=order)
    norm_ = out if out.dtype is FLOAT else made((), FLOAT, "norm")
    tasks.run("LpNormUpdateV2", total, out=norm_, p=order)
    if norm_ is not out:
        tasks.run("Cast", norm_, out=out)
