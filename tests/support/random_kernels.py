"""Random kernels that are correct as they stand: written down once, executed by two machines.

A program is a list of statements on tiles of ``TILE`` numbers. :class:`OnChip` executes it in the
kernel language, :class:`Plain` with NumPy, one statement after the other, block after block. All
numbers are whole and small, so that sums don't depend on their order.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from npusim.ascendc import (
    FLOAT,
    FLOAT16,
    INT32,
    Core,
    GlobalTensor,
    LocalTensor,
    RoundMode,
    TBuf,
    TPosition,
    TQue,
)

TILE = 64
REGION = 6  # tiles of each block in each tensor
MOST = 999.0

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Place:
    """A tile of a tensor, in the region of the block ``ahead`` of this: ``base`` + what moves it.

    ``steps`` are tiles for each turn of the loops around, ``how`` what is made of the innermost
    index first.
    """

    tensor: str
    base: int
    steps: tuple[int, ...] = ()
    how: str = "itself"
    ahead: int = 0


@dataclass(frozen=True)
class Load:
    name: str
    place: Place


@dataclass(frozen=True)
class Free:
    name: str


@dataclass(frozen=True)
class Change:
    """``name`` (op)= number, in place."""

    name: str
    op: str
    number: float


@dataclass(frozen=True)
class Put:
    """Compute a tile from others, by some steps, and store it; or add it to what is there."""

    place: Place
    sources: tuple[str, ...]
    ops: tuple[tuple[str, Any], ...]
    adds: bool = False
    when: str = "always"  # which turns of the innermost loop


@dataclass(frozen=True)
class Carry:
    """A buffer += a tile, or is set to zeros without a name."""

    buffer: str
    name: str = ""


@dataclass(frozen=True)
class Loop:
    count: int
    sequential: bool
    body: tuple[Any, ...]
    stops: int | None = None  # the turn that it is left behind


@dataclass(frozen=True)
class Barrier:
    """All blocks meet."""


@dataclass
class Program:
    """What all blocks execute, on tensors that may share memory."""

    seed: int
    blocks: int
    slots: int
    memory: str  # apart, same, shifted, strided
    statements: list[Any] = field(default_factory=list)

    def arrays(self) -> tuple[Array, Array, Array]:
        """The operands x, y, z as the program finds them; some share memory."""
        size = REGION * TILE * self.blocks
        numbers = np.random.default_rng(self.seed)

        def new(count: int) -> Array:
            return numbers.integers(-9, 10, count).astype(np.float32)

        x, y, z = new(size), new(size), new(size)
        if self.memory == "same":
            y = x
        elif self.memory == "shifted":
            whole = new(size + TILE)
            x, y = whole[:-TILE], whole[TILE:]
        elif self.memory == "strided":
            x, z = new(2 * size)[::2], new(2 * size)[1::2]
        return x, y, z


class Machine(Protocol):
    """What executes a program."""

    def load(self, place: Place, turns: list[Any]) -> Any: ...
    def free(self, tile: Any) -> None: ...
    def change(self, tile: Any, op: str, number: float) -> None: ...
    def put(
        self, place: Place, turns: list[Any], sources: list[Any], put: Put, number: float
    ) -> None: ...
    def carry(self, buffer: str, tile: Any) -> None: ...
    def buffer(self, name: str) -> Any: ...
    def loop(self, count: int, sequential: bool) -> Iterator[Any]: ...


def execute(program: Program, machine: Machine) -> Iterator[None]:
    """One block's work; yields at barriers."""
    tiles: dict[str, Any] = {}
    counter = [0.0]

    def run(statements: Any, turns: list[Any]) -> None:
        for each in statements:
            if isinstance(each, Load):
                tiles[each.name] = machine.load(each.place, turns)
            elif isinstance(each, Free):
                machine.free(tiles.pop(each.name))
            elif isinstance(each, Change):
                machine.change(tiles[each.name], each.op, each.number)
            elif isinstance(each, Carry):
                machine.carry(each.buffer, tiles.get(each.name))
            elif isinstance(each, Put):
                if _is_due(each.when, turns):
                    sources = [
                        tiles[name] if name in tiles else machine.buffer(name)
                        for name in each.sources
                    ]
                    machine.put(each.place, turns, sources, each, counter[0])
            elif isinstance(each, Loop):
                done = 0
                for turn in machine.loop(each.count, each.sequential):
                    if each.sequential:
                        counter[0] += 1.0
                    run(each.body, [*turns, turn])
                    if each.stops is not None:
                        done += 1
                        if done > each.stops:
                            break

    rest = []
    for each in program.statements:
        if isinstance(each, Barrier):
            run(rest, [])
            rest = []
            yield
        else:
            rest.append(each)
    run(rest, [])


def _is_due(when: str, turns: list[Any]) -> bool:
    """Whether a statement is executed in a turn; asks the index as kernels do."""
    if when == "always":
        return True
    turn = turns[-1]
    if when == "first":
        return bool(turn == 0)
    if when == "others":
        return bool(turn)
    if when == "odd":
        return turn % 2 == 1
    if when == "listed":
        return turn in (0, 2)
    if when == "keyed":
        return {0: False, 1: True}.get(turn, str(turn) == "3")
    assert when == "early"
    return bool(min(turn, 2) < 2)


def _moved(how: str, turn: Any) -> Any:
    """What is made of an index before it moves an address."""
    if how == "half":
        return turn // 2
    if how == "parity":
        return turn % 2
    return turn


class OnChip:
    """The kernel language."""

    def __init__(self, program: Program, core: Core, tensors: dict[str, GlobalTensor]) -> None:
        self.core, self.tensors = core, tensors
        self.come = TQue(TPosition.VECIN, 1, "come")
        self.go = TQue(TPosition.VECOUT, 1, "go")
        core.pipe.init_buffer(self.come, program.slots, TILE * 4)
        core.pipe.init_buffer(self.go, 2, TILE * 4)
        self.scratch = {name: TBuf(name) for name in ("narrow", "whole", "one", "s", "t")}
        for each in self.scratch.values():
            core.pipe.init_buffer(each, 1, TILE * 4)
        self.held: dict[str, LocalTensor] = {}

    def at(self, place: Place, turns: list[Any]) -> Any:
        block = (self.core.get_block_idx() + place.ahead) % self.core.get_block_num()
        tensor = self.tensors[place.tensor]
        start = (block * REGION + place.base) * TILE
        if tensor.strides is None and len(place.steps) > 1 and place.how == "itself":
            moved = [(turn, step * TILE) for turn, step in zip(turns, place.steps, strict=True)]
            return tensor.window(((start, 1), *moved), (TILE,), (1,))
        for turn, step in zip(turns, place.steps, strict=True):
            if step:
                start = _moved(place.how, turn) * (step * TILE) + start
        return tensor.span(start, TILE)

    def load(self, place: Place, turns: list[Any]) -> LocalTensor:
        self.core.pipe_barrier()  # what is loaded may have been stored before
        return self.come.copy_in(self.at(place, turns))

    def free(self, tile: LocalTensor) -> None:
        self.come.free_tensor(tile)

    def change(self, tile: LocalTensor, op: str, number: float) -> None:
        getattr(self.core, op)(tile, tile, number)

    def put(
        self, place: Place, turns: list[Any], sources: list[Any], put: Put, number: float
    ) -> None:
        core, half = self.core, TILE // 2
        result = self.go.alloc_tensor(FLOAT, TILE)
        core.adds(result, sources[0], 0.0)
        for op, given in put.ops:
            if op in ("add", "sub", "max", "min"):
                getattr(core, op)(result, result, sources[given])
            elif op == "turned":
                core.adds(result[0:half], sources[0][half:TILE], given)
                core.adds(result[half:TILE], sources[0][0:half], 0.0)
            elif op == "halved":
                narrow = self.scratch["narrow"].get(FLOAT16, TILE)
                core.muls(result, result, 0.5)
                core.cast(narrow, result)
                core.cast(result, narrow)
            elif op == "whole":
                whole = self.scratch["whole"].get(INT32, TILE)
                core.cast(whole, result, RoundMode.CAST_RINT)
                core.cast(result, whole)
            elif op == "total":
                one = self.scratch["one"].get(FLOAT, 1)
                core.reduce_max(one, sources[0])
                core.adds(result, result, core.get_value(one, 0))
            elif op == "counted":
                core.adds(result, result, number)
            else:
                getattr(core, op)(result, result, given)
        core.mins(result, result, MOST)
        core.maxs(result, result, -MOST)
        if put.adds:
            core.set_atomic_add()
        self.go.copy_out(self.at(place, turns), result)
        if put.adds:
            core.set_atomic_none()

    def carry(self, buffer: str, tile: LocalTensor | None) -> None:
        if tile is None:
            self.held[buffer] = self.scratch[buffer].get(FLOAT, TILE)
            self.core.duplicate(self.held[buffer], 0.0)
        else:
            self.core.add(self.held[buffer], self.held[buffer], tile)

    def buffer(self, name: str) -> LocalTensor:
        return self.held[name]

    def loop(self, count: int, sequential: bool) -> Iterator[Any]:
        return self.core.loop(count, sequential=sequential)


class Plain:
    """NumPy, one iteration after the other."""

    def __init__(self, block: int, blocks: int, arrays: dict[str, Array]) -> None:
        self.block, self.blocks, self.arrays = block, blocks, arrays
        self.held: dict[str, Array] = {}

    def at(self, place: Place, turns: list[int]) -> tuple[str, slice]:
        block = (self.block + place.ahead) % self.blocks
        tile = block * REGION + place.base
        for turn, step in zip(turns, place.steps, strict=True):
            tile += _moved(place.how, turn) * step
        return place.tensor, slice(tile * TILE, (tile + 1) * TILE)

    def load(self, place: Place, turns: list[int]) -> Array:
        name, where = self.at(place, turns)
        return np.array(self.arrays[name][where])

    def free(self, tile: Array) -> None:
        tile[...] = np.nan

    def change(self, tile: Array, op: str, number: float) -> None:
        tile[...] = tile + number if op == "adds" else tile * number

    def put(
        self, place: Place, turns: list[Any], sources: list[Any], put: Put, number: float
    ) -> None:
        result, half = np.array(sources[0]), TILE // 2
        for op, given in put.ops:
            if op in ("add", "sub", "max", "min"):
                two = {"add": np.add, "sub": np.subtract, "max": np.maximum, "min": np.minimum}
                result = two[op](result, sources[given])
            elif op == "turned":
                result = np.concatenate([sources[0][half:] + np.float32(given), sources[0][:half]])
            elif op == "halved":
                result = (result * np.float32(0.5)).astype(np.float16).astype(np.float32)
            elif op == "whole":
                result = np.rint(result)
            elif op == "total":
                result = result + sources[0].max()
            elif op == "counted":
                result = result + np.float32(number)
            else:
                result = result + given if op == "adds" else result * given
            result = result.astype(np.float32)
        result = np.clip(result, -MOST, MOST).astype(np.float32)
        name, where = self.at(place, turns)
        if put.adds:
            self.arrays[name][where] += result
        else:
            self.arrays[name][where] = result

    def carry(self, buffer: str, tile: Array | None) -> None:
        if tile is None:
            self.held[buffer] = np.zeros(TILE, np.float32)
        else:
            self.held[buffer] += tile

    def buffer(self, name: str) -> Array:
        return self.held[name]

    def loop(self, count: int, sequential: bool) -> Iterator[int]:  # noqa: ARG002
        return iter(range(count))


def expected(program: Program) -> tuple[Array, ...]:
    """What NumPy finds."""
    arrays = program.arrays()
    named = dict(zip("xyz", arrays, strict=True))
    blocks = [
        execute(program, Plain(block, program.blocks, named)) for block in range(program.blocks)
    ]
    while blocks:
        blocks = [block for block in blocks if next(block, "end") != "end"]
    return arrays


# -- writing programs ------------------------------------------------------------------------------

_WHEN = ("first", "others", "odd", "listed", "keyed", "early")


class _Writer:
    """Writes one program; what it writes is correct for any order of the host's shortcuts."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - a seed, no secret
        choose = self.random.choice
        blocks = choose((1, 1, 2, 3))
        kinds = ("apart", "same", "strided") + (("shifted",) if blocks == 1 else ())
        self.program = Program(seed, blocks, choose((2, 3, 4)), choose(kinds))
        self.names = 0

    def write(self) -> Program:
        program, choose = self.program, self.random.choice
        for _ in range(self.random.randint(1, 4)):
            program.statements += choose((self.straight, self.straight, self.loop, self.carried))()
        if program.blocks > 1 and program.memory != "same" and self.random.random() < 0.5:
            # Behind the barrier blocks read what others stored to x, and store to z alone.
            program.statements.append(Barrier())
            name, place = self.name(), Place("x", self.tile(), ahead=1)
            put = Put(Place("z", self.tile()), (name,), self.ops(1, turns=0))
            program.statements += [Load(name, place), put, Free(name)]
        return program

    def name(self) -> str:
        self.names += 1
        return f"tile{self.names}"

    def tile(self) -> int:
        return self.random.randrange(REGION)

    def ops(self, sources: int, *, turns: int, sequential: bool = False) -> tuple[Any, ...]:
        given: list[Any] = []
        for _ in range(self.random.randint(0, 3)):
            kinds = ["adds", "muls", "add", "sub", "max", "min", "turned", "whole", "halved"]
            kinds += ["total"] if turns < 2 else []
            kinds += ["counted"] if sequential else []
            kind = self.random.choice(kinds)
            number: Any = self.random.choice((-3.0, -1.0, 2.0))
            if kind in ("add", "sub", "max", "min"):
                number = self.random.randrange(sources)
            given.append((kind, number))
        return tuple(given)

    def straight(
        self, turns: tuple[int, ...] = (), *, sequential: bool = False, extra: tuple[str, ...] = ()
    ) -> list[Any]:
        """Loads, changes and stores in any order, tiles freed in any order."""
        live: list[str] = []
        found: list[Any] = []
        room = self.program.slots - len([each for each in extra if each.startswith("tile")])
        for _ in range(self.random.randint(2, 8)):
            kind = self.random.choice(("load", "load", "put", "put", "put", "change", "free"))
            if kind == "load" and len(live) < room:
                live.append(self.name())
                found.append(Load(live[-1], self.place(turns, sequential=sequential)))
            elif kind == "free" and live:
                found.append(Free(live.pop(self.random.randrange(len(live)))))
            elif kind == "change" and live:
                number = self.random.choice((-1.0, 2.0))
                op = self.random.choice(("adds", "muls"))
                found.append(Change(self.random.choice(live), op, number))
            elif kind == "put" and (live or extra):
                found.append(self.put([*live, *extra], turns, sequential=sequential))
        return [*found, *(Free(name) for name in self.random.sample(live, len(live)))]

    def put(self, known: list[str], turns: tuple[int, ...], *, sequential: bool) -> Put:
        count = self.random.randint(1, min(2, len(known)))
        sources = tuple(self.random.sample(known, count))
        when = "always"
        if sequential and self.random.random() < 0.4:
            when = self.random.choice(_WHEN)
        ops = self.ops(count, turns=len(turns), sequential=sequential)
        adds = self.random.random() < 0.25
        return Put(self.place(turns, sequential=sequential), sources, ops, adds, when)

    def place(self, turns: tuple[int, ...], *, sequential: bool) -> Place:
        tensor = self.random.choice("xxyz")
        if not turns:
            return Place(tensor, self.tile())
        how = self.random.choice(("itself", "itself", "itself", "half", "parity"))
        if len(turns) > 1 and not sequential:
            how = "itself"
        if len(turns) > 1 and self.program.memory == "strided" and not sequential:
            steps = (self.random.choice((0, 1, -1)), 0)  # a span has one index
        else:
            steps = tuple(self.random.choice((0, 1, 1, -1, 2)) for _ in turns)
        lowest = highest = 0
        for count, step in zip(turns, steps, strict=True):
            reach = step * (count - 1)
            lowest, highest = lowest + min(0, reach), highest + max(0, reach)
        if highest - lowest >= REGION:
            steps, lowest, highest = (0,) * len(turns), 0, 0
        return Place(tensor, self.random.randint(-lowest, REGION - 1 - highest), steps, how)

    def loop(self) -> list[Any]:
        """A loop, perhaps in a loop, around a body that loads and stores."""
        turns = (self.random.randint(2, 4),)
        if self.random.random() < 0.3:
            turns = (*turns, 2)
        outside = self.name() if self.random.random() < 0.3 and self.program.slots > 2 else ""
        known = (outside,) if outside else ()
        for _ in range(20):
            sequential = self.random.random() < 0.4
            body = self.straight(turns, sequential=sequential, extra=known)
            if sequential or not self.meets(body, turns):
                break
        else:
            sequential = True
        stops = None
        if sequential and len(turns) == 1 and self.random.random() < 0.2:
            stops = self.random.randrange(turns[0])
        found: Any = Loop(turns[-1], sequential, tuple(body), stops)
        if len(turns) > 1:
            found = Loop(turns[0], sequential, (found,))
        if outside:
            return [Load(outside, Place("x", self.tile())), found, Free(outside)]
        return [found]

    def carried(self) -> list[Any]:
        """Sums over the turns of a loop, stored in it and behind it."""
        name, turns = self.random.choice("st"), (self.random.randint(2, 4),)
        body = self.straight(turns, sequential=True, extra=(name,))
        loaded = [each.name for each in body if isinstance(each, Load)]
        for tile in loaded[:1]:
            first = next(n for n, each in enumerate(body) if isinstance(each, Load))
            body.insert(first + 1, Carry(name, tile))
        behind = self.put([name], (), sequential=False)
        return [Carry(name), Loop(turns[0], True, tuple(body)), behind]

    def meets(self, body: list[Any], turns: tuple[int, ...]) -> bool:
        """Whether turns of a loop touch what others store to, so that their order counts."""
        program = Program(0, 1, 4, self.program.memory)
        arrays = dict(zip("xyz", program.arrays(), strict=True))
        machine = Plain(0, 1, arrays)
        touched: list[tuple[tuple[int, ...], int, int, str]] = []
        for place, kind in self.copies(body):
            for turn in np.ndindex(*turns):
                name, where = machine.at(place, [*map(int, turn)])
                part = arrays[name][where]
                first = part.__array_interface__["data"][0]
                touched.append((turn, first, first + part.strides[0] * (part.size - 1) + 4, kind))
        return any(
            one[0] != other[0] and one[1] < other[2] and other[1] < one[2]
            for one in touched
            for other in touched
            if one[3] != "load" and (one[3], other[3]) != ("add", "add")
        )

    def copies(self, body: list[Any]) -> Iterator[tuple[Place, str]]:
        for each in body:
            if isinstance(each, Load):
                yield each.place, "load"
            elif isinstance(each, Put):
                yield each.place, "add" if each.adds else "store"


def written(seed: int) -> Program:
    """The program of a seed."""
    return _Writer(seed).write()
