"""What the kernel language refuses, as the chip would: sizes, dtypes, alignment; cost of copies."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import npusim
from npusim.ascendc import Core, GlobalTensor, GmBuffer, TBuf, TPosition, TQue
from npusim.engine import Pipe
from npusim.hardware import load_profile
from npusim.values.dtypes import BFLOAT16, FLOAT, FLOAT16, INT32, DType
from npusim.values.errors import (
    AlignmentError,
    BufferOverflowError,
    KernelError,
    UnsupportedIntrinsicError,
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
)
from support.physics import with_ub

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
        half = scratch(core, BFLOAT16, 64, name="half")
        core.cast(half, core.duplicate(scratch(core, FLOAT, 64, name="one"), 1.0))
        core.cast(scratch(core, FLOAT, 64), half)

    run(body, chip="Ascend910B3")
    for chip in ("Ascend910A", "Ascend310P3"):
        with pytest.raises(UnsupportedIntrinsicError, match="float32->bfloat16"):
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
        into.enque(tile)
        into.free_tensor(into.deque())

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
        tile = core.duplicate(scratch(core, FLOAT, 64), 1.0)
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
        moved = found.transfer
        assert moved is not None
        taken = moved.bus_bytes / moved.ceiling - moved.traffic_bytes / path.bytes_per_cycle
        return taken, moved.traffic_bytes

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


@pytest.mark.parametrize(("start", "strides"), [(5, (4, 1)), (0, (8, 1)), (3, (-4, 1))])
def test_no_window_reaches_beyond_its_tensor(start: int, strides: tuple[int, int]) -> None:
    buffer = GmBuffer("x", 32, np.arange(8, dtype=np.float32))
    window = GlobalTensor(buffer, FLOAT, (2, 4), start, strides)
    with pytest.raises(KernelError, match="of a tensor of 8"):
        _ = window.array


_MISTAKES: dict[str, tuple[Callable[[Any], object], str]] = {
    "a row behind the last": (lambda k: k.core.data_copy(k.tile, k.x[7]), "448 to 511"),
    "a row before the first": (lambda k: k.core.data_copy(k.tile, k.x[-1]), "-64 to -1"),
    "a span over the end": (lambda k: k.core.data_copy(k.tile, k.x.span(248, 64)), "248 to"),
    "an axis too many": (lambda k: k.x[0, 0, 0], "no axis 3"),
    "every other element": (lambda k: k.x[0, ::2], "every 2th"),
    "all of a tensor, one by one": (lambda k: list(k.x), "not iterable"),
    "all of a tile, one by one": (lambda k: list(k.tile), "not iterable"),
    "an element behind a tile": (lambda k: k.tile[64], "no part 64"),
    "a part behind a tile": (lambda k: k.tile[64:128], "no part"),
    "an axis of a number": (lambda k: k.tile[0, 0], "no part 0"),
    "every other element of a tile": (lambda k: k.tile[::2], "no part"),
    "a tile for a number": (lambda k: k.core.adds(k.tile, k.tile, k.tile), "tile, tile, tile"),
    "a number for a tile": (lambda k: k.core.add(k.tile, k.tile, 1.0), "tile, tile, number"),
    "a tensor for a tile": (lambda k: k.core.relu(k.tile, k.x), "tile, GlobalTensor"),
    "an operand that isn't there": (lambda k: k.core.add(k.tile, k.tile), r"add of \(tile, t"),
    "half a slot": (lambda k: k.core.pipe.init_buffer(TBuf("b"), 0.5, 32), "0.5 slots"),
}


@pytest.mark.parametrize("numbers", [False, True])
@pytest.mark.parametrize("mistake", _MISTAKES)
def test_a_kernel_of_ones_own_is_told_its_mistakes_with_and_without_numbers(
    mistake: str, numbers: bool
) -> None:
    work, said = _MISTAKES[mistake]

    @npusim.kernel
    def erring(core: Any, x: Any) -> None:
        queue = TQue(TPosition.VECIN, 1, "x")
        core.pipe.init_buffer(queue, 1, 256)
        tile = queue.copy_in(x.span(0, 64))
        work(SimpleNamespace(core=core, x=x, tile=tile))
        queue.free_tensor(tile)

    x: Any = np.ones((4, 64), np.float32) if numbers else npusim.TensorSpec((4, 64), "float32")
    with pytest.raises(KernelError, match=rf"kernel erring, .*{said}"):
        npusim.Device("Ascend910B3").launch(erring, x, block_dim=1)
