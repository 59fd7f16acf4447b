"""Whether a call queues the operators that the device's host code would.

`tests/data/level0_operators.yaml` has what the public host code of each interface names, on all
products and for all shapes, so that an operator may be there and yet not be run. It can't tell
whether one is missing; it tells where several stand for one that the device has.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import yaml

from support.paths import TESTS

if TYPE_CHECKING:
    from collections.abc import Iterable

# What bring tensors into the form that an operator takes, or clear what is added to.
_AUXILIARY = {
    "AsStrided", "BroadcastTo", "Cast", "ConcatD", "Fill", "MemSet", "Pad", "PadV3", "Slice",
    "StridedSlice", "TensorMove", "TransData", "Transpose", "ViewCopy",
}  # fmt: skip
# Interfaces that are several operators here, though the device has one of its own or others.
APART: dict[str, str] = {}


@cache
def _named() -> dict[str, list[str]]:
    text = (TESTS / "data" / "level0_operators.yaml").read_text(encoding="utf-8")
    return {api: names.lower().split() for api, names in yaml.safe_load(text).items()}


def strangers(api: str, op_types: Iterable[str]) -> set[str]:
    """Operators of a call that the device's host code doesn't name, in any version."""
    names = _named().get(api)
    if names is None:
        return set()
    found = {each for each in op_types if each not in _AUXILIARY}
    return {each for each in found if not any(_alike(each.lower(), name) for name in names)}


def _alike(op_type: str, name: str) -> bool:
    """Whether one is a version of the other."""
    return op_type.startswith(name) or name.startswith(op_type)
