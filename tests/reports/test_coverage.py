"""How much of the catalogue runs is counted from the definitions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from npusim.catalogue.facts import catalogue
from npusim.hardware.families import FAMILIES
from npusim.operators.coverage import Depth, counted, covered
from npusim.operators.registry import has_contract, prototype
from npusim.reading.tables import table_in
from npusim.reporting.coverage import COMMAND, PROGRAMS, coverage_page
from support.commands import npusim
from support.paths import ROOT

if TYPE_CHECKING:
    import pytest


def test_every_interface_of_a_page_is_counted_once() -> None:
    rows = list(covered(["A2"]))
    listed = [
        api
        for api in sorted(catalogue().paged_apis)
        if (page := catalogue().page(api, "A2")) and page.supported == "yes"
    ]
    assert [row.api for row in rows] == listed
    assert sum(count.total() for count in counted(rows, "folder").values()) == len(rows)


def test_what_runs_has_a_definition_and_what_doesnt_has_a_reason() -> None:
    rows = {row.api: row for row in covered(["A2"])}
    assert rows["aclnnAdd"].depth is Depth.KERNEL
    for row in rows.values():
        defined = has_contract(row.api) or prototype(row.api) is not None
        assert defined == (row.depth is not Depth.CHECKED), row.api
        assert bool(row.why) == (row.depth is Depth.CHECKED), row.api
        assert not row.only or row.depth is not Depth.CHECKED, row.api
    assert rows["aclnnQuantMatmulV5"].only == "groupSize = 0"


def test_nothing_runs_on_a_family_without_a_profile() -> None:
    rows = list(covered(["950"]))
    assert {row.depth for row in rows} == {Depth.CHECKED}
    assert {row.why for row in rows} == {"no chip of 950 is here"}


def test_the_page_names_what_doesnt_run_and_is_of_today() -> None:
    rows = list(covered(tuple(FAMILIES)))
    kept = ROOT / "reports"
    with table_in(kept.parent / PROGRAMS) as table:
        programs = [row for _, row in table.records()]
    page = coverage_page(rows, programs)
    lacking = [row for row in rows if row.depth is Depth.CHECKED and row.family == "A2"]
    assert all(f"{row.api}: {row.why}" in page for row in lacking)
    lost = [row for row in programs if row["product"] == "Ascend910B3" and row["interface"]]
    assert lost
    assert all(f"({row['program']}): {row['reason']}" in page for row in lost)
    assert page == (kept / "aclnn.md").read_text(encoding="utf-8"), f"`{COMMAND}` makes another"


def test_a_table_that_is_none_of_programs_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    said = npusim(capsys, f"ops coverage --programs {tmp_path / 'x.csv'} -o {tmp_path / 'y.md'}")
    assert said.code
    assert "has no column 'interface'" in said.err


def test_the_command_counts_for_a_product(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(npusim(capsys, "ops coverage -s 310P3 --json").out)
    assert {each["family"] for each in found} == {"310P"}
    assert any(each["runs"] == "numbers and time" for each in found)
    assert "310P" in npusim(capsys, "ops coverage -s 310P3").out
