"""Cards for a workload."""

from __future__ import annotations

from typing import Any

from npusim.reporting.schemas.common import Json, Number, Object


class PlannedProduct(Object):
    """A product's answer to a plan; `cards` is null where there is none, and `reason` says why."""

    product: str
    soc: str
    devices_per_card: int
    meets: bool
    verdict: str
    reason: str
    remedy: str
    budget_spent: bool
    cards: Json | None
    cards_at_slow_end: int | None
    not_simulated_share: Number | None
    card_requests_per_s: Number | None
    headroom: Number | None
    by_cards: list[Json]
    at_peak: Json | None
    at_mean: Json | None
    spare_cards_down: Json | None
    a_card_fails: Json | None
    share_of_time_short_of_cards: Number | None
    memory: Json | None
    power_w: Any
    cost: Json | None
    what_if: list[Json]
    cards_by_load: list[Json]
    models: list[Json]


class Planned(Object):
    """Cards for a workload, product by product: `plan` and `recommend`."""

    title: str
    verdict: list[str]
    mean_requests_per_s: Number
    peak_requests_per_s: Number
    arrivals: str
    plan: Json
    products: list[PlannedProduct]
    assumptions: list[str]


class LlmPlanned(Object):
    """Cards for a language model: `plan` and `recommend`; null where no product meets limits."""

    title: str
    verdict: list[str]
    model: str
    cards: int | None
    product: str | None
    currency: str | None
    serve: str | None
    """The command that serves the same requests by the first option."""
    options: list[Json]
    what_ifs: Json
