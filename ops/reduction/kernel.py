"""Kernels that reduce: one class for each operator type, built on the plan that fits the axes."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, ClassVar

from npusim.ascendc import Core, GlobalTensor, Kernel
from npusim.ascendc.conversions import device_dtype
from npusim.ops.reduction.axes import Nest, axes_of, bias_axes
from npusim.ops.reduction.columns import ColumnsPlan
from npusim.ops.reduction.job import Job
from npusim.ops.reduction.kinds import KINDS, Kind
from npusim.ops.reduction.rows import RowsPlan
from npusim.ops.reduction.total import TotalPlan
from npusim.ops.reduction.turned import TurnedPlan
from npusim.values.contents import digest_of
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.ascendc.kernel import Phases
    from npusim.ascendc.task import Task
    from npusim.hardware.profile import Profile


class Reduction(Kernel):
    """out = x folded over ``axes`` (or over ``first_axis .. last_axis``).

    ``kept`` takes the elements as they were folded, for operators with such a second result;
    ``beside``, of the shape of ``x``, is taken off the elements first.
    """

    generated = True
    many_variants = hard_sync = True
    op_type: str
    kind: ClassVar[Kind]

    def __init__(
        self,
        profile: Profile,
        x: GlobalTensor,
        out: GlobalTensor,
        kept: GlobalTensor | None = None,
        *,
        axes: Iterable[int] | None = None,
        first_axis: int = 0,
        last_axis: int = -1,
        beside: GlobalTensor | None = None,
    ) -> None:
        chosen = range(first_axis, last_axis + 1) if axes is None else axes
        nest = Nest.of(x.shape, chosen)
        self.reads = (x,) if beside is None else (x, beside)
        self.writes = (out,) if kept is None else (out, kept)
        if x.strides is not None:
            raise KernelError(self.op_type, "x isn't contiguous")
        given, result = (
            replace(each.view(each.numel), dtype=device_dtype(each.dtype)) for each in (x, out)
        )
        kind = self.kind.on(profile, given.dtype)
        flat = None if beside is None else beside.view(beside.numel)
        job = Job(profile, kind, nest, given, result, kept, flat)
        self.plan = self._plan(job, x.shape)
        self.block_dim = self.plan.block_dim
        self.scratch = getattr(self.plan, "scratch", ())
        self.adds_into = (out,) if getattr(self.plan, "atomic", False) else ()
        self.shares_all = self.independent = isinstance(self.plan, ColumnsPlan) and self.plan.atomic

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        """The axes follow from the attributes or, where those are missing, from the shapes."""
        x = task.inputs[0] if task.inputs else None
        if x is None or not task.outputs:
            raise task.refused("the record has no input or no output")
        kept = task.outputs[1] if cls.kind.keeps and len(task.outputs) > 1 else None
        axes = cls._axes(x.shape, task.outputs[0].shape, task.attributes)
        return (cls(task.profile, x, task.outputs[0], kept, axes=axes),)

    def block_kind(self, block_idx: int) -> Hashable:
        return self.plan.block_kind(block_idx)

    def process(self, core: Core) -> Phases:
        return self.plan.process(core)

    @classmethod
    def _axes(
        cls, shape: tuple[int, ...], result: tuple[int, ...], attributes: Mapping[str, object]
    ) -> tuple[int, ...]:
        if cls.op_type == "BiasAddGrad":
            return bias_axes(cls.op_type, shape, result)
        return axes_of(cls.op_type, shape, result, attributes)

    @staticmethod
    def _plan(job: Job, shape: tuple[int, ...]) -> RowsPlan | TurnedPlan | ColumnsPlan | TotalPlan:
        if job.nest.results == 1:
            return TotalPlan(job, shape)
        if not job.nest.by_rows:
            return ColumnsPlan(job)
        return TurnedPlan(job) if TurnedPlan.fits(job) else RowsPlan(job)


@cache
def kernel_of(op_type: str, kind: Kind, **members: bool) -> type[Reduction]:
    """The kernel of a kind; ``members`` are its own, such as ``hard_sync``."""
    told = {"op_type": op_type, "kind": kind, "__doc__": f"{op_type}: {kind.fold.name}."}
    told["digest"] = digest_of(kind)
    return type(op_type, (Reduction,), told | members)


KERNELS = {op_type: kernel_of(op_type, kind) for op_type, kind in KINDS.items()}
