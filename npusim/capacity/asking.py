"""Questions as a plan's file would say them: one model at one rate, priced products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from npusim.values.errors import ArgumentError


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
