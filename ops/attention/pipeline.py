"""The order in which the cores of a cluster go through the rounds of attention."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from npusim.ops.attention.steps import Typical, own_steps

if TYPE_CHECKING:
    from collections.abc import Iterator

    from npusim.ascendc import Core
    from npusim.ascendc.cluster import CoreWait
    from npusim.engine.program import Barrier
    from npusim.ops.attention.blocks import Dealing
    from npusim.ops.attention.steps import Job, Step

    Steps = Iterator[Barrier | CoreWait]


class Side(Protocol):
    """What one core does in a round, before and after the other side has had its turn."""

    def begin(self, job: Job) -> Steps: ...

    def finish(self, job: Job) -> Steps: ...


class Pipeline:
    """One side's order: if it is ``ahead``, it begins a round before it finishes the one before."""

    def __init__(self, core: Core, side: Side, lane: int | None, *, ahead: bool = True) -> None:
        self._core, self._side, self._lane, self._ahead = core, side, lane, ahead

    def run(self, dealing: Dealing) -> Steps:
        """All rounds of the core's cluster; loops that stand for them are written down."""
        core, cluster = self._core, self._core.get_block_idx()
        yield from core.separate_steps(
            lambda: (
                self.in_turn(own_steps(dealing, cluster))
                if core.reference
                else self.in_loops(Typical(dealing))
            ),
            lambda: self.in_turn(own_steps(dealing, cluster)),
        )

    def in_turn(self, steps: Iterator[Step]) -> Steps:
        """All steps by themselves."""
        begun: dict[int, Job] = {}
        for step in steps:
            if not self._ahead:
                yield from self._whole(step)
                continue
            jobs = self._own(step)
            for job in jobs:
                yield from self._side.begin(job)
            for job in jobs:
                if job.lane in begun:
                    yield from self._side.finish(begun[job.lane])
                begun[job.lane] = job
        for job in begun.values():
            yield from self._side.finish(job)

    def in_loops(self, typical: Typical) -> Steps:
        """What stands for them: the last one is begun first, where one is ahead."""
        steps = typical.steps(self._core)
        if not self._ahead:
            for step in steps:
                yield from self._whole(step)
            yield from self._whole(typical.last)
            return
        for job in self._own(typical.last):
            yield from self._side.begin(job)
        for step in steps:
            yield from self._whole(step)
        for job in self._own(typical.last):
            yield from self._side.finish(job)

    def _whole(self, step: Step) -> Steps:
        for job in self._own(step):
            yield from self._side.begin(job)
        for job in self._own(step):
            yield from self._side.finish(job)

    def _own(self, step: Step) -> list[Job]:
        return [job for job in step if self._lane in (None, job.lane)]
