"""Who gets a request: the router in front of groups that are alike.

``round_robin``: they take turns. ``least_loaded``: the one with the fewest tokens of prompts that
it hasn't answered (vllm-ascend's proxy: examples/disaggregated_prefill_v1). ``prefix_aware``: the
one that was sent most of the same beginning, as long as nobody has many more requests than another;
else the least loaded (``cache_aware`` of SGLang's router, with its thresholds).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from npusim.values.errors import ArgumentError
from npusim.values.language import say

if TYPE_CHECKING:
    from npusim.serving.clients import Book

ROUTERS: Final = ("round_robin", "least_loaded", "prefix_aware")
_UNEVEN: Final = 64  # requests that one has more than another, so that beginnings don't count
_TIMES: Final = 1.5  # and as many times as many
_ALIKE: Final = 0.3  # of a prompt that has to be there for it to count


def check_router(name: str) -> None:
    """ArgumentError for a router that isn't one."""
    if name not in ROUTERS:
        raise ArgumentError(
            f"--router {name}", say("Say one of {routers}.").format(routers=", ".join(ROUTERS))
        )


class Router:
    """Sends requests to `groups` by their numbers; knows what each has open.

    With `takes_turns` it is known beforehand who gets which request.
    """

    def __init__(self, name: str, book: Book, groups: int) -> None:
        check_router(name)
        self._name = name
        self.takes_turns = name == "round_robin"
        self._book = book
        self._tokens = [0] * groups
        self._open = [0] * groups
        self._sent: list[set[int]] = [set() for _ in range(groups)]
        self._at: dict[int, int] = {}

    def group(self, request: int) -> int:
        """Whose a request is; it is chosen when that is asked first."""
        if self.takes_turns:
            return request % len(self._tokens)
        if request not in self._at:
            number = self._at[request] = self._chosen(request)
            self._tokens[number] += self._book.inputs[request]
            self._open[number] += 1
        return self._at[request]

    def left(self, request: int) -> None:
        """A group has done with a request."""
        if not self.takes_turns:
            number = self._at.pop(request)
            self._tokens[number] -= self._book.inputs[request]
            self._open[number] -= 1

    def _chosen(self, request: int) -> int:
        least = min(range(len(self._tokens)), key=lambda each: (self._tokens[each], each))
        if self._name == "least_loaded" or self._book.contents is None:
            return least
        names = self._book.contents[request]
        known = [self._known(each, names) for each in range(len(self._sent))]
        found = known.index(max(known))
        fewest, most = min(self._open), max(self._open)
        uneven = most - fewest > _UNEVEN and most > _TIMES * fewest
        if uneven or known[found] <= _ALIKE * len(names):
            found = least
        self._sent[found].update(names)
        return found

    def _known(self, group: int, names: tuple[int, ...]) -> int:
        """How many names of a prompt from the first on a group has been sent."""
        sent = self._sent[group]
        return next((at for at, name in enumerate(names) if name not in sent), len(names))
