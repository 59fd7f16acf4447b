"""What an operator is: definitions, checks, arguments, task chains, and how one is found.

`register` adds operators of other packages, which may also name folders of theirs as entry points
of the group ``npusim.operators``.
"""

from npusim.operators.definition import (
    Aclnn,
    Attribute,
    Operator,
    Page,
    family,
    flag,
    ints,
    real,
    text,
    whole,
)
from npusim.operators.registry import register, unregister

__all__ = [
    "Aclnn",
    "Attribute",
    "Operator",
    "Page",
    "family",
    "flag",
    "ints",
    "real",
    "register",
    "text",
    "unregister",
    "whole",
]
