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

if TYPE_CHECKING:
    from collections.abc import Iterator

    from npusim.graph.network import Network
    from npusim.graph.target import Target


@dataclass(frozen=True)
class Pass:
    """A pass by its name: what it does, for which product families, and who says so.

    One that `fuses` makes one operator of several; its name says so, as the vendor's do.
    """

    name: str
    module: str
    what: str
    families: tuple[str, ...]
    source: str
    fuses: bool

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
        Pass(
            row["name"],
            row["module"],
            row["what"],
            tuple(row["families"]),
            row["source"],
            row["name"].endswith("FusionPass"),
        )
        for row in rows
    )


def chosen(target: Target) -> Iterator[Pass]:
    """The passes for a target, without those that it switches off."""
    for each in passes():
        if target.family in each.families and each.name not in target.off:
            yield each
