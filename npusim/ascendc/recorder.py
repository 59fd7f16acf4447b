"""Writes down the instruction stream of one core while a kernel's code runs.

Dependencies between pipes become flags. Three kinds arise by themselves, as on the chip: what a
scalar instruction computes or decides holds back everything issued after it; a scalar that reads a
vector result waits for it; and queues carry their own flags. Everything else is the kernel's
``set_flag`` and ``wait_flag``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from npusim.ascendc.allowance import Allowance
from npusim.ascendc.mistakes import site
from npusim.ascendc.passages import (
    Again,
    Emitted,
    Entered,
    Event,
    Flagged,
    HeldBack,
    Key,
    Left,
    Loaded,
    Passage,
    Setting,
    Stored,
)
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


class Body(NamedTuple):
    """The body of a loop, and what the recorder knows behind a turn of it.

    ``flags`` are those that it brings, with their names.
    """

    frame: Frame
    flags: Sequence[int]
    names: Mapping[int, str]
    vector_unread: bool
    first_touch: dict[tuple[object, ...], int]
    moved: Moved

    def again(self) -> Body:
        """The same with loops and transfers of its own: what they wait for, loops around decide."""
        copies: dict[int, Instruction] = {}
        frame, body = self.frame, _copied(self.frame.body, copies)
        touches = [each.of(copies.get(id(each.instruction))) for each in frame.touches]
        frame = Frame(body, frame.last, frame.behind_scalar, touches)
        moved, first = self.moved.copied(), dict(self.first_touch)
        return self._replace(frame=frame, first_touch=first, moved=moved)


# A body, the slots that each queue has handed out, and those that are unread, and filled.
Kept = tuple[Body, tuple[int, ...], frozenset[object], frozenset[object]]


def _copied(nodes: Sequence[Node], copies: dict[int, Instruction]) -> list[Node]:
    """``nodes``, of which the transfers are ``copies`` by what they are copies of."""
    found: list[Node] = []
    for node in nodes:
        if type(node) is Loop:
            found.append(Loop(node.count, _copied(node.body, copies)))
        elif type(node) is Instruction and node.transfer is not None:
            copies[id(node)] = node.copied()
            found.append(copies[id(node)])
        else:
            found.append(node)
    return found


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
        self._noted: list[Event] | None = None  # of a passage

    def passage(self, work: Callable[[], object]) -> Sequence[Event] | None:
        """Write down ``work``; what it was, None where it is more than :meth:`repeat` can do."""
        around, self._noted = self._noted, []
        work()
        found, self._noted = self._noted, around
        return found

    @property
    def takes_note(self) -> bool:
        """Whether what is written down is a part of a passage."""
        return self._noted is not None

    def note(self, event: Event | None) -> None:
        """What came last is one event of the passage around it; None ends that."""
        if event is None:
            self._noted = None
        elif self._noted is not None:
            self._noted.append(event)

    def repeat(self, passage: Passage, times: int, setting: Setting) -> None:
        """Write down so many times more what has been written down; nobody takes note."""
        noted, self._noted = self._noted, None
        self._repeat(passage, times, setting)
        self._noted = noted

    def _repeat(self, passage: Passage, times: int, setting: Setting) -> None:
        if times > 1:
            pipes = {each.pipe for each in passage.events if isinstance(each, Flagged)}
            pipes |= {each[0].pipe for each in passage.events if isinstance(each, Emitted)}
            self.enter_loop(times, sorted(pipes))
            self._repeat(passage, 1, setting)
            self.leave_loop(times, 0)  # which moves nothing
            return
        own, flags, place = passage.setting, setting.flags, setting.place
        same = flags is own.flags or not setting.origins  # what moves nothing tells its flags apart
        numbers = None if same else dict(zip(own.flags, flags, strict=False))
        deeper = setting.depth - own.depth
        for each in passage.events:
            if isinstance(each, Emitted):
                made, transfer = each
                site = place if made.site == own.place else made.site
                last = Instruction(made.pipe, made.name, made.cycles, transfer, (), (),
                                   made.detail, site, made.latency, made.unit_flag)  # fmt: skip
                self._emit(last)
            elif isinstance(each, Flagged):
                pipe, flag, sets = each
                number = flag if numbers is None else numbers[flag]
                (self.set_flag if sets else self.wait_flag)(pipe, number)
            elif isinstance(each, Loaded):
                moves = passage.moves(each.moves, each.key[0], setting)
                self.load(last, passage.key(each.key, setting), moves)
            elif isinstance(each, Stored):
                transfer = each.transfer
                self.store(transfer, passage.moves(each.moves, transfer.buffer, setting))
            elif isinstance(each, Entered):
                self.enter_loop(*each)
            elif isinstance(each, Left):
                self.leave_loop(each.turns, each.depth + deeper)
            elif isinstance(each, Again):
                self._repeat(each.passage, each.times, setting)
            else:
                self.hold_back()

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
        self._emit(made)
        return made

    def _emit(self, instruction: Instruction) -> None:
        pipe = instruction.pipe
        if self._noted is not None:
            self._noted.append(Emitted(instruction, instruction.transfer))
        turn = self.allowance.turns[-1]
        turn.instructions += 1
        if turn.instructions >= turn.next_look:
            self.allowance.look(turn)
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

    def load(self, instruction: Instruction, key: Key, moves: Mapping[int, Cycle]) -> None:
        """Note what memory a transfer touches, so that touching it again can hit L2."""
        frame = self._frames[-1]
        if self._noted is not None:
            self._noted.append(Loaded(key, moves))
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
        if self._noted is not None:
            self._noted.append(Stored(transfer, moves))
        self._frames[-1].touches.append(Touch(None, transfer.buffer, transfer.traffic_bytes, moves))

    def set_flag(self, pipe: Pipe, flag: int) -> None:
        """``pipe`` sets ``flag`` once it has finished what it was given so far."""
        if self._noted is not None:
            self._noted.append(Flagged(pipe, flag, sets=True))
        last = self._frames[-1].last.get(pipe)
        if last is None or pipe in self._pending:
            last = self._append(Instruction(pipe, "", 0.0))
        last.sets += (flag,)
        if self.watcher is not None:
            self.watcher.set(pipe, flag)

    def wait_flag(self, pipe: Pipe, flag: int) -> None:
        """``pipe`` waits for ``flag`` before its next instruction."""
        if self._noted is not None:
            self._noted.append(Flagged(pipe, flag, sets=False))
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
        if self._noted is not None:
            self._noted.append(HeldBack())
        for pipe in self._others:
            self._follow_scalar(pipe)

    def join(self, cycles: float) -> None:
        """Everything issued from here on waits for everything before (PipeBarrier of all pipes)."""
        self._noted = None
        for pipe in [pipe for pipe in self._others if pipe in self._frames[-1].last]:
            self.link(pipe, _SCALAR)
        self.emit(_SCALAR, "pipe_barrier", cycles)
        self.hold_back()

    def enter_loop(self, count: int = 0, pipes: Sequence[Pipe] | None = None) -> None:
        """What follows is the body of a loop, of ``count`` turns if that is known.

        It has instructions of these ``pipes`` at most.
        """
        if self._noted is not None:
            self._noted.append(Entered(count, pipes))
        frame = self._frames[-1]
        if frame.behind_scalar:
            inside = self._others if pipes is None else pipes
            for pipe in [pipe for pipe in inside if pipe in frame.behind_scalar]:
                self._follow_scalar(pipe)
        self._flush()
        if count == 1:
            frame.last = dict.fromkeys(frame.last)
        else:
            self._frames.append(Frame())

    def leave_loop(self, count: int, depth: int, *, kept_from: int | None = None) -> Body | None:
        """The body is complete; it runs ``count`` times.

        It is kept for :meth:`repeat_body` where the number of flags in front of it is given.
        """
        if self._noted is not None:
            self._noted.append(Left(count, depth))
        if count == 1:  # it has written down where it is
            self._flush()
            self._frames[-1].last = dict.fromkeys(self._frames[-1].last)
            return None
        inner = self.leave_turn()
        kept = None if kept_from is None else self._kept(inner, kept_from)
        self.close_loop(inner, count, depth)
        return kept

    def repeat_body(self, body: Body, count: int, depth: int) -> None:
        """A loop that was entered has a body that another core kept, and is this one's now."""
        self._noted = None
        self._frames.pop()
        self.program.flags += body.flags
        self.program.names.update(body.names)
        self._vector_unread = body.vector_unread
        self._first_touch, self._moved = body.first_touch, body.moved
        self.close_loop(body.frame, count, depth)

    def _kept(self, inner: Frame, first: int) -> Body:
        """A body that was left, with the flags from ``first`` on."""
        flags, names = self.program.flags[first:], self.program.names
        named = {flag: names[flag] for flag in range(first, first + len(flags)) if flag in names}
        told = self._vector_unread, self._first_touch, self._moved
        return Body(inner, flags, named, *told).again()

    @property
    def state(self) -> tuple[int, int, bool]:
        """What the instructions behind the beginning of a loop depend on.

        Flags and changes of what was moved so far, and whether a vector result is unread.
        """
        return len(self.program.flags), self._moved.clock, self._vector_unread

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
        self._first_touch, self._moved = dict(self._first_touch), self._moved.copied()
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
