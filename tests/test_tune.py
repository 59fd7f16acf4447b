"""Variants ranked by time: constants and parameters of programs, and whatever can be called."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import npusim
from npusim.pyasc.tuning import tune
from npusim.values.errors import ArgumentError, RejectedError, UnknownNameError
from support.commands import npusim as command

PROGRAM = Path(__file__).parent / "data" / "pyasc" / "scaled_sum.py"
SIZE = ["--elements", str(1 << 19)]


def test_constants_and_parameters_are_ranked_and_refusals_come_last() -> None:
    device = npusim.Device("Ascend910B3")
    given = {"TILES": [2, 8, 64], "DEPTH": [1, 2]}
    ranked = tune(str(PROGRAM), SIZE, device, given)
    assert len(ranked) == 6
    assert [each.runs for each in ranked] == [True] * 4 + [False] * 2
    assert ranked[0].name == "TILES=8 DEPTH=2"
    times = [each.duration_us for each in ranked]
    assert times == sorted(times)
    assert "needs" in ranked[-1].refusal
    slots = tune(str(PROGRAM), SIZE, device, {"tile": [1024, 4096]})
    assert slots[0].name == "tile=4096"


def test_a_name_that_is_nothing_of_the_program_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="TILLES"):
        tune(str(PROGRAM), SIZE, npusim.Device("Ascend910B3"), {"TILLES": [1]})


def test_the_verb_prints_a_table_and_writes_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "ranked.json"
    line = f"tune {PROGRAM} -s 910b3 --param TILES=8,16 --top 1 --json {file}"
    done = command(capsys, line)
    assert done.code == 0
    assert "TILES=8" in done.out
    assert "TILES=16" not in done.out
    assert [each["variant"] for each in json.loads(file.read_text())] == ["TILES=8", "TILES=16"]


def test_whatever_can_be_called_is_ranked() -> None:
    def refused() -> float:
        raise RejectedError("no")

    found = npusim.rank({"slow": lambda: 3.0, "never": refused, "fast": lambda: 2})
    assert [each.name for each in found] == ["fast", "slow", "never"]
    assert found[-1].refusal == "no"
    assert [each.name for each in npusim.rank({"a": lambda: 1.0, "b": lambda: 2.0}, top=1)] == ["a"]
    with pytest.raises(ArgumentError, match="top=0"):
        npusim.rank({}, top=0)
