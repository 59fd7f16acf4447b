"""What the scalar unit does in front of the other pipes' instructions: addresses and arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.engine.program import Instruction, Loop, Pipe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npusim.engine.program import Node

ISSUE = "issue"  # what the instruction is called


def with_issue(nodes: Sequence[Node], each: float) -> list[Node]:
    """``nodes`` with the scalar work of issuing them, ``each`` cycles for an instruction.

    The work is one instruction for all up to where the scalar unit does something else.
    """
    found: list[Node] = []
    issued = 0
    for node in nodes:
        if type(node) is Instruction and node.pipe is not Pipe.SCALAR:
            issued += bool(node.name) or not node.is_marker
        elif issued:
            found.append(Instruction(Pipe.SCALAR, ISSUE, issued * each))
            issued = 0
        if type(node) is Loop:
            node.body = with_issue(node.body, each)
        found.append(node)
    if issued:
        found.append(Instruction(Pipe.SCALAR, ISSUE, issued * each))
    return found
