"""The numbers of every aclnn interface against references; check, estimate, run and C agree.

The suite makes a few calls of each; NPUSIM_REFERENCES=200 makes as many of each, and other ones.
C has one chip in a process, by default that of A2; NPUSIM_REFERENCES_CHIP=910 or 310P asks all
interfaces on that one, where those that it doesn't offer have to be refused with the same code.
"""

from __future__ import annotations

import os
import re
from functools import cache
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from npusim import Device
from support.capi import needs_capi, needs_cffi, workshop
from support.paths import TESTS
from support.references import rows, running
from support.references.calls import called, compare
from support.references.gaps import ELSEWHERE, GAPS, TABLES
from support.references.in_c import CLibrary

if TYPE_CHECKING:
    from support.references.row import Row

MANY = int(os.environ.get("NPUSIM_REFERENCES", "0"))
ONE = os.environ.get("NPUSIM_REFERENCES_CHIP", "")
CHIPS = {"A2": "Ascend910B3", "910": "Ascend910A", "310P": "Ascend310P3"}


@cache
def device(chip: str) -> Device:
    return Device(chip)


ROWS = [row for each in rows().values() for row in each]


@pytest.fixture(scope="session")  # a process loads it once
def library(tmp_path_factory: pytest.TempPathFactory) -> CLibrary | None:
    """The C functions on the chip that was asked for; none where they can't be built."""
    if needs_capi.args[0] or needs_cffi.args[0]:
        return None
    with pytest.MonkeyPatch.context() as patch:
        for name, text in workshop(tmp_path_factory).environment.items():
            patch.setenv(name, text)
        patch.setenv("NPUSIM_SOC", CHIPS[ONE or "A2"])
        return CLibrary()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.api)
def test_numbers_are_those_of_the_reference(row: Row, library: CLibrary | None) -> None:
    families = [ONE, *CHIPS] if ONE else [*CHIPS]
    family = next((each for each in families if row.api in running(each)), "A2")
    chip = ONE or family
    also = library if chip == (ONE or "A2") else None
    computed, refused = [], []

    @settings(
        max_examples=MANY or 2, derandomize=not MANY, deadline=None, database=None,
        suppress_health_check=list(HealthCheck), phases=tuple(Phase) if MANY else (Phase.generate,),
    )  # fmt: skip
    @given(st.data())
    def ask(data: st.DataObject) -> None:
        why = compare(called(row, data.draw, family), device(CHIPS[chip]), also)
        (refused if why else computed).append(why)
        known = any(gap in why for gap in GAPS.get(row.api, ()))
        assert "not modelled" not in why or known, why

    ask()
    assert computed or not refused or ONE, refused[0]


def test_what_runs_has_a_reference() -> None:
    here = TESTS
    tables = " ".join((here / file).read_text(encoding="utf-8") for file in TABLES)
    known = {*rows(), *(api for each in ELSEWHERE.values() for api in each)}
    known |= set(re.findall(r"aclnn\w+", tables))
    lacking = {api for family in CHIPS for api in running(family)} - known
    assert not lacking, sorted(lacking)


@pytest.mark.parametrize("file", ELSEWHERE)
def test_what_is_compared_elsewhere_is_there(file: str) -> None:
    text = (TESTS / file).read_text(encoding="utf-8")
    for api, said in ELSEWHERE[file].items():
        assert api not in rows()
        assert said in text, f"{file} doesn't call {said}"
