"""Ranks, storage formats, lists and codes as the pages of interfaces have them, in their order."""

from __future__ import annotations

from typing import Any

import pytest

from npusim import Device
from npusim.catalogue import facts, judging
from npusim.operators.listed import as_listed
from npusim.operators.registry import prototype, ruled
from npusim.operators.resolve import resolve
from npusim.reading.tables import table_in
from npusim.values.dtypes import dtype
from npusim.values.status import StatusCode

SOFTMAX = {"self": "fp16[4,64]", "dim": -1}
RMS = {"x": "fp16[4,8,64]", "gamma": "fp16[64]", "epsilon": 1e-6}
SUM = {"self": "fp16[2,32,48]", "batch1": "fp16[2,32,64]", "batch2": "fp16[2,64,48]",
       "beta": 1, "alpha": 1, "cubeMathType": 1}  # fmt: skip
GROUPS = {"x0": "fp16[16,64]", "x1": "fp16[16,64]", "weight0": "fp16[64,32]",
          "weight1": "fp16[64,32]", "splitItem": 0}  # fmt: skip
NUMBERS = {"input": "fp16[2,16,8,8]:NCHW", "weight": "fp32[16]", "bias": "fp32[16]",
           "runningMean": "fp32[16]", "runningVar": "fp32[16]", "training": True,
           "momentum": 0.1, "eps": 1e-5}  # fmt: skip
IMAGES = {"gradOutput": "fp16[2,32,8,8]:NCHW", "input": "fp16[2,16,8,8]:NCHW",
          "weight": "fp16[32,16,3,3]:NCHW", "biasSizes": [32], "stride": [1, 1],
          "padding": [1, 1], "dilation": [1, 1], "transposed": False, "outputPadding": [0, 0],
          "groups": 1, "outputMask": [True, True, True], "cubeMathType": 1}  # fmt: skip
EXPERTS = {"x": "fp16[16,64]", "expertIdx": "int32[16,4]", "activeNum": 0, "expertCapacity": 0,
           "expertNum": 8, "dropPadMode": 0, "expertTokensCountOrCumsumFlag": 1,
           "expertTokensBeforeCapacityFlag": False}  # fmt: skip

GRADIENT = {"gradOut": "fp32[4,64]", "input": "fp32[4,64]", "normalizedShape": [64],
            "mean": "fp32[4,1]", "rstd": "fp32[4,1]", "weightOptional": "fp32[64]",
            "biasOptional": "fp32[64]", "outputMask": [False, True, True]}  # fmt: skip

# Interface, a call that is accepted, what breaks it, the code and words of the message.
BREAKING: list[tuple[str, dict[str, Any], dict[str, Any], int, str]] = [
    ("aclnnBaddbmm", SUM, {"self": "fp16[1,2,32,48]"}, 161002, "Expected 1-3 dimension input"),
    ("aclnnBaddbmm", SUM, {"self": "fp16[2,32,48]:NZ"}, 161002, "should be in [ND], but got FR"),
    ("aclnnBatchNorm", NUMBERS, {"saveMean": "fp32[4,4]"}, 161002, "but got saveMean with"),
    ("aclnnSoftmax", SOFTMAX, {"self": "fp16[4,64]:NZ"}, 161002, "The format of self should be"),
    ("aclnnSoftmax", SOFTMAX, {"self": "int8[4,64]", "dim": 7}, 161002, "DT_INT8"),
    ("aclnnSoftmax", SOFTMAX, {"self": "int8[4,64]", "out": None}, 161001, "argument out"),
    ("aclnnGroupedMatmul", GROUPS, {"x1": "complex64[16,64]"}, 161002, "DT_COMPLEX64"),
    ("aclnnGroupedMatmul", GROUPS, {"weight0": "complex64[64,32]"}, 161002, "DT_COMPLEX64"),
    ("aclnnRmsNorm", RMS, {"gamma": "int8[64]"}, 161002, "DT_INT8"),
    ("aclnnRmsNorm", RMS, {"gamma": "fp16[63]"}, 561002, "*row [63]"),
    ("aclnnRmsNorm", RMS, {"yOut": None}, 161001, "argument yOut"),
    ("aclnnForeachAbs", {"x0": "fp16[4]"}, {"out0": "fp16[5]"}, 561002, "out0"),
    ("aclnnConvolutionBackward", IMAGES, {"input": "fp16[2,16,8,8]:NZ"}, 161002, "FRACTAL_NZ"),
    ("aclnnLayerNormBackward", GRADIENT, {"gradWeightOut": None}, 161001, "argument gradWeightOut"),
    ("aclnnLayerNormBackward", GRADIENT, {"outputMask": [True]}, 161002, "3 entries"),
    ("aclnnMoeInitRoutingV2", EXPERTS, {"expertIdx": "int32[1,16,4]"}, 561103, "Expected 1-2"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "call", "changes", "code", "says"), BREAKING)
def test_a_rule_of_the_page_is_refused_with_its_code(
    name: str, call: dict[str, Any], changes: dict[str, Any], code: int, says: str
) -> None:
    device = Device("Ascend910B3")
    assert device.check(name, **call).ok
    status = device.check(name, **{**call, **changes})
    assert (status.code, status.is_modelled) == (code, True)
    assert says in status.message
    for action in status.actions:
        chip = Device(action.soc_version) if action.soc_version else device
        assert chip.check(name, **{**call, **changes, **action.arguments}).ok


def test_one_element_has_any_number_of_axes() -> None:
    device = Device("Ascend910B3")
    loss = {"self": "fp32[4]", "target": "fp32[4]", "reduction": 1}
    assert all(device.check("aclnnMseLoss", **loss, out=f"fp32{ones}").ok for ones in ("[]", "[1]"))


def test_results_that_nobody_wants_are_null_pointers() -> None:
    spare = ("expertTokensCountOrCumsumOut", "expertTokensBeforeCapacityOut")
    device = Device("Ascend910B3")
    assert device.check("aclnnMoeInitRoutingV2", **EXPERTS, **dict.fromkeys(spare)).ok
    gated = {"x": "fp32[16,256]", "k": 8, "kGroup": 4, "groupCount": 8, "groupSelectMode": 1,
             "renorm": 0, "normType": 1, "outFlag": False, "routedScalingFactor": 1.0,
             "eps": 1e-20}  # fmt: skip
    assert device.check("aclnnMoeGatingTopK", **gated, outOut=None).ok
    row = {"input": "fp16[4,64]", "normalizedShape": [64], "eps": 1e-5}
    spare = ("weightOptional", "biasOptional", "meanOutOptional", "rstdOutOptional")
    assert device.check("aclnnLayerNorm", **row, **dict.fromkeys(spare)).ok
    assert device.check("aclnnLayerNormBackward", **GRADIENT, gradInputOut=None).ok


def test_the_list_of_checks_has_the_same_codes() -> None:
    checks = as_listed(resolve("aclnnRmsNorm", RMS)).checks
    codes = [int(each.code) for each in checks if each.code is not None]
    assert codes[:2] == [161001, 161002]
    assert set(codes[2:]) == {561002}


@pytest.mark.parametrize("table", ["tilings.csv", "ranks.csv", "dtypes.csv", "formats.csv"])
def test_tables_of_pages_name_interfaces_and_parameters(table: str) -> None:
    known = facts.catalogue()
    with table_in(facts.DATA_FILE.with_name(table)) as rows:
        for _, (api, *others) in rows:
            assert api in known.paged_apis
            if table != "tilings.csv":
                page = known.page(api, "A2")
                assert page is not None
                assert others[0] in [each.name for each in page.parameters]
                if table == "dtypes.csv":
                    assert all(dtype(name.lower()).name == name for name in others[1].split(";"))
            else:
                assert (prototype(api) or ruled(api)) is not None
                assert judging.code_of_shapes(api) is StatusCode.ACLNN_ERR_INNER_TILING_ERROR


@pytest.mark.parametrize(
    ("chip", "refused"), [("Ascend910A", "bf16"), ("Ascend910B3", "complex32")]
)
def test_normal_numbers_are_drawn_into_integers(chip: str, refused: str) -> None:
    """Source: DTYPE_SUPPORT_LIST in aclnn_normal.cpp."""
    said = {"mean": 0.0, "std": 1.0, "seed": 0, "offset": 0}
    for name in ("fp16", "fp32", "fp64", "int8", "int16", "int32", "int64", "uint8", "bool"):
        assert Device(chip).check("aclnnInplaceNormal", selfRef=f"{name}[64]", **said).ok
    found = Device(chip).check("aclnnInplaceNormal", selfRef=f"{refused}[64]", **said)
    assert found.code == 161002
    assert "DT_INT64" in found.message
