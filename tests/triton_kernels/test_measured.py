"""Triton kernels against what others measured and reported; skipped without triton-ascend."""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median
from typing import Any

import pytest

pytest.importorskip("triton.backends.ascend")
pytest.importorskip("torch")

REPORTS = Path(__file__).parents[2] / "reports"


@pytest.fixture
def measuring(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(REPORTS))
    import triton_measured

    yield triton_measured
    sys.modules.pop("triton_measured", None)


def test_times_are_near_the_measured_ones_and_variants_in_order(measuring: Any) -> None:
    rows = list(measuring.measured())
    assert len(rows) >= 40
    assert median(abs(each.ratio - 1) for each in rows) < 0.2
    known = [each for each in rows if each.kernel == "swiglu"]  # whose division is known
    assert median(abs(each.ratio - 1) for each in known) < 0.1
    right, pairs = measuring.in_order(rows)
    assert right / pairs >= 0.85


def test_sizes_of_overflows_are_those_that_were_reported(measuring: Any) -> None:
    found = {each.kernel: each for each in measuring.overflows()}
    assert {name for name, each in found.items() if each.is_size} == {
        "add_48000",
        "move_state",
        "cast_80000",
    }
    assert found["add_48000"].verdict == "doesn't fit"
    assert found["move_state"].verdict == "depends on the closed part of the compiler"
