"""linalg.generic on tiles: element by element, perhaps by their places."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.triton import numbers
from npusim.triton.bodies import element_work

if TYPE_CHECKING:
    from npusim.triton.copies import Copies
    from npusim.triton.mlir import Operation


def play(player: Copies, operation: Operation) -> None:
    """A body for every element of the results."""
    if "reduction" in operation.text or not operation.results:
        raise player.unknown(operation, "linalg.generic that reduces or has no result")
    sources = [player.tile(each) for each in operation.ins]
    shape = player.shape_of(operation.results[0], *sources)
    if any(each.shape != shape for each in sources):
        raise player.unknown(operation, "linalg.generic on tiles of other shapes than its result")
    body = operation.regions[0]
    found: list[Any] = []
    if player.core.numerics:
        env: dict[int, Any] = {}
        for value, tile in zip(body.arguments, sources, strict=False):
            env[value.number] = player.array(tile)
        found = _computed(player, operation, env, shape)
    for index in range(len(operation.results)):
        tile = player.result(operation, partial(_nth, found, index), sources, index)
        if player.core.recording and tile.local is not None:
            with player.core.schedules():
                names = [each.name for each in body.operations]
                if "linalg.index" in names:
                    player.vector.count_up(tile.local)
                rows = [numbers.BINARY.get(name.partition(".")[2]) for name in names]
                steps = [step for row in rows if row is not None for step in row.instructions]
                if sources:
                    player.vector.elements(
                        steps, tile.local, [player.local(each) for each in sources]
                    )


def _computed(
    player: Copies, operation: Operation, env: dict[int, Any], shape: tuple[int, ...]
) -> list[Any]:
    for each in operation.regions[0].operations:
        if each.name == "linalg.yield":
            return [np.broadcast_to(env[one.number], shape) for one in each.operands]
        if each.name == "linalg.index":
            axis = int(each.text.split()[1])
            around = [1] * len(shape)
            around[axis] = shape[axis]
            env[each.results[0].number] = np.arange(shape[axis]).reshape(around)
            continue
        operands = [env.get(one.number, player.env[one.number]) for one in each.operands]
        work = element_work(each, operands)
        if work is None:
            raise player.unknown(each)
        env[each.results[0].number] = work
    return []


def _nth(found: list[Any], index: int) -> Any:
    return found[index]
