"""What the command line does, from Python: sweeps, pages, traces, validation, how they show."""

from __future__ import annotations

import csv
import gzip
import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import npusim
from npusim import TensorSpec
from npusim.values.errors import ArgumentError, FileError, OutputExistsError, UsageError
from support.paths import ROOT

ADD = {"self": TensorSpec((512, 512), "float16"), "other": TensorSpec((512, 512), "float16")}
SWEEP = {
    "products": ["Ascend910B3", "Ascend310P3"],
    "axes": {"N": [64, 4096]},
    "calls": [
        {"op": "aclnnRelu", "arguments": {"self": "fp16[{N},64]"}},
        {"op": "aclnnRelu", "arguments": {"self": "bf16[{N},64]"}},
    ],
}


@pytest.fixture(scope="module")
def result() -> npusim.Result:
    return npusim.Device("Ascend910B3").estimate("aclnnAdd", alpha=1, **ADD)


@pytest.fixture(scope="module")
def swept() -> object:
    return npusim.sweep(SWEEP)


def test_a_sweep_answers_every_point_in_order(swept) -> None:
    assert [row["index"] for row in swept.rows] == list(range(8))
    assert [row["status"] for row in swept.rows].count("rejected") == 2  # bfloat16 on 310P
    again = npusim.Device("Ascend910B3").estimate("aclnnRelu", self=TensorSpec((64, 64), "float16"))
    assert swept.rows[0]["duration_us"] == again.duration_us
    assert repr(swept) == "<SweepResult of 8 points over N: 6 ok, 2 rejected>"


def test_a_sweep_in_a_file_is_the_same_and_goes_on(swept, tmp_path) -> None:
    file = tmp_path / "rows.jsonl"
    half = {**SWEEP, "calls": SWEEP["calls"][:1]}
    npusim.sweep(half, path=file)
    with pytest.raises(OutputExistsError):
        npusim.sweep(SWEEP, path=file)
    heard = []
    found = npusim.sweep(SWEEP, path=file, resume=True, progress=lambda *at: heard.append(at))
    assert heard == [(done, 8) for done in range(5, 9)]
    keys = [row["key"] for row in swept.rows]
    assert [row["key"] for row in found.rows] == keys
    assert [json.loads(line)["key"] for line in file.read_text().splitlines()] == keys


def test_a_wrong_sweep_says_where() -> None:
    with pytest.raises(FileError, match=r"the sweep.*calls\.0\.op"):
        npusim.sweep({**SWEEP, "calls": [{"op": "aclnnRelo", "arguments": {"self": "fp16[2]"}}]})


def test_pages_of_results(result, tmp_path) -> None:
    other = npusim.Device("310p3").estimate("aclnnAdd", alpha=1, **ADD)
    page = npusim.report([result, other], tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Ascend910B3" in page
    assert "Ascend310P3" in page
    assert "Do it again" not in page  # no command line made it
    with pytest.raises(OutputExistsError):
        npusim.report(result, tmp_path / "page.html")
    with pytest.raises(ArgumentError, match=r"page\.pdf"):
        npusim.report(result, tmp_path / "page.pdf")
    with pytest.raises(UsageError):
        npusim.report([], tmp_path / "empty.md")


def test_pages_against_earlier_results_and_of_steps(result, tmp_path) -> None:
    smaller = {**ADD, "self": TensorSpec((256, 512), "float16")}
    smaller["other"] = smaller["self"]
    earlier = npusim.Device("Ascend910B3").estimate("aclnnAdd", alpha=1, **smaller)
    page = npusim.report(result, tmp_path / "page.md", against=earlier).read_text(encoding="utf-8")
    assert "Against before: " in page
    assert "Other arguments" not in page  # which results don't keep
    model = npusim.Model.read(ROOT / "examples" / "model.yaml")
    step, slow = model.estimate("910b3"), model.estimate("310p3")
    page = npusim.report([step, slow], tmp_path / "step.md", against=step).read_text()
    assert "how fast, on which product" in page  # what `npusim report model.yaml` writes
    assert "Against before: as fast as before on Ascend910B3." in page
    with pytest.raises(FileError, match="of a model, and the page is of a call"):
        npusim.report(result, tmp_path / "wrong.md", against=step)
    kept = tmp_path / "old.json"
    kept.write_text("{}")
    with pytest.raises(FileError, match=r"old\.json"):
        npusim.report(result, tmp_path / "wrong.md", against=kept)
    assert not (tmp_path / "wrong.md").exists()


def test_a_trace_says_what_it_wrote(result, tmp_path) -> None:
    written = npusim.trace(result, tmp_path / "trace.json", cores=[0])
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    first = [name for name in result.timeline.cores if name.startswith("core0.")]
    assert written.slices == result.timeline.count(first) > 0
    assert sum(event["ph"] == "X" for event in events) >= written.slices


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> Path:
    """Forty of the shipped rows."""
    source = ROOT / "reports" / "data" / "measured_ops.csv.gz"
    file = tmp_path_factory.mktemp("rows") / "rows.csv"
    with gzip.open(source, "rt", encoding="utf-8", newline="") as stream:
        lines = [line for _, line in zip(range(41), csv.reader(stream), strict=False)]
    with file.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows(lines)
    return file


def test_validation_counts_what_it_replays(table) -> None:
    found = npusim.validate(table)
    assert len(found.predictions) == found.overall.rows == 40
    assert sum(each.rows for each in found.by_chip.values()) == 40
    assert found.overall.modelled + sum(found.not_modelled.values()) == 40
    assert repr(found).startswith("<Validation of 40 rows: ")
    assert npusim.validate(table, chips=["no such chip"]).overall.rows == 0


def test_frames_have_a_row_each(monkeypatch, result, swept, table) -> None:
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "pandas", None)
        with pytest.raises(UsageError, match="pandas"):
            result.to_frame()
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=list))
    assert [row["task"] for row in result.to_frame()] == [task.name for task in result.tasks]
    rows = swept.to_frame()
    assert [row["axis_N"] for row in rows] == [row["axes"]["N"] for row in swept.rows]
    assert len({tuple(row) for row in rows}) == 1
    assert len(npusim.validate(table, chips=["910 gen1"]).to_frame()) <= 40


def test_notebooks_get_a_small_table(result, swept) -> None:
    shown = result._repr_html_()
    assert shown.count("<tr>") == len(result.tasks) + 1
    assert "Ascend910B3" in shown
    assert "&lt;script" in type(swept)(({**swept.rows[0], "op": "<script>"},), ("N",))._repr_html_()


def test_figures_are_the_callers_axes(result) -> None:
    from matplotlib.figure import Figure

    left, right = Figure().subplots(1, 2)
    assert result.plot_timeline(ax=left) is left
    assert left.get_xlim() == pytest.approx((0, result.duration_us))
    lanes = [label.get_text() for label in left.get_yticklabels()]
    assert any("MTE2" in label for label in lanes)
    assert result.plot_roofline(ax=right) is right
    placeholders = re.compile("#0(10101|20202|30303|40404|a0a0)")
    for axes in (left, right):
        for line in axes.lines:
            assert not placeholders.match(str(line.get_color()))
    nothing = npusim.Device("910b3").estimate("aclnnRelu", self=TensorSpec((0, 4), "float16"))
    with pytest.raises(UsageError, match="nothing"):
        nothing.plot_timeline()
