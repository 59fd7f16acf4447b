"""The compiled player ends to the cycle where SimPy does: random calls, both ways."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim import Device, TensorSpec, load_profile
from npusim.ascendc import Core
from npusim.operators.registry import op_types
from npusim.operators.tasks import TaskSpec, kernels_of
from npusim.runtime import streams
from npusim.runtime.task import run_tasks
from npusim.values.errors import KernelError
from support import physics
from support.row_cases import stood_for, with_a_kernel_of_their_own
from support.task_cases import chips_of, task_of

if TYPE_CHECKING:
    from npusim.ascendc import Kernel
    from npusim.engine import KernelRun
    from npusim.hardware import Profile
    from npusim.runtime.timeline import TaskResult

CHIPS = ("Ascend910A", "Ascend910B3", "Ascend310P3")
A2 = ("Ascend910B1", "Ascend910B3", "Ascend910B4")  # where the page of the operator ends here

CALLS = 54  # six of every kind
MANY = 200
MOST = 1e-9  # of the cycles, in every call: what sums in another order differ by

Arguments = dict[str, Any]


def cross_entropy(random: Random) -> tuple[str, Arguments]:
    kind = random.choice(("float32", "float16"))
    x = TensorSpec((2 ** random.randint(14, 25) + random.randint(0, 5000),), kind)
    weight = x if random.random() < 0.7 else None
    return "aclnnBinaryCrossEntropyBackward", {
        "gradOutput": x,
        "self": x,
        "target": x,
        "weightOptional": weight,
        "reduction": random.randint(0, 2),
    }


def group_norm(random: Random) -> tuple[str, Arguments]:
    batch, group, depth = random.randint(1, 90), random.randint(1, 12), random.randint(1, 16)
    size = random.choice((random.randint(1, 300), random.randint(300, 6000)))
    kind = random.choice(("float32", "float16"))
    x = TensorSpec((batch, group * depth, size), kind)
    statistics, gamma = TensorSpec((batch, group), kind), TensorSpec((group * depth,), kind)
    return "aclnnGroupNormBackward", {
        "gradOut": x,
        "input": x,
        "mean": statistics,
        "rstd": statistics,
        "gamma": gamma,
        "N": batch,
        "C": group * depth,
        "HxW": size,
        "group": group,
        "outputMask": [True, random.random() < 0.8, True],
    }


def roi_align(random: Random) -> tuple[str, Arguments]:
    boxes, channels, bins = random.randint(1, 120), random.randint(1, 50), random.randint(1, 6)
    height, width = random.randint(8, 40), random.randint(8, 40)
    return "aclnnRoiAlignV2Backward", {
        "gradOutput": TensorSpec((boxes, channels, bins, bins), "float32", "NCHW"),
        "boxes": TensorSpec((boxes, 5), "float32"),
        "inputShape": [1, channels, height, width],
        "pooledHeight": bins,
        "pooledWidth": bins,
        "spatialScale": 0.25,
        "samplingRatio": random.randint(0, 2),
        "aligned": True,
    }


def upsample(random: Random) -> tuple[str, Arguments]:
    batch, channels = random.randint(1, 6), random.randint(1, 200)
    short = random.randint(2, 1500)
    long = short * random.randint(1, 4) + random.randint(0, short)
    kind = random.choice(("float32", "float16", "bfloat16"))
    return "aclnnUpsampleNearestExact1dBackward", {
        "gradOutput": TensorSpec((batch, channels, long), kind),
        "outputSize": [long],
        "inputSize": [batch, channels, short],
        "scales": 0.0,
    }


def deformable(random: Random) -> tuple[str, Arguments]:
    levels, points, heads = random.randint(1, 2), random.randint(1, 4), random.randint(1, 4)
    batch, channels, queries = random.randint(1, 2), 8 * random.randint(1, 5), random.randint(1, 90)
    keys, kind = random.randint(20, 600), random.choice(("float32", "float16", "bfloat16"))
    places = (batch, queries, heads, levels, points)
    return "aclnnMultiScaleDeformableAttentionGrad", {
        "value": TensorSpec((batch, keys, heads, channels), kind),
        "spatialShape": TensorSpec((levels, 2), "int32"),
        "levelStartIndex": TensorSpec((levels,), "int32"),
        "location": TensorSpec((*places, 2), kind),
        "attnWeight": TensorSpec(places, kind),
        "gradOutput": TensorSpec((batch, queries, heads * channels), kind),
    }


def elementwise(random: Random) -> TaskSpec:
    x = TensorSpec((2 ** random.randint(10, 27) + random.randint(0, 100),), "float16")
    op, inputs = random.choice((("Add", (x, x)), ("Mul", (x, x)), ("Exp", (x,)), ("Sqrt", (x,))))
    return TaskSpec(op, inputs, (x,))


def product(random: Random) -> TaskSpec:
    m, k, n = (random.choice((16, 100, 256, 1000, 4096)) for _ in range(3))
    tensors = [TensorSpec(shape, "float16") for shape in ((m, k), (k, n), (m, n))]
    return TaskSpec("MatMulV2", tuple(tensors[:2]), (tensors[2],))


def row_by_row(random: Random) -> TaskSpec:
    x = TensorSpec((random.randint(1, 20000), random.randint(8, 2000)), "float16")
    return TaskSpec("SoftmaxV2", (x,), (x,))


def summed(random: Random) -> TaskSpec:
    rows, columns = random.randint(1, 20000), random.randint(1, 2000)
    x = TensorSpec((rows, columns), "float32")
    return TaskSpec("ReduceSum", (x,), (TensorSpec((rows,), "float32"),), {"axes": [1]})


OPERATORS: tuple[tuple[Callable[[Random], Any], tuple[str, ...]], ...] = (
    (cross_entropy, CHIPS),
    (group_norm, ("Ascend910A", "Ascend910B3", "Ascend910B4")),
    (roi_align, CHIPS),
    (upsample, A2),
    (deformable, A2),
    (elementwise, CHIPS),
    (product, CHIPS),
    (row_by_row, CHIPS),
    (summed, CHIPS),
)


@dataclass(frozen=True)
class Pair:
    """One call: its tasks by the compiled player, and by SimPy."""

    what: str
    compiled: tuple[TaskResult, ...]
    played: tuple[TaskResult, ...]

    @property
    def difference(self) -> float:
        """Of the cycles of the whole call."""
        ours, theirs = (sum(task.cycles for task in each) for each in (self.compiled, self.played))
        return abs(ours - theirs) / theirs


def tasks(chip: str, call: Any, *, exact: bool) -> tuple[TaskResult, ...]:
    if not isinstance(call, TaskSpec):
        op, arguments = call
        return Device(chip, exact=exact).estimate(op, **arguments).tasks
    profile = load_profile(chip)
    return run_tasks(kernels_of(profile, call), profile, exact=exact).tasks


COUNTS = pytest.mark.parametrize("count", [CALLS, pytest.param(MANY, marks=pytest.mark.slow)])


@cache
def pairs(count: int) -> tuple[Pair, ...]:
    random = Random(20260)  # noqa: S311 - not for secrets
    found = []
    for number in range(count):
        make, chips = OPERATORS[number % len(OPERATORS)]
        chip, call = random.choice(chips), make(random)
        what = f"{chip}: {call}"
        found.append(Pair(what, *(tasks(chip, call, exact=exact) for exact in (False, True))))
    return tuple(found)


@COUNTS
def test_cycles_are_those_of_playing_everything(count: int) -> None:
    assert len(pairs(count)) == count
    worst = max(pairs(count), key=lambda pair: pair.difference)
    assert worst.difference <= MOST, worst.what


@COUNTS
def test_bytes_and_busy_ratios_are_those_of_playing_everything(count: int) -> None:
    for pair in pairs(count):
        for one, other in zip(pair.compiled, pair.played, strict=True):
            assert one.name == other.name
            moved = (one.bytes_read, one.bytes_written, one.hbm_bytes)
            assert moved == (other.bytes_read, other.bytes_written, other.hbm_bytes), pair.what
            assert dict(one.pipes) == pytest.approx(dict(other.pipes), abs=1e-9), pair.what


# -- every operator --------------------------------------------------------------------------------

LINES = {"Ascend910B3": 3, "Ascend910A": 3, "Ascend310P3": 3}  # a chip of each line, and cores


def assert_alike(run: KernelRun, reference: KernelRun) -> None:
    """To the last bit but for what sums in another order."""
    assert run.cycles == pytest.approx(reference.cycles, rel=1e-12)
    for ours, theirs in zip(run.records, reference.records, strict=True):
        assert ours.end == pytest.approx(theirs.end, rel=1e-12)
        assert ours.busy == pytest.approx(theirs.busy, rel=1e-9, abs=1e-6)
        our, their = ours.whole().played, theirs.whole().played
        assert our.times == their.times
        np.testing.assert_allclose(our.cycles, their.cycles, rtol=1e-9, atol=1e-6)


def is_known_again(kernel: Kernel, profile: Profile) -> bool:
    """Whether a kernel that is made once more has what is kept of it; AI CPUs keep nothing."""
    if kernel.runs_on:
        return True
    return streams.describe(kernel, profile, code=kernel.code) is not None


def agrees(op_type: str, chip: str, examples: int) -> None:
    """Tasks of an operator on a chip with few cores, by both players.

    The reference plays what every core has written down by itself, instruction by instruction.
    """

    @settings(max_examples=examples, deadline=None)
    @given(data=st.data())
    def both(data: st.DataObject) -> None:
        profile = physics.with_cores(chip, LINES[chip])
        try:
            made = task_of(op_type, data, profile).kernels(profile, op_type)[0]
        except KernelError:  # this chip doesn't have it
            return
        compiled = run_tasks(made, profile).runs
        with pytest.MonkeyPatch.context() as patch:  # nothing is written down for something else
            patch.setattr(Core, "_only_writes_down", False)
            played = run_tasks(made, profile, exact=True).runs
        for run, reference in zip(compiled, played, strict=True):
            assert_alike(run, reference)

    both()


@pytest.mark.parametrize("op_type", [each for each in op_types() if each not in stood_for()])
def test_what_is_kept_of_every_operator_is_found_again(op_type: str) -> None:
    @settings(max_examples=1, deadline=None)
    @given(data=st.data())
    def again(data: st.DataObject) -> None:
        for chip in LINES:  # whose kernel classes may be several of one name
            if chip not in chips_of(op_type):
                continue
            profile = load_profile(chip)
            try:
                made = task_of(op_type, data, profile).kernels(profile, op_type)[0]
            except KernelError:  # this chip doesn't have it
                continue
            assert all(is_known_again(each, profile) for each in made)

    again()


@pytest.mark.parametrize("op_type", with_a_kernel_of_their_own())
def test_every_operator_ends_where_the_reference_has_it(op_type: str) -> None:
    chips = [chip for chip in LINES if chip in chips_of(op_type)]
    agrees(op_type, chips[len(op_type) % len(chips)], 1)


@pytest.mark.slow
@pytest.mark.parametrize("chip", LINES)
def test_every_operator_does_so_on_every_line(chip: str) -> None:
    for op_type in op_types():
        if op_type not in stood_for() and chip in chips_of(op_type):
            agrees(op_type, chip, 1)
