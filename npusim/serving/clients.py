"""Who asks: when each request is sent, and what is known of it until its last token."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npusim.serving.requests import Requests


class Book:
    """What is known of every request, by its number; times in milliseconds.

    Of a prompt `wanted` tokens are to be computed (after a preemption its output so far too), and
    so many are `done`; so many tokens are `given`.
    """

    def __init__(self, requests: Requests) -> None:
        count = len(requests)
        self.inputs: list[int] = requests.input_tokens.tolist()
        self.outputs: list[int] = requests.output_tokens.tolist()
        self.contents = requests.prefixes
        self.wanted: list[int] = list(self.inputs)
        self.done = [0] * count
        self.given = [0] * count
        self.sent = [0.0] * count
        self.first = [inf] * count
        self.finished = [inf] * count


class TooLateError(Exception):
    """So many requests were late that a run is of no use: by their first token, and by others."""

    def __init__(self, first: int, further: int) -> None:
        super().__init__(first, further)
        self.first, self.further = first, further


@dataclass
class Patience:
    """Limits in milliseconds, and how many requests may be beyond them before a run is given up."""

    ttft_ms: float
    tpot_ms: float
    most: float
    first: int = 0
    further: int = 0

    def see(self, book: Book, request: int) -> None:
        """A request has got its last token; TooLateError for one late too many."""
        begun_ms, rest = book.first[request], max(1, book.outputs[request] - 1)
        if begun_ms - book.sent[request] > self.ttft_ms:
            self.first += 1
        elif book.finished[request] - begun_ms > self.tpot_ms * rest:
            self.further += 1
        if self.first + self.further > self.most:
            raise TooLateError(self.first, self.further)


class Clients:
    """Send requests when their time has come, and no more than `concurrency` at once."""

    def __init__(
        self,
        requests: Requests,
        book: Book,
        concurrency: int | None,
        patience: Patience | None = None,
    ) -> None:
        self._patience = patience
        self._arrivals: list[float] = requests.arrival_ms.tolist()
        self._book = book
        self._slots = inf if concurrency is None else concurrency
        self._freed_ms = 0.0  # when a slot was got that lacked
        self._next = 0

    @property
    def next_ms(self) -> float:
        """When a request comes that there is a slot for: never, if there is none."""
        more = self._slots > 0 and self._next < len(self._arrivals)
        return self._arrivals[self._next] if more else inf

    @property
    def wait_for_nobody(self) -> bool:
        """Whether requests come when they come, however many are open."""
        return self._slots == inf

    def next_to_ms(self, first: int, count: int, groups: int) -> float:
        """When a request comes to one of `count` groups from the `first` on, of all that there are.

        They take turns, and nobody waits for a slot.
        """
        turn = self._next % groups
        ahead = 0 if first <= turn < first + count else (first - turn) % groups
        place = self._next + ahead
        return self._arrivals[place] if place < len(self._arrivals) else inf

    def due(self, now_ms: float) -> Iterator[int]:
        """The requests that are sent now."""
        while (arrival := self.next_ms) <= now_ms:
            request = self._next
            self._book.sent[request] = max(arrival, self._freed_ms)
            self._slots -= 1
            self._next += 1
            yield request

    def served(self, request: int, now_ms: float) -> None:
        """A request has got its last token."""
        if self._patience is not None:
            self._patience.see(self._book, request)
        if not self._slots:
            self._freed_ms = now_ms
        self._slots += 1
