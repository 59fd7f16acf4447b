"""What a device has played it doesn't play again, up to a limit."""

from __future__ import annotations

import gc
import threading
import tracemalloc
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from npusim import Device, Result, TensorSpec
from npusim.ascendc import Core, GlobalTensor, Kernel, trace
from npusim.engine import Memo, simulate
from npusim.engine import memo as memos
from npusim.engine import player as reference
from npusim.engine.compiled import play as compiled
from npusim.engine.l2 import L2State
from npusim.engine.program import CoreGroup
from npusim.operators.tasks import TaskSpec, kernels_of
from npusim.ops.matmul.grouped import Groups
from npusim.runtime import streams, task
from npusim.runtime.task import run_tasks
from npusim.values.garbage import collect_later
from support.programs import machine, pipeline

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


def played(memo: Memo, count: int) -> None:
    """A pipeline of ``count`` tiles."""
    group = CoreGroup((0,), pipeline(count, 5, 7, 3))
    simulate((group,), machine(), L2State(1e9), exact=True, memo=memo)


def test_runs_used_longest_ago_make_room(counted: Counted) -> None:
    whole = Memo(10**9)
    for count in (30, 31, 32, 33, 34):
        played(whole, count)
    memo = Memo(whole.held_bytes * 4 // 5)
    for count in (30, 31, 32, 33, 30, 34):  # 30 is asked for again, so that 31 has to go
        played(memo, count)
        assert memo.held_bytes <= memo.limit_bytes
    before = counted.plays
    played(memo, 30)
    assert counted.plays == before
    played(memo, 31)
    assert counted.plays == before + 1


def test_a_run_that_would_fill_the_memo_is_not_kept() -> None:
    memo = Memo(8000)
    played(memo, 10)
    assert (len(memo), memo.held_bytes) == (0, 0)
    memo = Memo(9000)
    played(memo, 10)
    assert len(memo) == 1


def test_the_limit_counts_about_the_bytes_that_are_held() -> None:
    memo = Memo(10**9)
    tracemalloc.start()
    try:
        for count in range(100, 130):
            played(memo, count)
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        memo._kept.clear()
        gc.collect()
        freed = before - tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert memo.held_bytes / 2 < freed < 2 * memo.held_bytes


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
    gc.collect()
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
    with pytest.raises(ValueError, match="inside"), collect_later():
        raise ValueError("inside")
    assert gc.isenabled()
    gc.disable()
    try:
        device.launch(Doubled, x, x)
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_what_is_known_is_described_once(monkeypatch: pytest.MonkeyPatch) -> None:
    told, dealt = [], []
    tell, blocks = memos._tell, Groups.blocks
    monkeypatch.setattr(memos, "_tell", lambda *given: told.append(1) or tell(*given))
    monkeypatch.setattr(Groups, "blocks", lambda *given: dealt.append(1) or blocks(*given))
    device = Device(CHIP)
    given = (TensorSpec((700, 64), "float16"), TensorSpec((5, 64, 256), "float16"))
    task = TaskSpec("GroupedMatmul", (*given, None, None, None, None, None,
                    TensorSpec((5,), "int64")), (TensorSpec((700, 256), "float16"),),
                    {"split_item": 3, "group_type": 0})  # fmt: skip
    kept, runs = Memo(), []
    for _ in range(2):
        runs.append(run_tasks(kernels_of(device.profile, task), device.profile, memo=kept))
        assert bool(told) is bool(dealt) is (len(runs) == 1)
        told.clear()
        dealt.clear()
    assert runs[0].duration_us == runs[1].duration_us
