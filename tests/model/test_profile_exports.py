"""npusim's own export judged by npusim: every row has the model's time, only faults are found."""

from __future__ import annotations

import csv
import io
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from npusim.hardware import load_profile
from npusim.model.calibrating import calibrate
from npusim.model.findings import Oddity, findings
from npusim.model.graph_model import Compilation
from npusim.model.judging import Comparison, judge
from npusim.model.reading import read_model
from npusim.model.reasons import Kind, Reasons
from npusim.model.retiming import retime
from npusim.reporting.msprof.step import step_tasks
from npusim.reporting.msprof.summary import op_summary
from npusim.validation.fitting import value_of, with_values
from support.commands import npusim
from support.paths import ROOT

if TYPE_CHECKING:
    from npusim.model.results import StepResult

pytest.importorskip("onnx")

RESNET = ROOT / "examples" / "resnet50.onnx"
SOC = "Ascend910B3"
TIME = "Task Duration(us)"


@lru_cache
def timed(soc: str = SOC, batch: int = 8, *, fuse: bool = True) -> StepResult:
    chip = load_profile(soc)
    return retime(read_model(RESNET, how=Compilation(fuse=fuse)).at(batch, chip), chip)


def export(path: Path, result: StepResult) -> Path:
    path.write_text(op_summary(step_tasks(result), result.profile), encoding="utf-8")
    return path


def scattered(path: Path, result: StepResult, times: dict[int, float], seed: int) -> Path:
    """The export with 8 % of noise, and some rows so many times as long."""
    rows = list(csv.reader(io.StringIO(op_summary(step_tasks(result), result.profile))))
    place, noise = rows[0].index(TIME), np.random.default_rng(seed)
    for number, row in enumerate(rows[1:]):
        row[place] = str(float(row[place]) * noise.normal(1.0, 0.08) * times.get(number, 1.0))
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows(rows)
    return path


def unusual(found: Comparison) -> dict[int, Kind]:
    reasons = Reasons(found)
    return {each.kernel.line - 2: reasons.of(each).kind for each in found.unusual}


@pytest.mark.parametrize("batch", [1, 8])
def test_every_row_of_an_export_has_the_time_of_the_model(batch: int, tmp_path: Path) -> None:
    model = timed(batch=batch)
    profile = retime(read_model(export(tmp_path / "p.csv", model)).at(), SOC)
    judged = judge(tmp_path / "p.csv", SOC).launches
    for mine, theirs, launch in zip(model.items, profile.items, judged, strict=True):
        assert theirs.timing.duration_us == pytest.approx(mine.timing.duration_us, rel=0.01)
        assert launch.timed.timing.duration_us == theirs.timing.duration_us


def test_an_export_has_nothing_unusual(tmp_path: Path) -> None:
    found = judge(export(tmp_path / "p.csv", timed()), SOC)
    assert not found.unusual
    assert not found.overestimated
    assert not findings(found)
    assert found.compared == len(found.launches)
    assert not any(each.is_unusual for each in found.classes)


@pytest.mark.parametrize("seed", range(3))
def test_slow_rows_in_noise_are_found_and_no_others(seed: int, tmp_path: Path) -> None:
    times = {20: 4.0, 60: 4.0, 90: 2.0} if seed else {}
    found = unusual(judge(scattered(tmp_path / "p.csv", timed(), times, seed), SOC))
    assert set(found) == set(times)
    assert Kind.COLD_START not in found.values()


def test_what_a_fusion_would_save_is_what_the_compiler_saves(tmp_path: Path) -> None:
    apart, together = (timed("Ascend310P3", fuse=fuse) for fuse in (False, True))
    found = [
        each
        for each in findings(judge(export(tmp_path / "p.csv", apart), "Ascend310P3"))
        if each.kind is Oddity.FUSION
    ]
    assert {each.text.partition(":")[0] for each in found} == {
        "16 Add and Relu behind Conv2D", "33 Relu behind Conv2D",
    }  # fmt: skip
    saved_us = sum(each.saved_us or 0.0 for each in found)
    assert saved_us == pytest.approx(apart.device_us - together.device_us, rel=0.1)
    assert not [
        each
        for each in findings(judge(export(tmp_path / "q.csv", together), "Ascend310P3"))
        if each.kind is Oddity.FUSION
    ]


@pytest.mark.parametrize(
    ("key", "factor"),
    [
        ("", 1.0),
        ("memory.l2_sustained_fraction", 0.75),
        pytest.param("launch.base_us", 2.2, marks=pytest.mark.slow),
    ],
)
def test_a_constant_moves_where_rows_left_out_decide_it(
    key: str, factor: float, tmp_path: Path
) -> None:
    """On the chip's own times nothing moves; of a changed constant, that one moves alone."""
    chip = load_profile(SOC)
    truth = with_values(chip, {key: factor * value_of(chip, key)}) if key else chip
    result = retime(read_model(RESNET).at(8, chip), truth)
    found = calibrate(scattered(tmp_path / "p.csv", result, {}, 2), SOC)
    assert set(found.moved) == ({key} if key else set())
    if key:
        assert found.holds
        assert found.moved[key] == pytest.approx(value_of(truth, key), rel=0.15)
    for each in found.constants:
        if each.gain is not None:
            assert each.gain.decides == (each.key == key)


def test_two_profiles_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = export(tmp_path / "before.csv", timed("Ascend310P3", fuse=False))
    after = export(tmp_path / "after.csv", timed("Ascend310P3", fuse=True))
    told = npusim(capsys, "judge -s 310p3 --json", after, "--against", before).json["changes"]
    assert told["against"] == "before"
    total = sum(each["us"] for each in told["operators"])
    assert total == pytest.approx(told["after_us"] - told["before_us"])
    assert total < 0
    by_op = {each["op"]: each for each in told["operators"]}
    assert by_op["Add"]["change"] == "gone"
    assert by_op["FusionOp_Conv2D_Relu"]["change"] == "new"
    assert by_op["Conv2D"]["change"] == "less_often"
    sizes = [abs(each["us"]) for each in told["kernels"]]
    assert sizes == sorted(sizes, reverse=True)
    assert "became" in npusim(capsys, "judge -s 310p3", after, "--against", before).out
    same = npusim(capsys, "judge -s 310p3 --json", after, "--against", after).json["changes"]
    assert {each["change"] for each in same["kernels"]} == {"same"}
    assert npusim(capsys, "judge -s 310p3", after, "--against", tmp_path / "none.csv").code == 2


def test_a_page_of_a_profile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = scattered(tmp_path / "p.csv", timed(), {60: 4.0}, 1)
    page = tmp_path / "page.html"
    said = npusim(capsys, "judge -s 910b3", file, "--html", page)
    assert said.code == 0, said.err
    text = page.read_text(encoding="utf-8")
    assert "longer than usual" in text
    assert text.count("<svg") >= 2
    assert "npusim judge p.csv -s Ascend910B3 --html page.html" in text
    assert npusim(capsys, "judge -s 910b3", file, "--html", page).code == 2
