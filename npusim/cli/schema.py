"""`npusim schema`: what `--json` prints, as a JSON Schema."""

from __future__ import annotations

from typing import Annotated

import typer

from npusim.cli import output

Verb = Annotated[str, typer.Argument(metavar="[VERB]", help="The verb; all of them if left out.")]


def schema(verb: Verb = "") -> None:
    """The JSON Schema of what a verb prints with --json.

    Example: npusim schema estimate > estimate.schema.json
    """
    from npusim.reporting.schemas import schema as made

    output.emit_json(made(verb.strip()))
