"""The two-phase call as the pages describe it: workspace and executor, then execution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npusim import AclnnError, Device, TensorSpec
from npusim.values.errors import ArgumentError
from support.cross_entropy import CROSS_ENTROPY, cross_entropy
from support.group_norm import GROUP_NORM, group_norm

CHIPS = ["Ascend910A", "Ascend910B3"]
CALLS = {CROSS_ENTROPY: cross_entropy(20, 30), GROUP_NORM: group_norm(3, 12, 40, 4)}

Call = tuple[str, dict[str, Any]]


@pytest.fixture(params=CALLS.items(), ids=lambda call: call[0])
def call(request: pytest.FixtureRequest) -> Call:
    """An operator and its arguments."""
    chosen: Call = request.param
    return chosen


@pytest.fixture(params=CHIPS)
def device(request: pytest.FixtureRequest) -> Device:
    """A chip that offers both operators."""
    return Device(request.param)


def test_two_phases_give_what_run_gives(device: Device, call: Call) -> None:
    op, arguments = call
    at_once = device.run(op, **arguments)
    size, executor = device.get_workspace_size(op, **arguments)
    stream = device.create_stream()
    assert stream.execute(bytearray(size), size, executor).ok
    (result,) = stream.synchronize()
    assert size == result.workspace_size == at_once.workspace_size
    assert result.cycles == at_once.cycles
    assert result.outputs is not None
    assert at_once.outputs is not None
    for name, array in at_once.outputs.items():
        np.testing.assert_array_equal(result.outputs[name], array)


def test_an_executor_works_once(device: Device, call: Call) -> None:
    op, arguments = call
    size, executor = device.get_workspace_size(op, **arguments)
    stream = device.create_stream()
    assert stream.execute(bytearray(size), size, executor).code == 0
    again = stream.execute(bytearray(size), size, executor)
    assert (again.code, again.name) == (161002, "ACLNN_ERR_PARAM_INVALID")
    assert "executed before" in again.message
    assert "call the first phase again" in again.remedy
    assert len(stream.synchronize()) == 1
    assert device.create_stream().execute(bytearray(size), size, executor).code == 161002


def test_null_pointers_of_the_second_phase(device: Device) -> None:
    op, arguments = GROUP_NORM, CALLS[GROUP_NORM]
    size, executor = device.get_workspace_size(op, **arguments)
    stream = device.create_stream()
    no_executor = stream.execute(bytearray(size), size, None)
    assert (no_executor.code, no_executor.name) == (161001, "ACLNN_ERR_PARAM_NULLPTR")
    assert "executor" in no_executor.message
    no_workspace = stream.execute(None, size, executor)
    assert no_workspace.code == 161001
    assert f"{size} bytes" in no_workspace.message
    assert stream.synchronize() == []
    assert stream.execute(bytearray(size), size, executor).ok  # a refusal doesn't use it up


def test_no_workspace_is_needed_where_none_was_asked_for(device: Device) -> None:
    size, executor = device.get_workspace_size(CROSS_ENTROPY, **CALLS[CROSS_ENTROPY])
    assert size == 0
    assert device.create_stream().execute(None, size, executor).ok


def test_nothing_is_computed_before_the_stream_is_synchronised(device: Device) -> None:
    out = np.full((20, 30), np.nan, np.float32)
    arguments = CALLS[CROSS_ENTROPY] | {"out": out}
    size, executor = device.get_workspace_size(CROSS_ENTROPY, **arguments)
    stream = device.create_stream()
    stream.execute(None, size, executor)
    assert np.isnan(out).all()
    stream.synchronize()
    assert np.isfinite(out).all()


def test_a_stream_keeps_its_order(device: Device) -> None:
    """The second call reads what the first one writes."""
    first = CALLS[CROSS_ENTROPY] | {"out": np.zeros((20, 30), np.float32)}
    second = CALLS[CROSS_ENTROPY] | {"gradOutput": first["out"]}
    stream = device.create_stream()
    for arguments in (first, second):
        size, executor = device.get_workspace_size(CROSS_ENTROPY, **arguments)
        stream.execute(None, size, executor)
    results = stream.synchronize()
    assert [result.op for result in results] == [CROSS_ENTROPY] * 2
    want = device.run(CROSS_ENTROPY, **second).outputs
    assert want is not None
    assert results[1].outputs is not None
    np.testing.assert_array_equal(results[1].outputs["out"], want["out"])
    assert stream.synchronize() == []


def test_the_first_phase_judges_the_arguments(device: Device) -> None:
    with pytest.raises(AclnnError) as error:
        device.get_workspace_size(CROSS_ENTROPY, **CALLS[CROSS_ENTROPY] | {"target": None})
    assert (error.value.code, error.value.ok) == (161001, False)
    assert error.value.name == "ACLNN_ERR_PARAM_NULLPTR"


def test_a_run_needs_numbers(device: Device) -> None:
    spec = TensorSpec((20, 30), "float32")
    with pytest.raises(ArgumentError, match="target has a shape but no data") as error:
        device.get_workspace_size(CROSS_ENTROPY, **CALLS[CROSS_ENTROPY] | {"target": spec})
    assert "estimate" in error.value.remedy


def test_check_tells_and_doesnt_raise(device: Device, call: Call) -> None:
    op, arguments = call
    good = device.check(op, **arguments)
    assert (good.code, good.name, good.message, good.ok) == (0, "ACLNN_SUCCESS", "", True)
    first = next(iter(arguments))
    bad = device.check(op, **arguments | {first: None})
    assert (bad.code, bad.name, bad.ok) == (161001, "ACLNN_ERR_PARAM_NULLPTR", False)
    assert first in bad.message


def test_estimate_computes_nothing_and_run_takes_as_long(device: Device, call: Call) -> None:
    op, arguments = call
    estimate, run = device.estimate(op, **arguments), device.run(op, **arguments)
    assert estimate.outputs is None
    assert estimate.cycles == run.cycles
    assert estimate.duration_us == run.duration_us
    assert estimate.tasks == run.tasks
    assert estimate.cycles == pytest.approx(
        estimate.duration_us * device.profile.clock_mhz, abs=len(estimate.tasks)
    )


def test_tasks_follow_each_other(device: Device, call: Call) -> None:
    op, arguments = call
    result = device.estimate(op, **arguments)
    clock_us = 0.0
    for task in result.tasks:
        assert task.start_us == pytest.approx(clock_us)
        assert 0 < task.launch_us < task.duration_us
        clock_us += task.duration_us
    assert result.duration_us == pytest.approx(clock_us)
    for each in result.timeline.slices(result.timeline.cores[:2]):
        assert 0 <= each.start_us <= each.start_us + each.duration_us <= clock_us + 1e-6
