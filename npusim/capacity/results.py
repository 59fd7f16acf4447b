"""The answer to a plan: for each product the cards it needs, why, and how the fleet does."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import inf
from typing import TYPE_CHECKING, Any, Final, Literal

from npusim.values.display import Tabular

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npusim.capacity.boards import Board
    from npusim.capacity.estimate import Estimate
    from npusim.capacity.outcome import FleetRun
    from npusim.capacity.plan import Plan
    from npusim.capacity.service import End, ServiceCurve


Limit = Literal["throughput", "utilisation", "latency"]
"""What asks for the last card."""

SLOW_END: Final = "latencies at the slow end"
"""The what-if that decides between products: as many cards as surely do."""


class Verdict(Enum):
    """Whether a product meets the objective, or what stands in the way."""

    MEETS = "meets the objective"
    CANT_RUN = "can't run a model"
    TOO_SLOW = "is too slow for the limit"
    NO_MEMORY = "hasn't enough memory"
    TOO_MANY_CARDS = "needs more cards than may be tried"
    OPEN = "isn't decided"


@dataclass(frozen=True)
class ModelOnProduct:
    """A model as this product serves it; batches are in items, `stated` says who chose them."""

    name: str
    share: float
    items_per_request: int
    max_batch: int
    max_wait_us: float
    stated: bool
    curve: ServiceCurve

    @property
    def requests_per_batch(self) -> int:
        """Whole requests in the largest batch."""
        return self.max_batch // self.items_per_request

    def batch_us(self, requests: int, end: End = "estimate") -> float:
        """Microseconds of a batch of this many requests, at one end of the band."""
        return self.curve.latency_us(requests * self.items_per_request, end)


@dataclass(frozen=True)
class Operation:
    """How a fleet does at a load, over all seeds.

    `latency_us` is what the objective limits; `utilisation` the busy share of the devices, which
    batches that aren't full raise above rate over capacity.  `run` is the run of the first seed,
    for figures.
    """

    cards: int
    rate_per_s: float
    latency_us: Estimate
    quantiles_us: tuple[tuple[float, Estimate], ...]
    by_model_us: tuple[tuple[str, Estimate], ...]
    utilisation: Estimate
    mean_batch: float
    longest_queue: int
    meets: bool
    run: FleetRun


@dataclass(frozen=True)
class AtCards:
    """A number of working cards at the peak: the quantile, and whether they keep the objective.

    `latency_us` is None where the cards can't keep up, `holds` None where `requests` simulated ones
    leave it open; `utilisation` is the busy share of the devices.
    """

    cards: int
    latency_us: Estimate | None
    holds: bool | None
    utilisation: float
    requests: int


@dataclass(frozen=True)
class Scenario:
    """What if: the cards it would take, and how the planned fleet does.

    `cards` is None where no number helps or more than may be tried were needed.  `planned` is None
    where the planned fleet can't keep up at all; `reason` says why there is no count, `is_open`
    whether it is the budget.
    """

    name: str
    rate_per_s: float
    cards: int | None
    planned: Operation | None
    reason: str = ""
    is_open: bool = False


@dataclass(frozen=True)
class MemoryFit:
    """All models with their largest batches on one device, in bytes."""

    needed_bytes: int
    capacity_bytes: int

    @property
    def fits(self) -> bool:
        """Whether they fit."""
        return self.needed_bytes <= self.capacity_bytes


@dataclass(frozen=True)
class Cost:
    """Money, where the plan gave prices; None where it didn't."""

    currency: str
    purchase: float | None
    per_hour: float | None
    per_million_requests: float | None


@dataclass(frozen=True)
class CardCount:
    """The number of cards and how it came about.

    `closed_form` is by throughput alone, `working` what the simulation asks for, `installed` adds
    the spare cards; `carried_per_s` is the rate that the working cards carry within the objective,
    and `limited_by` what asks for the last card: ``throughput`` (the target utilisation with full
    batches), ``utilisation`` (with those that the queue forms) or ``latency``.
    `perhaps` is the fewest working cards that aren't ruled out, and about `to_decide` simulated
    requests would tell; `budget_spent` if the plan's budget was spent before they were made.
    """

    closed_form: int
    working: int
    spare: int
    servers: int | None
    carried_per_s: float
    perhaps: int
    to_decide: float = 0.0
    budget_spent: bool = False
    limited_by: Limit = "throughput"

    @property
    def is_decided(self) -> bool:
        """Whether one card fewer is ruled out."""
        return self.perhaps == self.working

    @property
    def installed(self) -> int:
        """The cards to buy."""
        return self.working + self.spare


@dataclass(frozen=True)
class ProductResult:
    """One product's answer; `reason` and `remedy` say why there is no count, where there is none.

    `at_peak` and `at_mean` have all installed cards at work; in `degraded` the spare ones are down
    for the whole run, in `failing` one card fails for the middle third of it.  `headroom` is how
    much more than the peak the working cards carry; `short_share` the share of time in which more
    cards than the spare ones are down. `cards_by_load` pairs requests/s with installed cards (None:
    more than may be tried), `by_cards` has the peak with fewer and more working cards. What-ifs and
    curves rest on short runs if the plan's budget is spent (`budget_spent`).
    """

    board: Board
    verdict: Verdict
    reason: str = ""
    remedy: str = ""
    models: tuple[ModelOnProduct, ...] = ()
    card_rate_per_s: float | None = None
    count: CardCount | None = None
    headroom: float | None = None
    at_peak: Operation | None = None
    at_mean: Operation | None = None
    degraded: Operation | None = None
    failing: Operation | None = None
    short_share: float | None = None
    memory: MemoryFit | None = None
    power_w: float | None = None
    price_per_card: float | None = None
    price_per_card_hour: float | None = None
    cost: Cost | None = None
    scenarios: tuple[Scenario, ...] = ()
    cards_by_load: tuple[tuple[float, int | None], ...] = ()
    by_cards: tuple[AtCards, ...] = ()
    budget_spent: bool = False

    @property
    def not_simulated(self) -> float | None:
        """The share of time that isn't simulated, of the model that has the most of it.

        None where no latency comes from the simulator.
        """
        shares = [model.curve.not_simulated for model in self.models]
        return max((share for share in shares if share is not None), default=None)

    @property
    def slow_end(self) -> Scenario | None:
        """What latencies at the slow end of their band would take."""
        return next((each for each in self.scenarios if each.name == SLOW_END), None)

    @property
    def surely(self) -> float:
        """The cards that do at the slow end of the band too, infinite where no number is known."""
        if self.count is None or self.slow_end is None or self.slow_end.cards is None:
            return inf
        return max(self.count.installed, self.slow_end.cards)

    @property
    def meets(self) -> bool:
        """Whether this product is an answer to the question."""
        return self.verdict is Verdict.MEETS

    @property
    def is_open(self) -> bool:
        """Whether the budget ended before this product had an answer."""
        return self.verdict is Verdict.OPEN


@dataclass(frozen=True)
class PlanResult(Tabular):
    """The answer to the whole question: a row for each product, in the order of the plan."""

    plan: Plan
    mean_per_s: float
    peak_per_s: float
    arrivals: str
    products: tuple[ProductResult, ...]
    assumptions: tuple[str, ...]

    def __repr__(self) -> str:
        counts = [
            f"{each.board.name} {each.count.installed if each.meets and each.count else 'no'}"
            for each in self.products
        ]
        return f"<PlanResult {self.plan.title}: {', '.join(counts)}>"

    def _rows(self) -> list[dict[str, Any]]:
        return [
            {
                "product": each.board.name,
                "verdict": each.verdict.value,
                "cards": each.count.working if each.count else None,
                "installed": each.count.installed if each.count else None,
                "carried_per_s": each.count.carried_per_s if each.count else None,
            }
            for each in self.products
        ]

    @property
    def is_open(self) -> bool:
        """Whether a product that may meet the objective has no answer."""
        return any(each.is_open for each in self.products)

    @property
    def meeting(self) -> tuple[ProductResult, ...]:
        """The products that meet the objective, the one to look at first at the front.

        By what the cards cost where every one of them has a price, then by cards, both of as many
        as do at the slow end of the band; then those sold for training last, by cards at the
        estimate, and by watts where every one is known. Equals stay in the order of the plan.
        """
        counted = [each for each in self.products if each.meets and each.count is not None]
        prices = dict(zip(map(id, counted), _prices(counted), strict=True))
        is_measured = all(each.power_w is not None for each in counted)

        def burden(each: ProductResult) -> tuple[float, ...]:
            installed = each.count.installed if each.count else inf
            price = prices[id(each)]
            costs = [price and cards * price for cards in (each.surely, installed)]
            watts = (each.power_w or 0.0) if is_measured else 0.0
            return *costs, each.surely, each.board.is_for_training, installed, watts

        return tuple(sorted(counted, key=burden))

    @property
    def is_ranked_by_cost(self) -> bool:
        """Whether every product that meets the objective has a price, so that those decide."""
        return all(_prices(self.meeting))

    @property
    def ranked(self) -> tuple[ProductResult, ...]:
        """Those that meet the objective as in `meeting`, and then the others."""
        others = (each for each in self.products if not each.meets or each.count is None)
        return (*self.meeting, *others)


def _prices(products: Sequence[ProductResult]) -> list[float]:
    """The price of a card of each, to buy or by the hour; zeros where some have neither."""
    for found in (
        [each.price_per_card for each in products],
        [each.price_per_card_hour for each in products],
    ):
        known = [price for price in found if price is not None]
        if len(known) == len(products):
            return known
    return [0.0] * len(products)
