"""Recommended counts keep their own rule in runs ten times as long, and one card fewer doesn't.

Those of language models take minutes: `python benchmarks/recommendations.py` asks them, too.
"""

from __future__ import annotations

import runpy
from functools import cache
from typing import Any

import pytest

from support.paths import ROOT


@cache
def recommendations() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "benchmarks" / "recommendations.py"))


@pytest.mark.slow
@pytest.mark.parametrize("which", range(5))
def test_networks(which: int) -> None:
    said, enough, too_many = recommendations()["network_keeps"](
        *recommendations()["network"](which)
    )
    assert (enough, too_many) == (True, False), said
