"""References of aclnn interfaces by name: those of the tables, and what follows from them."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from npusim.operators.coverage import Depth, covered
from npusim.operators.registry import prototype

if TYPE_CHECKING:
    from support.references.row import Row


@cache
def rows() -> dict[str, tuple[Row, ...]]:
    """All rows by interface: the tables, and the in-place forms of what they have."""
    found: dict[str, list[Row]] = {}
    for module in iter_modules(__path__):
        for row in getattr(import_module(f"{__name__}.{module.name}"), "ROWS", ()):
            found.setdefault(row.api, []).append(row)
    for api in list(found):
        in_place = api.replace("aclnn", "aclnnInplace", 1)
        if in_place not in found and prototype(in_place):
            found[in_place] = [row.in_place(in_place) for row in found[api]]
    return {api: tuple(each) for api, each in sorted(found.items())}


@cache
def running(family: str) -> tuple[str, ...]:
    """The interfaces that run on a product family with numbers, sorted."""
    return tuple(sorted(row.api for row in covered([family]) if row.depth is not Depth.CHECKED))
