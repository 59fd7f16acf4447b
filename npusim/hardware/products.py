"""The Atlas products: what a customer buys and the chips in it, and the operator pages' lines."""

from dataclasses import replace
from functools import cache
from typing import Annotated, Literal, TypeVar

from pydantic import BeforeValidator, Field, ValidationError

from npusim.hardware.groups import Family, Group, as_tuple
from npusim.hardware.numbers import Bytes, Count, Positive
from npusim.hardware.provenance import CONFIDENCES, Problem
from npusim.hardware.reading import built_in_sources, data_folder, parsed, problems_of, refusal
from npusim.values.language import say

Names = Annotated[tuple[str, ...], BeforeValidator(as_tuple)]


class _Named(Group):
    """Anything in the list of products: names, chip, how chips are linked, and who says so."""

    name_en: str = Field(description="name in English")
    name_zh: str = Field(description="name in Chinese")
    aliases: Names = Field((), description="other names")
    soc: str = Field(description="its chip")
    interconnect: str = Field(description="how its chips are linked: a file of `interconnects`")
    source: str = Field(description="a key of sources.yaml")
    confidence: str = Field(description="how sure the row is")
    notes: str = Field("", description="what a reader should know")

    @property
    def names(self) -> tuple[str, ...]:
        """Every name it is known by, the English one first."""
        return (self.name_en, self.name_zh, *self.aliases)


class Product(_Named):
    """A card or a server: what is sold, and the chips in it."""

    purpose: Literal["training", "inference"] = Field(description="series that it is sold in")

    chips_per_card: Count = Field(description="chips on a card")
    cards_per_server: Count = Field(description="most cards of a server")
    memory_bytes_per_chip: Bytes = Field(description="device memory of a chip, bytes")
    power_w: Positive | None = Field(
        description="power of a card, watts; none where nobody publishes it"
    )


class ProductLine(_Named):
    """A heading of the operators' support tables, and the chip of the line that we take for it."""

    family: Family = Field(description="family of the line")


_Entry = TypeVar("_Entry", bound=_Named)


@cache
def products() -> tuple[Product, ...]:
    """The products that we know, in the order of ``hw_profiles/products.yaml``."""
    return _read("products", Product)


def product_names() -> tuple[str, ...]:
    """The English names of the products that we know."""
    return tuple(product.name_en for product in products())


@cache
def product_lines() -> tuple[ProductLine, ...]:
    """The product lines of the operator pages, in the order of ``hw_profiles/products.yaml``."""
    return _read("lines", ProductLine)


def _read(section: str, model: type[_Entry]) -> tuple[_Entry, ...]:
    file = data_folder() / "products.yaml"
    found: list[_Entry] = []
    problems: list[Problem] = []
    for position, raw in enumerate(parsed(file)[section]):
        at = f"{section}.{position}"
        try:
            entry = model.model_validate(raw)
        except ValidationError as error:
            problems += [replace(one, key=f"{at}.{one.key}") for one in problems_of(error, model)]
            continue
        problems += _unsourced(entry, at)
        found.append(entry)
    if problems:
        raise refusal(str(file), problems)
    return tuple(found)


def _unsourced(entry: _Named, at: str) -> list[Problem]:
    problems = []
    if entry.source not in built_in_sources():
        problems.append(Problem(f"{at}.source", entry.source, say("a key of sources.yaml")))
    if entry.confidence not in CONFIDENCES:
        allowed = say("one of {confidences}").format(confidences=", ".join(CONFIDENCES))
        problems.append(Problem(f"{at}.confidence", entry.confidence, allowed))
    return problems
