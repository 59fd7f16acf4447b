"""Questions as a plan's file would say them: one model at one rate, priced products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from npusim.capacity.boards import find_board
from npusim.capacity.plan import PricedProducts
from npusim.capacity.plan_wording import sentences
from npusim.reading.files import read_text
from npusim.reading.markup import yaml_mapping
from npusim.values.errors import ArgumentError, FileError
from npusim.values.language import say

Prices = Mapping[str, float] | PricedProducts
"""EUR for a card by product, or a sheet with prices, watts and a currency."""


def plan_of_model(
    model: Path,
    served: Mapping[str, Any],
    rate_per_s: float,
    batching: Mapping[str, Any],
    objective: Mapping[str, Any],
    products: Sequence[str],
    prices: Prices | None = None,
) -> dict[str, Any]:
    """The plan of one model at one rate, as a file would say it; `prices` as for `priced_fleet`.

    Raises ArgumentError for a price of a product that isn't compared.
    """
    models = [{"name": model.stem, "reference": str(model.resolve()), **served}]
    return {
        "title": f"Recommendation for {model.stem}",
        "workload": {"models": models, "peak_requests_per_s": rate_per_s, "batching": batching},
        "objective": objective,
        "fleet": priced_fleet(products, prices),
    }


def priced_fleet(products: Sequence[str], prices: Prices | None = None) -> dict[str, Any]:
    """The products to compare, as a file would say it; `prices` in EUR for a card, or a sheet.

    Raises ArgumentError for a price of a product that isn't compared, UnknownNameError for a
    product of a sheet that nobody knows.
    """
    if isinstance(prices, PricedProducts):
        known = {find_board(each.product).name: each for each in prices.products}
        found = [(name, known.get(find_board(name).name)) for name in products]
        said = [
            name if sheet is None else {**sheet.model_dump(exclude_none=True), "product": name}
            for name, sheet in found
        ]
        return {"products": said, "currency": prices.currency}
    prices = prices or {}
    if unasked := [name for name in prices if name not in products]:
        raise ArgumentError(
            say("a price for {unasked}, which isn't compared").format(unasked=unasked[0]),
            f"Compared are: {', '.join(products)}.",
        )
    fleet: dict[str, Any] = {
        "products": [
            {"product": name, "price_per_card": prices[name]} if name in prices else name
            for name in products
        ]
    }
    return {**fleet, "currency": "EUR"} if prices else fleet


def read_prices(path: Path) -> PricedProducts:
    """A sheet of what cards cost and take; FileError says what is wrong with it."""
    try:
        return PricedProducts.model_validate(yaml_mapping(read_text(path), str(path)))
    except ValidationError as error:
        raise FileError(path, "\n".join(sentences(error))) from error
