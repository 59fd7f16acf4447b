"""What ranks send each other, as a task of its own: HcomAllReduce, HcomAllGather and others.

The links and what HCCL chooses tell how long it takes (:mod:`npusim.cluster`). What other ranks
have isn't known: they are taken to have the same tensor as this one, which is the first of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from npusim.ascendc.ai_cpu import AiCpuKernel
from npusim.ascendc.task import Task, made
from npusim.cluster.collectives import duration_us
from npusim.hardware.interconnect import interconnect_of

if TYPE_CHECKING:
    from npusim.ascendc import Core, GlobalTensor
    from npusim.hardware.interconnect import Interconnect

_REDUCTIONS = {"sum": np.add, "max": np.maximum, "min": np.minimum, "prod": np.multiply}
MOST_RANKS = 4096


class Exchange(AiCpuKernel):
    """One collective; it takes ``duration_us``."""

    runs_on: ClassVar[str] = "HCCL"

    def __init__(
        self, op_type: str, x: GlobalTensor, y: GlobalTensor, duration_us: float, compute: Any
    ) -> None:
        super().__init__(op_type, (x,), (y,), 0.0, compute)
        self.duration_us = duration_us

    def take_time(self, core: Core) -> None:
        """As long as the links take."""
        core.elsewhere("hccl", self.duration_us)


def links_of(task: Task) -> Interconnect:
    """The links between chips of this kind; KernelError where nobody knows them."""
    return interconnect_of(task.profile.name)


def all_reduce(task: Task) -> tuple[Exchange, ...]:
    """y = x of all ranks reduced."""
    (x,), ranks = task.present(1), _ranks(task)
    y = task.outputs[0] if task.outputs else made(x.shape, x.dtype)
    _check(task, y, x.shape)
    return (_exchange(task, "allreduce", x, y, x.nbytes, _reduced(task, ranks)),)


def all_gather(task: Task) -> tuple[Exchange, ...]:
    """y = x of all ranks, one below the other."""
    (x,), ranks = task.present(1), _ranks(task)
    shape = (ranks * x.shape[0], *x.shape[1:]) if x.shape else (ranks,)
    y = task.outputs[0] if task.outputs else made(shape, x.dtype)
    _check(task, y, shape)
    return (_exchange(task, "allgather", x, y, x.nbytes, lambda each: [_repeated(each, ranks)]),)


def reduce_scatter(task: Task) -> tuple[Exchange, ...]:
    """y = this rank's part of x of all ranks reduced."""
    (x,), ranks = task.present(1), _ranks(task)
    if not x.shape or x.shape[0] % ranks:
        raise task.refused(f"{x.shape} can't be cut into {ranks} parts")
    rows = x.shape[0] // ranks
    y = task.outputs[0] if task.outputs else made((rows, *x.shape[1:]), x.dtype)
    _check(task, y, (rows, *x.shape[1:]))
    reduced = _reduced(task, ranks)
    part = lambda each: [found[:rows] for found in reduced(each)]  # noqa: E731
    return (_exchange(task, "reducescatter", x, y, x.nbytes / ranks, part),)


def _exchange(
    task: Task, operation: str, x: GlobalTensor, y: GlobalTensor, nbytes: float, compute: Any
) -> Exchange:
    took_us = duration_us(operation, links_of(task), _ranks(task), nbytes, in_graph=False)
    return Exchange(task.op_type, x, y, took_us, compute)


def _ranks(task: Task) -> int:
    links = links_of(task)
    ranks = task.whole_number("rank_size", links.server_ranks)
    if not 1 <= ranks <= MOST_RANKS:
        raise task.refused(f"{ranks} ranks")
    return ranks


def _reduced(task: Task, ranks: int) -> Any:
    """What equal tensors of all ranks come to."""
    named = task.first("reduction") or "sum"
    if named not in _REDUCTIONS:
        raise task.refused(f"reduction {named!r}; {', '.join(_REDUCTIONS)} are known")

    def reduced(each: Any) -> Any:
        total = each.astype(np.float32) if each.dtype.itemsize == 2 else each
        found = total
        for _ in range(ranks - 1):
            found = _REDUCTIONS[str(named)](found, total)
        return [found.astype(each.dtype)]

    return reduced


def _repeated(each: Any, ranks: int) -> Any:
    return np.concatenate([each] * ranks)


def _check(task: Task, y: GlobalTensor, shape: tuple[int, ...]) -> None:
    if y.shape != shape:
        raise task.unfit(f"a result of {y.shape}; {shape} comes out")
