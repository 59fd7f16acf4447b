"""Which bytes of global memory a core touches again, and what it touches in between.

That decides what L2 serves. A loop that doesn't move an address touches the same bytes in each
turn; one that moves it by ``index // n`` does so ``n`` turns in a row, by ``index % n`` after ``n``
turns.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from npusim.engine.program import Instruction, Reuse

# How a loop moves an address: over how many places, and after how many turns it is back at one.
# Without an entry it stays where it is.
Cycle = tuple[int, int]
EVER_NEW: Cycle = (0, 0)


@dataclass(slots=True)
class Touch:
    """A transfer as the loops around it see it.

    ``nbytes`` are the different bytes it touches in one turn of the innermost loop that is still
    open, ``fresh`` the share of its executions for which no loop left so far has explained when
    they touched their bytes before. Stores have no ``instruction``: nobody asks when their bytes
    were touched before.
    """

    instruction: Instruction | None
    buffer: int
    nbytes: float
    moves: Mapping[int, Cycle]
    fresh: float = 1.0

    def of(self, instruction: Instruction | None) -> Touch:
        """The same of another instruction."""
        return Touch(instruction, self.buffer, self.nbytes, self.moves, self.fresh)

    def bytes_in(self, depth: int, count: int, turns: int) -> float:
        """Different bytes in ``turns`` turns of the loop at ``depth``."""
        places, period = self.cycle(depth, count)
        seen = ceil(turns * places / count) if period == 1 else min(turns, places)
        return self.nbytes * seen

    def cycle(self, depth: int, count: int) -> Cycle:
        """Over how many places the loop at ``depth`` moves it, and after how many turns again."""
        places, period = self.moves.get(depth, (1, 1))
        return (places, period) if places else (count, count)


class Moved:
    """The bytes that have been moved of each buffer, now and at any time before.

    ``clock`` counts the changes.
    """

    __slots__ = ("_changed", "_history", "clock")

    def __init__(self) -> None:
        self.clock = 0
        self._history: dict[int, tuple[list[int], list[float]]] = {}  # when, and what from then on
        self._changed: dict[int, None] = {}  # buffers, the one that changed last at the end

    def copied(self) -> Moved:
        """The same, to go on from here."""
        found = Moved()
        found.clock, found._changed = self.clock, dict(self._changed)
        found._history = {
            buffer: ([*when], [*totals]) for buffer, (when, totals) in self._history.items()
        }
        return found

    def add(self, buffer: int, nbytes: float) -> None:
        """So many more bytes of a buffer, or fewer."""
        self.clock += 1
        history = self._history.get(buffer)
        if history is None:
            history = self._history[buffer] = [0], [0.0]
        when, totals = history
        when.append(self.clock)
        totals.append(totals[-1] + nbytes)
        self._changed.pop(buffer, None)
        self._changed[buffer] = None

    def since(self, clock: int) -> dict[int, float]:
        """Bytes of the buffers of which some have been moved since; only those are looked at."""
        found: dict[int, float] = {}
        for buffer in reversed(self._changed):
            when, totals = self._history[buffer]
            if when[-1] <= clock:
                break
            found[buffer] = totals[-1] - totals[bisect_right(when, clock) - 1]
        return dict(reversed(found.items()))


def leave(touches: Sequence[Touch], depth: int, count: int) -> None:
    """Make all touches of a loop what the next loop out sees of them."""
    between: dict[int, dict[int, float]] = {}  # by how many turns
    cycles = [touch.cycle(depth, count) for touch in touches]
    for touch, (places, period) in zip(touches, cycles, strict=True):
        again = 1.0 - places / count
        if again and touch.instruction is not None:
            if period not in between:
                between[period] = distinct(touches, depth, count, period)
            note(touch.instruction, touch.fresh * again, between[period])
    for touch, (places, _) in zip(touches, cycles, strict=True):
        touch.nbytes *= places
        touch.fresh *= 1.0 - (1.0 - places / count)


def distinct(touches: Iterable[Touch], depth: int, count: int, turns: int) -> dict[int, float]:
    """Different bytes per buffer that some turns of a loop touch."""
    found: dict[int, float] = {}
    for touch in touches:
        nbytes = touch.bytes_in(depth, count, turns)
        found[touch.buffer] = found.get(touch.buffer, 0.0) + nbytes
    return found


def note(instruction: Instruction, share: float, between: Mapping[int, float]) -> None:
    """Tell an instruction's transfer that a share of its executions touch bytes again."""
    transfer = instruction.transfer
    if transfer is None:
        return
    reuse = Reuse(share, tuple(between.items()))
    nearest = transfer.reuse_bytes
    instruction.transfer = transfer._replace(
        reuses=(*transfer.reuses, reuse),
        reuse_bytes=sum(between.values()) if nearest is None else nearest,
    )
