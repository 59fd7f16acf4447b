"""`npusim mcp`: npusim's questions as tools for agents and editors."""

from __future__ import annotations

from typing import Annotated

import typer


def mcp(
    allow_run: Annotated[
        bool,
        typer.Option(
            "--allow-run",
            help="Offer kernel_run too, which executes programs with your rights.",
        ),
    ] = False,
) -> None:
    """Serve check, estimate, model, plan ... as tools of the Model Context Protocol, over stdio.

    Needs npusim[mcp]. Example, in an agent's configuration: {"command": "npusim", "args": ["mcp"]}
    """
    from npusim.cli.mcp_tools import server
    from npusim.values.language import speak

    speak("en")  # as --json: programs read it
    server(allow_run=allow_run).run("stdio")
