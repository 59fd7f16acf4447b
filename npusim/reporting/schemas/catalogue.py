"""What operators and chips there are."""

from __future__ import annotations

from typing import Any

from npusim.reporting.schemas.common import Json, Number, Object, Status, Verdict


class CatalogueAnswer(Object):
    """What the catalogue knows of an operator on a product family."""

    operator: str
    kind: str
    family: str
    soc: str | None
    verdict: Verdict
    by_page: str
    by_operator_information: str
    disagree: bool
    why: str
    remedy: str
    status: Status
    supported_by: list[str]
    notes: list[str]
    evidence: list[Json]
    parameters: list[Json]


class CatalogueAnswers(Object):
    """An operator that only the catalogue knows: `check`."""

    answers: list[CatalogueAnswer]


class Summary(Object):
    """An operator in a list."""

    name: str
    summary: str
    products: list[str]


class Contract(Summary):
    """An operator's page: `ops show`."""

    parameters: list[Json]
    return_codes: list[Json]
    limits: Any
    notes: Any
    source: Any
    typical: Any


class Entry(Object):
    """An interface on a product family: `ops --search`."""

    operator: str
    family: str
    by_page: str
    by_operator_information: str
    verdict: str
    dtypes: Any
    doubted_dtypes: Any


class Difference(Object):
    """What two products differ in: `ops --diff`."""

    first: str
    second: str
    common: Any
    only_first: Any
    only_second: Any
    other_dtypes: list[Json]


class Coverage(Object):
    """How far an interface is modelled on a family: `ops coverage`."""

    api: str
    family: str
    folder: str
    runs: str
    why: str


class Chip(Object):
    """A chip: `profiles`; `values` (of `profiles show`) have sources and confidences."""

    name: str
    family: str
    product_line: str
    architecture: str
    aliases: list[str]
    cores: Json
    clock_mhz: Number
    values: dict[str, Json] | None = None


class Chips(Object):
    """All chips and products: `profiles`."""

    chips: list[Chip]
    products: list[Json]
