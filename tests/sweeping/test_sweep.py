"""Sweeps: what a specification stands for, and results that survive whatever stops the work."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import time
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import npusim as package
from npusim.hardware.naming import load_profile
from npusim.reporting import sweep_figures as report
from npusim.runtime.device import Device
from npusim.sweeping import points as expansion
from npusim.sweeping import working
from npusim.sweeping.executors import LocalCrew
from npusim.sweeping.points import Sweep, expand
from npusim.sweeping.results import ResultFile, read_rows
from npusim.sweeping.running import TRIES, run
from npusim.sweeping.spec import read_spec
from npusim.sweeping.working import Answered, Chunk, work
from npusim.values.errors import ArgumentError, FileError, NpusimError, RejectedError
from npusim.values.templates import evaluate, fill, variables_of
from support import sweeps
from support.commands import npusim

Capsys = pytest.CaptureFixture[str]


def expanded(folder: Path, text: str, **changes: Any) -> Sweep:
    return expand(read_spec(sweeps.write(folder, text)), "spec.yaml", **changes)


# -- templates ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("{N}", 8),
        ("{dtype}[{N},{H*W}]", "bf16[8,84]"),
        ("{dtype}[{shape}]", "bf16[2,64]"),
        ("{1/H}", 1 / 7),
        ("{W/4}", 3),
        ("{-(-W // 5)}", 3),
        ("{max(H, W) - min(H, N)}", 5),
        ("{2**10 % 1000}", 24),
        ("{shape}", [2, 64]),
        ("{mask}", True),
        (["{H}", "{W + 1}", 3], [7, 13, 3]),
        ("no variable", "no variable"),
        (None, None),
    ],
)
def test_a_template_is_filled(template: Any, value: Any) -> None:
    variables = {"N": 8, "H": 7, "W": 12, "dtype": "bf16", "shape": [2, 64], "mask": True}
    filled = fill(template, variables)
    assert filled == value
    assert type(filled) is type(value)


@pytest.mark.parametrize(
    "expression",
    [
        "__import__('os')",
        "().__class__",
        "N if N else 1",
        "[N]",
        "'text'",
        "N.real",
        "min(*N)",
        "min",
        "max(default=1)",
        "max()",
        "lambda: 1",
        "N; N",
        "",
        "1" * 300,
        "9**99",
        "2**62 * 2**62",
        "(0-8)**0.5",
        "1//0",
        "dtype * 2",
        "True",
        "\0",
    ],
)
def test_nothing_but_arithmetic_is_computed(expression: str) -> None:
    with pytest.raises(NpusimError):
        evaluate(expression, {"N": 2, "dtype": "fp16"})


@given(st.integers(-999, 999), st.integers(-999, 999), st.sampled_from(["+", "-", "*", "//", "%"]))
def test_arithmetic_is_that_of_python(left: int, right: int, sign: str) -> None:
    if right or sign not in {"//", "%"}:
        computed = evaluate(f"a {sign} (b)", {"a": left, "b": right})
        assert computed == eval(f"left {sign} right")  # noqa: S307 - the reference


def test_the_variables_of_a_template_are_known() -> None:
    assert variables_of(["{a}[{b*c}]", "{max(d, 2)}", 3]) == {"a", "b", "c", "d"}
    with pytest.raises(ArgumentError, match="partner"):
        variables_of("{a}[{b]")


# -- from a specification to points --------------------------------------------------------------


def test_a_grid_has_every_combination_once_and_in_order(tmp_path: Path) -> None:
    sweep = expanded(tmp_path, sweeps.NORM)
    assert len(sweep.points) == len(sweep.keys) == sweeps.NORM_POINTS
    assert [point.index for point in sweep.points] == list(range(sweeps.NORM_POINTS))
    first, last = sweep.points[0], sweep.points[-1]
    assert first.axes == {"N": 1, "C": 64, "dtype": "fp16"}
    assert first.arguments["gradOut"] == "FLOAT16[1,64,256]"
    assert first.arguments["group"] == 8
    assert (last.soc, last.axes["N"], last.axes["C"]) == ("Ascend910B4", 8, 256)
    assert sweep.axes == ("N", "C", "dtype")


def test_listed_points_move_variables_together_and_cross_the_axes(tmp_path: Path) -> None:
    text = """
        products: Ascend910B3
        axes: {dtype: [fp16, fp32], n: [1]}
        calls:
          - op: UpsampleNearestExact1dBackward
            points: [{L: 128, out: 256}, {L: 100, out: 300}]
            arguments:
              gradOutput: "{dtype}[2,4,{out}]"
              outputSize: ["{out}"]
              inputSize: [2, 4, "{L}"]
              scales: 0
          - op: aclnnMm
            axes: {n: {from: 16, to: 64, times: 2}, fp: [fp16]}
            arguments: {self: "{fp}[{n},8]", mat2: "{fp}[8,{n}]", cubeMathType: 0}
    """
    sweep = expanded(tmp_path, text)
    assert [dict(point.axes) for point in sweep.points] == [
        *({"L": 128, "out": 256, "dtype": kind} for kind in ("fp16", "fp32")),
        *({"L": 100, "out": 300, "dtype": kind} for kind in ("fp16", "fp32")),
        *({"n": n, "fp": "fp16"} for n in (16, 32, 64)),
    ]


def test_the_key_is_that_of_the_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def keys(text: str, **changes: Any) -> list[str]:
        return [point.key for point in expanded(tmp_path, text, **changes).points]

    original = keys(sweeps.LOSS)
    other_words = sweeps.LOSS.replace("fp32, bf16", "float32, DT_BF16").replace("910B3", "910b3")
    assert keys(other_words) == original
    assert sorted(keys(sweeps.LOSS.replace("64, 4096", "4096, 64"))) == sorted(original)
    for other in (
        keys(sweeps.LOSS.replace("reduction: 0", "reduction: 1")),
        keys(sweeps.LOSS, l2="warm"),
        keys(sweeps.LOSS, exact=True),
        keys(sweeps.LOSS, products=["Ascend910B1", "Ascend310P1"]),
    ):
        assert not set(other) & set(original)
    monkeypatch.setattr(package, "__version__", "99")
    assert not set(keys(sweeps.LOSS)) & set(original)


def test_a_changed_profile_has_other_keys(tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    keys = []
    for speed in (1000, 2000):
        mine.write_text(
            f"inherits: Ascend910B3\nmemory:\n  l2_gbps: {speed}\n"
            "  provenance:\n    l2_gbps: {source: asc_devkit, confidence: assumed}\n"
        )
        keys.append(expanded(tmp_path, sweeps.LOSS, products=[str(mine)]).keys)
    assert not keys[0] & keys[1]


def test_all_products_are_one_word(tmp_path: Path) -> None:
    text = sweeps.LOSS.replace("[Ascend910B3, Ascend310P3]", "all")
    assert len({point.soc for point in expanded(tmp_path, text).points}) > 10


BASE = "products: [910b3]\ncalls:\n  - op: aclnnMm\n    arguments: "
GOOD = '{self: "fp16[{N},8]", mat2: "fp16[8,{N}]", cubeMathType: 0}'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("products: [910b3]", "calls is missing"),
        ("calls: []", "calls = "),
        ("[1]", "mapping"),
        ("a: [", "YAML"),
        ("calls: [{arguments: {}}]", "calls.0.op is missing"),
        ("calls: [{op: aclnnMm, arguments: {}, argument: {}}]", "calls.0.argument = .*arguments"),
        (f"axis: {{N: [1]}}\n{BASE}{GOOD}", "axis = .*one of the keys calls, products, axes"),
        (f"axes: {{N: []}}\n{BASE}{GOOD}", "axes.N = .*list of values"),
        (f"axes: {{N: {{from: 1}}}}\n{BASE}{GOOD}", "axes.N = .*from, to, step"),
        (f"axes: {{N: {{from: 9, to: 1, step: 1}}}}\n{BASE}{GOOD}", "axes.N = .*not below"),
        (f"axes: {{N: {{from: 0, to: 1, times: 2}}}}\n{BASE}{GOOD}", "axes.N = .*at least 1"),
        (f"axes: {{N: {{from: 1, to: 10000000, step: 1}}}}\n{BASE}{GOOD}", "axes.N = .*at most"),
        (f"axes: {{N: [{{a: 1}}]}}\n{BASE}{GOOD}", "axes.N = .*number, a word"),
        (f"axes: {{a-b: [1]}}\n{BASE}{GOOD}", "axes.a-b.* = .*letters"),
        (f"l2: hot\naxes: {{N: [1]}}\n{BASE}{GOOD}", "l2 = 'hot' .*cold, warm, in_graph"),
        (f"exact: maybe\naxes: {{N: [1]}}\n{BASE}{GOOD}", "exact = 'maybe'"),
        (f"{BASE}{GOOD}", "variable N has no values"),
        (f"axes: {{N: [1], M: [2]}}\n{BASE}{GOOD}", "M: no argument uses"),
        (f"points: [{{N: 1}}, {{M: 1}}]\n{BASE}{GOOD}", "no N"),
        (f"axes: {{N: [8]}}\n{BASE.replace('aclnnMm', 'aclnnMmm')}{GOOD}", "calls.0.op: .*aclnnMm"),
        (f"axes: {{N: [8]}}\n{BASE.replace('910b3', '910c3')}{GOOD}", "products: .*910c3"),
        (f"axes: {{N: [8]}}\n{BASE}{GOOD.replace('mat2', 'mat')}", "calls.0.arguments.mat: .*mat2"),
        (f"axes: {{N: [8]}}\n{BASE}{GOOD.replace('{N},8', '{N,8')}", "partner"),
        (f"axes: {{N: [8]}}\n{BASE}{GOOD.replace('{N},8', '{N}.0,8')}", "no point .* can't read"),
        (f"axes: {{N: [8]}}\n{BASE}{GOOD.replace('{N},8', '{open(N)},8')}", "can't call"),
    ],
)
def test_a_wrong_specification_is_refused_in_words(
    tmp_path: Path, capsys: Capsys, text: str, words: str
) -> None:
    spec = sweeps.write(tmp_path, text)
    said = npusim(capsys, "sweep", spec, "-o", tmp_path / "out.jsonl")
    assert said.code == 2
    assert str(spec) in said.err
    with pytest.raises(FileError, match=f"(?s){words}"):
        expand(read_spec(spec), str(spec))
    assert "Traceback" not in said.err
    assert not (tmp_path / "out.jsonl").exists()


def test_a_specification_that_is_missing_or_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(FileError, match="there is no such file"):
        read_spec(tmp_path / "none.yaml")
    monkeypatch.setattr(expansion, "MAX_POINTS", 11)
    with pytest.raises(FileError, match="more than 11 points"):
        expanded(tmp_path, sweeps.LOSS)


# -- the results -------------------------------------------------------------------------------


def test_rows_say_what_estimate_says(tmp_path: Path, capsys: Capsys) -> None:
    out = tmp_path / "out.jsonl"
    said = npusim(
        capsys, "sweep --workers 1 --json", sweeps.write(tmp_path, sweeps.LOSS), "-o", out
    )
    assert said.code == 0, said.err
    assert said.json["points"] == sweeps.LOSS_POINTS
    assert (said.json["ok"], said.json["rejected"], said.json["error"]) == (9, 3, 0)
    rows = sweeps.rows(out)
    assert sorted(row["index"] for row in rows) == list(range(sweeps.LOSS_POINTS))
    row = next(row for row in rows if row["axes"] == {"n": 4096, "dtype": "bf16"})
    result = Device("Ascend910B3").estimate(row["op"], **row["arguments"])
    assert row["duration_us"] == result.duration_us
    assert row["band_us"] == list(result.band_us)
    assert row["cycles"] == result.cycles
    assert row["pipes"] == dict(result.pipes)
    longest = max(result.tasks, key=lambda task: task.duration_us)
    assert row["block_dim"] == longest.block_dim
    assert row["bytes_written"] == sum(task.bytes_written for task in result.tasks)
    rejected = [row for row in rows if row["status"] == "rejected"]
    assert {row["code"] for row in rejected} == {161002}
    assert all("BFLOAT16" in row["error"] for row in rejected)


def test_a_sweep_takes_every_operator_that_estimate_takes(tmp_path: Path, capsys: Capsys) -> None:
    out = tmp_path / "out.jsonl"
    spec = sweeps.write(tmp_path, sweeps.STANDARD)
    said = npusim(capsys, "sweep --workers 1 --json", spec, "-o", out)
    assert said.code == 0, said.err
    assert said.json["ok"] == said.json["points"] == 20
    for row in sweeps.rows(out):
        result = Device(row["soc"]).estimate(row["op"], **row["arguments"])
        assert row["duration_us"] == result.duration_us
    norms = [row for row in sweeps.rows(out) if row["op"] == "GroupNorm"]
    assert all(row["arguments"]["num_groups"] == 8 for row in norms)


def test_the_command_line_replaces_products_and_the_state_of_l2(
    tmp_path: Path, capsys: Capsys
) -> None:
    spec, times = sweeps.write(tmp_path, sweeps.LOSS), {}
    for l2 in ("cold", "warm"):
        out = tmp_path / f"{l2}.jsonl"
        line = f"sweep --workers 1 -s 910b1 --l2 {l2}"
        assert npusim(capsys, line, spec, "-o", out).code == 0
        rows = sweeps.rows(out)
        assert {row["soc"] for row in rows} == {"Ascend910B1"}
        times[l2] = sum(row["duration_us"] for row in rows)
    assert times["warm"] < times["cold"]


def test_a_point_that_fails_is_a_row(
    tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = sweeps.LOSS.replace('self: "{dtype}[{n}]"', 'self: "{dtype}[{n / 4096}]"')
    estimate = Device.estimate

    def broken(self: Device, op: str, /, **arguments: Any) -> Any:
        if arguments["self"] == "FLOAT[256]":
            raise KeyError("lost")
        return estimate(self, op, **arguments)

    monkeypatch.setattr(Device, "estimate", broken)
    out = tmp_path / "out.jsonl"
    said = npusim(capsys, "sweep --workers 1 --json", sweeps.write(tmp_path, text), "-o", out)
    assert said.code == 1  # not one point has a time: target is longer than self
    rows = {(row["axes"]["n"], row["axes"]["dtype"], row["soc"]): row for row in sweeps.rows(out)}
    assert len(rows) == sweeps.LOSS_POINTS
    unreadable = rows[64, "fp32", "Ascend910B3"]
    assert unreadable["status"] == "error"
    assert "can't read 'fp32[0.015625]'" in unreadable["error"]
    assert rows[4096, "fp32", "Ascend910B3"]["code"] == 161002
    internal = rows[1048576, "fp32", "Ascend910B3"]
    assert internal["status"] == "error"
    assert internal["error"] == "KeyError: internal error: 'lost'"


def test_a_file_isnt_overwritten_unless_told(tmp_path: Path, capsys: Capsys) -> None:
    spec, out = sweeps.write(tmp_path, sweeps.LOSS), tmp_path / "out.jsonl"
    assert npusim(capsys, "sweep --workers 1", spec, "-o", out).code == 0
    before = out.read_bytes()
    again = npusim(capsys, "sweep --workers 1", spec, "-o", out)
    assert again.code == 2
    assert "--resume" in again.err
    assert "--force" in again.err
    assert out.read_bytes() == before
    resumed = npusim(capsys, "sweep --workers 1 --resume --json", spec, "-o", out)
    assert resumed.json["answered_now"] == 0
    assert out.read_bytes() == before
    assert npusim(capsys, "sweep --workers 1 --force", spec, "-o", out).code == 0
    assert out.read_bytes() == before
    both = npusim(capsys, "sweep --resume --force", spec, "-o", out)
    assert both.code == 2


def test_resuming_takes_over_what_a_changed_sweep_shares(tmp_path: Path, capsys: Capsys) -> None:
    out = tmp_path / "out.jsonl"
    table = tmp_path / "out.csv"
    smaller = sweeps.LOSS.replace("[64, 4096, 1048576]", "[4096, 64]")
    assert npusim(capsys, "sweep --workers 1", sweeps.write(tmp_path, smaller), "-o", out).code == 0
    spec = sweeps.write(tmp_path, sweeps.LOSS)
    said = npusim(capsys, "sweep --workers 1 --resume --json", spec, "-o", out, "--csv", table)
    assert said.json["answered_now"] == 4
    listed = list(csv.DictReader(io.StringIO(table.read_text())))
    assert [int(row["index"]) for row in listed] == list(range(sweeps.LOSS_POINTS))
    assert [row["axis_n"] for row in listed[::4]] == ["64", "4096", "1048576"]


@pytest.mark.parametrize("torn", [b"{", b'{"key": "12', b'{"key": "12", "status": "ok"}'])
def test_a_torn_line_at_the_end_is_dropped(tmp_path: Path, torn: bytes) -> None:
    whole = b'{"key": "a", "status": "ok"}\n'
    path = tmp_path / "out.jsonl"
    path.write_bytes(whole + torn)
    assert [row["key"] for row in read_rows(path)] == ["a"]
    with ResultFile(path, resume=True) as results:
        assert results.keys == {"a"}
        results.append(b'{"key": "b", "status": "ok"}\n')
    assert [row["key"] for row in sweeps.rows(path)] == ["a", "b"]


@pytest.mark.parametrize(
    "content",
    [b"my notes", b"my notes\n", b'{"key": 3, "status": "ok"}\n', b"[1]\n", b"\xff\n", b"{}\n{\n"],
)
def test_a_file_of_someone_else_stays_untouched(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(FileError, match="no result of a sweep"):
        ResultFile(path, resume=True)
    assert path.read_bytes() == content


def test_two_sweeps_dont_write_to_one_file(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    path = tmp_path / "out.jsonl"
    with ResultFile(path), pytest.raises(FileError, match="another sweep"):
        ResultFile(path, force=True)
    with pytest.raises(FileError, match="doesn't exist"):
        ResultFile(tmp_path / "none" / "out.jsonl")


def test_a_full_disk_is_said_in_words(tmp_path: Path) -> None:
    class Full(io.BytesIO):
        def write(self, line: Any) -> int:
            return super().write(line[:7])

    with ResultFile(tmp_path / "out.jsonl") as results:
        results._stream.close()
        results._stream = Full()
        with pytest.raises(FileError, match="disk is full"):
            results.append(b'{"key": "a", "status": "ok"}\n')
    if Path("/dev/full").exists():
        with pytest.raises(FileError, match="no file that could be read again"):
            ResultFile("/dev/full")


# -- processes that end early ------------------------------------------------------------------

posix = pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")


@posix
def test_a_killed_sweep_resumes_without_losing_or_repeating_a_point(
    tmp_path: Path, capsys: Capsys
) -> None:
    spec, out, whole = (tmp_path / name for name in ("spec.yaml", "out.jsonl", "whole.jsonl"))
    spec.write_text(sweeps.NORM)
    process = sweeps.start(spec, out, "--workers", "2")
    sweeps.wait_for_lines(process, out, 5)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    done = list(read_rows(out))
    assert 5 <= len(done) < sweeps.NORM_POINTS
    said = npusim(capsys, "sweep --workers 2 --resume --json", spec, "-o", out)
    assert said.code == 0, said.err
    assert said.json["answered_now"] == sweeps.NORM_POINTS - len(done)
    assert npusim(capsys, "sweep --workers 1", spec, "-o", whole).code == 0
    assert sweeps.lines(out) == sweeps.lines(whole)


@posix
def test_ctrl_c_leaves_a_valid_file_and_exits_130(tmp_path: Path) -> None:
    spec, out = sweeps.write(tmp_path, sweeps.NORM), tmp_path / "out.jsonl"
    process = sweeps.start(spec, out, "--workers", "2")
    sweeps.wait_for_lines(process, out, 5)
    os.killpg(process.pid, signal.SIGINT)  # a terminal sends it to the whole group
    said, complained = process.communicate(timeout=30)
    assert process.returncode == 130
    assert said == ""
    done = sweeps.rows(out)
    assert f"{len(done)} of {sweeps.NORM_POINTS} points" in complained
    assert "--resume" in complained
    assert "Traceback" not in complained
    assert 5 <= len({row["key"] for row in done}) == len(done) < sweeps.NORM_POINTS


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")
def test_the_workers_of_a_killed_process_end_too(tmp_path: Path) -> None:
    def members(group: int) -> list[int]:
        found = []
        for file in Path("/proc").glob("[0-9]*/stat"):
            try:
                state, _, its_group = file.read_text().rpartition(")")[2].split()[:3]
            except OSError:
                continue
            if int(its_group) == group and state != "Z":
                found.append(int(file.parent.name))
        return found

    spec, out = sweeps.write(tmp_path, sweeps.NORM), tmp_path / "out.jsonl"
    process = sweeps.start(spec, out, "--workers", "2")
    sweeps.wait_for_lines(process, out, 2)
    assert len(members(process.pid)) > 2
    process.kill()
    process.communicate(timeout=30)  # ends when nobody holds standard output open any more
    deadline = time.monotonic() + 30
    while members(process.pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert members(process.pid) == []


@posix
def test_a_local_worker_that_dies_loses_no_point(tmp_path: Path) -> None:
    sweep = expanded(tmp_path, sweeps.NORM)
    crew = LocalCrew(2)
    answers: list[Answered] = []

    def take(answered: Answered) -> None:
        if not answers:
            os.kill(next(iter(crew.executor._processes)), signal.SIGKILL)  # type: ignore[attr-defined]
        answers.append(answered)

    try:
        run(sweep.points, sweep.chips, crew, take)
    finally:
        crew.close(at_once=True)
    assert {answered.key for answered in answers} == sweep.keys
    assert len(answers) == len(sweep.points)
    assert {answered.status for answered in answers} == {"ok"}


@pytest.mark.parametrize("busy", [False, True])
def test_a_worker_that_is_handing_over_is_not_ended_in_the_middle(
    monkeypatch: pytest.MonkeyPatch, busy: bool
) -> None:
    """Whoever reads half of a report would wait for the rest for ever."""

    def ended(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr("os._exit", ended)
    begun: list[float] = []

    def begin(_: float) -> None:
        assert len(begun) < 3, "a chunk is under way"
        begun.append(0.0)
        if len(begun) == 3:
            working._under_way.add("the next chunk")

    monkeypatch.setattr("time.sleep", begin)
    if busy:
        working._under_way.add("a chunk")
    try:
        with pytest.raises(SystemExit):
            working.end_process()
    finally:
        working._under_way.clear()
    assert len(begun) == (0 if busy else 3)


class Fragile:
    """A crew of one whose worker dies of certain points, as of too little memory."""

    workers = 2
    lost = (BrokenProcessPool,)

    def __init__(self, deadly: set[int]) -> None:
        self.deadly = deadly
        self.executor: Any = self
        self.renewed = 0
        self.broken = False

    def submit(self, fn: Any, chunk: Chunk) -> Future[Any]:
        if self.broken:
            raise BrokenProcessPool("broken before")
        future: Future[Any] = Future()
        if any(point.index in self.deadly for point in chunk.points):
            self.broken = True
            future.set_exception(BrokenProcessPool("died"))
        else:
            future.set_result(fn(chunk))
        return future

    def renew(self) -> None:
        self.broken = False
        self.renewed += 1

    def close(self, *, at_once: bool) -> None:
        """Nothing to close."""


def test_only_the_point_that_kills_its_worker_is_given_up(tmp_path: Path) -> None:
    sweep = expanded(tmp_path, sweeps.LOSS)
    crew, answers = Fragile({2, 7}), list[Answered]()
    run(sweep.points, sweep.chips, crew, answers.append)
    assert sorted(answered.key for answered in answers) == sorted(sweep.keys)
    failures = {json.loads(each.line)["index"] for each in answers if each.status == "error"}
    assert failures == {2, 7}
    assert "died" in next(each.line.decode() for each in answers if each.status == "error")
    assert crew.renewed >= TRIES


def test_a_scheduler_that_goes_away_ends_the_sweep_in_words(tmp_path: Path) -> None:
    gone: Future[Any] = Future()
    gone.cancel()
    gone.set_running_or_notify_cancel()
    crew = Fragile(set())
    crew.executor = SimpleNamespace(submit=lambda *_: gone)
    sweep = expanded(tmp_path, sweeps.LOSS)
    with pytest.raises(RejectedError, match="scheduler has gone away"):
        run(sweep.points, sweep.chips, crew, print)


def test_a_worker_with_another_npusim_is_refused(tmp_path: Path) -> None:
    sweep = expanded(tmp_path, sweeps.LOSS)
    point = sweep.points[0]
    with pytest.raises(RejectedError, match="npusim"):
        work(Chunk("another", {point.chip: point.soc}, (point,)))
    with pytest.raises(RejectedError, match="profile of Ascend310P3"):
        work(Chunk(package.__version__, {point.chip: "Ascend310P3"}, (point,)))


def test_a_profile_of_ones_own_travels_with_its_points(tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text("inherits: Ascend910B3\nname: Mine\n")
    sweep = expanded(tmp_path, sweeps.LOSS, products=[str(mine)])
    mine.unlink()  # as on another machine
    answers: list[Answered] = []
    crew = LocalCrew(2)
    try:
        run(sweep.points, sweep.chips, crew, answers.append)
    finally:
        crew.close(at_once=False)
    assert {json.loads(each.line)["soc"] for each in answers} == {"Mine"}
    assert {each.status for each in answers} == {"ok"}


# -- tables and figures --------------------------------------------------------------------------


def test_one_command_writes_rows_table_and_figure(tmp_path: Path, capsys: Capsys) -> None:
    table, plot = tmp_path / "out.csv", tmp_path / "out.png"
    spec = sweeps.write(tmp_path, sweeps.LOSS)
    files = ["-o", tmp_path / "out.jsonl", "--csv", table, "--plot", plot]
    said = npusim(capsys, "sweep --workers 1 --x n", spec, *files)
    assert said.code == 0
    assert "aclnnBinaryCrossEntropyBackward" in said.out
    assert plot.read_bytes().startswith(b"\x89PNG")
    listed = list(csv.DictReader(io.StringIO(table.read_text())))
    assert len(listed) == sweeps.LOSS_POINTS
    first = listed[0]
    assert (first["axis_n"], first["axis_dtype"], first["status"]) == ("64", "fp32", "ok")
    assert 0 < float(first["busy_MTE2"]) < 1
    assert float(first["band_low_us"]) < float(first["duration_us"]) < float(first["band_high_us"])
    assert json.loads(first["arguments"])["self"] == "FLOAT[64]"


def grid(rows: int, columns: int, kind: str = "fp16") -> list[dict[str, Any]]:
    """Rows of a sweep over x and y on two chips, one of which rejects everything."""
    done = [
        {
            "op": "aclnnMm",
            "soc": "A",
            "axes": {"x": x, "y": y, "dtype": kind},
            "status": "ok",
            "code": 0,
            "duration_us": float(1 + x * y),
            "band_us": [0.5 + x * y, 2.0 + x * y],
        }
        for x in range(1, columns + 1)
        for y in range(1, rows + 1)
    ]
    refused = [{**row, "soc": "B", "status": "rejected", "code": 161002} for row in done]
    return [*done, *refused]


AXES = ("x", "y", "dtype")


def test_two_axes_make_a_heat_map_with_a_panel_for_each_product() -> None:
    drawing = report.figure([*grid(3, 4), *grid(3, 4, "fp32")], AXES)
    panels = [panel for panel in drawing.axes if panel.get_xlabel() == "x"]
    assert [panel.get_title() for panel in panels] == [
        f"aclnnMm\n{soc} dtype={kind}" for kind in ("fp16", "fp32") for soc in "AB"
    ]
    assert panels[0].get_ylabel() == "y"
    mesh = panels[0].collections[0].get_array()
    assert mesh is not None
    assert mesh.tolist() == [[1.0 + x * y for x in range(1, 5)] for y in range(1, 4)]
    assert [text.get_text() for text in panels[1].texts] == ["rejected: 161002"]


def test_one_axis_makes_lines() -> None:
    for rows, x in ((grid(1, 5), ""), (grid(3, 5), "x")):
        drawing = report.figure(rows, AXES, x=x)
        panel = drawing.axes[0]
        assert panel.get_xlabel() == "x"
        first = panel.lines[0]
        assert list(first.get_xdata()) == [1, 2, 3, 4, 5]
        assert list(first.get_ydata()) == [2.0, 3.0, 4.0, 5.0, 6.0]
    assert [str(line.get_label()) for line in panel.lines] == ["y=1", "y=2", "y=3"]


def test_wide_ranges_are_drawn_on_logarithmic_axes_beside_empty_panels() -> None:
    rows = [
        {**row, "axes": {"x": 10 ** row["axes"]["x"]}, "duration_us": 10.0 ** row["axes"]["x"]}
        for row in grid(1, 3)
    ]
    panels = report.figure(rows, ("x",)).axes
    assert panels[0].get_xscale() == panels[0].get_yscale() == "log"
    assert report.figure_bytes(rows, ("x",), "png")


def test_variables_that_move_together_are_one_choice() -> None:
    rows = [
        {**row, "axes": {"w": 2 * row["axes"]["x"], "h": row["axes"]["x"], "n": row["axes"]["y"]}}
        for row in grid(3, 4)
    ]
    assert report.choose(rows, ("w", "h", "n")) == report.Choice("w", "n", ())
    assert report.choose(rows, ("w", "h", "n"), x="n") == report.Choice("n", "", ("w",))


def test_every_operator_has_its_share_of_a_large_figure() -> None:
    rows = [
        {**row, "op": op, "axes": {**row["axes"], "dtype": f"kind {number}"}}
        for op, count in (("first", 20), ("second", 2))
        for number in range(count)
        for row in grid(2, 2)
    ]
    drawing = report.figure(rows, AXES)
    titles = [panel.get_title() for panel in drawing.axes if panel.get_title()]
    assert sum("first" in title for title in titles) == 2 * report.MOST_LINES // 2
    assert sum("second" in title for title in titles) == 2 * 2
    assert "8 of 22" in drawing._supxlabel.get_text()  # type: ignore[attr-defined]


def test_words_can_be_an_axis_too() -> None:
    rows = [*grid(1, 1, "fp16"), *grid(1, 1, "bf16")]
    panel = report.figure(rows, AXES).axes[0]
    assert [label.get_text() for label in panel.get_xticklabels()] == ["fp16", "bf16"]


@pytest.mark.parametrize(("kind", "magic"), [("svg", b"<?xml"), ("png", b"\x89PNG")])
def test_a_figure_is_a_file_and_always_the_same(kind: str, magic: bytes) -> None:
    drawn = report.figure_bytes(grid(2, 2), AXES, kind)
    assert drawn.startswith(magic)
    assert report.figure_bytes(grid(2, 2), AXES, kind) == drawn


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--plot f.pdf", "FILE.svg or FILE.png"),
        ("--plot f.svg --x m", "unknown axis"),
        ("--plot f.svg --y n", "another axis as --x"),
        ("--plot f.svg --x n --y n", "another axis as --x"),
        ("--x n", "--plot"),
        ("--plot none/f.svg", "doesn't exist"),
        ("--csv none/f.csv", "doesn't exist"),
        ("--l2 hot", "hot"),
        ("-s 910z9", "910z9"),
    ],
)
def test_wrong_options_are_refused_before_the_work(
    tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch, options: str, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    said = npusim(capsys, f"sweep {options}", sweeps.write(tmp_path, sweeps.LOSS))
    assert said.code == 2
    assert words in said.err
    assert [file.name for file in tmp_path.iterdir()] == ["spec.yaml"]


def test_the_example_in_the_repository_is_right() -> None:
    spec = sweeps.ROOT / "reports" / "sweep_example.yaml"
    sweep = expand(read_spec(spec), str(spec))
    assert len({point.op for point in sweep.points}) == 5
    assert len(sweep.chips) == 3
    assert not [point for point in sweep.points if point.problem]
    assert load_profile("Ascend910B3") in sweep.chips.values()
