"""Which blocks schedules for one shape launch, on ragged shapes and by recorded launches."""

from __future__ import annotations

from math import prod
from time import process_time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim import TensorSpec, load_profile
from npusim.ascendc import GlobalTensor, GmBuffer
from npusim.operators.tasks import TaskSpec, kernels_of
from npusim.ops.elementwise.fills import Fill
from npusim.runtime.task import run_tasks
from npusim.schedules.block_split import Axes, block_split, broadcast_split, fullest_share
from npusim.schedules.elementwise import FlatTiling
from npusim.values.arithmetic import divisors
from npusim.values.dtypes import FLOAT
from npusim.values.tensors import parse_tensor

CORES, LEAST = 30, 2048
shapes = st.lists(st.sampled_from([1, 2, 3, 7, 13, 16, 19, 33, 37, 65, 101, 999]), min_size=1)


@given(shapes.filter(lambda shape: len(shape) <= 5), st.sampled_from([1, 2, 4]))
def test_blocks_cover_every_element_and_are_at_most_four_rounds(
    shape: list[int], itemsize: int
) -> None:
    split = block_split(shape, itemsize, CORES, LEAST)
    assert split.block_dim * split.elements >= prod(shape)
    assert (split.parts - 1) * split.length <= split.parts * split.length
    assert 1 <= split.block_dim <= 4 * CORES
    if split.before > 1:  # behind other axes a part is whole, so that a block has one piece
        assert split.before * split.parts * split.elements == prod(shape)


# What the profiler recorded on the 30 cores of the first generation (reports/data).
LAUNCHES = [
    ("Add", [(32, 128, 768), (1, 128, 768)], 30),
    ("BiasAdd", [(16, 16, 40, 40, 16), (1, 16, 1, 1, 16)], 16),
    ("FusedMulAddN", [(4, 16, 16, 16), (4, 16, 16, 16), (1,)], 32),
    ("FusedMulAddN", [(8, 32, 16, 16), (8, 32, 16, 16), (1,)], 32),
    ("Mul", [(2, 768), (1,)], 2),
    ("Mul", [(32, 100), (32, 1)], 7),
    ("Minimum", [(64, 20, 20, 3, 1, 2), (64, 1, 1, 1, 150, 2)], 30),
]


@pytest.mark.parametrize(("op", "operands", "blocks"), LAUNCHES)
def test_blocks_are_those_of_recorded_launches(
    op: str, operands: list[tuple[int, ...]], blocks: int
) -> None:
    profile = load_profile("Ascend910B")
    inputs = tuple(TensorSpec(shape, "float32") for shape in operands)
    out = TensorSpec(np.broadcast_shapes(*operands), "float32")
    (kernel,) = kernels_of(profile, TaskSpec(op, inputs, (out,)))
    assert kernel.block_dim == blocks


def test_optimizer_steps_deal_out_whole_tiles() -> None:
    profile = load_profile("Ascend910B")
    found = []
    for shape in ((1024,), (256, 128), (512, 256), (184965, 1), (1024, 512)):
        tensor, number = TensorSpec(shape, "float32"), TensorSpec((1,), "float32")
        task = TaskSpec("Adam", (tensor,) * 3 + (number,) * 6 + (tensor,), (tensor,) * 3)
        (kernel,) = kernels_of(profile, task)
        found.append(kernel.block_dim)
    assert found == [1, 16, 21, 29, 27]


@pytest.mark.parametrize("elements", [1_000, 196_611, 16_777_221])
def test_tiles_of_optimizer_steps_fit_where_nothing_is_overwritten(elements: int) -> None:
    """The vendor's schedule counts on operands that are, and its tiles are longer than ours."""
    tensor, rate = TensorSpec((elements,), "float32"), TensorSpec((1,), "float32")
    profile = load_profile("Ascend910A")
    task = TaskSpec("ApplyGradientDescent", (tensor, rate, tensor), (tensor,))
    assert run_tasks(kernels_of(profile, task), profile, numerics=False).duration_us > 0


def test_definitions_say_when_axes_are_fused() -> None:
    alike, row, number = ((4, 5), (4, 5)), ((4, 5), (1, 5)), ((4, 5), (1,))
    expected = {
        Axes.FUSED: [True, True, True],
        Axes.KEPT: [False, False, False],
        Axes.FUSED_IF_ALIKE: [True, False, False],
        Axes.KEPT_WITH_NUMBER: [True, True, False],
    }
    for axes, answers in expected.items():
        assert [axes.fuses(shapes) for shapes in (alike, row, number)] == answers


def _decayed(rows: int, *, numerics: bool) -> tuple[float, int]:
    """Time and blocks of adding a decay to gradients of [2, rows, 32768], checked if computed."""
    profile = load_profile("Ascend910B")
    tensor, number = TensorSpec((2, rows, 32768), "float32"), TensorSpec((1,), "float32")
    (kernel,) = kernels_of(profile, TaskSpec("FusedMulAddN", (tensor, tensor, number), (tensor,)))
    if numerics:
        rng = np.random.default_rng(rows)
        values = [rng.random(each.numel, dtype=np.float32) for each in kernel.reads]
        for each, data in zip(kernel.reads, values, strict=True):
            each.buffer.data = data
        kernel.writes[0].buffer.data = np.empty(tensor.numel, np.float32)
    run = run_tasks([kernel], profile, numerics=numerics)
    if numerics:
        weight, grad, decay = values
        np.testing.assert_allclose(kernel.writes[0].buffer.data, weight * decay + grad, rtol=1e-5)
    return run.duration_us, kernel.block_dim


def test_more_blocks_than_cores_go_in_rounds() -> None:
    one_us, blocks = _decayed(15, numerics=True)
    assert blocks == 30
    two_us, blocks = _decayed(31, numerics=True)
    assert blocks == 62  # 31 has no divisor that keeps 30 cores busy
    assert 1.5 * one_us < two_us < 4 * one_us


def test_a_small_block_more_costs_its_start_only() -> None:
    """The launch comes to the second round when the first has ended long ago."""
    profile = load_profile("Ascend910B")
    times = []
    for cores in (30, 32):
        more = profile.cores.model_copy(update={"vector_cores": cores})
        chip = profile.model_copy(update={"cores": more})
        kernel = Fill(chip, GlobalTensor(GmBuffer("out", 32 * 2048), FLOAT, (32 * 512,)), value=1.0)
        kernel.tiling = kernel.division = FlatTiling(32 * 512, 512, 512, 32, double_buffer=False)
        kernel.block_dim = 32
        times.append(run_tasks([kernel], chip).duration_us)
    assert times[0] == pytest.approx(times[1], rel=0.05)


@pytest.mark.parametrize(
    ("axes", "share"),
    [((32, 128), 160), ((128, 128), 640), ((256, 128), 1152), ((5, 6), 1), ((7, 3), 1), ((30,), 1)],
)
def test_the_axis_that_leaves_the_fewest_cores_idle_is_split(
    axes: tuple[int, ...], share: int
) -> None:
    assert fullest_share(axes, CORES) == share


@pytest.mark.parametrize(
    ("axes", "blocks"),
    # Profiled blocks of gradients of rows of 768, of which UB has room for ten.
    [
        ((640,), 30),
        ((5120,), 30),  # shares of 171 in nines
        ((8192,), 30),
        ((16384,), 29),  # the last of 30 blocks would have 521 rows
        ((32768,), 29),
        ((65536,), 29),
        ((64, 197), 25),  # not profiled: 29 and 28 shares of 7 would leave one
        ((32, 128), 26),
    ],
)
def test_no_block_ends_in_a_tile_of_one_row(axes: tuple[int, ...], blocks: int) -> None:
    assert -(-prod(axes) // fullest_share(axes, 30, 10)) == blocks


@pytest.mark.parametrize("axes", [(37,), (37, 101), (2, 3, 5), (13, 19, 33), (1, 1), (999, 7)])
@pytest.mark.parametrize("at_once", [0, 1, 2, 10])
def test_no_more_shares_than_cores(axes: tuple[int, ...], at_once: int) -> None:
    assert -(-prod(axes) // fullest_share(axes, CORES, at_once)) <= CORES


def _filled(blocks: int, per_block: int, length: int) -> float:
    """Time of a launch of ``blocks`` that fill ``length`` elements, ``per_block`` each."""
    profile = load_profile("Ascend910B")
    kernel = Fill(profile, GlobalTensor(GmBuffer("out", 4 * length), FLOAT, (length,)), value=1.0)
    kernel.tiling = kernel.division = FlatTiling(length, per_block, per_block, 0, False)
    kernel.block_dim = blocks
    return run_tasks([kernel], profile).duration_us


def test_cores_with_one_block_of_a_launch_in_rounds_begin_one_after_the_other() -> None:
    """Cores that start apart also end apart, so that their stores meet less: up to 1 % sooner."""
    whole, one_more = _filled(30, 16000, 30 * 16000), _filled(31, 16000, 30 * 16000 + 8)
    assert whole * 0.99 <= one_more <= whole * 1.2


@pytest.mark.parametrize(
    ("op", "inputs", "output", "blocks"),
    [
        ("GreaterEqual", "fp32[1024,4] fp32[1]", "bool[1024,4]", 4),
        ("LogicalNot", "bool[1024,4]", "bool[1024,4]", 2),
        ("Greater", "int64[1,1024] int64[1,1]", "bool[1,1024]", 2),
        ("Mul", "fp32[3,1,64,1] fp32[3,1,1,1]", "fp32[3,1,64,1]", 1),
        ("Mul", "fp32[4096] fp32[4096]", "fp32[4096]", 4),
        ("Mul", "fp32[61,1031] fp32[61,1]", "fp32[61,1031]", 31),
    ],
)
def test_code_for_any_shape_counts_in_the_widest_tensor_that_it_computes(
    op: str, inputs: str, output: str, blocks: int
) -> None:
    given = tuple(map(parse_tensor, inputs.split()))
    task = TaskSpec(op, given, (parse_tensor(output),), {})
    (kernel,) = kernels_of(load_profile("Ascend910B2"), task)
    assert kernel.block_dim == blocks


@pytest.mark.parametrize(("rows", "blocks"), [(2, 1), (4, 4), (8, 6)])
def test_gated_halves_are_cut_so_that_most_cores_work(rows: int, blocks: int) -> None:
    """As decode steps record: of 3072 columns, the width that gives the most tiles of few rows."""
    x, y = parse_tensor(f"fp16[{rows},1,6144]"), parse_tensor(f"fp16[{rows},1,3072]")
    (kernel,) = kernels_of(load_profile("Ascend910B2"), TaskSpec("SwiGlu", (x,), (y,), {}))
    assert kernel.block_dim == blocks


@pytest.mark.parametrize(
    ("shape", "itemsize", "blocks"),
    [
        ((8, 4096), 1, 32),  # 6 cores for each row, of which 4 get equal parts
        ((2, 4096), 1, 32),
        ((4, 1024), 8, 32),
        ((4096, 4608), 2, 48),
        ((3, 1, 64), 4, 1),
        ((25, 977), 4, 25),  # more than half of the cores have a row
        ((7, 100_003), 4, 42),
    ],
)
def test_axes_that_operands_repeat_along_are_dealt_out(
    shape: tuple[int, ...], itemsize: int, blocks: int
) -> None:
    assert broadcast_split(shape, itemsize, 48, 32).block_dim == blocks


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=4), st.sampled_from([1, 2, 4, 8]))
def test_no_element_is_left_out_and_no_core_has_two_blocks(shape: list[int], itemsize: int) -> None:
    split = broadcast_split(shape, itemsize, 48, 32)
    assert 1 <= split.block_dim <= 48
    assert split.before == prod(shape[: split.axis])
    assert (split.parts - 1) * split.length < shape[split.axis] <= split.parts * split.length


def test_repetition_is_dealt_out_as_it_was_recorded() -> None:
    """Of 4 rows of 1024 numbers, on 48 cores: 8 equal parts of each (reports/data)."""
    inputs = (TensorSpec((1, 1024), "int64"),)
    task = TaskSpec("BroadcastTo", inputs, (TensorSpec((4, 1024), "int64"),))
    (kernel,) = kernels_of(load_profile("Ascend910B1"), task)
    assert kernel.block_dim == 32


@pytest.mark.parametrize("elements", [1, 8, 129, 131_072, 294_912])
def test_dropout_starts_all_cores_for_any_shape(elements: int) -> None:
    """Segments of 128 elements; the last cores may have none (op_tiling/drop_out_do_mask.cc)."""
    x, keep = TensorSpec((elements,), "float32"), TensorSpec((1,), "float32")
    mask = TensorSpec(((elements + 127) // 128 * 16,), "uint8")
    task = TaskSpec("DropOutDoMask", (x, mask, keep), (x,))
    (kernel,) = kernels_of(load_profile("Ascend910B2"), task)
    assert kernel.block_dim == 48
    shares = [kernel.tiling.length(block) for block in range(48)]  # type: ignore[attr-defined]
    assert sum(shares) == elements
    assert all(share % 128 == 0 for share in shares[: -(-elements // shares[0]) - 1])


@given(st.integers(1, 5000))
def test_divisors_are_all_in_order(number: int) -> None:
    assert [*divisors(number)] == [each for each in range(1, number + 1) if number % each == 0]


def test_shares_of_a_thousand_million_rows_are_found_at_once() -> None:
    start = process_time()
    assert fullest_share((2**31 - 1, 3), 40, 10) > 0
    assert process_time() - start < 1.0
