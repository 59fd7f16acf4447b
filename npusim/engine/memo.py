"""What has been found out about a kernel before need not be found out again.

Two things are kept. **Runs**, some hundred bytes each: how long a kernel took and what it moved,
under everything that decides it, the state of L2 among it. **Instruction streams**, a hundred times
as large, of kernels that are met again while L2 holds something else. Each has its share of the
bytes. What has to make room is drawn by lot: who goes through more than fits, again and again in
the same order, still finds what is left, where dropping the oldest would leave nothing.
"""

from __future__ import annotations

import random
from functools import cache, cached_property
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from npusim.reading import run_store
from npusim.values.locks import lock

if TYPE_CHECKING:
    from npusim.engine.program import CoreGroup

T = TypeVar("T")

DEFAULT_BYTES = 100_000_000
_STREAMS_SHARE = 0.4  # of them; the rest is for runs
_BYTES = (1000, 220)  # streams of a kernel, an instruction: measured
_ENTRY_BYTES = (
    260  # of a run, beside its text: key, place in the table and among the lots; measured
)
_LARGEST_SHARE = 1 / 3  # of the limit, for one kernel: more isn't worth keeping


class Streams(NamedTuple):
    """The instruction streams of a kernel on a chip, and the numbers of its buffers in them.

    ``asked`` says whether the kernel has asked for numbers that decide what it does.
    """

    groups: tuple[CoreGroup, ...]
    buffers: tuple[int, ...]
    asked: bool


class Store(Protocol):
    """Where runs are kept beyond this process."""

    def get(self, key: bytes) -> bytes | None:
        """What is kept under a key, as it was given."""

    def put(self, key: bytes, text: bytes) -> None:
        """Keep it, for others too."""

    def flush(self) -> None:
        """Let others have it now."""


class Memo:
    """Runs and instruction streams that are kept; for any threads.

    All together take about ``limit_bytes``; with 0 nothing is kept. Its length counts runs, a text
    each. Runs go to the ``store``, too, and what isn't here is looked for there: by default the
    file that ``NPUSIM_RUNS`` names, if it does.
    """

    def __init__(self, limit_bytes: int = DEFAULT_BYTES, store: Store | None = None) -> None:
        self.limit_bytes = limit_bytes
        self.store = (store or run_store.shared()) if limit_bytes else None
        for_streams = _STREAMS_SHARE * limit_bytes
        self._streams: _Shelf[Streams] = _Shelf(for_streams)
        self._runs: _Shelf[bytes] = _Shelf(limit_bytes - for_streams)

    def __len__(self) -> int:
        return len(self._runs)

    @cached_property
    def of_single_calls(self) -> Memo:
        """The same memo for calls that each have a stream of their own: it keeps runs alone.

        None of their kernels is met again while L2 holds something else, and Python would go
        through all that streams consist of whenever it looks for garbage.
        """
        return _OfRuns(self)

    @property
    def held_bytes(self) -> int:
        """About how much is held."""
        return self._runs.held_bytes + self._streams.held_bytes

    def run(self, key: bytes) -> bytes | None:
        """The run that is kept under ``key``."""
        found = self._runs.get(key)
        if found is None and self.store is not None:
            found = self.store.get(key)
            if found is not None:
                self._runs.keep(key, found, _ENTRY_BYTES + len(found))
        return found

    def keep_run(self, key: bytes, text: bytes) -> None:
        """Keep a run; others have to make room."""
        self._runs.keep(key, text, _ENTRY_BYTES + len(text))
        if self.store is not None:
            self.store.put(key, text)

    def flush(self) -> None:
        """Let others have what was kept."""
        if self.store is not None:
            self.store.flush()

    def streams(self, key: bytes) -> Streams | None:
        """The instruction streams that are kept under ``key``."""
        return self._streams.get(key)

    def keep_streams(self, key: bytes, found: Streams) -> None:
        """Keep instruction streams, if they are worth their room; others have to make it."""
        record, instruction = _BYTES
        instructions = sum(group.program.totals().instructions for group in found.groups)
        self._streams.keep(key, found, record + instruction * instructions)


class _OfRuns(Memo):
    """Another memo that keeps no streams."""

    def __init__(self, memo: Memo) -> None:
        vars(self).update(vars(memo))
        self._streams = _Shelf(0.0)


class _Shelf(Generic[T]):
    """What is kept under keys, in about ``limit_bytes``."""

    def __init__(self, limit_bytes: float) -> None:
        self.held_bytes = 0
        self._limit_bytes = limit_bytes
        self._lock = lock()
        self._kept: dict[bytes, tuple[T, int, int]] = {}  # with its bytes, and its lot
        self._lots: list[bytes] = []
        self._draw = random.Random(0).randrange  # noqa: S311 - no secret

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: bytes) -> T | None:
        with self._lock:
            found = self._kept.get(key)
        return None if found is None else found[0]

    def keep(self, key: bytes, found: T, nbytes: int) -> None:
        with self._lock:
            if nbytes > _LARGEST_SHARE * self._limit_bytes or key in self._kept:
                return
            while self.held_bytes + nbytes > self._limit_bytes:
                self._drop(self._draw(len(self._lots)))
            self._kept[key] = found, nbytes, len(self._lots)
            self._lots.append(key)
            self.held_bytes += nbytes

    def _drop(self, lot: int) -> None:
        """Drop what has a lot, which goes to the last one."""
        gone, last = self._lots[lot], self._lots.pop()
        self.held_bytes -= self._kept.pop(gone)[1]
        if last is not gone:
            self._lots[lot] = last
            self._kept[last] = (*self._kept[last][:2], lot)


@cache
def process_memo() -> Memo:
    """What this process has traced and played, for work that asks for many calls."""
    return Memo()
