"""Continuous batching played step by step; steps that only decode are taken many at a time.

Groups that share experts step together: what one of them reads or writes, all wait for. Where
prompts have cards of their own, what they leave in the cache is sent to those that decode.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf
from typing import TYPE_CHECKING

from npusim.serving.clients import Book, Clients
from npusim.serving.group import Group
from npusim.serving.routing import Router
from npusim.serving.unit import Unit
from npusim.values.errors import ArgumentError
from npusim.values.language import say

if TYPE_CHECKING:
    from npusim.serving.clients import Patience
    from npusim.serving.costs import StepCosts
    from npusim.serving.policy import Policy
    from npusim.serving.requests import Requests


@dataclass(frozen=True, eq=False)
class Outcome:
    """What became of every request, in order; milliseconds since the first could come.

    `sent_ms` is when the client sent it (with limited concurrency later than it wanted to),
    `first_ms` its first token, `done_ms` its last. Of the cards that decode, `busy_ms` is the time
    in steps, and `most_blocks` how many their caches held at most, together.
    """

    sent_ms: list[float]
    first_ms: list[float]
    done_ms: list[float]
    tokens: list[int]
    preemptions: int
    steps: int
    busy_ms: float
    most_blocks: int


@dataclass(frozen=True)
class Stage:
    """So many groups alike that take turns; those that share experts step `together`.

    A stage may have several `instances` of them, which wait for nobody.
    """

    costs: StepCosts
    policy: Policy
    groups: int = 1
    together: bool = False
    instances: int = 1


def serve(
    requests: Requests, costs: StepCosts, policy: Policy, *, concurrency: int | None = None
) -> Outcome:
    """Serve all requests on one data-parallel group, first come, first served.

    With `concurrency` no more than so many are sent at once: the next one when one is done.
    Raises ArgumentError where a request can't ever fit.
    """
    return serve_in_stages(requests, [Stage(costs, policy)], concurrency=concurrency)


def serve_in_stages(
    requests: Requests,
    stages: Sequence[Stage],
    *,
    handover_ms: Callable[[int], float] | None = None,
    concurrency: int | None = None,
    router: str = "round_robin",
    patience: Patience | None = None,
) -> Outcome:
    """Serve requests on the groups of one stage, or of two: cards for prompts, cards that decode.

    `handover_ms` is how long the cache of so many tokens is on its way from one to the other; a
    group sends, and gets, one after the other. Raises ArgumentError where a request can't ever fit,
    or for an unknown `router`, TooLateError where more are late than there is `patience` for.
    """
    room = min(stage.policy.kv_tokens for stage in stages)
    longest = int((requests.input_tokens + requests.output_tokens).max())
    if longest > room:
        raise ArgumentError(
            say("a request of {longest} tokens, and room for {room} in the cache").format(
                longest=longest, room=room
            ),
            say("Take more or larger cards, fewer bits, or shorter requests."),
        )
    book = Book(requests)
    clients = Clients(requests, book, concurrency, patience)
    return _Play(book, clients, stages, handover_ms, router).run()


class _Play:
    """Units wake up when a step is over or a request comes; a heap says who is next."""

    def __init__(
        self,
        book: Book,
        clients: Clients,
        stages: Sequence[Stage],
        handover_ms: Callable[[int], float] | None,
        router: str,
    ) -> None:
        self._book = book
        self._clients = clients
        self._handover_ms = handover_ms
        self._routers: list[Router] = []
        self._moving: list[tuple[float, int]] = []  # when it arrives, request
        self._stages: list[list[Group]] = []
        self._units: list[list[Unit]] = []
        self._ends: list[list[tuple[float, int]]] = [[] for _ in stages]  # when, which unit
        for number, stage in enumerate(stages, 1):
            last = number == len(stages)
            groups = [
                Group(book, stage.costs, stage.policy, hands_over=not last)
                for _ in range(stage.groups * stage.instances)
            ]
            self._stages.append(groups)
            prompts = number == 1 or router == "round_robin"
            self._routers.append(Router(router if prompts else "least_loaded", book, len(groups)))
            each = stage.groups if stage.together else 1
            dealt = [groups[at : at + each] for at in range(0, len(groups), each)]
            self._units.append([Unit(each) for each in dealt])
        # By unit that decodes: prompts that are read for it, and when caches arrive there.
        self._reading = [0] * len(self._units[-1])
        self._arriving: list[list[float]] = [[] for _ in self._units[-1]]
        # By group that reads, and that decodes: until when its ports are busy with caches.
        self._sending_ms = [0.0] * len(self._stages[0])
        self._getting_ms = [0.0] * len(self._stages[-1])

    def run(self) -> Outcome:
        now_ms = 0.0
        while now_ms < inf:
            woken = self._finish(now_ms)
            last = len(self._stages) - 1
            if self._clients.next_ms <= now_ms:
                for request in self._clients.due(now_ms):
                    woken.add((0, self._send(request, 0)))
                    self._reading[self._unit_of(request, last)] += 1
            while self._moving and self._moving[0][0] <= now_ms:
                number = self._send(heappop(self._moving)[1], last)
                heappop(self._arriving[number])
                woken.add((last, number))
            for stage, number in sorted(woken):
                unit = self._units[stage][number]
                if unit.until_ms == inf:
                    unit.begin(now_ms, self._outside_ms(stage, number))
                    if unit.until_ms < inf:
                        heappush(self._ends[stage], (unit.until_ms, number))
            now_ms = self._next_ms()
        return self._outcome()

    def _finish(self, now_ms: float) -> set[tuple[int, int]]:
        """Units whose step is over, as stage and number."""
        woken = set()
        for stage, ends in enumerate(self._ends):
            while ends and ends[0][0] <= now_ms:
                number = heappop(ends)[1]
                woken.add((stage, number))
                for request in self._units[stage][number].end():
                    if self._book.finished[request] < inf:
                        self._clients.served(request, now_ms)
                        for router in self._routers[stage:]:
                            router.left(request)
                    else:
                        self._move(request, now_ms)
                        self._routers[stage].left(request)
        return woken

    def _move(self, request: int, now_ms: float) -> None:
        """The cache of a prompt is sent when both ends are done with those before."""
        source, target = (each.group(request) for each in (self._routers[0], self._routers[-1]))
        begun_ms = max(now_ms, self._sending_ms[source], self._getting_ms[target])
        taken_ms = self._handover_ms(self._book.wanted[request]) if self._handover_ms else 0.0
        until_ms = self._sending_ms[source] = self._getting_ms[target] = begun_ms + taken_ms
        heappush(self._moving, (until_ms, request))
        number = self._unit_of(request, len(self._stages) - 1)
        heappush(self._arriving[number], until_ms)
        self._reading[number] -= 1

    def _send(self, request: int, stage: int) -> int:
        """Give a request to its group; the number of its unit."""
        units = self._units[stage]
        number, group = divmod(self._routers[stage].group(request), len(units[0].groups))
        units[number].send(request, group)
        return number

    def _unit_of(self, request: int, stage: int) -> int:
        return self._routers[stage].group(request) // len(self._units[stage][0].groups)

    def _outside_ms(self, stage: int, number: int) -> float:
        """When something may come to a unit from outside; until then its steps are its own.

        Clients that wait for an answer before they ask again may ask anybody at any end of a step.
        """
        if not self._clients.wait_for_nobody:
            return self._next_ms()
        if self._routers[stage].takes_turns:
            count = len(self._units[stage][number].groups)
            next_ms = self._clients.next_to_ms(number * count, count, len(self._stages[stage]))
        else:
            next_ms = self._clients.next_ms
        if not stage:
            return next_ms
        read_ms = self._ends[0][0][0] if self._ends[0] and self._reading[number] else inf
        arriving = self._arriving[number]
        return min(next_ms, read_ms, arriving[0] if arriving else inf)

    def _next_ms(self) -> float:
        """When the next thing happens that is known of."""
        next_ms = self._clients.next_ms
        for known in (self._moving, *self._ends):
            if known and known[0][0] < next_ms:
                next_ms = known[0][0]
        return next_ms

    def _outcome(self) -> Outcome:
        book, last = self._book, self._stages[-1]
        groups = [group for stage in self._stages for group in stage]
        return Outcome(
            book.sent, book.first, book.finished, book.given,
            sum(group.preemptions for group in groups),
            max(group.steps for group in last),
            max(group.busy_ms for group in last),
            sum(group.most_blocks for group in last),
        )  # fmt: skip
