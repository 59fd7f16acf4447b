"""Who touched which bytes of an on-chip memory, and whether flags put that in an order.

Every pipe has a clock for each pipe: how many of its instructions have certainly ended before the
next one of its own begins. Setting a flag hands the clocks on, waiting for it takes them over.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import numpy as np

from npusim.ascendc.mistakes import site
from npusim.engine.program import Pipe
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc.flat.memory import Memory
    from npusim.ascendc.recorder import Recorder

Clock = dict[Pipe, int]
_BLOCK = 32  # bytes that are told apart at first


class Extent(Protocol):
    """Bytes of an on-chip memory that an instruction touches."""

    @property
    def buffer(self) -> str: ...
    @property
    def held_in(self) -> Memory: ...
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def blocks(self) -> slice | NDArray[np.int64]:
        """The blocks of 32 bytes that have some of them."""

    @property
    def filled(self) -> NDArray[np.bool_]:
        """Which of them have been written."""

    def fill(self) -> None:
        """They have been written, all of them."""

    def check_usable(self) -> None: ...

    def addresses(self) -> NDArray[np.int64]:
        """The first byte of every element."""


class Order:
    """The order of one core's instructions; ``links`` puts what has none in order by itself."""

    def __init__(self, kernel: str, recorder: Recorder, *, links: bool = False) -> None:
        self.kernel, self._recorder, self._links = kernel, recorder, links
        self._clocks: dict[Pipe, Clock] = {pipe: defaultdict(int) for pipe in Pipe}
        self._issued: Clock = defaultdict(int)
        self._flags: dict[int, deque[Clock]] = defaultdict(deque)
        self._touched: dict[Memory, _Touched] = {}
        self.block, self.lane = 0, 0  # its block, and which of the cores runs that

    def issued(self, pipe: Pipe) -> None:
        """An instruction has been given to a pipe; the scalar unit gave it."""
        self._issued[pipe] += 1
        self._merge(pipe, self._clocks[Pipe.SCALAR])

    def issued_so_far(self) -> Clock:
        """How many instructions every pipe has been given."""
        return dict(self._issued)

    def number_of(self, pipe: Pipe) -> int:
        """The number of the instruction that a pipe was given last."""
        return self._issued[pipe]

    def has_ended(self, pipe: Pipe, number: int, seen: Pipe) -> bool:
        """Whether an instruction has certainly ended when ``seen`` begins its next one."""
        return number <= self._clocks[seen][pipe]

    def set(self, pipe: Pipe, flag: int) -> None:
        """``pipe`` sets a flag when it has done what it was given."""
        self._flags[flag].append({**self._clocks[pipe], pipe: self._issued[pipe]})

    def wait(self, pipe: Pipe, flag: int) -> None:
        """``pipe`` waits for a flag; one that was set at the beginning tells nothing."""
        if self._flags[flag]:
            self._merge(pipe, self._flags[flag].popleft())

    def join(self) -> None:
        """Everything issued from here on follows everything before."""
        for pipe in Pipe:
            self._merge(pipe, self._issued)

    @contextmanager
    def touching(
        self, pipe: Pipe, reads: Sequence[Extent] = (), writes: Sequence[Extent] = ()
    ) -> Iterator[None]:
        """What the instructions inside do, all on ``pipe``.

        Raises KernelError for bytes that nobody has written, for those that another pipe may still
        be at work on, and for operands of the vector unit that overlap in part.
        """
        self.check(pipe, reads, writes)
        yield
        self.note(pipe, reads, writes)

    def after_waits_of_vector(self) -> None:
        """The scalar unit is where the vector unit is: behind what that has waited for."""
        self._merge(Pipe.SCALAR, self._clocks[Pipe.VECTOR])

    def check(self, pipe: Pipe, reads: Sequence[Extent], writes: Sequence[Extent]) -> None:
        """Raise KernelError for what an instruction of a pipe must not touch."""
        for view in (*reads, *writes):
            view.check_usable()
        for view in reads:
            self._check_filled(view)
            self._check(pipe, view, writes=False)
        for view in writes:
            self._check(pipe, view, writes=True)
            if pipe is Pipe.VECTOR:
                self._check_apart(view, reads)

    def note(self, pipe: Pipe, reads: Sequence[Extent], writes: Sequence[Extent]) -> None:
        """The last instruction of a pipe has touched something."""
        number = self._issued[pipe]
        for view in reads:
            self._of(view).note(pipe, number, view, writes=False)
        for view in writes:
            self._of(view).note(pipe, number, view, writes=True)
            view.fill()

    def _merge(self, pipe: Pipe, clock: Clock) -> None:
        own = self._clocks[pipe]
        for other, number in clock.items():
            own[other] = max(own[other], number)

    def _of(self, view: Extent) -> _Touched:
        memory = view.held_in
        if memory not in self._touched:
            self._touched[memory] = _Touched(memory.nbytes)
        return self._touched[memory]

    def _check_apart(self, target: Extent, reads: Sequence[Extent]) -> None:
        for view in reads:
            apart = view.end <= target.start or target.end <= view.start
            if view.held_in is not target.held_in or apart or view.start == target.start:
                continue
            if not np.intersect1d(view.addresses(), target.addresses()).size:
                continue
            raise KernelError(
                self.kernel,
                f"{target.buffer} is written from byte {target.start} on and read from byte "
                f"{view.start} on by one instruction: they overlap in part, and what is read may "
                "be old or new",
                "Let operands lie at one place or apart: write to another tensor first.",
            )

    def _check_filled(self, view: Extent) -> None:
        if view.filled.all():
            return
        missing = int(view.filled.size - np.count_nonzero(view.filled))
        raise KernelError(
            self.kernel,
            f"{view.buffer} is read, but nothing has written {missing} of its "
            f"{view.filled.size} bytes",
            "Copy or compute all of it first, or work on fewer elements.",
        )

    def _check(self, pipe: Pipe, view: Extent, *, writes: bool) -> None:
        clock = self._clocks[pipe]
        for other, number, place, wrote in self._of(view).conflicts(pipe, clock, view, writes):
            if number <= clock[other] or other is Pipe.SCALAR:
                continue  # what the scalar unit has done is done when it issues the next one
            if self._links:
                self._recorder.link(other, pipe)
                continue
            did, does = ("written" if wrote else "read"), ("writes" if writes else "reads")
            raise KernelError(
                self.kernel,
                f"{pipe} {does} {view.buffer} while {other} may not have {did} it yet ({place}): "
                "nothing orders the two",
                f"Set a flag {_event(other, pipe)} behind that line and wait for it here, or pass "
                "the tile through a queue.",
            )


def _event(first: Pipe, then: Pipe) -> str:
    names = {Pipe.SCALAR: "S", Pipe.VECTOR: "V", Pipe.CUBE: "M", Pipe.FIXP: "FIX"}
    return f"{names.get(first, str(first))}_{names.get(then, str(then))}"


class _Touched:
    """The last instruction of each pipe that read and wrote every block of a memory."""

    def __init__(self, nbytes: int) -> None:
        self._blocks = -(-nbytes // _BLOCK)
        self._last: dict[tuple[Pipe, bool], np.ndarray[tuple[int], np.dtype[np.int64]]] = {}
        self._spans: dict[tuple[Pipe, bool, int], tuple[int, int, str]] = {}

    def note(self, pipe: Pipe, number: int, view: Extent, *, writes: bool) -> None:
        key = (pipe, writes)
        if key not in self._last:
            self._last[key] = np.zeros(self._blocks, np.int64)
        self._last[key][view.blocks] = number
        self._spans[pipe, writes, number] = (view.start, view.end, site())

    def conflicts(
        self, pipe: Pipe, clock: Clock, view: Extent, writes: bool
    ) -> Iterator[tuple[Pipe, int, str, bool]]:
        """Instructions of other pipes that may not have ended: pipe, number, line, if it wrote."""
        blocks = view.blocks
        for (other, wrote), last in self._last.items():
            if other is pipe or not (writes or wrote):
                continue
            numbers = last[blocks]
            if not numbers.size or numbers.max() <= clock[other]:
                continue
            for number in np.unique(numbers[numbers > clock[other]])[::-1].tolist():
                start, end, place = self._spans[other, wrote, number]
                if start < view.end and view.start < end:
                    yield other, number, place, wrote
