"""The catalogue on the command line: answers, exit codes, files, and how long one waits."""

from __future__ import annotations

import csv
import io
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from npusim.catalogue import facts
from support.commands import Said
from support.commands import npusim as run_npusim
from support.paths import DATA, ROOT

KERNELS = DATA / "catalogue" / "kernel_details_bf16.csv"
Npusim = Callable[..., Said]


@pytest.fixture
def npusim(capsys: pytest.CaptureFixture[str]) -> Npusim:
    return lambda line, *more: run_npusim(capsys, line, *more)


# check OP ----------------------------------------------------------------------------------------


def test_check_of_a_catalogue_operator_shows_both_sides_and_the_remedy(npusim: Npusim) -> None:
    said = npusim("check Add -s 310P3 self=bf16")
    assert said.code == 1
    flat = " ".join(said.out.split())
    for part in (
        "aclnnAdd on Ascend310P3 (Atlas inference products): no",
        "ACLNN_ERR_PARAM_INVALID (161002): tensor self not implemented for DT_BFLOAT16",
        "BF16 needs an Atlas A2 product (Ascend910B1..B4) or later; cast to FLOAT16",
        "supported by Atlas A2 products, Atlas A3 products, Ascend 950 products",
        "ops-math:math/add/docs/aclnnAdd&aclnnInplaceAdd.md@c4193324",
        "cann-8.1:aicore operator information of ascend310p@551ed27c",
    ):
        assert part in flat


def test_check_compares_products_and_exits_0_if_one_of_them_runs_it(npusim: Npusim) -> None:
    said = npusim("check FlashAttentionScore -s all query=bf16")
    assert said.code == 0
    lines = [line for line in said.out.splitlines() if " products " in line]
    assert len(lines) == 6
    assert npusim("check FlashAttentionScore -s 310P -s 910A query=bf16").code == 1


def test_check_takes_lists_of_chips_with_and_without_arguments(npusim: Npusim) -> None:
    for line in ("check MatMulV3 x1=fp16", "check aclnnGroupNormBackward", "check Add self=fp16"):
        said = npusim(f"{line} --json -s 910A,310P3 -s 910b3")
        assert said.code == 0, said.err
        socs = [answer["soc"] for answer in said.json["answers"]]
        assert socs == ["Ascend910A", "Ascend310P3", "Ascend910B3"]
    listed = npusim("check --model", KERNELS, "-s", "910A,310P3", "--json")
    assert [each["soc"] for each in listed.json["products"]] == ["Ascend910A", "Ascend310P3"]


def test_check_as_json_is_one_document_with_every_column(npusim: Npusim) -> None:
    said = npusim("check RoiAlignV2Backward -s 310P3 -s A2 --json")
    assert said.code == 0
    on_310p, on_a2 = said.json["answers"]
    assert (on_310p["by_page"], on_310p["by_operator_information"]) == ("no", "yes")
    assert on_310p["verdict"] == on_a2["verdict"] == "yes"
    assert on_310p["disagree"]
    assert not on_a2["disagree"]
    assert {each["by"] for each in on_310p["evidence"]} == {
        "page",
        "older page",
        "operator information",
    }
    assert all(each["source"] for each in on_310p["evidence"])
    assert on_310p["parameters"][0]["after_checking"] == ["FLOAT"]


def test_the_simulated_operators_keep_their_own_contract(npusim: Npusim) -> None:
    call = "gradOutput=fp32[4] self=fp32[4] target=fp32[5] weightOptional=null reduction=0"
    said = npusim(f"check BinaryCrossEntropyBackward -s 310P3 {call}")
    assert said.code == 1
    assert "161002" in said.out
    assert "operator information" not in said.out


def test_values_of_attributes_are_set_aside_with_a_note(npusim: Npusim) -> None:
    said = npusim("check aclnnAdd -s A2 self=fp16 alpha=2")
    assert said.code == 0
    assert "knows dtypes only: alpha" in said.err


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("check Add", "which chip?"),
        ("check", "which operator?"),
        ("check GrupNorm -s A2", "Did you mean GroupNorm"),
        ("check masked_fill -s A2", "aclnnInplaceMaskedFillScalar or aclnnInplaceMaskedFillTensor"),
        ("check Add -s 310Q3", "Did you mean 310P"),
        ("check Add -s A2 self=bf17", "unknown dtype 'bf17'"),
        ("check Add -s A2 selv=bf16", "Did you mean self?"),
        ("check Add -s A2 bf16", "is not NAME=DTYPE"),
        ("check --model nothing.csv -s A2", "there is no such file"),
        ("check Add --model nothing.csv -s A2", "an operator (Add) and a model at once"),
        ("ops diff 910B3 910C5", "unknown chip or product '910C5'"),
        ("ops matrix --format pdf", "Write one of csv, json, markdown, html."),
    ],
)
def test_wrong_usage_is_one_message_and_exit_code_2(npusim: Npusim, line: str, says: str) -> None:
    said = npusim(line)
    assert said.code == 2
    assert says in said.err
    assert "Traceback" not in said.err
    assert said.out == ""


def test_910b_is_the_first_generation_and_says_so(npusim: Npusim) -> None:
    said = npusim("check Add -s 910B self=bf16")
    assert said.code == 1
    assert "first generation" in said.err


def test_a_profile_of_ones_own_counts_as_its_family(npusim: Npusim, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("inherits: Ascend910B3\nname: Mine\n")
    said = npusim("check Add --json self=bf16 -s", file)
    (answer,) = said.json["answers"]
    assert (answer["family"], answer["soc"], answer["verdict"]) == ("A2", "Mine", "yes")


def test_a_damaged_catalogue_is_one_message(
    npusim: Npusim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "catalogue.bin"
    data = bytearray(facts.DATA_FILE.read_bytes())
    data[len(data) // 2] ^= 1
    broken.write_bytes(data)
    monkeypatch.setattr(facts, "catalogue", lambda: facts.Catalogue(broken))
    said = npusim("check Add -s A2")
    assert said.code == 2
    assert said.err.count("\n") == 2
    assert "the operator catalogue is damaged" in said.err
    assert "Install npusim again" in said.err


# check --model -----------------------------------------------------------------------------------


def test_a_model_is_a_table_with_counts_and_reasons_and_exits_1(npusim: Npusim) -> None:
    said = npusim("check -s 310P3 -s 910A -s 910B3 --model", KERNELS)
    assert said.code == 1
    for chip in ("Ascend310P3", "Ascend910A"):
        counts = "24 run, 16 would run after BF16 -> FP16, 1 rejected, 1 unknown"
        assert f"{chip}: {counts}" in said.out
    assert "Ascend910B3: 41 run, 1 unknown" in said.out
    flat = " ".join(said.out.split())
    assert "FlashAttentionScore: ACLNN_ERR_INNER_FIND_KERNEL_ERROR (561003)" in flat
    assert "cast to FLOAT16, or choose another --soc-version." in flat
    assert npusim("check -s 910B3 --model", KERNELS).code == 3, "communication isn't known"


def test_a_model_as_json(npusim: Npusim) -> None:
    said = npusim("check -s 310P3 --json --model", KERNELS)
    assert said.code == 1
    document = said.json
    assert document["kind"] == "profile"
    assert document["products"][0]["counts"] == {
        "runs": 24,
        "after_fp16": 16,
        "rejected": 1,
        "unknown": 1,
    }
    first = document["operators"][0]
    assert first["operator"] == "MatMul"
    assert first["answers"][0]["outcome"] == "after_fp16"


# ops ---------------------------------------------------------------------------------------------


def test_search_by_dtype_and_product(npusim: Npusim) -> None:
    said = npusim("ops -s 310P --search bf16")
    assert said.code == 0
    assert "aclnnElu" in said.out
    assert "aclnnAdd " not in said.out
    assert npusim("ops --search nosuchthing").err == "note: no operator matches 'nosuchthing'\n"
    found = npusim("ops -s 910B3 --json --search groupnorm").json
    assert {each["family"] for each in found} == {"A2"}
    assert "aclnnGroupNormBackward" in {each["operator"] for each in found}


def test_ops_alone_still_lists_the_simulated_operators(npusim: Npusim) -> None:
    assert "aclnnGroupNormBackward" in npusim("ops").out
    assert "aclnnFlashAttentionScore" in npusim("ops").out
    assert "aclnnNsaSelectedAttention" not in npusim("ops").out


def test_diff_lists_what_one_product_lacks(npusim: Npusim) -> None:
    said = npusim("ops diff 910B3 310P3")
    assert said.code == 0
    assert "only on Atlas A2 products (" in said.out
    assert "aclnnFlashAttentionScore" in said.out
    document = npusim("ops diff 910B3 310P3 --json").json
    assert len(document["only_first"]) > len(document["only_second"]) > 0
    assert f"{document['common']} operators run on both" in said.out


def test_the_matrix_has_the_same_cells_in_every_format(npusim: Npusim, tmp_path: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(npusim("ops matrix --format csv").out)))
    objects = json.loads(npusim("ops matrix --format json").out)
    assert len(rows) == len(objects) == 1126 * 6
    for row, each in zip(rows, objects, strict=True):
        assert row["verdict"] == each["verdict"]
        assert row["dtypes"].split() == each["dtypes"]
    markdown = npusim("ops matrix --format markdown").out.splitlines()
    assert sum(line.startswith("| aclnn") for line in markdown) == 1126
    assert "| aclnnRmsNorm | unknown | yes, BF16 | yes | yes, BF16 | no | yes, BF16 |" in markdown
    page = tmp_path / "matrix.html"
    said = npusim("ops matrix --format html -o", page)
    assert f"written: {page}" in said.err
    assert page.read_text().count("<tr>") == 1126 + 1 + 7  # operators, and products
    assert 'class="good" title="FLOAT' in page.read_text()
    assert npusim("ops matrix --format html -o", page).code == 2
    assert npusim("ops matrix --format html --force -o", page).code == 0


def test_the_summary_in_the_repository_is_current(npusim: Npusim, tmp_path: Path) -> None:
    said = npusim("ops summary --check", ROOT / "reports" / "catalogue.md")
    assert said.code == 0, said.err
    other = tmp_path / "catalogue.md"
    other.write_text("something else\n")
    said = npusim("ops summary --check", other)
    assert said.code == 1
    assert "isn't current" in said.err
    assert npusim("ops summary --check", tmp_path / "nothing.md").code == 2


@pytest.mark.slow
def test_everything_is_the_same_under_another_hash_seed() -> None:
    def output(seed: str) -> bytes:
        code = "from npusim.cli import main; main(['ops', 'matrix', '--format', 'json'])"
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            check=True,
        )
        return done.stdout

    assert output("1") == output("2")


# Time --------------------------------------------------------------------------------------------


COMMANDS = {
    "start-up": ("check", "--help"),
    "check": ("check", "Add", "-s", "310P3", "self=bf16"),
    "diff": ("ops", "diff", "910B3", "310P3"),
}


def seconds(bytecode: Path, *words: str) -> float:
    """How long the processor works on a command in a process of its own, whoever else works."""
    environment = dict(os.environ, PYTHONPYCACHEPREFIX=str(bytecode))
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "npusim", *words], env=environment, capture_output=True, check=False
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.slow
def test_answers_come_quickly_compared_with_the_start_up(tmp_path: Path) -> None:
    """A machine may be slow for a while, so commands are compared with others of their own turn.

    The first turn also compiles, which an installed package doesn't have to. Start-up alone takes
    some 60 ms of processor time.
    """
    turns = [
        {name: seconds(tmp_path, *words) for name, words in COMMANDS.items()} for _ in range(5)
    ][1:]
    assert min(turn["check"] / turn["start-up"] for turn in turns) < 4.5, turns
    assert min(turn["diff"] / turn["start-up"] for turn in turns) < 9, turns


def test_read_as_json_everything_is_plain(npusim: Npusim) -> None:
    documents: list[Any] = [
        npusim("check MatMulV2 -s all --json").json,
        npusim("ops diff A2 310P --json").json,
        npusim("ops -s A2 --json --search norm").json,
    ]
    assert all(documents)


# operators without a kernel here -----------------------------------------------------------------

SELECTED = "aclnnNsaSelectedAttention"


def test_what_only_the_catalogue_knows_is_shown(npusim: Npusim) -> None:
    said = npusim(f"ops show {SELECTED}")
    assert said.code == 0
    assert "no kernel" in said.err
    for part in ("Atlas inference products", "no", "query", "BFLOAT16"):
        assert part in said.out
    assert len(npusim(f"ops show {SELECTED} -s 310P3,A2 --json").json["answers"]) == 2


@pytest.mark.parametrize("verb", ["estimate", "run", "trace", "report"])
def test_what_only_the_catalogue_knows_cant_be_timed(
    npusim: Npusim, tmp_path: Path, verb: str
) -> None:
    more = ["-o", tmp_path / "out.html"] if verb == "report" else []
    said = npusim(f"{verb} {SELECTED} -s 910B3 query=fp16[1,64,128] headNum=1", *more)
    assert said.code == 3
    if verb != "report":
        assert "561003" not in said.err
        assert f"no kernel of {SELECTED}, so it can't be timed" in said.err
        refused = npusim(f"{verb} {SELECTED} -s 310P3 query=fp16[1,64,128] headNum=1")
        assert f"{SELECTED} is not supported on Ascend310P3" in refused.err


def test_sweep_and_model_say_the_same_of_it(npusim: Npusim, tmp_path: Path) -> None:
    call = f'op: {SELECTED}, arguments: {{query: "fp16[{{B}},64,128]", headNum: 1}}'
    model = tmp_path / "model.yaml"
    model.write_text(f"calls:\n  - {{{call}}}\n")
    said = npusim("model --json -s 910B3,310P3", model)
    assert said.code == 0, "910B3 runs it, at a price that isn't simulated"
    assert [each["dtypes"][0]["code"] for each in said.json["answers"]] == [0, 561003]
    assert [each["not_simulated_share"] for each in said.json["answers"]] == [1, 1]
    assert "not decided by simulation" in said.json["answers"][0]["headline"]
    spec, out = tmp_path / "spec.yaml", tmp_path / "out.jsonl"
    spec.write_text(f"products: 910B3\naxes: {{B: [1]}}\ncalls:\n  - {{{call}}}\n")
    assert npusim("sweep --workers 1", spec, "-o", out).code == 3
    row = json.loads(out.read_text())
    assert (row["status"], row["code"]) == ("unknown", None)
    timed = call.replace("arguments", "measured_us: 909, arguments")
    model.write_text(f"calls:\n  - {{{timed}}}\n")
    assert npusim("model -s 910B3", model).code == 0


def test_a_misspelled_name_gets_near_misses_of_catalogue_and_kernels(npusim: Npusim) -> None:
    said = npusim(f"estimate {SELECTED}e -s 910B3")
    assert said.code == 2
    assert f"Did you mean {SELECTED}" in said.err
    assert said.err.count("Did you mean") == 1


def test_a_product_without_the_operator_names_others_of_the_kind(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = run_npusim(capsys, "check aclnnFlashAttentionScore -s 310P3 query=bf16")
    assert said.code == 1
    assert "aclnnPromptFlashAttention (FLOAT16)" in said.out
    assert "offered here" not in run_npusim(capsys, "check aclnnAdd -s 310P3 self=bf16").out
    assert "offered here" not in run_npusim(capsys, "check aclnnGroupNormBackward -s 310P3").out
