"""The profilers' own files: exact columns, honest gaps, sums that agree, always the same bytes."""

from __future__ import annotations

import csv
import itertools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import npusim
from npusim.engine import Pipe
from npusim.model.kernel_csv import KernelRows
from npusim.reporting import msprof
from npusim.reporting.msprof import SummaryTask, in_order, op_statistic, op_summary, write_folder
from npusim.reporting.msprof.columns import cell, columns_of, tables_of
from npusim.reporting.msprof.folder import CODE_COLUMNS, INSTRUCTION_COLUMNS
from npusim.values.errors import ArgumentError, OutputExistsError
from support import commands
from support.paths import DATA

if TYPE_CHECKING:
    from collections.abc import Callable

    from npusim.runtime.results import Result
    from npusim.runtime.work import TaskWork

WHEN = "20260102030405"
MIB = 2**20
COLUMNS: dict[str, Any] = json.loads((DATA / "msprof_columns.json").read_text())

# What npusim doesn't model: these columns are there, and empty in the profiler's way.
NEVER_KNOWN = (
    "Pid",
    "aiv_vec_fops",
    "aiv_icache_miss_rate",
    "aiv_scalar_single_time(us)",
    "aiv_vec_bank_cflt_ratio",
    "aiv_r0_read_cache_hit",
    "GM_to_UB_bw_usage_rate(%)",
    "aiv_ub_read_bw_vector(GB/s)",
    "aic_icache_miss_rate",
    "aic_vec_fops",
    "aic_l0c_read_bw_cube(GB/s)",
    "aic_vec_resc_cflt_ratio",
)


def norm(soc: str, **more: Any) -> Result:
    spec = npusim.TensorSpec
    arguments = {
        "gradOut": spec((4, 32, 256), "float32"),
        "input": spec((4, 32, 256), "float32"),
        "mean": spec((4, 8), "float32"),
        "rstd": spec((4, 8), "float32"),
        "gamma": None,
        "N": 4,
        "C": 32,
        "HxW": 256,
        "group": 8,
        "outputMask": [True, True, True],
    }
    return npusim.Device(soc).estimate("aclnnGroupNormBackward", **(arguments | more))


def product(soc: str, dtype: str = "float16") -> Result:
    return npusim.Device(soc).estimate(
        "aclnnMm",
        self=npusim.TensorSpec((256, 512), dtype),
        mat2=npusim.TensorSpec((512, 256), dtype),
        cubeMathType=1,
    )


def mixed(soc: str) -> Result:
    """A call whose kernel runs on cube and vector cores at once."""
    return npusim.Device(soc).estimate(
        "aclnnUpsampleNearestExact1dBackward",
        gradOutput=npusim.TensorSpec((8, 32, 2048), "float32"),
        outputSize=[2048],
        inputSize=[8, 32, 1024],
        scales=0.0,
    )


CALLS: dict[str, Callable[[], Result]] = {
    "A2 vector": lambda: norm("Ascend910B3"),
    "A2 cube": lambda: product("Ascend910B3"),
    "A2 mix": lambda: mixed("Ascend910B3"),
    "310P": lambda: product("Ascend310P3"),
    "910A": lambda: norm("Ascend910A"),
}


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


@pytest.fixture(scope="module", params=list(CALLS))
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The folder of a call, and the call."""
    result = CALLS[request.param]()
    target = tmp_path_factory.mktemp("profiles") / "new"
    return write_folder(result, target, timestamp=WHEN).path, result


def metric_files(folder: Path, index: int, result: Result) -> dict[str, Path]:
    """The metric files of one task by their name without suffix."""
    name = result.tasks[index].name
    nth = [task.name for task in result.tasks[:index]].count(name)
    place = folder / name / str(nth) if len(result.tasks) > 1 else folder
    return {path.name.split(".")[0].split("_")[0]: path for path in place.glob("*.csv")}


# -- columns -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "table"), [("split", columns_of("split")), ("fused", columns_of("unified"))]
)
def test_the_columns_are_those_of_the_profiler(
    kind: str, table: dict[str, tuple[str, ...]]
) -> None:
    assert {file: list(columns) for file, columns in table.items()} == COLUMNS[kind]


def test_every_file_has_its_columns_and_rows(written: tuple[Path, Result]) -> None:
    folder, result = written
    split = result.timeline.profile.cores.style == "split"
    expected = COLUMNS["split" if split else "fused"]
    for index, work in enumerate(result.timeline.work()):
        files = metric_files(folder, index, result)
        assert set(files) == set(expected)
        cores = sum(len(group.places) for group in work.cores)
        for name, path in files.items():
            lines = list(csv.reader(path.read_text().splitlines()))
            assert lines[0] == expected[name]
            assert {len(line) for line in lines} == {len(expected[name])}
            assert all(field for line in lines for field in line)
            assert len(lines) - 1 == (cores if split and name != "OpBasicInfo" else 1)


def test_what_is_not_modelled_is_na_and_the_rest_a_number(written: tuple[Path, Result]) -> None:
    folder, result = written
    texts = ("Op Name", "Op Type", "sub_block_id")
    for index in range(len(result.tasks)):
        for path in metric_files(folder, index, result).values():
            for row in rows_of(path):
                for column, value in row.items():
                    if column in NEVER_KNOWN:
                        assert value == "NA", column
                    elif value != "NA" and column not in texts:
                        assert float(value) >= 0, column


def test_the_calls_cover_every_kind_of_core() -> None:
    kinds = [kinds_of(CALLS[call]()) for call in ("A2 vector", "A2 cube", "A2 mix")]
    assert kinds == [{("vector",)}, {("cube",)}, {("cube", "vector")}]


def kinds_of(result: Result) -> set[tuple[str, ...]]:
    return {work.kinds for work in result.timeline.work()}


def test_names_and_blocks_are_told_apart(written: tuple[Path, Result]) -> None:
    folder, result = written
    basic = rows_of(metric_files(folder, 0, result)["OpBasicInfo"])[0]
    assert basic["Op Name"] == result.tasks[0].name
    assert float(basic["Task Duration(us)"]) == pytest.approx(result.tasks[0].duration_us, abs=1e-5)
    if result.timeline.profile.cores.style != "split":
        assert basic["Op Type"] == "AiCore"
        return
    rows = rows_of(metric_files(folder, 0, result)["PipeUtilization"])
    units = {row["sub_block_id"] for row in rows}
    kinds = {"vector": {"vector0"}, "cube": {"cube0"}, "mix": {"cube0", "vector0", "vector1"}}
    assert units == kinds[basic["Op Type"]]
    assert (basic["Mix Block Dim"] == "NA") == (basic["Op Type"] != "mix")
    for row in rows:  # a core has the columns of its own kind only
        mine, other = ("aic", "aiv") if row["sub_block_id"] == "cube0" else ("aiv", "aic")
        assert row[f"{mine}_time(us)"] != "NA"
        assert row[f"{other}_time(us)"] == "NA"


# -- sums --------------------------------------------------------------------------------------


def test_pipes_add_up_to_the_result(written: tuple[Path, Result]) -> None:
    folder, result = written
    clock = result.timeline.profile.clock_mhz
    for index, task in enumerate(result.tasks):
        rows = rows_of(metric_files(folder, index, result)["PipeUtilization"])
        core_us = task.duration_us - task.launch_us
        for row in rows:
            for mine in ("aic", "aiv"):
                time = row.get(f"{mine}_time(us)", "NA")
                if time == "NA":
                    continue
                assert float(time) <= core_us + 1e-5
                scalar = float(row[f"{mine}_scalar_ratio"]) * float(time)
                assert scalar == pytest.approx(float(row[f"{mine}_scalar_time(us)"]), abs=1e-4)
                if len(rows) > 1:
                    cycles = float(row[f"{mine}_total_cycles"])
                    assert cycles == pytest.approx(float(time) * clock, abs=0.6)


def test_bytes_add_up_to_the_result(written: tuple[Path, Result]) -> None:
    folder, result = written
    for index, task in enumerate(result.tasks):
        rows = rows_of(metric_files(folder, index, result)["Memory"])
        if "read_main_memory_datas(KB)" not in rows[0]:
            time_us = float(rows[0]["aic_time(us)"])
            read = float(rows[0]["aic_main_mem_read_bw(GB/s)"]) * time_us * 1e3
            assert read == pytest.approx(task.bytes_read, rel=1e-4)
            continue
        read = sum(float(row["read_main_memory_datas(KB)"]) for row in rows) * 1024
        written_ = sum(float(row["write_main_memory_datas(KB)"]) for row in rows) * 1024
        assert read == pytest.approx(task.bytes_read, rel=1e-6)
        assert written_ == pytest.approx(task.bytes_written, rel=1e-6)


def test_flops_are_those_of_the_product(tmp_path: Path) -> None:
    result = product("Ascend910B3")
    folder = write_folder(result, tmp_path, timestamp=WHEN).path
    rows = rows_of(folder / "ArithmeticUtilization.csv")
    assert sum(int(row["aic_cube_fops"]) for row in rows) >= 2 * 256 * 512 * 256
    assert all(0 < float(row["aic_cube_fp16_ratio"]) <= 1 for row in rows)


def test_lines_and_instructions_tell_where_the_cycles_go(written: tuple[Path, Result]) -> None:
    folder, result = written
    place = folder if len(result.tasks) == 1 else folder / result.tasks[0].name / "0"
    work: TaskWork = result.timeline.work()[0]
    for group in work.cores:
        for core in group.places[:2]:
            stem = place / "simulator" / core.core
            code = rows_of(next(stem.glob("*_code_exe*.csv")))
            instructions = rows_of(next(stem.glob("*_instr_exe*.csv")))
            assert tuple(code[0]) == CODE_COLUMNS
            assert tuple(instructions[0]) == INSTRUCTION_COLUMNS
            busy = sum(group.busy.values())
            waited = group.busy.get(Pipe.FIXP, 0.0)  # inside the pipe, for sums to be complete
            for rows in (code, instructions):
                total = sum(float(row["running_time(us)"]) for row in rows) * work.clock_mhz
                # Pipes are busy until the last of what they move has arrived.
                assert busy - waited - 1000 < total < busy + 1
            cycles = [float(row["cycles"]) for row in code]
            assert cycles == sorted(cycles, reverse=True)


def test_work_counts_what_the_timeline_shows() -> None:
    """Added up without unfolding or slice by slice: the same executions and the same time."""
    result = norm("Ascend910B3", gamma=npusim.TensorSpec((32,), "float32"))
    group = result.timeline.work()[0].cores[0]
    core = group.places[0].core
    slices = list(result.timeline.slices({core}))
    assert len(slices) == sum(step.times for step in group.steps)
    shown_us = sum(each.duration_us for each in slices)
    added_us = sum(step.cycles for step in group.steps) / result.timeline.profile.clock_mhz
    assert shown_us == pytest.approx(added_us, rel=1e-9)
    assert sum(each.bytes for each in slices) == sum(step.bytes for step in group.steps)


# -- the folder --------------------------------------------------------------------------------


def test_the_trace_is_in_its_place(written: tuple[Path, Result]) -> None:
    folder, _ = written
    trace = json.loads((folder / "simulator" / "trace.json").read_text())
    assert list(trace) == ["profilingType", "schemaVersion", "displayTimeUnit", "traceEvents"]
    lanes: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            lane = lanes.setdefault((event["pid"], event["tid"]), [])
            lane.append((event["ts"], event["ts"] + event["dur"]))
    for lane in lanes.values():
        lane.sort()
        assert all(start >= end - 1e-9 for (_, end), (start, _) in itertools.pairwise(lane))


def test_several_tasks_have_a_folder_each(tmp_path: Path) -> None:
    result = product("Ascend310P3")
    folder = write_folder(result, tmp_path, timestamp=WHEN).path
    assert len(result.tasks) > 1
    assert not list(folder.glob("*.csv"))
    for index, task in enumerate(result.tasks):
        files = metric_files(folder, index, result)
        assert files["Memory"].name == f"Memory_{WHEN}000.csv"
        assert files["Memory"].parent.parent.name == task.name


def test_the_same_call_gives_the_same_bytes(tmp_path: Path) -> None:
    one = write_folder(product("Ascend310P3"), tmp_path / "a", timestamp=WHEN).path
    two = write_folder(product("Ascend310P3"), tmp_path / "b", timestamp=WHEN).path
    other = write_folder(product("Ascend910A"), tmp_path / "b", timestamp=WHEN).path
    assert one.name == two.name != other.name
    assert files_of(one) == files_of(two)
    assert one.name.startswith(f"OPPROF_{WHEN}_")
    assert len(one.name.rpartition("_")[2]) == 16


def test_nothing_is_overwritten_or_left_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = norm("Ascend910A")
    folder = write_folder(result, tmp_path, timestamp=WHEN).path
    (folder / "mine.txt").write_text("mine")
    with pytest.raises(OutputExistsError):
        write_folder(result, tmp_path, timestamp=WHEN)
    assert (folder / "mine.txt").exists()
    assert write_folder(result, tmp_path, timestamp=WHEN, force=True).path == folder
    assert not (folder / "mine.txt").exists()

    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("the disk is gone")

    monkeypatch.setattr("npusim.reporting.msprof.folder.write_trace", broken)
    with pytest.raises(RuntimeError, match="disk is gone"):
        write_folder(result, tmp_path, timestamp="20260102030406")
    assert [each.name for each in tmp_path.iterdir()] == [folder.name]


@pytest.mark.parametrize("text", ["", "today", "2026-01-02", "202601020304056"])
def test_a_timestamp_has_14_digits(text: str, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="14 digits"):
        msprof.checked_timestamp(text)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.5, "1.5"),
        (2.0, "2"),
        (0.0, "0"),
        (1e-9, "0"),
        (123456789.25, "123456789.25"),
        (1e16, "10000000000000000"),
        (7, "7"),
        ("NA", "NA"),
    ],
)
def test_numbers_have_no_idle_digits(value: float | str, text: str) -> None:
    assert cell(value) == text


# -- op_summary and op_statistic ---------------------------------------------------------------


def summary_of(soc: str) -> tuple[tuple[SummaryTask, ...], Any]:
    result = product(soc)
    spec = npusim.TensorSpec
    profile = result.timeline.profile
    tasks = (
        *SummaryTask.of(
            "layer1/mm",
            "MatMulV3",
            result.tasks,
            (spec((256, 512), "float16"), None, spec((), "bfloat16")),
            (spec((256, 256), "float16"),),
            profile=profile,
        ),
        SummaryTask("allReduce", "HcomAllReduce", 12.5, task_type="COMMUNICATION"),
    )
    return in_order(tasks, gap_us=3.0), profile


@pytest.mark.parametrize("soc", ["Ascend910B3", "Ascend310P3"])
def test_a_summary_is_read_back_as_a_profile(soc: str, tmp_path: Path) -> None:
    """What a model run writes is what `--model` reads, whoever wrote it."""
    tasks, profile = summary_of(soc)
    summary, statistic = msprof.write_op_summary(tasks, tmp_path / "m", profile, timestamp=WHEN)
    assert [summary.name, statistic.name] == [f"op_summary_{WHEN}.csv", f"op_statistic_{WHEN}.csv"]
    kernels = list(KernelRows(summary))
    assert [kernel.op_type for kernel in kernels] == [task.op_type for task in tasks]
    for kernel, task in zip(kernels, tasks, strict=True):
        assert kernel.duration_us == pytest.approx(task.duration_us, abs=1e-5)
    with pytest.raises(OutputExistsError):
        msprof.write_op_summary(tasks, tmp_path / "m", profile, timestamp=WHEN)


@pytest.mark.parametrize("soc", ["Ascend910B3", "Ascend910A"])
def test_the_summary_says_na_its_own_way(soc: str) -> None:
    tasks, profile = summary_of(soc)
    rows = list(csv.DictReader(op_summary(tasks, profile).splitlines()))
    assert tuple(rows[0])[:21] == tables_of("model_run")["common"]
    assert rows[-1]["Input Shapes"] == rows[-1]["Block Num"] == "N/A"
    assert all(value != "NA" for row in rows for value in row.values())
    prefixed = any(name.startswith("aic_") for name in rows[0])
    assert prefixed == (soc == "Ascend910B3")


def test_shapes_and_dtypes_are_joined_as_msprof_does() -> None:
    tasks, profile = summary_of("Ascend910B3")
    row = next(csv.DictReader(op_summary(tasks, profile).splitlines()))
    assert row["Input Shapes"] == '"256,512;;"'
    assert row["Input Data Types"] == "FLOAT16;DT_UNDEFINED;DT_BF16"
    assert row["Input Formats"] == "ND;NULL;ND"
    assert row["Task Type"] == "AI_CORE"
    assert float(row["aic_mac_ratio"]) > 0
    assert float(row["aiv_vec_ratio"]) == 0


def test_waits_are_the_gaps_between_tasks() -> None:
    tasks, profile = summary_of("Ascend310P3")
    rows = list(csv.DictReader(op_summary(tasks, profile).splitlines()))
    assert [float(row["Task Wait Time(us)"]) for row in rows] == pytest.approx(
        [0.0] + [3.0] * (len(rows) - 1), abs=1e-5
    )


def test_the_statistic_adds_up() -> None:
    tasks = (
        SummaryTask("a", "Add", 3.0, task_type="AI_VECTOR_CORE"),
        SummaryTask("b", "MatMulV3", 10.0, task_type="AI_CORE"),
        SummaryTask("c", "Add", 5.0, task_type="AI_VECTOR_CORE"),
    )
    rows = list(csv.DictReader(op_statistic(tasks).splitlines()))
    assert tuple(rows[0]) == tables_of("model_run")["op_statistic"]
    assert [row["OP Type"] for row in rows] == ["MatMulV3", "Add"]
    assert rows[1]["Count"] == "2"
    assert (rows[1]["Min Time(us)"], rows[1]["Avg Time(us)"]) == ("3", "4")
    assert sum(float(row["Ratio(%)"]) for row in rows) == pytest.approx(100, abs=1e-4)


# -- the command line --------------------------------------------------------------------------

SMALL = (
    "gradOut=fp32[2,8,16] input=fp32[2,8,16] mean=fp32[2,4] rstd=fp32[2,4] gamma=null "
    "N=2 C=8 HxW=16 group=4 outputMask=true,true,true"
)


@pytest.mark.parametrize("verb", ["estimate", "run"])
def test_both_verbs_write_a_profile(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = f"{verb} GroupNormBackward -s 910b3 {SMALL} --format msprof --timestamp {WHEN} -o"
    said = commands.npusim(capsys, line, tmp_path / "here")
    assert said.code == 0
    (folder,) = (tmp_path / "here").iterdir()
    assert str(folder) in said.err
    assert list(folder.rglob("PipeUtilization*.csv"))
    again = commands.npusim(capsys, line, tmp_path / "here")
    assert again.code == 2
    assert "already exists" in again.err
    assert commands.npusim(capsys, f"{line} {tmp_path / 'here'} --force").code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("-s 910b3 --format msprof", "which"),
        ("-s all --format msprof -o {folder}", "one chip"),
        ("-s 910b3 --format msprof --timestamp noon -o {folder}", "14 digits"),
        ("-s 910b3 --format msprof -o {folder}/no/such", "can't be written"),
    ],
)
def test_a_profile_that_cannot_be_written_is_one_sentence(
    words: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = f"run GroupNormBackward {SMALL} {words.format(folder=tmp_path)}"
    said = commands.npusim(capsys, line)
    assert said.code == 2
    assert message in said.err or "folder" in said.err
    assert list(tmp_path.iterdir()) == []


def test_a_trace_is_no_longer_than_viewers_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tables are of all cores all the same."""
    result = norm("Ascend910B3")
    whole = write_folder(result, tmp_path / "whole", timestamp=WHEN)
    assert whole.traced_cores == whole.cores > 2
    monkeypatch.setattr("npusim.reporting.msprof.folder._MOST_SLICES", whole.slices // 3)
    part = write_folder(result, tmp_path / "part", timestamp=WHEN)
    assert 0 < part.traced_cores < whole.cores
    assert part.slices <= whole.slices // 3
    assert part.files == whole.files
    assert part.path.name == whole.path.name


MODEL = """
calls:
  - op: aclnnMatmul
    count: 2
    arguments: {self: "bf16[64,128]", mat2: "bf16[128,64]", cubeMathType: 0}
  - {op: NobodyKnows, inputs: ["bf16[64,64]"], outputs: ["bf16[64,64]"]}
"""


@pytest.mark.parametrize("soc", ["Ascend910B3", "Ascend310P3"])
def test_a_model_step_is_written_as_an_operator_summary(
    soc: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "model.yaml"
    file.write_text(MODEL, encoding="utf-8")
    line = f"model {file} -s {soc} --dispatch-us 40 --json --timestamp {WHEN} --format msprof -o"
    said = commands.npusim(capsys, line, tmp_path / "out")
    # There it runs in FLOAT16 only; elsewhere one operator isn't known.
    assert said.code == (1 if soc == "Ascend310P3" else 3), said.err
    answer = said.json["answers"][0]
    summary = tmp_path / "out" / f"op_summary_{WHEN}.csv"
    rows = list(csv.DictReader(summary.read_text().splitlines()))
    assert sum(float(row["Task Duration(us)"]) for row in rows) == pytest.approx(
        answer["device_us"], rel=1e-5
    )
    last = rows[-1]
    end_us = float(last["Task Start Time(us)"]) + float(last["Task Duration(us)"])
    assert end_us == pytest.approx(answer["duration_us"], rel=1e-5)
    assert (last["OP Type"], last["aicore_time(us)"]) == ("NobodyKnows", "N/A")
    assert rows[0]["Input Shapes"] == '"64,128;128,64"'
    half = "DT_BF16" if soc == "Ascend910B3" else "FLOAT16"
    assert rows[0]["Input Data Types"] == f"{half};{half}"
    assert "MatMulV2" in {row["OP Type"] for row in rows}
    assert len(list(KernelRows(summary))) == len(rows)
    assert (tmp_path / "out" / f"op_statistic_{WHEN}.csv").is_file()
    again = commands.npusim(capsys, line, tmp_path / "out")
    assert (again.code, "already exists" in again.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("-s 910b3 --format msprof", "writes a folder"),
        ("-s 910b3 -o {folder}/out", "--format msprof -o DIR"),
        ("-s 910b3 --format npz -o {folder}/out", "--format msprof -o DIR"),
        ("-s 910b3,310p3 --format msprof -o {folder}/out", "one chip"),
        ("-s 910b3 --format msprof --timestamp noon -o {folder}/out", "14 digits"),
        ("-s 910b3 --format msprof -o {folder}/no/such", "can't be written"),
    ],
)
def test_a_summary_that_cannot_be_written_is_one_sentence(
    words: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "model.yaml"
    file.write_text(MODEL, encoding="utf-8")
    said = commands.npusim(capsys, f"model {file} {words.format(folder=tmp_path)}")
    assert said.code == 2
    assert message in said.err
    assert list(tmp_path.iterdir()) == [file]


def test_a_summary_has_a_row_for_each_task_and_so_a_limit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "model.yaml"
    call = "{op: aclnnRelu, count: 1000000, arguments: {self: 'fp16[4]'}}"
    file.write_text(f"calls: [{call}]\n", encoding="utf-8")
    said = commands.npusim(capsys, f"model {file} -s 910b3 --format msprof -o {tmp_path}/out")
    assert said.code == 2
    assert "1,000,000 rows, a task each; at most 100,000" in said.err
