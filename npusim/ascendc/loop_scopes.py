"""Which numbers a loop may see: its iterations are computed at once, each in memory of its own.

A loop that isn't sequential is a scope. Scratch memory belongs to the scope in which it was
fetched; read in another one than it was written in, it would hold other numbers than on the chip.
"""

from __future__ import annotations

from typing import NoReturn

from npusim.values.errors import TileStateError


class LoopScopes:
    """The scopes that are open on a core, and in which of them scratch memory was last written.

    ``open`` has a scope for each depth of loops, ``filled`` one for each slot of scratch memory.
    """

    __slots__ = ("_begun", "_kernel", "filled", "open")

    def __init__(self, kernel: str) -> None:
        self._kernel = kernel
        self._begun = 0
        self.open = [0]
        self.filled: dict[object, int] = {}

    def begin(self, *, at_once: bool) -> None:
        """A loop begins, whose iterations are computed ``at_once`` or one by one."""
        self._begun += at_once
        self.open.append(self._begun if at_once else self.open[-1])

    def end(self) -> None:
        self.open.pop()

    def check_home(self, home: int, scope: int, what: str) -> None:
        """Refuse numbers of the scope ``scope`` at depth ``home`` if another one is open there."""
        self._refuse_ended(home, what)
        if self.open[home] != scope:
            raise TileStateError(
                self._kernel,
                f"{what} is carried from one iteration to the next of a loop whose iterations are "
                "computed at once",
                "Loop with sequential=True to carry numbers from iteration to iteration.",
            )

    def refuse_read(self, slot: object, home: int, buffer: str) -> NoReturn:
        """Raise for scratch memory, fetched at depth ``home``, that has no numbers of its scope."""
        self._refuse_ended(home, buffer)
        if slot not in self.filled:
            raise TileStateError(
                self._kernel,
                f"{buffer} is read before anything is written to it",
                "Fill it first, e.g. with core.duplicate or a copy.",
            )
        raise TileStateError(
            self._kernel,
            f"{buffer} carries numbers into or out of a loop whose iterations are computed at "
            "once: this read would not see what was written last",
            "Loop with sequential=True to carry numbers from iteration to iteration; to read "
            "what was there before the loop, fetch the tensor (get) before it.",
        )

    def refuse_write(self, depth: int, buffer: str) -> NoReturn:
        """Raise for memory, fetched at ``depth``, that all iterations of a loop share."""
        self._refuse_ended(depth, buffer)
        raise TileStateError(
            self._kernel,
            f"{buffer} is written in a loop and shared by all its iterations, which are "
            "computed at once",
            "Loop with sequential=True if iterations build on each other (sums, maxima); "
            "else allocate it in the loop or index it with the loop's index.",
        )

    def _refuse_ended(self, depth: int, buffer: str) -> None:
        if depth >= len(self.open):
            raise TileStateError(
                self._kernel,
                f"{buffer} is used behind the loop in which it was fetched",
                "Fetch it again (alloc_tensor, get) behind the loop, or before it.",
            )
