"""`npusim mcp`: npusim's questions as tools for agents and editors."""

from __future__ import annotations


def mcp() -> None:
    """Serve check, estimate, model, plan ... as tools of the Model Context Protocol, over stdio.

    Needs npusim[mcp]. Example, in an agent's configuration: {"command": "npusim", "args": ["mcp"]}
    """
    from npusim.cli.mcp_tools import server

    server().run("stdio")
