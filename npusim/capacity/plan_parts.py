"""What the parts of a plan's file have in common: strict keys, and how values are spelled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import BeforeValidator, Field, model_validator

from npusim.hardware.groups import Group, as_tuple
from npusim.hardware.numbers import Bytes, Count, Positive
from npusim.hardware.products import product_names
from npusim.reading.limits import LEAST_RATE, MOST_OF_A_PLAN, MOST_REQUESTS
from npusim.values.language import say
from npusim.values.spelling import names_in
from npusim.values.suggest import did_you_mean


class PlanPart(Group):
    """Base of the plan's parts: frozen, strict, and helpful about unknown keys."""

    @model_validator(mode="before")
    @classmethod
    def _know_the_keys(cls, raw: object) -> object:
        if isinstance(raw, Mapping):
            for key in raw:
                if key not in cls.model_fields:
                    hint = (
                        did_you_mean(str(key), cls.model_fields)
                        or f"Known: {', '.join(cls.model_fields)}."
                    )
                    raise ValueError(say("unknown key {key!r}. {hint}").format(key=key, hint=hint))
        return raw


def product_names_in(value: object) -> object:
    """A list of products, in which one word may name several with commas, or `all`."""
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list | tuple):
        return value
    words = ([each] if not isinstance(each, str) else names_in([each], product_names)
             for each in listed)  # fmt: skip
    return tuple(name for each in words for name in each)


def named(key: str) -> BeforeValidator:
    """A plain word stands for a mapping that has only this key."""
    return BeforeValidator(lambda value: {key: value} if isinstance(value, str) else value)


def as_share(value: object) -> object:
    """The share of a quantile in words: p99 is 0.99."""
    if isinstance(value, str) and value[:1] in "pP" and value[1:].replace(".", "", 1).isdecimal():
        return round(float(value[1:]) / 100, 12)
    return value


Counts = Annotated[tuple[Count, ...], BeforeValidator(as_tuple), Field(min_length=1)]
Sizes = Annotated[tuple[Bytes, ...], BeforeValidator(as_tuple), Field(min_length=1)]
Times = Annotated[tuple[Positive, ...], BeforeValidator(as_tuple), Field(min_length=1)]
Rate = Annotated[float, Field(ge=LEAST_RATE, le=MOST_OF_A_PLAN)]
Share = Annotated[float, Field(gt=0, lt=1)]
Requests = Annotated[int, Field(gt=0, le=MOST_REQUESTS)]
