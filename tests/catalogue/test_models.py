"""Whole models: a profiler's tables, ONNX files and lists, judged operator by operator."""

from __future__ import annotations

import csv
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from npusim.catalogue.verdicts import Outcome
from npusim.hardware import load_profile
from npusim.model import read_model as timed
from npusim.model import retime
from npusim.model.checking import check_model
from npusim.model.graph_model import Compilation
from npusim.model.kernel_csv import KernelRows
from npusim.model.listing import read_model
from npusim.model.profile_table import read_profile
from npusim.values.errors import FileError, UnknownNameError, UsageError
from npusim.values.status import Verdict
from support.networks import Network, resnet50
from support.paths import DATA

if TYPE_CHECKING:
    from npusim.model.checking import ModelCheck, Row

KERNELS = DATA / "catalogue" / "kernel_details_bf16.csv"
CHIPS = ("Ascend310P3", "Ascend910A", "Ascend910B3")
RUNS, AFTER, NO, OPEN = Outcome


@pytest.fixture(scope="module")
def llm_step() -> ModelCheck:
    return check_model(KERNELS, CHIPS)


def outcomes(row: Row) -> tuple[Outcome, ...]:
    return tuple(cell.outcome for cell in row.given)


def rows_of(check: ModelCheck, op: str) -> list[Row]:
    return [row for row in check.rows if row.op == op]


# A training step in bf16 -------------------------------------------------------------------------


def test_a_bf16_step_runs_on_a2_and_not_on_the_other_two(llm_step: ModelCheck) -> None:
    on_310p, on_910, on_a2 = (llm_step.counts(place) for place in llm_step.places)
    assert on_a2 == {RUNS: 41, OPEN: 1}
    assert on_310p == on_910 == {RUNS: 24, AFTER: 16, NO: 1, OPEN: 1}
    assert not llm_step.ok


def test_every_row_with_bf16_is_rejected_where_the_chip_has_none(llm_step: ModelCheck) -> None:
    for row in llm_step.rows:
        has_bf16 = "BFLOAT16" in (*row.dtypes, *row.outputs)
        on_310p, on_910, on_a2 = outcomes(row)
        assert on_a2.ok, row
        assert on_310p.ok is on_910.ok is not has_bf16, row


def test_what_a_rejected_kernel_says(llm_step: ModelCheck) -> None:
    (row,) = rows_of(llm_step, "MatMulV2")
    cell = row.cells[0]
    assert cell.outcome is AFTER
    assert cell.why == (
        "ACLNN_ERR_PARAM_INVALID (161002): aclnnMatmul: tensor self not implemented for "
        "DT_BFLOAT16 on Ascend310P3, should be in dtype support list [DT_FLOAT, DT_FLOAT16]"
    )
    assert cell.remedy == (
        "BF16 needs an Atlas A2 product (Ascend910B1..B4) or later; "
        "cast to FLOAT16, or choose another --soc-version."
    )


def test_attention_stays_rejected_in_fp16_where_there_is_no_kernel(llm_step: ModelCheck) -> None:
    (row,) = rows_of(llm_step, "FlashAttentionScore")
    assert outcomes(row) == (NO, NO, RUNS)
    assert "561003" in row.cells[0].why
    assert "FLOAT16" not in row.cells[0].remedy


def test_outputs_count_a_cast_to_bf16_is_bf16(llm_step: ModelCheck) -> None:
    casts = {(row.dtypes, row.outputs): outcomes(row)[0] for row in rows_of(llm_step, "Cast")}
    assert casts[("FLOAT",), ("BFLOAT16",)] is AFTER
    assert casts[("INT32",), ("FLOAT",)] is RUNS


def test_communication_is_left_open_and_doesnt_fail_a_model(llm_step: ModelCheck) -> None:
    (row,) = rows_of(llm_step, "hcom_allReduce_")
    assert set(outcomes(row)) == {OPEN}
    assert row.ok
    assert "HCCL" in row.cells[0].why


def test_the_kernels_name_tells_which_api_launched_it(llm_step: ModelCheck) -> None:
    launched = {listed.op: listed.api for listed in read_model(KERNELS).operators if listed.api}
    assert launched["MatMulV2"] == "aclnnMatmul"
    assert rows_of(llm_step, "MatMulV2")[0].means == "aclnnMatmul"
    assert rows_of(llm_step, "LayerNormV3")[0].means == "aclnnLayerNorm"


def test_rows_stand_by_time_and_equal_ones_are_counted() -> None:
    check = check_model(KERNELS, ["910B3"])
    times = [row.time_us for row in check.rows]
    assert times == sorted(times, reverse=True)
    assert sum(row.count for row in check.rows) == 42


# The tables of the profilers ---------------------------------------------------------------------

OP_SUMMARY = [
    "Device_id",
    "Model ID",
    "Task ID",
    "Stream ID",
    "Op Name",
    "OP Type",
    "OP State",
    "Task Type",
    "Task Start Time(us)",
    "Task Duration(us)",
    "Task Wait Time(us)",
    "{block}",
    "Mix {block}",
    "HF32 Eligible",
    "Input Shapes",
    "Input Data Types",
    "Input Formats",
    "Output Shapes",
    "Output Data Types",
    "Output Formats",
    "Context ID",
]
ROW = [
    "0", "1", "7", "2", "aclnnAdd_AddAiCore_Add", "Add", "dynamic", "AI_VECTOR_CORE", "1.0",
    "12.5", "0.0", "48", "0", "NO", "16,32;", "DT_BF16;FLOAT16", "ND;ND", "16,32", "DT_BF16", "ND",
    "N/A",
]  # fmt: skip


def write_summary(path: Path, block: str, *rows: list[str]) -> Path:
    with path.open("w", encoding="utf-8-sig", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(name.format(block=block) for name in OP_SUMMARY)
        writer.writerows(rows)
    return path


def test_a_profile_says_what_was_multiplied_as_hf32(tmp_path: Path) -> None:
    fast = [*ROW[:13], "YES", *ROW[14:]]
    file = write_summary(tmp_path / "op_summary_0.csv", "Block Dim", ROW, fast)
    assert [kernel.hf32 for kernel in KernelRows(file)] == [False, True]
    works = [item.operation.work for item in read_profile(file).items]
    assert [work and work.attributes for work in works] == [{}, {"enable_hf32": True}]


@pytest.mark.parametrize("block", ["Block Dim", "Block Num"])
def test_op_summary_is_read_with_either_name_of_the_block_column(
    tmp_path: Path, block: str
) -> None:
    (kernel,) = KernelRows(write_summary(tmp_path / "op_summary_1.csv", block, ROW))
    assert (kernel.name, kernel.op_type) == ("aclnnAdd_AddAiCore_Add", "Add")
    assert (kernel.block_num, kernel.mix_block_num, kernel.duration_us) == (48, 0, 12.5)
    assert kernel.tensors.input_shapes == ("16,32", "")
    assert kernel.tensors.input_dtypes == ("DT_BF16", "FLOAT16")


def test_missing_values_are_none_and_every_dtype_spelling_is_read(tmp_path: Path) -> None:
    absent = [*ROW[:9], "N/A", "0", "N/A", "N/A", "NO", *["N/A"] * 6, "N/A"]
    file = write_summary(tmp_path / "op_summary.csv", "Block Num", ROW, absent)
    _, kernel = KernelRows(file)
    assert (kernel.duration_us, kernel.block_num, kernel.tensors.input_dtypes) == (None, None, ())
    first, second = read_model(file).operators
    assert first.dtypes == ("BFLOAT16", "FLOAT16")
    assert (second.dtypes, second.time_us) == ((), 0.0)


def test_a_dtype_nobody_knows_leaves_its_row_open(tmp_path: Path) -> None:
    odd = [*ROW[:15], "DT_DUAL_SUB_INT8;FLOAT", *ROW[16:]]
    check = check_model(write_summary(tmp_path / "op_summary.csv", "Block Num", odd), ["A2"])
    assert outcomes(check.rows[0]) == (OPEN,)
    assert "DT_DUAL_SUB_INT8" in check.rows[0].cells[0].why


def test_other_csv_files_are_refused_with_the_missing_columns(tmp_path: Path) -> None:
    file = tmp_path / "op_statistic.csv"
    file.write_text("Device_id,Model Name,OP Type,Count\n0,m,Add,3\n")
    with pytest.raises(FileError, match="no column Name / Op Name") as error:
        check_model(file, ["A2"])
    assert "kernel_details.csv" in error.value.remedy


def test_a_number_that_isnt_one_names_its_line(tmp_path: Path) -> None:
    broken = [*ROW[:9], "fast", *ROW[10:]]
    file = write_summary(tmp_path / "op_summary.csv", "Block Num", ROW, broken)
    with pytest.raises(FileError, match="line 3: the duration 'fast' isn't a number"):
        list(KernelRows(file))


# Lists -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ("add,Add,FLOAT,-4", "line 3: the duration is -4; it must be 0 or more"),
        ("add,Add,FLOAT,nan", "line 3: the duration is nan; it must be 0 or more"),
    ],
)
def test_a_row_that_cannot_be_names_its_line(row: str, complaint: str, tmp_path: Path) -> None:
    file = tmp_path / "kernel_details.csv"
    header = "Name,Type,Input Data Types,Duration(us)"
    file.write_text(f"{header}\nadd,Add,FLOAT,3\n{row}\n", encoding="utf-8")
    with pytest.raises(FileError, match=complaint):
        list(KernelRows(file))


def test_a_list_of_calls_is_checked_by_its_tensors(tmp_path: Path) -> None:
    file = tmp_path / "model.yaml"
    file.write_text(
        "calls:\n"
        "  - {op: ReluGrad, count: 4, inputs: ['bf16[2,8]', 'bf16[2,8]'], outputs: ['bf16[2,8]']}\n"
        "  - op: aclnnGroupNormBackward\n"
        "    arguments: {gradOut: 'bf16[2,64,16]', input: 'bf16[2,64,16]', mean: 'bf16[2,8]',"
        " rstd: 'bf16[2,8]', gamma: null, N: 2, C: 64, HxW: 16, group: 8,"
        " outputMask: [true, true, true]}\n"
    )
    check = check_model(file, ["310P3", "A2"])
    assert {row.op: (row.count, outcomes(row)) for row in check.rows} == {
        "ReluGrad": (4, (AFTER, RUNS)),
        "aclnnGroupNormBackward": (1, (NO, RUNS)),
    }


def test_a_list_takes_operators_with_and_without_dtypes(tmp_path: Path) -> None:
    file = tmp_path / "ops.txt"
    file.write_text(
        "# what we need\n"
        "Add bf16 bf16\n"
        "aclnnSwiGlu x=fp16   # by name\n"
        "Cast fp32 -> bf16\n"
        "\n"
        "GroupNormBackward\n"
        "Add, bf16, bf16\n"
    )
    check = check_model(file, ["310P3", "A2"])
    by_name = {row.op: outcomes(row) for row in check.rows}
    assert by_name == {
        "Add": (AFTER, RUNS),
        "aclnnSwiGlu": (RUNS, RUNS),
        "Cast": (AFTER, RUNS),
        "GroupNormBackward": (NO, RUNS),
    }
    assert [row.count for row in check.rows if row.op == "Add"] == [2]


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("Ad bf16\n", UnknownNameError, "Did you mean"),
        ("Add\nMul bf17\n", FileError, "line 2: unknown dtype 'bf17'"),
        ("# nothing\n", FileError, "lists no operators"),
    ],
)
def test_a_wrong_list_says_where(
    tmp_path: Path, text: str, error: type[UsageError], says: str
) -> None:
    file = tmp_path / "ops.txt"
    file.write_text(text)
    with pytest.raises(error, match=says):
        check_model(file, ["A2"])


@pytest.mark.parametrize(
    ("name", "says"),
    [("m.om", "can't read .om files"), ("m.pt", "can't read .pt"), ("m.onnx", "no such file")],
)
def test_files_that_we_cannot_read_say_what_to_give_instead(
    tmp_path: Path, name: str, says: str
) -> None:
    with pytest.raises(FileError, match=says):
        check_model(tmp_path / name, ["A2"])


def test_a_binary_file_isnt_a_list(tmp_path: Path) -> None:
    file = tmp_path / "ops.txt"
    file.write_bytes(b"\xff\xfe\x00\x81")
    with pytest.raises(FileError, match="isn't text"):
        check_model(file, ["A2"])


# ONNX --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["FLOAT", "FLOAT16"])
def test_a_resnet50_passes_on_all_three(tmp_path: Path, dtype: str) -> None:
    """As the graph that is compiled for each: convolutions take in what follows them on two."""
    check = check_model(resnet50(tmp_path / "resnet50.onnx", dtype), CHIPS)
    assert check.kind == "onnx"
    assert check.verdict is Verdict.YES
    fused = [row for row in check.rows if row.op.startswith("FusionOp_Conv2D")]
    assert fused
    for row in fused:
        assert [cell is not None for cell in row.cells] == [True, True, False]
    (plain,) = (row for row in rows_of(check, "Conv2D") if row.cells[2])
    assert plain.cells[2]
    assert plain.cells[2].count == 53
    counts = [check.counts(place) for place in check.places]
    assert counts[0] == counts[1]
    assert counts[2][RUNS] > counts[0][RUNS] > 53


@pytest.mark.parametrize("chip", ["Ascend910A", "Ascend310P3", "Ascend910B3", "Ascend910_9391"])
@pytest.mark.parametrize("dtype", ["FLOAT", "FLOAT16", "BFLOAT16"])
def test_a_model_is_checked_as_it_is_timed(tmp_path: Path, chip: str, dtype: str) -> None:
    file, profile = resnet50(tmp_path / "resnet50.onnx", dtype), load_profile(chip)
    verdicts = retime(timed(file).at(chip=profile), profile).verdicts
    check = check_model(file, [chip])
    found: Counter[Outcome] = Counter()
    for each in verdicts:
        found[each.outcome] += each.count
    assert +check.counts(check.places[0]) == +found


def test_what_nobody_knows_is_open(tmp_path: Path) -> None:
    network = Network()
    file = network.save(tmp_path / "net.onnx", network.node("Relu", network.node("Unheard", "x")))
    check = check_model(file, ["310P"], how=Compilation(shapes={"t0": (1, 3, 224, 224)}))
    assert check.verdict is Verdict.UNKNOWN
    (row,) = rows_of(check, "Unheard")
    assert row.cells[0]
    assert "doesn't know this operator" in row.cells[0].why


def test_only_networks_are_compiled(tmp_path: Path) -> None:
    file = tmp_path / "ops.txt"
    file.write_text("Relu fp16")
    with pytest.raises(UsageError, match="only networks are compiled"):
        check_model(file, ["310P"], how=Compilation(fuse=False))


def test_without_the_onnx_package_the_message_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "model.onnx"
    file.write_bytes(b"")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(UsageError, match="needs the onnx package") as error:
        check_model(file, ["A2"])
    assert "pip install onnx" in error.value.remedy


@pytest.mark.parametrize("content", [b"", b"this is no protobuf at all", b"\x08\x07"])
def test_a_file_that_isnt_onnx_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "model.onnx"
    file.write_bytes(content)
    with pytest.raises(FileError, match="isn't an ONNX model"):
        check_model(file, ["A2"])
