"""Which candidates a plan simulates: branch and bound over every layout of every product.

A layout whose bound takes more cards than one that was found is left out; of the others a few steps
tell what they do in steady state, alone and in pairs, and the best are simulated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import ceil, inf, log2
from typing import TYPE_CHECKING, Final

from npusim.capacity.boards import find_board
from npusim.hardware import load_profile
from npusim.llm import Batch, Layout
from npusim.llm.engines import load_engine
from npusim.llm.memory import memory_of
from npusim.llm.precision import CONVERTED
from npusim.llm.step import precision_on
from npusim.serving.bounds import Bound, bound_of
from npusim.serving.layouts import layouts_of, server_ranks
from npusim.serving.options import Candidate, Option
from npusim.serving.screening import Asked, Steady, steady
from npusim.values.errors import ArgumentError
from npusim.values.language import say

if TYPE_CHECKING:
    from npusim.capacity.boards import Board
    from npusim.llm import LanguageModel
    from npusim.serving.plan import LlmPlan
    from npusim.serving.sizing import Sizer

_READING: Final = 0.75  # of what cards read at most: beyond, prompts wait for each other
_NEAR: Final = 1.25  # estimates within this of the fewest that were found are simulated
_SIMULATED: Final = 6
_BEST: Final = 3  # layouts that read, and that answer, which are paired
_MIDDLE: Final = 2  # powers of two: four ranks
_ONE: Final = Layout()
Progress = Callable[[str], None]


@dataclass(frozen=True)
class _Place:
    """A layout of one product in one precision, with its bound and what a few steps told."""

    like: Candidate
    layout: Layout
    bound: Bound
    least: float
    found: Steady | None = None
    slow: Steady | None = None


@dataclass(frozen=True)
class _Guess:
    """A candidate with the cards that it seems to take, 0 where no number of them will do.

    `slow` are those at the slow end of the band, `apart` instances of both kinds.
    """

    candidate: Candidate
    cards: int
    slow: float
    apart: tuple[int, int] = (1, 1)


_BYTES: Final = "w8a8"


class Search:
    """Goes through the layouts of one plan; `options` of a product come best first."""

    def __init__(
        self, plan: LlmPlan, model: LanguageModel, sizer: Sizer, progress: Progress
    ) -> None:
        self._plan = plan
        self._model = model
        self._sizer = sizer
        self._progress = progress
        self._steady: dict[tuple[object, ...], tuple[Steady, Steady]] = {}

    def options(self) -> Iterator[Option]:
        """Every option of every product: simulated, impossible, or left out with the reason."""
        for product in self._plan.fleet.products:
            board = find_board(product.product).amended(product)
            for dtype in self._dtypes():
                like = Candidate(
                    board.name, board.soc, dtype, _ONE, 1, board.devices_per_card,
                    board.power_w_per_card, product.price_per_card, board.is_for_training,
                    board.caution,
                )  # fmt: skip
                yield from self._of(board, like)

    def _dtypes(self) -> tuple[str, ...]:
        """Those of the plan; where it names none, w8a8 beside what 8-bit floats are converted to.

        That is how such models are deployed here (msModelSlim; vllm-ascend's and MindIE's guides).
        """
        named = self._plan.llm.dtypes
        return (
            (*named, _BYTES) if named == ("",) and self._model.quantisation in CONVERTED else named
        )

    def _of(self, board: Board, like: Candidate) -> Iterator[Option]:
        places, impossible = self._places(board, like)
        yield from impossible
        screened, left_out = self._screened(places)
        yield from left_out
        yield from self._sized(like, _in_order(list(self._guesses(screened))))

    def _sized(self, like: Candidate, guesses: list[_Guess]) -> Iterator[Option]:
        """Guesses simulated as far as they may be the best, the best of them with finer steps."""
        simulated = list[tuple[_Guess, Option]]()
        self._sizer.coarse = True
        fewest, fewest_slow = inf, inf
        for number, guess in enumerate(guesses):
            dear = guess.cards > _NEAR * fewest and guess.slow > _NEAR * fewest_slow
            if problem := self._left_out(guess, number, dear=dear):
                yield Option(guess.candidate, problem=problem, simulated=False)
                continue
            self._progress(f"{like.product} {guess.candidate.where} {like.dtype}")
            simulated.append((guess, self._sizer.sized(guess.candidate, apart=guess.apart)))
            if cards := simulated[-1][1].cards:
                fewest, fewest_slow = min(fewest, cards), min(fewest_slow, guess.slow)
        self._sizer.coarse = False
        fine = set[int]()
        while simulated:
            best = min(range(len(simulated)), key=lambda each: simulated[each][1].cards or inf)
            guess, option = simulated[best]
            if best in fine or not option.meets:
                break
            start = (max(1, option.replicas), max(1, option.answering))
            simulated[best] = (guess, self._sizer.sized(guess.candidate, apart=start))
            fine.add(best)
        yield from (option for _, option in simulated)

    def _left_out(self, guess: _Guess, number: int, *, dear: bool) -> str:
        """Why a guess isn't simulated; nothing where it is. All that a plan names itself are."""
        if not guess.cards:
            return say("not simulated: by its steps no sequence decodes in time beside prompts")
        named = self._plan.fleet.tensor_parallel is not None and guess.candidate.decode is None
        if not named and (dear or number >= _SIMULATED):
            return say("not simulated: by its steps it takes some {cards} cards").format(
                cards=guess.cards
            )
        return ""

    def _places(self, board: Board, like: Candidate) -> tuple[list[_Place], list[Option]]:
        """Layouts with room for a request, in the order in which they are tried.

        Four ranks that share layers first, where neither their sums nor their weights take most of
        a step, of few cards and of many; then narrower and wider ones.
        """
        fleet = self._plan.fleet
        found, impossible = [], []
        ranks = server_ranks(board)
        for layout in layouts_of(self._model.architecture, ranks, fleet.tensor_parallel):
            candidate = replace(like, layout=layout)
            try:
                bound = self._bound(candidate)
            except ArgumentError as error:
                impossible.append(Option(candidate, problem=error.message))
                continue
            found.append(_Place(candidate, layout, bound, inf))
        return sorted(self._bounded(found), key=_order), impossible

    def _bounded(self, places: list[_Place]) -> Iterator[_Place]:
        """The places with the fewest cards that each may be part of: as all, reading, answering."""
        rate, workload = self._plan.llm.requests_per_s, self._plan.llm
        reads = rate * workload.input_tokens * (1 - workload.prefix_share)
        answers = rate * workload.output_tokens
        serving = self._plan.fleet.serving

        def least(prompts: float, tokens: float) -> list[float]:
            return [each.bound.ranks(each.layout, prompts, tokens) for each in places]

        both, reading, answering = least(reads, answers), least(reads, 0.0), least(0.0, answers)
        for place, all_of, first, second in zip(places, both, reading, answering, strict=True):
            apart = min(first + min(answering), second + min(reading))
            ranks = all_of if serving == "mixed" else apart
            ranks = min(all_of, apart) if serving == "both" else ranks
            yield replace(place, least=ranks / place.like.chips_per_card)

    def _bound(self, candidate: Candidate) -> Bound:
        model, chip = self._model, load_profile(candidate.soc)
        layout, asked = candidate.layout, self._asked()
        layout.check(model.architecture)
        precision = precision_on(model, chip, candidate.dtype or None)
        memory = memory_of(
            model.architecture, layout, precision, Batch(1), chip, load_engine(),
            most_tokens=self._plan.fleet.max_tokens,
        )  # fmt: skip
        if memory.kv_tokens < self._sizer.longest:
            raise ArgumentError(
                say("{name} as {precision} leaves room for {kv_tokens} tokens ({layout})").format(
                    name=model.name,
                    precision=precision.name,
                    kv_tokens=memory.kv_tokens,
                    layout=layout,
                )
            )
        return bound_of(
            model, chip, layout, precision, memory, context=asked.context, tpot_ms=asked.tpot_ms
        )

    def _screened(self, places: list[_Place]) -> tuple[list[_Place], list[Option]]:
        """Steps timed of the layouts that may be part of the fewest cards."""
        screened, left_out, best = list[_Place](), list[Option](), inf
        for place in places:
            said = ""
            if inf > place.least >= best:
                said = say("it takes {ceil} cards at least, and others fewer").format(
                    ceil=ceil(place.least)
                )
            elif len(screened) >= self._plan.fleet.most_layouts:
                said = say("not searched: {count} other layouts were (most_layouts)").format(
                    count=len(screened)
                )
            if said or place.least == inf:
                said = said or say("its memory can't be read fast enough for one sequence in time")
                left_out.append(Option(place.like, problem=said, simulated=place.least == inf))
                continue
            self._progress(f"{place.like.product} {place.layout} {place.like.dtype}")
            try:
                found, slow = self._steps(place)
            except ArgumentError as error:
                left_out.append(Option(place.like, problem=error.message))
                continue
            screened.append(replace(place, found=found, slow=slow))
            guesses = [each for each in self._guesses(screened) if each.cards]
            best = min((each.slow for each in guesses), default=inf)
        return screened, left_out

    def _steps(self, place: _Place) -> tuple[Steady, Steady]:
        like = place.like
        key = (like.soc, like.dtype, place.layout)
        if key not in self._steady:
            self._steady[key] = steady(
                self._model, load_profile(like.soc), place.layout, place.bound, self._asked(),
                dtype=like.dtype or None, **self._sizer.options(""),
            )  # fmt: skip
        return self._steady[key]

    def _asked(self) -> Asked:
        workload, limits = self._plan.llm, self._plan.objective
        computed = max(1, round(workload.input_tokens * (1 - workload.prefix_share)))
        return Asked(
            computed, workload.output_tokens, limits.ttft_ms, limits.tpot_ms,
            self._plan.fleet.max_tokens,
        )  # fmt: skip

    def _guesses(self, places: list[_Place]) -> Iterator[_Guess]:
        serving = self._plan.fleet.serving
        if serving != "apart":
            for place in places:
                yield from self._mixed(place)
        if serving != "mixed":
            yield from self._pairs(places)

    def _mixed(self, place: _Place) -> Iterator[_Guess]:
        """Cards that do both, with every limit of a step that the plan names, or the one needed."""
        if place.found is None or place.slow is None:
            return
        wanted = self._plan.llm.requests_per_s
        limits = self._plan.fleet.max_sequences or (_limit(place.found.mixed_sequences),)
        counts = [
            ceil(wanted / each.mixed_per_s) if each.mixed_per_s else 0
            for each in (place.found, place.slow)
        ]
        for most in limits:
            for draft in self._plan.llm.drafts:
                for graph in self._plan.fleet.graphs:
                    candidate = replace(place.like, max_sequences=most, draft=draft, graph=graph)
                    slow = candidate.cards(counts[1]) if counts[1] else inf
                    yield _Guess(candidate, candidate.cards(counts[0]), slow)

    def _pairs(self, places: list[_Place]) -> Iterator[_Guess]:
        """Cards that read beside cards that answer: the best of each kind, with one another."""
        reading, answering = list[_Share](), list[_Share]()
        for place in places:
            if place.found is None or place.slow is None:
                continue
            both = (place.found, place.slow)
            reads = [each.prompt_per_s * _READING for each in both]
            for speeds, found in ((reads, reading), ([e.decode_per_s for e in both], answering)):
                if speeds[0] > 0:
                    rate = self._plan.llm.requests_per_s
                    counts = [ceil(rate / each) if each else inf for each in speeds]
                    found.append(_Share(place, int(counts[0]), counts[1]))
        for first in _best(reading):
            for second in _best(answering):
                steady_of = second.place.found
                candidate = replace(
                    first.place.like, layout=first.place.layout, decode=second.place.layout,
                    max_sequences=_limit(steady_of.sequences if steady_of else 1),
                )  # fmt: skip
                needed = first.count, second.count
                slow = (first.ranks(first.slow) + second.ranks(second.slow)) / (
                    candidate.chips_per_card
                )
                yield _Guess(candidate, candidate.cards(*needed), slow, needed)


def _limit(sequences: int) -> int:
    """The limit of a step that so many sequences take: what engines capture graphs for."""
    return max(4, 8 * ceil(1.1 * sequences / 8))


def _in_order(guesses: list[_Guess]) -> list[_Guess]:
    """Those with the fewest cards at the slow end of the band first, then with the fewest at all.

    Plans are ranked by the first; who believes in the middle of the band looks for the second.
    """
    slow = sorted(guesses, key=lambda each: (each.slow, each.cards) if each.cards else (inf, inf))
    fewest = sorted(guesses, key=lambda each: (each.cards or inf, each.slow))
    return list(dict.fromkeys([*slow[:_BEST], *fewest[:_BEST], *slow]))


@dataclass(frozen=True)
class _Share:
    """Instances of a layout that do one half of the work, and those at the slow end."""

    place: _Place
    count: int
    slow: float

    def ranks(self, count: float) -> float:
        """Ranks of so many instances."""
        return count * self.place.layout.cards


def _best(shares: list[_Share]) -> list[_Share]:
    """The best at the slow end of the band, and the best in the middle of it."""
    slow = sorted(shares, key=lambda each: (each.ranks(each.slow), each.ranks(each.count)))
    fewest = sorted(shares, key=lambda each: (each.ranks(each.count), each.ranks(each.slow)))
    return list(dict.fromkeys([*slow[:_BEST], *fewest[:_BEST]]))


def _order(place: _Place) -> tuple[float, int]:
    return abs(log2(place.layout.tp) - _MIDDLE), place.layout.cards
