"""Plans from Python: a question in, the answer of every product out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npusim.capacity.latencies import SimulatedLatencies
from npusim.capacity.plan import plan_of, read_plan
from npusim.capacity.planning import evaluate
from npusim.values.errors import ArgumentError

if TYPE_CHECKING:
    from npusim.capacity.plan import Plan
    from npusim.capacity.results import PlanResult


def plan(
    question: str | PathLike[str] | Mapping[str, Any],
    *,
    seed: int | None = None,
    folder: str | PathLike[str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> PlanResult:
    """How many cards a workload needs, product by product: ``npusim.plan("plan.yaml")``.

    A plan is a file or what such a file says; `folder` is where its models and traces are looked
    for, that of the file if not given. `seed` is that of everything random. Raises FileError or
    ArgumentError for a wrong plan.
    """
    if isinstance(question, Mapping):
        wanted, beside = plan_of(question), Path()
    else:
        wanted, beside = read_plan(question), Path(question).parent
    place = beside if folder is None else Path(folder)
    wanted = seeded(wanted, seed)
    source = SimulatedLatencies(wanted, place, progress)
    return evaluate(wanted, source, folder=place, progress=progress)


def recommend(
    model: str | PathLike[str],
    *,
    rate_per_s: float,
    limit_ms: float,
    products: Sequence[str],
    prices: Mapping[str, float] | None = None,
    quantile: str = "p99",
    availability: str = "N",
    max_batch: int | None = None,
    max_wait_ms: float = 0.0,
    items_per_request: int = 1,
    measured_on: str | None = None,
    seed: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> PlanResult:
    """How many cards one model needs at one rate of requests under one limit in milliseconds.

    As `plan`, with everything else as in a plan that says nothing about it: Poisson arrivals, 70 %
    target utilisation. `model` is a file as for `npusim.Model.read`; `measured_on` the chip that a
    profile comes from; `prices` are EUR for a card, by product. Raises FileError for a model that
    can't be read, ArgumentError for numbers out of range, UnknownNameError for a product.
    """
    batching: dict[str, Any] = {"max_wait_ms": max_wait_ms}
    if max_batch is not None:
        batching["max_batch"] = max_batch
    served: dict[str, Any] = {"items_per_request": items_per_request}
    if measured_on is not None:
        served["measured_on"] = measured_on
    objective = {"quantile": quantile, "limit_ms": limit_ms, "availability": availability}
    wanted = plan_of_model(Path(model), served, rate_per_s, batching, objective, products, prices)
    return plan(wanted, seed=seed, progress=progress)


def plan_of_model(
    model: Path,
    served: Mapping[str, Any],
    rate_per_s: float,
    batching: Mapping[str, Any],
    objective: Mapping[str, Any],
    products: Sequence[str],
    prices: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """The plan of one model at one rate, as a file would say it; `prices` in EUR, by product.

    Raises ArgumentError for a price of a product that isn't compared.
    """
    models = [{"name": model.stem, "reference": str(model.resolve()), **served}]
    return {
        "title": f"Recommendation for {model.stem}",
        "workload": {"models": models, "peak_requests_per_s": rate_per_s, "batching": batching},
        "objective": objective,
        "fleet": priced_fleet(products, prices),
    }


def priced_fleet(
    products: Sequence[str], prices: Mapping[str, float] | None = None
) -> dict[str, Any]:
    """The products to compare, as a file would say it; `prices` in EUR for a card, by product.

    Raises ArgumentError for a price of a product that isn't compared.
    """
    prices = prices or {}
    if unasked := [name for name in prices if name not in products]:
        raise ArgumentError(
            f"a price for {unasked[0]}, which isn't compared",
            f"Compared are: {', '.join(products)}.",
        )
    fleet: dict[str, Any] = {
        "products": [
            {"product": name, "price_per_card": prices[name]} if name in prices else name
            for name in products
        ]
    }
    return {**fleet, "currency": "EUR"} if prices else fleet


def seeded(wanted: Plan, seed: int | None) -> Plan:
    """The plan with another seed; the same for None."""
    if seed is None:
        return wanted
    simulation = wanted.simulation.model_copy(update={"seed": seed})
    return wanted.model_copy(update={"simulation": simulation})
