"""Recommended counts keep their own rule in runs ten times as long, and one card fewer doesn't."""

from __future__ import annotations

import os
import runpy
from functools import cache
from typing import Any

import pytest

from support.paths import ROOT

NOT_ON_CI = pytest.mark.skipif("CI" in os.environ, reason="takes up to two minutes")


@cache
def recommendations() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "benchmarks" / "recommendations.py"))


def some(count: int, on_ci: set[int]) -> list[Any]:
    return [each if each in on_ci else pytest.param(each, marks=NOT_ON_CI) for each in range(count)]


@pytest.mark.slow
@pytest.mark.parametrize("which", some(5, on_ci={0, 2, 4}))
def test_networks(which: int) -> None:
    said, enough, too_many = recommendations()["network_keeps"](
        *recommendations()["network"](which)
    )
    assert (enough, too_many) == (True, False), said


@pytest.mark.slow
@pytest.mark.parametrize("which", some(5, on_ci={2, 3}))
def test_language_models(which: int) -> None:
    said, enough, too_many = recommendations()["llm_keeps"](which)
    assert (enough, too_many) == (True, False), said
