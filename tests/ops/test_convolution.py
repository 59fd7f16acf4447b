"""Convolutions: their geometry, numbers, times and what they refuse."""

from __future__ import annotations

from time import process_time
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from npusim import Device, TensorSpec
from npusim.ascendc import trace
from npusim.ascendc.windows import Padding, Window
from npusim.hardware import load_profile
from npusim.operators.tasks import TaskSpec, kernels_of
from npusim.ops.convolution import geometry
from npusim.ops.convolution.forward import Conv2D
from npusim.ops.convolution.geometry import Geometry
from npusim.runtime.cache_start import empty_cache
from npusim.runtime.task import run_tasks
from npusim.values.dtypes import FLOAT
from npusim.values.errors import KernelError
from support.convolution import convolved, in_fractals, in_planes, in_slices, square, windows
from support.kernels import content, gm
from support.programs import given_to
from support.tasks import BFLOAT16, CHIPS, kernels

Array = np.ndarray[Any, Any]

SIZES = st.integers(1, 40)


def shown(x: tuple[int, ...], weight: tuple[int, ...], y: tuple[int, ...]) -> Geometry:
    """The geometry that shapes show, without attributes."""
    x_map, taps, y_map = (gm(np.zeros(shape, np.float16)) for shape in (x, weight, y))
    return Geometry.of("Conv2D", x_map, taps, y_map, {})


@given(SIZES, SIZES, st.sampled_from([1, 3, 5, 7]), st.sampled_from([1, 2]), SIZES, SIZES)
def test_shapes_show_the_usual_windows(
    high: int, wide: int, kernel: int, stride: int, channels: int, outs: int
) -> None:
    """Of same-sized windows: the stride, and the padding that keeps the middle in the middle."""
    window = square(kernel, stride, kernel // 2)
    assume(min(high, wide) > 2 * kernel)
    x, weight = (1, channels, high, wide), (outs, channels, kernel, kernel)
    y = (1, outs, *window.positions((high, wide)))
    found = shown(*(geometry.feature_map(x, 16), geometry.weight(weight, 16, 16)),
                  geometry.feature_map(y, 16))  # fmt: skip
    assert found.window.kernel == window.kernel
    assert found.window.stride == window.stride
    assert found.window.positions((high, wide)) == y[2:]
    if stride == 1:
        assert found.window == window
    assert (found.depth, found.groups) == (-(-channels // 16) * 16 * kernel**2, 1)


@pytest.mark.parametrize(
    ("attributes", "window"),
    [
        ({}, Window((3, 3), padding=Padding(1, 1, 1, 1))),
        ({"strides": [1] * 4, "pads": [0, 2, 1, 1]}, Window((3, 3), padding=Padding(0, 2, 1, 1))),
        ({"ksize": [9, 1], "pads": [4, 4, 0, 0]}, Window((9, 1), padding=Padding(4, 4, 0, 0))),
        ({"dilations": 2}, Window((3, 3), (1, 1), (2, 2), Padding(2, 2, 2, 2))),
    ],
)  # fmt: skip
def test_attributes_come_before_guesses(attributes: dict[str, object], window: Window) -> None:
    tensors = [np.zeros(shape, np.float16) for shape in ((2, 1, 8, 9, 16), (9, 1, 16, 16))]
    x, weight = map(gm, tensors)
    y = gm(np.zeros((2, 1, 8, 9, 16), np.float16), "y")
    assert Geometry.of("Conv2D", x, weight, y, attributes).window == window


def test_tensors_that_do_not_belong_together_are_refused() -> None:
    with pytest.raises(KernelError, match="NC1HWC0 and FRACTAL_Z are needed"):
        shown((1, 16, 8, 8), (9, 1, 16, 16), (1, 1, 8, 8, 16))
    with pytest.raises(KernelError, match="don't make"):
        shown((1, 1, 8, 8, 16), (1, 1, 16, 16), (1, 1, 9, 9, 16))


@given(st.integers(1, 70), st.integers(1, 70), st.integers(1, 3), st.sampled_from([8, 16, 32]))
def test_storage_shapes_hold_what_is_brought_into_them(
    channels: int, outs: int, kernel: int, lanes: int
) -> None:
    x, weight = np.zeros((2, channels, 3, 4)), np.zeros((outs, channels, kernel, kernel))
    assert geometry.feature_map(x.shape, lanes) == in_slices(x, lanes).shape
    assert geometry.weight(weight.shape, lanes, 16) == in_fractals(weight, lanes).shape


@pytest.mark.parametrize(
    ("shape", "groups", "lanes", "stored"),
    [
        ((32, 1, 3, 3), 32, 16, (18, 1, 16, 16)),  # depthwise: a slice is a packed group
        ((7, 1, 3, 3), 7, 16, (9, 1, 16, 16)),
        ((64, 24, 1, 1), 2, 16, (3, 4, 16, 16)),  # both groups in one weight
        ((64, 32, 1, 1), 2, 16, (4, 2, 16, 16)),
        ((32, 1, 3, 3), 32, 8, (36, 1, 16, 8)),
    ],
)
def test_groups_are_packed_until_slices_are_full(
    shape: tuple[int, ...], groups: int, lanes: int, stored: tuple[int, ...]
) -> None:
    assert geometry.weight(shape, lanes, 16, groups=groups) == stored


def test_few_channels_lie_four_by_four() -> None:
    assert geometry.weight((64, 3, 7, 7), 16, 16, c04=True) == (13, 4, 16, 16)


# -- numbers ---------------------------------------------------------------------------------------

KINDS = st.sampled_from([np.float16, np.float32, BFLOAT16, np.int8])


def convolution(
    chip: str, window: Window, shape: tuple[int, ...], outs: int, kind: Any, *, bias: bool = False
) -> tuple[Array, Array]:
    """A convolution by the kernel, and in float64; numbers are small and whole."""
    profile, random = load_profile(chip), np.random.default_rng(0)
    lanes = 32 // np.dtype(kind).itemsize
    x = random.integers(-3, 4, shape).astype(kind)
    weight = random.integers(-3, 4, (outs, shape[1], *window.kernel)).astype(kind)
    wanted = convolved(x, weight, window)
    y = np.full(geometry.feature_map(wanted.shape, min(lanes, 16)), 77, kind)
    y = y.astype(np.int32) if kind is np.int8 else y
    tensors = [in_slices(x, lanes), in_fractals(weight, lanes)]
    if bias:
        wide = np.float32 if profile.paths.l0c_to_gm else kind
        wide = np.int32 if kind is np.int8 else wide
        row = random.integers(-9, 9, outs).astype(wide)
        wanted, tensors = wanted + row.astype(np.float64)[:, None, None], [*tensors, row]
    said = {"strides": [*window.stride], "pads": [*window.padding]}
    said |= {"dilations": [*window.dilation], "ksize": [*window.kernel]}
    built, outputs = kernels(profile, "Conv2D", tensors, [y], said)
    for kernel in built:
        trace(kernel, profile, numerics=True)
    return in_planes(content(outputs[0]), outs).astype(np.float64), wanted


@settings(max_examples=40, deadline=None)
@given(
    windows(),
    st.tuples(st.integers(1, 3), st.integers(1, 50), st.integers(1, 11), st.integers(1, 9)),
    st.integers(1, 50),
    st.sampled_from(CHIPS),
    KINDS,
    st.booleans(),
)
def test_conv2d_computes_convolutions(
    window: Window, shape: tuple[int, ...], outs: int, chip: str, kind: Any, bias: bool
) -> None:
    assume(min(window.positions((shape[2], shape[3]))) > 0)
    assume(np.dtype(kind).name in load_profile(chip).cube.dtypes)
    found, wanted = convolution(chip, window, shape, outs, kind, bias=bias and kind is not np.int8)
    steps = {"float16": 2**-10, "bfloat16": 2**-8}.get(np.dtype(kind).name, 2**-20)
    np.testing.assert_allclose(found, wanted, rtol=steps, atol=0)


@pytest.mark.parametrize("chip", CHIPS)
def test_cores_share_images_channels_and_positions(chip: str) -> None:
    """One image for all cores, more images than cores, and a plane that cores cut in odd places."""
    for shape, outs in (((1, 16, 37, 41), 48), ((47, 16, 5, 5), 16), ((2, 32, 21, 13), 112)):
        found, wanted = convolution(chip, square(3, 1, 1), shape, outs, np.float16)
        np.testing.assert_allclose(found, wanted, rtol=2**-10)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(("size", "plane"), [(1, (61, 53)), (3, (61, 53)), (3, (69, 32))])
def test_blocks_called_alike_are_given_the_same_instructions(
    monkeypatch: pytest.MonkeyPatch, chip: str, size: int, plane: tuple[int, int]
) -> None:
    """Positions that cores begin at in an image tell them apart only where that matters."""
    x, weight = (
        np.zeros(each, np.float16) for each in ((1, 2, *plane, 16), (2 * size**2, 6, 16, 16))
    )
    said = {"ksize": [size, size], "strides": [1, 1], "pads": [size // 2] * 4}
    y = np.zeros((1, 6, *plane, 16), np.float16)
    (kernel,), _ = kernels(chip, "Conv2D", [x, weight], [y], said)
    kinds = [kernel.block_kind(block) for block in range(kernel.block_dim)]
    assert len(set(kinds)) < len(kinds)
    monkeypatch.setattr(type(kernel), "block_kind", lambda _, block: block)
    told: dict[object, object] = {}
    for group in trace(kernel, load_profile(chip), numerics=False):
        for block in group.blocks:
            given = given_to(group.program)
            assert told.setdefault(kinds[block], given) == given


@pytest.mark.parametrize("chip", CHIPS)
def test_sequences_are_longer_than_planes_can_be_wide(chip: str) -> None:
    """Of a single row only what a block sees is in L1."""
    window = Window((1, 7), (1, 2), (1, 3), Padding(0, 0, 5, 4))
    found, wanted = convolution(chip, window, (2, 20, 1, 301), 17, np.float16)
    np.testing.assert_allclose(found, wanted, rtol=2**-10)
    x, weight = (np.zeros(shape, np.float16) for shape in ((1, 2, 1, 60000, 16), (6, 1, 16, 16)))
    y = np.zeros((1, 1, 1, 60000, 16), np.float16)
    said = {"ksize": [1, 3], "strides": [1, 1], "pads": [0, 0, 1, 1]}
    (kernel,), _ = kernels(chip, "Conv2D", [x, weight], [y], said)
    trace(kernel, load_profile(chip), numerics=False)


def test_windows_that_see_half_of_l1_are_loaded_one_by_one() -> None:
    """A dilation that leaves no room for the next tile."""
    x, weight = (np.zeros(shape, np.float16) for shape in ((1, 2, 80, 256, 16), (18, 32, 16, 16)))
    y = np.zeros((1, 32, 80, 256, 16), np.float16)
    said = {"ksize": [3, 3], "strides": [1, 1], "pads": [36] * 4, "dilations": [36, 36]}
    (kernel,), _ = kernels("Ascend310P3", "Conv2D", [x, weight], [y], said)
    assert isinstance(kernel, Conv2D)
    assert kernel.tiling.blocks.depth_1 == 1
    trace(kernel, load_profile("Ascend310P3"), numerics=False)


@pytest.mark.parametrize(
    ("window", "shape"),
    [
        (Window((2, 300), (1, 1), (1, 1), Padding()), (2, 20, 33, 300)),
        (Window((3, 3), (64, 70), (1, 1), Padding(1, 1, 1, 1)), (1, 16, 500, 300)),
        (Window((2, 260), (2, 1), (1, 1), Padding(0, 0, 7, 7)), (3, 16, 9, 320)),
        (Window((32, 32), (32, 32), (1, 1), Padding()), (1, 3, 64, 384)),
    ],
    ids=["wide taps", "far apart", "runs", "more than L1"],
)
def test_windows_beyond_load3d_are_gathered_from_memory(
    window: Window, shape: tuple[int, ...]
) -> None:
    found, wanted = convolution("Ascend310P3", window, shape, 24, np.float16)
    np.testing.assert_allclose(found, wanted, rtol=2**-10)


def test_gathering_takes_a_copy_for_every_position() -> None:
    """The copies of a core's positions beside its weights, and the products at least."""
    chip = load_profile("Ascend310P3")
    weight = np.zeros((900, 16, 16, 16), np.float16)
    y = np.zeros((8, 16, 30, 1, 16), np.float16)
    times = []
    for apart in (1, 2):  # taps side by side, and apart
        plane = np.zeros((8, 1, 32, 300 * apart - apart + 1, 16), np.float16)
        said = {"ksize": [3, 300], "strides": [1, 1], "pads": [0] * 4, "dilations": [1, apart]}
        built, _ = kernels(chip, "Conv2D", [plane, weight], [y], said)
        times.append(run_tasks(built, chip, empty_cache(chip)).duration_us)
    weights = weight.nbytes / chip.paths.gm_to_l1.bytes_per_cycle / chip.clock_mhz
    packets = 30 * 900 * chip.paths.gm_to_l1.burst_cycles / chip.clock_mhz
    assert weights < times[0] < 3 * weights
    assert times[1] > weights + packets


def test_planes_that_fill_l1_are_loaded_once_for_all_weights() -> None:
    """Patches of 32 x 32: two blocks of images don't fit beside each other, one for all taps does.

    What passes through L1 is every image once and the weights for each block, not the images again
    for every row of taps.
    """
    shapes = (2, 1, 224, 224, 16), (1024, 4, 16, 16)
    x, weight = (np.zeros(shape, np.float16) for shape in shapes)
    y = np.zeros((2, 4, 7, 7, 16), np.float16)
    said = {"ksize": [32, 32], "strides": [32, 32], "pads": [0] * 4}
    (kernel,), _ = kernels("Ascend310P3", "Conv2D", [x, weight], [y], said)
    assert isinstance(kernel, Conv2D)
    blocks = kernel.tiling.blocks
    assert (blocks.keep_a, blocks.panels) == (True, 1)
    trace(kernel, load_profile("Ascend310P3"), numerics=False)


def test_positions_are_loaded_once_where_all_weights_stay() -> None:
    """Weights of 512 by 512 fill half of L1: images pass by once, not for each of four columns.

    So where they'd come from memory again, being more than L2 holds.
    """
    x = np.zeros((32, 32, 28, 28, 16), np.float16)
    weight = np.zeros((32, 32, 16, 16), np.float16)
    built, _ = kernels("Ascend310P3", "Conv2D", [x, weight], [np.zeros_like(x)], {"ksize": [1, 1]})
    kernel, profile = built[0], load_profile("Ascend310P3")
    assert isinstance(kernel, Conv2D)
    blocks = kernel.tiling.blocks
    assert (blocks.keep_a, blocks.keep_b) == (True, True)
    assert blocks.wide * blocks.base_n == 512
    (task,) = run_tasks(built, profile, empty_cache(profile)).tasks
    assert task.bytes_read < 1.1 * (x.nbytes + 8 * weight.nbytes)


def test_few_channels_of_a_first_layer() -> None:
    """C04: the taps of four channels follow each other, and fill up whole fractals."""
    profile, random = load_profile("Ascend910B3"), np.random.default_rng(0)
    x = random.integers(-3, 4, (2, 3, 12, 9)).astype(np.float16)
    weight = random.integers(-3, 4, (20, 3, 5, 3)).astype(np.float16)
    window = Window((5, 3), (2, 1), padding=Padding(2, 2, 1, 1))
    wanted = convolved(x, weight, window)
    flat = np.zeros((64, 32), np.float16)
    flat[:60, :20] = in_fractals(weight, 4, 20)[:, 0].transpose(0, 2, 1).reshape(60, 20)
    fractals = np.ascontiguousarray(flat.reshape(4, 16, 2, 16).transpose(0, 2, 3, 1))
    assert fractals.shape == geometry.weight(weight.shape, 16, 16, c04=True)
    y = np.zeros(geometry.feature_map(wanted.shape, 16), np.float16)
    said = {"strides": [2, 1], "pads": [*window.padding], "ksize": [5, 3]}
    built, outputs = kernels(profile, "Conv2D", [in_slices(x, 4), fractals], [y], said)
    trace(built[0], profile, numerics=True)
    np.testing.assert_array_equal(in_planes(content(outputs[0]), 20), wanted)


@pytest.mark.parametrize("groups", [2, 3, 12, 48])
def test_packed_groups_are_products_side_by_side(groups: int) -> None:
    """The weight of a packed group is block-diagonal."""
    profile, random = load_profile("Ascend910A"), np.random.default_rng(0)
    x = random.integers(-3, 4, (2, 48, 7, 6)).astype(np.float16)
    weight = random.integers(-3, 4, (48, 48 // groups, 3, 3)).astype(np.float16)
    window = square(3, 1, 1)
    packed = geometry.packed_groups(48, 48, groups, 16)
    of = 48 // groups * packed
    parts = []
    for first in range(0, groups, packed):
        block = np.zeros((of, of, 3, 3), np.float16)
        for group in range(min(packed, groups - first)):
            place = slice(group * 48 // groups, (group + 1) * 48 // groups)
            start = (first + group) * (48 // groups)
            block[place, place] = weight[start : start + 48 // groups]
        parts.append(in_fractals(block, 16))
    stored = np.concatenate(parts)
    assert stored.shape == geometry.weight(weight.shape, 16, 16, groups=groups)
    y = np.zeros((2, 3, 7, 6, 16), np.float16)
    built, outputs = kernels(profile, "Conv2D", [in_slices(x, 16), stored], [y], {})
    trace(built[0], profile, numerics=True)
    wanted = convolved(x, weight, window, groups)
    np.testing.assert_array_equal(in_planes(content(outputs[0]), 48), wanted)


@pytest.mark.parametrize("chip", CHIPS)
def test_plain_images_are_brought_into_slices_and_back(chip: str) -> None:
    """As records of whole calls have them: without a window, it sees zeros all around."""
    profile, random = load_profile(chip), np.random.default_rng(0)
    x = random.integers(-3, 4, (2, 5, 9, 7)).astype(np.float16)
    weight = random.integers(-3, 4, (20, 5, 3, 3)).astype(np.float16)
    for said, window in (
        ({}, square(3, 1, 1)),
        ({"strides": [2, 2], "pads": [0] * 4}, square(3, 2)),
    ):
        wanted = convolved(x, weight, window)
        built, outputs = kernels(profile, "Conv2D", [x, weight], [wanted.astype(np.float16)], said)
        names = [each.op_type for each in built if each.op_type != "MemSet"]
        assert names == ["TransData", "TransData", "Conv2D", "TransData"]
        content(outputs[0])[...] = 77
        for kernel in built:
            for tensor in (*kernel.reads, *kernel.writes):
                if tensor.buffer.data is None:
                    tensor.buffer.data = np.zeros(tensor.numel, tensor.dtype.numpy)
            trace(kernel, profile, numerics=True)
        np.testing.assert_array_equal(content(outputs[0]), wanted)


# -- time ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chip", CHIPS)
def test_a_resnet_convolution_is_estimated_at_once(chip: str) -> None:
    device = Device(chip)
    half = {"dtype": "float16"}
    call = {
        "x": TensorSpec((64, 16, 56, 56, 16), **half),
        "filter": TensorSpec((144, 16, 16, 16), **half),
        "y": TensorSpec((64, 16, 56, 56, 16), **half),
    }
    device.estimate("Conv2D", **{**call, "x": TensorSpec((64, 16, 56, 57, 16), **half),
                                 "y": TensorSpec((64, 16, 56, 57, 16), **half)})  # fmt: skip
    begun = process_time()
    found = device.estimate("Conv2D", **call)
    assert process_time() - begun < 0.3
    operations = 2 * 64 * 56 * 56 * 256 * 256 * 9
    profile = load_profile(chip)
    peak = operations / (profile.cores.cube_cores * profile.clock_mhz * 16**3 * 2)
    assert peak < found.duration_us < 3 * peak


def test_stride_makes_a_convolution_no_slower_per_product() -> None:
    """As profiled on the first generation: 281.2 us with stride 1, 281.8 us with stride 2."""
    device = Device("Ascend910B")
    times = []
    for plane, slices, taps in ((20, 16, 144), (40, 16, 144)):
        times.append(
            device.estimate(
                "Conv2D",
                x=TensorSpec((64, slices, plane, plane, 16), "float16"),
                filter=TensorSpec((taps, 16, 16, 16), "float16"),
                y=TensorSpec((64, 16, 20, 20, 16), "float16"),
            ).duration_us
        )
    assert times[1] == pytest.approx(times[0], rel=0.1)


# -- what is refused -------------------------------------------------------------------------------

SHAPES = {"x": (1, 1, 8, 8, 16), "filter": (9, 1, 16, 16), "y": (1, 1, 8, 8, 16)}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"filter": ((9, 1, 16, 16), "float16"), "strides": [64, 1]}, "don't make"),
        (
            dict.fromkeys("xy", ((1, 1, 8, 1 << 15, 16), "float16")),
            "planes of at most 32767",
        ),
        ({"filter": ((9, 16, 16), "float16")}, "NC1HWC0 and FRACTAL_Z are needed"),
        ({"filter": ((9, 1, 16, 16), "float32")}, "has no FLOAT16 times FLOAT"),
        ({"bias": ((17,), "float32")}, "a bias of 17 numbers for 16 channels"),
        ({"y": ((1, 1, 0, 8, 16), "float16")}, "with elements"),
        ({"bias": ((16,), "int32")}, "tensor bias not implemented for DT_INT32"),
        ({"y": ((1, 1, 8, 8, 16), "int32")}, "tensor output not implemented for DT_INT32"),
        ({name: (shape, "float32") for name, shape in SHAPES.items()}, "in slices of 8 channels"),
    ],
)
def test_what_conv2d_refuses(changed: dict[str, Any], words: str) -> None:
    call: dict[str, Any] = {name: (shape, "float16") for name, shape in SHAPES.items()} | changed
    arguments = {
        name: TensorSpec(*value) if isinstance(value, tuple) else value
        for name, value in call.items()
    }
    found = Device("Ascend910B3").check("Conv2D", **arguments)
    assert found.code == 161002
    assert words in str(found)


def test_frameworks_multiply_float32_as_hf32_unless_told_not_to() -> None:
    """Half as long on the cube: A2's is four times slower in float32 than in float16."""
    x, weight = (TensorSpec(each, FLOAT) for each in ((4, 64, 56, 56), (64, 64, 3, 3)))

    def cube_cycles(**said: Any) -> float:
        spec = TaskSpec("Conv2D", (x, weight), (x,), {"pads": [1, 1, 1, 1]} | said)
        profile = load_profile("Ascend910B2")
        *_, product, _ = run_tasks(kernels_of(profile, spec), profile).tasks
        assert product.name == "Conv2D"
        return product.pipes["CUBE"] * product.duration_us

    assert cube_cycles() == pytest.approx(cube_cycles(enable_hf32=True), rel=0.01)
    assert cube_cycles() < 0.7 * cube_cycles(enable_hf32=False)


@pytest.mark.parametrize(
    ("chip", "before"),
    [
        ("Ascend910B3", ["MemSet", "TransData", "MemSet", "TransData"]),
        ("Ascend910A", ["TransData"]),
    ],
)
def test_weights_of_groups_are_cleared_and_packed_behind_fractals_on_a2(
    chip: str, before: list[str]
) -> None:
    x, weight = np.zeros((2, 32, 9, 9), np.float16), np.zeros((32, 3, 3), np.float16)
    tasks, _ = kernels(chip, "DepthwiseConv2D", [x, weight], [x], {"pads": [1] * 4})
    assert [each.op_type for each in tasks] == ["TransData", *before, "Conv2D", "TransData"]


@pytest.mark.parametrize(
    ("kind", "around"),
    [
        ("float16", (["TransData", "MemSet", "TransData"], [])),
        ("bfloat16", (["TransData", "MemSet", "TransData"], ["TransData"])),
        ("float32", (["TransData", "TransData"], ["TransData"])),
    ],
)
def test_what_frameworks_do_around_a_convolution(
    kind: str, around: tuple[list[str], list[str]]
) -> None:
    """As the published lists of kernels have it for A2; the first generation has no such lists."""
    x, weight = TensorSpec((2, 31, 13, 11), kind), TensorSpec((47, 31, 3, 3), kind)
    spec = TaskSpec("Conv2D", (x, weight), (), {"pads": [1] * 4})
    found = [each.op_type for each in kernels_of(load_profile("Ascend910B2"), spec)]
    before, behind = around
    assert found == [*before, "Conv2D", *behind]
    if kind == "float16":
        older = [each.op_type for each in kernels_of(load_profile("Ascend910A"), spec)]
        assert older[-1] == "TransData"
        assert "MemSet" not in older
