"""`npusim ops show`: the contract as a page, and the tasks of a typical call on every product."""

from __future__ import annotations

from typing import Any

import pytest

from npusim import Device
from npusim.cli.arguments import read_assignments
from npusim.hardware import load_profile
from npusim.operators.contract import Typical
from npusim.operators.registry import operator, operators
from npusim.reporting.call.typical import spelled
from npusim.values.dtypes import BFLOAT16, FLOAT, INT32
from npusim.values.tensors import TensorSpec
from support.commands import npusim

ROI, MSDA, UPSAMPLE = (
    "RoiAlignV2Backward",
    "MultiScaleDeformableAttentionGrad",
    "UpsampleNearestExact1dBackward",
)


_TOLD: dict[str, dict[str, Any]] = {}


def typical_of(capsys: pytest.CaptureFixture[str], line: str) -> dict[str, Any]:
    """The part of the JSON page that concerns the typical call; each page is asked for once."""
    if line not in _TOLD:
        _TOLD[line] = npusim(capsys, f"ops show {line} --json").json["typical"]
    return _TOLD[line]


@pytest.mark.parametrize("op", operators())
def test_every_operator_has_a_typical_call_that_its_checks_accept(op: str) -> None:
    contract = operator(op)
    assert contract.typical is not None
    for soc in ("Ascend910A", "Ascend910B3", "Ascend310P3"):
        family = load_profile(soc).family
        if family not in contract.products:
            continue
        accepted = [
            dtype
            for dtype in contract.typical_dtypes(family)
            if Device(soc).check(op, **contract.typical.in_dtype(dtype)).ok
        ]
        assert accepted, f"{op} on {soc}"


@pytest.mark.parametrize("op", operators())
def test_the_typical_call_can_be_copied_to_the_command_line(op: str) -> None:
    contract = operator(op)
    assert contract.typical is not None
    words = [f"{name}={text}" for name, text in spelled(contract.typical.arguments).items()]
    read = read_assignments(contract, words)
    assert spelled(read) == spelled(contract.typical.arguments)
    assert Device("Ascend910B3").check(op, **read).ok


def test_only_floating_tensors_change_with_the_dtype() -> None:
    index = TensorSpec((4,), INT32)
    typical = Typical("two tensors", {"x": TensorSpec((2, 3), FLOAT), "index": index, "n": 3})
    recast = typical.in_dtype(BFLOAT16)
    assert recast == {"x": TensorSpec((2, 3), BFLOAT16), "index": index, "n": 3}


@pytest.mark.parametrize(
    ("soc", "dtype", "tasks"),
    [
        ("Ascend910A", "FLOAT", ["TransData", "MemSet", "ROIAlignGrad", "TransData"]),
        ("Ascend910B3", "FLOAT", ["TransData", "MemSet", "ROIAlignGrad", "TransData"]),
        ("Ascend310P3", "FLOAT", ["TransData", "MemSet", "ROIAlignGrad", "TransData"]),
    ],
)
def test_roi_align_backward_is_a_chain_of_tasks(
    capsys: pytest.CaptureFixture[str], soc: str, dtype: str, tasks: list[str]
) -> None:
    answers = typical_of(capsys, ROI)["answers"]
    [answer] = [each for each in answers if each["soc"] == soc]
    assert answer["dtype"] == dtype
    assert [task["name"] for task in answer["tasks"]] == tasks
    assert answer["dominated_by"]["task"] == "ROIAlignGrad"
    assert sum(task["share"] for task in answer["tasks"]) == pytest.approx(1)
    assert answer["workspace_size"] > 0


def test_casts_stand_around_the_kernel_in_half_precision(
    capsys: pytest.CaptureFixture[str],
) -> None:
    answers = typical_of(capsys, f"{UPSAMPLE} -s 910b3")["answers"]
    chains = {each["dtype"]: [task["name"] for task in each["tasks"]] for each in answers}
    kernel = "UpsampleNearestExact2dGrad"
    cast = ["Cast", kernel, "Cast"]
    assert chains == {"FLOAT": [kernel], "FLOAT16": cast, "BFLOAT16": cast}


def test_the_page_shows_chain_shares_and_what_dominates(
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = npusim(capsys, f"ops show {MSDA} -s 910b3").out
    head, _, typical = page.partition("a typical call")
    assert "first phase" in head
    chain, _, most = typical.partition("what dominates")
    for word in ("task chain", "Transpose", "cores", "share", "bound by", "Ascend910B3"):
        assert word in chain
    for word in ("workspace", "MultiScaleDeformableAttentionGrad", "80 % band"):
        assert word in most
    assert "points_inside" in most  # what was assumed


def test_neighbours_of_one_type_share_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    page = npusim(capsys, "ops show GroupNormBackward -s 910a").out
    assert "ReduceSum x4" in page
    answer = typical_of(capsys, "GroupNormBackward -s 910a")["answers"][0]
    told = answer["dominated_by"]
    same = [task["share"] for task in answer["tasks"] if task["name"] == told["task"]]
    assert told["times"] == len(same)
    assert told["share"] == pytest.approx(sum(same))
    shares = [
        sum(task["share"] for task in answer["tasks"] if task["name"] == name)
        for name in {task["name"] for task in answer["tasks"]}
    ]
    assert told["share"] == pytest.approx(max(shares))


def test_dtypes_with_the_same_tasks_and_times_stand_together(
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = npusim(capsys, "ops show GroupNormBackward -s 910b3").out
    assert "FLOAT16, BFLOAT16" in page


def test_a_chip_without_the_operator_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    said = npusim(capsys, f"ops show {UPSAMPLE} -s 310p3")
    assert said.code == 0
    assert "561003" in said.out.partition("what dominates")[2]
    [answer, *_] = typical_of(capsys, f"{UPSAMPLE} -s 310p3")["answers"]
    assert not answer["ok"]
    assert "tasks" not in answer


def test_an_unknown_chip_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    said = npusim(capsys, f"ops show {ROI} -s 910b9")
    assert said.code == 2
    assert "910b9" in said.err


def test_product_names_that_offers_the_operator_is_shown_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for op in (ROI, UPSAMPLE):
        answers = typical_of(capsys, op)["answers"]
        chips = dict.fromkeys(answer["soc"] for answer in answers)
        families = [load_profile(chip).family for chip in chips]
        offered = operator(op).products
        assert families == [family for family in offered if family in families]
        assert {"A2", "A3"} <= set(families)


def test_what_pages_list_is_shown_of_operators_that_list_nothing_themselves(
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = npusim(capsys, "ops show aclnnRmsNorm").out
    assert "310P: FLOAT FLOAT16" in page
    assert "FLOAT BFLOAT16" not in page
    assert page.index("is a null pointer") < page.index("doesn't take the dtype of x, gamma")
    shown = npusim(capsys, "ops show aclnnGroupedMatmulV4 --json").json
    told = {each["name"]: each for each in shown["parameters"]}
    assert "910" not in shown["products"]
    assert told["weight0"]["dtypes"]["A2"][-3:] == ["INT8", "INT4", "INT32"]
    assert told["weight0"]["formats"] == ["ND", "FRACTAL_NZ"]
    assert not any(told["activationInputOptional0"]["dtypes"].values())  # it has to be null
    rank = npusim(capsys, "ops show aclnnKvRmsNormRopeCache --json").json["parameters"][0]["rank"]
    assert rank == [4, 4]
