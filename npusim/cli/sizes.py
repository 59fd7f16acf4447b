"""Sizes as people write them: 1MiB, 64KB, 4096."""

from __future__ import annotations

import re

from npusim.values.errors import ArgumentError
from npusim.values.language import say

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30,
          "t": 10**12, "p": 10**15, "e": 10**18, "ti": 2**40, "pi": 2**50, "ei": 2**60}  # fmt: skip
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(|k|m|g|t|p|e|ki|mi|gi|ti|pi|ei)b?", re.IGNORECASE)


def nbytes_in(text: str) -> int:
    """The bytes that `text` names; ArgumentError for anything else."""
    found = _SIZE.fullmatch(text.strip())
    if not found or len(text) > 32:
        raise ArgumentError(
            say("{text!r} is no size").format(text=text), say("Write e.g. 4096, 64KB or 1MiB.")
        )
    return round(float(found[1]) * _UNITS[found[2].lower()])
