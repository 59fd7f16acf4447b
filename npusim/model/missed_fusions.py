"""Chains of tasks that one fused operator would do: ``missed_fusions.yaml`` lists them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from npusim.reading.files import read_text
from npusim.reading.markup import yaml_mapping


@dataclass(frozen=True)
class Fusion:
    """Tasks in a row, each by its alternatives, and the operator that does the work of all.

    ``call`` is what to write in a program instead; ``given`` and ``made`` are the tensors of the
    operator among those of the tasks, none where the table doesn't say.
    """

    fused: str
    call: str
    tasks: tuple[frozenset[str], ...]
    source: str
    given: tuple[str, ...] = ()
    made: tuple[str, ...] = ()


@cache
def fusions() -> tuple[Fusion, ...]:
    """All that we know, the longest first."""
    table = files("npusim.model") / "missed_fusions.yaml"
    rows: list[dict[str, Any]] = yaml_mapping(read_text(table), table.name)["fusions"]
    found = [
        Fusion(
            row["fused"],
            row["call"],
            _tasks(row["tasks"]),
            row["source"],
            tuple(row.get("given", ())),
            tuple(row.get("made", ())),
        )
        for row in rows
    ]
    return tuple(sorted(found, key=lambda each: -len(each.tasks)))


def missed(op_types: Sequence[str]) -> Iterator[tuple[int, Fusion]]:
    """Where chains begin in a sequence of tasks; no task belongs to two of them."""
    place = 0
    while place < len(op_types):
        found = next((each for each in fusions() if _begins(op_types, place, each)), None)
        if found is None:
            place += 1
        else:
            yield place, found
            place += len(found.tasks)


def _begins(op_types: Sequence[str], place: int, fusion: Fusion) -> bool:
    here = op_types[place : place + len(fusion.tasks)]
    return len(here) == len(fusion.tasks) and all(
        name in names for name, names in zip(here, fusion.tasks, strict=True)
    )


def _tasks(rows: Sequence[str]) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(row.split("|")) for row in rows)
