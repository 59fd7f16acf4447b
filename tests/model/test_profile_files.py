"""Profilers' files as people have them: folders, devices, level 0, ragged rows, wrong chips."""

from __future__ import annotations

import csv
import sqlite3
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from npusim.hardware import load_profile
from npusim.model.checking import check_model
from npusim.model.communication import message_bytes, no_operator, operation_of
from npusim.model.findings import Oddity, findings
from npusim.model.judging import judge
from npusim.model.profile_table import read_launches, read_profile
from npusim.model.waits import Cause, waits_of
from npusim.values.errors import FileError, UnknownNameError
from support.commands import npusim

HEAD = (
    "Step Id", "Device_id", "Stream ID", "Name", "Type", "Accelerator Core", "Start Time(us)",
    "Duration(us)", "Block Dim", "Input Shapes", "Input Data Types", "Input Formats",
    "Output Shapes", "Output Data Types", "Output Formats", "aicore_time(us)", "aic_total_cycles",
    "aiv_time(us)", "aiv_total_cycles",
)  # fmt: skip


@dataclass(frozen=True)
class Task:
    """A row of kernel_details as torch_npu writes it at level 1."""

    start_us: float
    us: float = 10.0
    name: str = "aclnnAdd_AddAiCore_Add"
    op: str = "Add"
    core: str = "AI_VECTOR_CORE"
    stream: str = "2"
    device: str = "0"
    blocks: int = 40
    mhz: float = 1650.0
    shape: str = '"1024,1024;1024,1024"'

    def row(self) -> list[object]:
        cycles = round(self.mhz * self.us * self.blocks)
        vector = self.core == "AI_VECTOR_CORE"
        counters = (0.0, 0, self.us, cycles) if vector else (self.us, cycles, 0.0, 0)
        tensors = (self.shape, "FLOAT16;FLOAT16", "ND;ND", '"1024,1024"', "FLOAT16", "ND")
        if self.core == "COMMUNICATION":
            tensors, counters = ("N/A",) * 6, ("N/A",) * 4  # type: ignore[assignment]
        start = f"{1764246877000000 + self.start_us:.3f}\t"
        return ["1", self.device, self.stream, self.name, self.op, self.core, start, self.us,
                self.blocks, *tensors, *counters]  # fmt: skip


def write(path: Path, tasks: list[Task], encoding: str = "utf-8") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding=encoding) as stream:
        table = csv.writer(stream)
        table.writerow(HEAD)
        table.writerows(task.row() for task in tasks)
    return path


def adds(
    count: int = 24, gap_us: float = 1.0, first_us: float = 0.0, **changes: object
) -> list[Task]:
    plain = replace(Task(0.0), **changes)  # type: ignore[arg-type]
    return [
        replace(plain, start_us=first_us + number * (plain.us + gap_us)) for number in range(count)
    ]


ALL_REDUCE = Task(
    0.0, 5000.0, "hcom_allReduce__097_4_1", "hcom_allReduce_", "COMMUNICATION", "N/A", blocks=0
)

# Waits -------------------------------------------------------------------------------------------


def test_a_wait_is_the_hosts_a_collectives_or_another_streams(tmp_path: Path) -> None:
    """Three gaps of known parts: 600 us of nothing, 5,000 us of HCCL, 300 us of another stream."""
    tasks = [
        *adds(3, us=200.0),
        Task(1203.0),
        replace(ALL_REDUCE, start_us=1220.0),
        Task(6220.0),
        Task(6230.0, 300.0, stream="7"),
        Task(6530.0),
    ]
    found = judge(write(tmp_path / "kernel_details.csv", tasks), "910b4")
    waits = waits_of(found)
    assert waits.us(Cause.HOST) == pytest.approx(601.0, abs=1.0)
    assert waits.us(Cause.COLLECTIVE) == pytest.approx(5000.0, abs=1.0)
    assert waits.us(Cause.STREAM) == pytest.approx(300.0, abs=1.0)
    assert waits.gaps[0].cause is Cause.COLLECTIVE
    told = {each.kind: each.text for each in findings(found)}
    assert "line 7" in told[Oddity.COLLECTIVE]
    assert "hcom_allReduce__097_4_1 in line 6 takes 5.00 ms" in told[Oddity.COLLECTIVE]
    assert "npusim collective allreduce -s Ascend910B4" in told[Oddity.COLLECTIVE]
    assert "capture a graph" not in told[Oddity.COLLECTIVE] + told[Oddity.STREAM]
    assert "capture a graph" in told[Oddity.HOST_GAP]
    assert "601 us of 6.54 ms" in told[Oddity.HOST_GAP]
    assert "on stream 7" in told[Oddity.STREAM]


def test_kernels_that_overlap_leave_no_gap(tmp_path: Path) -> None:
    tasks = [Task(0.0, 1000.0), Task(5.0, 10.0), Task(1005.0, 10.0)]
    waits = waits_of(judge(write(tmp_path / "kernel_details.csv", tasks), "910b4"))
    assert waits.gaps == ()
    assert waits.whole_us == pytest.approx(1015.0, abs=1.0)


def test_a_collective_that_says_its_bytes_stands_beside_what_it_should_take(tmp_path: Path) -> None:
    tensors = ["33554432", "FLOAT16", "ND"] * 2
    file = write(tmp_path / "kernel_details.csv", [Task(0.0), replace(ALL_REDUCE, start_us=12.0),
                                                   Task(5020.0)])  # fmt: skip
    lines = file.read_text().splitlines()
    fields = next(csv.reader([lines[2]]))
    lines[2] = ",".join(map(str, [*fields[:9], *tensors, *fields[15:]]))
    file.write_text("\n".join(lines) + "\n")
    (text,) = (each.text for each in findings(judge(file, "910b4"))
               if each.kind is Oddity.COLLECTIVE)  # fmt: skip
    assert "its 67.1 MB take" in text
    assert "on 2 to 8 cards" in text
    assert "--bytes 67108864" in text


@pytest.mark.parametrize(
    ("name", "operation"),
    [("hcom_allReduce_", "allreduce"), ("hcom_batchSendRecv_", "sendrecv"),
     ("hcom_reduceScatter_", "reducescatter"), ("hcom_alltoallv_", "alltoall"),
     ("hcom_allGather_", "allgather"), ("hcom_barrier_", "")],
)  # fmt: skip
def test_collectives_are_called_as_the_verb_calls_them(name: str, operation: str) -> None:
    assert operation_of(name) == operation
    assert "HCCL" in no_operator(name)
    assert (f"npusim collective {operation}" in no_operator(name)) == bool(operation)


# Which chip --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mhz", "blocks", "fits"),
    [
        (1650.0, 40, ("Ascend910B4", "Ascend910B4-1")),
        (1500.0, 40, ("Ascend910B4", "Ascend910B4-1")),  # npusim's own
        (1800.0, 48, ("Ascend910B2", "Ascend910B2C")),
        (1800.0, 40, ("Ascend910B3",)),
        (1850.0, 48, ("Ascend910B1", "Ascend910_9391")),
        (1250.0, 8, ()),
    ],
)
def test_a_table_tells_its_chip(
    mhz: float, blocks: int, fits: tuple[str, ...], tmp_path: Path
) -> None:
    # A grid of more blocks than cores runs in rounds, whose cycles say nothing of the clock.
    grid = adds(8, first_us=1000.0, blocks=1024, mhz=60.0)
    file = write(tmp_path / "kernel_details.csv", [*adds(24, blocks=blocks, mhz=mhz), *grid])
    profiled = read_profile(file).profiled
    assert profiled is not None
    assert profiled.chip.clock_mhz == pytest.approx(mhz, rel=0.001)
    assert profiled.chip.fitting == fits
    for name in ("Ascend910A", "Ascend310P3", "Ascend910B1", "Ascend910B2", "Ascend910B3",
                 "Ascend910B4"):  # fmt: skip
        assert bool(profiled.chip.doubt(load_profile(name))) == (name not in fits)


def test_the_wrong_chip_is_told_and_not_fitted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path / "kernel_details.csv", adds(24))
    right = npusim(capsys, "judge -s 910b4 --json", file)
    assert "warning" not in right.err
    assert right.json["profile"]["chip"]["fits"] is True
    for verb in ("judge -s 910b2 --json", "model -s 910b2 --json"):
        said = npusim(capsys, verb, file)
        assert said.code == 0
        assert "1650 MHz and 40 vector cores, which Ascend910B2" in said.err, verb
        assert "Ascend910B4 or Ascend910B4-1: the file can't tell" in said.err
        answer = said.json if verb.startswith("judge") else said.json["answers"][0]
        assert answer["profile"]["chip"]["fits"] is False
    refused = npusim(capsys, "calibrate -s 910b2", file, "-o", tmp_path / "c.yaml")
    assert refused.code == 2
    assert "Ascend910B4" in refused.err
    forced = npusim(capsys, "calibrate -s 910b2 --force", file, "-o", tmp_path / "c.yaml")
    assert "too few" in forced.err
    page = npusim(capsys, "report -s 910b2", file, "-o", tmp_path / "page.md")
    assert "which Ascend910B2" in page.err


def test_a_chip_that_only_the_file_names_is_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = npusim(capsys, "judge --json", write(tmp_path / "one.csv", adds(24, mhz=1800.0)))
    assert one.json["soc"] == "Ascend910B3"
    two = npusim(capsys, "judge", write(tmp_path / "two.csv", adds(24)))
    assert two.code == 2
    assert "Give -s Ascend910B4 or Ascend910B4-1" in two.err


# Where the table is ------------------------------------------------------------------------------

LAYOUTS = (
    "rank0_ascend_pt/ASCEND_PROFILER_OUTPUT/kernel_details.csv",
    "PROF_000001_ABC/mindstudio_profiler_output/op_summary_20261127010203.csv",
    "PROF_000001_ABC/device_0/summary/op_summary_0_1.csv",
    "op_summary_20261127010203.csv",
)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_only_table_in_a_folder_is_taken(layout: str, tmp_path: Path) -> None:
    file = write(tmp_path / "out" / layout, adds(3))
    for folder in (tmp_path / "out", file.parent):
        assert read_profile(folder).launches == 3
    assert check_model(tmp_path / "out", ["A2"]).rows[0].count == 3


def test_of_several_tables_one_must_be_chosen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ranks = [
        write(tmp_path / f"r{rank}_ascend_pt/ASCEND_PROFILER_OUTPUT/kernel_details.csv", adds(3))
        for rank in range(2)
    ]
    said = npusim(capsys, "judge -s 910b4", tmp_path)
    assert said.code == 2
    assert all(str(rank) in said.err for rank in ranks)
    assert npusim(capsys, "judge -s 910b4", ranks[0].parent.parent).code == 0


@pytest.mark.parametrize(
    ("gbps", "fits"),
    [
        (600.0, ("Ascend910B4",)),
        (1180.0, ("Ascend910B4-1",)),
        (2500.0, ()),  # L2 of some chip that we haven't got
        (300.0, ()),
    ],
)
def test_a_large_copy_tells_boards_of_one_chip_apart(
    gbps: float, fits: tuple[str, ...], tmp_path: Path
) -> None:
    moved = 2 * (2 * 16384 * 16384 + 1024 * 1024)
    shape = '"16384,16384;16384,16384"'
    large = adds(1, first_us=5000.0, us=moved / gbps / 1e3, shape=shape)
    slow = adds(1, first_us=50000.0, us=9000.0, shape=shape)  # the fastest of all counts
    product = adds(1, first_us=90000.0, us=10.0, shape=shape, op="MatMulV3")
    file = write(tmp_path / "kernel_details.csv", [*adds(24), *large, *slow, *product])
    profiled = read_profile(file).profiled
    assert profiled is not None
    assert profiled.chip.memory_gbps == pytest.approx(gbps)
    assert profiled.chip.fitting == fits
    for name in ("Ascend910B4", "Ascend910B4-1"):
        doubt = profiled.chip.doubt(load_profile(name))
        assert bool(doubt) == (name not in fits)
        assert not doubt or f"{gbps:.0f} GB/s" in doubt


def test_what_a_folder_without_a_table_needs(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="folder without kernel_details"):
        read_profile(tmp_path)
    (tmp_path / "trace_view.json").write_text("[]")
    with pytest.raises(FileError) as error:
        read_profile(tmp_path)
    assert "Level1" in error.value.remedy


def test_npusims_own_folders_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    calls = tmp_path / "m.yaml"
    calls.write_text(
        "name: M\ncalls:\n"
        "  - {op: Relu, inputs: ['fp16[4096,1024]'], outputs: ['fp16[4096,1024]']}\n"
    )
    out = tmp_path / "out"
    assert npusim(capsys, "model -s 910b4 --format msprof", calls, "-o", out).code == 0
    judged = npusim(capsys, "judge -s 910b4 --json", out)
    assert judged.json["compared"] == 1
    assert judged.json["profile"]["chip"]["clock_mhz"] == pytest.approx(1500, rel=0.01)
    words = "estimate aclnnRelu self=fp16[1024,1024] -s 910b3 --format msprof"
    assert npusim(capsys, words, "-o", tmp_path / "op").code == 0
    one = npusim(capsys, "judge -s 910b3 --json", tmp_path / "op")
    assert (one.json["soc"], one.json["kernels"], one.json["compared"]) == ("Ascend910B3", 1, 0)


@pytest.mark.parametrize(
    ("name", "header", "words"),
    [
        ("op_statistic.csv", "Device_id,Model Name,OP Type,Core Type,Count", "op_statistic"),
        ("operator_details.csv", "Name,Input Shapes,Call Stack", "operator_details"),
        ("operator_memory.csv", "Name,Size(KB),Allocation Time(us),Duration(us)", "memory"),
        ("step_trace_time.csv", "Step,Computing,Communication", "step_trace_time"),
        ("task_time.csv", "kernel_name,kernel_type,task_time(us)", "task_time"),
        ("PipeUtilization.csv", "block_id,sub_block_id,aic_time(us)", "OpBasicInfo.csv"),
        ("trace_view.json", "[]", "kernel_details.csv"),
        ("ascend_pytorch_profiler_0.db", "SQLite format 3", "database"),
        ("visualize_data.bin", "x", "raw data"),
    ],
)
def test_the_other_files_name_the_right_one(
    name: str, header: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    right = write(tmp_path / "kernel_details.csv", adds(3))
    (tmp_path / name).write_text(f"{header}\n")
    for verb in ("judge -s 910b4", "model -s 910b4", "check -s 910b4 --model"):
        said = npusim(capsys, verb, tmp_path / name)
        assert said.code == 2
        assert words in said.err
        assert "internal error" not in said.err
    if name.endswith((".json", ".bin")):
        assert str(right) in said.err


def test_validate_names_judge(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path / "kernel_details.csv", adds(3))
    for path in (file, tmp_path):
        said = npusim(capsys, "validate", path)
        assert said.code == 2
        assert f"npusim judge {path}" in said.err


# What is in the table ----------------------------------------------------------------------------


def test_devices_are_never_mixed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path / "kernel_details.csv", [*adds(3), *adds(5, device="1")])
    with pytest.raises(FileError, match="2 devices: 0, 1") as error:
        read_profile(file)
    assert "--device-id 0" in error.value.remedy
    assert read_profile(file, device_id="1").launches == 5
    with pytest.raises(UnknownNameError):
        read_profile(file, device_id="7")
    for verb in ("judge", "model"):
        assert npusim(capsys, f"{verb} -s 910b4", file).code == 2
        assert npusim(capsys, f"{verb} -s 910b4 --device-id 1", file).code == 0
    told = npusim(capsys, "judge -s 910b4 --json --device-id 0", file).json
    assert (told["kernels"], told["profile"]["device_id"]) == (3, "0")


def test_rows_that_dont_fit_the_header_are_left_out_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path / "kernel_details.csv", adds(4))
    lines = file.read_text().splitlines()
    lines[2] = lines[2].rpartition(",")[0]  # a field less
    lines[3] = lines[3].replace('"', "")  # a shape without its quotes
    file.write_text("\n".join(lines)[: -len(lines[4]) // 2])  # cut off in the last row
    step, kernels = read_launches(file)
    assert [each.line for each in kernels] == [2]
    assert step.profiled is not None
    assert step.profiled.skipped_lines == (3, 4, 5)
    assert any("3 rows don't fit the header" in note for note in step.notes)
    said = npusim(capsys, "judge -s 910b4 --json", file)
    assert said.json["profile"]["skipped_lines"] == [3, 4, 5]
    assert "lines 3, 4, 5" in said.err
    file.write_text("\n".join([lines[0], lines[2]]))
    with pytest.raises(FileError, match="none of its 1 rows has the 19 fields"):
        read_profile(file)


TABLES = """
CREATE TABLE STRING_IDS (id INTEGER, value TEXT);
CREATE TABLE TASK (startNs INTEGER, endNs INTEGER, deviceId INTEGER, connectionId INTEGER,
  globalTaskId INTEGER, globalPid INTEGER, taskType INTEGER, contextId INTEGER, streamId INTEGER,
  taskId INTEGER, modelId INTEGER);
CREATE TABLE COMPUTE_TASK_INFO (name INTEGER, globalTaskId INTEGER, {block} INTEGER,
  mixBlockNum INTEGER, taskType INTEGER, opType INTEGER, inputFormats INTEGER,
  inputDataTypes INTEGER,
  inputShapes INTEGER, outputFormats INTEGER, outputDataTypes INTEGER, outputShapes INTEGER);
CREATE TABLE COMMUNICATION_OP (opName INTEGER, startNs INTEGER, endNs INTEGER, dataType INTEGER,
  count NUMERIC, opType INTEGER);
CREATE TABLE ENUM_HCCL_DATA_TYPE (id INTEGER, name TEXT);
CREATE TABLE AICORE_FREQ (deviceId INTEGER, timestampNs NUMERIC, freq INTEGER);
INSERT INTO STRING_IDS VALUES (1, 'aclnnAdd_AddAiCore_Add'), (2, 'Add'), (3, 'AI_VECTOR_CORE'),
  (4, 'ND;ND'), (5, 'FLOAT16;DT_BF16'), (6, '"1024,1024;1024,1024"'), (7, 'ND'), (8, 'FLOAT16'),
  (9, '"1024,1024"'), (10, 'hcom_allReduce__097_4_1'), (11, 'hcom_allReduce_');
INSERT INTO TASK VALUES (1764246877073569640, 1764246877073579641, 3, 0, 77, 0, 0, 0, 2, 1,
  4294967295);
INSERT INTO COMPUTE_TASK_INFO VALUES (1, 77, 40, 0, 3, 2, 4, 5, 6, 7, 8, 9);
INSERT INTO COMMUNICATION_OP VALUES (10, 1764246877073579700, 1764246877083579700, 3, 4096, 11);
INSERT INTO ENUM_HCCL_DATA_TYPE VALUES (3, 'FP16');
INSERT INTO AICORE_FREQ VALUES (3, 1, 800), (3, 2, 1650);
"""


@pytest.mark.parametrize("block", ["blockNum", "blockDim"])
def test_a_database_is_read_as_the_table_that_it_holds(
    block: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "rank0_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
    folder.mkdir(parents=True)
    with closing(sqlite3.connect(folder / "ascend_pytorch_profiler_0.db")) as database:
        database.executescript(TABLES.format(block=block))
    step, (add, reduce) = read_launches(tmp_path)
    assert (add.op, add.task_type, add.block_num, add.device) == ("Add", "AI_VECTOR_CORE", 40, "3")
    assert add.duration_us == pytest.approx(10.001)
    assert not add.in_model
    assert [str(spec.dtype) for spec in step.items[0].inputs] == ["FLOAT16", "BFLOAT16"]
    assert [spec.shape for spec in step.items[0].inputs] == [(1024, 1024)] * 2
    assert message_bytes("allreduce", reduce.tensors) == 8192
    assert reduce.is_communication
    assert step.profiled is not None
    assert step.profiled.chip.fitting == ("Ascend910B4", "Ascend910B4-1")
    for verb in ("judge -s 910b4 --json", "model -s 910b4 --json"):
        assert npusim(capsys, verb, tmp_path).code == 0
    # How cards are linked isn't in the file, so that the collective stays open.
    assert npusim(capsys, "check -s 910b4 --json --model", tmp_path).code == 3


@pytest.mark.parametrize("encoding", ["utf-8-sig", "gb18030", "utf-16"])
def test_tables_that_a_spreadsheet_has_saved_are_read(encoding: str, tmp_path: Path) -> None:
    named = [*adds(2), replace(Task(40.0), name="算子_1")]
    file = write(tmp_path / "kernel_details.csv", named, encoding)
    assert [each.name for each in read_launches(file)[1]][-1] == "算子_1"


def test_starts_that_a_spreadsheet_has_rounded_are_none(tmp_path: Path) -> None:
    file = write(tmp_path / "kernel_details.csv", adds(3))
    text = file.read_text()
    for task in adds(3):
        text = text.replace(str(task.row()[6]).strip(), "1.76425E+15")
    file.write_text(text)
    assert [each.start_us for each in read_launches(file)[1]] == [None] * 3


LEVEL_0 = """\
Step Id,Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us),Block Dim
5,trans_TransData_0,N/A,N/A,100.0,50.6,0,0
5,Conv2D1,N/A,N/A,160.0,315.7,99.1,0
5,aclnnAddmm_MatMulV3Common_MatMulV3,N/A,N/A,480.0,20.0,0,0
5,aclnnAddmm_MatMulV3Common_MatMulV3,N/A,N/A,501.0,30.0,0,0
5,hcom_allReduce__097_4_1,N/A,N/A,540.0,900.0,0,0
5,mine,N/A,N/A,1500.0,3.0,0,0
"""


def test_level_0_says_what_it_can(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "kernel_details.csv"
    file.write_text(LEVEL_0)
    said = npusim(capsys, "judge -s 910b2 --json", file)
    found = said.json
    assert found["profile"]["level_0"] is True
    repeats = {each["op"]: each for each in found["repeats"]}
    assert list(repeats) == ["Conv2D", "TransData", "MatMulV3", "mine"]
    assert repeats["MatMulV3"]["launches"] == 2
    assert repeats["MatMulV3"]["total_us"] == pytest.approx(50.0)
    assert found["waits"]["collective_us"] == pytest.approx(900.0)
    page = npusim(capsys, "judge -s 910b2", file)
    assert "collected at level 0" in page.out
    assert "profiler_level=ProfilerLevel.Level1" in " ".join(page.out.split())
    assert npusim(capsys, "model -s 910b2", file).code == 0
    refused = npusim(capsys, "calibrate -s 910b2", file)
    assert refused.code == 2
    assert "Level1" in refused.err
    checked = npusim(capsys, "check -s 310p3 --json --model", file).json
    verdicts = {row["operator"]: row for row in checked["operators"]}
    assert {"MatMulV3", "Conv2D", "hcom_allReduce_", "mine"} <= set(verdicts)


@pytest.mark.parametrize(
    ("op", "shapes", "result", "words"),
    [
        ("MatMulV2", "81920,4096;8192,512", "4096,512", "(81920, 4096) times (8192, 512) isn't"),
        ("BatchMatMulV2", "8,64,128;4,128,64", "8,64,64", "isn't (8, 64, 64)"),
        ("Add", "1024,1024;333", "1024,1024", "(333,) doesn't broadcast"),
    ],
)
def test_shapes_that_dont_fit_have_no_price(
    op: str, shapes: str, result: str, words: str, tmp_path: Path
) -> None:
    file = tmp_path / "kernel_details.csv"
    file.write_text(
        "Name,Type,Accelerator Core,Duration(us),Input Shapes,Input Data Types,Input Formats,"
        "Output Shapes,Output Data Types,Output Formats\n"
        f'a,{op},AI_CORE,100,"{shapes}",FLOAT16;FLOAT16,ND;ND,"{result}",FLOAT16,ND\n'
    )
    found = judge(file, "910b3")
    assert (found.compared, found.unusual) == (0, ())
    (finding,) = findings(found)
    assert finding.kind is Oddity.NOT_PRICED
    assert words in finding.text
    assert "line 2" in finding.text


def test_one_tensor_with_semicolons_between_its_axes(tmp_path: Path) -> None:
    file = tmp_path / "kernel_details.csv"
    head = "Name,Type,Duration(us),Input Shapes,Input Data Types,Output Shapes,Output Data Types\n"
    file.write_text(
        f"{head}a,Relu,9,2;4096,FLOAT16,2;4096,FLOAT16\nb,Add,9,2;4096;1,FLOAT16;FLOAT,2,FLOAT\n"
    )
    first, second = read_profile(file).items
    assert [spec.shape for spec in first.inputs] == [(2, 4096)]
    assert "3 shapes and 2 dtypes" in second.operation.problem
