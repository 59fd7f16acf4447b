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
from npusim.values.language import say

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
PruneFile = Annotated[
    Path | None,
    typer.Option(
        "--prune",
        metavar="FILE.py",
        help="Write prune_configs_by for triton.autotune: the fastest K of each kernel.",
    ),
]
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
    prune: PruneFile = None,
    force: Force = False,
) -> None:
    """Run a program with every combination of values, and rank them by the time of its kernels.

    Without --param, the configurations of its triton.autotune.

    Example: npusim tune kernel.py -s 910b3 --param TILE=1024,2048
    """
    from npusim.cli.chips import one_chip
    from npusim.reporting.files import claim_all, write_text

    autotuned = not param and words[0].endswith(".py")
    if not soc or not (param or autotuned):
        what = "parameters" if soc else "chip"
        raise UsageError(
            say("which {what}?").format(what=what),
            say("Say e.g. -s Ascend910B3 --param TILE=1024,2048 --param DEPTH=1,2."),
        )
    chip = one_chip([soc], say("a program runs on one chip"))
    claim_all(json_file, csv_file, prune, force=force)
    if autotuned:
        groups, module = _autotuned(words, chip.address, top)
        if prune is not None:
            write_text(prune, module, force=force)
    else:
        groups = {"": _ranked(words, chip.address, dict(map(_values, param)), flag)}
    ranked = [each for group in groups.values() for each in group]
    runs = [each for each in ranked if each.runs]
    told = [
        {"variant": each.name, "duration_us": each.duration_us if each.runs else None,
         "refusal": each.refusal, "assumptions": list(each.assumptions)}
        for each in ranked
    ]  # fmt: skip
    if as_json:
        output.emit_json(told)
    else:
        for of, group in groups.items():
            _show(group, say("{of} on {address}").format(of=of, address=chip.address).strip(), top)
    if json_file is not None:
        output.write_json(json_file, told, force=force)
    if csv_file is not None:
        from npusim.reporting.csvfile import csv_text

        rows = [
            (*list(each.values())[:-1], "; ".join(of.assumptions))
            for each, of in zip(told, ranked, strict=True)
        ]
        text = csv_text(tuple(told[0]), rows)
        write_text(csv_file, text, force=force)
    raise typer.Exit(0 if runs else 1)


def _show(ranked: list[Ranked], title: str, top: int) -> None:
    """The fastest to standard output; what is refused, to standard error."""
    from npusim.reporting.document import Table
    from npusim.values.display import significant

    runs = [each for each in ranked if each.runs]
    best = runs[0].duration_us if runs else 0.0
    rows = [
        (str(place), each.name, significant(each.duration_us, 4), f"{each.duration_us / best:.2f}")
        for place, each in enumerate(runs[:top], 1)
    ]
    columns = ("rank", "variant", "time (us)", "of the best")
    output.emit(Table(columns, rows, (columns[0], *columns[2:]), title))
    for each in runs[:top]:
        for told in each.assumptions:
            output.note(f"{each.name}: {told}")
    for each in ranked[len(runs) :]:
        output.note(f"{each.name}: {each.refusal}")


def _autotuned(words: list[str], address: str, keep: int) -> tuple[dict[str, list[Ranked]], str]:
    """What the program's autotuned Triton kernels try, and the module that keeps the fastest."""
    from npusim.runtime.device import Device
    from npusim.triton.tuning import prune_file
    from npusim.triton.tuning import tune as tuned

    code, found = tuned(words[0], words[1:], Device(address))
    if not found:
        raise UsageError(
            say("{words} ended with {code} and autotuned no kernel").format(
                words=words[0], code=code
            ),
            say(
                "Give values to try (--param TILE=1024,2048), or decorate a "
                "kernel with triton.autotune."
            ),
        )
    groups = {
        say("{kernel} of {arguments}").format(kernel=each.kernel, arguments=each.arguments): list(
            each.ranked
        )
        for each in found
    }
    return groups, prune_file(found, keep)


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
            say("is no source that can be tuned"),
            say(
                "Name a Python program (.py) or sources in C++ (.asc, .cpp, "
                ".cc): a variant is built from them."
            ),
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
        raise UsageError(f"--param {text!r}", say("Write --param NAME=1024,2048."))
    return name, numbers
