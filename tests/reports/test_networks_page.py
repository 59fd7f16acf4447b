"""The page of replayed training steps: it is current, and says which steps miss the bar."""

from __future__ import annotations

import importlib.util
import re
from typing import TYPE_CHECKING, Any

import pytest
from network_steps import training_steps

from support.paths import ROOT

if TYPE_CHECKING:
    from types import ModuleType

REPORTS = ROOT / "reports"
PAGE = (REPORTS / "networks.md").read_text(encoding="utf-8")
REMAKE = "remake it: python reports/networks.py > reports/networks.md"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("networks", REPORTS / "networks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows() -> dict[str, list[str]]:
    cells = (line.strip("| ").split(" | ") for line in PAGE.splitlines() if " | Ascend9" in line)
    return {row[0]: row for row in cells if len(row) == 9}


def test_every_measured_step_is_on_the_page(script: Any) -> None:
    steps = training_steps(script.TABLE)
    assert list(rows()) == [name.partition(" train step")[0] for name in steps]
    for name in steps:
        assert f"\n## {name}\n" in PAGE


def test_one_step_is_made_again_and_is_the_same(script: Any) -> None:
    name = "deepfm_16000 train step (MindSpore)"
    pair = script.replayed(name)
    assert script.line(name, *pair) in PAGE, REMAKE
    assert script.section(name, *pair) in PAGE, REMAKE


def test_totals_are_within_the_bar_but_for_those_that_are_named(script: Any) -> None:
    errors = {name: float(row[5].rstrip("%")) / 100 for name, row in rows().items()}
    missed = {name for name, error in errors.items() if abs(error) > script.BAR}
    # The one's products sum over 16,384 and ran with a tiling that other sizes of the network don't
    # have. The other came later than the schedules: half its error are gradients of convolutions.
    assert missed <= {"bert_128_32", "inceptionv3_16"}
    assert script.judgement(errors) in re.sub(r"\s+", " ", PAGE)
