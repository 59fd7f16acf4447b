"""The operators that are simulated, and the contract of one as a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from npusim.hardware.families import plural
from npusim.reporting.call.special import special_section
from npusim.reporting.document import Page, Section, Table, bullets

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile
    from npusim.operators.contract import Contract, Parameter


def operators_table(contracts: Sequence[Contract]) -> Table:
    """The operators that are simulated, with the product families that offer them."""
    rows = [(contract.name, _families(contract), contract.summary) for contract in contracts]
    return Table(("operator", "products", "what it does"), rows, wide=("products",))


def standard_table(families: Mapping[str, Sequence[str]]) -> Table:
    """The standard operators: whatever is called by an operator type or an aclnn name."""
    rows = [(family.replace("_", " "), ", ".join(names)) for family, names in families.items()]
    return Table(("family", "names"), rows, caption="standard operators", wide=("names",))


def operator_page(contract: Contract, profiles: Sequence[Profile]) -> Page:
    """The contract of an operator: parameters, limits, checks in order with their codes.

    And what it makes of NaN, infinities and the like on the chips of ``profiles``.
    """
    facts = [("what", contract.summary), ("offered on", _families(contract))]
    if contract.source:
        facts.append(("source", contract.source))
    if contract.rules_source:
        facts.append(("every rule checked of", contract.rules_source))
    sections = [
        Section("", [parameter_table(contract), check_list(contract)]),
        *bullets("limits", contract.limits),
        *bullets("notes", contract.notes),
        *special_section(contract.name, profiles),
    ]
    return Page(contract.name, facts=facts, sections=sections)


def _families(contract: Contract) -> str:
    return ", ".join(f"{plural(family)} ({family})" for family in contract.products)


def parameter_table(contract: Contract) -> Table:
    """The parameters in the order of the aclnn page."""
    rows = []
    for parameter in contract.parameters:
        is_tensor = parameter.kind == "tensor"
        rows.append(
            (
                parameter.name,
                parameter.io,
                parameter.kind,
                "\n".join(dtype_lines(contract, parameter)),
                "{}..{}".format(*parameter.rank) if is_tensor else "",
                " ".join(each.name for each in parameter.formats) if is_tensor else "",
                "yes" if parameter.optional else "",
                parameter.description,
            )
        )
    columns = ("parameter", "", "kind", "dtypes", "rank", "format", "null", "meaning")
    return Table(columns, rows, wide=("meaning",))


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
    rows = [
        (str(int(row.code)), row.name, "\n".join(row.reasons)) for row in contract.return_codes()
    ]
    return Table(("code", "name", "when"), rows, ("code",), "first phase", ("when",))
