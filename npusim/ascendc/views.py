"""Tiles that show memory which isn't theirs, and what becomes of them when it is written.

Most tiles are read once and freed before anything is stored to where they came from, so a load
copies nothing: the tile shows global memory. Whoever is about to write there says so first, and the
tiles that show some of it take a copy: what was loaded stays what it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol
from weakref import ref

if TYPE_CHECKING:
    from numpy.typing import NDArray


class View(Protocol):
    """What is known here of a tile (:class:`npusim.ascendc.tensors.LocalTensor`)."""

    @property
    def is_view(self) -> bool: ...
    def give_way(self, written: NDArray[Any]) -> None: ...


_FEW = 16  # views: with more of them, those that have ended are forgotten first


class Views:
    """The tiles of a block's cores that show global memory, or other tiles."""

    __slots__ = ("_all", "of_tiles")

    def __init__(self) -> None:
        self._all: list[ref[View]] = []
        self.of_tiles: list[ref[View]] = []

    def add(self, tensor: View, *, loaded: bool) -> None:
        """A tile shows global memory, if it was ``loaded``, or what another tile does."""
        if len(self._all) >= _FEW:
            self._all = _living(self._all)
            self.of_tiles = _living(self.of_tiles)
        view = ref(tensor)
        self._all.append(view)
        if not loaded:
            self.of_tiles.append(view)

    def before_storing(self, array: NDArray[Any]) -> None:
        """Somebody is about to write to global memory."""
        if self._all:
            self._all = _given_way(self._all, array)

    def before_writing(self, array: NDArray[Any]) -> None:
        """Somebody is about to write to a tile, and there are views ``of_tiles``."""
        self.of_tiles = _given_way(self.of_tiles, array)


def _living(views: list[ref[View]]) -> list[ref[View]]:
    return [view for view in views if (tensor := view()) is not None and tensor.is_view]


def _given_way(views: list[ref[View]], array: NDArray[Any]) -> list[ref[View]]:
    """The views that are left when all that show some of ``array`` have taken a copy."""
    left = []
    for view in views:
        tensor = view()
        if tensor is not None and tensor.is_view:
            tensor.give_way(array)
            left.append(view)
    return left
