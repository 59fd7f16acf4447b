"""aclnnMultiScaleDeformableAttentionGrad: its numbers, its limits, its tasks."""

from __future__ import annotations

import tracemalloc
from functools import cache
from itertools import product
from math import ceil
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from npusim import AclnnError, Device, Result
from npusim.hardware import load_profile
from npusim.ops.multi_scale_deformable_attention_grad.contract import Sizes
from npusim.ops.multi_scale_deformable_attention_grad.tiling import (
    KERNEL_WORKSPACE_BYTES,
    Tiling,
)
from npusim.values.errors import DeviceFault
from npusim.values.status import AclError, StatusCode
from support import physics
from support.closeness import assert_close, assert_outputs_close
from support.deformable import (
    DEFORMABLE,
    as_outputs,
    deformable,
    reference,
    torch_reference,
)
from support.golden import GoldenCase, numeric_cases, tiling_examples
from support.inputs import strided, transposed
from support.spying import watching

CHIP = "Ascend910B3"
CHIPS = ("Ascend910B1", "Ascend910B2", "Ascend910B3", "Ascend910B4")
KERNEL = "MultiScaleDeformableAttentionGrad"
PYRAMID = ((100, 134), (50, 67), (25, 34), (13, 17))
SMALL = deformable([(5, 7), (3, 2)], batch=2, queries=9, heads=3, channels=16, points=2)


@cache
def result_of_small() -> Result:
    """Which many of these compare with; nobody writes to its arrays."""
    return Device(CHIP).run(DEFORMABLE, **SMALL)


CLOSE = {"rtol": 1e-4, "atol": 2e-5}
FEW = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def detection(queries: int, seed: int = 1) -> dict[str, Any]:
    """The layer of a detection transformer: 4 levels, 8 heads, 4 points, 32 channels."""
    return deformable(PYRAMID, queries=queries, heads=8, channels=32, points=4, seed=seed)


def check_against_reference(arguments: dict[str, Any], chip: str = CHIP) -> None:
    got = Device(chip).run(DEFORMABLE, **arguments).outputs
    assert_outputs_close(got, as_outputs(arguments, reference(arguments)), **CLOSE)


# -- numbers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("case", numeric_cases(DEFORMABLE), ids=lambda case: case.name)
def test_golden_numbers(case: GoldenCase, chip: str) -> None:
    got = Device(chip).run(DEFORMABLE, **case.arguments).outputs
    assert_outputs_close(got, case.outputs, rtol=case.rtol, atol=case.atol)


@FEW
@given(
    maps=st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=3),
    batch=st.integers(1, 2),
    queries=st.integers(1, 30),
    heads=st.integers(1, 3),
    channels=st.sampled_from([8, 16, 40]),
    points=st.integers(1, 3),
    seed=st.integers(0, 1000),
)
def test_any_shape_agrees_with_the_closed_form(maps: list[tuple[int, int]], **sizes: int) -> None:
    check_against_reference(deformable(maps, **sizes))


@pytest.mark.parametrize("queries", [300, pytest.param(20000, marks=pytest.mark.slow)])
def test_a_detection_transformer_agrees_with_the_closed_form(queries: int) -> None:
    arguments = detection(queries)
    got = Device(CHIP).run(DEFORMABLE, **arguments).outputs
    # Thousands of float32 adds meet in one cell of the smallest map.
    wanted = as_outputs(arguments, reference(arguments))
    assert_outputs_close(got, wanted, rtol=1e-3, atol=1e-3 * queries / 300)


def test_pytorch_agrees() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is an optional second opinion")
    for arguments in (SMALL, detection(60)):
        wanted = torch_reference(arguments, torch)
        got = Device(CHIP).run(DEFORMABLE, **arguments).outputs
        assert got is not None
        for name, array in as_outputs(arguments, wanted).items():
            # It computes coordinates in float64; ours are float32, up to 134 cells from zero.
            atol = 2e-5 * np.abs(array).max()
            assert_close(got[name], array, rtol=1e-4, atol=atol, what=name)


@pytest.mark.parametrize(
    ("kind", "rtol", "atol"), [("float16", 2e-3, 5e-3), ("bfloat16", 0.016, 0.05)]
)
def test_half_types_are_computed_in_float32(kind: str, rtol: float, atol: float) -> None:
    arguments = deformable([(4, 6)], queries=20, kind=kind)
    result = Device(CHIP).run(DEFORMABLE, **arguments)
    wanted = as_outputs(arguments, reference(arguments))
    assert_outputs_close(result.outputs, wanted, rtol=rtol, atol=atol)
    assert [task.name for task in result.tasks].count("Cast") == 4 + 3


def test_points_outside_give_zeros_even_at_infinity_and_nan() -> None:
    arguments = {**SMALL, "location": np.full_like(SMALL["location"], 7.0)}
    arguments["location"].flat[:4] = [np.nan, np.inf, -np.inf, 3e38]
    outputs = Device(CHIP).run(DEFORMABLE, **arguments).outputs
    assert outputs is not None
    assert not any(array.any() for array in outputs.values())


def test_both_ranks_of_the_gradient_and_both_index_types_mean_the_same() -> None:
    wanted = result_of_small().outputs
    assert wanted is not None
    wide = {name: SMALL[name].astype(np.int64) for name in ("spatialShape", "levelStartIndex")}
    split = SMALL["gradOutput"].reshape(2, 9, 3, 16)
    for changed in (wide, {"gradOutput": split}):
        got = Device(CHIP).run(DEFORMABLE, **{**SMALL, **changed}).outputs
        assert_outputs_close(got, wanted, rtol=0, atol=0)


# -- the caller's memory ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "spread"),
    [
        *product(("value", "location", "attnWeight", "gradOutput"), (strided, transposed)),
        ("spatialShape", transposed),
    ],
)
def test_inputs_may_have_any_strides(name: str, spread: Any) -> None:
    plain = result_of_small()
    result = Device(CHIP).run(DEFORMABLE, **{**SMALL, name: spread(SMALL[name])})
    assert plain.outputs is not None
    assert_outputs_close(result.outputs, plain.outputs, rtol=0, atol=0)
    assert len(result.tasks) == len(plain.tasks) + 1


@pytest.mark.parametrize("spread", [np.ascontiguousarray, strided, transposed])
def test_outputs_are_written_where_the_caller_wants_them(spread: Any) -> None:
    plain = result_of_small()
    assert plain.outputs is not None
    targets = {name: spread(np.full_like(array, np.nan)) for name, array in plain.outputs.items()}
    result = Device(CHIP).run(DEFORMABLE, **SMALL, **targets)
    for name, array in plain.outputs.items():
        np.testing.assert_array_equal(targets[name], array)
    names = [task.name for task in result.tasks]
    assert names.count("ViewCopy") == (0 if spread is np.ascontiguousarray else 3)


def test_an_empty_input_writes_nothing() -> None:
    arguments = deformable([(3, 3)], queries=0)
    target = np.full((1, 9, 2, 8), 5.0, np.float32)
    result = Device(CHIP).run(DEFORMABLE, **arguments, gradValue=target)
    assert (target == 5.0).all()
    assert result.workspace_size == 0
    assert result.tasks == ()


# -- what goes wrong -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changed",
    [
        {"levelStartIndex": np.array([0, 36], np.int32)},  # behind the last key
        {"levelStartIndex": np.array([-1, 35], np.int32)},  # before the first one
        {"spatialShape": np.array([[5, 7], [4, 2]], np.int32)},
        {"spatialShape": np.array([[2**30, 2**30], [3, 2]], np.int32)},
    ],
)
def test_a_key_outside_value_stops_the_device_when_it_synchronises(changed: dict[str, Any]) -> None:
    arguments = {**SMALL, **changed, "location": np.full_like(SMALL["location"], 0.999)}
    arguments["location"].flat[:2] = 1e-3
    device = Device(CHIP)
    assert device.check(DEFORMABLE, **arguments).ok
    size, executor = device.get_workspace_size(DEFORMABLE, **arguments)
    stream = device.create_stream()
    assert stream.execute(bytearray(0), size, executor).ok
    with pytest.raises(DeviceFault, match="key") as caught:
        stream.synchronize()
    assert caught.value.code == AclError.ACL_ERROR_RT_VECTOR_CORE_EXCEPTION == 507035


def test_maps_may_be_absurdly_large_as_long_as_no_point_needs_them() -> None:
    case = next(case for case in numeric_cases(DEFORMABLE) if "literal" in case.name)
    assert case.arguments["spatialShape"].min() == 1065353216
    Device(CHIP).run(DEFORMABLE, **case.arguments)  # what is loaded once doesn't count
    tracemalloc.start()
    Device(CHIP).run(DEFORMABLE, **case.arguments)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 64 << 20


def test_levels_may_overlap_and_leave_gaps() -> None:
    arguments = deformable([(3, 3), (3, 3), (2, 4)], queries=6)
    check_against_reference({**arguments, "levelStartIndex": np.array([2, 0, 15], np.int32)})


@pytest.mark.parametrize("chip", ["Ascend910A", "Ascend310P3"])
def test_products_without_the_kernel_say_so(chip: str) -> None:
    with pytest.raises(AclnnError) as caught:
        Device(chip).run(DEFORMABLE, **SMALL)
    assert caught.value.code == StatusCode.ACLNN_ERR_INNER_FIND_KERNEL_ERROR == 561003


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"value": np.zeros((2, 41, 3, 12), np.float32)}, "divisible by 8"),
        ({"attnWeight": SMALL["attnWeight"][:, :5]}, "attnWeight"),
        ({"location": SMALL["location"].astype(np.float16)}, "location"),
        ({"spatialShape": np.ones((2, 3), np.int32)}, "spatialShape"),
    ],
)
def test_wrong_arguments_are_named(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(AclnnError, match=words) as caught:
        Device(CHIP).run(DEFORMABLE, **{**SMALL, **changed})
    assert caught.value.code == StatusCode.ACLNN_ERR_PARAM_INVALID


def test_a_buffer_too_small_for_a_single_block_is_refused() -> None:
    arguments = deformable([(2, 2)], channels=256)
    with pytest.raises(AclnnError, match="scratch"):
        Device(physics.with_ub(CHIP, 32 * 1024)).run(DEFORMABLE, **arguments)


# -- tiling ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "example", tiling_examples(KERNEL), ids=lambda example: str(example["shape"])
)
def test_tiling_examples(example: dict[str, Any]) -> None:
    shape, wanted = example["shape"], example["tiling"]
    names = ("num_heads", "channels", "num_queries", "num_levels", "num_points")
    heads, channels, queries, levels, points = (shape[name] for name in names)
    sizes = Sizes(shape["bs"], 100, heads, channels, queries, levels, points)
    profile = load_profile(f"Ascend{example['soc']}")
    tiling = Tiling.of(profile, sizes, deterministic=shape.get("deterministic", False))
    assert {
        "queries_per_ub": tiling.queries_per_task,
        "query_blocks": tiling.blocks,
        "tasks": tiling.tasks,
        "block_dim": tiling.block_dim,
        "tasks_per_core": tiling.tasks_per_core,
        "kernel_workspace_bytes": KERNEL_WORKSPACE_BYTES,
    } == wanted


@FEW
@given(
    queries=st.integers(1, 2000),
    heads=st.integers(1, 16),
    channels=st.sampled_from([8, 32, 256]),
    cores=st.integers(1, 48),
)
def test_tasks_cover_every_point_once(queries: int, heads: int, channels: int, cores: int) -> None:
    sizes = Sizes(1, 10, heads, channels, queries, 2, 1)
    tiling = Tiling.of(physics.with_cores(CHIP, cores), sizes)
    end = 0
    for block in range(tiling.block_dim):
        points, tasks = tiling.points_of(block), tiling.tasks_of(block)
        assert points.start == end
        end = points.stop
        last = tiling.last_blocks_of(block)
        whole = len(tasks) - last
        assert len(points) == whole * tiling.queries_per_task + last * tiling.last_queries
    assert end == sizes.sampled
    assert tiling.tasks == sizes.planes * ceil(queries / tiling.queries_per_task)


def test_cores_and_buffers_change_no_number() -> None:
    arguments = deformable([(6, 5), (2, 3)], queries=70, heads=2, channels=32, points=2)
    profiles = [
        physics.profile_of(CHIP),
        *(physics.with_cores(CHIP, count) for count in (1, 2, 7)),
        *(physics.with_ub(CHIP, kib * 1024) for kib in (24, 64)),
    ]
    physics.assert_tiling_changes_no_number(profiles, DEFORMABLE, arguments, rtol=1e-5, atol=1e-5)


# -- tasks -----------------------------------------------------------------------------------------


def test_the_chain_of_tasks() -> None:
    plain = result_of_small()
    assert [task.name for task in plain.tasks] == ["Transpose"] * 2 + [KERNEL] + ["Transpose"] * 2
    half = {
        name: a.astype(np.float16) if a.dtype.kind == "f" else a.astype(np.int64)
        for name, a in SMALL.items()
    }
    names = [task.name for task in Device(CHIP).run(DEFORMABLE, **half).tasks]
    assert names == [*["Transpose"] * 2, *["Cast"] * 6, KERNEL, *["Transpose"] * 2, *["Cast"] * 3]
    assert plain.workspace_size > KERNEL_WORKSPACE_BYTES


def test_the_numbers_go_through_the_tiles() -> None:
    with watching() as watches:
        result = Device(CHIP).run(DEFORMABLE, **detection(300))
    watch, task = next(
        pair for pair in zip(watches, result.tasks, strict=True) if pair[1].name == KERNEL
    )
    # The cores but the slowest stand for their average in the timeline.
    assert watch.bytes_read == pytest.approx(task.bytes_read, rel=0.02)
    assert watch.bytes_written == pytest.approx(task.bytes_written, rel=0.02)
    assert watch.largest_tile_bytes <= physics.profile_of(CHIP).buffers.ub_bytes
    assert not watch.overwritten_sums
    value, location, weight = watch.kernel.writes
    assert (watch.of_tensor(watch.writes, value) == 1).all()  # cleared by one core alone
    assert watch.of_tensor(watch.adds, value).any()
    for tensor in (location, weight):  # cleared, and stored
        assert (watch.of_tensor(watch.writes, tensor) == 2).all()


def test_every_part_of_memory_is_freed_and_reused() -> None:
    sizes = [
        Device(CHIP).estimate(DEFORMABLE, **physics.shapes_only(detection(queries))).workspace_size
        for queries in (300, 600)
    ]
    location, weight = 300 * 8 * 16 * 2 * 4, 300 * 8 * 16 * 4
    assert sizes[1] - sizes[0] == 2 * (location + weight)
