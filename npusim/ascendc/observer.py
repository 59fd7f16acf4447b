"""Who watches a run: is told what happens to its numbers, beside what is written down."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, Protocol


class Observer(Protocol):
    """What a run with numbers tells; ``core.stack_size`` says for how many iterations at once.

    Kernels, cores (`Issuer`), slices of global memory (`GmSlice`) and tiles are handed over as they
    are; all of them depend on this module, which therefore doesn't name their types.
    """

    def begin(self, kernel: Any) -> None:
        """A kernel starts; its blocks run one after the other."""

    def loaded(self, core: Any, source: Any) -> None:
        """A tile came from global memory."""

    def stored(self, core: Any, target: Any, *, adds: bool) -> None:
        """A tile went to global memory, or was added to it."""

    def computed(self, core: Any, name: str, tile: Any, times: int) -> None:
        """An intrinsic worked on a tile, ``times`` operations for each of its elements."""


class Follower(Protocol):
    """Looks at every byte that the instructions of one core touch."""

    def reads(self, tensor: Any) -> None:
        """The last instruction reads a tile."""

    def writes(self, tensor: Any) -> None:
        """The last instruction writes a tile."""

    def allocated(self, tensor: Any) -> None:
        """A slot of a queue holds nothing yet."""

    def loaded(self, place: Any) -> None:
        """The last instruction reads a slice of global memory."""

    def storing(self, place: Any, *, adds: bool) -> AbstractContextManager[None]:
        """Inside, the last instruction writes a slice of global memory, or adds to it."""

    def meets(self) -> None:
        """The core comes to a barrier of all."""

    def waits(self) -> None:
        """The core waits for others of its block."""

    def goes_on(self) -> None:
        """The core's code runs from here on; what it has waited for has come."""


_observer: ContextVar[Observer | None] = ContextVar("observer", default=None)


def current() -> Observer | None:
    """Who watches now."""
    return _observer.get()


@contextmanager
def observed_by(observer: Observer) -> Iterator[None]:
    """Inside, all kernels of this thread tell ``observer``."""
    token = _observer.set(observer)
    try:
        yield
    finally:
        _observer.reset(token)
