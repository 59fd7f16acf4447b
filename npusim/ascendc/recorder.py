"""Writes down the instruction stream of one core while a kernel's code runs.

Dependencies between pipes become flags. Three kinds arise by themselves, as on the chip: what a
scalar instruction computes or decides holds back everything issued after it; a scalar that reads a
vector result waits for it; and queues carry their own flags. Everything else is the kernel's
``set_flag`` and ``wait_flag``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from npusim.ascendc.allowance import Allowance
from npusim.ascendc.mistakes import site
from npusim.ascendc.reuse import Cycle, Moved, Touch, leave, note
from npusim.engine.program import Barrier, Instruction, Loop, Node, Pipe, Program, Transfer
from npusim.values.errors import KernelError

_SCALAR, _VECTOR = Pipe.SCALAR, Pipe.VECTOR  # quicker than by their class


@dataclass(slots=True)
class Frame:
    """The body being written.

    Last instruction per pipe, and who has not yet waited for the scalar unit.
    """

    body: list[Node] = field(default_factory=list)
    last: dict[Pipe, Instruction | None] = field(default_factory=dict)
    behind_scalar: set[Pipe] = field(default_factory=set)
    touches: list[Touch] = field(default_factory=list)
    moved: dict[int, float] = field(default_factory=dict)  # bytes per buffer, each counted once


class _Flagged(NamedTuple):
    """A flag that a pipe of a passage sets, or waits for."""

    pipe: Pipe
    flag: int
    sets: bool


class Passage(NamedTuple):
    """Instructions without transfers, and flags, as they were written down from a ``site``.

    Instructions of that line stand for the line that comes to them when they are repeated.
    """

    site: str
    parts: Sequence[Instruction | _Flagged]


class Watcher(Protocol):
    """Who follows the order of instructions while they are written down."""

    def issued(self, pipe: Pipe) -> None: ...
    def set(self, pipe: Pipe, flag: int) -> None: ...
    def wait(self, pipe: Pipe, flag: int) -> None: ...
    def join(self) -> None: ...


class Recorder:
    """Builds one :class:`Program`; ``watcher`` is told about every step."""

    def __init__(self, pipes: tuple[Pipe, ...], program: Program) -> None:
        self.program = program
        self.watcher: Watcher | None = None
        self.home = ""  # the line that instructions stand for which no line of a kernel gives
        self.allowance = Allowance()
        self._pipes = pipes
        self._others = tuple(pipe for pipe in pipes if pipe is not _SCALAR)
        self._frames = [Frame(self.program.body)]
        self._pending: dict[Pipe, tuple[int, ...]] = {}
        self._vector_unread = False
        self._first_touch: dict[tuple[object, ...], int] = {}  # by the clock of what was moved
        self._moved = Moved()
        self._noted: list[Instruction | _Flagged] | None = None  # of a passage

    def passage(self, work: Callable[[], object]) -> Passage | None:
        """Write down ``work``; what :meth:`repeat` takes to do so again.

        None where it is more than instructions without transfers, and flags.
        """
        noted: list[Instruction | _Flagged] = []
        self._noted = noted
        work()
        whole, self._noted = self._noted is noted, None
        return Passage(site() or self.home, noted) if whole else None

    def repeat(self, passage: Passage, times: int) -> None:
        """Write down so many times more what has been written down."""
        if times > 1:
            self.enter_loop(times, {each.pipe for each in passage.parts})
            self.repeat(passage, 1)
            self.leave_loop(times, 0)  # which moves nothing
            return
        place = site() or self.home
        for each in passage.parts:
            if isinstance(each, Instruction):
                line = place if each.site == passage.site else each.site
                self._emit(
                    Instruction(each.pipe, each.name, each.cycles, None, (), (), each.detail, line)
                )
            elif each.sets:
                self.set_flag(each.pipe, each.flag)
            else:
                self.wait_flag(each.pipe, each.flag)

    def new_flag(self, initial: int = 0, name: str = "") -> int:
        """A flag that is set ``initial`` times; ``name`` is what an error calls it."""
        self._noted = None
        return self._new_flag(initial, name)

    def _new_flag(self, initial: int = 0, name: str = "") -> int:
        number = len(self.program.flags)
        self.program.flags.append(initial)
        if name:
            self.program.names[number] = name
        return number

    def emit(
        self,
        pipe: Pipe,
        name: str,
        cycles: float,
        transfer: Transfer | None = None,
        detail: str = "",
        latency: float = 0.0,
    ) -> Instruction:
        """Append an instruction to its pipe."""
        if pipe not in self._pipes:
            raise KernelError("", f"{name}: this core has no {pipe} pipe")
        place = site(sys._getframe(2)) or self.home  # behind what emits it, which is no kernel's
        made = Instruction(pipe, name, cycles, transfer, (), (), detail, place, latency)
        if self._noted is not None:
            if transfer is None and not latency:
                self._noted.append(made)
            else:
                self._noted = None
        self._emit(made)
        return made

    def _emit(self, instruction: Instruction) -> None:
        pipe = instruction.pipe
        self.allowance.take()
        frame = self._frames[-1]
        if pipe is _SCALAR:
            frame.behind_scalar.update(self._others)
        elif frame.behind_scalar and pipe in frame.behind_scalar:
            self._follow_scalar(pipe)
        if pipe is _VECTOR:
            self._vector_unread = True
        if self.watcher is not None:
            self.watcher.issued(pipe)
        if self._pending:
            instruction.waits = self._pending.pop(pipe, ())
        frame.body.append(instruction)
        frame.last[pipe] = instruction

    def load(
        self, instruction: Instruction, key: tuple[object, ...], moves: Mapping[int, Cycle]
    ) -> None:
        """Note what memory a transfer touches, so that touching it again can hit L2."""
        frame = self._frames[-1]
        assert instruction.transfer is not None
        earlier = self._first_touch.get(key)
        if earlier is not None:
            note(instruction, 1.0, self._moved.since(earlier))
        buffer, nbytes = instruction.transfer.buffer, instruction.transfer.traffic_bytes
        if earlier is None:
            frame.touches.append(Touch(instruction, buffer, nbytes, moves))
        self._first_touch[key] = self._moved.clock
        self._move(frame, buffer, nbytes)

    def store(self, transfer: Transfer, moves: Mapping[int, Cycle]) -> None:
        """Note what memory a store touches: it takes room in L2 too."""
        self._frames[-1].touches.append(Touch(None, transfer.buffer, transfer.traffic_bytes, moves))

    def set_flag(self, pipe: Pipe, flag: int) -> None:
        """``pipe`` sets ``flag`` once it has finished what it was given so far."""
        if self._noted is not None:
            self._noted.append(_Flagged(pipe, flag, sets=True))
        last = self._frames[-1].last.get(pipe)
        if last is None or pipe in self._pending:
            last = self._append(Instruction(pipe, "", 0.0))
        last.sets += (flag,)
        if self.watcher is not None:
            self.watcher.set(pipe, flag)

    def wait_flag(self, pipe: Pipe, flag: int) -> None:
        """``pipe`` waits for ``flag`` before its next instruction."""
        if self._noted is not None:
            self._noted.append(_Flagged(pipe, flag, sets=False))
        self._pending[pipe] = (*self._pending.get(pipe, ()), flag)
        if self.watcher is not None:
            self.watcher.wait(pipe, flag)

    def after_vector(self) -> None:
        """The scalar unit is about to read what the vector unit wrote."""
        self._noted = None
        if self._vector_unread:
            self.link(_VECTOR, _SCALAR)
            self._vector_unread = False

    def hold_back(self) -> None:
        """Everything issued from here on waits for the scalar unit, in the next turn too."""
        self._noted = None
        for pipe in self._others:
            self._follow_scalar(pipe)

    def join(self, cycles: float) -> None:
        """Everything issued from here on waits for everything before (PipeBarrier of all pipes)."""
        for pipe in [pipe for pipe in self._others if pipe in self._frames[-1].last]:
            self.link(pipe, _SCALAR)
        self.emit(_SCALAR, "pipe_barrier", cycles)
        self.hold_back()

    def enter_loop(self, count: int = 0, pipes: Iterable[Pipe] | None = None) -> None:
        """What follows is the body of a loop, of ``count`` turns if that is known.

        It has instructions of these ``pipes`` at most.
        """
        self._noted = None
        frame = self._frames[-1]
        if frame.behind_scalar:
            inside = self._others if pipes is None else sorted(pipes)
            for pipe in [pipe for pipe in inside if pipe in frame.behind_scalar]:
                self._follow_scalar(pipe)
        self._flush()
        if count == 1:
            frame.last = dict.fromkeys(frame.last)
        else:
            self._frames.append(Frame())

    def leave_loop(self, count: int, depth: int) -> None:
        """The body is complete; it runs ``count`` times."""
        if count == 1:  # it has written down where it is
            self._flush()
            self._frames[-1].last = dict.fromkeys(self._frames[-1].last)
        else:
            self.close_loop(self.leave_turn(), count, depth)

    def leave_turn(self) -> Frame:
        """The body of one turn, for :meth:`close_loop`."""
        self._flush()
        frame = self._frames.pop()
        for buffer, nbytes in frame.moved.items():
            self._moved.add(buffer, -nbytes)
        return frame

    def next_turn(self) -> None:
        """What follows is another turn of the loop that was left, which isn't closed yet."""
        self._frames.append(Frame())

    def close_loop(self, inner: Frame, count: int, depth: int) -> None:
        """A body that was left runs ``count`` times."""
        frame = self._frames[-1]
        leave(inner.touches, depth, count)
        frame.touches += inner.touches
        for touch in inner.touches:
            self._move(frame, touch.buffer, touch.nbytes)
        frame.behind_scalar |= inner.behind_scalar
        for pipe in inner.last:
            frame.last[pipe] = None  # a flag set from here on belongs behind the loop, not in it
        if count == 1:
            frame.body += inner.body
        elif inner.body:
            frame.body.append(Loop(count, inner.body))

    @contextmanager
    def rehearsed(self) -> Iterator[None]:
        """What is written down inside is forgotten."""
        kept = self._frames, self._pending, self._vector_unread, self._first_touch, self._moved
        self._frames, self._pending = [*self._frames, Frame()], {}
        self._first_touch, self._moved = dict(self._first_touch), deepcopy(self._moved)
        try:
            yield
        finally:
            (
                self._frames, self._pending, self._vector_unread, self._first_touch, self._moved
            ) = kept  # fmt: skip

    def barrier(self) -> None:
        """SyncAll: nobody passes before everybody has come."""
        self._noted = None
        self._flush()
        frame = self._frames[-1]
        frame.body.append(Barrier(site()))
        frame.last.clear()
        frame.behind_scalar.clear()
        self._vector_unread = False
        if self.watcher is not None:
            self.watcher.join()

    def let_go(self) -> None:
        """Forget what was written down: its core and it know each other, which delays the end."""
        self.program = Program()
        self._frames = [Frame(self.program.body)]
        self._first_touch, self._moved = {}, Moved()

    def _move(self, frame: Frame, buffer: int, nbytes: float) -> None:
        """So many bytes of a buffer are moved in a body."""
        frame.moved[buffer] = frame.moved.get(buffer, 0.0) + nbytes
        self._moved.add(buffer, nbytes)

    def _follow_scalar(self, pipe: Pipe) -> None:
        self._frames[-1].behind_scalar.discard(pipe)
        self.link(_SCALAR, pipe)

    def link(self, first: Pipe, then: Pipe) -> None:
        """What ``then`` is given next waits for what ``first`` was given so far."""
        noted, self._noted = self._noted, None
        flag = self._new_flag()
        self.set_flag(first, flag)
        self.wait_flag(then, flag)
        self._noted = noted

    def _append(self, instruction: Instruction) -> Instruction:
        if self._pending:
            instruction.waits = self._pending.pop(instruction.pipe, ())
        frame = self._frames[-1]
        frame.body.append(instruction)
        frame.last[instruction.pipe] = instruction
        return instruction

    def _flush(self) -> None:
        """Waits that no instruction has taken up yet happen here, before control flow goes on."""
        for pipe in sorted(self._pending) if self._pending else ():
            self._append(Instruction(pipe, "", 0.0, site=site()))
