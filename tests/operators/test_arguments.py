"""Binding: what callers pass becomes what the C parameters would hold, or is refused by name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from npusim import Device
from npusim.hardware.families import everywhere
from npusim.operators.arguments import bind, complete, itemized
from npusim.operators.contract import Call, Contract, Parameter, TensorArg
from npusim.operators.oracle import contract_of
from npusim.operators.registry import prototype, standard_names
from npusim.values.dtypes import BFLOAT16, FLOAT
from npusim.values.errors import ArgumentError, DTypeError, UnknownNameError
from npusim.values.formats import Format
from npusim.values.tensors import TensorSpec

FLOATS = everywhere(FLOAT, BFLOAT16)
TOY = Contract(
    name="aclnnToy",
    summary="Has a parameter of every kind.",
    parameters=(
        Parameter("self", "tensor", dtypes=FLOATS),
        Parameter("weightOptional", "tensor", dtypes=FLOATS, optional=True, aliases=("weight",)),
        Parameter("sizes", "int_array"),
        Parameter("mask", "bool_array"),
        Parameter("reduction", "int64"),
        Parameter("ratio", "float"),
        Parameter("scales", "double"),
        Parameter("aligned", "bool"),
        Parameter("out", "tensor", "out", dtypes=FLOATS),
    ),
    products=("A2",),
    checks=(),
    infer_outputs=lambda call: {"out": call.spec("self").contiguous()},
    is_empty=lambda call: call.spec("self").is_empty,
)
GIVEN: dict[str, Any] = {
    "self": "fp32[2,3]",
    "sizes": [1, 2],
    "mask": [True, False],
    "reduction": 1,
    "ratio": 0.5,
    "scales": 0.5,
    "aligned": True,
}
CHIP = SimpleNamespace(name="Ascend910B3", family="A2")


def call_with(*, require_data: bool = False, **changes: Any) -> Call:
    return Call(TOY, CHIP, bind(TOY, {**GIVEN, **changes}, require_data=require_data))


def test_arguments_come_out_in_the_order_of_the_parameters() -> None:
    bound = bind(TOY, dict(reversed(GIVEN.items())), require_data=False)
    assert list(bound) == [each.name for each in TOY.parameters if each.name != "out"]


def test_an_array_keeps_its_data_and_its_strides() -> None:
    view = np.zeros((3, 2), ml_dtypes.bfloat16).T
    bound = call_with(self=view).tensor("self")
    assert bound.data is view
    assert (bound.spec.dtype, bound.spec.strides) == (BFLOAT16, (1, 2))
    assert bound.spec.format is Format.UNDEFINED


def test_a_tensor_may_be_text_a_description_or_a_scalar() -> None:
    spec = TensorSpec((2, 3), "float32", "NCHW")
    assert call_with(self="float32[2,3]:NCHW").spec("self") == spec
    assert call_with(self=spec).spec("self") == spec
    assert call_with(self=TensorArg(spec)).spec("self") == spec
    assert call_with(self=np.float32(1)).spec("self") == TensorSpec((), "float32")


@pytest.mark.parametrize(
    ("name", "value", "bound"),
    [
        ("sizes", (1, 3, 6, 7), (1, 3, 6, 7)),
        ("sizes", np.array([1, 3, 6, 7]), (1, 3, 6, 7)),
        ("sizes", range(4), (0, 1, 2, 3)),
        ("sizes", [], ()),
        ("sizes", None, None),
        ("mask", np.array([True, False, True]), (True, False, True)),
        ("reduction", np.int64(2), 2),
        ("aligned", np.True_, True),
        ("ratio", 1, 1.0),
        ("ratio", 0.1, float(np.float32(0.1))),
        ("ratio", 1e300, float("inf")),
        ("ratio", -1e300, float("-inf")),
        ("scales", 0.1, 0.1),
        ("scales", np.float32(0.5), 0.5),
    ],
)
def test_attributes_are_read_as_the_c_type_they_have(
    name: str, value: object, bound: object
) -> None:
    got = call_with(**{name: value}).arguments[name]
    assert got == bound
    assert type(got) is type(bound)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("self", [1.0, 2.0]),
        ("self", 1.0),
        ("self", "fp32"),
        ("self", np.zeros(3, "V2")),
        ("self", np.zeros(3, np.float32)[::-1]),
        ("sizes", 4),
        ("sizes", "1,3,6,7"),
        ("sizes", [1.0, 2.0]),
        ("sizes", {1, 3}),
        ("sizes", [True, False]),
        ("sizes", np.zeros((2, 2), int)),
        ("mask", [1, 0, 1]),
        ("mask", "TFT"),
        ("reduction", "mean"),
        ("reduction", 1.0),
        ("reduction", True),
        ("reduction", 2**63),
        ("reduction", None),
        ("ratio", "0.5"),
        ("ratio", True),
        ("ratio", 1j),
        ("scales", np.array([0.5])),
        ("aligned", 1),
        ("aligned", None),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(ArgumentError) as caught:
        call_with(**{name: value})
    assert f"aclnnToy: {name}" in caught.value.message
    assert caught.value.remedy


def test_unknown_missing_and_doubled_parameters_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean reduction"):
        call_with(reducton=1)
    with pytest.raises(ArgumentError, match="sizes is missing"):
        bind(TOY, {"self": "fp32[2]"}, require_data=False)
    with pytest.raises(ArgumentError, match="weightOptional is given twice"):
        call_with(weight=None, weightOptional=None)


def test_another_spelling_of_a_parameter_is_understood() -> None:
    assert call_with(weight="fp32[3]").spec("weightOptional").shape == (3,)


def test_an_omitted_optional_input_is_a_null_pointer_and_an_omitted_output_is_ours() -> None:
    call = call_with()
    assert call.is_null("weightOptional")
    assert not call.is_null("out")
    assert not call.is_given("out")
    assert complete(call).spec("out") == TensorSpec((2, 3), "fp32")


def test_a_given_output_stays_as_it_is() -> None:
    out = np.zeros((4, 3), np.float32)[::2]
    done = complete(call_with(out=out))
    assert done.tensor("out").data is out
    assert complete(call_with(out=None)).is_null("out")


def test_running_needs_data_but_outputs_may_be_described() -> None:
    array = np.zeros((2, 3), np.float32)
    assert call_with(require_data=True, self=array, out="fp32[2,3]").spec("out").shape == (2, 3)
    with pytest.raises(ArgumentError, match="self has a shape but no data"):
        call_with(require_data=True)


def test_results_arent_stored_into_a_read_only_array() -> None:
    array = np.zeros((2, 3), np.float32)
    array.flags.writeable = False
    assert call_with(require_data=True, self=array).tensor("self").data is array
    assert call_with(require_data=False, out=array).tensor("out").data is array
    with pytest.raises(ArgumentError, match="out is a read-only array"):
        call_with(require_data=True, self=array, out=array)
    device, values = Device("Ascend910B3"), np.ones((2, 3), np.float32)
    with pytest.raises(ArgumentError, match="out is a read-only array"):
        device.check("aclnnSin", self=values, out=array)
    with pytest.raises(ArgumentError, match="selfRef is a read-only array"):
        device.check("aclnnInplaceSin", selfRef=array)
    assert device.estimate("aclnnSin", self=values, out=array).duration_us > 0


def test_looking_at_a_null_tensor_is_a_bug_and_says_so() -> None:
    with pytest.raises(TypeError, match="self is no TensorArg but None"):
        call_with(self=None).spec("self")


def test_what_is_no_array_or_dtype_is_told() -> None:
    nested: list[object] = []
    for _ in range(100_000):
        nested = [nested]
    with pytest.raises(DTypeError, match="a value of type list is not a dtype"):
        TensorSpec((2,), nested)
    with pytest.raises(ArgumentError, match="an array can't be of type TensorSpec"):
        TensorSpec.of(TensorSpec((2,), "fp16"))  # type: ignore[arg-type]


LISTS = [
    (name, slot.name)
    for name in standard_names()
    if (found := prototype(name)) is not None and found[1].is_known
    for slot in (*found[1].inputs, *found[1].outputs)
    if slot.many
]


@pytest.mark.parametrize(
    "value", [["fp16[4]", "fp16[8,2]"], "fp16[4], fp16[8,2]", "[fp16[4],fp16[8,2]]"]
)
def test_lists_go_by_their_names_on_the_pages(value: object) -> None:
    assert len(LISTS) > 100
    for name, listed in LISTS:
        known = contract_of(name, {listed: value})
        apart = contract_of(name, {f"{listed}0": "fp16[4]", f"{listed}1": "fp16[8,2]"})
        assert known is not None
        assert apart is not None
        assert [each.name for each in known.parameters] == [each.name for each in apart.parameters]
        items = dict(itemized(known, {listed: value}))
        assert items == {f"{listed}0": "fp16[4]", f"{listed}1": "fp16[8,2]"}, name


def test_a_list_of_arrays_is_what_its_items_are() -> None:
    device, one, other = Device("910b3"), np.ones((2, 3), np.float16), np.zeros((1, 3), "f2")
    whole = device.run("aclnnCat", tensors=[one, other], dim=0)
    apart = device.run("aclnnCat", tensors0=one, tensors1=other, dim=0)
    assert whole.outputs is not None
    assert apart.outputs is not None
    np.testing.assert_array_equal(whole.outputs["out"], apart.outputs["out"])
    with pytest.raises(ArgumentError, match="tensors0 is given twice"):
        device.estimate("aclnnCat", tensors=[one], tensors0=one, dim=0)
    with pytest.raises(UnknownNameError, match="tensor"):
        device.estimate("aclnnCat", tensor=[one], dim=0)
