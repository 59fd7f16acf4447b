"""Kernels that are traced without their numbers, which are computed without writing anything down.

What they do and leave is the same as where both are found in one pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim import Device
from npusim.ascendc import GlobalTensor, GmBuffer, Kernel, trace
from npusim.engine import ALL_LOST, Memo
from npusim.hardware import load_profile
from npusim.runtime import streams
from npusim.runtime.cache_start import empty_cache
from npusim.runtime.streams import describe, streams_of
from npusim.runtime.task import play
from npusim.values.errors import KernelError
from support import physics
from support.kernels import gm
from support.row_cases import with_a_kernel_of_their_own
from support.streams import told
from support.task_cases import chips_of, task_of

if TYPE_CHECKING:
    from npusim.ascendc import Core
    from npusim.hardware import Profile
    from support.reference import Built

CHIP = "Ascend910B3"
CORES = 3
EXAMPLES = 2
Array = np.ndarray[Any, Any]


def outputs(kernels: Built) -> list[Array]:
    return [each.array.copy() for each in kernels[1] if each.array is not None]


def same_bits(ours: list[Array], theirs: list[Array]) -> None:
    for mine, wanted in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(
            np.ascontiguousarray(mine).view(np.uint8), np.ascontiguousarray(wanted).view(np.uint8)
        )


@pytest.mark.parametrize("op_type", with_a_kernel_of_their_own())
def test_numbers_decide_nothing_that_is_written_down(op_type: str) -> None:
    """Without numbers the cores are given the same as with them, and the numbers are the same."""

    @settings(max_examples=EXAMPLES, deadline=None)
    @given(data=st.data())
    def agrees(data: st.DataObject) -> None:
        profile = physics.with_cores(chips_of(op_type)[0], CORES)
        task = task_of(op_type, data, profile)
        memo = Memo()
        try:
            made = [task.kernels(profile, op_type) for _ in range(3)]
        except KernelError:  # this chip doesn't have it
            return
        whole, *apart = made
        for place, kernel in enumerate(whole[0]):
            alone, together = (trace(kernel, profile, numerics=each) for each in (False, True))
            assert told(alone) == told(together)
            for kernels, _ in apart:  # the second of which finds the streams of the first
                play(kernels[place], profile, empty_cache(profile), numerics=True, memo=memo)
        for each in apart:
            same_bits(outputs(each), outputs(whole))

    agrees()


# -- calls -----------------------------------------------------------------------------------------


def array(draw: Any, *shape: int, kind: Any = np.float32) -> Array:
    random = np.random.default_rng(draw(st.integers(0, 99)))
    return random.standard_normal(shape).astype(kind)


@st.composite
def calls(draw: Any) -> tuple[str, dict[str, Any]]:
    """A call whose work its shapes decide, or, of the last ones, the numbers of a list."""
    rows, columns = draw(st.integers(1, 40)), draw(st.sampled_from([16, 48, 300]))
    x = array(draw, rows, columns, kind=draw(st.sampled_from([np.float32, np.float16])))
    name = draw(
        st.sampled_from(["Mul", "Softmax", "Cumsum", "ReduceSum", "Matmul", "Index", "Gmm"])
    )
    if name == "Mul":
        return "aclnnMul", {"self": x, "other": x[:1], "out": x}
    if name == "Softmax":
        return "aclnnSoftmax", {"self": x, "dim": draw(st.sampled_from([0, 1])), "out": x}
    if name == "Cumsum":
        x = x.astype(np.float32)
        return "aclnnCumsum", {"self": x, "dim": 1, "dtype": "float32", "out": x}
    if name == "ReduceSum":
        out = x[:, 0].copy()
        return "aclnnReduceSum", {
            "self": x, "dims": [1], "keepDims": False, "dtype": str(x.dtype), "out": out,
        }  # fmt: skip
    half = x.astype(np.float16)
    if name == "Matmul":
        weight = array(draw, columns, 32, kind=np.float16)
        out = np.zeros((rows, 32), np.float16)
        return "aclnnMatmul", {"self": half, "mat2": weight, "out": out, "cubeMathType": 0}
    if name == "Index":
        index = np.array(draw(st.lists(st.integers(0, rows - 1), min_size=8, max_size=8)), np.int64)
        out = np.zeros((8, columns), np.float16)
        return "aclnnIndexSelect", {"self": half, "dim": 0, "index": index, "out": out}
    first = draw(st.integers(0, rows))
    return "aclnnGroupedMatmulV4", {
        "x0": half, "weight0": array(draw, 2, columns, 32, kind=np.float16),
        "groupListOptional": np.array([first, rows], np.int64), "splitItem": 3, "groupType": 0,
        "groupListType": 0, "actType": 0, "out0": np.zeros((rows, 32), np.float16),
    }  # fmt: skip


SHARED = Device(CHIP)


@settings(max_examples=60, deadline=None)
@given(call=calls(), estimated=st.booleans())
def test_a_call_that_is_known_leaves_the_same_in_the_same_time(
    call: tuple[str, dict[str, Any]], estimated: bool
) -> None:
    """Run twice where earlier calls are remembered, and where nothing is."""
    name, arguments = call
    fresh = Device(CHIP, memo=Memo(0)).run(name, **arguments)
    if estimated:
        SHARED.estimate(name, **arguments)
    for _ in range(2):
        again = Device(CHIP, memo=SHARED.memo).run(name, **arguments)
        assert again.tasks == fresh.tasks
        assert list(again.timeline.slices()) == list(fresh.timeline.slices())
        for key, wanted in fresh.outputs.items():
            same_bits([np.asarray(again.outputs[key])], [np.asarray(wanted)])


def test_a_call_that_is_known_is_not_traced_again(monkeypatch: pytest.MonkeyPatch) -> None:
    traced = []

    def counting(kernel: Kernel, *given: Any, **options: Any) -> Any:
        traced.append(options["numerics"])
        return trace(kernel, *given, **options)

    monkeypatch.setattr(streams, "trace", counting)
    x = np.ones((40, 300), np.float16)
    device = Device(CHIP)
    estimate = device.estimate("aclnnSoftmax", self="fp16[40,300]", dim=1, out="fp16[40,300]")
    assert traced == [False] * len(estimate.tasks)
    for _ in range(2):
        run = device.run("aclnnSoftmax", self=x, dim=1, out=x)
        assert run.tasks[0].cycles == estimate.tasks[0].cycles
    assert traced == [False] * len(estimate.tasks)


@pytest.mark.parametrize("first", ["estimate", "run"])
def test_numbers_that_decide_what_is_done_are_asked_for_each_time(first: str) -> None:
    """Pages of a cache: where they lie says what a core loads at once; without them, none."""
    table = gm(np.arange(8, dtype=np.int32)[::-1].copy(), "table")
    spec = GlobalTensor(GmBuffer("table", table.nbytes), table.dtype, table.shape)
    profile, memo = load_profile(CHIP), Memo()
    kernels = [Pages(table), Pages(spec)]
    for kernel in kernels if first == "run" else kernels[::-1]:
        numerics = kernel.table.buffer.has_data
        about = describe(kernel, profile, code=ALL_LOST)
        groups = streams_of(kernel, profile, memo, about, numerics=numerics, code=ALL_LOST).groups
        assert told(groups) == told(trace(kernel, profile, numerics=numerics))


class Pages(Kernel):
    """A kernel of the package's that does as many turns as the first number of its table says."""

    block_dim = 1
    __module__ = "npusim.pages"

    def __init__(self, table: GlobalTensor) -> None:
        self.table, self.reads, self.writes = table, (table,), ()

    def process(self, core: Core) -> None:
        found = self.table.array
        core.scalar_alu("turn", 1 if found is None else int(found[0]))


class Follows(Kernel):
    """A user's kernel that does what a number tells it, which it reads from a tile."""

    def __init__(self, _: Profile, x: GlobalTensor, y: GlobalTensor) -> None:
        self.x, self.reads, self.writes, self.block_dim = x, (x,), (y,), 1

    def process(self, core: Core) -> None:
        number = core.load_scalar(self.x.span(0, 1)).value
        core.scalar_alu("turn", 1 if number is None else int(number))


def test_users_kernels_may_do_what_numbers_tell_them() -> None:
    device, y = Device(CHIP), np.zeros(8, np.float32)
    few, many = (
        device.launch(Follows, np.full(8, turns, np.float32), y).tasks[0].cycles
        for turns in (10, 1000)
    )
    assert many > few
