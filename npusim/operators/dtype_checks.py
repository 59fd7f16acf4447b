"""Which dtypes of a call go together, where a page lists the combinations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from npusim.operators.checks import invalid

if TYPE_CHECKING:
    from npusim.operators.contract import Call, Check, Finding

_NULL = "-"


def together(*names: str, rows: Mapping[str, Sequence[str]]) -> Check:
    """161002 for tensors whose dtypes are no row of the product family's table.

    A row has a word for each of `names`: dtypes with ``/`` between them, ``-`` for a null pointer,
    ``*`` for anything. A family without a table isn't asked, nor a result that is left out.
    """
    tables = {
        family: [[frozenset(word.split("/")) for word in row.split()] for row in listed]
        for family, listed in rows.items()
    }

    def test(call: Call) -> Finding:
        table = tables.get(call.profile.family)
        if table is None:
            return None
        outputs = {each.name for each in call.contract.outputs}
        given = {name: spec.dtype.name for name, spec in call.given(*names)}
        found = [
            given.get(name, "*" if name in outputs and not call.is_null(name) else _NULL)
            for name in names
        ]
        wrong = [
            [place for place, got in enumerate(found) if not _allowed(got, row[place])]
            for row in table
        ]
        best = min(range(len(table)), key=lambda row: len(wrong[row]))
        if not wrong[best]:
            return None
        listed = ", ".join(f"{names[n]} {_said(found[n])}" for n in range(len(names)))
        needs = ", ".join(f"{names[n]} {_listed(table[best][n])}" for n in wrong[best])
        return f"The dtypes {listed} don't go together on {call.profile.name}: {needs} would.", ""

    return invalid(f"the dtypes of {', '.join(names)} don't go together", test)


def _allowed(got: str, wanted: frozenset[str]) -> bool:
    return "*" in wanted or got == "*" or got in wanted


def _said(got: str) -> str:
    return {_NULL: "null", "*": "left out"}.get(got, got)


def _listed(wanted: frozenset[str]) -> str:
    return " or ".join(sorted(map(_said, wanted)))
