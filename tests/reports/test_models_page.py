"""reports/models.md is current, and what it says follows from the rates."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from support.paths import ROOT

REPORTS = ROOT / "reports"
SCRIPT = runpy.run_path(str(REPORTS / "models.py"), run_name="models")
PAGE = (REPORTS / "models.md").read_text(encoding="utf-8")
NAMES = ["resnet34", "tinybert_4l_312_s64", "vgg16", "squeezenet1_1"]


@pytest.fixture(scope="module")
def rates(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    folder = tmp_path_factory.mktemp("networks")
    asked = {f"{name}.onnx": SCRIPT["published"](f"{name}.onnx")[f"{name}.onnx"] for name in NAMES}
    SCRIPT["unpack"](folder, asked)
    return [rate for pair in asked.items() for rate in SCRIPT["simulated"](pair, folder)]


def test_lines_are_current(rates: list[Any]) -> None:
    for line in list(SCRIPT["_networks"](rates))[2:]:
        assert line in PAGE.splitlines(), "write anew: python reports/models.py"


def test_rates_follow_from_the_batch(rates: list[Any]) -> None:
    assert all(rate.device_us > 0 and rate.simulated > 0 for rate in rates)
    assert all(rate.share > 0.5 for rate in rates)
    assert SCRIPT["rank_correlation"](rates) > 0.8


def test_doubts_are_about_rates_that_are_counted(rates: list[Any]) -> None:
    doubts, named = SCRIPT["doubtful"](), SCRIPT["published"]()
    assert doubts
    assert {f"{network}.onnx" for network in doubts} <= set(named)
    assert not any(network in "\n".join(SCRIPT["_doubts"](rates)) for network in doubts)
    assert "without networks in doubt" in SCRIPT["page"](rates)


def test_other_chips_are_named_with_their_rows() -> None:
    text = SCRIPT["_others"]()
    assert "| Ascend310B1 | 46 | 10 | none, so not compared |" in text
    assert "| Ascend310P3 | 817 | 158 | there |" in text
    assert "* Ascend910A: 17 us" in text


def test_every_network_of_the_rates_is_there() -> None:
    named = set(SCRIPT["published"]())
    assert len(named) > 100
    missing = [name for name in named if f"| {Path(name).stem} |" not in PAGE]
    assert not missing


def test_bands_of_networks_are_what_their_rates_leave_over() -> None:
    bands = runpy.run_path(str(REPORTS / "network_bands.py"), run_name="network_bands")
    left = [
        bands["Left"](f"n{network}", 0.5 + network / 40 + batch / 100, 10.0 * batch)
        for network in range(41)
        for batch in (1, 8, 64)
    ]
    found = bands["bands"](left)
    assert found.held >= 0.8
    ends = [found.spread.at(each.operator_us, bands["SIZES_US"]) for each in left]
    inside = [low <= each.ratio <= high for each, (low, high) in zip(left, ends, strict=True)]
    assert 0.75 < sum(inside) / len(left) < 0.95
    far = [each._replace(ratio=9.0) if each.network == "n3" else each for each in left]
    assert bands["bands"](far).spread.high == pytest.approx(found.spread.high, rel=0.1)
