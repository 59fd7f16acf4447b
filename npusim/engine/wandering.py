"""Loops that never repeat to the cycle, though every period takes about as long as the last.

Where the cores of a cluster hand each other work, who is served first may go round for ever: the
same pipes are at the same steps after every few iterations, but not at quite the same moment. When
several periods in a row have hardly differed, the rest of the loop is taken to last as long as
their mean. Cores that don't wait for each other have paces of their own and aren't meant.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from npusim.engine.checkpoints import Checkpoint, Step, go_on
from npusim.engine.state import Stage

if TYPE_CHECKING:
    from npusim.engine.state import State

_PATIENCE = 16  # iterations that are played before: others repeat to the cycle until then
_SETTLED = 6  # periods in a row that are compared
_SPREAD = 2e-3  # of a period, between the longest and the shortest of them


class Wandering:
    """The last periods of every loop, and jumps over those that are left.

    Only where all cores are ``tied``, those of one cluster.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._periods: dict[tuple[int, int], deque[float]] = {}
        clusters = {group.group.cluster for group in state.groups}
        self.tied = len(clusters) == 1 and None not in clusters

    def forget(self) -> None:
        """Nothing that was seen holds any more."""
        self._periods.clear()

    def jump(
        self, serial: int, played: int, earlier: Checkpoint, now: Checkpoint, progress: list[Step]
    ) -> bool:
        """Jump to the last iterations of the loops that everybody is in; False if that fails."""
        steps = {step for run, step in progress if run is not None}
        if not self.tied or len(steps) != 1 or not self._together(earlier, now, progress):
            return False
        period = now.time - earlier.time
        key = serial, steps.pop()
        lengths = self._periods.setdefault(key, deque(maxlen=_SETTLED))
        lengths.append(period)
        mean = sum(lengths) / len(lengths)
        if played < _PATIENCE or len(lengths) < _SETTLED:
            return False
        if max(lengths) - min(lengths) > _SPREAD * mean:
            return False
        periods = min(
            (run.loop.count - 1 - max(member.turns[run.level] for member in run.members)) // step
            for run, step in progress
            if run is not None
        )
        if periods < 1:
            return False
        go_on(self._state, earlier, now, progress, periods, mean)
        return True

    def _together(self, earlier: Checkpoint, now: Checkpoint, progress: list[Step]) -> bool:
        """Whether nobody is left out, and as many flags are set as before."""
        if (
            any(step == 0 for _, step in progress)
            or earlier.remaining.keys() != now.remaining.keys()
        ):
            return False
        period = now.time - earlier.time
        if any(
            pipe.stage not in (Stage.FINISHED, Stage.MEETING) and due > now.now + period
            for pipe, due in zip(now.pipes, now.due, strict=True)
        ):
            return False
        return all(
            {flag: len(times) for flag, times in before.items()}
            == {flag: len(times) for flag, times in after.items()}
            for before, after in zip(earlier.flags, now.flags, strict=True)
        )
