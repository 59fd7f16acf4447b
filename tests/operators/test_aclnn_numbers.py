"""What aclnn interfaces do beside their numbers: tasks, dtypes, memory, and parameters by name."""

from __future__ import annotations

import numpy as np

from npusim import Device
from npusim.capi.declarations import arguments_of
from npusim.catalogue.facts import catalogue
from npusim.operators.registry import prototype, standard_names

NPU = Device("Ascend910B3")


def test_what_the_ai_cpu_does_says_so() -> None:
    x = np.ones((3, 4))
    result = NPU.run("aclnnAdd", self=x, other=x, alpha=2)
    assert {task.bound for task in result.tasks} == {"AI CPU"}
    assert NPU.estimate("aclnnAdd", self=x, other=x, alpha=2).duration_us == result.duration_us


def test_dtypes_of_one_call_are_cast_to_what_they_have_together() -> None:
    x, y = np.ones(5, np.float16), np.full(5, 2, np.float32)
    result = NPU.run("aclnnAdd", self=x, other=y)
    assert result.outputs["out"].dtype == np.float32
    assert [task.name for task in result.tasks] == ["Cast", "Add"]
    whole = NPU.run("aclnnAdds", self=np.ones(3, np.int32), other=2)
    fraction = NPU.run("aclnnAdds", self=np.ones(3, np.int32), other=2.5)
    assert whole.outputs["out"].dtype == np.int32
    assert fraction.outputs["out"].tolist() == [3.5] * 3


def test_in_place_is_the_callers_memory() -> None:
    x = np.ones((4, 3), np.float32)
    result = NPU.run("aclnnInplaceAdd", selfRef=x, other=x.copy(), alpha=3)
    assert (x == 4).all()
    assert [task.name for task in result.tasks] == ["Axpy"]


def _named(interface: str) -> set[str]:
    known = prototype(interface)
    if known is None:
        return set()
    found = known[1]
    ours = {each.name for each in (*found.inputs, *found.outputs, *found.attributes)}
    return ours - {"-", *getattr(found, "into", ())}


def test_parameters_are_named_as_in_the_header() -> None:
    """Of all interfaces in one test: each is looked up in no time."""
    names = [name for name in standard_names() if catalogue().prototype_of(name)]
    assert len(names) > 700
    header = {name: {each for _, each in arguments_of(name)} for name in names}
    ours = {name: _named(name) for name in names}
    wrong = {name: (ours[name], header[name]) for name in names if ours[name] != header[name]}
    assert not wrong, f"interface: (named here, in the header) {wrong}"
