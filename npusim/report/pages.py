"""Longer texts about one thing: the contract of an operator, the numbers of a chip."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from npusim.hardware.families import plural
from npusim.report.tables import Grid, facts

if TYPE_CHECKING:
    from rich.table import Table

    from npusim.hardware.products import Product
    from npusim.hardware.profile import Profile
    from npusim.hardware.provenance import Provenance
    from npusim.operators.contract import Contract, Parameter


def operators_table(contracts: Sequence[Contract]) -> Table:
    """The operators that are simulated, with the product families that offer them."""
    table = Grid("", ("operator", "products", "what it does"), wide="products")
    for contract in contracts:
        table.row(contract.name, _families(contract), contract.summary)
    return table


def standard_table(families: Mapping[str, Sequence[str]]) -> Table:
    """The standard operators: whatever is called by an operator type or an aclnn name."""
    table = Grid("standard operators", ("family", "names"), wide="names")
    for family, names in families.items():
        table.row(family.replace("_", " "), ", ".join(names))
    return table


def operator_page(contract: Contract) -> RenderableType:
    """The contract of an operator: parameters, limits, checks in order with their codes."""
    parts: list[RenderableType] = [
        Text(contract.name, style="bold"),
        Padding(Text(contract.summary), (0, 2)),
        Padding(Text(f"offered on {_families(contract)}"), (0, 2, 1, 2)),
        parameter_table(contract),
        check_list(contract),
    ]
    for title, lines in (("limits", contract.limits), ("notes", contract.notes)):
        if lines:
            parts.append(Text(title, style="bold"))
            parts.extend(Padding(Text(f"- {line}"), (0, 2)) for line in lines)
    if contract.source:
        parts.append(Padding(Text(f"source: {contract.source}", style="dim"), (1, 0, 0, 0)))
    return Group(*parts)


def _families(contract: Contract) -> str:
    return ", ".join(f"{plural(family)} ({family})" for family in contract.products)


def parameter_table(contract: Contract) -> Table:
    """The parameters in the order of the aclnn page."""
    columns = ("parameter", "", "kind", "dtypes", "rank", "format", "null", "meaning")
    table = Grid("", columns, wide="meaning")
    for parameter in contract.parameters:
        is_tensor = parameter.kind == "tensor"
        table.row(
            parameter.name,
            parameter.io,
            parameter.kind,
            "\n".join(dtype_lines(contract, parameter)),
            "{}..{}".format(*parameter.rank) if is_tensor else "",
            " ".join(each.name for each in parameter.formats) if is_tensor else "",
            "yes" if parameter.optional else "",
            parameter.description,
        )
    return table


def dtype_lines(contract: Contract, parameter: Parameter) -> list[str]:
    """The dtypes of a parameter, families that take the same ones together."""
    together: dict[str, list[str]] = {}
    for family in contract.products:
        names = " ".join(each.name for each in parameter.dtypes_on(family))
        together.setdefault(names, []).append(family)
    lines = [f"{', '.join(families)}: {names}" for names, families in together.items() if names]
    return lines if len(together) > 1 else [names for names in together if names]


def check_list(contract: Contract) -> Table:
    """The return codes of the first phase, with what leads to them."""
    table = Grid("first phase", ("code", "name", "when"), ("code",), wide="when")
    for row in contract.return_codes():
        table.row(str(int(row.code)), row.name, "\n".join(row.reasons))
    return table


def profiles_table(profiles: Sequence[Profile]) -> Table:
    """The built-in chips, with the few numbers that people tell them apart by."""
    numbers = ("cube", "vector", "MHz", "UB KiB", "L2 MiB", "HBM GB/s", "GiB")
    table = Grid("", ("SoC", "products", "cores", *numbers), numbers, wide="products")
    for chip in profiles:
        table.row(
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
    return table


def products_table(products: Sequence[Product]) -> Table:
    """The Atlas products: the chip, how many of them, memory and power."""
    numbers = ("chips/card", "cards/server", "GiB/chip", "W/card")
    table = Grid("", ("product", "in Chinese", "SoC", *numbers), numbers)
    for product in products:
        table.row(
            product.name_en,
            product.name_zh,
            product.soc,
            str(product.chips_per_card),
            str(product.cards_per_server),
            f"{product.memory_bytes_per_chip / 2**30:.0f}",
            "" if product.power_w is None else f"{product.power_w:g}",
        )
    return table


def profile_page(profile: Profile) -> RenderableType:
    """Every number of a chip, where it comes from and how sure we are of it."""
    head = facts(
        (
            ("products", profile.product_line),
            ("architecture", f"{profile.architecture} (NpuArch {profile.npu_arch})"),
            ("also called", ", ".join(profile.aliases)),
        )
    )
    values = Grid("", ("key", "value", "confidence", "source", "notes"), wide="notes")
    values.columns[1].no_wrap = False  # long lists of dtypes
    values.columns[1].max_width = 44
    sources: dict[str, str] = {}
    for key, value, origin in _folded(profile):
        number = sources.setdefault(origin.source, f"[{len(sources) + 1}]")
        values.row(key, value, origin.confidence, number, origin.notes)
    cited = facts((number, source) for source, number in sources.items())
    title = Text(profile.name, style="bold")
    return Group(title, Padding(head, (0, 2)), values, Text("sources", style="bold"), cited)


def profile_rows(profile: Profile) -> Iterator[dict[str, Any]]:
    """Key, value, confidence, source and notes of everything in the profile that has a source."""
    for key, value in _leaves(profile.model_dump(), ""):
        if key not in profile.provenance:
            continue
        origin = profile.provenance_of(key)
        yield {
            "key": key,
            "value": value,
            "confidence": origin.confidence,
            "source": origin.source,
            "notes": origin.notes,
        }


def _leaves(values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _folded(profile: Profile) -> Iterator[tuple[str, str, Provenance]]:
    """One row for each value, but one for neighbours below the top level that share their origin.

    So `paths.gm_to_ub` is one row with its four numbers, and a page is read and not scrolled.
    """
    rows = (row for row in _leaves(profile.model_dump(), "") if row[0] in profile.provenance)

    def place(row: tuple[str, Any]) -> tuple[str, Provenance]:
        key, value = row
        parent = key.rpartition(".")[0]
        alone = "." not in parent or isinstance(value, tuple | list)
        return (key if alone else parent), profile.provenance_of(key)

    for (key, origin), group in itertools.groupby(rows, key=place):
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
