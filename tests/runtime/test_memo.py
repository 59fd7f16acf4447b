"""What a device has played it doesn't play again, up to a limit."""

from __future__ import annotations

import gc
import threading
import tracemalloc
from collections.abc import Iterable, Iterator
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from npusim import Device, Result, TensorSpec, load_profile
from npusim.ascendc import Core, GlobalTensor, GmBuffer, Kernel, trace
from npusim.engine import Memo
from npusim.engine import player as reference
from npusim.engine.compiled import play as compiled
from npusim.operators.tasks import TaskSpec, kernels_of
from npusim.ops.matmul.grouped import Groups
from npusim.runtime import streams, task
from npusim.runtime.task import run_tasks
from npusim.values.dtypes import FLOAT, FLOAT16
from npusim.values.formats import Format
from npusim.values.garbage import CollectLater

if TYPE_CHECKING:
    from npusim.hardware import Profile

CHIP = "Ascend910B3"
SOFTMAX = {"self": "fp16[40,300]", "dim": 1, "out": "fp16[40,300]"}
SHAPES = ("fp32[1024]", "fp32[5000]", "fp32[64,999]")


class Counted:
    """How often the engine has played a kernel."""

    plays = 0


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    counted = Counted()
    for player in (compiled, reference):

        def counting(*about: Any, play: Any = player.play) -> Any:
            counted.plays += 1
            return play(*about)

        monkeypatch.setattr(player, "play", counting)
    return counted


def multiply(device: Device, shape: str) -> Result:
    return device.estimate("aclnnMul", self=shape, other=shape, out=shape)


def test_the_same_kernel_is_played_once_and_takes_as_long(counted: Counted) -> None:
    device = Device(CHIP)
    first, again = multiply(device, SHAPES[0]), multiply(device, SHAPES[0])
    assert counted.plays == 1
    assert again.tasks == first.tasks
    assert list(again.timeline.slices()) == list(first.timeline.slices())


def test_other_shapes_other_l2_and_exact_play_are_other_runs(counted: Counted) -> None:
    memo = Memo()
    for shape in SHAPES:
        multiply(Device(CHIP, memo=memo), shape)
    multiply(Device(CHIP, memo=memo, l2="warm"), SHAPES[1])
    multiply(Device(CHIP, memo=memo, exact=True), SHAPES[1])
    multiply(Device("Ascend910B1", memo=memo), SHAPES[1])
    assert counted.plays == len(memo) == len(SHAPES) + 3


def test_devices_have_a_memo_each_unless_they_share_one(counted: Counted) -> None:
    for _ in range(2):
        multiply(Device(CHIP), SHAPES[0])
    assert counted.plays == 2
    memo = Memo()
    for _ in range(2):
        multiply(Device(CHIP, memo=memo), SHAPES[0])
    assert counted.plays == 3


def test_a_memo_of_no_bytes_keeps_nothing(counted: Counted) -> None:
    device = Device(CHIP, memo=Memo(0))
    results = [multiply(device, SHAPES[0]) for _ in range(3)]
    assert (counted.plays, len(device.memo), device.memo.held_bytes) == (3, 0, 0)
    assert len({result.duration_us for result in results}) == 1


def texts(memo: Memo, numbers: Iterable[int]) -> int:
    """How many of some runs a memo has; those that it hasn't it gets."""
    found = 0
    for number in numbers:
        key = number.to_bytes(16, "big")
        if memo.run(key) == b"run %d" % number:
            found += 1
        else:
            memo.keep_run(key, b"run %d" % number)
        assert memo.held_bytes <= memo.limit_bytes
    return found


def test_most_is_found_again_by_who_goes_through_more_than_fits() -> None:
    """Dropping what was used longest ago would leave none of it, again and again."""
    memo = Memo(1_000_000)
    texts(memo, range(3000))
    held = len(memo)
    assert 2000 < held < 2600
    for _ in range(5):
        assert texts(memo, range(3000)) > held / 2
    assert len(memo) == held


def test_a_hundred_thousand_shapes_fit_into_a_memo() -> None:
    device = Device(CHIP)
    for rows in range(20, 30):
        device.estimate("aclnnSoftmax", self=f"fp16[{rows},3000]", dim=1)
        device.estimate("aclnnMatmul", self=f"fp16[{rows * 99},500]", mat2="fp16[500,7000]",
                        cubeMathType=0)  # fmt: skip
    runs = device.memo._runs
    assert len(device.memo) == 20
    assert runs.held_bytes / len(runs) * 100_000 < runs._limit_bytes * 1.7
    assert runs.held_bytes / len(runs) < 1000


def test_what_would_fill_the_memo_is_not_kept() -> None:
    memo = Memo(8000)
    memo.keep_run(b"small", b"x" * 100)
    memo.keep_run(b"large", b"x" * 4000)
    assert (len(memo), memo.run(b"large")) == (1, None)


def test_the_limit_counts_about_the_bytes_that_are_held() -> None:
    memo = Memo(10**9)
    tracemalloc.start()
    try:
        for number in range(5000):
            memo.keep_run(number.to_bytes(16, "big"), b"x" * (300 + number % 500))
        before = tracemalloc.get_traced_memory()[0]
        memo._runs._kept.clear()
        memo._runs._lots.clear()
        freed = before - tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert memo.held_bytes * 0.8 < freed < 1.2 * memo.held_bytes


def test_a_run_that_is_known_tells_everything_of_itself() -> None:
    """What isn't kept of it is played once more."""
    call = {"self": "fp16[500,300]", "mat2": "fp16[300,700]", "cubeMathType": 0}
    first, again = (device.estimate("aclnnMatmul", **call) for device in [Device(CHIP)] * 2)
    assert again.tasks == first.tasks
    assert again.timeline.work() == first.timeline.work()
    assert list(again.timeline.slices()) == list(first.timeline.slices())


def test_calls_with_numbers_take_as_long_as_others(counted: Counted) -> None:
    device, x = Device(CHIP), np.ones((40, 300), np.float16)
    estimated = device.estimate("aclnnSoftmax", self=x, dim=1)
    ran = device.run("aclnnSoftmax", self=x, dim=1)
    assert counted.plays == 1
    assert ran.tasks == estimated.tasks
    np.testing.assert_allclose(ran.outputs["out"], 1 / 300, rtol=1e-2)


def test_threads_may_share_a_memo() -> None:
    memo, wanted = Memo(20_000), multiply(Device(CHIP), SHAPES[1]).duration_us
    found: list[float] = []

    def work() -> None:
        for shape in SHAPES:
            multiply(Device(CHIP, memo=memo), shape)
        found.append(multiply(Device(CHIP, memo=memo), SHAPES[1]).duration_us)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found == [wanted] * 4
    assert memo.held_bytes <= memo.limit_bytes


# -- instruction streams ---------------------------------------------------------------------------


def test_a_kernel_is_traced_once_for_equal_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    traced = []

    def counting(kernel: Kernel, *given: Any, **options: Any) -> Any:
        traced.append(kernel.op_type)
        return trace(kernel, *given, **options)

    monkeypatch.setattr(streams, "trace", counting)
    device = Device(CHIP)
    first, again = (device.estimate("aclnnSoftmax", **SOFTMAX) for _ in range(2))
    assert len(traced) == len(first.tasks)
    assert again.tasks == first.tasks
    device.estimate("aclnnSoftmax", **{**SOFTMAX, "dim": 0})
    assert len(traced) > len(first.tasks)


def test_tensors_that_differ_in_anything_are_told_apart() -> None:
    """None of a tensor's fields is left out of what its kernel is known by."""
    two = GmBuffer("two", 64)
    x = GlobalTensor(GmBuffer("one", 64), FLOAT, (2, 8), 0, (8, 1))
    others = {"buffer": two, "dtype": FLOAT16, "shape": (8, 2), "start": 1, "strides": (1, 2),
              "format": Format.NCHW, "past_l2": True}  # fmt: skip
    assert [each.name for each in fields(GlobalTensor)] == [*others]
    told = {digest([two, x])} | {digest([two, replace(x, **{n: v})]) for n, v in others.items()}
    assert len(told) == 1 + len(others)


def digest(tensors: list[GlobalTensor | GmBuffer]) -> bytes:
    contents = streams._Contents(load_profile(CHIP))
    contents.tell(tensors)
    return contents.digest()


def test_calls_on_streams_of_their_own_keep_runs_alone() -> None:
    device, (shape, other, _) = Device(CHIP), SHAPES
    multiply(device, shape)
    alone = device.memo.held_bytes
    stream = device.create_stream()
    device.estimate("aclnnMul", stream=stream, self=other, other=other, out=other)
    assert 0 < 5 * alone < device.memo.held_bytes - alone


def test_streams_of_other_memory_find_in_l2_what_is_there() -> None:
    """Equal calls on other memory: L2 knows it by other numbers than the streams."""
    x, y, z, u, v, w = (TensorSpec((1 << 20,), "float16") for _ in range(6))
    calls = ((x, y, z), (u, v, w), (v, u, w), (z, x, u), (x, y, z))
    found = []
    for memo in (Memo(), Memo(0)):
        device = Device(CHIP, memo=memo)
        stream = device.create_stream()
        for one, other, out in calls:
            call = device.estimate("aclnnMul", stream=stream, self=one, other=other, out=out)
            found.append([(task.duration_us, task.hbm_bytes) for task in call.tasks])
    assert found[:5] == found[5:]
    ((first_us, first_bytes),), (again,), (third,) = found[:3]
    assert first_bytes == again[1]
    assert first_us > again[0]  # whose code is there
    assert again != third


def test_known_runs_leave_in_l2_what_others_do() -> None:
    """The second time all three calls are known, and each finds what the one before it left."""
    x, y, z, u, v = (TensorSpec((1 << 20,), "float16") for _ in range(5))
    device, found = Device(CHIP), []
    for _ in range(2):
        stream = device.create_stream()
        for one, other, out in ((x, y, z), (z, x, u), (u, z, v)):
            call = device.estimate("aclnnMul", stream=stream, self=one, other=other, out=out)
            found.append([(task.duration_us, task.hbm_bytes) for task in call.tasks])
    assert found[:3] == found[3:]
    assert len(device.memo) == 2  # the third call finds what the second did
    assert found[0] != found[1]


class Doubled(Kernel):
    """A user's kernel that depends on more than its attributes."""

    turns = 1

    def __init__(self, _: Profile, x: GlobalTensor, y: GlobalTensor) -> None:
        self.x, self.y = x, y
        self.reads, self.writes = (x,), (y,)
        self.block_dim = 1

    def process(self, core: Core) -> None:
        for _ in range(Doubled.turns):
            core.scalar_alu("turn", 10)


def test_a_kernel_of_ones_own_is_traced_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    device, x = Device(CHIP), TensorSpec((64,), "float32")
    once = device.launch(Doubled, x, x).cycles
    monkeypatch.setattr(Doubled, "turns", 50)
    assert device.launch(Doubled, x, x).cycles > once


def test_estimates_leave_no_garbage() -> None:
    device = Device("Ascend910B3")

    def estimate(queries: int) -> None:
        device.estimate(
            "MultiScaleDeformableAttentionGrad",
            value=TensorSpec((1, 1600, 8, 32), "float32"),
            spatialShape=TensorSpec((4, 2), "int32"),
            levelStartIndex=TensorSpec((4,), "int32"),
            location=TensorSpec((1, queries, 8, 4, 4, 2), "float32"),
            attnWeight=TensorSpec((1, queries, 8, 4, 4), "float32"),
            gradOutput=TensorSpec((1, queries, 256), "float32"),
        )

    estimate(150)
    gc.freeze()  # what other tests have left is not looked through
    gc.disable()
    try:
        estimate(200)
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_estimates_are_made_without_a_search_for_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    searched = []
    real = task.play

    def noting(*given: Any, **how: Any) -> Any:
        searched.append(gc.isenabled())
        return real(*given, **how)

    monkeypatch.setattr(task, "play", noting)
    device, x = Device(CHIP), TensorSpec((64,), "float32")
    device.launch(Doubled, x, x)
    assert searched == [False]
    assert gc.isenabled()
    with pytest.raises(ValueError, match="inside"), CollectLater():
        raise ValueError("inside")
    assert gc.isenabled()
    gc.disable()
    try:
        device.launch(Doubled, x, x)
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_what_is_known_is_neither_traced_nor_played_again(
    monkeypatch: pytest.MonkeyPatch, counted: Counted
) -> None:
    dealt = []
    blocks = Groups.blocks
    monkeypatch.setattr(Groups, "blocks", lambda *given: dealt.append(1) or blocks(*given))
    device = Device(CHIP)
    given = (TensorSpec((700, 64), "float16"), TensorSpec((5, 64, 256), "float16"))
    task = TaskSpec("GroupedMatmul", (*given, None, None, None, None, None,
                    TensorSpec((5,), "int64")), (TensorSpec((700, 256), "float16"),),
                    {"split_item": 3, "group_type": 0})  # fmt: skip
    kept, runs = Memo(), []
    for _ in range(2):
        runs.append(run_tasks(kernels_of(device.profile, task), device.profile, memo=kept))
        assert bool(dealt) is (len(runs) == 1)
        dealt.clear()
    assert counted.plays == len(runs[0].tasks)
    assert runs[0].duration_us == runs[1].duration_us


def test_a_value_that_a_cache_keeps_makes_no_other_kernel_of_it(counted: Counted) -> None:
    """Tilings are remembered with the window that they were found for."""
    device = Device(CHIP)
    call = {
        "input": "fp16[2,40,30,31]:NCHW", "weight": "fp16[50,40,3,3]:NCHW", "bias": None,
        "stride": [1, 1], "padding": [1, 1], "dilation": [1, 1], "transposed": False,
        "outputPadding": [0, 0], "groups": 1, "cubeMathType": 0,
    }  # fmt: skip
    first = device.estimate("aclnnConvolution", **call)
    plays = counted.plays
    assert device.estimate("aclnnConvolution", **call).tasks == first.tasks
    assert counted.plays == plays
