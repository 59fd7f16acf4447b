"""Beginnings of prompts that are still in the cache, as a trace names them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class Prefixes:
    """What finished prompts left, the least recently used going first.

    A name stands for its content and everything in front of it, so that it is found only if all
    names before it are.
    """

    def __init__(self) -> None:
        self._kept: dict[int, None] = {}  # from the least recently used to the last

    def found(self, names: Sequence[int], room: int) -> int:
        """How many of `names` from the first on are there, with `room` for so many in all."""
        while len(self._kept) > room:
            del self._kept[next(iter(self._kept))]
        count = next((at for at, name in enumerate(names) if name not in self._kept), len(names))
        self.keep(names[:count])
        return count

    def keep(self, names: Sequence[int]) -> None:
        """Keep `names` as the last used; the first of them longest, since others need it."""
        for name in reversed(names):
            self._kept.pop(name, None)
            self._kept[name] = None
