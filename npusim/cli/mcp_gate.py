"""What a tool of `npusim mcp` is asked with, before it runs: an error says what to ask instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from npusim.values.suggest import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp.server.mcpserver import MCPServer


def gated(base: type[MCPServer]) -> type[MCPServer]:
    """The server of the SDK with sentences of ours for a call that doesn't fit its tool."""

    class Gated(base):  # type: ignore[misc]
        async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
            from mcp.server.mcpserver.exceptions import ToolError

            tools = {tool.name: tool.input_schema for tool in await self.list_tools()}
            if problem := misfit(name, arguments, tools):
                raise ToolError(problem)
            try:
                return await super().call_tool(name, arguments, context)
            except ToolError as error:
                if isinstance(error.__cause__, ValidationError):
                    raise ToolError(wrong_kind(name, error.__cause__, tools[name])) from None
                raise

    return Gated


def misfit(name: str, given: Mapping[str, Any], tools: Mapping[str, Mapping[str, Any]]) -> str:
    """What is wrong with the names in a call, and what to write; empty where nothing is."""
    if name not in tools:
        hint = did_you_mean(name, tools) or f"There are {', '.join(tools)}."
        return f"there is no tool {name!r}. {hint}"
    takes = tools[name].get("properties", {})
    if unknown := [each for each in given if each not in takes]:
        hint = did_you_mean(unknown[0], takes) or f"It takes {', '.join(takes)}."
        return f"{name} has no argument {unknown[0]!r}. {hint}"
    if missing := [each for each in tools[name].get("required", ()) if each not in given]:
        told = "; ".join(_about(each, takes[each]) for each in missing)
        return f"{name} needs {' and '.join(missing)} as well. Give {told}."
    return ""


def wrong_kind(name: str, error: ValidationError, schema: Mapping[str, Any]) -> str:
    """Which argument has a value of the wrong kind, and what it takes."""
    argument = str(error.errors()[0]["loc"][0])
    value = error.errors()[0]["input"]
    about = _about(argument, schema.get("properties", {}).get(argument, {}))
    return f"{name}: {argument} can't be {str(value)[:80]!r}. Give {about}."


def _about(name: str, takes: Mapping[str, Any]) -> str:
    """An argument and what it is, as the tool's schema has it."""
    branches = [takes, *takes.get("anyOf", ())]
    said = next((each["description"] for each in branches if "description" in each), "")
    kinds = [str(each["type"]) for each in branches if each.get("type", "null") != "null"]
    return f"{name}: {said or ' or '.join(kinds)}"
