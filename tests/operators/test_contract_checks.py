"""Contracts: each rule of each operator objects in its turn, in words that can be searched for."""

from __future__ import annotations

from typing import Any

import pytest

from npusim.hardware.naming import load_profile
from npusim.operators import oracle, registry
from npusim.operators.arguments import bind, complete
from npusim.operators.contract import Call, Contract
from npusim.values.dtypes import dtype
from support.statuses import check_call

# A call of each operator that is accepted on Ascend910B3; outputs are left to the operator.
GOOD: dict[str, dict[str, Any]] = {
    "aclnnBinaryCrossEntropyBackward": {
        "gradOutput": "fp32[2,3]",
        "self": "fp32[2,3]",
        "target": "fp32[2,3]",
        "weightOptional": "fp32[2,3]",
        "reduction": 0,
    },
    "aclnnGroupNormBackward": {
        "gradOut": "fp16[2,6,4]",
        "input": "fp16[2,6,4]",
        "mean": "fp16[2,3]",
        "rstd": "fp16[2,3]",
        "gamma": "fp16[6]",
        "N": 2,
        "C": 6,
        "HxW": 4,
        "group": 3,
        "outputMask": [True, True, False],
    },
    "aclnnRoiAlignV2Backward": {
        "gradOutput": "fp32[2,3,2,4]:NCHW",
        "boxes": "fp32[2,5]",
        "inputShape": [1, 3, 6, 7],
        "pooledHeight": 2,
        "pooledWidth": 4,
        "spatialScale": 0.5,
        "samplingRatio": 2,
        "aligned": False,
    },
    "aclnnUpsampleNearestExact1dBackward": {
        "gradOutput": "bf16[2,3,6]:NCL",
        "outputSize": [6],
        "inputSize": [2, 3, 4],
        "scales": 0.0,
    },
    "aclnnMultiScaleDeformableAttentionGrad": {
        "value": "fp32[2,20,4,16]",
        "spatialShape": "int32[2,2]",
        "levelStartIndex": "int64[2]",
        "location": "fp32[2,5,4,2,3,2]",
        "attnWeight": "fp32[2,5,4,2,3]",
        "gradOutput": "fp32[2,5,64]",
    },
}

# What breaks a good call: operator, changes, return code, and words of the message. In the order
# of the operator's checks; every check appears at least once (see the test below).
BREAKING: list[tuple[str, dict[str, Any], int, str]] = [
    ("BinaryCrossEntropy", {"self": None}, 161001, "argument self but instead found nullptr"),
    ("BinaryCrossEntropy", {"out": None}, 161001, "argument out but instead found nullptr"),
    (
        "BinaryCrossEntropy",
        {"target": "fp32[1,1,1,1,1,1,1,1,1]"},
        161002,
        "larger than 8 dimensions",
    ),
    (
        "BinaryCrossEntropy",
        {"self": "int32[2,3]"},
        161002,
        "tensor self not implemented for DT_INT32",
    ),
    ("BinaryCrossEntropy", {"out": "fp64[2,3]"}, 161002, "[DT_FLOAT, DT_FLOAT16, DT_BFLOAT16]"),
    (
        "BinaryCrossEntropy",
        {"self": "fp32[2,3]:ND", "target": "fp32[2,3]:NCHW"},
        161002,
        "format of target NCHW must equal ND",
    ),
    ("BinaryCrossEntropy", {"out": "fp32[6]"}, 161002, "tensor out [6] must match"),
    ("BinaryCrossEntropy", {"gradOutput": "fp32[2]"}, 161002, "tensor gradOutput [2] must match"),
    ("BinaryCrossEntropy", {"target": "fp32[1,2,3]"}, 161002, "tensor target [1, 2, 3] must match"),
    ("BinaryCrossEntropy", {"reduction": 3}, 161002, "reduction should be in [0, 1, 2], but got 3"),
    ("GroupNorm", {"rstd": None}, 161001, "argument rstd but instead found nullptr"),
    ("GroupNorm", {"outputMask": None}, 161001, "type aclBoolArray for argument outputMask"),
    ("GroupNorm", {"outputMask": [True]}, 161002, "should have 3 entries, but got 1"),
    ("GroupNorm", {"gradInput": None}, 161001, "argument gradInput but instead found nullptr"),
    ("GroupNorm", {"gradOut": "int8[2,6,4]"}, 161002, "tensor gradOut not implemented for DT_INT8"),
    ("GroupNorm", {"gamma": "fp32[6]"}, 161002, "found gradOut DT_FLOAT16 and gamma DT_FLOAT"),
    ("GroupNorm", {"gradInput": "fp32[2,6,4]"}, 161002, "and gradInput DT_FLOAT"),
    ("GroupNorm", {"group": -3}, 161002, "group should be at least 1, but got -3"),
    ("GroupNorm", {"group": 4}, 161002, "divisible by group, but got C 6 and group 4"),
    ("GroupNorm", {"C": 240_003, "group": 80_001}, 161002, "C should be at most 240000"),
    ("GroupNorm", {"C": 8_001, "group": 1}, 161002, "C / group should be at most 8000"),
    ("GroupNorm", {"mean": "fp16[1,1,1,1,1,1,1,2,3]"}, 161002, "larger than 8 dimensions"),
    ("GroupNorm", {"input": "fp16[2,6,5]"}, 161002, "(60 elements) must match N*C*HxW = 48"),
    ("GroupNorm", {"rstd": "fp16[7]"}, 161002, "(7 elements) must match N*group = 6"),
    ("GroupNorm", {"gamma": "fp16[5]"}, 161002, "(5 elements) must match C = 6"),
    ("GroupNorm", {"gradInput": "fp16[48]"}, 161002, "tensor gradInput [48] must match"),
    ("GroupNorm", {"gradGammaOut": "fp16[6,1]"}, 161002, "must match the size of tensor gamma [6]"),
    ("RoiAlign", {"inputShape": None}, 161001, "type aclIntArray for argument inputShape"),
    ("RoiAlign", {"gradOutput": "fp16[2,3,2,4]:NCHW"}, 161002, "not implemented for DT_FLOAT16"),
    ("RoiAlign", {"boxes": "fp16[2,5]"}, 161002, "found gradOutput DT_FLOAT and boxes DT_FLOAT16"),
    ("RoiAlign", {"gradOutput": "fp32[2,3,2,4]:NHWC"}, 161002, "should be NCHW, but got NHWC"),
    ("RoiAlign", {"boxes": "fp32[2,5]:NCHW"}, 161002, "format of boxes should be ND"),
    ("RoiAlign", {"gradInput": "fp32[1,3,6,7]:NHWC"}, 161002, "format of gradInput should be NCHW"),
    ("RoiAlign", {"gradOutput": "fp32[2,3,8]:NCHW"}, 161002, "Expected 4 dimension input"),
    ("RoiAlign", {"boxes": "fp32[10]"}, 161002, "Expected 2 dimension input, but got boxes"),
    (
        "RoiAlign",
        {"boxes": "fp32[2,4]"},
        161002,
        "should be 5 (image id, x1, y1, x2, y2), but got 4",
    ),
    ("RoiAlign", {"inputShape": [1, 3, 42]}, 161002, "inputShape should have 4 entries, but got 3"),
    ("RoiAlign", {"boxes": "fp32[3,5]"}, 161002, "must match the size of boxes"),
    ("RoiAlign", {"pooledWidth": 5}, 161002, "pooledHeight and pooledWidth [2, 3, 2, 5]"),
    ("RoiAlign", {"gradInput": "fp32[3,6,7]:NCHW"}, 161002, "got gradInput with sizes [3, 6, 7]"),
    ("RoiAlign", {"inputShape": [1, 4, 6, 7]}, 161002, "channels of gradInput should be 3"),
    ("RoiAlign", {"gradInput": "fp32[1,3,6,8]:NCHW"}, 161002, "size of inputShape [1, 3, 6, 7]"),
    ("RoiAlign", {"inputShape": [1, 3, -6, 7]}, 161002, "inputShape can't be negative"),
    ("RoiAlign", {"samplingRatio": -1}, 161002, "samplingRatio should be at least 0, but got -1"),
    ("RoiAlign", {"spatialScale": 0.0}, 161002, "spatialScale should be larger than 0"),
    ("RoiAlign", {"spatialScale": 1e-39}, 161002, "spatialScale should be larger than 0"),
    ("RoiAlign", {"spatialScale": float("nan")}, 161002, "but got nan"),
    ("Upsample", {"inputSize": None}, 161001, "argument inputSize but instead found nullptr"),
    ("Upsample", {"gradOutput": "fp64[2,3,6]"}, 161002, "not implemented for DT_DOUBLE"),
    ("Upsample", {"out": "fp32[2,3,4]"}, 161002, "gradOutput DT_BFLOAT16 and out DT_FLOAT"),
    ("Upsample", {"out": "bf16[2,3,4]:ND"}, 161002, "format of out ND must equal NCL"),
    (
        "Upsample",
        {"gradOutput": "bf16[1,2,3,6]"},
        161002,
        "Expected 3 dimension input, but got grad",
    ),
    ("Upsample", {"out": "bf16[1,2,3,4]:NCL"}, 161002, "Expected 3 dimension input, but got out"),
    ("Upsample", {"inputSize": [4]}, 161002, "inputSize should have 3 entries, but got 1"),
    ("Upsample", {"outputSize": [6, 6]}, 161002, "outputSize should have 1 entry, but got 2"),
    ("Upsample", {"out": "bf16[2,4,4]:NCL"}, 161002, "N and C of out [2, 4] must match"),
    ("Upsample", {"scales": -0.5}, 161002, "scales should be at least 0, but got -0.5"),
    ("Upsample", {"scales": 50.5}, 161002, "at most 50, but got scales 50.5"),
    ("Upsample", {"gradOutput": "bf16[2,3,201]:NCL"}, 161002, "at most 50, but got 201 / 4"),
    ("Upsample", {"gradOutput": "bf16[2,0,6]:NCL"}, 161002, "[2, 0, 6] should be larger than 0"),
    ("Upsample", {"gradOutput": "bf16[2,3,0]:NCL"}, 161002, "[2, 3, 0] should be larger than 0"),
    ("Upsample", {"out": "bf16[2,3,5]:NCL"}, 161002, "must match inputSize[2] = 4"),
    ("MultiScale", {"levelStartIndex": None}, 161001, "argument levelStartIndex but instead"),
    ("MultiScale", {"value": "fp64[2,20,4,16]"}, 161002, "not implemented for DT_DOUBLE"),
    ("MultiScale", {"spatialShape": "fp32[2,2]"}, 161002, "support list [DT_INT32, DT_INT64]"),
    ("MultiScale", {"location": "bf16[2,5,4,2,3,2]"}, 161002, "expected both tensors to have same"),
    ("MultiScale", {"value": "fp32[2,20,4,16]:NZ"}, 161002, "format FRACTAL_NZ of value"),
    ("MultiScale", {"value": "fp32[40,4,16]"}, 161002, "Expected 4 dimension input, but got value"),
    ("MultiScale", {"spatialShape": "int32[4]"}, 161002, "Expected 2 dimension input"),
    ("MultiScale", {"levelStartIndex": "int32[2,1]"}, 161002, "Expected 1 dimension input"),
    ("MultiScale", {"location": "fp32[2,5,4,2,6]"}, 161002, "Expected 6 dimension input"),
    ("MultiScale", {"attnWeight": "fp32[2,5,4,6]"}, 161002, "Expected 5 dimension input"),
    ("MultiScale", {"gradOutput": "fp32[10,64]"}, 161002, "Expected 3 or 4 dimension input"),
    ("MultiScale", {"spatialShape": "int32[2,3]"}, 161002, "last dimension of spatialShape"),
    ("MultiScale", {"value": "fp32[2,20,4,12]"}, 161002, "divisible by 8, but got 12"),
    ("MultiScale", {"value": "fp32[2,20,4,264]"}, 161002, "channels should be at most 256"),
    ("MultiScale", {"value": "fp32[2,20,17,16]"}, 161002, "num_heads should be at most 16"),
    ("MultiScale", {"location": "fp32[2,5,4,17,3,2]"}, 161002, "num_levels should be at most 16"),
    ("MultiScale", {"location": "fp32[2,5,4,2,17,2]"}, 161002, "num_points should be at most 16"),
    ("MultiScale", {"location": "fp32[2,500000,4,2,3,2]"}, 161002, "less than 500000, but got 5"),
    ("MultiScale", {"attnWeight": "fp32[2,5,4,2,4]"}, 161002, "tensor attnWeight [2, 5, 4, 2, 4]"),
    ("MultiScale", {"gradOutput": "fp32[2,5,4,8]"}, 161002, "value and location [2, 5, 4, 16]"),
    ("MultiScale", {"gradValue": "fp32[2,20,4,8]"}, 161002, "tensor gradValue [2, 20, 4, 8] must"),
    ("MultiScale", {"gradLocation": "fp32[2,5,4,2,2,3]"}, 161002, "tensor gradLocation"),
    ("MultiScale", {"gradAttnWeight": "fp32[2,5,4,3,2]"}, 161002, "tensor gradAttnWeight"),
]


def full_name(part: str) -> str:
    (name,) = (each for each in GOOD if part in each)
    return name


def call_of(name: str, soc: str = "Ascend910B3", **changes: Any) -> Call:
    contract = registry.operator(name)
    bound = bind(contract, {**GOOD[contract.name], **changes}, require_data=False)
    return Call(contract, load_profile(soc), bound)


def objecting_check(call: Call) -> int:
    """The position of the first check that objects, or -1."""
    findings = (check.test(call) is not None for check in call.contract.checks)
    return next((position for position, objects in enumerate(findings) if objects), -1)


# What each check says --------------------------------------------------------------------------


@pytest.mark.parametrize("name", GOOD)
def test_a_good_call_is_accepted_and_its_outputs_are_described(name: str) -> None:
    call = call_of(name)
    status = check_call(call)
    assert status.ok, status.render()
    done = complete(call)
    outputs = {each.name for each in call.contract.outputs if done.is_given(each.name)}
    assert outputs == set(call.contract.infer_outputs(call))
    assert outputs
    assert check_call(done).ok
    assert not call.contract.is_empty(done)


@pytest.mark.parametrize(("part", "changes", "code", "says"), BREAKING)
def test_a_broken_rule_is_named(part: str, changes: dict[str, Any], code: int, says: str) -> None:
    status = check_call(call_of(full_name(part), **changes))
    assert status.code == code
    assert says.lower() in status.message.lower()
    assert status.message.endswith(".")


@pytest.mark.parametrize("name", GOOD)
def test_every_check_objects_in_its_turn(name: str) -> None:
    broken = [changes for part, changes, _, _ in BREAKING if full_name(part) == name]
    positions = [objecting_check(call_of(name, **changes)) for changes in broken]
    assert positions == sorted(positions), "the cases stand in the order of the checks"
    titles = [check.title for check in registry.operator(name).checks]
    silent = [title for position, title in enumerate(titles) if position not in positions]
    # No floating dtypes that a product takes fail to combine, so this one guards the future only.
    assert [title for title in silent if "no common dtype" not in title] == []


@pytest.mark.parametrize(
    ("part", "changes", "code"),
    [
        ("BinaryCrossEntropy", {"reduction": 7, "target": None}, 161001),
        ("BinaryCrossEntropy", {"self": "int8[9]", "out": None}, 161001),
        ("GroupNorm", {"gradOut": "int8[1]", "gradInput": None}, 161001),
        ("GroupNorm", {"outputMask": [True], "gradInput": None}, 161002),
        ("GroupNorm", {"gradOut": None, "outputMask": None}, 161001),
        ("RoiAlign", {"spatialScale": -1.0, "boxes": None}, 161001),
    ],
)
def test_of_two_mistakes_the_earlier_check_decides(
    part: str, changes: dict[str, Any], code: int
) -> None:
    assert check_call(call_of(full_name(part), **changes)).code == code


# Products --------------------------------------------------------------------------------------


def test_bfloat16_where_it_is_missing_says_where_it_is() -> None:
    changes = dict.fromkeys(("gradOutput", "self", "target", "weightOptional"), "bf16[2,3]")
    call = call_of("aclnnBinaryCrossEntropyBackward", "Ascend310P3", **changes)
    status = oracle.check(call.contract.name, load_profile("Ascend310P3"), call.arguments)
    assert status.render() == (
        "ACLNN_ERR_PARAM_INVALID (161002): tensor self not implemented for DT_BFLOAT16 on "
        "Ascend310P3, should be in dtype support list [DT_FLOAT, DT_FLOAT16].\n"
        "BF16 needs an Atlas A2 product (Ascend910B1..B4) or later; cast to FLOAT16, "
        "or choose another --soc-version."
    )


@pytest.mark.parametrize(
    ("part", "soc", "code"),
    [
        ("BinaryCrossEntropy", "Ascend910A", 0),
        ("BinaryCrossEntropy", "Ascend310P3", 0),
        ("GroupNorm", "Ascend910A", 0),
        ("GroupNorm", "Ascend310P3", 561003),
        ("RoiAlign", "Ascend910A", 0),
        ("RoiAlign", "Ascend310P3", 0),
        ("Upsample", "Ascend910A", 561003),
        ("Upsample", "Ascend310P3", 561003),
        ("MultiScale", "Ascend910A", 561003),
        ("MultiScale", "Ascend310P3", 561003),
    ],
)
def test_a_product_without_the_operator_finds_no_kernel(part: str, soc: str, code: int) -> None:
    assert check_call(call_of(full_name(part), soc)).code == code


def test_a_missing_kernel_names_the_products_that_have_one() -> None:
    call = call_of("aclnnGroupNormBackward", "Ascend310P3")
    status = oracle.check(call.contract.name, load_profile("Ascend310P3"), call.arguments)
    assert status.name == "ACLNN_ERR_INNER_FIND_KERNEL_ERROR"
    assert status.message == (
        "aclnnGroupNormBackward has no kernel for Ascend310P3: "
        "Atlas inference products don't offer it."
    )
    assert "Ascend910A" in status.remedy
    assert "Ascend910B1..B4" in status.remedy


def test_parameters_are_checked_before_the_kernel_is_looked_for() -> None:
    half_as_bf16 = {
        name: value.replace("fp16", "bf16")
        for name, value in GOOD["aclnnGroupNormBackward"].items()
        if isinstance(value, str)
    }
    assert (
        check_call(call_of("aclnnGroupNormBackward", "Ascend310P3", **half_as_bf16)).code == 161002
    )
    assert check_call(call_of("aclnnGroupNormBackward", "Ascend910B3", **half_as_bf16)).code == 0


def test_channel_limits_belong_to_the_kernel_that_has_them() -> None:
    wide = {
        "gradOut": "fp16[1,8001]",
        "input": "fp16[1,8001]",
        "mean": "fp16[1]",
        "rstd": "fp16[1]",
        "gamma": None,
        "N": 1,
        "C": 8001,
        "HxW": 1,
        "group": 1,
    }
    assert check_call(call_of("aclnnGroupNormBackward", "Ascend910B3", **wide)).code == 161002
    assert check_call(call_of("aclnnGroupNormBackward", "Ascend910A", **wide)).code == 0


@pytest.mark.parametrize(
    ("part", "changes"),
    [
        ("Upsample", {"scales": 50.0}),
        ("Upsample", {"gradOutput": "bf16[2,3,200]:NCL"}),
        ("RoiAlign", {"spatialScale": 2.0**-125}),
        ("MultiScale", {"value": "fp32[2,20,4,256]", "gradOutput": "fp32[2,5,1024]"}),
        (
            "MultiScale",
            {
                "value": "fp32[2,20,16,16]",
                "spatialShape": "int32[16,2]",
                "levelStartIndex": "int64[16]",
                "location": "fp32[2,499999,16,16,16,2]",
                "attnWeight": "fp32[2,499999,16,16,16]",
                "gradOutput": "fp32[2,499999,16,16]",
            },
        ),
    ],
)
def test_a_limit_itself_is_allowed(part: str, changes: dict[str, Any]) -> None:
    status = check_call(call_of(full_name(part), **changes))
    assert status.ok, status.render()


# Outputs and empty tensors ---------------------------------------------------------------------


def test_outputs_take_the_promoted_dtype_and_the_mask() -> None:
    half = call_of("aclnnBinaryCrossEntropyBackward", self="fp16[2,3]", target="bf16[2,3]")
    assert complete(half).spec("out").dtype is dtype("float32")
    call = complete(call_of("aclnnGroupNormBackward", gamma=None))
    assert call.spec("gradGammaOut").shape == (6,)
    assert not call.is_given("gradBetaOut")


@pytest.mark.parametrize(
    ("part", "changes", "shortcut"),
    [
        (
            "BinaryCrossEntropy",
            dict.fromkeys(("gradOutput", "self", "target", "weightOptional"), "fp32[0,3]"),
            True,
        ),
        # With an empty self the other shapes aren't looked at.
        ("BinaryCrossEntropy", {"self": "fp32[0]", "out": "fp32[5]"}, True),
        (
            "GroupNorm",
            {
                "gradOut": "fp16[0,6,4]",
                "input": "fp16[0]",
                "mean": "fp16[0]",
                "rstd": "fp16[0]",
                "N": 0,
            },
            True,
        ),
        (
            "MultiScale",
            {
                "location": "fp32[2,0,4,2,3,2]",
                "attnWeight": "fp32[2,0,4,2,3]",
                "gradOutput": "fp32[2,0,64]",
            },
            True,
        ),
        # RoI align still fills its output with zeros.
        ("RoiAlign", {"gradOutput": "fp32[0,3,2,4]:NCHW", "boxes": "fp32[0,5]"}, False),
    ],
)
def test_empty_tensors_are_accepted(part: str, changes: dict[str, Any], shortcut: bool) -> None:
    call = call_of(full_name(part), **changes)
    assert check_call(call).ok
    assert call.contract.is_empty(call) is shortcut


# What is shown to readers ----------------------------------------------------------------------


@pytest.mark.parametrize("name", GOOD)
def test_a_contract_explains_itself(name: str) -> None:
    contract = registry.operator(name)
    assert contract.summary.endswith(".")
    assert contract.source
    for parameter in contract.parameters:
        assert parameter.description.endswith("."), parameter.name
        assert bool(parameter.dtypes) == (parameter.kind == "tensor"), parameter.name
    for sentence in (*contract.limits, *contract.notes):
        assert sentence.endswith(".")
    codes = [row.code for row in contract.return_codes()]
    assert codes == [161001, 161002, 561003]
    reasons = sum((row.reasons for row in contract.return_codes()), ())
    assert len(reasons) == len(contract.checks) + 2


@pytest.mark.parametrize("name", GOOD)
def test_dtypes_are_stated_for_product_names_that_offers_the_operator(name: str) -> None:
    contract: Contract = registry.operator(name)
    for parameter in contract.parameters:
        if parameter.kind == "tensor":
            assert all(parameter.dtypes_on(family) for family in contract.products)
            bf16 = [dtype("bf16") in parameter.dtypes_on(family) for family in ("910", "310P")]
            assert not any(bf16) or not {"910", "310P"} & set(contract.products)
