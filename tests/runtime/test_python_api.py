"""What the command line does, from Python: the same numbers, the same refusals."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import npusim
from npusim.values.errors import ArgumentError, FileError, UnknownNameError, UsageError
from support.commands import npusim as command

CALLS = """
name: Two operators
variables: {C: 64}
calls:
  - op: Add
    inputs: ["fp16[{B},{C},64]", "fp16[{B},{C},64]"]
    outputs: ["fp16[{B},{C},64]"]
  - op: Relu
    count: 3
    inputs: ["fp16[{B},{C},64]"]
    outputs: ["fp16[{B},{C},64]"]
"""


@pytest.fixture
def calls(tmp_path: Path) -> Path:
    file = tmp_path / "two.yaml"
    file.write_text(CALLS, encoding="utf-8")
    return file


def test_a_model_is_timed_as_by_the_command(
    calls: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = npusim.Model.read(calls)
    assert repr(model) == "<Model Two operators, batch 1>"
    found = model.estimate("910b3", batch=8)
    (told,) = command(capsys, "model -s 910b3 --batch 8 --json", calls).json["answers"]
    assert found.duration_us == told["duration_us"]
    assert found.band_us == tuple(told["band_us"])
    assert found.items_per_s == told["items_per_s"]
    assert repr(found).startswith("<StepResult Two operators on Ascend910B3: ")
    assert len(repr(found)) < 120
    device = npusim.Device("910b3")
    assert model.estimate(device, batch=8).duration_us == found.duration_us
    assert model.estimate(device, host_dispatch_us=30.0).duration_us > 120.0


def test_what_is_no_model_is_refused(calls: Path, tmp_path: Path) -> None:
    with pytest.raises(FileError):
        npusim.Model.read(tmp_path / "none.onnx")
    with pytest.raises(UsageError, match="only networks are compiled"):
        npusim.Model.read(calls, fuse=False)
    with pytest.raises(UnknownNameError):
        npusim.Model.read(calls).estimate("910z")
    with pytest.raises(ArgumentError, match="batch"):
        npusim.Model.read(calls).estimate("910b3", batch=0)


def test_operators_become_a_frame(calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = npusim.Model.read(calls).estimate("910b3")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match="needs pandas"):
        found.to_frame()
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=list))
    rows = found.to_frame()
    assert [row["op"] for row in rows] == ["Add", "Relu"]
    total_us = sum(row["count"] * row["each_us"] for row in rows)
    assert total_us == pytest.approx(found.device_us)


def test_a_recommendation_is_that_of_the_command(
    calls: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = {"rate_per_s": 5_000.0, "limit_ms": 2.0, "products": ["Atlas 300I Pro"]}
    found = npusim.recommend(calls, **asked)
    told = command(capsys, "recommend --rate 5000 --slo 2 --json -s", "Atlas 300I Pro", calls).json
    assert found.products[0].count is not None
    assert told["products"][0]["cards"]["installed"] == found.products[0].count.installed
    assert repr(found).startswith("<PlanResult Recommendation for two: Atlas 300I Pro ")


def test_a_plan_is_a_file_or_what_it_says(calls: Path) -> None:
    says = {
        "title": "Two",
        "workload": {
            "models": [{"name": "two", "reference": calls.name}],
            "peak_requests_per_s": 2_000,
        },
        "objective": {"quantile": "p99", "limit_ms": 2},
        "fleet": {"products": ["Atlas 300I Pro"]},
    }
    first = npusim.plan(says, folder=calls.parent, seed=3)
    assert first.plan.simulation.seed == 3
    file = calls.with_name("plan.yaml")
    import yaml

    file.write_text(yaml.safe_dump(says), encoding="utf-8")
    second = npusim.plan(file, seed=3)
    assert second.products[0].count == first.products[0].count
    with pytest.raises(ArgumentError):
        npusim.plan({"title": "nothing"})


def test_a_result_says_itself_in_a_line() -> None:
    spec = npusim.TensorSpec((8, 1024), "float16")
    found = npusim.Device("910b3").estimate("Add", x1=spec, x2=spec)
    assert repr(found).startswith("<Result Add on Ascend910B3: ")
    assert repr(found).endswith("estimate>")
    assert len(repr(found)) < 120
