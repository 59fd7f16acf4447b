"""Rows of a profile have no attributes: what shapes tell is taken, a range, or no price at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from npusim.hardware import load_profile
from npusim.model.findings import Oddity, findings
from npusim.model.judging import judge
from npusim.model.reading import read_model
from npusim.model.records import reading_of
from npusim.model.results import How
from npusim.model.retiming import retime
from npusim.operators.tasks import TaskSpec
from npusim.values.tensors import TensorSpec
from support.commands import npusim
from support.profile_rows import ADD, ON_CPU, Row, at_estimate, write

SOC = "Ascend910B4"


def task(op: str, *shapes: tuple[int, ...], out: tuple[int, ...], dtype: str = "fp16") -> TaskSpec:
    return TaskSpec(
        op, tuple(TensorSpec(each, dtype) for each in shapes), (TensorSpec(out, dtype),)
    )


@pytest.mark.parametrize(
    ("before", "after", "window", "stride", "pad"),
    [
        ((112, 112), (56, 56), 3, 2, 1),
        ((7, 7), (1, 1), 7, 7, 0),
        ((35, 35), (35, 35), 3, 1, 1),
        ((13, 13), (6, 6), 3, 2, 0),
        ((12, 12), (4, 4), 3, 3, 0),
    ],
)
def test_windows_follow_from_the_planes(
    before: tuple[int, int], after: tuple[int, int], window: int, stride: int, pad: int
) -> None:
    for op in ("MaxPoolV3", "AvgPoolV2"):
        found = reading_of(task(op, (8, 4, *before, 16), out=(8, 4, *after, 16)))
        assert found.task.attributes["ksize"] == [1, 1, window, window]
        assert found.task.attributes["strides"] == [1, 1, stride, stride]
        assert found.task.attributes["pads"] == [pad] * 4
        for each in found.others:  # all of them give these planes
            size, side = before[0], each.attributes["ksize"][2]
            step, around = each.attributes["strides"][2], each.attributes["pads"][0]
            ends = (size + 2 * around - side) / step + 1
            assert int(ends) <= after[0] <= ends + 1


def test_a_band_reaches_over_all_that_shapes_allow(tmp_path: Path) -> None:
    pool = Row("MaxPoolV3", ["8,4,112,112,16"], "8,4,56,56,16", formats=("NC1HWC0",) * 2, us=12.0)
    result = retime(read_model(write(tmp_path / "k.csv", [pool])).at(), SOC)
    (timed,) = result.items
    assert timed.timing.how is How.SIMULATED
    assert timed.timing.duration_us < 40
    times = [
        retime(read_model(_calls(tmp_path, side)).at(), SOC).items[0].timing.duration_us
        for side in (2, 3, 5)
    ]
    low_us, high_us = timed.timing.band_us
    assert low_us < min(times) < max(times) < high_us
    assert any("3 windows" in line for line in result.assumptions)


def _calls(folder: Path, side: int) -> Path:
    file = folder / f"{side}.yaml"
    pad = (side - 1) // 2
    file.write_text(
        "calls:\n- op: MaxPoolV3\n  inputs: ['fp16[8,4,112,112,16]:NC1HWC0']\n"
        "  outputs: ['fp16[8,4,56,56,16]:NC1HWC0']\n"
        f"  attributes: {{ksize: [1,1,{side},{side}], strides: [1,1,2,2], pads: {[pad] * 4}}}\n"
    )
    return file


def test_a_row_without_what_decides_its_time_keeps_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        Row("MaxPool3D", ["2,8,4,56,56,16"], "2,4,4,28,28,16", formats=("NDC1HWC0",) * 2, us=46.0),
        Row("AvgPool3DGrad", ["2,64,4,28,28"], "2,64,8,56,56", us=80.0),
        Row("ROIAlign", ["1,256,64,64", "100,5"], "100,256,7,7", us=99.0),
    ]
    file = write(tmp_path / "k.csv", rows)
    result = retime(read_model(file).at(), SOC)
    first, second, _ = result.items
    for each, row in ((first, rows[0]), (second, rows[1])):
        assert each.timing.how is How.UNSCALED
        assert each.timing.duration_us == row.us
        assert "not priced" in each.timing.note
    found = judge(file, SOC)
    assert [each.usual_us for each in found.launches[:2]] == [None, None]
    assert not found.unusual
    page = tmp_path / "page.md"
    said = npusim(capsys, "report -s 910b4 --measured-on 910b4", file, "-o", page)
    assert said.code == 0, said.err
    model = npusim(capsys, "model -s 910b4 --measured-on 910b4", file)
    assert model.out.splitlines()[0].partition(": ")[2] in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("layout", ["2D", "4D"])
def test_a_compressed_mask_means_causal(layout: str, tmp_path: Path) -> None:
    """With it some half of the scores is left out, in the gradient too."""
    mask = "2048,2048" if layout == "2D" else "1,1,2048,2048"
    heads, seq = "1,16,4096,8", "4096,1,2048"

    def step(mask: str) -> list[float]:
        dtypes = ["DT_BF16"] * 3 + ["DT_BF16", "UINT8", "DT_BF16", "BOOL"]
        forward = [seq, "4096,1,1024", "4096,1,1024", "", "", "", mask]
        backward = [seq, "4096,1,1024", "4096,1,1024", seq, mask, heads, heads, "", seq]
        kinds = ["DT_BF16"] * 4 + ["BOOL", "FLOAT", "FLOAT", "DT_BF16", "DT_BF16"]
        lines = [
            ("FlashAttentionScore", forward, dtypes, [heads, heads, "", seq],
             ["FLOAT", "FLOAT", "DT_BF16", "DT_BF16"]),
            ("FlashAttentionScoreGrad", backward, kinds, [seq, "4096,1,1024", "4096,1,1024"],
             ["DT_BF16"] * 3),
        ]  # fmt: skip
        file = tmp_path / f"{len(mask)}.csv"
        text = "Name,Type,Duration(us),Input Shapes,Input Data Types,Output Shapes,"
        text += "Output Data Types\n"
        for op, given, types, made, made_types in lines:
            text += f'{op},{op},900,"{";".join(given)}",{";".join(types)},"{";".join(made)}",'
            text += f"{';'.join(made_types)}\n"
        file.write_text(text)
        result = retime(read_model(file).at(), SOC)
        assert all(each.timing.how is How.SIMULATED for each in result.items)
        assert ("2048" in mask) == any("causal" in line for line in result.assumptions)
        return [each.timing.duration_us for each in result.items]

    causal, full = step(mask), step("1,16,4096,4096")
    assert causal[0] < full[0]
    assert 600 < causal[0] < 1000  # 874 us measured on a 910B4
    assert 1500 < causal[1] < 2700  # 2,250 us there


def test_orders_and_axes_that_shapes_leave_open_widen_the_band(tmp_path: Path) -> None:
    open_ones = [
        Row("Transpose", ["64,64,512"], "64,512,64", us=9.0),
        Row("ReduceSum", ["64,64,512"], "64,512", us=9.0),
    ]
    told = [
        Row("Transpose", ["64,32,512"], "64,512,32", us=9.0),
        Row("ReduceSum", ["64,32,512"], "64,512", us=9.0),
    ]
    for rows, number in ((open_ones, 2), (told, 0)):
        items = retime(read_model(write(tmp_path / "k.csv", rows)).at(), SOC).items
        assert sum(bool(each.item.operation.others) for each in items) == number


def test_estimates_far_above_the_time_are_findings(tmp_path: Path) -> None:
    plain = at_estimate(tmp_path / "p.csv", [ADD] * 6, load_profile(SOC))
    index = Row("TransData", ["8,64,56,56"], "8,4,56,56,16", formats=("NCHW", "NC1HWC0"), us=0.8)
    found = judge(write(tmp_path / "k.csv", [*plain, index]), SOC)
    assert [each.kernel.line for each in found.overestimated] == [8]
    assert found.compared == 6
    (finding,) = [each for each in findings(found) if each.kind is Oddity.ESTIMATE]
    assert "npusim is too slow for TransData, once" in finding.text


def test_a_hint_about_the_ai_cpu_does_not_contradict_itself(tmp_path: Path) -> None:
    for dtype, says in (("DOUBLE", "not DOUBLE"), ("FLOAT16", "aren't why")):
        row = Row(ON_CPU.op, ON_CPU.inputs, ON_CPU.output, dtype, core="AI_CPU", us=90.0)
        found = findings(judge(write(tmp_path / "k.csv", [row]), SOC))
        (text,) = [each.text for each in found if each.kind is Oddity.AI_CPU]
        assert says in text
