"""The assertions that all operators' tests rest on: each is shown to fail when it should."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from npusim import Device, TensorSpec
from npusim.ascendc import Core, Kernel
from npusim.engine.compiled import play as compiled
from npusim.ops.binary_cross_entropy_backward.kernel import BinaryCrossEntropyGrad
from npusim.runtime import task as loop
from support import digests, physics
from support.closeness import assert_close, assert_outputs_close
from support.cross_entropy import CROSS_ENTROPY, cross_entropy
from support.spying import watching

if TYPE_CHECKING:
    from npusim.engine.timeline import Played

CHIP = "Ascend910B3"
ARGUMENTS = cross_entropy(300, 70)

HUGE = TensorSpec((4_000_000,), "float32")
LARGE = {**dict.fromkeys(("gradOutput", "self", "target", "weightOptional"), HUGE), "reduction": 0}
LARGER = {
    **LARGE,
    **dict.fromkeys(
        ("gradOutput", "self", "target", "weightOptional"), TensorSpec((40_000_000,), "float32")
    ),
}

Method = Callable[..., Any]


def f32(*values: float) -> np.ndarray[Any, Any]:
    return np.array(values, np.float32)


# -- comparisons -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("got", "want"),
    [
        (f32(1.0, 2.0), f32(1.0, 2.001)),
        (f32(np.nan), f32(1.0)),
        (f32(1.0), f32(np.nan)),
        (f32(np.inf), f32(-np.inf)),
        (f32(3.4e38), f32(np.inf)),
        (f32(1.0), f32(1.0, 1.0)),
        (f32(1.0), np.float64([1.0])),
        (f32(0.0), f32(1e-4)),
    ],
)
def test_different_arrays_are_told_apart(
    got: np.ndarray[Any, Any], want: np.ndarray[Any, Any]
) -> None:
    with pytest.raises(AssertionError):
        assert_close(got, want, rtol=1e-4, atol=1e-5)


def test_close_arrays_pass() -> None:
    got = f32(1.00009, np.inf, -np.inf, np.nan, 0.0)
    assert_close(got, f32(1.0, np.inf, -np.inf, np.nan, 0.9e-5), rtol=1e-4, atol=1e-5)


def test_outputs_must_be_all_there_and_no_more() -> None:
    want = {"a": f32(1.0)}
    assert_outputs_close({"a": f32(1.0)}, want, rtol=0, atol=0)
    for got in (None, {}, {"b": f32(1.0)}, {"a": f32(1.0), "b": f32(1.0)}, {"a": f32(2.0)}):
        with pytest.raises(AssertionError):
            assert_outputs_close(got, want, rtol=0, atol=0)


# -- time ------------------------------------------------------------------------------------------


def test_a_memory_that_is_too_fast_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    physics.assert_above_roofline(CHIP, CROSS_ENTROPY, LARGE, {"vdiv": HUGE.numel})
    machine_for = loop.machine_for

    def magic(*arguments: Any, **options: Any) -> Any:
        machine = machine_for(*arguments, **options)
        return replace(machine, rates=replace(machine.rates, hbm=1e9, l2_read=1e9, l2_write=1e9))

    monkeypatch.setattr(loop, "machine_for", magic)
    with pytest.raises(AssertionError, match="faster than the chip can"):
        physics.assert_above_roofline(CHIP, CROSS_ENTROPY, LARGER)


def test_arithmetic_that_is_too_fast_is_noticed() -> None:
    with pytest.raises(AssertionError, match="the roofline is"):
        physics.assert_above_roofline(CHIP, CROSS_ENTROPY, LARGE, {"vdiv": 100 * HUGE.numel})


def fake_times(monkeypatch: pytest.MonkeyPatch, *cycles: int) -> None:
    """Estimates that take the given cycles, one after the other."""
    left = iter(cycles)

    def estimate(*_: Any, **__: Any) -> Any:
        count = next(left)
        task = SimpleNamespace(
            name="T", cycles=count, launch_us=1.0, duration_us=count / 1000 + 1.0
        )
        return SimpleNamespace(cycles=count, duration_us=count / 1000, tasks=(task,))

    monkeypatch.setattr(physics, "estimate", estimate)


def test_more_work_in_less_time_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(**options: float) -> None:
        physics.assert_larger_is_not_faster(CHIP, "op", [{}, {}, {}], **options)

    fake_times(monkeypatch, 5000, 5000, 6000)
    check()
    fake_times(monkeypatch, 5000, 6000, 5900)
    check(slack=0.02)
    fake_times(monkeypatch, 5000, 6000, 5900)
    with pytest.raises(AssertionError, match="for more elements"):
        check()


def test_double_buffering_that_costs_time_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_times(monkeypatch, 5000, 6000)
    assert physics.assert_double_buffering_helps(CHIP, "op", {}) == pytest.approx(1.2)
    fake_times(monkeypatch, 6000, 5000)
    with pytest.raises(AssertionError, match="with depth one"):
        physics.assert_double_buffering_helps(CHIP, "op", {})


def test_the_depth_of_queues_really_changes() -> None:
    class Own(Kernel):
        buffer_num = 4

    with physics.queue_depth(1):
        assert Kernel.buffer_num == Own.buffer_num == BinaryCrossEntropyGrad.buffer_num == 1
    assert (Kernel.buffer_num, Own.buffer_num) == (2, 4)
    assert physics.assert_double_buffering_helps(CHIP, CROSS_ENTROPY, LARGE) > 1.02


def test_cores_that_slow_each_other_down_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_times(monkeypatch, 9000, 5000, 5000)
    physics.assert_more_cores_help(CHIP, "op", {}, [1, 2, 4])
    for launches in (False, True):
        fake_times(monkeypatch, 9000, 5000, 6000)
        with pytest.raises(AssertionError, match="cycles on 4 cores"):
            physics.assert_more_cores_help(CHIP, "op", {}, [1, 4, 2], launches=launches)


def test_other_chips_differ_in_what_was_asked() -> None:
    one = physics.with_cores(CHIP, 1)
    assert (one.cores.vector_cores, one.cores.cube_cores) == (1, 1)
    assert physics.with_ub(CHIP, 4096).buffers.ub_bytes == 4096
    plain = physics.profile_of(CHIP)
    assert plain.cores.vector_cores > 1
    assert plain.buffers.ub_bytes > 4096


def test_a_player_that_misses_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def sloppy(*arguments: Any) -> Played:
        played = play(*arguments)
        return played._replace(
            groups=tuple(each._replace(end=each.end + 100) for each in played.groups)
        )

    play = compiled.play
    physics.assert_players_agree(CHIP, CROSS_ENTROPY, LARGE)
    monkeypatch.setattr(compiled, "play", sloppy)
    with pytest.raises(AssertionError, match="cycles compiled"):
        physics.assert_players_agree(CHIP, CROSS_ENTROPY, LARGE)


def test_time_that_depends_on_data_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def curious(self: BinaryCrossEntropyGrad, core: Core) -> None:
        if core.numerics:
            core.scalar_alu("look")
        process(self, core)

    physics.assert_time_needs_no_data(CHIP, CROSS_ENTROPY, ARGUMENTS)
    process = BinaryCrossEntropyGrad.process
    monkeypatch.setattr(BinaryCrossEntropyGrad, "process", curious)
    with pytest.raises(AssertionError):
        physics.assert_time_needs_no_data(CHIP, CROSS_ENTROPY, ARGUMENTS)


def test_another_timeline_in_another_process_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    here = [(CHIP, CROSS_ENTROPY, ARGUMENTS)]
    physics.assert_same_in_another_process(here)
    monkeypatch.setattr(digests, "digest", lambda _: "another")
    with pytest.raises(AssertionError, match="PYTHONHASHSEED"):
        physics.assert_same_in_another_process(here)


def test_a_digest_sees_every_instruction(monkeypatch: pytest.MonkeyPatch) -> None:
    def seen() -> str:
        return digests.digest(physics.estimate(CHIP, CROSS_ENTROPY, ARGUMENTS))

    assert seen() == seen()
    before, muls = seen(), Core.muls
    monkeypatch.setattr(Core, "muls", lambda self, *rest: muls(self, *rest) and muls(self, *rest))
    assert seen() != before


# -- numbers ---------------------------------------------------------------------------------------


def stored(change: Callable[[Core, Any, Any], None]) -> Method:
    """A version of the kernel's last step that does ``change`` before it stores its tile."""
    store = BinaryCrossEntropyGrad._store

    def wrong(self: BinaryCrossEntropyGrad, core: Core, tile: Any, result: Any) -> None:
        change(core, tile, result)
        store(self, core, tile, result)

    return wrong


def twice(core: Core, tile: Any, result: Any) -> None:
    core.copy_runs(tile.target, result)


def adding(core: Core, tile: Any, result: Any) -> None:
    core.set_atomic_add()
    core.copy_runs(tile.target, result)
    core.set_atomic_none()
    core.copy_runs(tile.target, result)


STORE = BinaryCrossEntropyGrad._store


def skipping(self: BinaryCrossEntropyGrad, _core: Core, _tile: Any, result: Any) -> None:
    self.y_que.free_tensor(result)


@pytest.mark.parametrize(
    ("store", "words"),
    [
        (stored(twice), "stored 2 times"),
        (stored(adding), "stores over sums"),
        (skipping, "never stored"),
    ],
)
def test_a_wrong_partition_is_noticed(
    monkeypatch: pytest.MonkeyPatch, store: Method, words: str
) -> None:
    physics.assert_written_once(CHIP, CROSS_ENTROPY, ARGUMENTS)
    monkeypatch.setattr(BinaryCrossEntropyGrad, "_store", store)
    with pytest.raises(AssertionError, match=words):
        physics.assert_written_once(CHIP, CROSS_ENTROPY, ARGUMENTS)


def test_a_loop_that_stores_to_one_place_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def again(core: Core, tile: Any, result: Any) -> None:
        for _ in core.loop(3):
            core.copy_runs(tile.target, result)

    monkeypatch.setattr(BinaryCrossEntropyGrad, "_store", stored(again))
    with pytest.raises(AssertionError, match="stored 4 times"):
        physics.assert_written_once(CHIP, CROSS_ENTROPY, ARGUMENTS)


@pytest.mark.parametrize("times", [(0, 1), (1, 0)], ids=["computed", "written down"])
def test_numbers_apart_from_the_timeline_are_noticed(
    monkeypatch: pytest.MonkeyPatch, times: tuple[int, int]
) -> None:
    def beside(core: Core, tile: Any, result: Any) -> None:
        def store(count: int) -> None:
            for _ in range(count):
                core.copy_runs(tile.target, result)

        core.separately(lambda: store(times[0]), lambda: store(times[1]))

    physics.assert_numbers_pay_for_themselves(CHIP, CROSS_ENTROPY, ARGUMENTS)
    monkeypatch.setattr(BinaryCrossEntropyGrad, "_store", stored(beside))
    with pytest.raises(AssertionError, match="the timeline has"):
        physics.assert_numbers_pay_for_themselves(CHIP, CROSS_ENTROPY, ARGUMENTS)


def test_numbers_that_depend_on_the_core_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    chips = [physics.with_cores(CHIP, count) for count in (40, 3)]

    def check() -> None:
        physics.assert_tiling_changes_no_number(chips, CROSS_ENTROPY, ARGUMENTS, rtol=1e-6, atol=0)

    def biased(self: BinaryCrossEntropyGrad, core: Core, tile: Any, result: Any) -> None:
        core.muls(result, result, 1.0 + core.get_block_idx() / 1000)
        STORE(self, core, tile, result)

    check()
    monkeypatch.setattr(BinaryCrossEntropyGrad, "_store", biased)
    with pytest.raises(AssertionError, match="differ"):
        check()


# -- the watchers ----------------------------------------------------------------------------------


def test_watching_counts_work_and_leaves_nothing_behind() -> None:
    before = (vars(Core).get("mul"), Core.__init__)
    with watching() as watches:
        Device(CHIP).run(CROSS_ENTROPY, **ARGUMENTS)
    (watch,) = watches
    elements = ARGUMENTS["self"].size
    assert watch.elements["sub"] == watch.elements["div"] == elements
    assert watch.elements["mul"] == 3 * elements
    assert watch.bytes_read == 4 * 4 * elements
    assert watch.bytes_written == 4 * elements
    assert watch.loads > watch.stores > 1
    assert before == (vars(Core).get("mul"), Core.__init__)
