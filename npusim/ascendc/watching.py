"""Whether the iterations of a loop in somebody's own kernel are alike, as ``core.loop`` takes them.

A loop's body is executed for its first iteration and then for all others at once. What it asks of
the core has to be the same both times, and so have the plain values that it leaves in variables:
else it carries something from one iteration to the next, and is refused. Loops with
``sequential=True`` may; theirs are written down one by one, and alike neighbours are counted.
Without numbers they end early: two iterations in a row that asked for the same, not for their
number, and left the same behind are followed by others like them.
"""

from __future__ import annotations

from contextlib import nullcontext
from math import prod
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from npusim.ascendc.carried import UnknownStateError, everything, loops_itself, plain_values
from npusim.ascendc.core import Core
from npusim.ascendc.crossings import Access, conflict
from npusim.ascendc.gm_slices import GmSlice
from npusim.ascendc.loops import IndexArray, LoopIndex
from npusim.ascendc.mistakes import frame_of_kernel, site
from npusim.ascendc.tensors import LocalTensor
from npusim.ascendc.turns import Questions, Turn, UnaskedTurn
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from npusim.ascendc.recorder import Frame

Log = list[object]

_PLAIN = (bool, int, float, complex, str, bytes, type(None), np.generic)
_MOST_TRIED = 16  # iterations after which nobody looks any more whether they have become alike
_CARRIES = (
    "Loop with sequential=True, whose iterations are executed one by one, or compute what differs "
    "from the loop's index."
)
_STOPS = "Loop over fewer iterations (core.loop(n)), or with sequential=True, which may be left."


class WatchedCore(Core):
    """A core that runs somebody's own code."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.own_code = True
        self.logs: list[Log] = [[]]  # what was asked for, in the turns of the loops around
        self._reals: list[list[float]] = [[]]  # with which numbers, which cost nothing
        self._copies: list[list[Access]] = [[]]  # the same of copies from and to global memory
        self._rehearses = False
        self._left: KernelError | None = None

    def check_loops(self) -> None:
        """Raise KernelError if a loop was left before its end."""
        if self._left is not None:
            raise self._left

    def touched(self, place: object, *, writes: bool = False, adds: bool = False) -> None:
        """Remember a copy until the turn of the loop around it has ended."""
        if self.depth and isinstance(place, GmSlice):
            self._copies[-1].append(Access(place, self.depth, writes, adds, site()))

    def loop(
        self,
        count: int,
        *,
        sequential: bool = False,
        accumulates: bool = False,
        inner_bytes: int = 0,
        at_once: int = 0,
        alike: Hashable = None,
    ) -> Iterator[LoopIndex]:
        """As :meth:`Core.loop`, for iterations that may not be alike."""
        frame = frame_of_kernel()
        if frame is None:
            return super().loop(
                count,
                sequential=sequential,
                accumulates=accumulates,
                inner_bytes=inner_bytes,
                at_once=at_once,
                alike=alike,
            )
        if self.reference or sequential or accumulates or at_once == 1:
            return self._one_by_one(count, may_end=loops_itself(frame))
        return self._alike(count, inner_bytes, at_once)

    def _alike(self, count: int, inner_bytes: int, at_once: int) -> Iterator[LoopIndex]:
        """Iterations that are computed at once."""
        self.check_loops()
        if count <= 0:
            return
        if count == 1:
            yield from self._together(1, [(0, 1)], apart=False)
        else:
            executed = count if self.numerics else 1 if self._rehearses else 2
            first = 0 if self._rehearses else 1
            step = at_once or self._batch(count, inner_bytes)
            turns = [(0, 1)] * first
            turns += [(each, min(each + step, executed)) for each in range(first, executed, step)]
            yield from self._together(count, turns, apart=True)

    def repeats_since(self, depth: int) -> int:
        """As :meth:`Core.repeats_since`: what is executed one by one repeats nothing."""
        scopes = self.scopes.open
        return prod(
            index.count
            for place, index in enumerate(self.loops)
            if place >= depth and scopes[place] != scopes[place + 1]
        )

    def _together(
        self, count: int, turns: list[tuple[int, int]], *, apart: bool
    ) -> Iterator[LoopIndex]:
        """Iterations that are executed from one up to another, each pair at once."""
        depth, recording, rehearses = self.depth, self.recording, self._rehearses
        first: _Turn | None = None
        if recording:
            self.recorder.enter_loop(count)
        if apart:
            self.chain.run()
        for number, turn in enumerate(turns):
            again = recording and number == 1 and not rehearses
            self.recording = recording and (number == 0 or again)
            self._rehearses = rehearses or again
            with self.recorder.rehearsed() if again else nullcontext():
                self._begin_watched(LoopIndex(depth, *turn, count), apart=apart)
                try:
                    yield self.loops[-1]
                except GeneratorExit:
                    self._leave_early(count, recording=recording and number == 0)
                    self.recording, self._rehearses = recording, rehearses
                    return
                log, reals = self._end_watched(apart=apart)
                found = _Turn(log, reals, plain_values() if self.recording else {})
            if recording and number == 0:
                self.recorder.leave_loop(count, depth)
                self.logs[-1].append(("loop", count, found.log))
                self._reals[-1] += found.reals
                first = found
            elif again and first is not None:
                first.compare(found)
            self.recording, self._rehearses = recording, rehearses
        self._last_written = None

    def _one_by_one(self, count: int, *, may_end: bool) -> Iterator[LoopIndex]:
        """Iterations that are executed and written down one by one; alike neighbours are counted.

        A body that leaves the loop before its end has had as many iterations as it had. Where it
        ``may_end``, iterations that are sure to be alike are counted without being executed.
        """
        self.check_loops()
        depth, runs, left = self.depth, _Runs(self), False
        counted = self.recording and not self.reference
        steady = _Steady(may_end and counted and not self.numerics)
        if counted and count > 0:
            self.recorder.enter_loop()
        turn, allowance = 0, self.recorder.allowance
        allowance.begin_loop()
        while turn < count and not left:
            allowance.next_turn()
            if counted and turn:
                self.recorder.next_turn()
            index = LoopIndex(depth, turn, turn + 1, count)
            self._begin_watched(index, apart=False)
            try:
                yield cast("LoopIndex", steady.number(index))
            except GeneratorExit:
                left = True
            log, reals = self._end_watched(apart=False)
            self._reals[-1] += reals
            if counted:
                runs.add(self.recorder.leave_turn(), log)
            turn += 1
            if not left and turn < count - 1 and steady.goes_on_so(log):
                runs.repeat(count - 1 - turn)
                self._reals[-1] += reals * (count - 1 - turn)
                turn = count - 1  # so that variables are what the last one leaves
        runs.close(depth)
        allowance.end_loop()
        self._last_written = None

    def _begin_watched(self, index: LoopIndex, *, apart: bool) -> None:
        self._begin_turn(index, apart=apart)
        self.logs.append([])
        self._reals.append([])
        self._copies.append([])

    def _end_watched(self, *, apart: bool) -> tuple[Log, list[float]]:
        """End a turn, in whose iterations copies must not meet; what was asked for, with what."""
        index, copies = self.loops[-1], self._copies.pop()
        self._end_turn(apart=apart)
        if index.last - index.first > 1:
            found = conflict(copies, self.depth)
            if found is not None:
                _refuse_crossing(*found)
        if self.depth:
            self._copies[-1] += copies
        return self.logs.pop(), self._reals.pop()

    def note(self, name: str, operands: tuple[Any, ...], named: dict[str, Any]) -> None:
        """An intrinsic is asked for."""
        given = (*operands, *named.values())
        reals = [float(each) for each in given if isinstance(each, float | np.floating)]
        self._reals[-1] += reals
        told = tuple([_told(self, each) for each in given])
        self.logs[-1].append((name, site(), *named, told))

    def _leave_early(self, count: int, *, recording: bool) -> None:
        """The body leaves the loop; which is all that a loop of one iteration has."""
        self._copies[-1].clear()
        self._end_watched(apart=False)
        if recording:
            self.recorder.leave_loop(count, self.depth)
        if count > 1:
            self._left = KernelError(
                self.kernel_name,
                "a loop is left before its end (break, return), but its iterations are computed "
                "at once",
                _STOPS,
            )


class _Turn:
    """What was asked for in a turn, and the plain values in variables behind it."""

    def __init__(self, log: Log, reals: list[float], state: dict[str, Hashable]) -> None:
        self.log, self.reals, self._state = log, reals, state

    def compare(self, other: _Turn) -> None:
        """Raise KernelError where the next turn is another."""
        for name, value in self._state.items():
            if other._state.get(name, value) != value:
                raise KernelError(
                    "",
                    f"{name} changes from iteration to iteration of a loop whose iterations are "
                    "computed at once: they would all see the same",
                    _CARRIES,
                )
        if self.log != other.log or not np.array_equal(self.reals, other.reals, equal_nan=True):
            pairs = zip(self.log, other.log, strict=False)
            places = [str(one[1]) for one, two in pairs if one != two and isinstance(one, tuple)]
            raise KernelError(
                "",
                "the second iteration of a loop does something else than the first, but its "
                "iterations are computed at once",
                _CARRIES,
                site=places[0] if places and ":" in places[0] else "",
            )


class _Steady:
    """Whether all further turns of a loop that is executed one by one do what the last one did."""

    def __init__(self, looks: bool) -> None:
        self._looks, self._turns = looks, 0
        self._questions = Questions()
        self._before: tuple[Log, Hashable] | None = None

    def number(self, index: LoopIndex) -> Turn | UnaskedTurn:
        """What the body gets as its number."""
        return UnaskedTurn(index, self._questions) if self._looks else Turn.of(index)

    def goes_on_so(self, log: Log) -> bool:
        """Whether a turn that asked for ``log`` began and ended as the next one will."""
        self._turns += 1
        self._looks = self._looks and not self._questions.asked and self._turns < _MOST_TRIED
        frame = frame_of_kernel() if self._looks else None
        if frame is None:
            return False
        try:
            now = log, everything(frame)
        except UnknownStateError:
            self._looks = False
            return False
        same, self._before = now == self._before, now
        return same


class _Runs:
    """The turns of a loop that is written down one by one, as neighbours that are alike."""

    def __init__(self, core: WatchedCore) -> None:
        self._core = core
        self._held: tuple[Frame, Log, int] | None = None

    def add(self, frame: Frame, log: Log) -> None:
        """Another turn."""
        if self._held is not None and self._held[1] == log:
            self._held = (*self._held[:2], self._held[2] + 1)
            return
        self.close(self._core.depth)
        self._held = frame, log, 1

    def repeat(self, times: int) -> None:
        """So many more turns like the last one."""
        if self._held is not None:
            self._held = (*self._held[:2], self._held[2] + times)

    def close(self, depth: int) -> None:
        """Write down the neighbours that have come so far."""
        if self._held is not None:
            frame, log, count = self._held
            self._core.recorder.close_loop(frame, count, depth)
            self._core.logs[-1].append(("loop", count, log))
            self._held = None


def _refuse_crossing(first: Access, second: Access) -> None:
    name = second.place.tensor.buffer.name
    how = [
        "add to" if each.adds else "store to" if each.writes else "read" for each in (first, second)
    ]
    raise KernelError(
        "",
        f"iterations of a loop that are computed at once meet in {name}: some {how[0]} what "
        f"earlier ones {how[1]} ({second.site})",
        "Loop with sequential=True, whose iterations are executed one by one.",
        site=first.site,
    )


def _told(core: WatchedCore, value: object) -> Hashable:
    """An operand, as far as it is the same in all turns of the loops around."""
    if isinstance(value, LocalTensor):
        slot = value.slot if value.tile is None else value.buffer
        return slot, value.dtype.name, value.shape, value.part
    if isinstance(value, GmSlice):
        return value.pattern(core.loops)
    if isinstance(value, LoopIndex | IndexArray):
        return value.key
    if isinstance(value, Turn):  # an UnaskedTurn says that it is one
        return value.index.key
    if isinstance(value, float | np.floating):
        return "number"
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, list | tuple):
        return tuple(_told(core, each) for each in value)
    return type(value).__name__


WatchedCore.__name__ = Core.__name__  # what Python calls it in errors


def _logged(name: str) -> Callable[..., Any]:
    """An intrinsic that is noted before it is executed."""

    def call(self: WatchedCore, *operands: Any, **named: Any) -> Any:
        if self.recording and self.depth and not self.reference:
            self.note(name, operands, named)
        return getattr(super(WatchedCore, self), name)(*operands, **named)

    call.__name__ = name
    return call


def _intrinsics() -> Iterator[str]:
    """The names of what a core is asked for by a kernel's code."""
    for kind in Core.__mro__:
        if ".intrinsics." in kind.__module__ or kind.__name__ == "Crossing":
            for name, found in vars(kind).items():
                if not name.startswith("_") and callable(found):
                    yield name


for _name in {*_intrinsics(), "pipe_barrier", "separately"}:
    setattr(WatchedCore, _name, _logged(_name))
