"""Standard operators by name: aclnn names and operator types find one kernel and its numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npusim import Device, TensorSpec
from npusim.operators import Aclnn, Operator, register, unregister
from npusim.operators.checks import rank_is
from npusim.operators.registry import op_types, operators, prototype, standard_names
from npusim.operators.resolve import resolve
from npusim.operators.shape_checks import fits
from npusim.schedules.formula_classes import kernel_of
from npusim.schedules.formula_row import Compute
from npusim.values.errors import AclnnError, ArgumentError, UnknownNameError
from support.commands import npusim
from support.standard_calls import CALLS, IDS, IMAGE, MASK, POSITIVE, ROW, A, B, Call, numbers

CHIP = "Ascend910B3"


def described(arguments: dict[str, Any]) -> dict[str, Any]:
    return {
        name: TensorSpec.of(value) if isinstance(value, np.ndarray) else value
        for name, value in arguments.items()
    }


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call[0])
def test_run_gives_the_tensor_and_estimate_the_same_time(call: Call) -> None:
    name, arguments, reference = call
    device = Device(CHIP)
    done = device.run(name, **arguments)
    assert done.outputs is not None
    first = next(iter(done.outputs.values()))
    want = np.asarray(reference())
    assert first.shape == want.shape
    np.testing.assert_allclose(first, want, rtol=2e-3, atol=2e-4)
    guess = device.estimate(name, **described(arguments))
    assert (guess.cycles, guess.outputs) == (done.cycles, None)
    assert 0 < guess.band_us[0] <= guess.duration_us <= guess.band_us[1]


def test_an_aclnn_name_and_its_operator_type_take_as_long() -> None:
    device, x = Device(CHIP), TensorSpec((512, 4096), "float16")
    row = TensorSpec((4096,), "float16")
    pairs: list[tuple[str, dict[str, Any], str, dict[str, Any]]] = [
        ("aclnnAdd", {"self": x, "other": row}, "Add", {"x1": x, "x2": row}),
        ("aclnnGelu", {"self": x}, "Gelu", {"x": x}),
        ("aclnnSoftmax", {"self": x, "dim": -1}, "SoftmaxV2", {"x": x}),
        ("aclnnReduceSum", {"self": x, "dims": [1]}, "ReduceSum", {"x": x, "axes": [1]}),
    ]
    for api, said, op_type, given in pairs:
        one, other = device.estimate(api, **said), device.estimate(op_type, **given)
        assert one.cycles == other.cycles
        assert [task.name for task in one.tasks] == [task.name for task in other.tasks]


def test_every_kernel_can_be_called_by_its_operator_type() -> None:
    for name in op_types():
        own = f"aclnn{name}"  # the kernel of an operator with a contract of its own
        assert resolve(name, {"x": A}).name == (own if own in operators() else name)
    assert set(op_types()) <= set(standard_names())
    assert {"aclnnAdd", "aclnnGelu", "aclnnSoftmax", "aclnnLayerNorm"} <= set(standard_names())
    assert not set(standard_names()) & set(operators())


def test_every_row_names_a_kernel() -> None:
    for name in standard_names():
        known = prototype(name)
        assert known is not None
        assert known[0].name in op_types() or not known[0].has_type
        assert not known[1].is_known or known[1].inputs or known[1].outputs


@pytest.mark.parametrize(("beta", "alpha"), [(1.0, 1.0), (0.0, 1.0), (0.5, 2.0), (0.0, 0.5)])
@pytest.mark.parametrize("chip", ["Ascend910B3", "Ascend910A"])
def test_a_product_and_what_is_added_to_it(chip: str, beta: float, alpha: float) -> None:
    left, right, row = (each.astype(np.float16) for each in (A, B.T, numbers(6, seed=5)))
    said = {"beta": beta, "alpha": alpha, "cubeMathType": 1}
    done = Device(chip).run("aclnnAddmm", self=row, mat1=left, mat2=right, **said)
    assert done.outputs is not None
    want = beta * row + alpha * (left.astype(np.float64) @ right)
    np.testing.assert_allclose(done.outputs["out"], want, rtol=1e-2, atol=3e-2)
    tasks = [task.name for task in done.tasks if task.name not in ("TransData", "Transpose")]
    assert tasks.count("Add") == (beta != 0)
    assert tasks.count("Muls") == (alpha != 1) + (beta not in (0, 1))
    with pytest.raises(AclnnError, match="can't be broadcast"):
        Device(chip).run("aclnnAddmm", self=numbers(5), mat1=left, mat2=right, **said)


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("add", "Add"),
        ("aclnnadd", "aclnnAdd"),
        ("Layernorm", "LayerNorm"),
        ("Mm", "aclnnMm"),
        ("MatMul", "MatMul"),
        ("matmul", "aclnnMatmul"),
        ("GroupNormBackward", "aclnnGroupNormBackward"),
    ],
)
def test_spellings(spelling: str, name: str) -> None:
    assert resolve(spelling, {}).name == name


def test_variables_are_changed_in_place() -> None:
    var, before = A.copy(), A.copy()
    done = Device(CHIP).run(
        "aclnnScatterNdUpdate", varRef=var, indices=IDS[:3, None], updates=B[:3]
    )
    before[IDS[:3]] = B[:3]
    np.testing.assert_array_equal(var, before)
    assert done.outputs is not None
    np.testing.assert_array_equal(done.outputs["varRef"], before)
    var = A.copy()
    rate = np.array([0.1], np.float32)
    Device(CHIP).run("ApplyGradientDescent", var=var, alpha=rate, delta=B)
    np.testing.assert_allclose(var, A - rate * B, rtol=1e-5)


def changes_self(name: str) -> bool:
    """Whether an interface in place takes operands alike, and there is one to compare with."""
    known = prototype(name)
    plain = prototype(name.replace("Inplace", ""))
    if known is None or plain is None or known[1].inputs[0].name != "selfRef":
        return False
    return known[0].band_class not in {"matmul", "indexing"}


IN_PLACE = [name for name in standard_names() if "Inplace" in name and changes_self(name)]


@pytest.mark.parametrize("name", IN_PLACE)
def test_a_call_in_place_leaves_what_the_other_returns(name: str) -> None:
    logical, bits = "Logical" in name, "Bitwise" in name
    x = MASK if logical else (POSITIVE * 9).astype(np.int32) if bits else POSITIVE
    other = B > 0 if logical else (B * 9).astype(np.int32) if bits else B
    known, plain = prototype(name), prototype(name.replace("Inplace", ""))
    assert known is not None
    assert plain is not None
    given: dict[str, Any] = {slot.name: other for slot in known[1].inputs if slot.name != "selfRef"}
    given |= {each.name: 1 if each.kind == "int" or bits else 1.0 for each in known[1].attributes}
    changed = x.copy()
    done = Device(CHIP).run(name, selfRef=changed, **given)
    want = Device(CHIP).run(plain[1].name, self=x, **given)
    assert want.outputs is not None
    np.testing.assert_array_equal(changed, want.outputs["out"])
    names = [task.name for task in done.tasks]
    assert want.tasks[-1].name in names[-2:]  # a truth value is cast to what it replaces


def test_attributes_that_the_kernel_ignores_are_refused_where_they_matter() -> None:
    x, row = "fp16[4, 64]", "fp16[64]"
    given = {"x1": x, "x2": x, "gamma": row, "scales1": "fp32[64]", "axis": 0, "divMode": True}
    status = Device(CHIP).check("aclnnAddRmsNormQuant", **given)
    assert not status.ok
    assert "isn't modelled" in status.message


def test_views_are_made_contiguous_first() -> None:
    done = Device(CHIP).run("Add", x1=A.T, x2=B.T)
    assert done.outputs is not None
    np.testing.assert_allclose(done.outputs["y"], (A + B).T, rtol=1e-6)
    assert [task.name for task in done.tasks] == ["Transpose", "Transpose", "Add"]


def test_outputs_may_be_given() -> None:
    out = np.zeros((6, 40), np.float16)
    Device(CHIP).run("Mul", x1=A, x2=B, y=out)
    np.testing.assert_allclose(out, A * B, rtol=2e-3, atol=1e-3)
    (result,) = (Device(CHIP).run("TransData", src=IMAGE, dst=np.zeros((2, 1, 4, 5, 16), "f4")),)
    assert result.outputs is not None
    np.testing.assert_array_equal(
        result.outputs["dst"][:, 0, :, :, :3], IMAGE.transpose(0, 2, 3, 1)
    )


def test_what_adds_into_memory_clears_it_first() -> None:
    done = Device(CHIP).run("UnsortedSegmentSum", x=A[:4], segment_ids=IDS, num_segments=6)
    assert [task.name for task in done.tasks] == ["MemSet", "UnsortedSegmentSum"]


def test_nothing_is_done_for_empty_tensors() -> None:
    empty = np.zeros((0, 40), np.float32)
    done = Device(CHIP).run("Add", x1=empty, x2=empty, y=empty)
    assert done.tasks == ()


def test_wrong_calls_say_what_is_wrong() -> None:
    device = Device(CHIP)
    with pytest.raises(UnknownNameError, match="Did you mean aclnnSoftmax"):
        device.estimate("aclnnSoftmaxx", self=A)
    with pytest.raises(UnknownNameError, match="parameter of Add"):
        device.estimate("Add", x1=A, x3=B)
    with pytest.raises(ArgumentError, match="x2 is missing"):
        device.estimate("Add", x1=A)
    with pytest.raises(AclnnError, match="161001"):
        device.estimate("Add", x1=A, x2=None)
    with pytest.raises(ArgumentError, match=r"dst=DTYPE\[SIZES\]"):
        device.estimate("TransData", src=IMAGE)
    with pytest.raises(AclnnError, match=r"161002.*k-axis"):
        device.estimate("MatMulV3", x1=A, x2=B, y=A)
    with pytest.raises(ArgumentError, match="no data"):
        device.run("Add", x1=TensorSpec((4,), "float32"), x2=ROW)


def test_shapes_that_dont_broadcast_are_refused() -> None:
    with pytest.raises(AclnnError, match=r"161002.*can't be broadcast"):
        Device(CHIP).estimate("Add", x1=A, x2=numbers(7))
    with pytest.raises(AclnnError, match=r"161002.*broadcast"):
        Device(CHIP).estimate("Add", x1=A, x2=numbers(7), y=A)


def test_the_command_line_takes_them(capsys: pytest.CaptureFixture[str]) -> None:
    line = f"estimate MatMulV3 -s {CHIP} x1=fp16[512,512] x2=fp16[512,512] --json"
    assert npusim(capsys, line).json["answers"][0]["duration_us"] > 0
    answer = npusim(capsys, f"run Gelu -s {CHIP} x=fp16[4,40] --json").json["answers"][0]
    assert answer["outputs"]["y"]["shape"] == [4, 40]
    line = f"estimate ConcatD -s {CHIP} x0=fp16[4,40] x1=fp16[4,8] concat_dim=1"
    assert "ConcatD" in npusim(capsys, line).out
    said = npusim(capsys, f"estimate TransData -s {CHIP} src=fp16[4,40,2,2]")
    assert said.code != 0
    assert "dst=DTYPE[SIZES]" in said.err


def test_the_list_and_the_pages_show_them(capsys: pytest.CaptureFixture[str]) -> None:
    listed = npusim(capsys, "ops list")
    assert "aclnnAddRmsNorm" in listed.out.replace("\n", "")
    names = {entry["name"] for entry in npusim(capsys, "ops list --json").json}
    assert names == {*operators(), *standard_names()}
    page = npusim(capsys, "ops show LayerNorm").out
    assert all(word in page for word in ("gamma", "variance", "epsilon", "shapes are checked"))


@pytest.mark.parametrize(
    ("name", "arguments", "null"),
    [
        ("aclnnAdds", {"self": "fp32[4]", "other": 2.0}, {"alpha": None}),
        ("aclnnInplaceAdd", {"selfRef": "fp32[4]", "other": "fp32[4]"}, {"alpha": None}),
        ("aclnnRsub", {"self": "fp32[4]", "other": "fp32[4]"}, {"alpha": None}),
        ("aclnnClampMin", {"self": "fp32[4]", "clipValueMin": 0}, {"clipValueMin": None}),
        ("aclnnInplaceClampMax", {"selfRef": "fp32[4]", "clipValueMax": 0}, {"clipValueMax": None}),
        ("aclnnHardtanh", {"self": "fp32[4]", "clipValueMin": 0, "clipValueMax": 1},
            {"clipValueMin": None}),
        ("aclnnClamp", {"self": "fp32[4]", "clipValueMin": 0}, {"clipValueMin": None}),
        ("aclnnClampTensor", {"self": "fp32[4]", "clipValueMax": "fp32[4]"},
            {"clipValueMax": None}),
        ("aclnnLayerNorm", {"input": "fp32[2,8]", "normalizedShape": [8], "eps": 1e-5},
            {"normalizedShape": None}),
        ("aclnnScaledMaskedSoftmax", {"x": "fp16[1,1,8,32]", "mask": "bool[1,1,8,32]",
            "scale": 1.0, "fixedTriuMask": False}, {"mask": None}),
        ("aclnnScaledMaskedSoftmaxBackward", {"gradOutput": "fp16[1,1,8,32]",
            "y": "fp16[1,1,8,32]", "mask": "bool[1,1,8,32]", "scale": 1.0, "fixTriuMask": False},
            {"mask": None}),
    ],
)  # fmt: skip
def test_what_can_be_left_out_here_may_still_be_no_null_pointer(
    name: str, arguments: dict[str, Any], null: dict[str, None]
) -> None:
    device = Device("Ascend910B3")
    assert device.check(name, **arguments).ok
    status = device.check(name, **{**arguments, **null})
    assert status.code == 161001
    assert next(iter(null)) in status.message


def test_windows_without_a_stride_are_as_far_apart_as_they_are_wide() -> None:
    device, x = Device("Ascend910B3"), np.zeros((1, 2, 6, 6), np.float32)
    arguments: dict[str, Any] = {
        "gradOutput": np.arange(18, dtype=np.float32).reshape(1, 2, 3, 3), "self": x,
        "kernelSize": [2, 2], "padding": [0, 0], "ceilMode": False, "countIncludePad": True,
        "divisorOverride": 0, "cubeMathType": 0,
    }  # fmt: skip
    told = device.run("aclnnAvgPool2dBackward", **arguments, stride=[2, 2]).outputs
    untold = device.run("aclnnAvgPool2dBackward", **arguments, stride=None).outputs
    assert told is not None
    assert untold is not None
    np.testing.assert_array_equal(untold["gradInput"], told["gradInput"])
    assert told["gradInput"].any()


def test_a_check_keeps_its_places_where_an_interface_lacks_a_tensor() -> None:
    gained = Operator(
        "Gained", "x gain? -> y", (), Aclnn("aclnnGained", "self - -> out"),
        kernel=kernel_of(Compute("Gained", lambda f, x, *_: f.mul(x, 2.0))),
        checks=((fits, "x", "*rows row", "gain", "row", "y", "*rows row"),),
    )  # fmt: skip
    register(gained)
    try:
        device = Device("Ascend910B3")
        assert device.check("aclnnGained", self="fp32[2,8]", out="fp32[2,8]").ok
        assert device.check("aclnnGained", self="fp32[2,8]", out="fp32[2,9]").code == 161002
        assert device.check("Gained", x="fp32[2,8]", gain="fp32[9]").code == 161002
    finally:
        unregister(gained)


def test_an_interface_has_checks_of_its_own_and_says_whose_rules_are_checked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = "docs/aclnnRuled.md"
    ruled = Operator(
        "Ruled", "x -> y", (),
        (Aclnn("aclnnRuled", checks=((rank_is, 2, "x"),), rules=page), Aclnn("aclnnRuledV2")),
        kernel=kernel_of(Compute("Ruled", lambda f, x, *_: f.mul(x, 2.0))),
    )  # fmt: skip
    register(ruled)
    try:
        device = Device("Ascend910B3")
        assert device.check("aclnnRuled", self="fp32[2,8]").ok
        assert device.check("aclnnRuled", self="fp32[8]").code == 161002
        assert device.check("aclnnRuledV2", self="fp32[8]").ok
        assert resolve("aclnnRuled", {}).rules_source == page
        assert not resolve("aclnnRuledV2", {}).rules_source
        told, untold = (npusim(capsys, f"ops show {name}").out for name in ("aclnnRuled", "Ruled"))
        assert page in told
        assert "further rules" not in told
        assert "further rules" in untold
    finally:
        unregister(ruled)
