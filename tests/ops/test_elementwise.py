"""Elementwise operators: numbers against NumPy on every shape that broadcasts, time from shapes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim import TensorSpec
from npusim.ascendc import trace
from npusim.hardware import load_profile
from npusim.operators.tasks import TaskSpec, kernels_of
from npusim.values.errors import KernelError
from support.tasks import BFLOAT16, CHIPS, cycles, kernels, like, run

Array = np.ndarray[Any, Any]
Binary = Callable[[Any, Any], Any]

BINARY: dict[str, Binary] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "RealDiv": np.divide,
    "Maximum": np.maximum,
    "Minimum": np.minimum,
}
COMPARE: dict[str, Binary] = {
    "Less": np.less,
    "LessEqual": np.less_equal,
    "Greater": np.greater,
    "GreaterEqual": np.greater_equal,
    "Equal": np.equal,
    "NotEqual": np.not_equal,
}
UNARY: dict[str, Callable[[Any], Any]] = {
    "Neg": np.negative,
    "Abs": np.abs,
    "Square": np.square,
    "Exp": np.exp,
    "Sign": np.sign,
    "Floor": np.floor,
    "Ceil": np.ceil,
    "Round": np.rint,
}
TURNS: dict[str, Callable[[Any], Any]] = {"Cos": np.cos, "Sin": np.sin}
MOST_ELEMENTS = 1 << 19  # 130 to the fourth would be two gigabytes
LONG: dict[str, Binary] = {name: BINARY[name] for name in ("Add", "Sub", "Maximum", "Minimum")}
POSITIVE: dict[str, Callable[[Any], Any]] = {
    "Sqrt": np.sqrt,
    "Rsqrt": lambda x: 1 / np.sqrt(x),
    "Reciprocal": lambda x: 1 / x,
    "Log": np.log,
    "Log1p": np.log1p,
}

# What networks have: a row, a column, a number, pairs spread over rows, an axis in the middle.
PAIRS = [
    ((5, 7), (5, 7)),
    ((33000,), (33000,)),
    ((), (3, 4)),
    ((9,), (1,)),
    ((6, 1), (6, 150)),
    ((12, 39, 80), (12, 39, 1)),
    ((300, 3, 2), (3, 2)),
    ((4, 20, 3, 2), (1, 20, 1, 2)),
    ((2, 3, 1, 2), (2, 1, 5, 2)),
    ((16, 20, 3, 1), (16, 1, 1, 150)),
    ((2, 16, 50, 16), (1, 16, 1, 16)),
    ((2, 5000), (2, 1)),
    ((2, 576, 17), (1, 576, 1)),
    ((100, 513), (1, 513)),
    ((40, 1, 9), (1, 50, 9)),
]


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@st.composite
def broadcasting(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two shapes that broadcast: an axis is kept, is one in one of them, or missing in front."""
    sizes = st.lists(st.sampled_from([1, 2, 3, 8, 17, 40, 130]), min_size=1, max_size=4)
    full = tuple(draw(sizes.filter(lambda each: prod(each) <= MOST_ELEMENTS)))
    shapes = []
    for _ in range(2):
        kept = [size if draw(st.booleans()) else 1 for size in full]
        missing = draw(st.integers(0, len(full) - 1)) if draw(st.booleans()) else 0
        shapes.append(tuple(kept[missing:]))
    return shapes[0], shapes[1]


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("op", BINARY)
@pytest.mark.parametrize("shapes", PAIRS, ids=str)
def test_arithmetic_broadcasts(
    chip: str, op: str, shapes: tuple[tuple[int, ...], tuple[int, ...]]
) -> None:
    a, b = numbers(*shapes[0]), numbers(*shapes[1], seed=1) + np.float32(3)
    want = np.asarray(BINARY[op](a, b))
    (got,) = run(chip, op, [a, b], [like(want)])
    np.testing.assert_allclose(got, want, rtol=1e-6)


@settings(max_examples=60, deadline=None)
@given(broadcasting(), st.sampled_from(sorted(BINARY)), st.sampled_from(CHIPS))
def test_any_shapes_that_broadcast(
    shapes: tuple[tuple[int, ...], tuple[int, ...]], op: str, chip: str
) -> None:
    a, b = numbers(*shapes[0]), numbers(*shapes[1], seed=1) + np.float32(3)
    want = np.asarray(BINARY[op](a, b))
    (got,) = run(chip, op, [a, b], [like(want)])
    np.testing.assert_allclose(got, want, rtol=1e-6)


_PRIMES = st.lists(st.sampled_from([1, 2, 3, 7, 53, 211]), min_size=2, max_size=4)


@settings(max_examples=40, deadline=None)
@given(_PRIMES, st.data(), st.sampled_from(CHIPS))
def test_blocks_that_share_ragged_axes(shape: list[int], data: st.DataObject, chip: str) -> None:
    while np.prod(shape) > 60_000:
        shape = shape[:-1]
    first, second = ([each if data.draw(st.booleans()) else 1 for each in shape] for _ in "ab")
    a, b = numbers(*first), numbers(*second, seed=1)
    want = np.maximum(a, b)
    (got,) = run(chip, "Maximum", [a, b], [like(want)])
    np.testing.assert_array_equal(got, want)


@settings(max_examples=40, deadline=None)
@given(broadcasting(), st.sampled_from(["Add", "Less", "Maximum"]), st.sampled_from(CHIPS))
def test_time_doesnt_depend_on_numbers(
    shapes: tuple[tuple[int, ...], tuple[int, ...]], op: str, chip: str
) -> None:
    a, b = numbers(*shapes[0]), numbers(*shapes[1], seed=1)
    want = np.asarray({**BINARY, **COMPARE}[op](a, b))
    outputs = [like(want)]
    assert cycles(chip, op, [a, b], outputs) == cycles(chip, op, [a, b], outputs, numerics=True)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("op", COMPARE)
@pytest.mark.parametrize("kind", [np.float32, np.float16, np.int32])
def test_comparisons(chip: str, op: str, kind: Any) -> None:
    a, b = (np.rint(numbers(7, 33, seed=seed) * 2).astype(kind) for seed in (1, 2))
    for first, second in ((a, b), (a, b[:1]), (a[:, :1], b), (a, b[0, 0].reshape(()))):
        want = COMPARE[op](first, second)
        (got,) = run(chip, op, [first, second], [like(want, bool)])
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("shape", [(), (1,), (7,), (513,), (3, 40, 77), (33000,)], ids=str)
@pytest.mark.parametrize("op", [*UNARY, *POSITIVE])
def test_functions_of_one_operand(chip: str, op: str, shape: tuple[int, ...]) -> None:
    x = numbers(*shape)
    if op in POSITIVE:
        x = np.abs(x) + np.float32(0.1)
    want = {**UNARY, **POSITIVE}[op](x.astype(np.float64))
    (got,) = run(chip, op, [x], [like(x)])
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("op", ["Add", "Mul", "Maximum"])
def test_half_types(op: str) -> None:
    for kind, chips in ((np.float16, CHIPS), (BFLOAT16, ("Ascend910B3",))):
        a, b = (numbers(20, 70, seed=seed).astype(kind) for seed in (1, 2))
        want = BINARY[op](a.astype(np.float32), b.astype(np.float32)).astype(kind)
        for chip in chips:
            (got,) = run(chip, op, [a, b], [like(a)])
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Maximum", "Minimum"])
def test_integers(chip: str, op: str) -> None:
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-999, 999, (40, 30)).astype(np.int32) for _ in "ab")
    for second in (b, b[:1], b[0, 0].reshape(())):
        (got,) = run(chip, op, [a, second], [like(a)])
        np.testing.assert_array_equal(got, BINARY[op](a, second))


@pytest.mark.parametrize("chip", CHIPS)
def test_logic_and_selection(chip: str) -> None:
    rng = np.random.default_rng(4)
    p, q = rng.random((50, 70)) < 0.5, rng.random((50, 70)) < 0.5
    assert (run(chip, "LogicalAnd", [p, q], [like(p)])[0] == (p & q)).all()
    assert (run(chip, "LogicalOr", [p, q], [like(p)])[0] == (p | q)).all()
    assert (run(chip, "LogicalNot", [p], [like(p)])[0] == ~p).all()
    for kind in (np.float32, np.float16, np.int32):
        x, y = ((numbers(50, 70, seed=seed) * 9).astype(kind) for seed in (5, 6))
        assert (run(chip, "Select", [p, x, y], [like(x)])[0] == np.where(p, x, y)).all()
    picked = run(chip, "SelectV2", [p[:1], x, y[:, :1]], [like(x)])[0]
    assert (picked == np.where(p[:1], x, y[:, :1])).all()


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("count", [1, 2, 5, 12])
def test_sums_of_many(chip: str, count: int) -> None:
    parts = [numbers(30, 40, seed=seed) for seed in range(count)]
    (got,) = run(chip, "AddN", parts, [like(parts[0])])
    np.testing.assert_allclose(got, np.sum(parts, axis=0, dtype=np.float64), atol=1e-5)


@pytest.mark.parametrize("chip", CHIPS)
def test_fused_products_and_clips(chip: str) -> None:
    a, b, c = (numbers(40, 50, seed=seed) for seed in range(3))
    low, half, top = (np.array(value, np.float32) for value in (-0.5, 0.5, 0.7))
    cases: list[tuple[str, list[Array], Array]] = [
        ("FusedMulAdd", [a, b, c], a * b + c),
        ("FusedMulAddN", [a, b, half], a * half + b),
        ("FusedMulAddAdd", [a, b, c, c], a * b + c + c),
        ("BiasAdd", [a, b[0]], a + b[0]),
        ("AssignAdd", [a, b], a + b),
        ("ClipByValue", [a, low, top], np.clip(a, low, top)),
        ("FusionOp_Mul_Neg", [a, b], -(a * b)),
        ("FusionOp_RealDiv_Neg", [a, half], -(a / half)),
    ]
    for op, inputs, want in cases:
        np.testing.assert_allclose(run(chip, op, inputs, [like(a)])[0], want, atol=1e-6)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(("base", "power"), [(1.0, 2.5), (-1.0, 2.0), (-1.0, 3.0)])
def test_powers(chip: str, base: float, power: float) -> None:
    x = (np.abs(numbers(20, 30)) + 0.1) * np.float32(base)
    (got,) = run(chip, "Pow", [x, np.array(power, np.float32)], [like(x)])
    np.testing.assert_allclose(got, x.astype(np.float64) ** power, rtol=1e-4)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("op", ["MaximumGrad", "MinimumGrad"])
def test_gradients_of_extremes_go_to_the_winner(chip: str, op: str) -> None:
    x, y, grad = (numbers(40, 50, seed=seed) for seed in range(3))
    wins = x >= y if op == "MaximumGrad" else x <= y
    first, second = run(chip, op, [grad, x, y], [like(x), like(x)])
    np.testing.assert_array_equal(first, grad * wins)
    np.testing.assert_array_equal(second, grad * ~wins)
    number = np.array(0.1, np.float32)
    wins = x >= number if op == "MaximumGrad" else x <= number
    first, total = run(chip, op, [grad, x, number], [like(x), np.zeros((), np.float32)])
    np.testing.assert_array_equal(first, grad * wins)
    np.testing.assert_allclose(total, (grad * ~wins).sum(), rtol=1e-4)
    asked = {"grad_x": True, "grad_y": False}
    outputs = [like(x), np.zeros((), np.float32)]
    first, left = run(chip, op, [grad, x, number], outputs, **asked)
    np.testing.assert_array_equal(first, grad * wins)
    assert left == 0
    with pytest.raises(KernelError, match="has to be true"):
        run(chip, op, [grad, x, y], [like(x), like(x)], grad_x=False, grad_y=False)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("kind", [np.float32, np.float16, np.int32, bool])
def test_copies_and_fills(chip: str, kind: Any) -> None:
    x = (numbers(33, 70) * 9).astype(kind)
    assert (run(chip, "TensorMove", [x], [like(x)])[0] == x).all()
    assert (run(chip, "Assign", [like(x), x], [like(x)])[0] == x).all()
    assert (run(chip, "ZerosLike", [x], [like(x)])[0] == 0).all()
    assert (run(chip, "OnesLike", [x], [like(x)])[0] == 1).all()
    assert (run(chip, "MemSet", [], [like(x)])[0] == 0).all()


@pytest.mark.parametrize("chip", CHIPS)
def test_fill_takes_its_number_from_a_tensor(chip: str) -> None:
    shape, value = np.array([3, 50], np.int64), np.array(2.5, np.float32)
    (got,) = run(chip, "Fill", [shape, value], [np.zeros((3, 50), np.float32)])
    assert (got == 2.5).all()


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 5000), st.sampled_from([np.float16, np.float32]), st.sampled_from(CHIPS))
def test_dropout_keeps_what_its_bits_say(count: int, kind: Any, chip: str) -> None:
    x = numbers(count).astype(kind)
    bits = np.random.default_rng(1).integers(0, 256, -(-count // 8)).astype(np.uint8)
    keep = np.unpackbits(bits, bitorder="little")[:count]
    (got,) = run(chip, "DropOutDoMask", [x, bits, np.array(0.5, kind)], [like(x)])
    np.testing.assert_array_equal(got, np.where(keep, x * 2, 0))


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.float16, np.float32])
def test_composed_operators(chip: str, kind: Any) -> None:
    x = numbers(40, 50)
    mask = np.random.default_rng(2).integers(0, 2, x.shape).astype(kind)
    (got,) = run(chip, "MaskedScale", [x, mask], [like(x)], scale=1.5)
    np.testing.assert_allclose(got, x * mask * 1.5, rtol=1e-6)
    (got,) = run(chip, "Exp", [x], [like(x)], base=2.0, scale=0.5, shift=0.25)
    np.testing.assert_allclose(got, 2.0 ** (0.5 * x + 0.25), rtol=1e-5)


def test_small_tensors_stay_on_few_cores() -> None:
    """Source: block counts of measured kernels, 3072 float32 elements on 6 cores of the 30."""
    profile = load_profile("Ascend910B")
    for count, blocks in ((512, 1), (640, 2), (3072, 6), (10240, 20), (16000, 30)):
        (kernel,), _ = kernels(profile, "Neg", [numbers(count)], [numbers(count)])
        assert kernel.block_dim == blocks
    x = numbers(16, 20, 20, 3)
    for op, blocks in (("Add", 16), ("Mul", 30)):
        (kernel,), _ = kernels(profile, op, [x, x], [x])
        assert kernel.block_dim == blocks


def test_a_mask_that_is_too_short_is_refused() -> None:
    x, bits = numbers(64), np.zeros(7, np.uint8)
    with pytest.raises(KernelError, match="7 bytes of mask for 64 elements"):
        run("Ascend910B3", "DropOutDoMask", [x, bits, np.array(0.5, np.float32)], [x])


def test_whole_numbers_are_divided_on_the_ai_cpu_towards_zero() -> None:
    x, y = np.array([-7, 7, 9], np.int32), np.array([2, 2, -3], np.int32)
    (found,) = run("Ascend910B3", "RealDiv", [x, y], [x])
    np.testing.assert_array_equal(found, [-3, 3, -3])


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("op", ["Add", "Less", "Exp"])
def test_more_elements_never_take_less_time(chip: str, op: str) -> None:
    inputs = 1 if op == "Exp" else 2
    times = []
    for count in (100, 5000, 100_000, 1_000_000):
        x = np.zeros(count, np.float32)
        out = np.zeros(count, bool) if op == "Less" else x
        times.append(cycles(chip, op, [x] * inputs, [out]))
    assert times == sorted(times)


@pytest.mark.parametrize("chip", CHIPS)
def test_spreading_a_column_costs_time_and_no_traffic(chip: str) -> None:
    full, column = np.zeros((4000, 80), np.float32), np.zeros((4000, 1), np.float32)
    (whole,), _ = kernels(chip, "Mul", [full, full], [full])
    (spread,), _ = kernels(chip, "Mul", [full, column], [full])
    assert sum(each.nbytes for each in spread.reads) < sum(each.nbytes for each in whole.reads)


@settings(max_examples=30, deadline=None)
@given(
    name=st.sampled_from(sorted(TURNS)),
    shape=st.sampled_from([(1,), (7, 33), (3, 1000)]),
    most=st.sampled_from([1.0, 10.0, 100.0]),
    kind=st.sampled_from([np.float16, np.float32]),
    chip=st.sampled_from(CHIPS),
)
def test_turns(name: str, shape: tuple[int, ...], most: float, kind: Any, chip: str) -> None:
    """Whole turns are taken off first, in float32; what is left goes through a short series."""
    x = (np.random.default_rng(1).uniform(-most, most, shape)).astype(kind)
    (got,) = run(chip, name, [x], [like(x)])
    want = TURNS[name](x.astype(np.float64))
    tolerance = 2e-3 if kind is np.float16 else 3e-5
    np.testing.assert_allclose(got.astype(np.float64), want, atol=tolerance)


@settings(max_examples=30, deadline=None)
@given(
    name=st.sampled_from(sorted(LONG)),
    shapes=broadcasting(),
    most=st.sampled_from([10, 2**40]),
)
def test_whole_numbers_of_64_bits(
    name: str, shapes: tuple[tuple[int, ...], tuple[int, ...]], most: int
) -> None:
    random = np.random.default_rng(2)
    a, b = (random.integers(-most, most, shape) for shape in shapes)
    want = LONG[name](a, b)
    (got,) = run("Ascend910B3", name, [a, b], [like(want)])
    np.testing.assert_array_equal(got, want)
    with pytest.raises(KernelError, match="int64"):
        run("Ascend910A", name, [a, b], [like(want)])


@pytest.mark.parametrize("name", sorted(COMPARE))
def test_whole_numbers_of_64_bits_are_compared_exactly(name: str) -> None:
    a = np.array([[2**53 + 1, 2**53, -(2**62), 7, 2**24 + 1]])
    b = np.array([[2**53, 2**53 + 1, 2**62, 7, 2**24]])
    for other in (b, b[:, :1]):
        want = COMPARE[name](a, other)
        (got,) = run("Ascend910B3", name, [a, other], [want.copy()])
        np.testing.assert_array_equal(got, want)


_LIMITS = np.iinfo(np.int32)
_AT_EDGES = st.sampled_from([_LIMITS.min, _LIMITS.max, -1, 0, 1, 2**24, 2**24 + 1, -(2**30)])
_INT32 = _AT_EDGES | st.integers(_LIMITS.min, _LIMITS.max)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([*CHIPS, "Ascend310P3"]),
    st.sampled_from(sorted(COMPARE)),
    st.lists(_INT32.flatmap(lambda x: st.tuples(st.just(x), _INT32 | st.just(x))), min_size=2),
    st.booleans(),
)
def test_whole_numbers_of_32_bits_are_compared_exactly(
    chip: str, name: str, pairs: list[tuple[int, int]], with_one: bool
) -> None:
    a, b = np.array(pairs, np.int32).T
    second = np.array(b[0]) if with_one else np.ascontiguousarray(b)
    want = COMPARE[name](a, second)
    (got,) = run(chip, name, [np.ascontiguousarray(a), second], [like(want, bool)])
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", ["Floor", "Ceil", "Round", "Trunc"])
def test_whole_numbers_stay_when_they_are_rounded(chip: str, name: str) -> None:
    x = np.array([2**24 + 1, -(2**31), 2**31 - 1, 0, -7], np.int32)
    np.testing.assert_array_equal(run(chip, name, [x], [like(x)])[0], x)


@pytest.mark.parametrize("chip", CHIPS)
def test_whole_numbers_are_selected_exactly(chip: str) -> None:
    x = np.array([2**24 + 1, -(2**31), 2**31 - 1, 0, -7], np.int32)
    mask, y = np.array([True, False, True, False, True]), x[::-1].copy()
    wide = [] if chip == "Ascend910A" else [np.int64]
    for kind in (np.int32, *wide):
        a, b = (each.astype(kind) * (1 if kind is np.int32 else 2**30) for each in (x, y))
        np.testing.assert_array_equal(
            run(chip, "Select", [mask, a, b], [like(a)])[0], np.where(mask, a, b)
        )
        (got,) = run(chip, "MaskedFill", [a, mask, a[2].reshape(())], [like(a)])
        np.testing.assert_array_equal(got, np.where(mask, a[2], a))


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("kind", [np.bool_, np.uint8, np.int8])
def test_bytes_are_compared(chip: str, kind: type[np.generic]) -> None:
    a, b = (np.array(each).astype(kind) for each in ([0, 0, 1, 1], [0, 1, 0, 1]))
    for name, compare in (("NotEqual", np.not_equal), ("Equal", np.equal), ("Less", np.less)):
        want = compare(a.astype(int), b.astype(int))
        np.testing.assert_array_equal(run(chip, name, [a, b], [like(want)])[0], want)


@pytest.mark.parametrize("chip", CHIPS)
def test_a_norm_from_a_sum_of_squares(chip: str) -> None:
    sums = np.float32([[0.0], [4.0], [0.25], [1e-8]])
    zero, one = np.float32(0.0), np.ones_like(sums)
    for least, want in ((1.0, [1, 2, 1, 1]), (0.0, [0, 2, 0.5, 1e-4])):
        given = [sums, np.array(zero), one, np.float32([least])]
        (got,) = run(chip, "ClipByNormNoDivSum", given, [like(sums)])
        np.testing.assert_allclose(got[:, 0], want, rtol=1e-4)


def test_a_fusion_of_unknown_parts_is_the_gate_of_language_models() -> None:
    x, y = numbers(2, 1, 3072), numbers(2, 1, 3072, seed=1)
    (got,) = run("Ascend910B3", "AutomaticBufferFusionOp", [x, y], [like(x)])
    np.testing.assert_allclose(got, x / (1 + np.exp(-x)) * y, rtol=1e-4, atol=1e-6)
    with pytest.raises(KernelError, match="which operators were fused"):
        run("Ascend910B3", "AutomaticBufferFusionOp", [x], [like(x)])


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("count", [1, 7, 1024, 4099, 200_000])
def test_a_range(chip: str, count: int) -> None:
    start, step = np.float32(3.0), np.float32(0.5)
    given_ = [np.array(start), np.array(start + count * step), np.array(step)]
    (got,) = run(chip, "Range", given_, [np.full(count, 77, np.float32)])
    np.testing.assert_allclose(got, start + np.arange(count) * step, rtol=1e-6)
    with pytest.raises(KernelError, match="results of INT32"):
        run(chip, "Range", given_, [np.zeros(count, np.int32)])


def test_a_range_starts_all_cores() -> None:
    """Those behind the last share too: 47 shares of 22 are 1024."""
    for count, blocks in ((1024, 48), (4096, 48), (5, 5)):
        scalars = (TensorSpec((), "int32"), TensorSpec((), "float32"), TensorSpec((), "int32"))
        task = TaskSpec("Range", scalars, (TensorSpec((count,), "float32"),))
        profile = load_profile("Ascend910B2")
        (kernel,) = kernels_of(profile, task)
        assert kernel.block_dim == blocks
        longest = trace(kernel, profile, numerics=False)[0].program.instructions()
        names = Counter(each.name for each, times in longest for _ in range(times))
        assert names["vadds"] == 1 + (count > 64 * blocks)  # 64 elements a time, then the start


@pytest.mark.parametrize("chip", CHIPS)
def test_small_operands_run_along_axes(chip: str) -> None:
    """One operator each, of tensors as a record has them: Modulate, Scale, Quantize."""
    rng = np.random.default_rng(0)
    sizes = ((3, 7, 33), (3, 33), (3, 33))
    x, scale, shift = (rng.standard_normal(size).astype(np.float32) for size in sizes)
    (got,) = run(chip, "Modulate", [x, scale, shift], [like(x)])
    np.testing.assert_allclose(got, x * (1 + scale[:, None]) + shift[:, None], rtol=1e-5, atol=1e-5)
    row = scale[0, :7]
    (got,) = run(chip, "Scale", [x, row, row], [like(x)], axis=1)
    np.testing.assert_allclose(got, x * row[:, None] + row[:, None], rtol=1e-5, atol=1e-5)
    zero, steps = np.arange(7, dtype=np.int32), np.abs(row) / 20 + 0.01
    (got,) = run(chip, "Quantize", [x, steps, zero], [like(x.astype(np.int8))], axis=1)
    wide = np.clip(np.rint(x / steps[:, None]) + zero[:, None], -128, 127)
    assert np.abs(got - wide).max() <= (0 if chip == "Ascend910B3" else 1)  # quotients may round
    assert (got == wide).mean() > 0.95
