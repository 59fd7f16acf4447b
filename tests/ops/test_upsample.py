"""UpsampleNearestExact1dBackward: numbers, tiling, tasks, and physics on every A2 chip."""

from __future__ import annotations

from time import process_time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim import AclnnError, Device, Result, TensorSpec
from npusim.engine import Pipe
from npusim.hardware import Profile, load_profile, profile_names
from npusim.operators.tasks import TaskSpec, kernels_of
from npusim.ops.upsample_nearest_exact1d_backward.kernel import UpsampleNearestExact2dGrad
from npusim.ops.upsample_nearest_exact1d_backward.tiling import Tiling, tile, window_starts
from npusim.values.errors import KernelError
from support import physics
from support.closeness import assert_close, assert_outputs_close
from support.golden import GoldenCase, numeric_cases, tiling_examples
from support.inputs import generator, numpy_kind, strided, transposed
from support.spying import watching

Array = np.ndarray[Any, Any]

UPSAMPLE = "aclnnUpsampleNearestExact1dBackward"
KERNEL = "UpsampleNearestExact2dGrad"
A2 = [name for name in profile_names() if load_profile(name).family in ("A2", "A3")]
OTHERS = [name for name in profile_names() if name not in A2]
CHIP = "Ascend910B3"
TOLERANCE = {"float32": (1e-5, 1e-6), "float16": (2e-3, 1e-3), "bfloat16": (1.6e-2, 4e-3)}
SOME = settings(max_examples=30, deadline=None)


def upsample(
    *shape: int, size: int, scale: float = 0.0, kind: str = "float32", seed: int = 1
) -> dict[str, Any]:
    """A call on a gradient of ``shape`` = (N, C, length)."""
    grad = generator(seed).standard_normal(shape).astype(numpy_kind(kind))
    return call(grad, size, scale)


def call(grad: Array | TensorSpec, size: int, scale: float = 0.0) -> dict[str, Any]:
    return {
        "gradOutput": grad,
        "outputSize": [grad.shape[2]],
        "inputSize": [*grad.shape[:2], size],
        "scales": scale,
    }


def shapes(*shape: int, size: int, scale: float = 0.0, kind: str = "float32") -> dict[str, Any]:
    return call(TensorSpec(shape, kind), size, scale)


def reference(arguments: dict[str, Any]) -> Array:
    """The window form: edges in float32 one by one, sums in float64."""
    grad = arguments["gradOutput"].astype(np.float64)
    length, size = grad.shape[2], arguments["inputSize"][2]
    given = np.float32(arguments["scales"])
    scale = given if given > 0 else np.float32(length) / np.float32(size)

    def edge(column: int) -> int:
        return int(min(np.ceil(np.float32(column) * scale - np.float32(0.5)), np.float32(length)))

    result = np.zeros((*grad.shape[:2], size))
    for column in range(size):
        result[..., column] = grad[..., edge(column) : edge(column + 1)].sum(axis=2)
    return result


def assert_right(arguments: dict[str, Any], chip: str | Profile = CHIP) -> Result:
    """Every element of a prefilled output comes out right."""
    grad = arguments["gradOutput"]
    want = reference(arguments)
    out = np.full(want.shape, np.nan, grad.dtype)
    result = Device(chip).run(UPSAMPLE, **arguments, out=out)
    rtol, atol = TOLERANCE[grad.dtype.name]
    assert_close(out, want.astype(grad.dtype), rtol=rtol, atol=atol * max(1, np.abs(want).max()))
    return result


def tiling_of(arguments: dict[str, Any], chip: str | Profile = CHIP) -> Tiling:
    profile = load_profile(chip) if isinstance(chip, str) else chip
    n, c, length = arguments["gradOutput"].shape
    return tile(profile, n * c, length, arguments["inputSize"][2], arguments["scales"])


# -- golden cases ----------------------------------------------------------------------------------


@pytest.mark.parametrize("chip", A2)
@pytest.mark.parametrize("case", numeric_cases(UPSAMPLE), ids=lambda case: case.name)
def test_golden_cases(case: GoldenCase, chip: str) -> None:
    given_out = {name: np.full_like(array, np.nan) for name, array in case.outputs.items()}
    result = Device(chip).run(UPSAMPLE, **case.arguments, **given_out)
    assert_outputs_close(result.outputs, case.outputs, rtol=case.rtol, atol=case.atol)
    np.testing.assert_array_equal(given_out["out"], result.outputs["out"])  # type: ignore[index]


@pytest.mark.parametrize("chip", OTHERS)
def test_older_products_have_no_kernel(chip: str) -> None:
    with pytest.raises(AclnnError) as caught:
        Device(chip).run(UPSAMPLE, **upsample(1, 1, 6, size=3))
    assert caught.value.code == 561003
    assert "Ascend910B1..B4" in str(caught.value)


# -- numbers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("batch", "channels", "size", "length", "kind"),
    [
        (8, 2, 2, 100, "float32"),
        (4, 3, 1, 2, "float32"),
        (1, 4, 2, 8, "float16"),
        (8, 8, 8, 12, "bfloat16"),
        (2, 3, 2, 3, "float32"),
        (4, 10, 16, 15, "float16"),
        (10, 4, 3, 2, "bfloat16"),
        (4, 1, 20, 368, "float32"),
        (5, 2, 16, 512, "float16"),
        (6, 6, 30, 208, "bfloat16"),
        (2, 2, 3441, 9234, "float32"),
        (7, 6, 14777, 12768, "float16"),
        (1, 5, 5663, 8779, "bfloat16"),
    ],
)
def test_shapes_of_the_public_tests(
    batch: int, channels: int, size: int, length: int, kind: str
) -> None:
    """Source: Ascend/op-plugin test_upsample_nearest_exact1d_backward.py."""
    assert_right(upsample(batch, channels, length, size=size, kind=kind))
    ones = call(np.ones((batch, channels, length), numpy_kind(kind)), size)
    got = assert_right(ones).outputs
    assert got is not None
    assert got["out"].astype(np.float64).sum() == pytest.approx(batch * channels * length, rel=2e-3)


@SOME
@given(
    st.integers(1, 3),
    st.integers(1, 60),
    st.integers(1, 900),
    st.integers(1, 900),
    st.sampled_from(["float32", "float16", "bfloat16"]),
    st.sampled_from(A2),
)
def test_any_shape(batch: int, channels: int, size: int, length: int, kind: str, chip: str) -> None:
    assert_right(upsample(batch, channels, min(length, 50 * size), size=size, kind=kind), chip)


@SOME
@given(st.integers(1, 300), st.floats(0.01, 50.0), st.integers(1, 40))
def test_a_scale_that_agrees_with_the_sizes(size: int, scale: float, rows: int) -> None:
    length = max(1, int(size * scale))
    assert_right(upsample(rows, 1, length, size=size, scale=scale))


@SOME
@given(st.integers(1, 200), st.integers(1, 400), st.floats(0.001, 50.0))
def test_a_scale_that_contradicts_the_sizes_counts(size: int, length: int, scale: float) -> None:
    assert_right(upsample(3, 2, length, size=size, scale=scale))


@pytest.mark.parametrize("size", [5, 100])
def test_a_scale_of_one_doesnt_hide_that_sizes_differ(size: int) -> None:
    """Rows of different lengths can't be copied one after the other."""
    arguments = upsample(4, 5, 40, size=size, scale=1.0)
    result = assert_right(arguments)
    assert result.outputs is not None
    kept = min(size, 40)
    np.testing.assert_array_equal(
        result.outputs["out"][..., :kept], arguments["gradOutput"][..., :kept]
    )
    assert not result.outputs["out"][..., kept:].any()


def test_a_scale_of_next_to_nothing_sums_up_nothing() -> None:
    result = assert_right(upsample(2, 3, 20, size=5, scale=1e-8))
    assert result.outputs is not None
    assert not result.outputs["out"].any()


def test_every_gradient_column_goes_to_one_output_column() -> None:
    for size, length in ((7, 5), (64, 128), (65, 3000), (1000, 999), (333, 1000)):
        scale = float(np.float32(length) / np.float32(size))
        edges = window_starts(np.arange(size + 1), scale, length)
        assert edges[0] == 0
        assert edges[-1] == length
        assert (np.diff(edges) >= 0).all()


def test_half_types_are_summed_in_float32_and_rounded_once() -> None:
    """2048 + 47 times 1/2 is 2071.5; added up in halves it would stay 2048."""
    grad = np.full((1, 1, 48), 0.5, np.float16)
    grad[0, 0, 0] = 2048
    outputs = Device(CHIP).run(UPSAMPLE, **call(grad, 1)).outputs
    assert outputs is not None
    assert outputs["out"][0, 0, 0] == np.float16(2071.5)


def test_what_isnt_finite_spreads_over_its_slide() -> None:
    """Zeros of the selection matrix times infinity: a slide is 64 columns wide."""
    grad = np.ones((2, 1, 256), np.float32)
    grad[0, 0, 10] = np.inf
    outputs = Device(CHIP).run(UPSAMPLE, **call(grad, 128)).outputs
    assert outputs is not None
    first = outputs["out"][0, 0]
    assert np.isinf(first[5])
    assert np.isnan(np.delete(first[:64], 5)).all()
    np.testing.assert_array_equal(first[64:], 2.0)
    np.testing.assert_array_equal(outputs["out"][1], 2.0)


def test_against_torch() -> None:
    torch = pytest.importorskip("torch", reason="torch is the second opinion")
    for shape, size in (((2, 3, 12), 5), ((1, 4, 100), 50), ((3, 1, 30), 77), ((2, 2, 640), 320)):
        arguments = upsample(*shape, size=size)
        want = torch.ops.aten._upsample_nearest_exact1d_backward(
            torch.from_numpy(arguments["gradOutput"].astype(np.float64)),
            [shape[2]],
            [*shape[:2], size],
            None,
        ).numpy()
        np.testing.assert_allclose(reference(arguments), want, rtol=1e-12, atol=1e-12)
        assert_right(arguments)


# -- layouts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("layout", "task"), [(strided, "StridedSlice"), (transposed, "Transpose")])
def test_a_strided_gradient_costs_a_task(layout: Any, task: str) -> None:
    dense = upsample(2, 6, 30, size=12)
    result = assert_right({**dense, "gradOutput": layout(dense["gradOutput"])})
    assert [each.name for each in result.tasks] == [task, KERNEL]


def test_a_strided_output_costs_a_task() -> None:
    arguments = upsample(2, 6, 30, size=12)
    wide = np.full((2, 6, 24), np.nan, np.float32)
    result = Device(CHIP).run(UPSAMPLE, **arguments, out=wide[..., ::2])
    assert [task.name for task in result.tasks] == [KERNEL, "ViewCopy"]
    np.testing.assert_allclose(wide[..., ::2], reference(arguments), rtol=1e-5, atol=1e-5)
    assert np.isnan(wide[..., 1::2]).all()


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_half_types_are_cast_before_and_after(kind: str) -> None:
    result = assert_right(upsample(2, 6, 30, size=12, kind=kind))
    assert [task.name for task in result.tasks] == ["Cast", KERNEL, "Cast"]


# -- tiling ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("example", tiling_examples(KERNEL), ids=lambda raw: str(raw["shape"]))
def test_tiling_examples(example: dict[str, Any]) -> None:
    shape, wanted = example["shape"], dict(example["tiling"])
    rows = (shape["N"], shape["C"])
    arguments = shapes(
        *rows, shape["gradOutput_L"], size=shape["inputSize_L"], scale=shape["scales"]
    )
    tiling = tiling_of(arguments, f"Ascend{example['soc']}")
    assert tiling.slide == wanted["slide"]
    assert tiling.k == wanted["k_w"]
    assert tiling.block_dim == wanted["block_dim"]
    assert tiling.workspace_bytes == wanted["kernel_workspace_bytes"]
    if wanted.get("identity_copy_as_matmul"):
        assert tiling.copies
        assert tiling.rows_per_core == wanted["batches_per_core"]
    else:
        assert tiling.slides == wanted["slides"]
        assert tiling.slides_per_core == wanted["slides_per_core"]
        assert tiling.tail_slides == wanted["tail_slides"]
        assert tiling.tail_group == wanted["cores_per_tail_slide"]
        assert tiling.tail_rows == wanted["rows_per_core"]
    result = Device(f"Ascend{example['soc']}").estimate(UPSAMPLE, **arguments)
    assert [task.block_dim for task in result.tasks] == [wanted["block_dim"]]
    assert result.workspace_size == wanted["kernel_workspace_bytes"]


@pytest.mark.parametrize(
    ("tiling", "wanted"),
    [
        (Tiling(rows=1, length=128, size=128, scale=1.0, cores=1), 33593344),
        (Tiling(rows=2, length=64, size=32, scale=2.0, cores=1, itemsize=2), 33588224),
    ],
)
def test_published_workspaces(tiling: Tiling, wanted: int) -> None:
    """Source: ops-cv test_upsample_nearest_exact2d_backward_tiling.cpp; the second is of halves."""
    assert tiling.workspace_bytes == wanted


@pytest.mark.parametrize(
    ("scale", "slide"),
    [(0.1, 64), (5.0, 64), (5.1, 48), (8.0, 48), (8.1, 32), (20.0, 32), (20.1, 16), (50.0, 16)],
)
def test_wider_scales_make_narrower_slides(scale: float, slide: int) -> None:
    assert tile(load_profile(CHIP), 1, 1000, 1000, scale).slide == slide


@SOME
@given(st.integers(1, 5000), st.integers(1, 3000), st.integers(1, 200), st.sampled_from(A2))
def test_slides_and_rows_are_dealt_out_exactly(
    size: int, length: int, rows: int, chip: str
) -> None:
    tiling = tile(load_profile(chip), rows, min(length, 50 * size), size, 0.0)
    if tiling.copies:
        return
    done = np.zeros((rows, size), np.int64)
    for block in range(tiling.block_dim):
        for slide in tiling.whole(block):
            done[:, slide.first : slide.first + slide.width] += 1
        tail = tiling.tail(block)
        if tail is not None:
            assert tail.rows > 0
            columns = slice(tail.slide.first, tail.slide.first + tail.slide.width)
            done[tail.row : tail.row + tail.rows, columns] += 1
    assert (done == 1).all()
    for slide in tiling.all_slides:
        assert 1 <= slide.k <= tiling.k
        assert 0 <= slide.start <= slide.start + slide.k <= tiling.length


@pytest.mark.parametrize("rows", [1, 7, 24, 25, 100, 1000])
@pytest.mark.parametrize("cores", [1, 7, 24])
def test_rows_that_are_copied_are_dealt_to_the_cores_there_are(rows: int, cores: int) -> None:
    tiling = Tiling(rows=rows, length=300, size=300, scale=1.0, cores=cores)
    assert tiling.copies
    assert tiling.block_dim <= cores
    assert (tiling.block_dim - 1) * tiling.rows_per_core < rows
    assert rows <= tiling.block_dim * tiling.rows_per_core < rows + cores


# -- the schedule ----------------------------------------------------------------------------------


def test_the_product_runs_tile_by_tile_on_the_cube() -> None:
    """2000 rows of 128 columns by a 0/1 matrix of 64: as many products as the tiles have."""
    arguments = upsample(20, 100, 256, size=128)
    with watching() as watches:
        result = Device(CHIP).run(UPSAMPLE, **arguments)
    (watch,) = watches
    assert isinstance(watch.kernel, UpsampleNearestExact2dGrad)
    assert watch.elements["mmad"] == 2000 * 128 * 128
    assert watch.largest_tile_bytes <= load_profile(CHIP).buffers.l0c_bytes
    assert {"CUBE", "MTE1", "MTE2", "FIXP", "VECTOR", "MTE3"} <= set(result.tasks[0].pipes)


def test_the_cores_of_a_cluster_in_the_timeline() -> None:
    result = Device(CHIP).estimate(UPSAMPLE, **shapes(2, 50, 256, size=128))
    assert result.timeline.cores[:4] == (
        "core0.cubecore0",
        "core0.veccore0",
        "core0.veccore1",
        "core1.cubecore0",
    )
    pipes: dict[str, set[str]] = {}
    for each in result.timeline.slices():
        pipes.setdefault(each.core, set()).add(each.pipe)
    assert pipes["core0.cubecore0"] == {"SCALAR", "MTE2", "MTE1", "CUBE", "FIXP"}
    assert pipes["core0.veccore0"] == {"SCALAR", "VECTOR", "MTE3"}
    assert pipes["core0.veccore1"] == {"SCALAR"}
    names = {each.name for each in result.timeline.slices(["core0.veccore0"])}
    assert {"vconv", "vmuls", "vector_dup", "st_ub", "copy_ubuf_to_gm", "wait_flag_dev"} <= names


def test_the_selection_matrix_takes_a_store_per_gradient_column() -> None:
    def stores(length: int) -> list[float]:
        result = Device(CHIP).estimate(UPSAMPLE, **shapes(1, 1, length, size=64))
        return [
            each.duration_us
            for each in result.timeline.slices(["core0.veccore0"])
            if each.detail.endswith("stores")
        ]

    (few,), (many,) = stores(100), stores(300)
    assert many == pytest.approx(3 * few)


def test_the_matrix_is_there_before_the_product_starts() -> None:
    profile = load_profile(CHIP)
    result = Device(CHIP).estimate(UPSAMPLE, **shapes(1, 1, 128, size=64))
    slices = list(result.timeline.slices())
    (stored,) = [each for each in slices if each.name == "copy_ubuf_to_gm"]
    loads = [each for each in slices if each.pipe == "MTE2" and "cube" in each.core]
    assert profile.launch.sync_flag_us is not None
    ready = stored.start_us + stored.duration_us + profile.launch.sync_flag_us
    assert min(each.start_us for each in loads) >= ready


def test_an_unscaled_gradient_is_copied_row_by_row() -> None:
    """Every row is a product of its own, and every product is called for."""
    profile = load_profile(CHIP)
    arguments = upsample(10, 20, 300, size=300)
    result = assert_right(arguments)
    (task,) = result.tasks
    assert task.block_dim == profile.cores.cube_cores
    flag_us = profile.launch.sync_flag_us
    assert flag_us is not None
    assert task.duration_us > 10 * 2 * flag_us
    summed = Device(CHIP).estimate(UPSAMPLE, **shapes(10, 20, 300, size=299))
    assert summed.duration_us < result.duration_us


def test_a_record_of_the_operator() -> None:
    profile = load_profile(CHIP)
    spec, out = TensorSpec((2, 3, 1, 60), "float32"), TensorSpec((2, 3, 1, 30), "float32")
    (kernel,) = kernels_of(profile, TaskSpec(KERNEL, (spec,), (out,), {"scales_w": 2.0}))
    assert isinstance(kernel, UpsampleNearestExact2dGrad)
    assert (kernel.tiling.rows, kernel.tiling.scale) == (6, 2.0)
    tall = TensorSpec((2, 3, 4, 60), "float32")
    with pytest.raises(KernelError, match="only rows"):
        kernels_of(profile, TaskSpec(KERNEL, (tall,), (out,)))


# -- physics ---------------------------------------------------------------------------------------

MANY_ROWS = shapes(16, 256, 512, size=256)
FEW_ROWS = shapes(2, 2, 9234, size=3441)
COPIED = shapes(8, 64, 1000, size=1000)
SLOW_STEPS = shapes(3, 1, 300_000, size=100_000)


@pytest.mark.parametrize("chip", A2)
@pytest.mark.parametrize("arguments", [MANY_ROWS, FEW_ROWS, COPIED])
def test_never_below_the_roofline(chip: str, arguments: dict[str, Any]) -> None:
    physics.assert_above_roofline(chip, UPSAMPLE, arguments)


@pytest.mark.parametrize("chip", [A2[0], A2[-1]])
def test_more_of_anything_takes_longer(chip: str) -> None:
    rows = [shapes(rows, 64, 1024, size=512) for rows in (1, 4, 16, 64, 256)]
    physics.assert_larger_is_not_faster(chip, UPSAMPLE, rows)
    columns = [shapes(64, 64, 2 * size, size=size) for size in (256, 1280, 6400, 12800)]
    physics.assert_larger_is_not_faster(chip, UPSAMPLE, columns)
    scales = [shapes(64, 1, scale * 320, size=320) for scale in (1, 2, 5, 8, 20, 50)][1:]
    physics.assert_larger_is_not_faster(chip, UPSAMPLE, scales)


def test_more_cores_are_not_slower_when_the_work_divides() -> None:
    arguments = shapes(64, 64, 2 * 64 * 40, size=64 * 40)
    physics.assert_more_cores_help(CHIP, UPSAMPLE, arguments, (4, 8, 20, 40))
    physics.assert_more_cores_help(CHIP, UPSAMPLE, COPIED, (4, 8, 16, 32))


@pytest.mark.parametrize("arguments", [MANY_ROWS, FEW_ROWS, COPIED, SLOW_STEPS])
def test_jumping_ends_where_playing_does(arguments: dict[str, Any]) -> None:
    physics.assert_players_agree(CHIP, UPSAMPLE, arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        upsample(3, 50, 300, size=77),
        upsample(1, 2, 9000, size=4000, kind="float16"),
        upsample(4, 30, 200, size=200, kind="bfloat16"),
        upsample(1, 1, 40, size=4000),
    ],
)
def test_time_needs_no_data(arguments: dict[str, Any]) -> None:
    physics.assert_time_needs_no_data(CHIP, UPSAMPLE, arguments)


@pytest.mark.parametrize("shape", [(4, 60, 300, 77), (1, 3, 5000, 2500), (2, 30, 400, 400)])
def test_every_output_is_written_once(shape: tuple[int, int, int, int]) -> None:
    arguments = upsample(*shape[:3], size=shape[3])
    physics.assert_written_once(CHIP, UPSAMPLE, arguments)


@pytest.mark.parametrize("shape", [(4, 60, 300, 77), (1, 3, 5000, 2500), (2, 30, 400, 400)])
def test_the_numbers_pay_for_themselves(shape: tuple[int, int, int, int]) -> None:
    """Slides that differ by a column are recorded alike, a narrow last one like the others."""
    arguments = upsample(*shape[:3], size=shape[3])
    physics.assert_numbers_pay_for_themselves(CHIP, UPSAMPLE, arguments, tolerance=0.03)


@SOME
@given(
    st.integers(1, 40),
    st.integers(98304, 262144),
    st.integers(17, 20),
    st.integers(1, 70),
    st.integers(1, 700),
    st.integers(1, 700),
)
def test_other_chips_give_the_same_numbers(
    cores: int, ub_bytes: int, l1_bits: int, rows: int, size: int, length: int
) -> None:
    """Cores, UB and L1 change the tiles, not the sums."""
    other = physics.with_ub(physics.with_cores(CHIP, cores), ub_bytes)
    buffers = other.buffers.model_copy(update={"l1_bytes": 1 << l1_bits})
    other = other.model_copy(update={"buffers": buffers})
    arguments = upsample(rows, 1, min(length, 10 * size), size=size)
    physics.assert_tiling_changes_no_number(
        [load_profile(CHIP), other], UPSAMPLE, arguments, rtol=1e-5, atol=1e-5
    )


def test_a_matrix_that_ub_cant_hold_is_refused() -> None:
    small = physics.with_ub(CHIP, 32768)
    with pytest.raises(AclnnError, match="selection"):
        Device(small).run(UPSAMPLE, **upsample(1, 1, 1000, size=200))


def test_the_same_in_another_process() -> None:
    calls = [(CHIP, UPSAMPLE, arguments) for arguments in (MANY_ROWS, FEW_ROWS, COPIED)]
    physics.assert_same_in_another_process(calls)


def test_what_limits_it() -> None:
    """Few rows wait for the scalar unit and the flags, many rows for memory."""
    few = Device(CHIP).estimate(UPSAMPLE, **shapes(1, 1, 200, size=100))
    assert few.bound.startswith("latency bound")
    many = Device(CHIP).estimate(UPSAMPLE, **shapes(64, 256, 8192, size=4096))
    assert many.bound == "memory bound"
    assert Pipe.VECTOR in physics.busy_pipes(few)


# -- large -----------------------------------------------------------------------------------------


def test_an_estimate_costs_the_same_for_any_size() -> None:
    for arguments in (
        shapes(64, 256, 8192, size=4096),
        shapes(64, 256, 4096, size=4096),
        shapes(1, 1, 10_000_000, size=1_000_000),
    ):
        begun = process_time()
        Device(CHIP).estimate(UPSAMPLE, **arguments)
        assert process_time() - begun < 2.0


@pytest.mark.slow
def test_a_large_gradient_is_right() -> None:
    grad = generator(0).integers(-8, 9, (64, 256, 8192), np.int8).astype(np.float32)
    result = Device(CHIP).run(UPSAMPLE, **call(grad, 4096))
    assert result.outputs is not None
    want = grad[..., ::2] + grad[..., 1::2]
    np.testing.assert_array_equal(result.outputs["out"], want)
    estimated = Device(CHIP).estimate(UPSAMPLE, **shapes(64, 256, 8192, size=4096))
    assert result.cycles == estimated.cycles
