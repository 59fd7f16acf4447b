"""Golden calls: each gets the return code that the documents give it, and the outputs they give."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from npusim.hardware.naming import load_profile
from npusim.operators import oracle
from npusim.operators.arguments import bind
from npusim.operators.contract import Call
from npusim.operators.registry import operator
from npusim.values.dtypes import dtype
from npusim.values.tensors import TensorSpec
from support.paths import DATA
from support.statuses import check_call

GOLDEN = DATA / "golden"
CASES: list[dict[str, Any]] = json.loads(
    (GOLDEN / "status_cases.json").read_text(encoding="utf-8")
)["cases"]
CHIPS = {"910B": "Ascend910B3", "910A": "Ascend910A", "310P": "Ascend310P3"}

# The out-parameters of the first phase itself are no part of an operator's contract.
PHASE_PARAMETERS = {"workspaceSize", "executor"}
CONTRACT_CASES = [case for case in CASES if not PHASE_PARAMETERS & set(case["args"])]


def argument(value: Any) -> object:
    if not isinstance(value, dict):
        return value
    for kind in ("int_array", "bool_array"):
        if kind in value:
            return value[kind]
    return TensorSpec(**value)


@pytest.mark.parametrize("case", CONTRACT_CASES, ids=lambda case: f"{case['api']}-{case['name']}")
def test_golden_return_code(case: dict[str, Any]) -> None:
    contract = operator(case["api"])
    given = {name: argument(value) for name, value in case["args"].items()}
    bound = bind(contract, given, require_data=False)
    status = check_call(Call(contract, load_profile(CHIPS[case["soc"]]), bound))
    assert status.code == case["expect"], status.render()
    assert status.ok or status.message
    asked = oracle.check(case["api"], load_profile(CHIPS[case["soc"]]), given)
    assert (asked.code, asked.message) == (status.code, status.message)
    for action in asked.actions:
        chip = load_profile(action.soc_version or CHIPS[case["soc"]])
        assert oracle.check(case["api"], chip, given | dict(action.arguments)).ok


def test_all_five_operators_have_cases() -> None:
    assert len({case["api"] for case in CONTRACT_CASES}) == 5
    assert len(CASES) - len(CONTRACT_CASES) == 1


GOLDEN_CASES: list[dict[str, Any]] = [
    case
    for path in sorted(GOLDEN.glob("aclnn*.json"))
    for case in json.loads(path.read_text(encoding="utf-8"))["cases"]
]


def array_of(tensor: dict[str, Any] | None) -> np.ndarray[Any, Any] | None:
    if tensor is None:
        return None
    kind = dtype(tensor["dtype"]).numpy
    assert kind is not None
    values = np.array(tensor["data"], dtype=np.float64 if kind.kind != "i" else kind)
    return values.astype(kind).reshape(tensor["shape"])


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
@pytest.mark.parametrize("case", GOLDEN_CASES, ids=lambda case: f"{case['op']}-{case['name']}")
def test_golden_calls_are_accepted_and_their_outputs_foreseen(case: dict[str, Any]) -> None:
    contract = operator(case["op"])
    given = {name: array_of(tensor) for name, tensor in case["inputs"].items()} | case["attrs"]
    call = Call(contract, load_profile("Ascend910B3"), bind(contract, given, require_data=True))
    status = check_call(call)
    assert status.code == case["status"], status.render()
    inferred = contract.infer_outputs(call)
    assert {name: spec.shape for name, spec in inferred.items()} == {
        name: tuple(tensor["shape"]) for name, tensor in case["outputs"].items()
    }
    with_outputs = {name: array_of(tensor) for name, tensor in case["outputs"].items()}
    bound = bind(contract, given | with_outputs, require_data=True)
    assert check_call(Call(contract, call.profile, bound)).ok
