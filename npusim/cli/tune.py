"""`npusim tune`: variants of a program, ranked by time."""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from npusim.cli import output
from npusim.cli.capi import is_source
from npusim.cli.options import AsJson, Force, JsonFile, ProgramSoc
from npusim.values.errors import FileError, UsageError

if TYPE_CHECKING:
    from npusim.runtime.ranking import Ranked

Words = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE... [-- ARGUMENTS...]",
        help="A Python program with kernels of npusim or pyasc, or sources of one in C++ (.asc, "
        ".cpp).",
    ),
]
Parameters = Annotated[
    list[str],
    typer.Option(
        "--param",
        metavar="NAME=V1,V2,...",
        help="Values; repeatable. In Python of a constant, a kernel's parameter, or block_dim; in "
        "C++ of a macro (-DNAME=V).",
    ),
]
Flags = Annotated[
    list[str],
    typer.Option("--flag", metavar="FLAG", help="One for the C++ compiler (--flag=-O3)."),
]
Top = Annotated[int, typer.Option("--top", metavar="K", min=1, help="Show the fastest K.")]
CsvFile = Annotated[
    Path | None, typer.Option("--csv", metavar="FILE", help="Write all variants as CSV.")
]


def tune(
    words: Words,
    soc: ProgramSoc = None,
    param: Parameters = [],  # noqa: B006 - typer makes a list of its own
    flag: Flags = [],  # noqa: B006
    top: Top = 10,
    as_json: AsJson = False,
    json_file: JsonFile = None,
    csv_file: CsvFile = None,
    force: Force = False,
) -> None:
    """Run a program with every combination of values, and rank them by the time of its kernels.

    Example: npusim tune kernel.py -s 910b3 --param TILE=1024,2048
    """
    from npusim.cli.chips import one_chip
    from npusim.reporting.document import Table
    from npusim.reporting.files import claim_all, write_text
    from npusim.values.display import significant

    if not soc or not param:
        what = "parameters" if soc else "chip"
        raise UsageError(
            f"which {what}?", "Say e.g. -s Ascend910B3 --param TILE=1024,2048 --param DEPTH=1,2."
        )
    chip = one_chip([soc], "a program runs on one chip")
    claim_all(json_file, csv_file, force=force)
    ranked = _ranked(words, chip.address, dict(map(_values, param)), flag)
    runs = [each for each in ranked if each.runs]
    told = [
        {"variant": each.name, "duration_us": each.duration_us if each.runs else None,
         "refusal": each.refusal}
        for each in ranked
    ]  # fmt: skip
    if as_json:
        output.emit_json(told)
    else:
        best = runs[0].duration_us if runs else 0.0
        rows = [
            (str(place), each.name, significant(each.duration_us, 4),
             f"{each.duration_us / best:.2f}")
            for place, each in enumerate(runs[:top], 1)
        ]  # fmt: skip
        columns = ("rank", "variant", "time (us)", "of the best")
        output.emit(Table(columns, rows, (columns[0], *columns[2:]), f"on {chip.address}"))
        for each in ranked[len(runs) :]:
            output.note(f"{each.name}: {each.refusal}")
    if json_file is not None:
        output.write_json(json_file, told, force=force)
    if csv_file is not None:
        from npusim.reporting.csvfile import csv_text

        text = csv_text(tuple(told[0]), [each.values() for each in told])
        write_text(csv_file, text, force=force)
    raise typer.Exit(0 if runs else 1)


def _ranked(
    words: list[str], address: str, parameters: dict[str, list[float]], flags: list[str]
) -> list[Ranked]:
    """The variants of a program in Python or C++."""
    sources = list(takewhile(is_source, words))
    if sources:
        from npusim.capi.tuning import tune as tuned

        own = str(Path(address).absolute()) if Path(address).is_file() else address
        return tuned([*map(Path, sources)], words[len(sources) :], own, parameters, flags)
    if not words[0].endswith(".py"):
        raise FileError(
            words[0],
            "is no source that can be tuned",
            "Name a Python program (.py) or sources in C++ (.asc, .cpp, .cc): a variant is built "
            "from them.",
        )
    from npusim.pyasc.tuning import tune as tuned_python
    from npusim.runtime.device import Device

    return tuned_python(words[0], words[1:], Device(address), parameters)


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
