"""The kernel language: one body for many tiles, queues, and the chip's rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim.ascendc import Core, Event, TPosition, TQue, TQueBind
from npusim.engine import L2State, Pipe, machine_of, simulate
from npusim.hardware import load_profile
from npusim.values.dtypes import FLOAT
from npusim.values.errors import (
    DeadlockError,
    KernelError,
)
from support.kernels import (
    content,
    doubling,
    gm,
    instructions,
    names,
    numbers,
    queues,
    run,
    scratch,
    timed,
)

if TYPE_CHECKING:
    from collections.abc import Callable

Array = np.ndarray[Any, Any]
FEW = settings(max_examples=30, deadline=None)


# -- loops: one body for many tiles ----------------------------------------------------------------


@FEW
@given(st.integers(1, 5000), st.sampled_from([8, 64, 136, 1024]))
def test_tiles_cover_everything_and_are_recorded_once(elements: int, tile: int) -> None:
    x, y = gm(numbers(elements)), gm(np.full(elements, np.nan, np.float32), "y")
    groups = run(doubling(x, y, tile), x, y)
    np.testing.assert_array_equal(content(y), 2 * numbers(elements))
    full, rest = divmod(elements, tile)
    counts = [times for instruction, times in instructions(groups) if instruction.name == "vmuls"]
    assert counts == [full] * bool(full) + [1] * bool(rest)


def test_many_more_tiles_than_fit_into_one_batch() -> None:
    """Numbers are worked on in batches that stay in the host's caches; instructions once."""
    elements = 3_000_000
    x, y = gm(numbers(elements)), gm(np.zeros(elements, np.float32), "y")
    groups = run(doubling(x, y, 1024), x, y)
    np.testing.assert_array_equal(content(y), 2 * content(x))
    assert names(groups).count("vmuls") == 2


def test_nested_loops_stack() -> None:
    a, b = gm(numbers(6, 8)), gm(numbers(5, 8), "b")
    y = gm(np.zeros((6, 5, 8), np.float32), "y")

    def body(core: Core) -> None:
        into, out = queues(core, 8)
        other = TQue(TPosition.VECIN, 1, "b")
        core.pipe.init_buffer(other, 1, 32)
        for i in core.loop(6):
            row = into.copy_in(a[i])
            for j in core.loop(5):
                column = other.copy_in(b[j])
                result = core.mul(out.alloc_tensor(FLOAT, 8), row, column)
                other.free_tensor(column)
                out.copy_out(y[i, j], result)
            into.free_tensor(row)

    groups = run(body, a, b, y)
    np.testing.assert_array_equal(content(y), content(a)[:, None] * content(b))
    assert {i.name: n for i, n in instructions(groups)}["vmul"] == 30


def test_indices_compute_addresses() -> None:
    """Affine indices move a view; quotients and remainders gather."""
    x, y = gm(numbers(40, 8)), gm(np.zeros((12, 8), np.float32), "y")

    def body(core: Core) -> None:
        into, out = queues(core, 8, depth=3)
        for i in core.loop(12):
            first = into.copy_in(x[i * 3 + 2])
            second = into.copy_in(x[i // 5])
            third = into.copy_in(x[(i + 1) % 4 * 2 + 1])
            total = core.add(out.alloc_tensor(FLOAT, 8), first, second)
            core.add(total, total, third)
            for tensor in (first, second, third):
                into.free_tensor(tensor)
            out.copy_out(y[i], total)

    run(body, x, y)
    i = np.arange(12)
    want = content(x)[3 * i + 2] + content(x)[i // 5] + content(x)[(i + 1) % 4 * 2 + 1]
    np.testing.assert_array_equal(content(y), want)


def test_a_loop_index_picks_rows_of_a_local_tensor() -> None:
    x, y = gm(numbers(6, 16)), gm(np.zeros((6, 16), np.float32), "y")

    def body(core: Core) -> None:
        into, out = queues(core, 6 * 16, depth=1)
        loaded = into.copy_in(x[:, :])
        result = out.alloc_tensor(FLOAT, 6, 16)
        for i in core.loop(5):
            core.add(result[i], loaded[i], loaded[i + 1])
        core.copy(result[5], loaded[5])
        into.free_tensor(loaded)
        out.copy_out(y[:, :], result)

    run(body, x, y)
    want = content(x).copy()
    want[:5] += content(x)[1:]
    np.testing.assert_array_equal(content(y), want)


def test_values_carried_from_turn_to_turn_need_a_sequential_loop() -> None:
    x, y = gm(numbers(9, 8)), gm(np.zeros(8, np.float32), "y")

    def summing(*, sequential: bool) -> Callable[[Core], None]:
        def body(core: Core) -> None:
            into, out = queues(core, 8)
            total = core.duplicate(out.alloc_tensor(FLOAT, 8), 0.0)
            for i in core.loop(9, sequential=sequential):
                row = into.copy_in(x[i])
                core.add(total, total, row)
                into.free_tensor(row)
            out.copy_out(y[:], total)

        return body

    run(summing(sequential=True), x, y)
    np.testing.assert_array_equal(content(y), content(x).sum(axis=0))
    with pytest.raises(KernelError, match="shared by all its iterations") as error:
        run(summing(sequential=False), x, y)
    assert "sequential" in error.value.remedy
    assert "Probe" in error.value.message


@FEW
@given(st.integers(1, 40), st.integers(1, 12))
def test_time_needs_no_numbers(tiles: int, blocks: int) -> None:
    x, y = gm(numbers(tiles * 64)), gm(np.zeros(tiles * 64, np.float32), "y")
    body = doubling(x, y, 64)
    with_numbers = run(body, x, y, blocks=blocks, alike=True)
    without = run(body, x, y, blocks=blocks, alike=True, numerics=False)
    assert repr(with_numbers) == repr(without)


# -- inputs stay what they are ---------------------------------------------------------------------


def test_working_in_place_never_reaches_global_memory() -> None:
    """A load shows the global memory until somebody writes; then it has memory of its own."""
    x, y = gm(numbers(12, 32)), gm(np.zeros((12, 32), np.float32), "y")
    before = content(x).copy()

    def body(core: Core) -> None:
        both = TQueBind(2, "both")
        core.pipe.init_buffer(both, 2, 4 * 32 * 4)
        for i in core.loop(3):
            tile = both.copy_in(x.view(3, 4, 32)[i])
            core.muls(tile[1], tile[1], 10.0)
            core.adds(tile[2:4], tile[2:4], 0.5)
            core.set_value(tile[3], 0, -1.0)
            both.copy_out(y.view(3, 4, 32)[i], tile)

    run(body, x, y)
    np.testing.assert_array_equal(content(x), before)
    want = before.reshape(3, 4, 32).copy()
    want[:, 1] *= 10
    want[:, 2:] += 0.5
    want[:, 3, 0] = -1.0
    np.testing.assert_array_equal(content(y), want.reshape(12, 32))


def test_a_store_shows_what_was_there_when_it_was_made() -> None:
    """Reusing a buffer behind a store doesn't change what the store wrote."""
    x, y = gm(numbers(16)), gm(np.zeros(32, np.float32), "y")

    def body(core: Core) -> None:
        both = TQueBind(1, "both")
        core.pipe.init_buffer(both, 1, 64)
        tile = both.copy_in(x[:])
        core.copy_runs(y.span(0, 16), tile)
        core.muls(tile, tile, 3.0)
        both.copy_out(y.span(16, 16), tile)

    run(body, x, y)
    np.testing.assert_array_equal(content(y), np.concatenate([numbers(16), 3 * numbers(16)]))


def test_a_kernel_may_overwrite_its_own_input() -> None:
    x = gm(numbers(1000))
    run(doubling(x, x, 64), x)
    np.testing.assert_array_equal(content(x), 2 * numbers(1000))


# -- queues and flags ------------------------------------------------------------------------------


def streaming(depth: int) -> Callable[[Core], None]:
    x, y = gm(numbers(64, 4096)), gm(np.zeros((64, 4096), np.float32), "y")

    def body(core: Core) -> None:
        into, out = queues(core, 4096, depth=depth)
        for i in core.loop(64):
            loaded = into.copy_in(x[i])
            result = core.exp(out.alloc_tensor(FLOAT, 4096), loaded)
            into.free_tensor(loaded)
            out.copy_out(y[i], result)

    return body


def test_deeper_queues_overlap_more() -> None:
    one, two, three = (timed(streaming(depth)).core_cycles for depth in (1, 2, 3))
    assert one > 1.2 * two
    assert two >= three


def test_an_event_that_nobody_sets_blocks_for_ever() -> None:
    x = gm(numbers(8, 64))

    def body(core: Core) -> None:
        done = Event(core, Pipe.VECTOR, Pipe.MTE2)
        into, _ = queues(core, 64)
        for i in core.loop(8):
            row = into.copy_in(x[i])
            done.wait()
            into.free_tensor(row)

    groups = run(body, x)
    profile = load_profile("Ascend910B3")
    with pytest.raises(DeadlockError, match="waits for a flag that nobody sets") as error:
        simulate(groups, machine_of(profile, 1), L2State(profile.memory.l2_bytes))
    assert error.value.kernel == "Probe"
    for part in ("MTE2 of core 0 waits for an event set by VECTOR", "test_ascendc.py:"):
        assert part in error.value.message


def test_a_scalar_decision_holds_back_what_comes_after_it() -> None:
    """A load whose address the scalar unit reads from a result waits for that result."""
    x, y = gm(numbers(64, 1024)), gm(np.zeros((64, 1024), np.float32), "y")
    table = gm(np.float32([63 - i for i in range(64)]), "table")

    def body(core: Core, *, decides: bool) -> None:
        into, out = queues(core, 1024)
        places = TQue(TPosition.VECIN, 1, "places")
        core.pipe.init_buffer(places, 1, 64 * 4)
        listed = places.copy_in(table[:])
        core.muls(listed, listed, 1.0)
        for i in core.loop(64):
            place = core.get_value(listed[i]) if decides else i
            loaded = into.copy_in(x[place])
            result = core.muls(out.alloc_tensor(FLOAT, 1024), loaded, 0.5)
            into.free_tensor(loaded)
            out.copy_out(y[i], result)
        places.free_tensor(listed)

    free = timed(lambda core: body(core, decides=False)).core_cycles
    held = timed(lambda core: body(core, decides=True)).core_cycles
    assert held > free
    run(lambda core: body(core, decides=True), x, y, table)
    np.testing.assert_array_equal(content(y), 0.5 * content(x)[::-1])


def test_the_scalar_unit_waits_for_the_result_it_reads() -> None:
    def chain(*, reads: bool) -> float:
        def body(core: Core) -> None:
            tile = scratch(core, FLOAT, 4096)
            core.duplicate(tile, 1.0)
            if reads:
                core.get_value(tile)
            core.scalar_alu("count", 100)

        groups = run(body)
        scalar = next(i for i, _ in instructions(groups) if i.name == "count")
        profile = load_profile("Ascend910B3")
        found = simulate(groups, machine_of(profile, 1), L2State(1e9))
        return next(s.start for s in found.records[0].spans() if s.instruction is scalar)

    assert chain(reads=True) > chain(reads=False)


def test_nobody_passes_sync_all_alone() -> None:
    def uneven(core: Core) -> Any:
        if core.get_block_idx() == 0:
            yield core.sync_all()

    with pytest.raises(KernelError, match=r"Probe.*blocks \[1, 2\] end while the others wait"):
        run(uneven, blocks=3)


def test_a_barrier_holds_the_quick_core_back() -> None:
    """Each of two cores is busy while the other has nothing to do: one after the other, or not."""

    def cycles(waits: bool) -> float:
        def body(core: Core) -> Any:
            for phase in range(2):
                for _ in core.loop(400 if core.get_block_idx() == phase else 1):
                    core.scalar_alu("mul")
                if waits and not phase:
                    yield core.sync_all()

        return timed(body, blocks=2).core_cycles

    assert cycles(waits=True) > 1.5 * cycles(waits=False)


def test_cores_see_each_others_results_behind_a_barrier() -> None:
    x, y = gm(numbers(4, 8)), gm(np.zeros((4, 8), np.float32), "y")
    work = gm(np.zeros((4, 8), np.float32), "work")

    def body(core: Core) -> Any:
        into, out = queues(core, 8, depth=1)
        mine = core.get_block_idx()
        row = into.copy_in(x[mine])
        result = core.muls(out.alloc_tensor(FLOAT, 8), row, 2.0)
        into.free_tensor(row)
        out.copy_out(work[mine], result)
        core.pipe.reset()
        yield core.sync_all()
        into, out = queues(core, 8, depth=1)
        theirs = into.copy_in(work[3 - mine])
        result = core.copy(out.alloc_tensor(FLOAT, 8), theirs)
        into.free_tensor(theirs)
        out.copy_out(y[mine], result)

    run(body, x, y, work, blocks=4)
    np.testing.assert_array_equal(content(y), 2 * content(x)[::-1])


def test_local_tensors_dont_survive_a_barrier() -> None:
    x = gm(numbers(8))

    def body(core: Core) -> Any:
        into, _ = queues(core, 8)
        kept = into.copy_in(x[:])
        yield core.sync_all()
        core.muls(kept, kept, 2.0)

    with pytest.raises(KernelError, match="in is used after sync_all") as error:
        run(body, x)
    assert "Allocate it again" in error.value.remedy
