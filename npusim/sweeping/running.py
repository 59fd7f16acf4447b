"""Running a sweep: points go out in chunks, answers come in as they are ready.

A chunk takes about a second, by what the points of its operator took before: small enough for a
steady stream of results, large enough that neighbours, which have much work in common, mostly come
to the same worker. When a worker dies, the points that were under way are tried again one by one,
so that only the one that kills its worker is given up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final

import npusim
from npusim.hardware.loading import profile_names
from npusim.hardware.naming import load_profile
from npusim.sweeping.working import Answered, Chunk, Report, failed, work
from npusim.values.errors import RejectedError
from npusim.values.signals import hidden_from_children

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile
    from npusim.sweeping.executors import Crew
    from npusim.sweeping.points import Point

CHUNK_S: Final = 1.0
LARGEST_CHUNK: Final = 256
FIRST_CHUNK: Final = 4
CHUNKS_PER_WORKER: Final = 3
"""One that is worked on, and what waits so that no worker ever does."""

TRIES: Final = 2
"""How many workers a point may cost, alone, before it is given up."""


def run(
    points: Iterable[Point],
    chips: Mapping[str, Profile],
    crew: Crew,
    take: Callable[[Answered], None],
) -> None:
    """Have a crew answer the points; `take` gets each answer once, in the order of completion.

    Raises RejectedError when the workers run another npusim, or the cluster goes away. The crew
    is the caller's to close.
    """
    _Run(crew, _portable(chips), take, deque(points)).play()


def _portable(chips: Mapping[str, Profile]) -> dict[str, str | Profile]:
    """Chips as a worker gets them: built-in ones by name, the user's own as they are."""
    names = profile_names()
    return {
        key: chip.name if chip.name in names and load_profile(chip.name) == chip else chip
        for key, chip in chips.items()
    }


@dataclass
class _Run:
    """The state of one run: what waits, what is under way, what is under suspicion."""

    crew: Crew
    chips: Mapping[str, str | Profile]
    take: Callable[[Answered], None]
    waiting: deque[Point]
    pending: dict[Future[Report], tuple[Point, ...]] = field(default_factory=dict)
    arrived: SimpleQueue[Future[Report]] = field(default_factory=SimpleQueue)
    suspects: deque[Point] = field(default_factory=deque)
    tries: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)  # per point, by operator

    def play(self) -> None:
        """Until every point is answered."""
        while self.waiting or self.suspects or self.pending:
            self._hand_out()
            if lost := self._arrivals():
                self._recover(lost)

    def _hand_out(self) -> None:
        if self.suspects:
            if not self.pending:  # alone, so that there is no doubt who killed the worker
                self._submit((self.suspects.popleft(),))
            return
        workers = self.crew.workers
        while self.waiting and len(self.pending) < workers * CHUNKS_PER_WORKER:
            if not self._submit(self._next_chunk(workers)):
                return
            if not self.arrived.empty():
                return  # what is there already comes first

    def _next_chunk(self, workers: int) -> tuple[Point, ...]:
        """The next points, all of one operator; fewer towards the end, so that all end together."""
        op = self.waiting[0].op
        per_point_s = self.seconds.get(op)
        size = FIRST_CHUNK if per_point_s is None else round(CHUNK_S / max(per_point_s, 1e-6))
        share = -(-len(self.waiting) // (2 * workers))
        size = max(1, min(size, LARGEST_CHUNK, share))
        chunk: list[Point] = []
        while self.waiting and self.waiting[0].op == op and len(chunk) < size:
            chunk.append(self.waiting.popleft())
        return tuple(chunk)

    def _submit(self, points: tuple[Point, ...]) -> bool:
        """Hand over a chunk; False when the executor is found to be broken."""
        chips = {point.chip: self.chips[point.chip] for point in points}
        try:
            with hidden_from_children():  # it may start a worker
                future = self.crew.executor.submit(work, Chunk(npusim.__version__, chips, points))
                future.add_done_callback(self.arrived.put)
        except self.crew.lost:
            self.waiting.extendleft(reversed(points))
            if not self.pending:
                self.crew.renew()
            return False
        self.pending[future] = points
        return True

    def _arrivals(self) -> list[tuple[Point, ...]]:
        """Wait for a chunk and collect what has come; the points that are lost.

        Futures are not asked: Ctrl-C in the middle of that would leave them locked, and whoever
        has their results would wait for them for ever.
        """
        lost: list[tuple[Point, ...]] = []
        if self.pending:
            lost.append(self._collect(self.arrived.get()))
        while not self.arrived.empty():
            lost.append(self._collect(self.arrived.get()))
        return [points for points in lost if points]

    def _collect(self, future: Future[Report]) -> tuple[Point, ...]:
        """Pass on the answers of a chunk; its points, if they are lost with their worker."""
        points = self.pending.pop(future)
        try:
            report = future.result()
        except self.crew.lost:
            return points
        except CancelledError:
            raise RejectedError(
                "the cluster's scheduler has gone away", "Continue with --resume."
            ) from None
        for answered in report.answers:
            self.take(answered)
        op, latest = points[0].op, report.seconds / len(points)
        self.seconds[op] = (self.seconds.get(op, latest) + latest) / 2
        return ()

    def _recover(self, lost: list[tuple[Point, ...]]) -> None:
        """Wait for what is still under way, then put all lost points under suspicion."""
        alone = len(lost) == 1 and len(lost[0]) == 1 and not self.pending
        while self.pending:
            lost += self._arrivals()
        self.crew.renew()
        for point in (point for points in lost for point in points):
            if alone:
                self.tries[point.key] = self.tries.get(point.key, 0) + 1
            if self.tries.get(point.key, 0) < TRIES:
                self.suspects.append(point)
            else:
                why = f"its worker process died {TRIES} times, perhaps for want of memory"
                self.take(failed(point, "WorkerDied", why))
