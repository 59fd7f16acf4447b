"""Of the interfaces that frameworks call most every rule is checked, or a table says what isn't."""

from __future__ import annotations

import csv

import pytest

from npusim.operators.resolve import resolve
from npusim.values.errors import UnknownNameError
from support.paths import ROOT

TABLES = ROOT / "reports" / "data"
MOST = 120


def rows(name: str) -> list[dict[str, str]]:
    with (TABLES / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


CALLED = [row["interface"] for row in rows("called_interfaces.csv")][:MOST]
MISSING = {row["interface"]: row["missing"] for row in rows("rules_missing.csv")}


@pytest.mark.parametrize("name", CALLED)
def test_its_rules_are_checked_or_it_says_which_arent(name: str) -> None:
    try:
        rules = resolve(name, {}).rules_source
    except UnknownNameError:
        rules = ""
    assert bool(rules) != bool(MISSING.get(name)), rules


def test_nothing_else_is_missing() -> None:
    assert set(MISSING) <= set(CALLED)
    assert len(CALLED) == MOST
