"""What a program will do, from its numbers alone: trips of loops, branches, sizes of copies.

Operations of the scalar unit are computed; tiles are left alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from npusim.triton.held import UNKNOWN, GlobalPiece
from npusim.triton.scalar import Scalars
from npusim.triton.steps import step_of

if TYPE_CHECKING:
    from collections.abc import Hashable

    from npusim.triton.launch import Launch
    from npusim.triton.mlir import Operation, Region
    from npusim.triton.program import LoweredProgram
    from npusim.triton.steps import Step

    Steps = list[tuple[Operation, Step | None]]


class DependsOnDataError(Exception):
    """A decision hangs on numbers that only the run itself finds."""


class Turns:
    """Alike iterations of a loop: how many, and what moves between two of them."""

    __slots__ = ("carried", "count", "moves")

    def __init__(self, carried: list[Any]) -> None:
        self.count = 1
        self.carried = carried  # the scalar values that the first of them starts with
        self.moves: dict[object, int] = {}


class Scout(Scalars):
    """One program's control flow."""

    def __init__(self, launch: Launch, block: int) -> None:
        super().__init__(launch.program)
        self.bind(launch, block)
        self.begin()

    def begin(self) -> None:
        """Nothing has been seen yet."""
        self._told: list[Hashable] = []
        self._places: list[tuple[object, int]] = []

    @classmethod
    def beside(cls, other: Scalars) -> Scout:
        """A scout that starts where a player is."""
        scout = cls.__new__(cls)
        Scalars.__init__(scout, other.program)
        scout.env = other.env.copy()
        scout.begin()
        return scout

    def signature(self) -> Hashable:
        """What is alike in programs that do the same, up to addresses."""
        self._region(self.program.function.body)
        return tuple(self._told)

    def _region(self, region: Region) -> list[Any]:
        env, told, places = self.env, self._told, self._places
        for each, step in _steps(self.program, region):
            if step is not None:
                step(env, told, places)
            elif each.name == "scf.for":
                self._loop(each)
            elif each.name == "scf.if":
                self._branch(each)
            elif each.name == "scf.while":
                self._while(each)
            elif each.name in ("scf.yield", "scf.condition"):
                return [env[operand.number] for operand in each.operands]
            else:
                self._scalar(each)
        if any(size is UNKNOWN for size in told):
            raise DependsOnDataError
        return []

    def _scalar(self, operation: Operation) -> None:
        self.play_scalar(operation)
        if operation.name == "memref.reinterpret_cast":
            piece = self.env[operation.results[0].number]
            if not isinstance(piece, GlobalPiece):
                return
            self._told.append(piece.strides)
            self._places.append((operation, _known(piece.offset)))
        elif operation.name in ("memref.subview", "tensor.extract_slice"):
            sizes = self.numbers(operation.lists[1])
            self._told.append(tuple(map(_known, sizes)))

    def _branch(self, operation: Operation) -> None:
        test = _known(self.env[operation.operands[0].number])
        self._told.append(bool(test))
        found: list[Any] = []
        if test:
            found = self._region(operation.regions[0])
        elif len(operation.regions) > 1:
            found = self._region(operation.regions[1])
        self.give(operation.results, found)

    def _while(self, operation: Operation) -> None:
        carried = [self.env[each.number] for each in operation.operands]
        before, body = operation.regions
        times = 0
        while True:
            self.give(before.arguments, carried)
            test, *carried = self._region(before)
            if not _known(test):
                break
            self.give(body.arguments, carried)
            carried = self._region(body)
            times += 1
        self._told.append(times)
        self.give(operation.results, carried)

    def _loop(self, operation: Operation) -> None:
        turns, carried = self.turns(operation)
        self._told.append(tuple((each.count, told) for each, told in turns))
        self.give(operation.results, carried)

    def turns(self, operation: Operation) -> tuple[list[tuple[Turns, Hashable]], list[Any]]:
        """The iterations of a loop, alike ones together, and what it carries at its end."""
        low, high, step = (_known(self.env[each.number]) for each in operation.operands[:3])
        carried = [self.env[each.number] for each in operation.operands[3:]]
        region = operation.regions[0]
        outer, places = self._told, self._places
        found: list[tuple[Turns, Hashable]] = []
        first: dict[object, int] = {}
        for index in range(low, high, step):
            self._told, self._places = [], []
            started = carried
            self.give(region.arguments, [index, *carried])
            carried = self._region(region)
            told, here = tuple(self._told), _first(self._places)
            if found and found[-1][1] == told:
                group = found[-1][0]
                if group.count == 1:
                    group.moves = _moved(first, here)
                group.count += 1
            else:
                found.append((Turns(started), told))
                first = here
            if not self._told and not self._places and not carried and index > low:
                found[-1][0].count = len(range(index, high, step)) + found[-1][0].count - 1
                break  # nothing in it depends on where it is
        self._told, self._places = outer, places
        if found:
            self._places += [(each, at) for each, at in first.items() if len(found) == 1]
        return found, carried


_known_steps: WeakKeyDictionary[LoweredProgram, dict[int, Steps]] = WeakKeyDictionary()


def _steps(program: LoweredProgram, region: Region) -> Steps:
    """The operations of a region that decide something, with their quick forms."""
    known = _known_steps.setdefault(program, {})
    found = known.get(id(region))
    if found is None:
        found = known[id(region)] = [
            (each, step_of(each, program)) for each in program.decides[region]
        ]
    return found


def _moved(first: dict[object, Any], here: dict[object, Any]) -> dict[object, int]:
    """How far what an operation addresses moves from a turn to the next, where that is known."""
    both = {each: (first[each], at) for each, at in here.items() if each in first}
    return {each: b - a for each, (a, b) in both.items() if UNKNOWN not in (a, b)}


def _first(places: list[tuple[object, int]]) -> dict[object, int]:
    found: dict[object, int] = {}
    for each, at in places:
        found.setdefault(each, at)
    return found


def _known(number: Any) -> Any:
    if number is UNKNOWN:
        raise DependsOnDataError
    return number
