"""Plays a lowered program on a core: every operation computes its tile and writes instructions."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from npusim.ascendc.mistakes import on_behalf
from npusim.triton import calls, lanes
from npusim.triton.held import UNKNOWN, LocalPiece, Tile
from npusim.triton.products import Products
from npusim.triton.program import MATMULS, is_over_elements
from npusim.triton.scalar import Scalars
from npusim.triton.scouting import DependsOnDataError, Scout
from npusim.values.sites import site_of

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from npusim.ascendc import Core
    from npusim.ascendc.cluster import CoreWait
    from npusim.engine.program import Barrier
    from npusim.triton.launch import Launch
    from npusim.triton.mlir import Operation, Region, Value

    Steps = Generator[Barrier | CoreWait, None, list[Any]]


class Player(Products):
    """One program on one core of its block."""

    def __init__(self, launch: Launch, core: Core) -> None:
        Scalars.__init__(self, launch.program)
        self.begin(launch, core)
        self.bind(launch, core.get_block_idx())

    def run(self) -> Iterator[Barrier | CoreWait]:
        """The whole program."""
        yield from self._region(self.program.function.body)

    def _region(self, region: Region) -> Steps:
        last_uses = self.program.last_uses
        for each in region.operations:
            with self._told(each):
                if each.name in ("scf.yield", "scf.condition", "return"):
                    found = [self._leaving(value) for value in each.operands]
                    self._release(last_uses.get(each, ()))
                    return found
                yield from self._operation(each)
                self._release(last_uses.get(each, ()))
        return []

    def _told(self, operation: Operation) -> Any:
        line = operation.line
        if not (self.core.recording and line.file):
            return nullcontext()
        return on_behalf(site_of(line.file, line.line))

    def _operation(self, operation: Operation) -> Steps:
        name = operation.name
        if name == "scf.for":
            if is_over_elements(operation):
                if self.is_mine(operation):
                    lanes.play(self, operation)
            else:
                yield from self._loop(operation)
        elif name == "scf.if":
            yield from self._branch(operation)
        elif name == "scf.while":
            yield from self._while(operation)
        elif name in MATMULS:
            yield from self.product(operation)
        elif operation.results and all(each.type.is_scalar for each in operation.results):
            self._number(operation)
        elif self.is_mine(operation):
            self.play_tile(operation)
        return []

    def _number(self, operation: Operation) -> None:
        """An operation of the scalar unit."""
        if operation.name == "tensor.extract":
            self.extract(operation)
        elif operation.name in ("call", "func.call"):
            calls.play(self, operation)
        else:
            self.play_scalar(operation)
            if operation.name == "memref.load":
                self.load_element(operation)

    def _branch(self, operation: Operation) -> Steps:
        test = self.env[operation.operands[0].number]
        if test is UNKNOWN:
            raise self.needs_data(operation)
        found: list[Any] = []
        if test:
            found = yield from self._region(operation.regions[0])
        elif len(operation.regions) > 1:
            found = yield from self._region(operation.regions[1])
        self.give(operation.results, found)
        return []

    def _while(self, operation: Operation) -> Steps:
        before, body = operation.regions
        carried = [self.env[each.number] for each in operation.operands]
        while True:
            self.give(before.arguments, carried)
            test, *carried = yield from self._region(before)
            if test is UNKNOWN:
                raise self.needs_data(operation)
            if not test:
                break
            self.give(body.arguments, carried)
            carried = yield from self._region(body)
        self.give(operation.results, carried)
        return []

    def _loop(self, operation: Operation) -> Steps:
        bounds = [self.env[each.number] for each in operation.operands[:3]]
        if UNKNOWN in bounds:
            raise self.needs_data(operation)
        carried = [self.env[each.number] for each in operation.operands[3:]]
        self.enter_loop(operation, carried)
        groups = self._groups(operation) if self.core.recording else None
        self._settle(operation)
        self.loops += 1
        if groups is None:
            for index in range(*bounds):
                self.give(operation.regions[0].arguments, [index, *carried])
                carried = yield from self._region(operation.regions[0])
        else:
            carried = yield from self._turns(operation, bounds, carried, groups)
        self.loops -= 1
        self.give(operation.results, carried)
        yield from self.leave_loop(operation)
        return []

    def _settle(self, operation: Operation) -> None:
        """Slots that were filled before a loop are handed over before it, not in each turn."""
        for value in self.program.used_in(operation):
            found = self.env[value.number]
            tile = found.tile if isinstance(found, LocalPiece) else found
            if isinstance(tile, Tile) and tile.loan is not None:
                self.ready(tile.loan)

    def _groups(self, operation: Operation) -> Any:
        """Alike iterations together; None where only data tells which are."""
        try:
            return Scout.beside(self).turns(operation)
        except DependsOnDataError:
            return None

    def _turns(
        self, operation: Operation, bounds: list[int], carried: list[Any], groups: Any
    ) -> Steps:
        low, _, step = bounds
        region, done = operation.regions[0], 0
        for group, _ in groups[0]:
            carried = _renewed(carried, group.carried)
            for index in self.core.loop(group.count, sequential=True):
                self.moves.append((index, group.moves))
                here = low + (done + index.first) * step
                self.give(region.arguments, [here, *carried])
                carried = yield from self._region(region)
                self.moves.pop()
            done += group.count
        return _renewed(carried, groups[1])

    def _leaving(self, value: Value) -> Any:
        """What a region hands out: a loaded tile is copied, its slot is free for the next load."""
        found = self.env[value.number]
        if isinstance(found, Tile) and found.loan is not None and self.core.unit.kind != "cube":
            kept = self.new(found.dtype, found.shape, found.array)
            if self.core.recording and found.local is not None and kept.local is not None:
                with self.core.schedules():
                    self.vector.move(kept.local, found.local)
            return kept
        return found

    def _release(self, values: tuple[Value, ...]) -> None:
        for value in values:
            found = self.env[value.number]
            tile = found.tile if isinstance(found, LocalPiece) else found
            if isinstance(tile, Tile) and tile.loan is not None:
                tile.loan.give_back()


def _renewed(carried: list[Any], known: list[Any]) -> list[Any]:
    """Numbers as the scout knows them, tiles as they are."""
    return [
        own if isinstance(own, Tile) or other is UNKNOWN else other
        for own, other in zip(carried, known, strict=True)
    ]
