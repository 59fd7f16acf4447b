"""`npusim judge`: faults planted into a profile are named, and a profile as measured is normal."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from network_steps import kernel_details

from npusim.hardware import load_profile
from npusim.model.calibrating import calibrate
from npusim.model.findings import Oddity, findings
from npusim.model.judging import Comparison, judge
from npusim.model.missed_fusions import fusions, missed
from npusim.model.reasons import Kind, Reasons
from npusim.model.timing import Timer
from npusim.validation.fitting import value_of, with_values
from npusim.values.errors import UsageError
from support.commands import npusim
from support.paths import ROOT
from support.profile_rows import ADD, ON_CPU, SOC, Row, at_estimate, write

MEASURED = ROOT / "reports" / "data" / "measured_ops.csv.gz"


PLAIN = [
    *[ADD] * 6,
    Row("SoftmaxV2", ["512,1024"], "512,1024"),
    Row("MatMulV2", ["1024,1024", "1024,1024"], "1024,1024", core="AI_CORE"),
    Row("Mul", ["2048,1024", "2048,1024"], "2048,1024"),
    Row("Gelu", ["2048,4096"], "2048,4096"),
    Row("Transpose", ["64,128,64"], "128,64,64"),
]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    return at_estimate(tmp_path_factory.mktemp("judge") / "plain.csv", PLAIN)


@dataclass(frozen=True)
class Fault:
    """What is done to the rows, and what must be said of which line."""

    name: str
    plant: Callable[[list[Row]], list[Row]]
    says: Kind | Oddity
    lines: tuple[int, ...] = ()
    words: Sequence[str] = field(default=())


def slower(place: int, times: float, **changes: int) -> Callable[[list[Row]], list[Row]]:
    def plant(rows: list[Row]) -> list[Row]:
        changed = replace(rows[place], us=rows[place].us * times, **changes)
        return [*rows[:place], changed, *rows[place + 1 :]]

    return plant


def all_slower(op: str, times: float) -> Callable[[list[Row]], list[Row]]:
    return lambda rows: [replace(row, us=row.us * times) if row.op == op else row for row in rows]


def chain(*rows: Row) -> Callable[[list[Row]], list[Row]]:
    return lambda plain: [*plain, *rows]


SQUARE = Row("Square", ["64,1024"], "64,1024", us=2.5)
RMS_NORM = (
    SQUARE,
    replace(SQUARE, op="ReduceMean", output="64,1"),
    replace(SQUARE, op="Adds", inputs=["64,1"], output="64,1", us=1.3),
    replace(SQUARE, op="Rsqrt", inputs=["64,1"], output="64,1", us=1.3),
    replace(SQUARE, op="Mul", inputs=["64,1024", "64,1"]),
)
SPREAD = Row("TransData", ["16,64,56,56"], "16,4,56,56,16", formats=("NCHW", "NC1HWC0"), us=20.0)
BACK = Row("TransData", ["16,4,56,56,16"], "16,64,56,56", formats=("NC1HWC0", "NCHW"), us=20.0)

FAULTS = [
    Fault("ai_cpu", chain(ON_CPU), Oddity.AI_CPU, (13,), ("Add of DOUBLE", "FLOAT16")),
    Fault("fusion", chain(*RMS_NORM), Oddity.FUSION, (13, 14, 15, 16, 17), ("npu_rms_norm",)),
    Fault("conversion", chain(SPREAD, BACK), Oddity.CONVERSION, (13, 14), ("NCHW to NC1HWC0",)),
    Fault("host", chain(replace(ADD, us=7.0, gap_us=400.0)), Oddity.HOST_GAP, (13,), ("400 us",)),
    Fault("cold_start", slower(0, 3.0), Kind.COLD_START, (2,)),
    Fault("few_cores", slower(9, 8.0, blocks=4), Kind.FEW_CORES, (11,), ("4 cores",)),
    Fault("apart", slower(3, 3.0), Kind.APART, (5,), ("its equals take",)),
    Fault("all", all_slower("Add", 9.0), Kind.LIKE_ITS_EQUALS, (2, 3, 4, 5, 6, 7)),
    Fault("slow", slower(7, 12.0), Kind.UNKNOWN, (9,)),
    Fault("slow transpose", slower(10, 25.0), Kind.UNKNOWN, (12,)),
]


def told(comparison: Comparison) -> dict[Kind | Oddity, tuple[list[int], str]]:
    """By kind the lines of the file, and what is said of them."""
    reasons = Reasons(comparison)
    found: dict[Kind | Oddity, tuple[list[int], str]] = {
        each.kind: ([launch.kernel.line for launch in each.launches], each.text)
        for each in findings(comparison)
    }
    for launch in comparison.unusual:
        reason = reasons.of(launch)
        lines, text = found.get(reason.kind, ([], ""))
        found[reason.kind] = (sorted([*lines, launch.kernel.line]), text + reason.text)
    return found


def test_a_profile_at_its_estimates_is_normal(plain: list[Row], tmp_path: Path) -> None:
    assert told(judge(write(tmp_path / "k.csv", plain), load_profile(SOC))) == {}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda each: each.name)
def test_a_planted_fault_is_named(fault: Fault, plain: list[Row], tmp_path: Path) -> None:
    found = told(judge(write(tmp_path / "k.csv", fault.plant(plain)), load_profile(SOC)))
    assert fault.says in found, found
    lines, text = found[fault.says]
    assert tuple(lines) == fault.lines, found
    assert all(word in text for word in fault.words), text
    others = {kind for kind in found if kind is not fault.says}
    assert others <= {Oddity.HOST_GAP, Oddity.FUSION, Oddity.ESTIMATE}, found


def test_inputs_that_were_not_in_l2_explain_a_time(tmp_path: Path) -> None:
    """Of what was just written an operator takes as long as of what comes from memory."""
    write_first = Row("Mul", ["2048,2048", "2048,2048"], "2048,2048")
    copies = replace(write_first, op="Relu", inputs=["2048,2048"])
    rows = at_estimate(tmp_path / "plain.csv", [write_first, copies])
    profile = load_profile(SOC)
    plain = judge(write(tmp_path / "k.csv", rows), profile)
    cold = Timer(profile, "cold", None).time(plain.launches[1].timed.item, (), None)
    slow_us = (cold.band_us[1] + max(cold.duration_us, 0.0)) / 2
    slow = judge(write(tmp_path / "s.csv", [rows[0], replace(rows[1], us=slow_us)]), profile)
    usual_us = plain.launches[1].usual_us
    assert usual_us is not None
    expected = {Kind.COLD_L2: ([3], "")} if slow_us > usual_us[1] else {}
    assert {kind: lines for kind, (lines, _) in told(slow).items()} == {
        kind: lines for kind, (lines, _) in expected.items()
    }


@pytest.mark.parametrize(
    ("workload", "soc"), [("resnet50_32_224_224 train step (MindSpore)", "Ascend910B")]
)
def test_a_measured_step_is_mostly_normal(workload: str, soc: str, tmp_path: Path) -> None:
    """Of kernels that nobody touched at most 15 % are called unusual."""
    file = tmp_path / "kernel_details.csv"
    file.write_text(kernel_details(MEASURED, workload), encoding="utf-8")
    found = judge(file, load_profile(soc))
    assert found.compared > 200
    assert len(found.unusual) <= 0.15 * found.compared


def test_the_command_tells_writes_and_refuses(
    plain: list[Row], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path / "k.csv", slower(3, 3.0)(plain))
    said = npusim(capsys, "judge -s 910b2", file)
    assert said.code == 0, said.err
    assert "1 of 11 kernels took longer than usual" in said.out.splitlines()[0]
    assert "its equals take" in said.out
    table = tmp_path / "every.csv"
    answer = npusim(capsys, "judge -s 910b2 --json", file, "--csv", table).json
    (slow,) = answer["unusual"]
    assert slow["line"] == 5
    assert slow["reason"] == "slower_than_its_equals"
    assert slow["measured_us"] == pytest.approx(3 * slow["equals_us"])
    with table.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["line"] for row in rows if row["unusual"] == "True"] == ["5"]
    assert npusim(capsys, "judge", file).code == 2
    assert npusim(capsys, "judge -s 910b3,310p3", file).code == 2
    assert npusim(capsys, "judge -s 910b3", tmp_path / "none.csv").code == 2


def test_fusions_are_found_longest_first() -> None:
    attention = ["BatchMatMulV2", "Muls", "Add", "SoftmaxV2", "BatchMatMulV2", "Sigmoid", "Mul"]
    found = [(place, each.fused) for place, each in missed(attention)]
    assert found == [(0, "FlashAttentionScore"), (5, "Swish")]
    assert all(each.source and len(each.tasks) > 1 for each in fusions())


STREAMS = [
    Row(op, [f"{rows},1024"] * count, f"{rows},1024")
    for rows in (1, 20, 40, 333, 1024, 2000, 2048, 3072, 4096, 6144)
    for op, count in (("Add", 2), ("Relu", 1))
]
SLOWER = {"memory.hbm_sustained_fraction": 0.6, "launch.base_us": 1.2}


def test_a_chip_is_fitted_to_a_slower_card(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Times made with two other constants: those two are found, and a file says so."""
    monkeypatch.setattr("npusim.model.calibrating.KEYS", tuple(SLOWER))  # quicker than all four
    truth = with_values(load_profile(SOC), SLOWER)
    file = write(tmp_path / "k.csv", at_estimate(tmp_path / "plain.csv", STREAMS, truth))
    chip = tmp_path / "my_chip.yaml"
    said = npusim(capsys, "calibrate -s 910b2 --json", file, "-o", chip)
    assert said.code == 0, said.err
    aside = said.json["aside"]
    assert aside["kernels"] == len(STREAMS) // 4
    assert aside["error_after"] < aside["error_before"] / 2
    moved = {each["key"]: each["after"] for each in said.json["constants"] if each["moved"]}
    mine = load_profile(chip)
    for key, value in SLOWER.items():
        assert moved[key] == pytest.approx(value, rel=0.2)
        assert value_of(mine, key) == pytest.approx(moved[key], rel=1e-4)
        assert mine.provenance_of(key).confidence == "fitted"
    text = chip.read_text(encoding="utf-8")
    assert npusim(capsys, "calibrate -s 910b2", file, "-o", chip).code == 2
    assert chip.read_text(encoding="utf-8") == text
    assert npusim(capsys, "estimate aclnnRelu self=fp16[64] -s", chip).code == 0


def test_what_no_chip_is_fitted_to(
    plain: list[Row],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("npusim.model.calibrating.KEYS", ("launch.base_us",))  # quicker
    streams = at_estimate(tmp_path / "p.csv", STREAMS)
    wide = [replace(row, blocks=48) for row in streams]
    far = [replace(row, us=row.us * 5) for row in streams]
    chip = tmp_path / "my_chip.yaml"
    for soc, rows, code, words in (
        ("910b2", streams, 1, "nothing moves"),
        ("910b2", plain, 2, "too few"),
        ("910b3", wide, 2, "Ascend910B2"),
        ("910b2", far, 2, "no rate of memory explains"),
    ):
        file = write(tmp_path / "k.csv", rows)
        said = npusim(capsys, f"calibrate -s {soc}", file, "-o", chip)
        assert said.code == code, (words, said.err)
        assert words in " ".join((said.out + said.err).split())
        assert not chip.exists()
    with pytest.raises(UsageError, match="inherit"):
        calibrate(file, with_values(load_profile(SOC), {"name": "Mine"}))
