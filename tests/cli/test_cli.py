"""The command line as a user meets it: answers, messages, exit codes, files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from npusim.cli import main
from npusim.cli.trace import read_cores
from npusim.hardware import profile_names
from npusim.reporting.arrays import read_npz, write_npz
from npusim.values.errors import ArgumentError

BF16 = ml_dtypes.bfloat16
ALL_CHIPS = len(profile_names())


@dataclass(frozen=True)
class Outcome:
    """What a command leaves behind."""

    code: object
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Npusim = Callable[..., Outcome]


@pytest.fixture
def npusim(capsys: pytest.CaptureFixture[str]) -> Npusim:
    """Runs the command line in this process; words are split at spaces."""

    def call(line: str, *more: str | Path) -> Outcome:
        capsys.readouterr()
        with pytest.raises(SystemExit) as exit_:
            main([*line.split(), *map(str, more)])
        captured = capsys.readouterr()
        return Outcome(exit_.value.code, captured.out, captured.err)

    return call


def bce(dtype: str = "fp32", shape: str = "[8,64]") -> str:
    """The parameters of BCE backward, all tensors of one dtype and shape."""
    tensors = " ".join(f"{name}={dtype}{shape}" for name in ("gradOutput", "self", "target"))
    return f"{tensors} weightOptional=null reduction=0"


def norm(dtype: str = "fp32") -> str:
    """The parameters of a small GroupNorm backward."""
    return (
        f"gradOut={dtype}[2,8,16] input={dtype}[2,8,16] mean={dtype}[2,4] rstd={dtype}[2,4] "
        f"gamma={dtype}[8] N=2 C=8 HxW=16 group=4 outputMask=true,true,true"
    )


def bce_reference(inputs: dict[str, Any]) -> Any:
    """Binary cross entropy backward without weight and reduction, in float64."""
    go, x, y = (inputs[name].astype(np.float64) for name in ("gradOutput", "self", "target"))
    return go * (x - y) / np.maximum(x * (1 - x), 1e-12)


def bce_inputs() -> dict[str, Any]:
    generator = np.random.default_rng(5)
    return {
        "gradOutput": generator.standard_normal((4, 40), dtype=np.float32),
        "self": generator.uniform(0.05, 0.95, (4, 40)).astype(np.float32),
        "target": generator.integers(0, 2, (4, 40)).astype(np.float32),
    }


def case_of(inputs: dict[str, Any], outputs: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A case file's case."""

    def spelled(array: Any) -> dict[str, Any]:
        data = [v if np.isfinite(v) else str(v) for v in array.ravel().tolist()]
        return {"dtype": str(array.dtype), "shape": list(array.shape), "data": data}

    return {
        "op": "aclnnBinaryCrossEntropyBackward",
        "name": "small",
        "attrs": {"reduction": 0},
        "inputs": {**{name: spelled(a) for name, a in inputs.items()}, "weightOptional": None},
        "outputs": {name: spelled(a) for name, a in outputs.items()},
        "tolerance": {"rtol": 1e-5, "atol": 1e-6},
        **more,
    }


# -- will it run? ------------------------------------------------------------------------------


def test_check_compares_all_chips(npusim: Npusim) -> None:
    outcome = npusim(f"check GroupNormBackward -s all --json {norm('bf16')}")
    verdicts = {answer["soc"]: answer["status"]["code"] for answer in outcome.json["answers"]}
    assert outcome.code == 0
    assert len(verdicts) == ALL_CHIPS
    assert verdicts["Ascend910B3"] == 0
    assert verdicts["Ascend910A"] == 161002
    assert verdicts["Ascend310P3"] in (161002, 561003)


def test_check_says_why_not_and_exits_1(npusim: Npusim) -> None:
    outcome = npusim(f"check GroupNormBackward -s 310p3 {norm()}")
    assert outcome.code == 1
    assert "561003" in outcome.out
    assert outcome.err == ""


def test_the_table_of_check_names_products(npusim: Npusim) -> None:
    outcome = npusim(f"check aclnnGroupNormBackward -s 910b3 -s 310p3 {norm()}")
    assert outcome.code == 0
    assert "Atlas A2" in outcome.out
    assert outcome.out.count("Ascend910B3") == 1


# -- how long does it take? --------------------------------------------------------------------


def test_estimate_prints_a_band(npusim: Npusim) -> None:
    outcome = npusim(f"estimate GroupNormBackward -s 910b3 {norm()}")
    assert outcome.code == 0
    for word in ("latency", "band", "80 %", "cycles", "bound by", "MTE2", "GroupNormGrad"):
        assert word in outcome.out


def test_estimate_in_json_is_complete(npusim: Npusim) -> None:
    outcome = npusim(f"estimate BinaryCrossEntropyBackward -s 910b3 --json {bce('bf16')}")
    (answer,) = outcome.json["answers"]
    low, high = answer["band_us"]
    assert low < answer["duration_us"] < high
    assert answer["cycles"] > 0
    assert sum(task["duration_us"] for task in answer["tasks"]) <= answer["duration_us"] * 1.001
    assert answer["tasks"][-1]["bytes_written"] == 2 * 8 * 64
    assert "outputs" not in answer


def test_estimate_puts_chips_side_by_side(npusim: Npusim) -> None:
    outcome = npusim(f"estimate GroupNormBackward -s all {norm()}")
    assert outcome.code == 0
    assert outcome.out.count("us (") == ALL_CHIPS - 2
    assert "Ascend310P3: ACLNN_ERR_INNER_FIND_KERNEL_ERROR (561003)" in outcome.out


def test_nobody_offers_it_is_a_no(npusim: Npusim) -> None:
    outcome = npusim(f"estimate GroupNormBackward -s 310p1 -s 310p3 {norm()}")
    assert outcome.code == 1


def test_every_spelling_of_a_chip_is_one_chip(npusim: Npusim) -> None:
    line = f"estimate BinaryCrossEntropyBackward --json {bce()}"
    outcome = npusim(f"{line} -s 910B3 --soc-version ascend910b3 --soc_version Ascend910B3")
    assert [answer["soc"] for answer in outcome.json["answers"]] == ["Ascend910B3"]


def test_910b_without_a_digit_is_explained(npusim: Npusim) -> None:
    outcome = npusim(f"estimate BinaryCrossEntropyBackward -s 910B {bce()}")
    assert outcome.code == 0
    assert "first generation" in outcome.err
    assert "Ascend910B" in outcome.out


def test_a_profile_of_your_own(npusim: Npusim, tmp_path: Path) -> None:
    path = tmp_path / "my_chip.yaml"
    source = "provenance: {cube_mhz: {source: own_statement, confidence: assumed}}"
    path.write_text(f"inherits: Ascend910B3\nname: Half\nclocks:\n  cube_mhz: 900\n  {source}\n")
    line = f"estimate BinaryCrossEntropyBackward --json {bce(shape='[64,4096]')}"
    mine, theirs = npusim(f"{line} -s 910b3 -s", path).json["answers"]
    if mine["soc"] != "Half":
        mine, theirs = theirs, mine
    assert mine["duration_us"] > theirs["duration_us"]


# -- numbers -----------------------------------------------------------------------------------


def test_run_writes_what_can_be_read_back(npusim: Npusim, tmp_path: Path) -> None:
    path = tmp_path / "out.npz"
    outcome = npusim(f"run GroupNormBackward -s 910b3 --seed 3 {norm('bf16')} -o", path)
    assert outcome.code == 0
    assert "seed 3" in outcome.err
    outputs = read_npz(path)
    assert list(outputs) == ["gradInput", "gradGammaOut", "gradBetaOut"]
    assert outputs["gradInput"].dtype == BF16
    assert outputs["gradInput"].shape == (2, 8, 16)


def test_run_draws_the_same_numbers_again(npusim: Npusim) -> None:
    line = f"run BinaryCrossEntropyBackward -s 910b3 --json {bce()}"
    first, again, other = npusim(line), npusim(line), npusim(f"{line} --seed 1")
    assert first.out == again.out
    assert first.json["answers"][0]["outputs"] != other.json["answers"][0]["outputs"]


def test_run_takes_arrays_from_files(npusim: Npusim, tmp_path: Path) -> None:
    inputs = bce_inputs()
    np.save(tmp_path / "x.npy", inputs["self"])
    rest = {name: inputs[name] for name in ("gradOutput", "target")}
    write_npz(tmp_path / "rest.npz", {**rest, "reduction": np.array(0)})
    files = (f"self={tmp_path / 'x.npy'}", "--inputs", tmp_path / "rest.npz")
    line = "run BinaryCrossEntropyBackward -s 310p3 --json weightOptional=null"
    (answer,) = npusim(line, *files).json["answers"]
    got = np.array(answer["outputs"]["out"]["data"]).reshape(4, 40)
    np.testing.assert_allclose(got, bce_reference(inputs), rtol=1e-5, atol=1e-6)


def test_run_takes_bfloat16_from_files(npusim: Npusim, tmp_path: Path) -> None:
    path = tmp_path / "in.npz"
    write_npz(path, {name: array.astype(BF16) for name, array in bce_inputs().items()})
    line = "run BinaryCrossEntropyBackward -s 910b3 --json weightOptional=null reduction=0"
    (answer,) = npusim(line, "--inputs", path).json["answers"]
    assert answer["outputs"]["out"]["dtype"] == "bfloat16"


def test_run_compares_with_a_case_file(npusim: Npusim, tmp_path: Path) -> None:
    inputs = bce_inputs()
    want = bce_reference(inputs).astype(np.float32)
    path = tmp_path / "case.json"
    path.write_text(json.dumps(case_of(inputs, {"out": want})))
    outcome = npusim("run -s 910b3 -s 910a -s 310p3 --case", path)
    assert outcome.code == 0
    assert outcome.out.count("pass") == 3


def test_a_wrong_case_fails(npusim: Npusim, tmp_path: Path) -> None:
    inputs = bce_inputs()
    want = bce_reference(inputs).astype(np.float32)
    want[2, 3] *= 1.001
    path = tmp_path / "case.json"
    path.write_text(json.dumps(case_of(inputs, {"out": want})))
    outcome = npusim("run BinaryCrossEntropyBackward -s 910b3 --json --case", path)
    assert outcome.code == 1
    (case,) = outcome.json["cases"]
    assert case["outcome"] == "FAIL"
    assert case["comparisons"][0]["share"] > 1


def test_a_case_may_expect_a_rejection(npusim: Npusim, tmp_path: Path) -> None:
    case = case_of(bce_inputs(), {}, attrs={"reduction": 7}, status=161002)
    path = tmp_path / "case.json"
    path.write_text(json.dumps({"cases": [case]}))
    assert npusim("run -s 910b3 --case", path).code == 0
    path.write_text(json.dumps({"cases": [{**case, "status": 161001}]}))
    assert npusim("run -s 910b3 --case", path).code == 1


def test_a_case_without_outputs_just_runs(npusim: Npusim, tmp_path: Path) -> None:
    path = tmp_path / "case.json"
    path.write_text(json.dumps(case_of(bce_inputs(), {})))
    outcome = npusim("run -s 910b3 --json --case", path, "-o", tmp_path / "out.npz")
    assert outcome.code == 0
    assert outcome.json["cases"][0]["outcome"] == "ran"
    assert read_npz(tmp_path / "out.npz")["out"].shape == (4, 40)


# -- trace, ops, profiles, demo ----------------------------------------------------------------


def test_trace_writes_a_file(npusim: Npusim, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    outcome = npusim(f"trace GroupNormBackward -s 910b3 {norm()} --json -n 0-1 -o", path)
    assert outcome.code == 0
    assert outcome.json["slices"] > 0
    assert json.loads(path.read_text())["profilingType"] == "op"


@pytest.mark.parametrize(
    ("text", "cores"),
    [("all", None), ("5", (5,)), ("0-2", (0, 1, 2)), ("0-2,12-14,1", (0, 1, 2, 12, 13, 14))],
)
def test_cores_are_written_as_in_msprof(text: str, cores: tuple[int, ...] | None) -> None:
    assert read_cores(text, 40) == cores


@pytest.mark.parametrize("text", ["", "a", "1-", "1,,2", "-1"])
def test_other_lists_of_cores_are_refused(text: str) -> None:
    with pytest.raises(ArgumentError):
        read_cores(text, 40)


@pytest.mark.parametrize("line", ["ops", "ops list"])
def test_ops_lists_the_operators(npusim: Npusim, line: str) -> None:
    outcome = npusim(line)
    assert outcome.code == 0
    assert "aclnnGroupNormBackward" in outcome.out
    names = [entry["name"] for entry in npusim(f"{line} --json").json]
    assert "aclnnBinaryCrossEntropyBackward" in names
    assert names == sorted(names)


def test_ops_show_is_the_page_of_an_operator(npusim: Npusim) -> None:
    outcome = npusim("ops show groupnormbackward")
    for word in ("gradOut", "outputMask", "bool_array", "161002", "BFLOAT16", "240000"):
        assert word in outcome.out
    described = npusim("ops show groupnormbackward --json").json
    gamma = next(each for each in described["parameters"] if each["name"] == "gamma")
    assert gamma["optional"] is True
    assert gamma["dtypes"]["910"] == ["FLOAT", "FLOAT16"]


@pytest.mark.parametrize("line", ["profiles", "profiles list"])
def test_profiles_lists_chips_and_products(npusim: Npusim, line: str) -> None:
    outcome = npusim(f"{line} --json")
    assert len(outcome.json["chips"]) == ALL_CHIPS
    assert any(product["soc"] == "Ascend310P3" for product in outcome.json["products"])
    table = npusim(line).out
    assert "Ascend910PremiumA" in table
    assert "Atlas 300I" in table


def test_profiles_show_gives_every_number_its_source(npusim: Npusim) -> None:
    values = npusim("profiles show 310p3 --json").json["values"]
    assert values["buffers.ub_bytes"]["value"] == 262144
    assert values["buffers.ub_bytes"]["confidence"] == "vendor_file"
    assert all(entry["source"] and entry["confidence"] for entry in values.values())
    page = npusim("profiles show 310p3").out
    assert "buffers.ub_bytes" in page
    assert "sources" in page
    few = npusim("profiles show 310p3 memory.l2 --json").json["values"]
    assert few == {key: values[key] for key in values if key.startswith("memory.l2")} != {}
    page = npusim("profiles show 310p3 memory.").out
    assert "memory.l2_bytes" in page
    assert "buffers." not in page


def test_demo_shows_numbers_and_time(npusim: Npusim, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    outcome = npusim("demo --json -o", path)
    assert outcome.code == 0
    answers = {answer["soc"]: answer for answer in outcome.json["answers"]}
    assert len(answers) == ALL_CHIPS
    for name, answer in answers.items():
        assert answer["ok"] is not name.startswith("Ascend310P")
        assert all(item["passed"] for item in answer["comparisons"])
        assert len(answer["comparisons"]) == (3 if answer["ok"] else 0)
    assert json.loads(path.read_text())["traceEvents"]


def test_the_check_of_the_demo_can_fail() -> None:
    from npusim.cli import demo
    from npusim.reporting.compare import compare

    want = demo.reference(demo.example())["gradInput"]
    wrong = want.copy()
    wrong[1, 2, 3] += 0.01
    assert not compare("gradInput", wrong, want, rtol=demo.RTOL, atol=demo.ATOL).passed


# -- wrong use ---------------------------------------------------------------------------------

BCE = "BinaryCrossEntropyBackward"
WRONG_USE = {
    "bf16 on 910A": (f"estimate {BCE} -s 910a {bce('bf16')}", 1, ["161002", "BFLOAT16", "A2"]),
    "bf16 on 310P": (f"run {BCE} -s 310p3 {bce('bf16')}", 1, ["161002", "BFLOAT16", "A2"]),
    "not offered": (f"estimate GroupNormBackward -s 310p3 {norm()}", 1, ["561003"]),
    "wrong rank": (
        f"estimate {BCE} -s 910b3 {bce(shape='[1,1,1,1,1,1,1,1,2]')}",
        1,
        ["161002", "8"],
    ),
    "null pointer": (
        f"estimate {BCE} -s 910b3 {bce()}".replace("self=fp32[8,64]", "self=null"),
        1,
        ["161001", "self"],
    ),
    "unknown chip": (f"estimate {BCE} -s 910b9 {bce()}", 2, ["910b9", "Did you mean"]),
    "no chip": (f"estimate {BCE} {bce()}", 2, ["-s"]),
    "unknown operator": ("estimate GroupNormBackwad -s 910b3", 2, ["aclnnGroupNormBackward"]),
    "unknown parameter": (f"estimate {BCE} -s 910b3 {bce()} reducton=1", 2, ["mean reduction"]),
    "missing parameter": (
        f"estimate {BCE} -s 910b3 {bce()}".replace("reduction=0", ""),
        2,
        ["reduction", "missing"],
    ),
    "given twice": (f"estimate {BCE} -s 910b3 {bce()} reduction=1", 2, ["reduction", "twice"]),
    "no equals sign": (f"estimate {BCE} -s 910b3 {bce()} fast", 2, ["'fast'", "NAME=VALUE"]),
    "nan for a whole number": (
        f"estimate {BCE} -s 910b3 {bce()}".replace("reduction=0", "reduction=nan"),
        2,
        ["reduction=nan", "whole number"],
    ),
    "no tensor": (
        f"estimate {BCE} -s 910b3 {bce()}".replace("self=fp32[8,64]", "self=3"),
        2,
        ["self=3", "bf16[2,64,4096]"],
    ),
    "unknown dtype": (f"estimate {BCE} -s 910b3 {bce('bf61')}", 2, ["bf61", "Did you mean"]),
    "negative size": (f"estimate {BCE} -s 910b3 {bce(shape='[-1]')}", 2, ["fp32[-1]"]),
    "two chips for one trace": (
        f"trace GroupNormBackward -s 910b3 -s 910b1 {norm()}",
        2,
        ["one chip"],
    ),
    "wrong cores": (f"trace GroupNormBackward -s 910b3 -n x {norm()}", 2, ["--core-id"]),
    "run without operator": ("run -s 910b3", 2, ["which operator"]),
    "case and parameters": ("run -s 910b3 --case a.json N=1", 2, ["--case"]),
    "missing case file": ("run -s 910b3 --case nowhere.json", 2, ["nowhere.json: there is no"]),
    "missing inputs": (
        f"run {BCE} -s 910b3 --inputs nowhere.npz",
        2,
        ["nowhere.npz: there is no"],
    ),
    "missing profile": (f"estimate {BCE} -s ./nowhere.yaml {bce()}", 2, ["nowhere.yaml"]),
    "show all": ("profiles show all", 2, ["one chip"]),
    "show no number": ("profiles show 310p3 memry.", 2, ["memry.", "mean memory"]),
}


@pytest.mark.parametrize("name", WRONG_USE)
def test_wrong_use_is_one_message(
    npusim: Npusim, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    line, code, words = WRONG_USE[name]
    outcome = npusim(line)
    assert outcome.code == code, outcome
    assert outcome.out == ""
    assert sum(text.startswith("error: ") for text in outcome.err.splitlines()) == 1
    assert "Traceback" not in outcome.err
    assert "internal error" not in outcome.err
    for word in words:
        assert word in outcome.err
    assert list(tmp_path.iterdir()) == []


def test_a_corrupt_archive_is_one_message(npusim: Npusim, tmp_path: Path) -> None:
    path = tmp_path / "in.npz"
    write_npz(path, bce_inputs())
    path.write_bytes(path.read_bytes()[:200])
    line = f"run {BCE} -s 910b3 weightOptional=null reduction=0"
    outcome = npusim(line, "--inputs", path, "-o", tmp_path / "out.npz")
    assert outcome.code == 2
    assert "in.npz" in outcome.err
    assert "Traceback" not in outcome.err
    assert not (tmp_path / "out.npz").exists()


def test_a_profile_with_a_negative_clock_is_refused(npusim: Npusim, tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    source = "provenance: {cube_mhz: {source: own_statement, confidence: assumed}}"
    path.write_text(f"inherits: Ascend910B3\nname: Bad\nclocks:\n  cube_mhz: -900\n  {source}\n")
    outcome = npusim(f"estimate {BCE} {bce()} -s", path)
    assert outcome.code == 2
    for word in ("bad.yaml", "clocks.cube_mhz", "-900"):
        assert word in outcome.err


@pytest.mark.parametrize(
    ("target", "message"), [("missing/out.npz", "doesn't exist"), (".", "is a folder")]
)
def test_an_unwritable_output_is_refused_before_the_work(
    npusim: Npusim, tmp_path: Path, target: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("npusim.cli.calls.ask", lambda *_: pytest.fail("worked in vain"))
    outcome = npusim(f"run {BCE} -s 910b3 {bce()} -o", tmp_path / target)
    assert outcome.code == 2
    assert message in outcome.err
    assert list(tmp_path.iterdir()) == []


def test_an_existing_output_is_kept_without_force(npusim: Npusim, tmp_path: Path) -> None:
    path = tmp_path / "out.npz"
    path.write_bytes(b"mine")
    outcome = npusim(f"run {BCE} -s 910b3 {bce()} -o", path)
    assert outcome.code == 2
    assert "--force" in outcome.err
    assert path.read_bytes() == b"mine"
    assert npusim(f"run {BCE} -s 910b3 {bce()} --force -o", path).code == 0
    assert "out" in read_npz(path)


def test_outputs_of_two_chips_have_no_single_file(npusim: Npusim, tmp_path: Path) -> None:
    outcome = npusim(f"run {BCE} -s 910b3 -s 910a {bce()} -o", tmp_path / "out.npz")
    assert outcome.code == 2
    assert not (tmp_path / "out.npz").exists()


BROKEN_CASES = {
    "not json": ("{", "is not JSON"),
    "a list": ("[]", "not a JSON object"),
    "no operator": ("{}", "op: is missing"),
    "no cases": ('{"cases": []}', "not a list of cases"),
    "inputs": ('{"op": "x", "inputs": []}', "cases[0].inputs: is not an object"),
    "tensor": ('{"op": "x", "inputs": {"a": {}}}', "inputs.a: is not {dtype, shape, data}"),
    "dtype": (
        '{"op": "x", "inputs": {"a": {"dtype": "float12", "shape": [], "data": [1]}}}',
        "inputs.a.dtype",
    ),
    "shape": (
        '{"op": "x", "inputs": {"a": {"dtype": "fp32", "shape": [-1], "data": [1]}}}',
        "inputs.a.shape",
    ),
    "count": (
        '{"op": "x", "inputs": {"a": {"dtype": "fp32", "shape": [3], "data": [1]}}}',
        "inputs.a.data: doesn't fit fp32[3]",
    ),
    "fraction": (
        '{"op": "x", "inputs": {"a": {"dtype": "int32", "shape": [1], "data": [1.5]}}}',
        "inputs.a.data",
    ),
    "tolerance": ('{"op": "x", "tolerance": {"rtol": -1}}', "tolerance.rtol"),
    "status": ('{"op": "x", "status": "fine"}', "status"),
}


@pytest.mark.parametrize("name", BROKEN_CASES)
def test_a_broken_case_file_says_where(npusim: Npusim, name: str, tmp_path: Path) -> None:
    content, message = BROKEN_CASES[name]
    path = tmp_path / "case.json"
    path.write_text(content)
    outcome = npusim("run -s 910b3 --case", path)
    assert outcome.code == 2
    assert message in outcome.err


def test_errors_are_json_too(npusim: Npusim) -> None:
    outcome = npusim(f"estimate {BCE} -s 911 --json {bce()}")
    assert outcome.code == 2
    assert outcome.json["error"]["kind"] == "UnknownNameError"
    assert outcome.json["error"]["exit_code"] == 2
    assert outcome.err.startswith("error: ")


def test_rejections_in_json_keep_their_shape(npusim: Npusim) -> None:
    outcome = npusim(f"estimate {BCE} -s 910a --json {bce('bf16')}")
    assert outcome.code == 1
    (answer,) = outcome.json["answers"]
    assert answer["ok"] is False
    assert answer["status"]["code"] == 161002
    assert answer["status"]["remedy"]


def test_what_we_did_not_expect_is_short_too(
    npusim: Npusim, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("the roof is on fire")

    monkeypatch.setattr("npusim.cli.calls.ask", fail)
    outcome = npusim(f"estimate {BCE} -s 910b3 {bce()}")
    assert outcome.code == 1
    assert "internal error" in outcome.err
    assert "the roof is on fire" in outcome.err
    assert "--debug" in outcome.err
    with pytest.raises(RuntimeError, match="roof"):
        main([*f"estimate {BCE} -s 910b3 {bce()} --debug".split()])


# -- the program as a whole --------------------------------------------------------------------


def test_help_and_version(npusim: Npusim) -> None:
    import npusim as package

    assert npusim("--version").out == f"npusim {package.__version__}\n"
    text = npusim("--help").out
    for verb in ("check", "estimate", "run", "trace", "ops", "profiles", "demo"):
        assert f"\n  {verb} " in text
        assert npusim(f"{verb} --help").code == 0


@pytest.mark.parametrize("language", ["en", "zh"])
def test_help_of_all_is_told_without_their_options(npusim: Npusim, language: str) -> None:
    told = npusim(f"--help --lang {language}").out
    assert told == npusim(f"--lang {language} -- --help").out != ""


def test_every_verb_shows_an_example() -> None:
    from typer.main import get_command

    from npusim.cli.app import application

    def without(command: Any, path: str) -> list[str]:
        if hasattr(command, "commands"):
            under = command.commands.items()
            return [each for name, sub in under for each in without(sub, f"{path} {name}")]
        return [] if "Example" in command.help else [path]

    assert without(get_command(application([])), "npusim") == []


@pytest.mark.parametrize("line", ["estimat", "estimate --jsn", "run --seed x"])
def test_wrong_options_exit_2(npusim: Npusim, line: str) -> None:
    outcome = npusim(line)
    assert outcome.code == 2
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize(
    "start", [[sys.executable, "-m", "npusim"], [str(Path(sys.executable).parent / "npusim")]]
)
def test_both_ways_to_start_it(start: list[str], tmp_path: Path) -> None:
    command = [*start, "ops", "list"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "aclnnGroupNormBackward" in done.stdout
    assert done.stderr == ""


def test_a_terminal_without_chinese_shows_the_rest() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "npusim", "profiles"],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Atlas 300I Pro" in done.stdout
    assert done.stderr == ""


def test_a_closed_pipe_is_no_error() -> None:
    line = f"{sys.executable} -m npusim profiles show 310p3 | head -1"
    done = subprocess.run(line, shell=True, capture_output=True, text=True, check=True)  # noqa: S602
    assert done.stdout.startswith("Ascend310P3")
    assert done.stderr == ""
