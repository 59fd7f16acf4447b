"""When the code of a kernel in Python counts as endless.

A loop of ``core.loop`` says how many turns it has, so it ends, however long that takes. Code that
gives a core instruction after instruction without one, or one such loop after another, may not.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from time import thread_time

from npusim.values.errors import KernelError

SECONDS_VARIABLE = "NPUSIM_KERNEL_SECONDS"
MOST_INSTRUCTIONS = 400_000  # in a turn, which may take any time
MOST_SECONDS = 40  # of a processor, from the turn's beginning, when there are more
MOST_LOOPS = 1_000  # in a turn, whose instructions don't count
_BETWEEN = 1_024  # instructions from a look at the clock to the next


@dataclass(slots=True)
class Turn:
    """What the code has been given since a turn of its innermost loop began."""

    since: float = 0.0  # when the clock was first looked at: to ask it takes longer than all else
    instructions: int = 0
    before: int = 0  # in earlier turns of the loop
    loops: int = 0
    next_look: int = _BETWEEN


class Allowance:
    """What the code of one core asks for, in the ``turns`` around it."""

    def __init__(self) -> None:
        self.turns = [Turn()]

    def begin_loop(self) -> None:
        """What follows are turns of a loop that ends."""
        self.turns.append(Turn())

    def next_turn(self) -> None:
        """The loop's next turn begins."""
        last = self.turns[-1]
        self.turns[-1] = Turn(before=last.before + last.instructions)

    def end_loop(self) -> None:
        """The loop is over; of many in a turn the instructions count after all."""
        inner, outer = self.turns.pop(), self.turns[-1]
        outer.loops += 1
        if outer.loops > MOST_LOOPS:
            outer.instructions += inner.before + inner.instructions
            self.look(outer)

    def look(self, turn: Turn) -> None:
        """Raise KernelError if the code doesn't seem to end; asked from ``next_look`` on."""
        if turn.instructions < turn.next_look:
            return
        turn.next_look = turn.instructions + _BETWEEN
        now = thread_time()
        turn.since = turn.since or now
        most = int(os.environ.get(SECONDS_VARIABLE) or MOST_SECONDS)
        if turn.instructions > MOST_INSTRUCTIONS and now - turn.since > most:
            raise KernelError(
                "",
                f"a core is given more than {MOST_INSTRUCTIONS:,} instructions in more than "
                f"{most} s of a processor: its code doesn't seem to end",
                "End the loop around this line, or write it as core.loop(count), which says how "
                f"often; or allow more seconds with {SECONDS_VARIABLE}.",
            )
