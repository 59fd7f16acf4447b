"""What the graph compiler does to a network, pass by pass: ``passes.yaml`` says which and where.

A pass is a module with ``run(network, target) -> int`` (how often it applied) and a row of the
table.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from npusim.reading.files import read_text
from npusim.reading.markup import yaml_mapping
from npusim.values.errors import UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from npusim.graph.network import Network
    from npusim.graph.target import Target


@dataclass(frozen=True)
class Pass:
    """A pass by its name: what it does, for which product families, and who says so."""

    name: str
    module: str
    what: str
    families: tuple[str, ...]
    source: str

    def run(self, network: Network, target: Target) -> int:
        """Apply it; returns how often it did something."""
        found: int = import_module(f"{__name__}.{self.module}").run(network, target)
        return found


@cache
def passes() -> tuple[Pass, ...]:
    """All passes in the order in which they run."""
    table = files(__name__) / "passes.yaml"
    rows: list[dict[str, Any]] = yaml_mapping(read_text(table), "passes.yaml")["passes"]
    return tuple(
        Pass(row["name"], row["module"], row["what"], tuple(row["families"]), row["source"])
        for row in rows
    )


def chosen(target: Target) -> Iterator[Pass]:
    """The passes for a target; UnknownNameError for one that it switches off and isn't there."""
    for name in target.off - {each.name for each in passes()}:
        raise UnknownNameError("pass", name, [each.name for each in passes()])
    for each in passes():
        if target.family in each.families and each.name not in target.off:
            yield each
