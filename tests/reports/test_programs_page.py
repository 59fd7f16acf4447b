"""The page of kernels in C++ is what their rows say, in the order that was measured."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from support.paths import ROOT

if TYPE_CHECKING:
    import pytest


def test_the_page_shows_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "reports"))
    programs = importlib.import_module("programs")
    page = (ROOT / "reports" / "programs.md").read_text(encoding="utf-8")
    assert page == programs.page()
    steps = [programs.step_of(row) for row in programs.read("programs.csv") if row["simulated_us"]]
    right, pairs = programs.ordered(steps)
    assert right > 0.9 * pairs
