"""What the scalar unit does in front of the other pipes' instructions: addresses and arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.engine.program import Instruction, Loop, Pipe

if TYPE_CHECKING:
    from npusim.engine.program import Node

ISSUE = "issue"  # what the instruction is called


def add_issue(nodes: list[Node], each: float) -> None:
    """Add the scalar work of issuing ``nodes``, ``each`` cycles for an instruction.

    The work is one instruction for all up to where the scalar unit does something else.
    """
    found: list[tuple[int, int]] = []  # in front of which nodes, for how many
    issued, scalar = 0, Pipe.SCALAR
    for place, node in enumerate(nodes):
        if type(node) is Instruction and node.pipe is not scalar:
            if node.name or node.cycles or node.transfer is not None:  # no `is_marker`, quicker
                issued += 1
            continue
        if issued:
            found.append((place, issued))
            issued = 0
        if type(node) is Loop:
            add_issue(node.body, each)
    if issued:
        found.append((len(nodes), issued))
    for place, issued in reversed(found):
        nodes.insert(place, Instruction(scalar, ISSUE, issued * each))
