"""Recommended counts keep their own rule in runs ten times as long, and one card fewer doesn't."""

from __future__ import annotations

import runpy
from functools import cache
from typing import Any

import pytest

from support.paths import ROOT

# Fleets of cards that read and of cards that answer are confirmed by three seeds of runs that are
# no longer, all of which have to be in time: for Qwen2.5-7B on Atlas 800I A2 one fewer does.
LESS_DOES = pytest.mark.xfail(reason="one fewer keeps the rule in a long run", strict=True)


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
@pytest.mark.parametrize("which", [0, 1, pytest.param(2, marks=LESS_DOES), 3, 4])
def test_language_models(which: int) -> None:
    said, enough, too_many = recommendations()["llm_keeps"](which)
    assert (enough, too_many) == (True, False), said
