"""`npusim skill`: what an agent should know before it uses npusim."""

from __future__ import annotations

from importlib import resources
from typing import Annotated

import typer

from npusim.cli import output


def skill(
    path: Annotated[bool, typer.Option("--path", help="Print where the file is instead.")] = False,
) -> None:
    """Print SKILL.md, which tells an agent how to ask npusim and how to read its answers.

    Example: npusim skill > .agents/skills/npusim/SKILL.md
    """
    file = resources.files("npusim.cli").joinpath("SKILL.md")
    output.emit_text(f"{file}\n" if path else file.read_text(encoding="utf-8"))
