"""How many interfaces of the catalogue run here: with numbers and time, on the AI CPU, or not.

An interface that an operator page lists for a product either has a definition, whose kernels (or
tasks of the AI CPU) give numbers and time, or is only checked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from npusim.catalogue.facts import Catalogue, catalogue
from npusim.hardware.loading import profile_named, profile_names
from npusim.operators.registry import builder, has_contract, has_kernel, prototype
from npusim.schedules.on_ai_cpu import OnAiCpu


class Depth(Enum):
    """How far an interface is simulated."""

    KERNEL = "numbers and time"
    AI_CPU = "on the AI CPU"
    CHECKED = "checked only"


@dataclass(frozen=True, slots=True)
class Covered:
    """An interface on a product family; ``folder`` is where its page stands, e.g. ``math``.

    ``why`` is what it lacks, ``only`` the modes of one that runs in part: ``groupSize = 0``.
    """

    api: str
    family: str
    folder: str
    depth: Depth
    why: str
    only: str = ""


def covered(families: Sequence[str]) -> Iterator[Covered]:
    """Every interface that a page lists for one of the families, by name.

    On a family without a profile here, everything is checked only.
    """
    known = catalogue()
    simulated = {profile_named(name).family for name in profile_names()}
    for api in sorted(known.paged_apis):
        depth = _depth(api)
        why = _missing(known, api) if depth is Depth.CHECKED else ""
        only = "" if depth is Depth.CHECKED else _modes(api)
        for family in families:
            page = known.page(api, family)
            if page is None or page.supported != "yes":
                continue
            folder = page.source.partition(":")[2].partition("/")[0]
            if family in simulated:
                yield Covered(api, family, folder, depth, why, only)
            else:
                yield Covered(api, family, folder, Depth.CHECKED, f"no chip of {family} is here")


def counted(rows: Sequence[Covered], field: str) -> dict[str, Counter[Depth]]:
    """How many interfaces of each depth there are, by family or by folder, sorted."""
    found: dict[str, Counter[Depth]] = {}
    for row in rows:
        found.setdefault(getattr(row, field), Counter())[row.depth] += 1
    return dict(sorted(found.items()))


def _depth(api: str) -> Depth:
    if has_contract(api):
        return Depth.KERNEL
    known = prototype(api)
    if known is None or known[1].name != api:
        return Depth.CHECKED
    operator, _ = known
    if operator.has_type and isinstance(getattr(builder(operator.name), "__self__", None), OnAiCpu):
        return Depth.AI_CPU
    return Depth.KERNEL


def _modes(api: str) -> str:
    """The attributes of which one value is modelled, and that value."""
    known = None if has_contract(api) else prototype(api)
    attributes = known[1].attributes if known else ()
    return ", ".join(f"{each.name} = {each.only:g}" for each in attributes if each.only is not None)


def _missing(known: Catalogue, api: str) -> str:
    """What it would take: the operators that do the work of the interface and have no kernel."""
    wanted = known.op_types_of(api)
    lacking = [each for each in wanted if not has_kernel(each)]
    if lacking:
        return f"no kernel of {', '.join(lacking)}"
    if wanted:
        return f"what it does with {', '.join(wanted)} isn't defined"
    return "no operator is known to do its work"
