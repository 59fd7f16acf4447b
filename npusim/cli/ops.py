"""`npusim ops`: the operators that are simulated, the contract of each, and the whole catalogue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from npusim.cli import asking, catalogue, output
from npusim.cli.options import AsJson, Operator

if TYPE_CHECKING:
    from npusim.aclnn.contract import Contract, Parameter

app = typer.Typer(
    help="The operators: list, show the contract of one, or search the whole aclnn catalogue.",
    rich_markup_mode=None,
)

Search = Annotated[
    str | None,
    typer.Option(
        "--search", metavar="TEXT", help="Words of a name, and dtypes: --search 'norm bf16'."
    ),
]


@app.callback(invoke_without_command=True)
def ops(
    context: typer.Context,
    search: Search = None,
    soc: catalogue.Product = None,
    as_json: AsJson = False,
) -> None:
    """The operators: list, show the contract of one, or search the whole aclnn catalogue."""
    if context.invoked_subcommand is not None:
        return
    if search is None and soc is None:
        list_operators(as_json)
    else:
        catalogue.search(search or "", soc, as_json=as_json)


app.command("diff")(catalogue.diff)
app.command("matrix")(catalogue.matrix)
app.command("summary")(catalogue.summary)


@app.command("list")
def list_operators(as_json: AsJson = False) -> None:
    """All operators with the products that offer them, and the standard ones by family."""
    from npusim.aclnn.registry import operator, operators
    from npusim.aclnn.standard import standard_families

    contracts = [operator(name) for name in operators()]
    families = standard_families()
    if as_json:
        standard = [
            {"name": name, "family": family, "standard": True}
            for family, names in families.items()
            for name in names
        ]
        described = [*(_summary(contract) for contract in contracts), *standard]
        output.emit_json(sorted(described, key=lambda entry: str(entry["name"])))
        return
    from npusim.report import pages

    output.emit(pages.operators_table(contracts))
    output.emit(pages.standard_table(families))


@app.command("show")
def show(op: Operator, as_json: AsJson = False) -> None:
    """The contract of an operator as a page: parameters, dtypes, limits, return codes."""
    contract = asking.call_of(op, [])
    if as_json:
        output.emit_json(_contract(contract))
        return
    from npusim.report import pages

    output.emit(pages.operator_page(contract))


def _summary(contract: Contract) -> dict[str, Any]:
    return {"name": contract.name, "summary": contract.summary, "products": list(contract.products)}


def _contract(contract: Contract) -> dict[str, Any]:
    codes = [
        {"code": int(row.code), "name": row.name, "when": list(row.reasons)}
        for row in contract.return_codes()
    ]
    return {
        **_summary(contract),
        "parameters": [_parameter(contract, parameter) for parameter in contract.parameters],
        "return_codes": codes,
        "limits": list(contract.limits),
        "notes": list(contract.notes),
        "source": contract.source,
    }


def _parameter(contract: Contract, parameter: Parameter) -> dict[str, Any]:
    described: dict[str, Any] = {
        "name": parameter.name,
        "io": parameter.io,
        "kind": parameter.kind,
        "optional": parameter.optional,
        "description": parameter.description,
    }
    if parameter.kind == "tensor":
        described["rank"] = list(parameter.rank)
        described["formats"] = [each.name for each in parameter.formats]
        described["dtypes"] = {
            family: [each.name for each in parameter.dtypes_on(family)]
            for family in contract.products
        }
    return described
