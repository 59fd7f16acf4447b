"""Matrix products as profilers record them: numbers, layouts, what is fused to them, and time."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim import Device, TensorSpec
from npusim.ascendc import GlobalTensor, GmBuffer, Kernel, trace
from npusim.ascendc.task import Task
from npusim.engine import L2State, machine_of, simulate
from npusim.hardware import load_profile
from npusim.operators.tasks import TaskSpec, kernels_on
from npusim.ops.matmul.fractals_first import FractalsFirst
from npusim.ops.matmul.operands import Problem
from npusim.ops.matmul.products import product_kernels
from npusim.ops.matmul.shapes import Shape
from npusim.ops.matmul.tiling import partition
from npusim.validation.replay import simulate_task
from npusim.values.dtypes import FLOAT16, dtype
from npusim.values.errors import KernelError
from support import physics
from support.tasks import (
    BFLOAT16,
    CHIPS,
    assert_above_roofline,
    assert_time_needs_no_numbers,
    cycles,
    fractals,
    in_fractals,
    kernels,
    like,
    run,
)

Array = np.ndarray[Any, Any]

# dtype -> chips whose cube takes it, and how far off a result may be
KINDS: dict[Any, tuple[tuple[str, ...], float]] = {
    np.float16: (CHIPS, 2e-3),
    BFLOAT16: (("Ascend910B3",), 1e-2),
    np.float32: (("Ascend910B3",), 1e-5),
}
# (m, k, n): blocks, edges, rows and columns of one, decoding, a long sum
SIZES = [(16, 16, 16), (1, 64, 48), (33, 70, 5), (130, 257, 300), (8, 4096, 64), (300, 1, 40)]


def numbers(*shape: int, kind: Any = np.float16, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(kind)


def wide(*arrays: Array) -> list[Array]:
    return [array.astype(np.float64) for array in arrays]


def assert_product(got: Array, a: Array, b: Array, tolerance: float, add: Any = 0.0) -> None:
    """Relative to the size of the sums."""
    left, right = wide(a, b)
    want = left @ right + add
    scale = np.sqrt(np.mean(want**2)) + 1e-6
    assert np.abs(got.astype(np.float64) - want).max() <= 4 * tolerance * scale * 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
def test_products(kind: Any, size: tuple[int, int, int], turned: tuple[bool, bool]) -> None:
    m, k, n = size
    chips, tolerance = KINDS[kind]
    a, b = numbers(m, k, kind=kind), numbers(k, n, kind=kind, seed=1)
    lying = [
        np.ascontiguousarray(each.T) if turn else each
        for each, turn in zip((a, b), turned, strict=True)
    ]
    given = {"transpose_x1": turned[0], "transpose_x2": turned[1]}
    for chip in chips:
        (got,) = run(chip, "MatMulV2", lying, [np.zeros((m, n), kind)], **given)
        assert_product(got, a, b, tolerance)


@settings(max_examples=40, deadline=None)
@given(
    m=st.integers(1, 200),
    k=st.integers(1, 200),
    n=st.integers(1, 200),
    batch=st.integers(1, 5),
    turned=st.tuples(st.booleans(), st.booleans()),
    chip=st.sampled_from(CHIPS),
)
def test_stacks_of_any_size(
    m: int, k: int, n: int, batch: int, turned: tuple[bool, bool], chip: str
) -> None:
    a, b = numbers(batch, m, k), numbers(batch, k, n, seed=1)
    lying = [
        np.ascontiguousarray(np.swapaxes(each, 1, 2)) if turn else each
        for each, turn in zip((a, b), turned, strict=True)
    ]
    given = {"adj_x1": turned[0], "adj_x2": turned[1]}
    out = np.zeros((batch, m, n), np.float16)
    (got,) = run(chip, "BatchMatMulV2", lying, [out], **given)
    assert_product(got, a, b, 2e-3)
    assert_time_needs_no_numbers(chip, "BatchMatMulV2", lying, [out], **given)


@pytest.mark.parametrize("chip", CHIPS)
def test_one_matrix_for_a_stack(chip: str) -> None:
    a, b = numbers(6, 20, 48), numbers(48, 70, seed=1)
    (got,) = run(chip, "BatchMatMul", [a, b], [np.zeros((6, 20, 70), np.float16)])
    assert_product(got, a, b, 2e-3)


@pytest.mark.parametrize(
    ("left", "right"), [((2, 1), (2, 3)), ((3,), (2, 3)), ((2, 1, 3), (1, 4, 1)), ((2, 3), (1, 3))]
)
def test_stacks_spread_over_each_other(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a, b = numbers(*left, 5, 7), numbers(*right, 7, 4, seed=1)
    want = a.astype(np.float64) @ b.astype(np.float64)
    told = {"adj_x1": False, "adj_x2": False}
    out = np.zeros(want.shape, np.float16)
    (found,) = run("Ascend310P3", "BatchMatMulV2", [a, b], [out], **told)
    np.testing.assert_allclose(found, want, atol=0.02)


@pytest.mark.parametrize("chip", CHIPS)
def test_a_bias_is_added_to_every_row(chip: str) -> None:
    a, b, bias = numbers(40, 64), numbers(64, 96, seed=1), numbers(96, seed=2)
    out = np.zeros((40, 96), np.float16)
    (got,) = run(chip, "MatMulV2", [a, b, bias], [out])
    assert_product(got, a, b, 2e-3, bias.astype(np.float64))


def test_a_wide_bias_needs_a_table_of_its_own() -> None:
    """Chips whose results leave through UB add it there, in the result's dtype."""
    a, b, bias = numbers(40, 64), numbers(64, 96, seed=1), numbers(96, kind=np.float32, seed=2)
    out = np.zeros((40, 96), np.float16)
    (got,) = run("Ascend910B3", "MatMulV2", [a, b, bias], [out])
    assert_product(got, a, b, 2e-3, bias.astype(np.float64))
    with pytest.raises(KernelError, match="a bias in FLOAT for a product in FLOAT16"):
        run("Ascend910A", "MatMulV2", [a, b, bias], [out])


@pytest.mark.parametrize("chip", CHIPS)
def test_results_may_be_wider_than_what_is_multiplied(chip: str) -> None:
    a, b = numbers(40, 64), numbers(64, 96, seed=1)
    (got,) = run(chip, "MatMul", [a, b], [np.zeros((40, 96), np.float32)])
    assert_product(got, a, b, 1e-5)


@pytest.mark.parametrize(("hf32", "least", "most"), [(False, 0.0, 1e-5), (True, 1e-6, 1e-2)])
def test_float_numbers_may_be_cut_to_hf32(hf32: bool, least: float, most: float) -> None:
    """At twice the speed; the first generation's cube doesn't take float at all."""
    a, b = numbers(300, 256, kind=np.float32), numbers(256, 320, kind=np.float32, seed=1)
    out = np.zeros((300, 320), np.float32)
    (got,) = run("Ascend910B3", "MatMulV3", [a, b], [out], enable_hf32=hf32)
    error = np.abs(got - a.astype(np.float64) @ b).max() / 16
    assert least <= error <= most
    with pytest.raises(KernelError, match="Ascend910A has no FLOAT times FLOAT"):
        run("Ascend910A", "MatMulV2", [a, b], [out])


@settings(max_examples=25, deadline=None)
@given(
    m=st.integers(1, 100),
    k=st.integers(1, 100),
    n=st.integers(1, 100),
    turned=st.tuples(st.booleans(), st.booleans()),
    chip=st.sampled_from(CHIPS),
)
def test_matrices_in_fractals(m: int, k: int, n: int, turned: tuple[bool, bool], chip: str) -> None:
    profile = load_profile(chip)
    a, b = numbers(m, k), numbers(k, n, seed=1)
    lying = [each.T if turn else each for each, turn in zip((a, b), turned, strict=True)]
    left, right = (in_fractals(each, name) for each, name in zip(lying, "ab", strict=True))
    out = in_fractals(np.zeros((m, n), np.float16), "c")
    problem = Problem.of("MatMul", left, right, out, turned)
    for kernel in product_kernels(profile, problem):
        trace(kernel, profile, numerics=True)
    assert out.array is not None
    want = fractals(a.astype(np.float64) @ b.astype(np.float64))
    np.testing.assert_allclose(out.array, want, rtol=4e-3, atol=2e-2)


@pytest.mark.parametrize("op", ["FusionOp_MatMul_Add", "FusionOp_MatMul_Mul"])
def test_what_the_first_generation_fuses_to_a_product(op: str) -> None:
    a, b, tile = numbers(40, 64), numbers(64, 96, seed=1), numbers(40, 96, seed=2)
    (got,) = run("Ascend910A", op, [a, b, tile], [like(tile)])
    product = a.astype(np.float64) @ b
    want = product + tile if op.endswith("Add") else product * tile
    np.testing.assert_allclose(got, want, rtol=1e-2, atol=5e-2)


@pytest.mark.parametrize("batch", [(), (4,), (1, 4), (3, 1)])
def test_products_of_a_batch_share_what_is_added_to_them(batch: tuple[int, ...]) -> None:
    """A matrix for all of them, or one for each place along some axes, beside one of their own."""
    a, b = numbers(3, 4, 40, 64) / 8, numbers(3, 4, 64, 96, seed=1)
    own, shared = numbers(3, 4, 40, 96, seed=2), numbers(*batch, 40, 96, seed=3)
    op = "FusionOp_BatchMatMul_Add_Add"
    (got,) = run("Ascend910A", op, [a, b, shared, own], [like(own)])
    want = a.astype(np.float64) @ b + shared + own
    np.testing.assert_allclose(got, want, rtol=1e-2, atol=5e-2)
    with pytest.raises(KernelError, match="beside a product"):
        run("Ascend910A", op, [a, b, shared[..., :48], own], [like(own)])
    row = numbers(3, 1, 1, 96, seed=4)
    (got,) = run("Ascend910A", "FusionOp_BatchMatMul_Add", [a, b, row], [like(own)])
    np.testing.assert_allclose(got, a.astype(np.float64) @ b + row, rtol=1e-2, atol=5e-2)
    (got,) = run("Ascend910A", op, [a, b, row, own], [like(own)])
    np.testing.assert_allclose(got, a.astype(np.float64) @ b + row + own, rtol=1e-2, atol=5e-2)


@pytest.mark.parametrize(
    ("op", "function"),
    [
        ("FusionOp_MatMul_Relu", lambda x: np.maximum(x, 0)),
        ("FusionOp_MatMul_Tanh", np.tanh),
    ],
)
def test_activations_fused_to_a_product(op: str, function: Any) -> None:
    a, b, bias = numbers(40, 64) / 8, numbers(64, 96, seed=1), numbers(96, seed=2)
    (got,) = run("Ascend910A", op, [a, b, bias], [np.zeros((40, 96), np.float16)])
    want = function(a.astype(np.float64) @ b + bias)
    np.testing.assert_allclose(got, want, rtol=1e-2, atol=2e-2)
    with pytest.raises(KernelError, match="doesn't fuse"):
        run("Ascend910B3", op, [a, b, bias], [np.zeros((40, 96), np.float16)])


@pytest.mark.parametrize("chip", CHIPS)
def test_a_few_tall_sums_are_shared_out_along_k(chip: str) -> None:
    """Small results of long sums: the cores each take a part of k, if the chip can add them up."""
    a, b = numbers(33, 20_000) / 16, numbers(20_000, 17, seed=1) / 16
    out = np.zeros((33, 17), np.float16)
    (kernel,), _ = kernels(chip, "MatMulV2", [a, b], [out])
    assert (type(kernel).__name__ == "SplitMatMul") == (chip == "Ascend910B3")
    (got,) = run(chip, "MatMulV2", [a, b], [out])
    assert_product(got, a, b, 2e-3)


@pytest.mark.parametrize(
    ("a", "b", "c"),
    [((4, 5), (6, 7), (4, 7)), ((4, 5), (5, 7), (5, 7)), ((2, 4, 5), (3, 5, 7), (2, 4, 7))],
)
def test_matrices_that_dont_fit(a: Any, b: Any, c: Any) -> None:
    arrays = [np.zeros(shape, np.float16) for shape in (a, b, c)]
    with pytest.raises(KernelError, match="times"):
        run("Ascend910B3", "MatMul", arrays[:2], arrays[2:])


def test_a_product_needs_two_operands() -> None:
    with pytest.raises(KernelError, match="0 tensors where 2"):
        kernels_on(Task(load_profile("Ascend910B3"), "MatMulV2", (None,)))


# -- physics ---------------------------------------------------------------------------------------


def shapes(m: int, k: int, n: int, kind: Any = np.float16) -> tuple[list[Array], list[Array]]:
    """Arrays that only their shapes are asked of."""
    broadcast = [np.broadcast_to(np.zeros((), kind), size) for size in ((m, k), (k, n), (m, n))]
    return broadcast[:2], broadcast[2:]


def simulated(chip: str, m: int, k: int, n: int) -> tuple[float, Kernel]:
    profile = load_profile(chip)
    kind = dtype("float16")
    made = [
        GlobalTensor(GmBuffer(name, 2 * rows * columns), kind, (rows, columns))
        for name, rows, columns in (("a", m, k), ("b", k, n), ("c", m, n))
    ]
    problem = Problem.of("MatMul", made[0], made[1], made[2])
    total, kernels = 0.0, product_kernels(profile, problem)
    for kernel in kernels:
        machine = machine_of(profile, kernel.block_dim, mix=kernel.is_mix)
        groups = trace(kernel, profile, numerics=False)
        total += simulate(groups, machine, L2State(profile.memory.l2_bytes)).core_cycles
    return total, kernels[0]


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("size", [(1, 4096, 4096), (512, 512, 512), (4096, 4096, 4096)], ids=str)
def test_no_product_is_faster_than_cube_and_memory(chip: str, size: tuple[int, int, int]) -> None:
    m, k, n = size
    profile = load_profile(chip)
    found, _ = simulated(chip, m, k, n)
    cube = profile.cube
    rate = cube.dtypes["float16"]
    count = ceil(m / cube.fractal_m) * ceil(n / cube.fractal_n) * ceil(k / rate.k_per_fractal)
    assert found >= count * rate.cycles_per_fractal / profile.cores.cube_cores
    moved = 2 * (m * k + k * n + m * n)
    assert found / profile.clock_mhz >= physics.roofline_us(profile, moved, {})


@pytest.mark.parametrize("chip", CHIPS)
def test_larger_products_are_not_faster(chip: str) -> None:
    for sizes in (
        [(n, 512, 512) for n in (16, 128, 1024, 8192)],
        [(512, n, 512) for n in (64, 512, 4096, 32768)],
        [(512, 512, n) for n in (16, 128, 1024, 8192)],
    ):
        times = [simulated(chip, *size)[0] for size in sizes]
        assert times == sorted(times), times


def test_large_squares_keep_the_cube_busy() -> None:
    found, kernel = simulated("Ascend910B3", 4096, 4096, 4096)
    profile = load_profile("Ascend910B3")
    fractals_each = 4096 // 16 * (4096 // 16) * (4096 // 16) / profile.cores.cube_cores
    assert kernel.block_dim >= profile.cores.cube_cores - 4
    assert fractals_each * profile.cube.dtypes["float16"].cycles_per_fractal / found > 0.6


def test_hf32_is_faster_than_float() -> None:
    inputs, outputs = shapes(2048, 2048, 2048, np.float32)
    kinds = [
        cycles("Ascend910B3", "MatMulV3", inputs, outputs, enable_hf32=hf32)
        for hf32 in (True, False)
    ]
    assert kinds[0] < 0.7 * kinds[1]


@pytest.mark.parametrize("cores", [1, 5, 20])
def test_fewer_cores_give_the_same_numbers(cores: int) -> None:
    profile = physics.with_cores("Ascend910B3", 2 * cores)
    a, b = numbers(300, 200), numbers(200, 500, seed=1)
    (got,) = run(profile, "MatMulV2", [a, b], [np.zeros((300, 500), np.float16)])
    assert_product(got, a, b, 2e-3)


def test_a_stack_is_not_faster_than_one_of_its_products() -> None:
    for chip in CHIPS:
        arrays = [np.zeros((batch, 64, 64), np.float16) for batch in (1, 8, 64, 512)]
        times = [cycles(chip, "BatchMatMul", [each, each], [each]) for each in arrays]
        assert times == sorted(times)
        assert_above_roofline(chip, "BatchMatMul", [arrays[3], arrays[3]], [arrays[3]])


def test_an_operand_larger_than_l2_goes_past_once() -> None:
    """Of tall products it is A, then blocks follow each other along a row; not on a larger L2."""
    chip = load_profile("Ascend310P3")
    inputs, outputs = shapes(8192, 2048, 768)
    memory = chip.memory.model_copy(update={"l2_bytes": chip.memory.l2_bytes * 8})
    times = [
        cycles(each, "MatMulV2", inputs, outputs)
        for each in (chip, chip.model_copy(update={"memory": memory}))
    ]
    fractals_each = 8192 // 16 * (2048 // 16) * (768 // 16) / chip.cores.cube_cores
    assert times[1] < times[0] < 1.8 * fractals_each
    tall = partition(chip, Shape(1, 8192, 768, 2048, False, False, False, FLOAT16, 2))
    wide = partition(chip, Shape(1, 768, 8192, 2048, False, False, False, FLOAT16, 2))
    assert tall.blocks.rows_outside
    assert not wide.blocks.rows_outside


_MOST = 65535
TURNED_BATCHES = [  # x1, x2, permX1, permX2, batchSplitFactor, and whether a device takes them
    ([2, 16, 64], [2, 64, 32], [0, 1, 2], [0, 1, 2], 2, True),
    ([16, 2, 64], [2, 32, 64], [1, 0, 2], [0, 2, 1], 1, True),
    ([16, 2, 64], [2, 32, 64], [1, 0, 2], [0, 2, 1], 2, False),
    ([2, 16, 64], [2, 32, 64], [0, 1, 2], [0, 2, 1], 1, False),
    ([16, 2, 16], [2, 16, _MOST], [1, 0, 2], [0, 1, 2], 1, True),
    ([16, 2, 16], [2, 16, _MOST + 1], [1, 0, 2], [0, 1, 2], 1, False),
    ([1, _MOST + 1, 16], [_MOST + 1, 16, 16], [1, 0, 2], [0, 1, 2], 1, False),
    ([2, 16, _MOST], [2, _MOST, 16], [0, 1, 2], [0, 1, 2], 2, True),
    ([2, 16, _MOST + 1], [2, _MOST + 1, 16], [0, 1, 2], [0, 1, 2], 1, False),
    ([16, 2, _MOST + 1], [2, _MOST + 1, 16], [1, 0, 2], [0, 1, 2], 1, True),
    ([16, 2, _MOST + 1], [2, _MOST + 1, 16], [1, 0, 2], [0, 1, 2], 2, False),
    ([16, 128, 511], [128, 511, 16], [1, 0, 2], [0, 1, 2], 2, True),
    ([16, 128, 512], [128, 512, 16], [1, 0, 2], [0, 1, 2], 2, False),
]


@pytest.mark.parametrize(("x", "weight", "first", "second", "parts", "taken"), TURNED_BATCHES)
def test_batches_turn_as_far_as_an_axis_reaches(
    x: list[int], weight: list[int], first: list[int], second: list[int], parts: int, taken: bool
) -> None:
    """Source: CheckShapeValid in aclnn_transpose_batch_mat_mul.cpp."""
    found = Device("Ascend910B3").check(
        "aclnnTransposeBatchMatMul", x1=f"fp16{x}".replace(" ", ""),
        x2=f"fp16{weight}".replace(" ", ""), permX1=first, permX2=second, permY=[1, 0, 2],
        cubeMathType=0, batchSplitFactor=parts,
    )  # fmt: skip
    assert found.code == (0 if taken else 161002), found.message


def test_operands_with_short_rows_are_brought_row_by_row() -> None:
    """Source: [84, 8] x [4096, 8] takes 38.7 us on 910B3, [84, 8] x [512, 8] 13.6 (bfloat16)."""
    npu = Device("Ascend910B3", l2="in_graph")
    found = {}
    for inner in (8, 32):
        for n in (512, 4096):
            x1, x2 = (TensorSpec((rows, inner), "bfloat16") for rows in (84, n))
            found[inner, n] = npu.estimate("MatMulV2", x1=x1, x2=x2, transpose_x2=True).duration_us
    assert found[8, 4096] > 20
    assert 10 < found[8, 512] < 16
    assert found[32, 4096] < 9


def assert_each_row_is_turned_once(kernel: FractalsFirst) -> None:
    for turn in kernel.turns:
        turned = np.zeros((turn.plain.rows, turn.plain.columns), int)
        for core in range(kernel.vectors):
            tiles = turn.tiles(core, kernel.vectors)
            counted = {size: places.shape[1] for size, places in tiles.items()}
            assert turn.sizes(core, kernel.vectors) == counted
            for (rows, columns), places in tiles.items():
                for row, column in places.T:
                    turned[row : row + rows, column : column + columns] += 1
        assert (turned == 1).all()


@pytest.mark.parametrize(
    ("m", "k", "n", "turned"),
    [
        (1031, 1033, 1301, (False, True)),
        (1027, 1288, 1290, (False, False)),  # b alone
        (1030, 1100, 1024, (True, False)),  # a alone
        (1283, 1301, 1111, (True, True)),
    ],
)
def test_ragged_rows_of_the_third_version_are_turned_first(
    m: int, k: int, n: int, turned: tuple[bool, bool]
) -> None:
    a, b, bias = numbers(m, k), numbers(k, n, seed=1), numbers(n, seed=2)
    lying = [each.T.copy() if way else each for each, way in zip((a, b), turned, strict=True)]
    told = {"transpose_x1": turned[0], "transpose_x2": turned[1]}
    out = np.zeros((m, n), np.float16)
    for chip in ("Ascend910B2", "Ascend910B4"):
        (kernel,), _ = kernels(chip, "MatMulV3", [*lying, bias], [out], told)
        assert isinstance(kernel, FractalsFirst)
        assert_each_row_is_turned_once(kernel)
        (got,) = run(chip, "MatMulV3", [*lying, bias], [out], **told)
        left, right, row = wide(a, b, bias)
        assert_product(got, left, right, 2e-3, row)


def test_turning_ragged_rows_first_pays() -> None:
    """2,048 x 4,304 x 1,152 takes 96.7 us on 910B2 (lukaIvanic/paddle_ocr_vl_npu)."""
    chip = load_profile("Ascend910B2")
    x, weight = (TensorSpec(shape, "float16") for shape in ((2048, 4304), (1152, 4304)))
    task = TaskSpec(
        "MatMulV3",
        (x, weight),
        (TensorSpec((2048, 1152), "float16"),),
        {"transpose_x1": False, "transpose_x2": True},
    )
    found = simulate_task(chip, task, "in_graph").duration_us
    second = simulate_task(chip, replace(task, op_type="MatMulV2"), "in_graph").duration_us
    assert 0.8 * 96.7 < found < 1.2 * 96.7
    assert found < second


@pytest.mark.parametrize("sizes", [(1000, 1001, 3000), (2049, 777, 2305), (640, 4099, 531)])
def test_cores_that_meet_in_barriers_alone_are_run_once_a_kind(
    sizes: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As whole blocks take as long, of which there are more kinds."""
    m, k, n = sizes
    call = {"x1": f"fp16[{m},{k}]", "x2": f"fp16[{k},{n}]"}
    by_cores = Device("Ascend910B3").estimate("MatMulV3", **call)
    monkeypatch.setattr(FractalsFirst, "unit_kind", Kernel.unit_kind)
    by_blocks = Device("Ascend910B3").estimate("MatMulV3", **call)
    assert by_cores.duration_us == pytest.approx(by_blocks.duration_us, rel=1e-9)
    assert by_cores.tasks[0].pipes == pytest.approx(by_blocks.tasks[0].pipes)
    assert sorted(by_cores.timeline.cores) == sorted(by_blocks.timeline.cores)
