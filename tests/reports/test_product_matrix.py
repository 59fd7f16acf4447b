"""reports/product_matrix.md says what the simulator says; `python reports/product_matrix.py`."""

from __future__ import annotations

import runpy

import pytest

from npusim.hardware import profile_names
from npusim.operators.registry import operator, operators
from support.paths import ROOT

REPORTS = ROOT / "reports"
MADE_BY = "python reports/product_matrix.py"
SCRIPT = runpy.run_path(str(REPORTS / "product_matrix.py"), run_name="product_matrix")
PAGE = (REPORTS / "product_matrix.md").read_text(encoding="utf-8")


def sections() -> dict[str, list[str]]:
    """The lines below each heading of the page."""
    parts = PAGE.split("\n## ")
    return {part.splitlines()[0]: part.splitlines()[1:] for part in parts[1:]}


def test_every_operator_with_a_typical_call_has_its_table() -> None:
    assert MADE_BY in PAGE
    assert list(sections()) == [name for name in operators() if operator(name).typical is not None]


@pytest.mark.parametrize("op", sections())
def test_a_table_has_a_line_for_every_chip(op: str) -> None:
    lines = [line for line in sections()[op] if line.startswith("| Ascend")]
    assert [line.split()[1] for line in lines] == list(profile_names())
    assert f"One call: {operator(op).typical.words}." in sections()[op]


@pytest.mark.parametrize("soc", profile_names())
def test_the_page_is_current(soc: str) -> None:
    """A chip's lines are those that the script would write now."""
    for op, lines in sections().items():
        [printed] = [line for line in lines if line.startswith(f"| {soc} |")]
        assert printed == SCRIPT["row"](soc, op, operator(op).typical), f"write anew: {MADE_BY}"
