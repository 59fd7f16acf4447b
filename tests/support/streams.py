"""What the cores of a kernel were given, in a form that can be compared."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING

from npusim.engine.program import Instruction, Loop

if TYPE_CHECKING:
    from npusim.engine import CoreGroup
    from npusim.engine.program import Node

_Flags = dict[int, int]


def told(groups: Sequence[CoreGroup]) -> list[Hashable]:
    """All instructions of all cores; flags are numbered as they are met, cluster by cluster."""
    met: dict[int | None, _Flags] = {}
    found: list[Hashable] = []
    for group in groups:
        program = group.program
        found += [group.blocks, group.unit, group.cluster, tuple(program.starts.items())]
        flags = met.setdefault(group.cluster, {}) if group.cluster is not None else {}
        found += _nodes(program.body, flags)
        held = {
            name: (program.flags[each], program.delays.get(each)) for each, name in flags.items()
        }
        found += sorted(held.items())
    return found


def _nodes(nodes: Sequence[Node], flags: _Flags) -> Iterator[Hashable]:
    for node in nodes:
        if isinstance(node, Instruction):
            yield node.pipe, node.name, node.detail, node.site
            yield node.cycles, node.latency, node.transfer
            for numbers in (node.waits, node.sets):
                yield tuple(flags.setdefault(each, len(flags)) for each in numbers)
        elif isinstance(node, Loop):
            yield node.count, len(node.body)
            yield from _nodes(node.body, flags)
        else:
            yield node
