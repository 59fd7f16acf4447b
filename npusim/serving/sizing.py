"""Candidates simulated: how many cards of each answer a plan's requests in time."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING, Any, Final

from npusim.hardware import load_profile
from npusim.serving.clients import Patience, TooLateError
from npusim.serving.deployment import Deployment, deploy, serve_apart
from npusim.serving.options import Option
from npusim.serving.policy import Policy
from npusim.serving.requests import Requests, even_lengths
from npusim.serving.results import Served
from npusim.serving.spares import spares_of
from npusim.values.errors import ArgumentError
from npusim.values.language import say

if TYPE_CHECKING:
    from collections.abc import Callable

    from npusim.llm import LanguageModel, Layout
    from npusim.serving.options import Candidate
    from npusim.serving.plan import LlmPlan

_HALVINGS: Final = 6
_MOST_STEPS: Final = 8  # changes to a fleet of two kinds of cards
_TURNS: Final = 4  # times that all sequences at once are answered in a run
_MOST_REQUESTS: Final = 3000
_MOST_TOGETHER: Final = 4  # replicas between which requests are sent where they aren't full
_ROUNDING: Final = 1e-9
LATE: Final = "not even one request at a time is in time"
Key = tuple[object, ...]
Tried = tuple[tuple[float, Served], ...]
Runs = dict[Key, tuple[Deployment, Served]]


class Sizer:
    """Simulates candidates of one plan; what was deployed or served once is kept."""

    def __init__(
        self,
        plan: LlmPlan,
        model: LanguageModel,
        ready: dict[Key, Deployment] | None = None,
        runs: Runs | None = None,
    ) -> None:
        self._plan = plan
        self.model = model
        self._ready = {} if ready is None else ready
        self._runs: Runs = {} if runs is None else runs
        self._sized: dict[Key, Option] = {}
        self.coarse = False

    def otherwise(self, plan: LlmPlan) -> Sizer:
        """A sizer of another plan for the same model, with what was deployed and served already."""
        return Sizer(plan, self.model, self._ready, self._runs)

    @property
    def longest(self) -> int:
        """Tokens of the longest request."""
        workload = self._plan.llm
        lengths = (workload.input_tokens, workload.output_tokens)
        return sum(ceil(each * (1 + workload.spread)) for each in lengths)

    def options(self, graph: str) -> dict[str, Any]:
        """What steps are timed with."""
        return {
            "graph": graph or None, "sampling": self._plan.llm.sampling.as_sampling(),
            "popularity": self._plan.llm.popularity,
        }  # fmt: skip

    def sized(
        self, candidate: Candidate, *, apart: tuple[int, int] = (1, 1), seeds: int = 1
    ) -> Option:
        """The candidate with the cards that the workload takes.

        `apart` is where to begin with cards of two kinds, whose fleet has to do with every seed.
        What products with one chip have in common is simulated once.
        """
        key = (self._key(candidate, candidate.layout), candidate.decode, apart, seeds)
        if key not in self._sized:
            self._sized[key] = self._simulated(candidate, apart, seeds)
        found = self._sized[key]
        cards = candidate.cards(found.replicas, found.answering) if found.cards else 0
        return replace(found, candidate=candidate, cards=cards)

    def _simulated(self, candidate: Candidate, apart: tuple[int, int], seeds: int) -> Option:
        try:
            if candidate.decode is not None:
                return self._apart(candidate, apart, seeds)
            return self.with_costs(candidate, self.deployed(candidate, candidate.layout))
        except ArgumentError as error:
            return Option(candidate, problem=error.message)

    def deployed(self, candidate: Candidate, layout: Layout) -> Deployment:
        """One layout of a candidate; ArgumentError where it has no room for the requests."""
        workload = self._plan.llm
        if (found := self._ready.get(self._key(candidate, layout))) is not None:
            return found
        policy = Policy(
            max_sequences=candidate.max_sequences,
            max_tokens=self._plan.fleet.max_tokens,
            prefix_share=workload.prefix_share,
        )
        ready = deploy(
            self.model, load_profile(candidate.soc), layout, policy, longest=self.longest,
            prompt=workload.input_tokens, dtype=candidate.dtype or None, coarse=self.coarse,
            draft=candidate.draft, tokens_per_step=workload.tokens_per_step(candidate.draft),
            **self.options(candidate.graph),
        )  # fmt: skip
        if ready.policy.kv_tokens < self.longest:
            raise ArgumentError(
                say("room for {kv_tokens} tokens in the cache").format(
                    kv_tokens=ready.policy.kv_tokens
                )
            )
        self.keep(candidate, ready)
        return ready

    def keep(self, candidate: Candidate, ready: Deployment) -> None:
        """Take a deployment for that of a layout of a candidate."""
        self._ready[self._key(candidate, ready.layout)] = ready

    def _key(self, of: Candidate, layout: Layout) -> Key:
        return (
            of.soc, of.dtype, layout, of.max_sequences, of.draft, of.graph, self.coarse,
            self._plan.llm.model_copy(update={"requests_per_s": 1.0}), self._plan.fleet.max_tokens,
        )  # fmt: skip

    def with_costs(self, candidate: Candidate, ready: Deployment) -> Option:
        """As many replicas as it takes, each as fast as it answers in time."""
        rate, served, tried = self._fastest(ready)
        if served is None:
            return Option(candidate, problem=LATE, tried=tried)
        needed = max(1, ceil(self._plan.llm.requests_per_s / rate))
        spare = spares_of(self._plan, candidate, needed)
        replicas = needed + spare[0]
        cards = candidate.cards(replicas)
        return Option(candidate, rate, replicas, cards, served, tried=tried, spare=spare)

    def requests(
        self, rate: float | None, in_flight: float = 0.0, *, number: int = 0, seed: int = -1
    ) -> Requests:
        """Requests at a rate, so many that all at once are answered several times.

        A `number` and a `seed` that are given count instead.
        """
        workload, simulation = self._plan.llm, self._plan.simulation
        turns = max(simulation.requests, min(_MOST_REQUESTS, ceil(_TURNS * in_flight)))
        number = number or turns
        return even_lengths(
            number, workload.input_tokens, workload.output_tokens,
            rate_per_s=rate, spread=workload.spread,
            seed=simulation.seed if seed < 0 else seed,
        )  # fmt: skip

    def at(self, ready: Deployment, rate: float, *, number: int = 0, seed: int = -1) -> Served:
        """A replica at a rate, with so many requests and that seed instead of the plan's.

        Where replicas don't take turns several are simulated beside each other, with the requests
        of all in runs no longer than the plan's longest.
        """
        limits, router = self._plan.objective, self._plan.fleet.router
        count = self.together(rate)
        held = count * self._held(ready)
        most = max(number, self._plan.simulation.max_requests)
        workload = self._plan.llm.model_copy(update={"requests_per_s": 1.0})
        seed = self._plan.simulation.seed if seed < 0 else seed
        asked = (count * rate, held, min(count * number, most), self._plan.simulation.requests)
        key = (id(ready), workload, asked, seed, limits.ttft_ms, limits.tpot_ms, count, router)
        if key not in self._runs:
            requests = self.requests(*asked[:2], number=asked[2], seed=seed)
            found = ready.serve(
                requests,
                ttft_ms=limits.ttft_ms, tpot_ms=limits.tpot_ms, replicas=count, router=router,
            )  # fmt: skip
            self._runs[key] = ready, found.of_one(count)
        return self._runs[key][1]

    def together(self, rate: float) -> int:
        """Replicas that are simulated beside each other, where each gets so many requests/s."""
        if self._plan.fleet.router == "round_robin":
            return 1
        return max(1, min(_MOST_TOGETHER, round(self._plan.llm.requests_per_s / rate)))

    def _held(self, ready: Deployment) -> int:
        """Sequences that groups which step together hold at most."""
        groups = ready.layout.dp if ready.layout.shares_experts else 0
        return groups * ready.policy.max_sequences

    def _fastest(self, ready: Deployment) -> tuple[float, Served | None, Tried]:
        """The largest rate that is answered in time, between almost none and all that it can."""
        most = ready.serve(self.requests(None, self._held(ready))).req_s
        low, high = most / 100, most
        tried = {low: self.at(ready, low)}
        if not self._in_time(tried[low]):
            return 0.0, None, tuple(tried.items())
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            tried[middle] = self.at(ready, middle)
            low, high = (middle, high) if self._in_time(tried[middle]) else (low, middle)
        return low, tried[low], tuple(sorted(tried.items()))

    def _in_time(self, served: Served) -> bool:
        return served.in_time >= self._plan.objective.quantile

    def fleet(
        self,
        candidate: Candidate,
        counts: tuple[int, int],
        requests: Requests,
        patience: Patience | None = None,
    ) -> Served:
        """So many instances that read prompts and that answer, beside each other."""
        if candidate.decode is None:
            raise TypeError(say("the candidate has cards of one kind"))
        limits = self._plan.objective
        return serve_apart(
            self.deployed(candidate, candidate.layout),
            self.deployed(candidate, candidate.decode),
            requests, ttft_ms=limits.ttft_ms, tpot_ms=limits.tpot_ms, replicas=counts,
            router=self._plan.fleet.router, patience=patience,
        )  # fmt: skip

    def _apart(self, candidate: Candidate, start: tuple[int, int], seeds: int) -> Option:
        """Cards that read and cards that answer: more of those that are late, fewer of the rest."""
        rate, limits = self._plan.llm.requests_per_s, self._plan.objective
        in_flight = rate * (limits.ttft_ms + limits.tpot_ms * self._plan.llm.output_tokens) / 1e3
        tried, late = dict[tuple[int, int], Served](), dict[tuple[int, int], bool]()
        first = self._plan.simulation.seed
        streams = [self.requests(rate, in_flight, seed=first + number) for number in range(seeds)]

        def meets(counts: tuple[int, int]) -> bool:
            for asked in streams:
                most = (1 - limits.quantile) * len(asked) * (1 + _ROUNDING)
                patience = Patience(limits.ttft_ms, limits.tpot_ms, most)
                try:
                    tried.setdefault(counts, self.fleet(candidate, counts, asked, patience))
                except TooLateError as error:
                    late[counts] = error.further >= error.first
                    return False
            return True

        counts = _enough(start, meets, late)
        if counts is None:
            return Option(candidate, problem=LATE)
        for kind in (0, 1):
            counts = _fewest(counts, kind, meets)
        served, spare = tried[counts], spares_of(self._plan, candidate, *counts)
        reading, answering = (count + more for count, more in zip(counts, spare, strict=True))
        cards = candidate.cards(reading, answering)
        return Option(
            candidate, rate, reading, cards, served, "", ((rate, served),), answering, spare=spare
        )


def _enough(
    counts: tuple[int, int],
    meets: Callable[[tuple[int, int]], bool],
    late: dict[tuple[int, int], bool],
) -> tuple[int, int] | None:
    """The first counts that meet the objectives, more of what is late at a time; None without.

    `late` says of counts that don't whether that is the cards that answer.
    """
    for _ in range(_MOST_STEPS):
        if meets(counts):
            return counts
        reads, answers = counts
        counts = (reads, answers + max(1, answers // 4)) if late[counts] else (
            reads + max(1, reads // 4), answers)  # fmt: skip
    return None


def _fewest(
    counts: tuple[int, int], kind: int, meets: Callable[[tuple[int, int]], bool]
) -> tuple[int, int]:
    """The counts with as few of one kind as meet the objectives, those of the other kept."""
    low, high = 1, counts[kind]
    while low < high:
        middle = (low + high) // 2
        fewer = (middle, counts[1]) if kind == 0 else (counts[0], middle)
        low, high = (low, middle) if meets(fewer) else (middle + 1, high)
    return (high, counts[1]) if kind == 0 else (counts[0], high)
