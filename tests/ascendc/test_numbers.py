"""What the intrinsics compute: arithmetic, reductions, sums in global memory."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any

import numpy as np
import pytest

from npusim.ascendc import CmpMode, Core, LocalTensor, TBuf, TPosition, TQue
from npusim.ascendc.folds import SUM
from npusim.ascendc.intrinsics.elementwise import BY_HARDWARE_NAME
from npusim.hardware import load_profile
from npusim.values.dtypes import FLOAT, FLOAT16, INT32, UINT8, dtype
from npusim.values.errors import KernelError, UnsupportedIntrinsicError
from support.kernels import content, gm, instructions, names, queues, run, scratch

Array = np.ndarray[Any, Any]
Step = Callable[[Core, LocalTensor, LocalTensor, LocalTensor], Any]

GENERATOR = np.random.default_rng(3)
A = GENERATOR.uniform(0.1, 4.0, (3, 40)).astype(np.float32)
B = GENERATOR.uniform(-4.0, 4.0, (3, 40)).astype(np.float32)


def apply(step: Step, a: Array = A, b: Array = B, *, chip: str = "Ascend910B3") -> Array:
    """dst after one step on two loaded tiles."""
    x, y, out = gm(a.copy()), gm(b.copy(), "y"), gm(np.zeros_like(a), "out")

    def body(core: Core) -> None:
        kind = dtype(a.dtype)
        into = TQue(TPosition.VECIN, 2, "in")
        result = TQue(TPosition.VECOUT, 1, "out")
        core.pipe.init_buffer(into, 2, 8192)
        core.pipe.init_buffer(result, 1, 8192)
        index = (slice(None),) * a.ndim
        left = into.copy_in(x[index])
        right = into.copy_in(y[(slice(None),) * b.ndim])
        dst = result.alloc_tensor(kind, *a.shape)
        step(core, dst, left, right)
        into.free_tensor(left)
        into.free_tensor(right)
        result.copy_out(out[index], dst)

    run(body, x, y, out, chip=chip)
    np.testing.assert_array_equal(content(x), a)
    return content(out)


BINARY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "max": np.maximum,
    "min": np.minimum,
}
ON_A2 = {"add_relu": lambda a, b: np.maximum(a + b, 0)}  # the first generation lacks it
WITH_NUMBER = {
    "adds": np.add,
    "muls": np.multiply,
    "maxs": np.maximum,
    "mins": np.minimum,
    "leaky_relu": lambda a, slope: np.where(a >= 0, a, a * slope),
}
# What the target holds before counts: here half of b.
UPDATES = {
    "fused_mul_add": lambda a, b, before: a * before + b,
    "fused_mul_add_relu": lambda a, b, before: np.maximum(a * before + b, 0),
    "mul_add_dst": lambda a, b, before: before + a * b,
}
SHIFTS = {"shift_left": np.left_shift, "shift_right": np.right_shift}
UNARY = {
    "abs": np.abs,
    "exp": np.exp,
    "ln": np.log,
    "sqrt": np.sqrt,
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "reciprocal": lambda a: 1 / a,
    "relu": lambda a: np.maximum(a, 0),
    "copy": lambda a: a,
}


@pytest.mark.parametrize("chip", ["Ascend910A", "Ascend910B3", "Ascend310P3"])
@pytest.mark.parametrize("name", BINARY)
def test_two_tiles(name: str, chip: str) -> None:
    got = apply(lambda core, dst, a, b: getattr(core, name)(dst, a, b), chip=chip)
    np.testing.assert_array_equal(got, BINARY[name](A, B))


@pytest.mark.parametrize("name", ON_A2)
def test_two_tiles_at_once(name: str) -> None:
    got = apply(lambda core, dst, a, b: getattr(core, name)(dst, a, b))
    np.testing.assert_array_equal(got, ON_A2[name](A, B))


@pytest.mark.parametrize("name", WITH_NUMBER)
def test_a_tile_and_a_number(name: str) -> None:
    got = apply(lambda core, dst, a, _: getattr(core, name)(dst, a, 0.7))
    np.testing.assert_array_equal(got, WITH_NUMBER[name](A, np.float32(0.7)))


@pytest.mark.parametrize("name", UPDATES)
def test_what_the_target_holds_takes_part(name: str) -> None:
    def step(core: Core, dst: LocalTensor, a: LocalTensor, b: LocalTensor) -> None:
        core.muls(dst, b, 0.5)
        getattr(core, name)(dst, a, b)

    want = UPDATES[name](A, B, B * np.float32(0.5))
    np.testing.assert_allclose(apply(step), want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", SHIFTS)
@pytest.mark.parametrize("kind", [np.int16, np.int32])
def test_shifts_of_whole_numbers(name: str, kind: type[Any]) -> None:
    a = GENERATOR.integers(-1000, 1000, (3, 48)).astype(kind)
    got = apply(lambda core, dst, x, _: getattr(core, name)(dst, x, 3), a, a)
    np.testing.assert_array_equal(got, SHIFTS[name](a, kind(3)))


@pytest.mark.parametrize("chip", ["Ascend910A", "Ascend910B3", "Ascend310P3"])
def test_axpy_adds_a_multiple_to_what_the_target_holds(chip: str) -> None:
    def step(core: Core, dst: LocalTensor, a: LocalTensor, b: LocalTensor) -> None:
        core.adds(dst, b, 0.0)
        core.axpy(dst, a, 0.7)

    np.testing.assert_array_equal(apply(step, chip=chip), B + A * np.float32(0.7))


def test_axpy_has_its_own_price_and_refuses_what_the_chip_lacks() -> None:
    def body(core: Core) -> None:
        tile = TBuf("tile")
        core.pipe.init_buffer(tile, 1, 8192)
        for kind in (FLOAT, FLOAT16, INT32):
            filled = core.duplicate(tile.get(kind, 256, part=kind), 1.0)
            core.axpy(filled, filled, 2.0)

    with pytest.raises(UnsupportedIntrinsicError, match=r"vaxpy .*int32"):
        run(body)


def test_every_row_of_the_table_is_compared_with_an_oracle_here() -> None:
    tested = {*BINARY, *ON_A2, *WITH_NUMBER, *UPDATES, *SHIFTS, *UNARY, *LONG, *BITS, "axpy"} - {
        "copy"
    }
    assert {row.__name__ for row in BY_HARDWARE_NAME.values()} == tested
    for row in BY_HARDWARE_NAME.values():
        assert row.hardware_name in str(row.__doc__)


LONG = {"add64": np.add, "sub64": np.subtract, "max64": np.maximum, "min64": np.minimum}


BITS = {"bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_not": lambda a, _: ~a}


@pytest.mark.parametrize("chip", ["Ascend910A", "Ascend910B3", "Ascend310P3"])
@pytest.mark.parametrize("kind", [np.int8, np.int16, np.int32, np.int64])
@pytest.mark.parametrize("name", BITS)
def test_bits_go_through_instructions_for_words_of_16(name: str, kind: Any, chip: str) -> None:
    a, b = (A * 30).astype(kind), (B * 30).astype(kind)

    def step(core: Core, dst: LocalTensor, a: LocalTensor, b: LocalTensor) -> None:
        getattr(core, name)(dst, a, *(() if name == "bitwise_not" else (b,)))

    np.testing.assert_array_equal(apply(step, a, b, chip=chip), BITS[name](a, b))


@pytest.mark.parametrize("name", LONG)
def test_two_tiles_of_64_bits_where_the_compiler_has_instructions_for_them(name: str) -> None:
    a, b = (A * 1e12).astype(np.int64), (B * 1e12).astype(np.int64)

    def step(core: Core, dst: LocalTensor, a: LocalTensor, b: LocalTensor) -> None:
        getattr(core, name)(dst, a, b)

    np.testing.assert_array_equal(apply(step, a, b), LONG[name](a, b))
    with pytest.raises(UnsupportedIntrinsicError, match=f"v{name} .*int64"):
        apply(step, a, b, chip="Ascend910A")


@pytest.mark.parametrize("name", UNARY)
def test_one_tile(name: str) -> None:
    half = A.astype(np.float16)  # vrelu takes float16 alone
    source, fits = (half, 2e-3) if name == "relu" else (A, 1e-6)
    got = apply(lambda core, dst, a, _: getattr(core, name)(dst, a), source, B.astype(source.dtype))
    np.testing.assert_allclose(got, UNARY[name](source), rtol=fits)


def test_a_number_from_the_scalar_unit() -> None:
    def step(core: Core, dst: LocalTensor, a: LocalTensor, b: LocalTensor) -> None:
        first = core.get_value(a[0])
        factor = (2.0 * first - core.get_value(b[0])) / 4.0 + 1.0
        core.muls(dst, a, -factor)

    factor = -((np.float32(2) * A[0, 0] - B[0, 0]) / np.float32(4) + np.float32(1))
    np.testing.assert_allclose(apply(step), A * factor, rtol=1e-6)


@pytest.mark.parametrize(
    "shape", [(3, 40), (1, 40), (3, 1), (1, 1)], ids=["tile", "row", "column", "one"]
)
def test_rows_and_columns_are_repeated(shape: tuple[int, int]) -> None:
    b = B[: shape[0], : shape[1]].copy()
    got = apply(lambda core, dst, a, other: core.mul(dst, a, other), A, b)
    np.testing.assert_array_equal(got, A * b)


def test_a_column_of_numbers_becomes_a_column() -> None:
    b = B[:, 0].copy()
    got = apply(lambda core, dst, a, v: core.mul(dst, a, core.broadcast_column(v)), A, b)
    np.testing.assert_array_equal(got, A * b[:, None])


def test_shapes_that_dont_fit_are_refused() -> None:
    with pytest.raises(KernelError, match=r"vadd on shapes \(3, 40\), \(3, 40\), \(3, 20\)"):
        apply(lambda core, dst, a, b: core.add(dst, a, b), A, B[:, :20].copy())


@pytest.mark.parametrize("mode", CmpMode)
def test_comparing_and_selecting(mode: CmpMode) -> None:
    compare = {
        CmpMode.LT: np.less,
        CmpMode.GT: np.greater,
        CmpMode.EQ: np.equal,
        CmpMode.LE: np.less_equal,
        CmpMode.GE: np.greater_equal,
        CmpMode.NE: np.not_equal,
    }
    b = B.copy()
    b[0, :10] = A[0, :10]
    b[2, 7] = np.nan

    def step(core: Core, dst: LocalTensor, a: LocalTensor, other: LocalTensor) -> None:
        buffer = TBuf("mask")
        core.pipe.init_buffer(buffer, 1, 256)
        mask = core.compare(buffer.get(UINT8, *dst.shape), a, other, mode)
        core.select(dst, mask, a, other)

    np.testing.assert_array_equal(apply(step, A, b), np.where(compare[mode](A, b), A, b))


def test_dividing_by_zero_is_no_error() -> None:
    zero = np.zeros_like(A)
    assert np.isinf(apply(lambda core, dst, a, b: core.div(dst, a, b), A, zero)).all()
    assert np.isnan(apply(lambda core, dst, _, b: core.div(dst, b, b), A, zero)).all()


# -- reductions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "function"),
    [("reduce_sum", np.sum), ("reduce_max", np.max), ("reduce_min", np.min)],
)
@pytest.mark.parametrize("chip", ["Ascend910A", "Ascend910B3", "Ascend310P3"])
@pytest.mark.parametrize("elements", [1, 7, 64, 65, 1000])
def test_reductions(name: str, function: Callable[..., Any], chip: str, elements: int) -> None:
    values = GENERATOR.integers(-50, 50, (4, elements)).astype(np.float32)
    x, y = gm(values), gm(np.zeros(4, np.float32), "y")

    def body(core: Core) -> None:
        into, out = TQue(TPosition.VECIN, 1, "in"), TQue(TPosition.VECOUT, 1, "out")
        core.pipe.init_buffer(into, 1, 20_000)
        core.pipe.init_buffer(out, 1, 32)
        loaded = into.copy_in(x[:, :])
        result = getattr(core, name)(out.alloc_tensor(FLOAT, 4), loaded)
        into.free_tensor(loaded)
        out.copy_out(y[:], result)

    run(body, x, y, chip=chip)
    np.testing.assert_array_equal(content(y), function(values, axis=1))


def test_a_sum_is_halves_and_one_final_reduction() -> None:
    def body(core: Core) -> None:
        buffer, result = TBuf("t"), TBuf("sum")
        core.pipe.init_buffer(buffer, 1, 4096)
        core.pipe.init_buffer(result, 1, 32)
        core.reduce_sum(result.get(FLOAT, 1), core.duplicate(buffer.get(FLOAT, 1000), 1.0))

    found = run(body)
    lanes = load_profile("Ascend910B3").vector.repeat_bytes // 4
    halves = 0
    length = 1000
    while length > lanes:
        length, halves = ceil(length / 2), halves + 1
    assert names(found) == ["vector_dup", *["vadd"] * halves, "vcadd"]


def test_rows_fold_into_one() -> None:
    values = GENERATOR.integers(-50, 50, (7, 24)).astype(np.float32)
    x, y = gm(values), gm(np.zeros(24, np.float32), "y")

    def body(core: Core) -> None:
        into, out = TQue(TPosition.VECIN, 1, "in"), TQue(TPosition.VECOUT, 1, "out")
        core.pipe.init_buffer(into, 1, 7 * 96)
        core.pipe.init_buffer(out, 1, 96)
        loaded = into.copy_in(x[:, :])
        result = core.fold_rows(out.alloc_tensor(FLOAT, 24), loaded)
        into.free_tensor(loaded)
        out.copy_out(y[:], result)

    groups = run(body, x, y)
    np.testing.assert_array_equal(content(y), values.sum(axis=0))
    assert names(groups).count("vadd") == 3  # 7 rows, 4, 2, 1


def test_a_reduction_into_the_wrong_shape_is_refused() -> None:
    with pytest.raises(KernelError, match=r"vcadd from shape \(3, 40\) into \(3, 40\)"):
        apply(lambda core, dst, a, _: core.reduce_sum(dst, a))


# -- atomic adds -----------------------------------------------------------------------------------


def numbers(*shape: int) -> Array:
    return (np.arange(np.prod(shape), dtype=np.float32) + 1).reshape(shape)


def accumulated(place: Callable[[Any], Any], blocks: int) -> Array:
    """Ten rows added to rows of y, by several cores that all do the same."""
    x, y = gm(numbers(10, 8)), gm(np.zeros((10, 8), np.float32), "y")

    def body(core: Core) -> None:
        into = TQue(TPosition.VECIN, 2, "in")
        core.pipe.init_buffer(into, 2, 32)
        core.set_atomic_add(blocks)
        for i in core.loop(10):
            row = into.copy_in(x[i])
            core.copy_runs(y[place(i)], row)
            into.free_tensor(row)
        core.set_atomic_none()

    run(body, x, y, blocks=blocks)
    return content(y)


@pytest.mark.parametrize("blocks", [1, 3])
def test_sums_that_meet_all_count(blocks: int) -> None:
    x = numbers(10, 8)
    for place, index in (
        (lambda i: i, np.arange(10)),
        (lambda i: i // 3, np.arange(10) // 3),
        (lambda i: i % 4, np.arange(10) % 4),
        (lambda _: 2, np.full(10, 2)),
    ):
        want = np.zeros_like(x)
        np.add.at(want, index, x)
        np.testing.assert_array_equal(accumulated(place, blocks), blocks * want)


@pytest.mark.parametrize("step", [8, 6, 5])
@pytest.mark.parametrize("length", [16, 15])
@pytest.mark.parametrize("size", [64, 65])
def test_windows_that_overlap_all_count(step: int, length: int, size: int) -> None:
    """To the bit, in their order, whether or not all begin and end at an even place."""
    rows = np.random.default_rng(0).standard_normal((6, length), dtype=np.float32)
    x, y = gm(rows), gm(np.zeros(size, np.float32), "y")

    def body(core: Core) -> None:
        into = TQue(TPosition.VECIN, 2, "in")
        core.pipe.init_buffer(into, 2, 64)
        core.set_atomic_add()
        for i in core.loop(6):
            row = into.copy_in(x[i])
            core.copy_runs(y.span(i * step, length), row)
            into.free_tensor(row)
        core.set_atomic_none()

    run(body, x, y)
    want = np.zeros(size, np.float32)
    for i, row in enumerate(rows):
        want[step * i : step * i + length] += row
    np.testing.assert_array_equal(content(y), want)


def test_sums_at_computed_places_all_count() -> None:
    x, y = gm(numbers(6, 8)), gm(np.zeros((6, 8), np.float32), "y")
    places = gm(np.float32([4, 0, 4, 4, 2, 0]), "places")

    def body(core: Core) -> None:
        into = TQue(TPosition.VECIN, 2, "in")
        core.pipe.init_buffer(into, 2, 32)
        core.set_atomic_add()
        for i in core.loop(6):
            place = core.load_scalar(places.span(i, 1))
            row = into.copy_in(x[i])
            core.copy_runs(y[place], row)
            into.free_tensor(row)
        core.set_atomic_none()

    run(body, x, y, places)
    want = np.zeros((6, 8), np.float32)
    np.add.at(want, content(places).astype(int), content(x))
    np.testing.assert_array_equal(content(y), want)


def test_adding_costs_more_than_storing_and_meeting_costs_more_still() -> None:
    def store(sharers: int) -> tuple[float, float, float]:
        def body(core: Core) -> None:
            buffer = TBuf("t")
            core.pipe.init_buffer(buffer, 1, 4096)
            if sharers:
                core.set_atomic_add(sharers)
            y = gm(np.zeros(1024, np.float32), "y")
            core.copy_runs(y[:], core.duplicate(buffer.get(FLOAT, 1024), 1.0))
            core.set_atomic_none()

        (found,) = [i for i, _ in instructions(run(body)) if i.transfer is not None]
        assert found.transfer is not None
        assert found.transfer.payload_bytes == 4096
        assert found.transfer.atomic is bool(sharers)
        return found.cycles, found.transfer.traffic_bytes, found.transfer.rate_fraction

    memory = load_profile("Ascend910B3").memory
    plain, alone, shared = store(0), store(1), store(5)
    assert plain[1:] == (4096, 1.0)
    assert alone == (plain[0], 4096, memory.atomic_rate_fraction)
    assert shared[0] - alone[0] == pytest.approx(4 * memory.atomic_conflict_cycles)


# -- strided tiles ---------------------------------------------------------------------------------


def test_a_tile_can_be_read_across() -> None:
    values = numbers(24, 16)
    x, y = gm(values), gm(np.zeros((16, 24), np.float32), "y")

    def body(core: Core) -> None:
        into, out = TQue(TPosition.VECIN, 1, "in"), TQue(TPosition.VECOUT, 1, "out")
        core.pipe.init_buffer(into, 1, 24 * 16 * 4)
        core.pipe.init_buffer(out, 1, 24 * 16 * 4)
        across = x.window(((0, 1),), (16, 24), (1, 16))
        loaded = into.copy_in(across, (16, 24))
        tile = core.move(out.alloc_tensor(FLOAT, 16, 24), loaded)
        into.free_tensor(loaded)
        out.copy_out(y[:, :], tile)

    run(body, x, y)
    np.testing.assert_array_equal(content(y), values.T)


def test_single_elements_of_a_tile() -> None:
    def step(core: Core, dst: LocalTensor, a: LocalTensor, b: LocalTensor) -> None:
        core.copy(dst, a)
        core.set_value(dst[1], 3, core.get_value(b[2], 5))
        core.set_value(dst[0], 0, 9.0)

    want = A.copy()
    want[1, 3], want[0, 0] = B[2, 5], 9.0
    np.testing.assert_array_equal(apply(step), want)


def test_half_types_compute_in_their_own_precision() -> None:
    a, b = A.astype(np.float16), B.astype(np.float16)
    got = apply(lambda core, dst, x, y: core.mul(dst, x, y), a, b)
    assert got.dtype == np.float16
    np.testing.assert_array_equal(got, a * b)
    assert FLOAT16.itemsize == 2


def running_sums(total: int, tile: int, *, at_once: bool) -> tuple[list[str], Array]:
    """What 17 columns of many rows are added up with, and their sums."""
    x = gm(np.random.default_rng(total).standard_normal((total, 17)).astype(np.float32))
    out = gm(np.zeros(17, np.float32), "out")

    def body(core: Core) -> None:
        into, results = queues(core, tile * 24)
        sums = core.duplicate(results.alloc_tensor(FLOAT, 17), 0.0)
        for first, rows in core.tiles(0, total, tile, accumulates=at_once, sequential=not at_once):
            loaded = into.copy_in(x.window(((first, 17),), (rows, 17), (17, 1)))
            core.accumulate(SUM, sums, core.fold_rows(scratch(core, FLOAT, 17), loaded))
            into.free_tensor(loaded)
        results.copy_out(out[:], sums)

    return names(run(body, x, out)), content(out)


@pytest.mark.parametrize(("total", "tile"), [(1, 4), (7, 3), (1001, 13)])
def test_iterations_that_are_there_at_once_add_up_as_those_one_by_one(
    total: int, tile: int
) -> None:
    one_by_one = running_sums(total, tile, at_once=False)
    at_once = running_sums(total, tile, at_once=True)
    assert at_once[0] == one_by_one[0]
    assert at_once[1].tobytes() == one_by_one[1].tobytes()


def test_what_is_accumulated_has_the_shape_of_its_parts() -> None:
    def body(core: Core) -> None:
        sums = core.duplicate(scratch(core, FLOAT, 17), 0.0)
        for _ in core.loop(3, accumulates=True):
            core.accumulate(SUM, sums, core.duplicate(scratch(core, FLOAT, 16), 1.0))

    with pytest.raises(KernelError, match="accumulated in"):
        run(body)
