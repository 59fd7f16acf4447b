"""An operator's own schedule beside that of another operator of the same kind, on random calls.

What a project's tiling decides for a shape is a fact; where ours decides otherwise one of them is
to be looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from npusim.operators.arguments import bind
from npusim.operators.contract import Call
from npusim.operators.registry import prototype
from npusim.operators.resolve import resolve
from npusim.validation.drawn import Drawn
from npusim.values.errors import NpusimError, UnknownNameError

if TYPE_CHECKING:
    from npusim.operators.definition import Prototype
    from npusim.runtime.device import Device
    from npusim.runtime.results import Result
    from npusim.validation.drawn import Arguments
    from npusim.values.dtypes import DType
    from npusim.values.tensors import TensorSpec

_SAME_TIME = 0.1  # a share of the time up to which two are alike


class Pair(NamedTuple):
    """An operator of npusim's own and one beside it, whose inputs have ``dtypes`` together."""

    own: str
    other: str
    dtypes: tuple[tuple[DType, ...], ...]


@dataclass(frozen=True)
class Schedule:
    """What a call comes to: blocks, tiles copied in by all cores, microseconds."""

    blocks: int
    tiles: int
    duration_us: float


@dataclass(frozen=True)
class Compared:
    """A call on both sides; ``reason`` says why there is no other side."""

    op: str
    soc: str
    arguments: Mapping[str, Any]
    own: Schedule
    other: Schedule | None
    reason: str = ""

    @property
    def same_blocks(self) -> bool:
        """Whether both have as many blocks."""
        return self.other is not None and self.own.blocks == self.other.blocks

    @property
    def same_tiles(self) -> bool:
        """Whether both copy as many tiles in."""
        return self.other is not None and self.own.tiles == self.other.tiles

    @property
    def ratio(self) -> float | None:
        """Our time over theirs."""
        return self.own.duration_us / self.other.duration_us if self.other else None

    @property
    def same_time(self) -> bool:
        """Whether the times are alike."""
        return self.ratio is not None and abs(self.ratio - 1) <= _SAME_TIME

    @property
    def is_alike(self) -> bool:
        """Whether there is nothing to look at."""
        return self.same_blocks and self.same_tiles and self.same_time


class Agreement(NamedTuple):
    """How much of an operator's calls are alike, as shares of those that both sides take."""

    calls: int
    refused: int
    blocks: float
    tiles: float
    times: float
    median_ratio: float


def agreement(rows: Sequence[Compared]) -> Agreement | None:
    """The rows of an operator together; None where the other side takes none."""
    both = [each for each in rows if each.other]
    if not both:
        return None

    def share(alike: Iterator[bool]) -> float:
        return sum(alike) / len(both)

    return Agreement(
        len(rows),
        len(rows) - len(both),
        share(each.same_blocks for each in both),
        share(each.same_tiles for each in both),
        share(each.same_time for each in both),
        median(each.ratio or 0.0 for each in both),
    )


def compare(pair: Pair, device: Device, count: int, seed: int) -> Iterator[Compared]:
    """Up to ``count`` calls that npusim's own rules take, by a seed, on both sides."""
    sides = _Sides(pair, device)
    random = Random(f"{pair.other} {seed}")  # noqa: S311 - calls, no secrets
    drawn = Drawn(sides.inputs, sides.attributes, sides.dtypes, sides.accepts, random)
    for arguments in drawn.calls(count):
        if (found := sides.compared(arguments)) is not None:
            yield found


class _Sides:
    """Both operators: tensors correspond by their places, attributes by their names."""

    def __init__(self, pair: Pair, device: Device) -> None:
        self.pair, self.device = pair, device
        own, self._other = _known(pair.own), _known(pair.other)
        self._names = {
            there.name: here.name
            for here, there in zip(own.inputs, self._other.inputs, strict=False)
        }
        self._attributes = {_plain(each.name): each.name for each in own.attributes}
        needed = {_plain(each.name) for each in own.attributes if not each.optional}
        self._lists = [each.name for each in self._other.inputs if each.many]
        self.inputs = [each for each in self._other.inputs if each.name in self._names]
        self.attributes = [
            replace(each, optional=each.optional and _plain(each.name) not in needed)
            for each in self._other.attributes
            if _plain(each.name) in self._attributes
        ]
        self.dtypes = tuple(dict.fromkeys(each[: len(self.inputs)] for each in pair.dtypes))

    def as_own(self, arguments: Arguments) -> dict[str, Any]:
        """The same call as npusim's own operator spells it."""
        found: dict[str, Any] = {}
        for name, value in arguments.items():
            stem = next((each for each in self._lists if _is_of(name, each)), name)
            if spelled := self._names.get(stem) or self._attributes.get(_plain(name)):
                found[spelled + name.removeprefix(stem)] = value
        return found

    def accepts(self, arguments: Arguments) -> bool:
        """Whether npusim's own rules take the call."""
        try:
            return self.device.check(self.pair.own, **self.as_own(arguments)).ok
        except NpusimError:
            return False

    def compared(self, arguments: Arguments) -> Compared | None:
        """The call on both sides; None where our kernel isn't modelled for it."""
        own = self.as_own(arguments)
        try:
            ours = _schedule(self.device.estimate(self.pair.own, **own))
        except NpusimError:
            return None
        if ours is None:
            return None
        theirs, reason = None, ""
        try:
            given = {**arguments, **self._results(arguments, own)}
            theirs = _schedule(self.device.estimate(self.pair.other, **given))
        except NpusimError as error:
            reason = " ".join(str(error).split())
        return Compared(self.pair.other, self.device.profile.name, arguments, ours, theirs, reason)

    def _results(self, arguments: Arguments, own: Arguments) -> dict[str, TensorSpec]:
        """Our results, for a side that may infer none."""
        contract = resolve(self.pair.own, own)
        bound = bind(contract, own, require_data=False)
        made = iter(contract.infer_outputs(Call(contract, self.device.profile, bound)).values())
        fresh = [each for each in self._other.outputs if each.name not in arguments]
        if len(fresh) == 1 and fresh[0].many:
            return {f"{fresh[0].name}{place}": spec for place, spec in enumerate(made)}
        return (
            {}
            if any(each.many for each in fresh)
            else dict(zip([each.name for each in fresh], made, strict=False))
        )


def _known(name: str) -> Prototype:
    found = prototype(name)
    if found is None:
        raise UnknownNameError("operator", name, ())
    return found[1]


def _is_of(name: str, many: str) -> bool:
    return name.startswith(many) and name[len(many) :].isdigit()


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def _schedule(result: Result) -> Schedule | None:
    """The blocks of the longest task, and the tiles of all; None where nothing is launched."""
    if not result.tasks:
        return None
    longest = max(result.tasks, key=lambda each: each.duration_us)
    tiles = sum(
        step.times * len(group.places)
        for task in result.timeline.work()
        for group in task.cores
        for step in group.steps
        if step.path and not step.write
    )
    return Schedule(longest.block_dim, tiles, result.duration_us)
