"""Elementwise work that is put off, so that a chain of it takes one pass over the host's memory.

An intrinsic on a large tile would go through memory from end to end. A core notes its steps
instead; they are computed together, in the order in which the kernel wrote them, as soon as anybody
asks for numbers that they make. Tiles that end with an iteration need no memory at all then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from npusim.ascendc.passes import Output, Pass, Shape, Step, Work

if TYPE_CHECKING:
    from numpy.typing import NDArray

Engine = Callable[[Pass], None]
Address = int

_WORTHWHILE = 1 << 17  # elements: fewer stay in the caches of the host as it is
_MOST_STEPS = 48
_MOST_REPEATED = 8  # steps that are rather computed twice than their result written and read
FOREVER = 0  # home of what no loop ends: the number of loops around it

COPY = Work("copy", lambda values, out: np.copyto(out, values), settles=False)
# A byte that the device computes with becomes a truth value of the host.
TRUTH = Work("truth", lambda values, out: np.not_equal(values, 0, out=out), settles=False)


class Spot(NamedTuple):
    """Where an array lies. Equal spots show the same numbers.

    It consists of stretches of ``span`` bytes, ``apart`` bytes from each other.
    """

    first: Address
    end: Address
    span: int
    apart: int
    shape: Shape
    strides: Shape
    kind: int

    def meets(self, other: Spot) -> bool:
        """Whether the two have memory in common, apart from being the same."""
        return self.covers(other) and self != other

    def covers(self, other: Spot) -> bool:
        """Whether the two have memory in common."""
        if self.first >= other.end or other.first >= self.end:
            return False
        if self.apart != other.apart or not self.apart:
            return True
        behind = (other.first - self.first) % self.apart
        return behind < self.span or behind + other.span > self.apart


class _Target(NamedTuple):
    """Memory that a step's result belongs into, until ``home`` loops around it are left."""

    step: int
    array: NDArray[Any]
    home: int


class Chain:
    """The steps of one core that haven't been computed yet, all of them over one space."""

    def __init__(self, engine: Engine | None, *, saturates: bool) -> None:
        self._engine, self._saturates = engine, saturates
        self._clear()

    def _clear(self) -> None:
        self._space: Shape = ()
        self._inputs: dict[Spot, NDArray[Any]] = {}
        self._steps: list[tuple[Work, tuple[Spot | int, ...], np.dtype[Any]]] = []
        self._targets: dict[Spot, _Target] = {}
        self._asked: dict[Spot, list[Callable[[], object]]] = {}

    def compute(
        self, work: Work, target: NDArray[Any], *sources: NDArray[Any] | np.generic, home: int
    ) -> bool:
        """Note one step; False where it should be computed at once.

        The target is needed as long as there are ``home`` loops around the code.
        """
        shape = np.shape(sources[0]) if work.folds else target.shape
        if self._engine is None or prod(shape) < _WORTHWHILE:
            return False
        arrays = [np.asarray(source) for source in sources]
        spots, into = [spot_of(array) for array in arrays], spot_of(target)
        if not self._joins(work, shape, spots, into):
            self.run()
            if not self._joins(work, shape, spots, into):
                return False
        self._space = shape
        taken: list[Spot | int] = []
        for spot, array in zip(spots, arrays, strict=True):
            made = self._targets.get(spot)
            taken.append(spot if made is None else made.step)
            if made is None:
                self._inputs.setdefault(spot, array)
        step = len(self._steps)
        if work is COPY and isinstance(taken[0], int):
            step = taken[0]
        else:
            self._steps.append((work, tuple(taken), target.dtype))
        self._targets[into] = _Target(step, target, home)
        return True

    def before_reading(self, array: NDArray[Any]) -> None:
        """Somebody is about to read an array."""
        if self._targets:
            spot = spot_of(array)
            if any(spot.covers(other) for other in self._targets):
                self._run_but(
                    {
                        other: target
                        for other, target in self._targets.items()
                        if self._may_wait(target, 0) and not spot.covers(other)
                    }
                )

    def tells_later(self, array: NDArray[Any], tell: Callable[[], object]) -> bool:
        """Call ``tell`` as soon as an array's numbers are there; False where they are already."""
        spot = spot_of(array)
        if not any(spot.covers(other) for other in self._targets):
            return False
        self._asked[spot] = [*self._asked.get(spot, ()), tell]
        return True

    def before_writing(self, array: NDArray[Any]) -> None:
        """Somebody is about to write to an array."""
        if self._targets:
            spot = spot_of(array)
            if any(spot.covers(other) for other in (*self._targets, *self._inputs)):
                self.run()

    def run(self, loops: int | None = None) -> None:
        """Compute what has been noted.

        With ``loops``, only that many stay around the code: what has its home in an inner one is
        lost.
        """
        if not (self._targets or self._space):
            return
        self._compute(
            {
                spot: target
                for spot, target in self._targets.items()
                if loops is None or target.home <= loops or self._is_asked(spot)
            }
        )
        self._clear()

    def end_of_turn(self, loops: int) -> None:
        """Compute what is needed outside of ``loops``; the next turn may write over the rest."""
        if self._targets:
            targets = self._targets.items()
            self._run_but({spot: each for spot, each in targets if self._may_wait(each, loops)})

    def _may_wait(self, target: _Target, loops: int) -> bool:
        """Whether what belongs into an inner loop than ``loops`` is soon found again if need be."""
        return target.home > loops and not self._steps[target.step][0].folds

    def _run_but(self, waiting: dict[Spot, _Target]) -> None:
        """Compute all but what is ``waiting``: perhaps nobody ever asks for it.

        It is computed too if its steps take long, or if something that they take is overwritten.
        """
        steps, taken = set[int](), set[Spot]()
        todo = [target.step for target in waiting.values()]
        while todo:
            if (step := todo.pop()) not in steps:
                steps.add(step)
                for source in self._steps[step][1]:
                    todo.append(source) if isinstance(source, int) else taken.add(source)
        wanted = {spot: each for spot, each in self._targets.items() if spot not in waiting}
        long = len(steps) > _MOST_REPEATED or not all(self._steps[n][0].is_cheap for n in steps)
        if long or self._asked or any(a.covers(b) for a in wanted for b in taken):
            self.run()
            return
        self._compute(wanted)
        places = {step: place for place, step in enumerate(sorted(steps))}
        self._steps = [
            (work, tuple(places[s] if isinstance(s, int) else s for s in sources), dtype)
            for work, sources, dtype in (self._steps[step] for step in places)
        ]
        self._inputs = {spot: array for spot, array in self._inputs.items() if spot in taken}
        self._targets = {
            spot: target._replace(step=places[target.step]) for spot, target in waiting.items()
        }

    def _compute(self, targets: dict[Spot, _Target]) -> None:
        """Compute some targets, and tell who asked for numbers."""
        inputs, asked = self._inputs, self._asked
        if not targets or self._engine is None:
            return
        numbers = {spot: number for number, spot in enumerate(inputs)}
        steps = [
            Step(
                work,
                tuple(
                    len(inputs) + source if isinstance(source, int) else numbers[source]
                    for source in sources
                ),
                dtype,
            )
            for work, sources, dtype in self._steps
        ]
        outputs = [
            Output(target.step, target.array, numbers.get(spot)) for spot, target in targets.items()
        ]
        work = Pass.of(self._space, [*inputs.values()], steps, outputs, saturates=self._saturates)
        self._engine(work)
        for tells in asked.values():
            for tell in tells:
                tell()

    def _is_asked(self, spot: Spot) -> bool:
        return any(spot.covers(other) for other in self._asked)

    def _joins(self, work: Work, space: Shape, spots: Sequence[Spot], into: Spot) -> bool:
        """Whether a step can be computed together with those before it, element by element."""
        if self._steps and (space != self._space or len(self._steps) >= _MOST_STEPS):
            return False
        for spot in spots:
            made = self._targets.get(spot)
            if made is not None and self._steps[made.step][0].folds:
                return False
            if made is None and any(spot.meets(other) for other in self._targets):
                return False
        if work is COPY and (spots[0] not in self._targets or spots[0].kind != into.kind):
            return False  # a copy alone is a pass of its own already
        if any(into.covers(other) for other in self._asked):
            return False
        known = (*self._targets, *self._inputs, *spots)
        if work.folds:
            return not any(into.covers(other) for other in known)
        return not any(into.meets(other) for other in known)


def spot_of(array: NDArray[Any]) -> Spot:
    """Where an array lies."""
    first: int = array.__array_interface__["data"][0]
    sizes, strides = array.shape, array.strides
    end = span = array.itemsize
    apart = max(
        (abs(step) for size, step in zip(sizes, strides, strict=True) if size > 1), default=0
    )
    for size, step in zip(sizes, strides, strict=True):
        reach = (size - 1) * step
        first += min(reach, 0)
        end += abs(reach)
        span += abs(reach) if abs(step) != apart else 0
    return Spot(first, first + end, span, apart, sizes, strides, array.dtype.num)
