"""`npusim profiles`: the chips, and where each of their numbers comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from npusim.cli import output
from npusim.cli.chips import every_chip, one_chip
from npusim.cli.options import AsJson

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile

app = typer.Typer(help="The chips: list, or show the numbers of one.", rich_markup_mode=None)

Soc = Annotated[
    str, typer.Argument(metavar="SOC", help="A chip, an Atlas product, or the path of a profile.")
]

Prefix = Annotated[
    str, typer.Argument(metavar="PREFIX", help="Only numbers that begin so, such as memory.hbm")
]


@app.callback(invoke_without_command=True)
def profiles(context: typer.Context, as_json: AsJson = False) -> None:
    """The chips: list, or show the numbers of one."""
    if context.invoked_subcommand is None:
        list_profiles(as_json)


@app.command("list")
def list_profiles(as_json: AsJson = False) -> None:
    """The built-in chips, and the Atlas products that they are in.

    Example: npusim profiles list --json
    """
    from npusim.hardware.products import products

    chips = [chip.profile for chip in every_chip()]
    if as_json:
        output.emit_json(
            {
                "chips": [_chip(chip) for chip in chips],
                "products": [product.model_dump() for product in products()],
            }
        )
        return
    from npusim.reporting import profiles as pages

    output.emit(pages.profiles_table(chips), pages.products_table(products()))


@app.command("show")
def show(soc: Soc, prefix: Prefix = "", as_json: AsJson = False) -> None:
    """Every number of a chip with its source and how sure we are of it.

    Example: npusim profiles show 910b3 memory.
    """
    from npusim.reporting import profiles as pages

    chip = one_chip([soc], "show describes one chip")
    if as_json:
        rows = {row.pop("key"): row for row in pages.profile_rows(chip.profile, prefix)}
        output.emit_json({**_chip(chip.profile), "values": rows})
        return
    output.emit(pages.profile_page(chip.profile, prefix))


def _chip(chip: Profile) -> dict[str, Any]:
    from npusim.reporting.renderers.jsonout import fields

    return {
        **fields(chip, "name family product_line architecture aliases"),
        "cores": chip.cores.model_dump(),
        "clock_mhz": chip.clock_mhz,
    }
