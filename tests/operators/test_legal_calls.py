"""What check accepts, run computes; what run would refuse, check refuses, and says what is wrong.

The suite bends some hundred calls, always the same; NPUSIM_ODD_CALLS=20000 bends as many others.
"""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from inspect import signature
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from npusim import Device, TensorSpec
from npusim.model import read_model, retime
from npusim.operators.registry import op_types, prototype, standard_names
from npusim.operators.resolve import resolve
from npusim.values.errors import AclnnError, DeviceFault, NpusimError
from support.odd_calls import CHIPS, Odd, bend, calls
from support.references import rows
from support.references.calls import called
from support.row_cases import stood_for

if TYPE_CHECKING:
    from support.references.row import Row

pytestmark = pytest.mark.torch  # calls of references that are torch's
COUNT = int(os.environ.get("NPUSIM_ODD_CALLS", "640"))
CHIP = "Ascend910B3"
EACH = COUNT // 640  # calls of an interface with references, two of every 96th in the suite
MANY = 1 << 20  # what numpy.zeros would fill a host's memory with


@cache
def device(chip: str) -> Device:
    return Device(chip)


def answer(ask: Any, op: str, arguments: dict[str, Any]) -> object:
    """The code, or the kind of error of a question that is put wrongly."""
    try:
        found = ask(op, **arguments)
    except AclnnError as error:
        return error.status.code
    except DeviceFault:
        return "data"
    except NpusimError as error:
        return type(error)
    if getattr(found, "is_modelled", False):  # a yes, or unknown: the product is in doubt
        return found.code or 0
    return getattr(found, "code", 0)


def described(arguments: dict[str, Any]) -> dict[str, Any]:
    return {
        name: TensorSpec.of(value) if isinstance(value, np.ndarray) else value
        for name, value in arguments.items()
    }


def fits_the_host(odd: Odd) -> bool:
    numbers = (each for each in odd.arguments.values() if not isinstance(each, np.ndarray))
    flat = (each if isinstance(each, list) else [each] for each in numbers)
    return all(not isinstance(each, int) or each < MANY for entries in flat for each in entries)


def test_check_estimate_and_run_agree_on_any_call() -> None:
    seen = set()
    for odd in calls(seed=COUNT, count=COUNT):
        asked, arguments = device(odd.chip), described(odd.arguments)
        checked = answer(asked.check, odd.op, arguments)
        assert answer(asked.estimate, odd.op, arguments) == checked, odd
        if fits_the_host(odd):
            copies = {
                name: value.copy() if isinstance(value, np.ndarray) else value
                for name, value in odd.arguments.items()
            }
            assert answer(asked.run, odd.op, copies) in (checked, "data"), odd
        seen.add(checked)
    assert {0, 161001, 161002, 561003} <= seen
    assert len(set(op_types()) - stood_for()) <= COUNT


INTERFACES = [row for each in rows().values() for row in each][:: 1 if EACH > 1 else 96]
FAMILIES = {"Ascend910A": "910", "Ascend310P3": "310P"}


@pytest.mark.parametrize("row", INTERFACES, ids=lambda row: row.api)
def test_interface_agrees_with_itself(row: Row) -> None:
    """Bent calls of what is composed of other operators too, as the references make them."""

    @settings(
        max_examples=max(EACH, 2), derandomize=True, deadline=None, database=None,
        suppress_health_check=list(HealthCheck), phases=(Phase.generate,),
    )  # fmt: skip
    @given(st.data())
    def ask(data: st.DataObject) -> None:
        seed = f"{row.api} {data.draw(st.integers(0, 2**40))}"
        random = Random(seed)  # noqa: S311 - calls, no secrets
        chip = random.choice(CHIPS)
        try:
            arguments = dict(called(row, data.draw, FAMILIES.get(chip, "A2")).arguments)
        except (AclnnError, TypeError):  # dtypes that the interface or its reference refuses
            return
        for _ in range(random.choice((0, 1, 1, 2))):
            bend(random, row.api, arguments)
        odd, asked, specs = Odd(chip, row.api, arguments), device(chip), described(arguments)
        checked = answer(asked.check, row.api, specs)
        assert answer(asked.estimate, row.api, specs) == checked, odd
        if fits_the_host(odd):
            assert answer(asked.run, row.api, arguments) in (checked, "data"), odd

    ask()


def test_no_check_of_an_interface_is_lost() -> None:
    """A check that names no parameter is left out: a wrong word checks nothing."""
    for name in standard_names():
        known = prototype(name)
        if known is None or known[0].name != name or not name.startswith("aclnn"):
            continue  # those of an operator type are a module's: not all have each parameter
        told = {word for row in known[0].checks or () for word in row[1:2] if type(word) is str}
        call = resolve(name, {})
        parts = {each.name.rstrip("0123456789") for each in call.parameters}
        interface = known[1]
        parts |= {each.name for each in (*interface.inputs, *interface.outputs)}
        parts |= {each.target for each in interface.attributes} | {"<", ">"}
        assert told <= parts, name


def test_what_a_composition_needs_isnt_optional() -> None:
    for name in standard_names():
        known = prototype(name)
        host = getattr(known[1], "host", "") if known else ""
        if known is None or not host:
            continue
        module, _, function = host.rpartition(":")
        found = getattr(import_module(f"{known[0].package}.{module or 'host'}"), function)
        parameters = signature(found).parameters.values()
        needed = {each.name for each in parameters if each.default is each.empty}
        assert not needed & {each.target for each in known[1].attributes if each.optional}, name


X, Y = "fp32[4,5]", "fp32[5,4]"
HALF = "fp16[17,3]"

# Operator, arguments, code, and what the message says.
WRONG: list[tuple[str, dict[str, Any], int, str]] = [
    ("ReduceSumD", {"x": X, "axes": [5]}, 161002, "axes should be in range [-2, 1]"),
    ("ReduceSumD", {"x": X, "axes": [-3]}, 161002, "but got -3"),
    ("ReduceMeanD", {"x": X, "axes": [2]}, 161002, "but got 2"),
    ("ReduceMaxD", {"x": X, "axes": [7]}, 161002, "but got 7"),
    ("ReduceSumD", {"x": X, "axes": [0, 0]}, 161002, "twice"),
    ("ReduceSumD", {"x": X, "axes": [0, -2]}, 161002, "twice"),
    ("aclnnReduceSum", {"self": X, "dims": [9]}, 161002, "dims should be in range"),
    ("ConcatD", {"x0": X, "x1": X, "concat_dim": 9}, 161002, "concat_dim should be in range"),
    ("ConcatD", {"x0": X, "x1": Y, "concat_dim": 0}, 161002, "shape of x1"),
    ("TransposeD", {"x": X, "perm": [0, 5]}, 161002, "perm should be in range"),
    ("TransposeD", {"x": X, "perm": [0]}, 161002, "perm should have 2 entries"),
    ("GatherV2D", {"x": X, "indices": "int32[3]", "axis": 5}, 161002, "axis should be in range"),
    ("MatMulV3", {"x1": X, "x2": X}, 161002, "k-axis of the two inputs are different"),
    ("MatMulV3", {"x1": X, "x2": "fp32[5,6]", "bias": "fp32[9]"}, 161002, "6 elements in a row"),
    ("MatMul", {"x1": "fp32[63]", "x2": "fp32[63]"}, 161002, "Expected a matrix"),
    ("Pack", {"x0": "fp32[2,3]", "x1": "fp32[3,2]", "axis": 0}, 161002, "size of tensor x1"),
    ("SoftmaxGrad", {"softmax": X, "grad_softmax": Y}, 161002, "size of tensor grad_softmax"),
    (
        "LayerNormV3",
        {"x": X, "gamma": "fp32[5]", "beta": "fp32[5]", "epsilon": -1.0},
        161002,
        "epsilon should be at least 0",
    ),
    ("StridedSlice", {"x": X, "begin": [0, 0], "end": [4, 5], "strides": [0, 1]}, 161002, "step"),
    ("Slice", {"x": X, "offsets": [0, 3], "size": [4, 3]}, 161002, "reach beyond x"),
    ("Pad", {"x": X, "paddings": [1]}, 161002, "paddings should have 4 entries"),
    ("SplitV", {"x": X, "split_dim": 1, "size_splits": [0]}, 161002, "don't make up 5"),
    ("SplitD", {"x": X, "split_dim": 1, "num_split": 2}, 161002, "should divide 5"),
    ("Split", {"x": "fp16[]"}, 161002, "dimension input, but got x with sizes []"),
    ("Unpack", {"x": "fp16[]"}, 161002, "dimension input"),
    ("Gather", {"x": "fp16[]", "indices": "int32[2]"}, 161002, "dimension input"),
    ("Tile", {"x": X}, 161001, "multiples"),
    ("ExpandD", {"x": X, "y": None}, 161001, "argument y"),
    ("BroadcastTo", {"x": X, "shape": [4, 6]}, 161002, "can't be broadcast to shape [4, 6]"),
    ("LogSoftmaxGrad", {"grad": "fp16[0]", "x": "fp32[8]"}, 161002, "size of tensor x"),
    (
        "ResizeNearestNeighborV2D",
        {"x": "fp16[1,3,4,4,16]", "size": [1, 0], "half_pixel_centers": True},
        161002,
        "size should be at least 1",
    ),
    (
        "BNInferenceD",
        {"x": "fp16[2,3,4]", "mean": "fp32[3]", "variance": "fp32[3]"},
        161002,
        "x should be [n c1 h w c0]",
    ),
    (
        "LambApplyWeightAssign",
        {**{f"input{n}": X for n in range(4)}, "input_param": X},
        161002,
        "input0 should be a single element",
    ),
    (
        "ApplyAdam",
        {
            **dict.fromkeys(("var", "m", "v", "grad", "lr", "beta1", "beta2"), X),
            **dict.fromkeys(("beta1_power", "beta2_power", "epsilon"), X),
        },
        161002,
        "beta1_power should be a single element",
    ),
    ("OneHot", {"x": "int32[4]", "on_value": "fp32[1]", "off_value": "fp32[1]"}, 161001, "depth"),
    ("GatherNd", {"x": X, "indices": "int32[2,3]"}, 161002, "last axis of indices"),
    ("aclnnGroupNorm", {"self": "fp32[2,6,4]", "gamma": "fp32[6]", "beta": "fp32[6]", "group": 4},
     161002, "group should divide"),
    ("aclnnAdaptiveMaxPool3dBackward",
     {"gradOutput": "fp16[2,2,1,9]", "self": "fp16[2,6,8,4]", "indices": "int32[2,2,2,2]"},
     161002, "size of tensor indices"),
    ("aclnnReplicationPad2dBackward",
     {"gradOutput": "fp32[2,3,5]", "self": "fp32[1,8,17]", "padding": [3, 3, 3, 3]},
     161002, "size of tensor gradOutput [2, 3, 5] must match"),
    ("aclnnStridedSliceAssignV2",
     {"varRef": X, "inputValue": "fp32[2,3]", "begin": [1, 0], "end": [4, 3], "strides": [2, 1],
      "axesOptional": [0]}, 161002, "equally long"),
    ("aclnnStridedSliceAssignV2",
     {"varRef": X, "inputValue": X, "begin": [0] * 3, "end": [1] * 3, "strides": [1] * 3},
     161002, "begin"),
    ("aclnnInplaceScatter",
     {"selfRef": "fp32[7,1]", "dim": -1, "index": "int64[7,1]", "src": "fp32[7,1]", "reduce": -9},
     161002, "reduce should be in [0, 1, 2]"),
    ("aclnnGluBackward", {"gradOut": "fp32[9,1,33]", "self": "fp32[2,1,66]", "dim": -1},
     161002, "gradOut should have sizes [2, 1, 33]"),
    ("aclnnFusedSgd",
     {"paramsRef0": X, "gradsRef0": X, "momentumBufferListOptionalRef0": Y, "weightDecay": 0.1,
      "momentum": 0.9, "lr": 0.1, "dampening": 0.0, "nesterov": False, "maximize": False,
      "isFirstStep": False}, 161002, "should have the shapes of paramsRef0"),
    ("aclnnSplitTensor", {"self": X, "splitSections": 0, "dim": 0}, 161002, "at least 1"),
    ("aclnnTopk",
     {"self": X, "k": 2, "dim": 1, "largest": True, "sorted": True, "valuesOut": X,
      "indicesOut": "int64[4,2]"}, 161002, "valuesOut should be [4, 2]"),
    ("ScatterUpdate", {"var": X, "indices": "int32[2]", "updates": "fp32[2,4]"}, 161002, "updates"),
    ("aclnnFatreluMul", {"input": "fp16[4,1026]", "threshold": "fp16[1]"}, 561002, "1024 in a row"),
    ("FatreluMul", {"x": "fp16[500,401,8]", "threshold": "fp16[1]"}, 561002, "200000 rows at most"),
]  # fmt: skip


@pytest.mark.parametrize(("op", "arguments", "code", "says"), WRONG)
def test_a_wrong_call_says_what_is_wrong(
    op: str, arguments: dict[str, Any], code: int, says: str
) -> None:
    status = device(CHIP).check(op, **arguments)
    assert status.code == code
    assert says in status.message
    with pytest.raises(AclnnError) as refused:
        device(CHIP).estimate(op, **arguments)
    assert refused.value.status == status


@pytest.mark.parametrize("chip", ["Ascend910A", "Ascend310P3", "Ascend910B3", "Ascend910_9391"])
@pytest.mark.parametrize(("op", "fold"), [("ReduceMaxD", np.max), ("ReduceMinD", np.min)])
def test_whole_numbers_have_no_infinity(chip: str, op: str, fold: Any) -> None:
    x = np.random.default_rng(1).integers(1, 999, (64, 3)).astype(np.int32)
    x = -x if fold is np.max else x  # zero, where folds start, would be the result
    for axis in (0, 1):
        done = device(chip).run(op, x=x, axes=[axis])
        assert done.outputs is not None
        np.testing.assert_array_equal(done.outputs["y"], fold(x, axis=axis))


def test_what_was_an_internal_error_is_computed() -> None:
    rng = np.random.default_rng(2)
    x, y, grad, weight = (rng.random((17, 3)).astype(np.float32) for _ in range(4))
    done = device(CHIP).run("BinaryCrossEntropyGrad", x=x, y=y, grad_output=grad, weight=weight)
    assert done.outputs is not None
    want = grad * weight * (x - y) / np.maximum(x * (1 - x), 1e-12) / x.size  # their mean
    np.testing.assert_allclose(done.outputs["output"], want, rtol=1e-4)
    maps = rng.random((2, 1, 3, 4, 16)).astype(np.float32)
    rows = [np.ones((1, 1, 1, 1, 16), np.float32) for _ in range(2)]
    device(CHIP).run(
        "BNTrainingUpdateGrad", grads=maps, x=maps, batch_mean=rows[0], batch_variance=rows[1]
    )
    parts = device(CHIP).run("SplitV", x=x, split_dim=0, size_splits=[3, -1])
    assert parts.outputs is not None
    assert [each.shape for each in parts.outputs.values()] == [(3, 3), (14, 3)]
    rest = device(CHIP).run("Slice", x=x, offsets=[2, 1], size=[-1, 2])
    assert rest.outputs is not None
    np.testing.assert_array_equal(rest.outputs["y"], x[2:, 1:])
    cut = device(CHIP).run("StridedSlice", x=x, begin=[3], end=[9], strides=[2])
    assert cut.outputs is not None
    np.testing.assert_array_equal(cut.outputs["y"], x[3:9:2])
    empty = device(CHIP).run("Equal", x1=np.zeros(0, np.float32), x2=np.zeros((3, 1), np.float32))
    assert empty.outputs is not None
    assert empty.outputs["y"].shape == (3, 0)


def test_tensors_without_elements_are_left_out_of_lists_and_nothing_is_made_up_for_others() -> None:
    empty, full = np.zeros((0, 4), np.float32), np.ones((3, 4), np.float32)
    done = device(CHIP).run("ConcatD", x0=empty, x1=full, x2=full, concat_dim=0)
    assert done.outputs is not None
    np.testing.assert_array_equal(done.outputs["y"], np.ones((6, 4)))
    parts = device(CHIP).run("SplitV", x=full, split_dim=0, size_splits=[0, 3])
    assert parts.outputs is not None
    np.testing.assert_array_equal(parts.outputs["y1"], full)
    for op, arguments in (
        ("ReduceProdD", {"x": empty, "axes": [0]}),
        ("MatMul", {"x1": np.ones((3, 0), np.float16), "x2": np.ones((0, 4), np.float16)}),
    ):
        status = device(CHIP).check(op, **arguments)
        assert status.verdict == "unknown"
        assert "without elements" in status.message
    assert device(CHIP).check("ReduceSumD", x=empty, axes=[1]).ok


def test_one_bad_call_doesnt_kill_a_model(tmp_path: Any) -> None:
    file = tmp_path / "calls.yaml"
    file.write_text(
        """calls:
  - {op: Relu, inputs: [null], outputs: ["fp16[2]"]}
  - {op: ClipByValue, inputs: [], outputs: ["fp16[2]"]}
  - {op: StridedSlice, inputs: ["fp16[4]"], outputs: ["fp16[2]"], attributes: {strides: [0]}}
  - {op: Add, arguments: {x1: "fp16[2]", x2: "fp16[3]"}}
  - {op: Tile, arguments: {x: "bf16[4]"}}
  - {op: Relu, inputs: ["fp16[2]"], outputs: ["fp16[2]"]}
"""
    )
    for chip in (CHIP, "Ascend310P3"):
        result = retime(read_model(file).at(), device(chip).profile, l2="cold")
        assert not result.runs_unchanged
        assert result.duration_us > 0


def test_more_arguments_that_a_call_in_fp16_would_take_are_no_error_of_the_model(
    tmp_path: Any,
) -> None:
    file = tmp_path / "call.yaml"
    file.write_text('calls: [{op: TransData, arguments: {src: "bf16[1,3,8,8]"}}]')
    result = retime(read_model(file).at(), device("Ascend310P3").profile, l2="cold")
    (verdict,) = result.verdicts
    assert verdict.code == 161002
