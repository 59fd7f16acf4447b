"""Chips and products side by side, and every number of one chip with its source."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from npusim.reporting.document import Facts, Page, Section, Table
from npusim.reporting.renderers.jsonout import fields
from npusim.values.errors import UnknownNameError
from npusim.values.language import say

if TYPE_CHECKING:
    from npusim.hardware.products import Product
    from npusim.hardware.profile import Profile
    from npusim.hardware.provenance import Provenance


def profiles_table(profiles: Sequence[Profile]) -> Table:
    """The built-in chips, with the few numbers that people tell them apart by."""
    numbers = ("cube", "vector", "MHz", "UB KiB", "L2 MiB", "HBM GB/s", "GiB")
    rows = [
        (
            chip.name,
            chip.product_line,
            chip.cores.style,
            str(chip.cores.cube_cores),
            str(chip.cores.vector_cores),
            str(chip.clock_mhz),
            str(chip.buffers.ub_bytes // 2**10),
            str(chip.memory.l2_bytes // 2**20),
            f"{chip.memory.hbm_nominal_gbps:g}",
            f"{chip.memory.capacity_bytes / 2**30:.0f}",
        )
        for chip in profiles
    ]
    return Table(("SoC", "products", "cores", *numbers), rows, numbers, wide=("products",))


def products_table(products: Sequence[Product]) -> Table:
    """The Atlas products: the chip, how many of them, memory and power."""
    numbers = ("chips/card", "cards/server", "GiB/chip", "W/card")
    rows = [
        (
            product.name_en,
            product.name_zh,
            product.soc,
            str(product.chips_per_card),
            str(product.cards_per_server),
            f"{product.memory_bytes_per_chip / 2**30:.0f}",
            "" if product.power_w is None else f"{product.power_w:g}",
        )
        for product in products
    ]
    return Table(("product", "in Chinese", "SoC", *numbers), rows, numbers)


def profile_page(profile: Profile, prefix: str = "") -> Page:
    """Every number of a chip, where it comes from and how sure we are of it.

    With `prefix` only the numbers whose key begins so. Raises UnknownNameError where none does.
    """
    _refuse_none(profile, prefix)
    facts = (
        ("products", profile.product_line),
        ("architecture", f"{profile.architecture} (NpuArch {profile.npu_arch})"),
        ("also called", ", ".join(profile.aliases)),
    )
    sources: dict[str, str] = {}
    rows = []
    for key, value, origin in _folded(profile, prefix):
        number = sources.setdefault(origin.source, f"[{len(sources) + 1}]")
        rows.append((key, value, origin.confidence, number, origin.notes))
    columns = ("key", "value", "confidence", "source", "notes")
    cited = Facts([(number, source) for source, number in sources.items()])
    values = Table(columns, rows, wide=("value", "notes"))
    return Page(
        profile.name, facts=facts, sections=[Section("", [values]), Section("sources", [cited])]
    )


def profile_rows(profile: Profile, prefix: str = "") -> Iterator[dict[str, Any]]:
    """Key, value, confidence, source and notes of everything in the profile that has a source.

    With `prefix` only of what begins so. Raises UnknownNameError where nothing does.
    """
    _refuse_none(profile, prefix)
    for key, value in _sourced(profile, prefix):
        origin = profile.provenance_of(key)
        yield {"key": key, "value": value, **fields(origin, "confidence source notes")}


def _refuse_none(profile: Profile, prefix: str) -> None:
    if prefix and next(_sourced(profile, prefix), None) is None:
        groups = dict.fromkeys(key.partition(".")[0] for key, _ in _sourced(profile, ""))
        raise UnknownNameError(
            say("number of {name}").format(name=profile.name), prefix, tuple(groups)
        )


def _sourced(profile: Profile, prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in _leaves(profile.model_dump(), ""):
        if key in profile.provenance and key.startswith(prefix):
            yield key, value


def _leaves(values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _folded(profile: Profile, prefix: str) -> Iterator[tuple[str, str, Provenance]]:
    """One row for each value, but one for neighbours below the top level that share their origin.

    So `paths.gm_to_ub` is one row with its four numbers, and a page is read and not scrolled.
    """

    def place(row: tuple[str, Any]) -> tuple[str, Provenance]:
        key, value = row
        parent = key.rpartition(".")[0]
        alone = "." not in parent or isinstance(value, tuple | list)
        return (key if alone else parent), profile.provenance_of(key)

    for (key, origin), group in itertools.groupby(_sourced(profile, prefix), key=place):
        members = list(group)
        if len(members) == 1:
            yield members[0][0], _spelled(members[0][1]), origin
        else:
            named = (f"{name.rpartition('.')[2]} {_spelled(value)}" for name, value in members)
            yield key, ", ".join(named), origin


def _spelled(value: Any) -> str:
    if isinstance(value, tuple | list):
        return " ".join(map(str, value))
    return f"{value:.10g}" if isinstance(value, float) else str(value)
