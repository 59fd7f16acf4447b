"""Both ways for every interface: a legal call isn't a no, the same call broken is one, for certain.

Asked before any instruction is formed: what forming them finds is a limit of a kernel, and no rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from npusim import Device, TensorSpec
from npusim.catalogue import facts
from npusim.operators import arguments as binding
from npusim.operators import oracle
from npusim.operators.contract import Call, Parameter
from npusim.operators.resolve import resolve
from npusim.values.dtypes import DTYPES, dtype
from npusim.values.errors import UsageError
from npusim.values.status import SUCCESS, Status
from support.legal_calls import legal_calls

CHIP = Device("Ascend910B3").profile
MOST_AXES = 8
Arguments = dict[str, Any]


@pytest.fixture(autouse=True)
def _without_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oracle, "_by_kernels", lambda *_: None)


def status(api: str, arguments: Arguments) -> Status:
    """The answer without its remedies, which take longer than itself."""
    contract = oracle.contract_of(api, arguments)
    assert contract is not None
    bound = binding.bind(contract, arguments, require_data=False)
    found = oracle.refusal(Call(contract, CHIP, bound))
    return SUCCESS if found is None else found.status


@cache
def _is_yes(api: str) -> bool:
    return status(api, legal_calls(CHIP.family)[api]).ok


def cases() -> Iterator[tuple[str, Arguments, dict[str, Parameter]]]:
    for api, arguments in legal_calls(CHIP.family).items():
        parameters = {each.name: each for each in resolve(api, arguments).parameters}
        tensors = {
            name: parameters[name]
            for name, value in arguments.items()
            if isinstance(value, TensorSpec) and parameters[name].kind == "tensor"
        }
        yield api, arguments, tensors


def test_a_legal_call_of_any_interface_isnt_a_no() -> None:
    answers = {}
    for api, arguments, _ in cases():
        found = status(api, arguments)
        not_offered = found.code == 561003 and "the product" in found.message
        assert found.verdict != "no" or not_offered, (api, arguments, found)
        answers[api] = found.verdict
    assert list(answers.values()).count("yes") > 0.95 * len(answers) > 600


def test_a_null_for_what_is_needed_and_too_many_axes_are_a_no() -> None:
    for api, arguments, tensors in cases():
        needed = [name for name, each in tensors.items() if not each.optional]
        if needed and _is_yes(api):
            found = status(api, {**arguments, needed[0]: None})
            assert (found.verdict, found.code) == ("no", 161001), (api, needed[0], found)
            many = TensorSpec((2,) * (MOST_AXES + 1), arguments[needed[0]].dtype)
            found = status(api, {**arguments, needed[0]: many})
            assert found.verdict == "no", (api, needed[0], found)


def test_a_dtype_that_the_page_doesnt_list_is_a_no() -> None:
    asked = 0
    for api, arguments, tensors in cases():
        page = facts.catalogue().page(api, CHIP.family)
        lists = {each.name.lower(): each.dtypes for each in page.parameters} if page else {}
        for name in list(tensors)[:2]:
            listed = lists.get(name.rstrip("0123456789").lower(), ())
            other = next((each.name for each in DTYPES if each.name not in listed), "")
            if listed and other and _is_yes(api):
                recast = arguments[name].recast(dtype(other))
                found = status(api, {**arguments, name: recast})
                assert found.verdict == "no", (api, name, other, found)
                asked += 1
    assert asked > 500


def test_a_shape_that_doesnt_fit_is_never_unknown() -> None:
    refused = 0
    for api, arguments, tensors in cases():
        for name in tensors:
            given = arguments[name]
            if not given.shape or not _is_yes(api):
                continue
            wider = TensorSpec((*given.shape[:-1], given.shape[-1] + 3), given.dtype)
            try:
                found = status(api, {**arguments, name: wider})
            except UsageError:
                continue
            assert found.verdict != "unknown", (api, name, given, found)
            refused += found.verdict == "no"
    assert refused > 500


REFUSED: list[tuple[str, str, Arguments, str]] = [
    ("Ascend910A", "aclnnCat", {"tensors0": "FLOAT8_E4M3FN[4,8]", "dim": 0}, "DT_COMPLEX64]"),
    ("Ascend310P3", "aclnnCast", {"self": "bf16[4]", "dtype": "FLOAT"}, "DT_COMPLEX128]"),
]


@pytest.mark.parametrize(("chip", "api", "arguments", "last"), REFUSED)
def test_no_list_names_a_dtype_that_the_chip_lacks(
    chip: str, api: str, arguments: Arguments, last: str
) -> None:
    found = Device(chip).check(api, **arguments)
    assert (found.verdict, found.code) == ("no", 161002)
    assert last in found.message
    assert not [each for each in ("FLOAT8_E5", "FLOAT4", "HIFLOAT8") if each in found.message]


def test_what_isnt_known_has_no_code_and_a_way_to_a_figure() -> None:
    product = dict.fromkeys(("x1", "x2"), "fp32[8,8]")  # the device multiplies in FLOAT16
    found = Device("Ascend910A").check("MatMulV2", **product)
    assert (found.verdict, found.code, found.verdict.exit_code) == ("unknown", None, 3)
    assert found.remedy.startswith("For a figure nevertheless")
    mean = {"self": "fp32[0,4]", "dim": [0], "keepDim": False, "dtype": "FLOAT"}
    assert Device("Ascend910B3").check("aclnnMean", **mean).verdict == "unknown"


def test_the_remedy_loses_least_and_hides_nothing() -> None:
    device = Device("Ascend910B3")
    repeated = {"self": "double[4,8]", "repeats": 2, "dim": 0, "outputSize": 8}
    assert "Cast to FLOAT." in device.check("aclnnRepeatInterleaveIntWithDim", **repeated).remedy
    weight = {"x1": "int8[16,64]", "x2": "int8[4,4,16,40]:FRACTAL_NZ", "x2Scale": "fp16[64]",
              "out": "fp16[16,64]", "transposeX1": False, "transposeX2": False,
              "groupSize": 0}  # fmt: skip
    remedy = device.check("aclnnQuantMatmulWeightNz", **weight).remedy
    assert "Other dtypes alone don't help, for then: " in remedy
    assert "x2 [4, 4, 16, 40]" in remedy
