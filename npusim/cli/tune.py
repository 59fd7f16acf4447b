"""`npusim tune`: variants of a program, ranked by time."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from npusim.cli import output
from npusim.cli.options import Force, ProgramSoc
from npusim.values.errors import UsageError

Words = Annotated[
    list[str],
    typer.Argument(metavar="FILE.py [-- ARGUMENTS...]", help="A pyasc program."),
]
Parameters = Annotated[
    list[str],
    typer.Option(
        "--param",
        metavar="NAME=V1,V2,...",
        help="Values of a constant of the program or of a kernel's parameter; repeatable.",
    ),
]
Top = Annotated[int, typer.Option("--top", metavar="K", min=1, help="Show the fastest K.")]
JsonFile = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Write all variants to a JSON file.")
]


def tune(
    words: Words,
    soc: ProgramSoc = None,
    param: Parameters = [],  # noqa: B006 - typer makes a list of its own
    top: Top = 10,
    json_file: JsonFile = None,
    force: Force = False,
) -> None:
    """Run a program with every combination of values, and rank them by the time of its kernels.

    Example: npusim tune kernel.py -s 910b3 --param TILE=1024,2048
    """
    from npusim.cli.chips import one_chip
    from npusim.pyasc.tuning import tune as tuned
    from npusim.reporting.document import Table
    from npusim.reporting.files import claim_all
    from npusim.runtime.device import Device
    from npusim.values.display import significant

    if not soc or not param:
        what = "parameters" if soc else "chip"
        raise UsageError(
            f"which {what}?", "Say e.g. -s Ascend910B3 --param TILE=1024,2048 --param DEPTH=1,2."
        )
    chip = one_chip([soc], "a program runs on one chip")
    claim_all(json_file, force=force)
    ranked = tuned(words[0], words[1:], Device(chip.address), dict(map(_values, param)))
    runs = [each for each in ranked if each.runs]
    best = runs[0].duration_us if runs else 0.0
    rows = [
        (str(place), each.name, significant(each.duration_us, 4), f"{each.duration_us / best:.2f}")
        for place, each in enumerate(runs[:top], 1)
    ]
    columns = ("rank", "variant", "time (us)", "of the best")
    output.emit(Table(columns, rows, ("rank", "time (us)", "of the best"), f"on {chip.address}"))
    for each in ranked[len(runs) :]:
        output.note(f"{each.name}: {each.refusal}")
    if json_file is not None:
        told = [
            {"variant": each.name, "duration_us": each.duration_us if each.runs else None,
             "refusal": each.refusal}
            for each in ranked
        ]  # fmt: skip
        output.write_json(json_file, told, force=force)
    raise typer.Exit(0 if runs else 1)


def _values(text: str) -> tuple[str, list[float]]:
    """``TILE=1024,2048`` as a name and numbers."""
    name, equals, values = text.partition("=")
    try:
        numbers = [int(each) if each.lstrip("-").isdigit() else float(each)
                   for each in values.split(",")]  # fmt: skip
    except ValueError:
        numbers = []
    if not (name.isidentifier() and equals and numbers):
        raise UsageError(f"--param {text!r}", "Write --param NAME=1024,2048.")
    return name, numbers
