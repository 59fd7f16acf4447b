"""Parts of a core's program that come again: what was written down, and what changes next time.

A passage is what the recorder was told, event by event, so that it is told the same again. Where
the bytes of its transfers lie, the flags of the core's queues, and how many loops there are around
it may be others then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

if TYPE_CHECKING:
    from npusim.ascendc.reuse import Cycle
    from npusim.engine.program import Instruction, Pipe, Transfer

Item = tuple[object, ...]  # of a slice's key: what moves it, and by how many elements
Key = tuple[int, int, tuple[Item, ...], tuple[int, ...], tuple[int, ...]]


class Origin(NamedTuple):
    """Where the transfers of one buffer begin: element, what moves it, and how loops do."""

    base: int
    items: tuple[Item, ...]
    moves: Mapping[int, Cycle]


class Setting(NamedTuple):
    """What a passage stands in: origins by buffer, flags of the core's queues, loops around it.

    ``place`` is the line that comes to it.
    """

    origins: Mapping[int, Origin]
    flags: Sequence[int]
    depth: int
    place: str


class Emitted(NamedTuple):
    """An instruction, and its transfer before it was known what memory is touched again."""

    instruction: Instruction
    transfer: Transfer | None


class Flagged(NamedTuple):
    """A flag that a pipe sets, or waits for."""

    pipe: Pipe
    flag: int
    sets: bool


class Loaded(NamedTuple):
    """The memory that the transfer before it loads, as slices have it."""

    key: Key
    moves: Mapping[int, Cycle]


class Stored(NamedTuple):
    """What a transfer stores."""

    transfer: Transfer
    moves: Mapping[int, Cycle]


class Entered(NamedTuple):
    """A loop begins, with instructions of these ``pipes`` at most."""

    turns: int
    pipes: Sequence[Pipe] | None


class Left(NamedTuple):
    """A loop ends."""

    turns: int
    depth: int


class HeldBack(NamedTuple):
    """Everything waits for the scalar unit."""


class Again(NamedTuple):
    """So many times a passage that moves nothing."""

    passage: Passage
    times: int


Event = Emitted | Flagged | Loaded | Stored | Entered | Left | HeldBack | Again


class Passage:
    """What was written down in a setting, and what the core knew of scratch memory then."""

    def __init__(
        self,
        events: Sequence[Event],
        setting: Setting,
        last_written: object,
        unread: set[object],
    ) -> None:
        self.events, self.setting = events, setting
        self.last_written, self.unread = last_written, unread
        self._comes_again: bool | None = None

    @property
    def comes_again(self) -> bool:
        """Whether all that it moves begins at an origin, and all its flags are of queues."""
        if self._comes_again is None:
            flags = frozenset(self.setting.flags)
            self._comes_again = all(
                each.flag in flags if type(each) is Flagged else self._begins(each)
                for each in self.events
                if type(each) is not Emitted
            )
        return self._comes_again

    def stands_as(self, setting: Setting) -> bool:
        """Whether it comes again on a core with as many queues."""
        return self.comes_again and len(self.setting.flags) == len(setting.flags)

    def _begins(self, event: Event) -> bool:
        """Whether an event that moves something does so as its origin says."""
        origins, _, depth, _ = self.setting
        if isinstance(event, Loaded):
            origin, items = origins.get(event.key[0]), event.key[2]
            if origin is None or items[: len(origin.items)] != origin.items:
                return False
        elif isinstance(event, Stored):
            origin = origins.get(event.transfer.buffer)
        else:
            return not isinstance(event, Again) or event.passage.stands_as(self.setting)
        around = {loop: cycle for loop, cycle in event.moves.items() if loop < depth}
        return origin is not None and around == origin.moves

    def key(self, key: Key, setting: Setting) -> Key:
        """The memory that is loaded in another setting."""
        number, base, items, shape, steps = key
        first, now = self.setting.origins[number], setting.origins[number]
        own, deeper = items[len(first.items) :], setting.depth - self.setting.depth
        if deeper:
            own = tuple([(_deeper(index, deeper), *rest) for index, *rest in own])
        return number, base - first.base + now.base, now.items + own, shape, steps

    def moves(
        self, moves: Mapping[int, Cycle], buffer: int, setting: Setting
    ) -> Mapping[int, Cycle]:
        """How loops move an address of a buffer then: those around as they do its origin."""
        depth, found = self.setting.depth, dict(setting.origins[buffer].moves)
        deeper = setting.depth - depth
        for loop, cycle in moves.items():
            if loop >= depth:
                found[loop + deeper] = cycle
        return found


def _deeper(index: object, by: int) -> object:
    """The key of a loop's index, or of what was made of one, so many loops further in."""
    first, *rest = cast("tuple[object, ...]", index)
    return (first + by if isinstance(first, int) else _deeper(first, by), *rest)
