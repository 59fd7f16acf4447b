"""`npusim init`: files to begin with, each with comments and accepted as it is."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from npusim.cli import output
from npusim.cli.options import Force, Output
from npusim.values.language import say

KINDS = ("plan", "prices", "sweep", "chip", "model")

Kind = Annotated[str, typer.Argument(metavar="KIND", help=f"One of {', '.join(KINDS)}.")]


def init(kind: Kind, path: Output = None, force: Force = False) -> None:
    """Write a commented file for `plan`, `--prices`, `sweep`, `-s` or `model` to begin with.

    Example: npusim init plan -o plan.yaml
    """
    from npusim.reporting.files import write_text
    from npusim.values.errors import UnknownNameError

    if kind not in KINDS:
        raise UnknownNameError("kind of file", kind, KINDS)
    target = path or Path(f"{kind}.yaml")
    template = resources.files("npusim.cli").joinpath("templates", f"{kind}.yaml")
    write_text(target, template.read_text(encoding="utf-8"), force=force)
    output.note(
        say("written: {target}; its first lines say what to do with it").format(target=target)
    )
