"""Instruction streams as bytes: a third of their size, and no objects to be searched for garbage.

Python looks through all that it has made again and again; what is kept for later is far more than
what a call makes.
"""

from __future__ import annotations

import pickle
from typing import Any

from npusim.engine.program import (
    Barrier,
    CoreGroup,
    Instruction,
    Loop,
    Node,
    Program,
    Transfer,
    told,
)


def packed(groups: tuple[CoreGroup, ...]) -> bytes:
    """The programs of all cores, those that groups share once."""
    programs = {id(group.program): group.program for group in groups}
    places = {each: place for place, each in enumerate(programs)}
    bodies = [
        (told(each.body), each.flags, each.delays, each.names, each.kernel, each.starts)
        for each in programs.values()
    ]
    cores = [(each.blocks, places[id(each.program)], each.unit, each.cluster) for each in groups]
    return pickle.dumps((bodies, cores), protocol=pickle.HIGHEST_PROTOCOL)


def unpacked(data: bytes) -> tuple[CoreGroup, ...]:
    """What was :func:`packed` in this process."""
    bodies, cores = pickle.loads(data)  # noqa: S301 - nobody else's
    programs = [Program(_nodes(body), *others) for body, *others in bodies]
    return tuple([CoreGroup(blocks, programs[at], *unit) for blocks, at, *unit in cores])


def _nodes(body: tuple[Any, ...]) -> list[Node]:
    found: list[Node] = []
    for each in body:
        if isinstance(each, str):
            found.append(Barrier(each))
        elif len(each) == 2:
            found.append(Loop(each[0], _nodes(each[1])))
        else:
            pipe, name, cycles, transfer, *others = each
            moved = None if transfer is None else Transfer(*transfer)
            found.append(Instruction(pipe, name, cycles, moved, *others))
    return found
