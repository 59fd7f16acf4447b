"""PLAN.yaml: the question of a capacity plan, as frozen models with units in their keys.

::

    title: Detection head
    workload:
      models:
        - name: head
          reference: models/head.yaml      # timed by the caller's latency source; or `curve(s):`
          share: 3                         # of the requests, relative to the other models
          items_per_request: 4             # what one request adds to a batch
      mean_requests_per_s: 120
      peak_requests_per_s: 300
      arrivals: {kind: bursty, burst_ratio: 3, burst_share: 0.1, burst_s: 2}
      batching: {max_batch: 16, max_wait_ms: 5}
    objective:
      quantile: p99
      limit_ms: 50
      availability: N+1
      target_utilisation: 0.7
    fleet:
      products: [Atlas 800I A2, {product: Atlas 300I Duo, cards_per_server: 8}]

`peak_requests_per_s` is the mean rate of the busiest period, the one that is planned for; the
arrivals fluctuate around it.  A trace brings its own rates: its busiest stretch is the peak.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from npusim.capacity.arrivals import (
    BurstyArrivals,
    ConstantArrivals,
    GammaArrivals,
    PoissonArrivals,
)
from npusim.capacity.dispatch import Dispatch
from npusim.capacity.plan_parts import (
    Counts,
    PlanPart,
    Rate,
    Requests,
    Share,
    Sizes,
    Times,
    as_share,
    named,
    product_names_in,
)
from npusim.capacity.plan_wording import sentences
from npusim.capacity.service import ServiceCurve, ServicePoint
from npusim.capacity.units import US_PER_MS
from npusim.hardware.groups import as_tuple
from npusim.hardware.numbers import Bytes, Count, NonNegative, Positive
from npusim.reading.files import read_text
from npusim.reading.limits import MOST_CARDS, MOST_REQUESTS, MOST_RUNS
from npusim.reading.markup import yaml_mapping
from npusim.values.errors import ArgumentError, FileError, UsageError
from npusim.values.language import say

if TYPE_CHECKING:
    from os import PathLike

    from npusim.capacity.arrivals import Arrivals


class CurvePlan(PlanPart):
    """A service curve written into the plan: one entry for each batch, in items, on one device."""

    batch: Counts = Field(description="batches, items")
    latency_ms: Times = Field(description="time of each batch on one device, ms")
    lo_ms: Times | None = Field(None, description="low ends of its band, ms")
    hi_ms: Times | None = Field(None, description="high ends, ms")
    memory_bytes: Sizes | None = Field(None, description="memory of a device for each batch, bytes")
    basis: str = Field("stated in the plan", description="where the times are from, for the page")

    @model_validator(mode="after")
    def _make_sense(self) -> CurvePlan:
        for key in ("latency_ms", "lo_ms", "hi_ms", "memory_bytes"):
            values = getattr(self, key)
            if values is not None and len(values) != len(self.batch):
                raise ValueError(
                    say("{count} values of {key} for {batches} batches").format(
                        count=len(values), key=key, batches=len(self.batch)
                    )
                )
        self.curve()
        return self

    def curve(self) -> ServiceCurve:
        """The curve in microseconds."""
        lo_ms, hi_ms = self.lo_ms or self.latency_ms, self.hi_ms or self.latency_ms
        memory = self.memory_bytes or (None,) * len(self.batch)
        rows = zip(self.batch, self.latency_ms, lo_ms, hi_ms, memory, strict=True)
        return ServiceCurve.of(
            (
                ServicePoint(batch, ms * US_PER_MS, lo * US_PER_MS, hi * US_PER_MS, size)
                for batch, ms, lo, hi, size in rows
            ),
            self.basis,
        )


class BatchingPlan(PlanPart):
    """How requests are batched."""

    max_batch: Count | None = Field(
        None,
        description=(
            "most items of a batch; without it the largest batch that runs within half of the limit"
        ),
    )
    max_wait_ms: NonNegative = Field(
        0.0, description="longest that a request waits for company, ms"
    )

    @model_validator(mode="after")
    def _make_sense(self) -> BatchingPlan:
        if self.max_batch == 1 and self.max_wait_ms > 0:
            raise ValueError(
                say(
                    "max_wait_ms is {max_wait_ms:g} but max_batch is 1: a batch of one waits for "
                    "nobody; drop max_wait_ms or raise max_batch"
                ).format(max_wait_ms=self.max_wait_ms)
            )
        return self


class ModelPlan(PlanPart):
    """One model: what to time, and its requests.

    Exactly one of `reference`, `curve` (the same on every product) and `curves` (by product).
    """

    name: Annotated[str, Field(min_length=1)] = Field(description="what the plan calls it")
    reference: str | None = Field(None, description="a file for `npusim model`, beside the plan")
    curve: CurvePlan | None = Field(None, description="times that are the same on every product")
    curves: dict[str, CurvePlan] | None = Field(None, description="product -> times")
    share: Positive = Field(1.0, description="of the requests, relative to the other models")
    items_per_request: Count = Field(1, description="what one request adds to a batch")
    batching: BatchingPlan | None = Field(None, description="its own batching; else the workload's")
    measured_on: str | None = Field(None, description="chip that a profile was measured on")
    host_dispatch_us: NonNegative | None = Field(
        None, description="host's time to launch an operator, microseconds"
    )
    l2: Literal["order", "busy", "in_graph", "cold", "warm"] = Field(
        "order", description="what L2 holds when an operator begins"
    )

    @model_validator(mode="after")
    def _make_sense(self) -> ModelPlan:
        given = [key for key in ("reference", "curve", "curves") if getattr(self, key) is not None]
        if len(given) != 1:
            got = " and ".join(given) or say("none of them")
            raise ValueError(
                say(
                    "model {name!r} needs one of reference, curve and curves, and has {got}"
                ).format(name=self.name, got=got)
            )
        if self.batching is not None:
            self.check_batching(self.batching)
        return self

    def check_batching(self, batching: BatchingPlan) -> None:
        """Refuse a batch that is smaller than one request."""
        if batching.max_batch is not None and batching.max_batch < self.items_per_request:
            raise ValueError(
                say(
                    "max_batch is {max_batch} but one request of model {name!r} has "
                    "{items_per_request} items; no batch could hold it"
                ).format(
                    max_batch=batching.max_batch,
                    name=self.name,
                    items_per_request=self.items_per_request,
                )
            )


class PoissonPlan(PlanPart):
    """Independent arrivals."""

    kind: Literal["poisson"] = Field(description="independent arrivals")

    def pattern(self) -> Arrivals:
        """The pattern."""
        return PoissonArrivals()


class ConstantPlan(PlanPart):
    """Equal gaps."""

    kind: Literal["constant"] = Field(description="equal gaps")

    def pattern(self) -> Arrivals:
        """The pattern."""
        return ConstantArrivals()


class GammaPlan(PlanPart):
    """Independent gaps with a stated coefficient of variation."""

    kind: Literal["gamma"] = Field(description="independent gaps of a stated variation")
    gap_cv: Positive = Field(description="coefficient of variation of the gaps")

    def pattern(self) -> Arrivals:
        """The pattern."""
        return GammaArrivals(self.gap_cv)


class BurstyPlan(PlanPart):
    """Bursts and calm: see `npusim.capacity.arrivals.BurstyArrivals`."""

    kind: Literal["bursty"] = Field(description="bursts and calm in turn")
    burst_ratio: Positive = Field(description="rate in a burst over that of the calm")
    burst_share: Positive = Field(description="share of the time in bursts")
    burst_s: Positive = Field(description="mean length of a burst, seconds")

    @model_validator(mode="after")
    def _make_sense(self) -> BurstyPlan:
        self.pattern()
        return self

    def pattern(self) -> Arrivals:
        """The pattern."""
        return BurstyArrivals(self.burst_ratio, self.burst_share, self.burst_s)


class TracePlan(PlanPart):
    """Arrivals from a file; its busiest stretch is simulated."""

    kind: Literal["trace"] = Field(description="arrivals of a file")
    file: str = Field(description="a trace in the format of Azure LLM or BurstGPT, beside the plan")
    window_requests: Annotated[int, Field(ge=2, le=MOST_REQUESTS)] = Field(
        20_000, description="requests of its busiest stretch that are simulated"
    )
    drop_failed: bool = Field(False, description="whether requests that failed are left out")


ArrivalsPlan = Annotated[
    Annotated[
        PoissonPlan | ConstantPlan | GammaPlan | BurstyPlan | TracePlan, Field(discriminator="kind")
    ],
    named("kind"),
]


class WorkloadPlan(PlanPart):
    """What arrives.

    A trace needs no rate, or one of them to be scaled to.
    """

    models: Annotated[tuple[ModelPlan, ...], BeforeValidator(as_tuple), Field(min_length=1)] = (
        Field(description="what is served")
    )
    mean_requests_per_s: Rate | None = Field(None, description="mean rate, requests/s")
    peak_requests_per_s: Rate | None = Field(
        None,
        description=(
            "mean rate of the busiest period, which is planned for; as the mean where it isn't said"
        ),
    )
    arrivals: ArrivalsPlan = Field(PoissonPlan(kind="poisson"), description="how requests come")
    batching: BatchingPlan = Field(BatchingPlan(), description="how they are batched")

    @model_validator(mode="after")
    def _make_sense(self) -> WorkloadPlan:
        names = [model.name for model in self.models]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(say("two models are called {name!r}").format(name=name))
        mean, peak = self.mean_requests_per_s, self.peak_requests_per_s
        if isinstance(self.arrivals, TracePlan):
            if mean is not None and peak is not None:
                raise ValueError(
                    say(
                        "a trace has its own relation of peak to mean: give mean_requests_per_s "
                        "or peak_requests_per_s to scale it, not both"
                    )
                )
        elif mean is None and peak is None:
            raise ValueError(
                say("mean_requests_per_s is missing; only a trace brings its own rate")
            )
        if mean is not None and peak is not None and mean > peak:
            raise ValueError(
                say(
                    "mean_requests_per_s is {mean:g}, more than peak_requests_per_s, {peak:g}"
                ).format(mean=mean, peak=peak)
            )
        for model in self.models:
            if model.batching is None:
                model.check_batching(self.batching)
        return self

    def batching_of(self, model: ModelPlan) -> BatchingPlan:
        """The model's own batching, or the workload's."""
        return model.batching or self.batching


class ObjectivePlan(PlanPart):
    """What must hold at the peak, with as many cards down as `availability` says."""

    quantile: Annotated[Share, BeforeValidator(as_share)] = Field(
        0.99, description="share of the requests that must be in time: p99 or 0.99"
    )
    limit_ms: Positive = Field(description="limit of their latency, ms")
    scope: Literal["all_requests", "each_model"] = Field(
        "all_requests",
        description="whether the quantile is that of all requests or of each model's",
    )
    availability: Literal["N", "N+1", "N+2"] = Field(
        "N", description="cards that may be down: none, 1 or 2"
    )
    target_utilisation: Share = Field(
        0.7, description="most that working devices are busy at the peak"
    )

    @property
    def spare_cards(self) -> int:
        """Cards beyond those that carry the peak."""
        return int(self.availability[2:] or 0)


class ProductPlan(PlanPart):
    """A product to compare, and what the plan knows better; prices are never guessed."""

    product: Annotated[str, Field(min_length=1)] = Field(description="a product or a chip")
    cards_per_server: Count | None = Field(
        None, description="cards of a server, where it isn't the most that it takes"
    )
    memory_bytes_per_device: Bytes | None = Field(
        None, description="memory of a device, bytes, where it is another"
    )
    power_w_per_card: Positive | None = Field(None, description="watts of a card")
    price_per_card: Positive | None = Field(None, description="price of a card")
    price_per_card_hour: Positive | None = Field(None, description="price of a card for an hour")


class PricedProducts(PlanPart):
    """The products to compare."""

    products: Annotated[
        tuple[Annotated[ProductPlan, named("product")], ...],
        BeforeValidator(product_names_in),
        Field(min_length=1),
    ] = Field(description="what is compared; one word may name several with commas, or all")
    currency: str | None = Field(None, description="that of the prices")

    @model_validator(mode="after")
    def _have_a_currency(self) -> PricedProducts:
        priced = [p.product for p in self.products if p.price_per_card or p.price_per_card_hour]
        if priced and self.currency is None:
            raise ValueError(
                say("{priced} has a price and the fleet no currency").format(priced=priced[0])
            )
        return self


class FleetPlan(PricedProducts):
    """The products to compare and how requests reach the cards."""

    dispatch: Dispatch = Field("least_loaded", description="how requests reach the cards")
    mtbf_h: Positive | None = Field(None, description="mean time between failures of a card, hours")
    mttr_h: Positive | None = Field(None, description="mean time to repair one, hours")

    @model_validator(mode="after")
    def _make_sense(self) -> FleetPlan:
        if (self.mtbf_h is None) != (self.mttr_h is None):
            raise ValueError(say("mtbf_h and mttr_h belong together: give both or none"))
        return self


class SimulationPlan(PlanPart):
    """How much to simulate, and the seed that everything random follows from."""

    seed: Annotated[int, Field(ge=0)] = Field(1, description="what everything random follows from")
    runs: Annotated[int, Field(ge=2, le=MOST_RUNS)] = Field(8, description="runs of each fleet")
    requests: Requests = Field(10_000, description="requests of a run at first")
    max_requests: Requests = Field(
        160_000, description="requests that a run may grow to until it decides"
    )
    service_cv: NonNegative = Field(0.0, description="coefficient of variation of a batch's time")
    max_cards: Annotated[int, Field(gt=0, le=MOST_CARDS)] = Field(
        4096, description="most cards that are tried"
    )
    budget_s: Positive = Field(
        60.0, description="processor time, seconds, after which only short runs are made"
    )


class Plan(PlanPart):
    """The whole question."""

    title: str = Field("Capacity plan", description="heading of the page")
    workload: WorkloadPlan = Field(description="what arrives")
    objective: ObjectivePlan = Field(description="what must hold at the peak")
    fleet: FleetPlan = Field(description="the products to compare")
    simulation: SimulationPlan = Field(SimulationPlan(), description="how much is simulated")

    @model_validator(mode="after")
    def _make_sense(self) -> Plan:
        limit_ms = self.objective.limit_ms
        for model in self.workload.models:
            wait_ms = self.workload.batching_of(model).max_wait_ms
            if wait_ms >= limit_ms:
                raise ValueError(
                    say(
                        "max_wait_ms is {wait_ms:g} for model {name!r}, limit_ms {limit_ms:g}: a "
                        "request that waits that long for company is late before it is served"
                    ).format(wait_ms=wait_ms, name=model.name, limit_ms=limit_ms)
                )
        return self


def read_plan(path: str | PathLike[str]) -> Plan:
    """The plan in a YAML file; `FileError` says what is wrong with it, in the keys of the file."""
    file = Path(path)
    return plan_in(file, yaml_mapping(read_text(file), str(file)))


def plan_in(file: Path, raw: Mapping[str, Any]) -> Plan:
    """The plan that a file says; `FileError` names the file as well."""
    try:
        return plan_of(raw)
    except UsageError as error:
        raise FileError(file, error.message, error.remedy) from error


def plan_of(raw: Mapping[str, Any]) -> Plan:
    """The plan in a mapping; `ArgumentError` says what is wrong with it."""
    try:
        return Plan.model_validate(raw)
    except ValidationError as error:
        raise ArgumentError("\n".join(sentences(error))) from error
