"""Recommended counts keep their own rule in runs ten times as long, and one card fewer doesn't."""

from __future__ import annotations

import os
import runpy
from functools import cache
from typing import Any

import pytest

from support.paths import ROOT

NOT_ON_CI = pytest.mark.skipif("CI" in os.environ, reason="takes a minute or two")


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


@pytest.mark.slow
@pytest.mark.parametrize(
    "which", [0, pytest.param(1, marks=NOT_ON_CI), 2, 3, pytest.param(4, marks=NOT_ON_CI)]
)
def test_language_models(which: int) -> None:
    said, enough, too_many = recommendations()["llm_keeps"](which)
    assert (enough, too_many) == (True, False), said
