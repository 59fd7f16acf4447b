"""The kernel language: one body for many tiles, queues, and the chip's rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim.dialect import Core, GlobalTensor, LocalTensor, TBuf, TPosition, TQue, TQueBind
from npusim.engine import L2State, Pipe, machine_of, simulate
from npusim.hardware import load_profile
from npusim.values.dtypes import BFLOAT16, FLOAT, FLOAT16, INT32, DType
from npusim.values.errors import (
    AlignmentError,
    BufferOverflowError,
    DeadlockError,
    KernelError,
    UnsupportedIntrinsicError,
)
from support.kernels import content, gm, instructions, names, run, timed
from support.physics import with_ub

if TYPE_CHECKING:
    from collections.abc import Callable

Array = np.ndarray[Any, Any]
FEW = settings(max_examples=30, deadline=None)


def numbers(*shape: int) -> Array:
    """Whole numbers from one on, in float32."""
    return (np.arange(np.prod(shape), dtype=np.float32) + 1).reshape(shape)


def queues(core: Core, elements: int, *, depth: int = 2, kind: DType = FLOAT) -> tuple[TQue, TQue]:
    """A queue in and a queue out, with slots of ``elements``."""
    into, out = TQue(TPosition.VECIN, depth, "in"), TQue(TPosition.VECOUT, depth, "out")
    for queue in (into, out):
        core.pipe.init_buffer(queue, depth, elements * kind.itemsize)
    return into, out


def doubling(x: GlobalTensor, y: GlobalTensor, tile: int) -> Callable[[Core], None]:
    """y = 2 x, tile by tile."""

    def body(core: Core) -> None:
        into, out = queues(core, tile)
        for first, length in core.tiles(0, x.numel, tile):
            loaded = into.copy_in(x.span(first, length))
            result = core.muls(out.alloc_tensor(FLOAT, length), loaded, 2.0)
            into.free_tensor(loaded)
            out.copy_out(y.span(first, length), result)

    return body


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
        into, out = queues(core, 8)
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
    with pytest.raises(KernelError, match="shared by all iterations of a loop") as error:
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


def test_a_queue_that_nobody_frees_blocks_for_ever() -> None:
    x = gm(numbers(8, 64))

    def body(core: Core) -> None:
        into, _ = queues(core, 64)
        for i in core.loop(8):
            into.copy_in(x[i])

    groups = run(body, x)
    profile = load_profile("Ascend910B3")
    with pytest.raises(DeadlockError, match="waits for a flag that nobody sets"):
        simulate(groups, machine_of(profile, 1), L2State(profile.memory.l2_bytes))


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


# -- what the chip refuses -------------------------------------------------------------------------


@pytest.mark.parametrize("chip", ["Ascend910A", "Ascend910B3", "Ascend310P3"])
def test_ub_overflow_names_kernel_buffer_need_and_capacity(chip: str) -> None:
    capacity = load_profile(chip).buffers.ub_bytes

    def body(core: Core) -> None:
        core.pipe.init_buffer(TQue(TPosition.VECIN, 2, "half"), 1, capacity // 2)
        core.pipe.init_buffer(TQue(TPosition.VECOUT, 2, "too_much"), 2, capacity // 4 + 1)

    with pytest.raises(BufferOverflowError) as error:
        run(body, chip=chip)
    need = capacity // 2 + 2 * (capacity // 4 + 32)
    assert (error.value.need_bytes, error.value.capacity_bytes) == (need, capacity)
    for part in ("kernel Probe", "UB", "too_much", str(need), str(capacity)):
        assert part in error.value.message
    assert "smaller tiles" in error.value.remedy


def test_a_tensor_larger_than_its_slot_overflows() -> None:
    def body(core: Core) -> None:
        scratch = TBuf("scratch")
        core.pipe.init_buffer(scratch, 1, 100)
        assert scratch.get(FLOAT, 32).numel == 32  # 100 bytes are four blocks of 32
        scratch.get(FLOAT, 3, 9)  # three rows, each padded to two blocks

    with pytest.raises(BufferOverflowError, match=r"a tensor \(3, 9\) in scratch needs 192 bytes"):
        run(body)


def test_a_smaller_chip_overflows_earlier() -> None:
    x, y = gm(numbers(8192)), gm(np.zeros(8192, np.float32), "y")
    run(doubling(x, y, 4096), x, y)
    with pytest.raises(BufferOverflowError, match="needs 65536 bytes, the chip has 65535"):
        run(doubling(x, y, 4096), x, y, chip=with_ub("Ascend910B3", 65535))


def test_buffers_come_back_with_reset() -> None:
    def body(core: Core) -> None:
        for _ in range(10):
            core.pipe.init_buffer(TBuf("large"), 1, 150_000)
            core.pipe.reset()

    run(body)


def scratch(core: Core, kind: DType, *shape: int, name: str = "t") -> LocalTensor:
    """A tensor in a buffer of its own."""
    buffer = TBuf(name)
    core.pipe.init_buffer(buffer, 1, int(np.prod(shape)) * kind.itemsize + 512)
    return buffer.get(kind, *shape)


@pytest.mark.parametrize("chip", ["Ascend910A", "Ascend910B3", "Ascend310P3"])
def test_no_vector_unit_adds_bfloat16(chip: str) -> None:
    def body(core: Core) -> None:
        tile = scratch(core, BFLOAT16, 64)
        core.add(tile, tile, tile)

    with pytest.raises(UnsupportedIntrinsicError) as error:
        run(body, chip=chip)
    assert error.value.intrinsic == "vadd"
    assert "float32" in error.value.allowed
    for part in ("kernel Probe", "vadd doesn't take bfloat16", chip):
        assert part in error.value.message


def test_the_first_generation_knows_no_bfloat16_at_all() -> None:
    def body(core: Core) -> None:
        core.cast(scratch(core, FLOAT, 64), scratch(core, BFLOAT16, 64, name="half"))

    run(body, chip="Ascend910B3")
    for chip in ("Ascend910A", "Ascend310P3"):
        with pytest.raises(UnsupportedIntrinsicError, match="bfloat16->float32"):
            run(body, chip=chip)


def test_an_intrinsic_that_is_missing_is_composed_of_others() -> None:
    """Ascend910A has no vmaxs: a fill and vmax give the same numbers and take longer."""
    x = gm(numbers(64) - 32)

    def body(core: Core) -> None:
        into, out = queues(core, 64, depth=1)
        loaded = into.copy_in(x[:])
        result = core.maxs(out.alloc_tensor(FLOAT, 64), loaded, 3.0)
        core.mins(result, result, 20.0)
        into.free_tensor(loaded)
        out.copy_out(x[:], result)

    assert "vmaxs" in names(run(body, x, chip="Ascend910B3"))
    np.testing.assert_array_equal(content(x), np.clip(numbers(64) - 32, 3, 20))
    x = gm(numbers(64) - 32)
    found = names(run(body, x, chip="Ascend910A"))
    fills = [name for name in found if name.startswith("v")]
    assert fills == ["vector_dup", "vmax", "vector_dup", "vmin"]
    np.testing.assert_array_equal(content(x), np.clip(numbers(64) - 32, 3, 20))


# -- copies ----------------------------------------------------------------------------------------


def copying(way: str, start: int, length: int) -> Callable[[Core], None]:
    """Copies part of 100 numbers into a tile; ``way`` is the copy used."""
    x = gm(numbers(100))

    def body(core: Core) -> None:
        into, _ = queues(core, 128)
        tile = into.alloc_tensor(FLOAT, length)
        getattr(core, way)(tile, x.span(start, length))

    return body


@pytest.mark.parametrize(("start", "length"), [(0, 8), (3, 8), (0, 96), (97, 3), (4, 96)])
def test_whole_blocks_and_the_end_of_a_tensor_can_be_copied(start: int, length: int) -> None:
    run(copying("data_copy", start, length), chip="Ascend910A")


def test_a_part_of_a_block_cant_be_copied() -> None:
    with pytest.raises(AlignmentError) as error:
        run(copying("data_copy", 0, 3), chip="Ascend910A")
    assert (error.value.value_bytes, error.value.alignment_bytes) == (12, 32)
    assert "data_copy of x" in error.value.message
    assert "data_copy_pad" in error.value.remedy


def test_only_some_chips_can_pad() -> None:
    run(copying("data_copy_pad", 0, 3), chip="Ascend910B3")
    for chip in ("Ascend910A", "Ascend310P3"):
        with pytest.raises(UnsupportedIntrinsicError, match="data_move_pad") as error:
            run(copying("data_copy_pad", 0, 3), chip=chip)
        assert "whole blocks" in error.value.remedy
        run(copying("copy_runs", 0, 3), chip=chip)


def test_a_slice_of_a_tile_starts_at_a_block() -> None:
    def body(core: Core, start: int) -> None:
        tile = scratch(core, FLOAT, 64)
        core.muls(tile[start:], tile[start:], 2.0)

    run(lambda core: body(core, 8))
    with pytest.raises(AlignmentError, match="start of a slice of t is 12 bytes"):
        run(lambda core: body(core, 3))


def test_copies_need_equal_sizes_and_dtypes() -> None:
    x = gm(numbers(64))

    def body(core: Core, kind: DType, length: int) -> None:
        core.copy_runs(scratch(core, kind, length), x[:])

    for kind, length in ((FLOAT, 63), (FLOAT16, 64), (INT32, 64)):
        with pytest.raises(KernelError, match=r"copy between t .* and x"):
            run(lambda core, kind=kind, length=length: body(core, kind, length))


def test_short_runs_pay_for_whole_granules() -> None:
    """Ten runs of four bytes cost ten bursts, and ten granules on the bus."""
    x, dense = gm(numbers(10, 64)), gm(numbers(640), "dense")

    def loading(source: Any) -> tuple[float, float]:
        def body(core: Core) -> None:
            core.copy_runs(scratch(core, FLOAT, *source.shape), source)

        (found,) = [i for i, _ in instructions(run(body))]
        assert found.transfer is not None
        return found.cycles, found.transfer.traffic_bytes

    path = load_profile("Ascend910B3").paths.gm_to_ub
    short, long = loading(x[:, 0:1]), loading(dense[0:10])
    assert short[1] == 10 * path.granule_bytes
    assert long[1] == -(-40 // path.granule_bytes) * path.granule_bytes
    assert short[0] - long[0] == pytest.approx(9 * path.burst_cycles)


def test_what_is_loaded_again_is_known_to_be() -> None:
    x, y = gm(numbers(4, 64)), gm(numbers(8), "y")

    def body(core: Core) -> None:
        into, _ = queues(core, 64)
        for _ in core.loop(3):
            for i in core.loop(4):
                into.free_tensor(into.copy_in(x[i]))
            into.free_tensor(into.copy_in(y[:]))
        into.free_tensor(into.copy_in(y[:]))

    moved = [i.transfer for i, _ in instructions(run(body, x, y)) if i.transfer is not None]
    per_turn = 4 * 256 + 32
    assert [each.reuse_bytes for each in moved[:2]] == [per_turn, per_turn]
    assert moved[2].reuse_bytes is not None
    assert moved[2].reuse_bytes <= 3 * per_turn


def test_what_is_loaded_once_is_not_in_l2() -> None:
    x = gm(numbers(4, 64))

    def body(core: Core) -> None:
        into, _ = queues(core, 64)
        for i in core.loop(4):
            into.free_tensor(into.copy_in(x[i]))

    assert [i.transfer.reuse_bytes for i, _ in instructions(run(body, x)) if i.transfer] == [None]


def test_a_half_with_a_wide_home_keeps_its_numbers() -> None:
    """A chain that rounds once keeps float32 between its tasks; time is that of the half type."""
    x, y = gm(np.float16([0.1, 0.2] * 8)), gm(np.zeros(16, np.float16), "y")
    y.buffer.wide, y.buffer.data = True, np.zeros(16, np.float32)

    def body(core: Core) -> None:
        into, out = queues(core, 16, depth=1, kind=FLOAT16)
        loaded = into.copy_in(x[:])
        result = core.muls(out.alloc_tensor(FLOAT16, 16), loaded, 3.0)
        into.free_tensor(loaded)
        out.copy_out(y[:], result)

    groups = run(body, x, y)
    np.testing.assert_allclose(y.buffer.data, np.float32(content(x)) * 3, rtol=1e-7)
    (store,) = [i for i, _ in instructions(groups) if i.pipe is Pipe.MTE3]
    assert store.transfer is not None
    assert store.transfer.payload_bytes == 32
