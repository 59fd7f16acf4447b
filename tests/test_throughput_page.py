"""reports/throughput.md is current, and published throughput lies where the page says it does."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

REPORTS = Path(__file__).parent.parent / "reports"
SCRIPT = runpy.run_path(str(REPORTS / "throughput.py"), run_name="throughput")
PAGE = (REPORTS / "throughput.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("published", SCRIPT["PUBLISHED"])
def test_a_line_is_current(published: Any) -> None:
    assert SCRIPT["row"](published) in PAGE.splitlines(), "write anew: python reports/throughput.py"


def test_published_throughput_lies_between_all_kernels_and_the_products_alone() -> None:
    lines = [line.split(" | ") for line in PAGE.splitlines() if line.startswith(("| r", "| B"))]
    assert len(lines) == len(SCRIPT["PUBLISHED"])
    for line in lines:
        everything, published, products = map(float, line[3:6])
        assert everything < published < products, line
