"""What passes look for: who reads a result alone, what numbers are added or multiplied."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npusim.graph.network import Network, Node, Value


def follower(network: Network, node: Node, *ops: str) -> Node | None:
    """The node that reads the first output, if it is the only one and of these operators."""
    if not network.is_private(node.output):
        return None
    (user,) = node.output.users
    return user if user.op in ops else None


def maker(value: Value | None, *ops: str) -> Node | None:
    """The node that makes a value, if it is one of these operators."""
    found = None if value is None else value.maker
    return found if found is not None and found.op in ops else None


def other(node: Node, value: Value) -> Value | None:
    """The second operand of two where `value` is the first, whichever is written first."""
    if len(node.given) != 2:
        return None
    left, right = node.given
    return right if left is value else left if right is value else None


def number(node: Node, value: Value) -> float | None:
    """The known number that a node combines `value` with; None where there is none."""
    operand = other(node, value)
    return None if operand is None else operand.scalar()


def close(found: float | None, wanted: float) -> bool:
    """Whether a number of the file is the one that is looked for, as far as float16 tells."""
    return found is not None and abs(found - wanted) <= 1e-3 * max(1.0, abs(wanted))
