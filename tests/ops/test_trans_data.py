"""TransData: numbers both ways on every shape, and what it costs."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, prod
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim.ascendc import GlobalTensor, GmBuffer, trace
from npusim.ascendc.task import Task, made
from npusim.operators.tasks import kernels_on
from npusim.ops.data_movement.trans_data import TransData
from npusim.runtime.task import run_tasks
from npusim.values.dtypes import FLOAT, dtype
from npusim.values.errors import KernelError
from npusim.values.formats import Format
from support import physics
from support.inputs import generator, numpy_kind
from support.kernels import content, gm
from support.spying import watching
from support.tasks import run, tensor

if TYPE_CHECKING:
    from npusim.hardware import Profile
    from npusim.runtime.timeline import TaskResult

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

ONE_OF_EACH = ["Ascend910A", "Ascend910B3", "Ascend310P3"]
SHAPES: list[Shape] = [
    (2, 3, 2, 4),
    (1, 17, 5, 4),
    (3, 40, 7, 7),
    (20, 48, 7, 7),
    (2, 255, 33, 6),
    (1, 32, 60, 61),
    (1, 17, 41, 130),
    (5, 3),
    (3, 33, 1, 1),
    (2, 16, 9),
    (2, 20, 3, 4, 5),
    (1, 16, 16001),
]


def packed_shape(shape: Shape, c0: int) -> Shape:
    images, channels, *spatial = shape
    return (images, ceil(channels / c0), *spatial, c0)


def packed(planar: Array, c0: int = 16) -> Array:
    """The other layout by whole-array NumPy."""
    images, channels, *spatial = planar.shape
    slices = ceil(channels / c0)
    padded = np.zeros((images, slices * c0, *spatial), planar.dtype)
    padded[:, :channels] = planar
    cut = padded.reshape(images, slices, c0, *spatial)
    return np.ascontiguousarray(np.moveaxis(cut, 2, -1))


def turn(chip: Any, source: Array, shape: Shape) -> tuple[Array, TaskResult]:
    """The task from one array to another of `shape`, which starts as rubbish."""
    target = np.full(shape, 77, source.dtype)
    profile = physics.profile_of(chip)
    kernel = TransData(profile, gm(source, "src"), gm(target, "dst"))
    (task,) = run_tasks([kernel], profile, numerics=True).tasks
    return content(kernel.writes[0]), task


def timed(chip: Any, source: Shape, target: Shape, kind: str = "float32") -> TaskResult:
    """The same from shapes alone."""
    profile, found = physics.profile_of(chip), dtype(kind)
    tensors = [
        GlobalTensor(GmBuffer(name, prod(shape) * found.itemsize), found, shape)
        for name, shape in (("src", source), ("dst", target))
    ]
    kernel = TransData(profile, *tensors)
    return run_tasks([kernel], profile).tasks[0]


def numbers(shape: Shape, kind: str = "float32", seed: int = 1) -> Array:
    return generator(seed).standard_normal(shape).astype(numpy_kind(kind))


@pytest.mark.parametrize("chip", ONE_OF_EACH)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_both_ways(shape: Shape, chip: str) -> None:
    x = numbers(shape)
    there, _ = turn(chip, x, packed_shape(shape, 16))
    np.testing.assert_array_equal(there, packed(x))
    back, _ = turn(chip, there, shape)
    np.testing.assert_array_equal(back, x)


def fractals(matrices: Array) -> Array:
    """Matrices in FRACTAL_NZ, by whole-array NumPy."""
    *outer, rows, columns = matrices.shape
    high, slices = ceil(rows / 16), ceil(columns / 16)
    padded = np.zeros((*outer, high * 16, slices * 16), matrices.dtype)
    padded[..., :rows, :columns] = matrices
    cut = padded.reshape(*outer, high, 16, slices, 16)
    return np.ascontiguousarray(np.moveaxis(cut, -2, -4))


@pytest.mark.parametrize("chip", ONE_OF_EACH)
@pytest.mark.parametrize(
    "shape",
    [
        (2, 3, 64, 26),
        (33, 16, 32),
        (3, 16, 144, 32),
        (5, 7, 1, 1),
        (2, 97, 13, 5),
        (4, 65, 64),
        (3, 2, 513, 40),
        (2, 48, 4100),
        (2, 2, 17, 5003),
        (1, 1, 300, 312),
        (19, 384, 16),
        (7, 600, 7),
        (17, 16, 256),
        (2, 20, 15, 900),
        (33, 2, 312),
    ],
    ids=str,
)
def test_matrices_both_ways(shape: Shape, chip: str) -> None:
    """Batches of matrices of any size, also those whose fractals have as many axes as volumes."""
    x = numbers(shape, "float16")
    want = fractals(x)
    (there,) = run(chip, "TransData", [x], [np.full_like(want, 77)])
    np.testing.assert_array_equal(there, want)
    (back,) = run(chip, "TransData", [there], [np.full_like(x, 77)])
    np.testing.assert_array_equal(back, x)


@pytest.mark.parametrize("chip", ["Ascend910A", "Ascend310P3"])
def test_small_matrices_go_together(chip: str) -> None:
    """Heads of attention take what their bytes take in one matrix, whatever axes name them."""
    profile = physics.profile_of(chip)

    def us(shape: Shape) -> float:
        *outer, rows, columns = shape
        blocked = (*outer, columns // 16, rows // 16, 16, 16)
        x, y = (made(each, dtype("float16")) for each in (shape, blocked))
        return run_tasks(kernels_on(Task(profile, "TransData", (x,), (y,))), profile).duration_us

    one = us((64 * 144, 512))
    assert us((1024, 144, 32)) == us((64, 16, 144, 32)) < 1.3 * one


@pytest.mark.parametrize("shape", [(3, 5, 4, 3, 7), (1, 40, 3, 5, 5), (2, 33, 1, 4, 9)], ids=str)
def test_volumes_both_ways(shape: Shape) -> None:
    """NCDHW and NDC1HWC0, where images, depths or slices are one."""
    x = numbers(shape, "float16")
    images, channels, depth, *plane = shape
    planes = np.moveaxis(x, 2, 1).reshape(images * depth, channels, *plane)
    want = packed(planes).reshape(images, depth, -1, *plane, 16)
    for chip in ONE_OF_EACH:
        (there,) = run(chip, "TransData", [x], [np.full_like(want, 77)])
        np.testing.assert_array_equal(there, want)
        (back,) = run(chip, "TransData", [there], [np.full_like(x, 77)])
        np.testing.assert_array_equal(back, x)


@pytest.mark.parametrize(("kind", "c0"), [("float16", 16), ("float32", 8), ("int8", 32)])
def test_other_dtypes_and_slices(kind: str, c0: int) -> None:
    x = (numbers((3, 50, 5, 9)) * 20).astype(numpy_kind(kind))
    for chip in ONE_OF_EACH:
        there, _ = turn(chip, x, packed_shape(x.shape, c0))
        np.testing.assert_array_equal(there, packed(x, c0))
        np.testing.assert_array_equal(turn(chip, there, x.shape)[0], x)


def test_padding_that_holds_rubbish_is_left_behind() -> None:
    x = numbers((2, 18, 4, 5))
    dirty = packed(x)
    dirty[:, 1, ..., 2:] = np.nan
    np.testing.assert_array_equal(turn("Ascend910B3", dirty, x.shape)[0], x)


@settings(max_examples=40, deadline=None)
@given(
    images=st.integers(1, 6),
    channels=st.integers(1, 50),
    spatial=st.lists(st.integers(1, 40), max_size=2),
    cores=st.sampled_from([1, 3, 8, 40]),
    ub=st.sampled_from([16 * 1024, 40 * 1024, 192 * 1024]),
    chip=st.sampled_from(ONE_OF_EACH),
)
def test_tiling_changes_no_number(
    images: int, channels: int, spatial: list[int], cores: int, ub: int, chip: str
) -> None:
    profile = physics.with_ub(physics.with_cores(chip, cores), ub)
    x = numbers((images, channels, *spatial))
    there, run = turn(profile, x, packed_shape(x.shape, 16))
    np.testing.assert_array_equal(there, packed(x))
    np.testing.assert_array_equal(turn(profile, there, x.shape)[0], x)
    assert run == timed(profile, x.shape, there.shape)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_element_is_stored_once_and_paid_for(shape: Shape) -> None:
    x = numbers(shape)
    for source, target in ((x, packed_shape(shape, 16)), (packed(x), shape)):
        with watching() as watches:
            _, task = turn("Ascend910B3", source, target)
        (watch,) = watches
        physics.assert_covered(watch, watches, watch.kernel.writes[0])
        assert watch.bytes_written == task.bytes_written == prod(target) * 4
        assert watch.bytes_read == task.bytes_read
        assert task.bytes_read <= source.nbytes


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ((2, 17, 5), (2, 1, 5, 16)),
        ((2, 17, 5), (2, 2, 6, 16)),
        ((2, 17, 5), (2, 2, 5, 4)),
        ((2, 17, 5), (2, 17, 5)),
        ((17,), (2, 16)),
        ((3, 2, 8, 16, 16), (3, 2, 8, 16)),
    ],
)
def test_tensors_that_are_not_one_in_two_layouts(source: Shape, target: Shape) -> None:
    with pytest.raises(KernelError, match="in another layout"):
        timed("Ascend910B3", source, target)


def test_dtypes_have_to_be_one() -> None:
    x = gm(numbers((2, 16, 5)))
    other = replace(gm(packed(numbers((2, 16, 5)))), dtype=dtype("int32"))
    with pytest.raises(KernelError, match="in another layout"):
        TransData(physics.profile_of("Ascend910B3"), x, other)


# -- physics ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("chip", ONE_OF_EACH)
def test_time_is_above_the_roofline(chip: str) -> None:
    profile = physics.profile_of(chip)
    for shape in ((64, 256, 7, 7), (1, 256, 100, 100), (8, 48, 40, 40)):
        for pair in ((shape, packed_shape(shape, 16)), (packed_shape(shape, 16), shape)):
            task = timed(profile, *pair)
            moved = sum(prod(each) * 4 for each in pair)
            assert task.duration_us >= physics.roofline_us(profile, moved, {})
            assert all(0 <= ratio <= 1 + 1e-9 for ratio in task.pipes.values())


def larger(profile: Profile, *shapes: Shape) -> list[float]:
    return [timed(profile, shape, packed_shape(shape, 16)).duration_us for shape in shapes]


@pytest.mark.parametrize("chip", ONE_OF_EACH)
def test_more_elements_are_not_faster(chip: str) -> None:
    profile = physics.profile_of(chip)
    for shapes in (
        [(n, 64, 7, 7) for n in (1, 10, 100, 1000)],
        [(4, c, 20, 20) for c in (16, 64, 256, 1024)],
        [(1, 64, s, s) for s in (10, 30, 100, 300)],
    ):
        times = larger(profile, *shapes)
        assert times == sorted(times)


def test_many_cores_share_a_few_slices() -> None:
    """One image of 32 channels has two slices; their rows are cut so that more cores have work."""
    shape = (1, 32, 200, 200)
    task = timed("Ascend910B3", shape, packed_shape(shape, 16))
    assert task.block_dim > 2
    few = timed(physics.with_cores("Ascend910B3", 2), shape, packed_shape(shape, 16))
    assert task.duration_us < few.duration_us / 2


def test_a_chip_that_turns_16_bits_at_a_time_needs_two_passes() -> None:
    for kind, passes in (("float16", (1, 1)), ("float32", (1, 2))):
        for chip, wanted in zip(("Ascend910B3", "Ascend910A"), passes, strict=True):
            x = numbers((1, 16, 4, 4), kind)
            kernel = TransData(physics.profile_of(chip), gm(x), gm(packed(x)))
            (group,) = trace(kernel, physics.profile_of(chip), numerics=False)
            names = [instruction.name for instruction, _ in group.program.instructions()]
            assert names.count("vnchwconv") == wanted


@pytest.mark.parametrize("shape", [(64, 256, 7, 7), (1, 256, 50, 68)])
def test_double_buffering_helps(shape: Shape) -> None:
    double = timed("Ascend910B3", shape, packed_shape(shape, 16))
    with physics.queue_depth(1):
        single = timed("Ascend910B3", shape, packed_shape(shape, 16))
    assert double.cycles <= single.cycles


def test_weights_of_ragged_channels_are_dealt_out_as_whole_ones_are() -> None:
    """Out of FRACTAL_Z_3D: 63 output channels aren't left to a few cores."""
    ragged, whole = (
        run_tasks(
            kernels_on(
                Task(
                    physics.profile_of("Ascend910B3"),
                    "TransData",
                    (GlobalTensor(GmBuffer("x", 54 * 4 * 1024), FLOAT, (54, 4, 16, 16)),),
                    (GlobalTensor(GmBuffer("y", outs * 31 * 108), FLOAT, (outs, 31, 3, 3, 3)),),
                )
            ),
            physics.profile_of("Ascend910B3"),
        ).duration_us
        for outs in (63, 64)
    )
    assert ragged == pytest.approx(whole, rel=0.2)


@pytest.mark.parametrize(
    ("side", "forward", "spaced"), [(6, True, 1), (6, False, 1), (13, True, 0), (8, True, 0)]
)
def test_short_ragged_channels_of_feature_maps_are_spaced_one_by_one(
    side: int, forward: bool, spaced: int
) -> None:
    """Those of whole blocks, long ones, and ones that don't fill a line are turned as they are."""
    profile = physics.profile_of("Ascend910B2")
    plain, blocked = (32, 48, side, side), (32, 3, side, side, 16)

    def moves(source: Shape, target: Shape) -> int:
        tensors = (
            GlobalTensor(GmBuffer(name, 4 * prod(shape)), FLOAT, shape)
            for name, shape in (("x", source), ("y", target))
        )
        x, y = tensors
        (kernel,) = kernels_on(Task(profile, "TransData", (x,), (y,)))
        group = trace(kernel, profile, numerics=False)[0]
        return sum(
            times
            for each, times in group.program.instructions()
            if each.name == "copy_ubuf_to_ubuf"
        )

    assert moves(*((plain, blocked) if forward else (blocked, plain))) == 48 * spaced
    assert moves((64, 16, 5, 5), (50, 4, 16, 8)) == 16 * 20  # channels of a block's 20 outputs
    assert moves((64, 16, 3, 3), (18, 4, 16, 8)) == 0


def weights_task(shape: Shape, blocked: Shape, kind: str) -> Task:
    """TransData of weights of ``shape`` into the layout of ``blocked``."""
    x, y = (
        GlobalTensor(GmBuffer(name, dtype(kind).itemsize * prod(sizes)), dtype(kind), sizes)
        for name, sizes in (("x", shape), ("y", blocked))
    )
    return Task(physics.profile_of("Ascend910B2"), "TransData", (x,), (y,))


@pytest.mark.parametrize(
    ("shape", "blocked", "blocks"),
    [
        ((192, 64, 5, 5), (200, 12, 16, 8), 39),
        ((64, 3, 11, 11), (121, 4, 16, 8), 8),
        ((16, 5, 3, 3), (9, 1, 16, 8), 1),
        ((512, 131, 3, 3), (153, 32, 16, 8), 48),  # 103 tiles of 5 and less
    ],
)
def test_weights_are_dealt_out_in_tiles_of_output_channels(
    shape: Shape, blocked: Shape, blocks: int
) -> None:
    task = weights_task(shape, blocked, "float32")
    (kernel,) = kernels_on(task)
    assert kernel.block_dim == blocks
    assert run_tasks((kernel,), task.profile).duration_us > 0


@pytest.mark.parametrize("outs", [1, 15, 17, 127, 509])
@pytest.mark.parametrize("kind", ["float16", "float32"])
def test_ragged_weights_fit_into_ub(outs: int, kind: str) -> None:
    """Fractals are of 16 output channels, however many there are."""
    c0 = 32 // dtype(kind).itemsize
    shape = (outs, 127, 5, 5)
    blocked = (ceil(127 / c0) * 25, ceil(outs / 16), 16, c0)
    task = weights_task(shape, blocked, kind)
    assert run_tasks(kernels_on(task), task.profile).duration_us > 0


@pytest.mark.parametrize("shape", [(400, 482, 2, 3, 1), (17, 482, 3, 3, 3), (33, 1000, 5, 1, 1)])
@pytest.mark.parametrize("kind", ["float16", "float32"])
def test_ragged_weights_of_volumes_fit_into_ub(shape: Shape, kind: str) -> None:
    """A channel of a plane doesn't follow the one before: each has lines of its own."""
    outs, channels, deep, *spatial = shape
    c0 = 32 // dtype(kind).itemsize
    blocked = (deep * ceil(channels / c0) * prod(spatial), ceil(outs / 16), 16, c0)
    task = weights_task(shape, blocked, kind)
    assert run_tasks(kernels_on(task), task.profile).duration_us > 0


@pytest.mark.parametrize(("groups", "taps"), [(32, 9), (192, 25)])
@pytest.mark.parametrize("kind", ["float16", "float32"])
def test_weights_of_groups_are_put_in_order_by_the_ai_cpus(
    groups: int, taps: int, kind: str
) -> None:
    """Sixteen groups of one channel are the diagonal of a fractal, or of two narrow ones."""
    profile, lanes = physics.profile_of("Ascend910B2"), 32 // dtype(kind).itemsize
    weights = np.arange(1, groups * taps + 1).reshape(groups, taps)
    stored = np.zeros((taps, groups // 16, 16, lanes), numpy_kind(dtype(kind)))
    stored[..., 0] = (weights % 2048).T.reshape(taps, groups // 16, 16)
    shape = (groups // lanes * taps, 1, 16, lanes)
    src, dst = (
        replace(tensor(each), format=Format.FRACTAL_Z)
        for each in (stored, np.full(shape, 7, stored.dtype))
    )
    task = Task(profile, "TransData", (src,), (dst,))
    (kernel,) = kernels_on(task)
    assert kernel.runs_on
    trace(kernel, profile, numerics=True)
    found = content(dst).reshape(groups // 16, 16 // lanes, taps, 16, lanes)
    for group, tap in ((0, 0), (7, 3), (16, 8), (groups - 1, taps - 1)):
        own = group % 16
        value = found[group // 16, own // lanes, tap, own, own % lanes]
        assert value == stored[tap, group // 16, own, 0] != 0
    assert np.count_nonzero(found) == groups * taps - np.count_nonzero(weights % 2048 == 0)


def test_other_weights_of_groups_are_refused() -> None:
    src, dst = (
        replace(tensor(np.zeros(shape, np.float32)), format=Format.FRACTAL_Z)
        for shape in ((9, 2, 16, 8), (18, 1, 16, 8))
    )
    with pytest.raises(KernelError):
        kernels_on(Task(physics.profile_of("Ascend910B2"), "TransData", (src,), (dst,)))


def test_volumes_of_one_place_are_turned_sixteen_at_a_time() -> None:
    """As the vendor's tiling cuts them, where images of one place are copied as they lie.

    326 us were measured on 910B2 for 5,476 such volumes of 1,280 channels in float16.
    """
    profile, times = physics.profile_of("Ascend910B2"), []
    for inner, plain in (((1, 80, 1, 1, 16), (1280, 1, 1, 1)), ((80, 1, 1, 16), (1280, 1, 1))):
        x, y = (
            GlobalTensor(GmBuffer(name, 2 * 5476 * prod(sizes)), dtype("float16"), (5476, *sizes))
            for name, sizes in (("x", inner), ("y", plain))
        )
        (kernel,) = kernels_on(Task(profile, "TransData", (x,), (y,)))
        times.append(run_tasks((kernel,), profile).duration_us)
        if len(inner) > 4:
            assert kernel.block_dim == 43  # 343 tiles, 8 a core
    assert 250 < times[0] < 420
    assert times[1] < times[0] / 5
