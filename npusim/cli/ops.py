"""`npusim ops`: the operators that are simulated, the contract of each, and the whole catalogue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from npusim.cli import calls, catalogue, output
from npusim.cli.chips import Chip, chip_per_family, chips, progress_over
from npusim.cli.options import AsJson, Operator, Socs

if TYPE_CHECKING:
    from npusim.operators.contract import Contract, Parameter
    from npusim.reporting.call.answers import Answer
    from npusim.reporting.call.typical import Sample

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


app.command("coverage")(catalogue.coverage)
app.command("diff")(catalogue.diff)
app.command("matrix")(catalogue.matrix)
app.command("summary")(catalogue.summary)


@app.command("list")
def list_operators(as_json: AsJson = False) -> None:
    """All operators with the products that offer them, and the standard ones by family.

    Example: npusim ops list
    """
    from npusim.operators.registry import operator, operators
    from npusim.operators.resolve import standard_families

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
    from npusim.reporting import operators as pages

    output.emit(pages.operators_table(contracts))
    output.emit(pages.standard_table(families))


@app.command("show")
def show(op: Operator, soc: Socs = None, as_json: AsJson = False) -> None:
    """The contract of an operator as a page, and the tasks of a typical call on every product.

    Example: npusim ops show GroupNormBackward
    """
    contract = calls.read_call(op, []).contract
    if contract is None:
        catalogue.show_operator(op, soc, as_json=as_json)
        return
    samples = list(_samples(contract, soc))
    from npusim.operators.listed import as_listed

    listed = as_listed(contract)
    if as_json:
        output.emit_json(_contract(listed, samples))
        return
    from npusim.reporting import operators as pages

    asked = chips(soc) if soc else chip_per_family(contract.products)
    output.emit(pages.operator_page(listed, [chip.profile for chip in asked]))
    if contract.typical is not None:
        from npusim.reporting.call import typical

        output.emit("", typical.typical_page(contract.typical, samples))


def _samples(contract: Contract, soc: list[str] | None) -> Iterator[Sample]:
    """What the chips say to the typical call in every dtype that they take.

    Without -s the chip of each product family that offers the operator.
    """
    from npusim.reporting.call.typical import Sample

    if contract.typical is None:
        return
    asked = chips(soc) if soc else chip_per_family(contract.products)
    with progress_over(asked) as tell:
        for chip in asked:
            tell(chip)
            for dtype in contract.typical_dtypes(chip.profile.family):
                yield Sample(dtype, _ask(chip, contract.name, contract.typical.in_dtype(dtype)))


def _ask(chip: Chip, op: str, arguments: Mapping[str, Any]) -> Answer:
    return calls.ask(chip, lambda device: device.estimate(op, **arguments))


def _summary(contract: Contract) -> dict[str, Any]:
    return {"name": contract.name, "summary": contract.summary, "products": list(contract.products)}


def _contract(contract: Contract, samples: Sequence[Sample]) -> dict[str, Any]:
    from npusim.reporting.call.typical import typical_json
    from npusim.reporting.renderers.jsonout import fields

    codes = [
        {"code": int(row.code), "name": row.name, "when": list(row.reasons)}
        for row in contract.return_codes()
    ]
    return {
        **_summary(contract),
        "parameters": [_parameter(contract, parameter) for parameter in contract.parameters],
        "return_codes": codes,
        **fields(contract, "limits notes source"),
        "typical": typical_json(contract.typical, samples) if contract.typical else None,
    }


def _parameter(contract: Contract, parameter: Parameter) -> dict[str, Any]:
    from npusim.reporting.renderers.jsonout import fields

    described = fields(parameter, "name io kind optional description")
    if parameter.kind == "tensor":
        described["rank"] = list(parameter.rank)
        described["formats"] = [each.name for each in parameter.formats]
        described["dtypes"] = {
            family: [each.name for each in parameter.dtypes_on(family)]
            for family in contract.products
        }
    return described
