"""Pooling: largest elements with masks of where they were, means, and the gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim import Device, TensorSpec
from npusim.hardware import load_profile
from npusim.operators.tasks import TaskSpec, kernels_of
from npusim.ops.pooling.columns import pieces_of
from npusim.validation.replay import simulate_task
from npusim.values.errors import AclnnError, KernelError
from support.tasks import BFLOAT16, CHIPS, assert_above_roofline, cycles, kernels, run

Array = np.ndarray[Any, Any]
Pair = tuple[int, int]


def images(*shape: int, kind: Any = np.float16, seed: int = 0) -> Array:
    """Small whole numbers, so that windows have equal elements."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(kind)


def layout(size: Pair, window: int, stride: int, same: bool) -> tuple[Pair, Pair]:
    """Windows along both axes, and elements of padding in front of them."""
    out = tuple(-(-n // stride) if same else (n - window) // stride + 1 for n in size)
    missing = (max(0, (o - 1) * stride + window - n) // 2 for o, n in zip(out, size, strict=True))
    return out, tuple(missing)  # type: ignore[return-value]


def pooled(x: Array, window: int, stride: int, same: bool) -> tuple[Array, Array]:
    """The largest elements and their places in their windows, element by element."""
    out, before = layout(x.shape[2:4], window, stride, same)
    values = np.full((*x.shape[:2], *out, x.shape[4]), -np.inf)
    places = np.zeros(values.shape, int)
    for row, column in np.ndindex(out):
        for place, (down, right) in enumerate(np.ndindex(window, window)):
            i, j = row * stride - before[0] + down, column * stride - before[1] + right
            if 0 <= i < x.shape[2] and 0 <= j < x.shape[3]:
                given, held = x[:, :, i, j].astype(float), values[:, :, row, column]
                places[:, :, row, column][given > held] = place
                values[:, :, row, column] = np.maximum(given, held)
    return values, places


def scattered(x: Array, grad: Array, window: int, stride: int, same: bool) -> Array:
    """Gradients added where the largest elements were."""
    (_, places), total = pooled(x, window, stride, same), np.zeros(x.shape)
    _, before = layout(x.shape[2:4], window, stride, same)
    for row, column in np.ndindex(*grad.shape[2:4]):
        for place, (down, right) in enumerate(np.ndindex(window, window)):
            i, j = row * stride - before[0] + down, column * stride - before[1] + right
            if 0 <= i < x.shape[2] and 0 <= j < x.shape[3]:
                here = places[:, :, row, column] == place
                total[:, :, i, j] += np.where(here, grad[:, :, row, column].astype(float), 0)
    return total


def mask_words(out: Pair) -> int:
    return -(-out[0] * out[1] // 16) + 1


def with_masks(chip: Any, x: Array, window: int, stride: int, same: bool) -> list[Array]:
    """What the kernel makes of images."""
    out, _ = layout(x.shape[2:4], window, stride, same)
    y = np.zeros((*x.shape[:2], *out, 16), x.dtype)
    mask = np.zeros((*x.shape[:2], window**2, mask_words(out), 16), np.uint16)
    ksize, strides = [1, window, window, 1], [1, stride, stride, 1]
    return run(chip, "MaxPoolWithArgmax", [x], [y, mask], ksize=ksize, strides=strides)


POOLINGS = st.tuples(
    st.integers(1, 3),
    st.integers(1, 2),
    st.integers(3, 21),
    st.integers(3, 21),
    st.sampled_from([(2, 2), (3, 2), (3, 1), (2, 3), (5, 1)]),
    st.booleans(),
)


@settings(max_examples=12, deadline=None)
@given(POOLINGS, st.sampled_from(CHIPS), st.sampled_from([np.float16, np.float32]))
def test_largest_elements_and_the_first_places_of_them(
    pooling: tuple[int, int, int, int, Pair, bool], chip: str, kind: Any
) -> None:
    n, c1, height, width, (window, stride), same = pooling
    if not same and window > min(height, width):
        return
    x = images(n, c1, height, width, 16, kind=kind)
    y, mask = with_masks(chip, x, window, stride, same)
    values, places = pooled(x, window, stride, same)
    np.testing.assert_array_equal(y, values)
    count = y.shape[2] * y.shape[3]
    words = mask.reshape(*mask.shape[:3], -1)[..., :count]
    bits = words[..., None] >> np.arange(16, dtype=np.uint16) & 1
    assert (bits.sum(axis=2) == 1).all()
    np.testing.assert_array_equal(bits.argmax(axis=2).reshape(places.shape), places)


@settings(max_examples=12, deadline=None)
@given(POOLINGS, st.sampled_from(CHIPS))
def test_gradients_go_where_the_largest_elements_were(
    pooling: tuple[int, int, int, int, Pair, bool], chip: str
) -> None:
    n, c1, height, width, (window, stride), same = pooling
    if not same and window > min(height, width):
        return
    x = images(n, c1, height, width, 16)
    y, mask = with_masks(chip, x, window, stride, same)
    grad = images(*y.shape, seed=1)
    dx = np.full(x.shape, 77, np.float16)
    ksize, strides = [1, window, window, 1], [1, stride, stride, 1]
    (found,) = run(
        chip, "MaxPoolGradWithArgmax", [x, grad, mask], [dx], ksize=ksize, strides=strides
    )
    np.testing.assert_array_equal(found, scattered(x, grad, window, stride, same))


def test_planes_too_wide_for_a_pass_are_refused_before_one_begins() -> None:
    image, grad = (TensorSpec((1, 2, 228, size, 16), "float32") for size in (408, 404))
    mask = TensorSpec((1, 2, 25, 5815, 16), "uint16")
    windows = {"ksize": [1, 5, 5, 1], "strides": [1, 1, 1, 1]}
    task = TaskSpec("MaxPoolGradWithArgmaxV1", (image, grad, mask), (image,), windows)
    with pytest.raises(KernelError, match="5 rows of 408 columns take"):
        kernels_of(load_profile("Ascend310P3"), task)


def test_masks_as_profilers_list_them() -> None:
    """Some axes of their description stand in front of those of their storage."""
    image, grad = (TensorSpec((3, 2, side, side, 16), "float32") for side in (13, 6))
    cycles = []
    for shape in ((3, 2, 9, 4, 16), (3, 32, 9, 9, 4, 16)):
        mask = TensorSpec(shape, "uint16")
        task = TaskSpec("MaxPoolGradWithArgmaxV1", (image, grad, mask), (image,))
        found = simulate_task(load_profile("Ascend910B2"), task, "in_graph").tasks
        cycles.append([(each.cycles, each.bytes_read, each.hbm_bytes) for each in found])
    assert cycles[0] == cycles[1]


@pytest.mark.parametrize("chip", ["Ascend910A", "Ascend910B2"])
def test_the_pooling_of_resnet_has_a_schedule_of_its_own(chip: str) -> None:
    """As many blocks as planes, and the same numbers."""
    x = images(2, 1, 112, 112, 16)
    y, mask = with_masks(chip, x, 3, 2, same=True)
    values, _ = pooled(x, 3, 2, same=True)
    np.testing.assert_array_equal(y, values)
    (task,), _ = kernels(load_profile(chip), "MaxPoolWithArgmax", [x], [y, mask], {})
    assert task.block_dim == 2
    grad = images(*y.shape, seed=1)
    (found,) = run(chip, "MaxPoolGradWithArgmax", [x, grad, mask], [np.zeros_like(x)])
    np.testing.assert_array_equal(found, scattered(x, grad, 3, 2, same=True))


@pytest.mark.parametrize(
    ("pixels", "width", "pieces"), [(108, 27, 10), (64, 16, 4), (1, 1, 1), (17, 100, 2), (6, 1, 6)]
)
def test_pieces_of_columns_end_with_rows_and_with_fractals(
    pixels: int, width: int, pieces: int
) -> None:
    ends = {at for at in range(1, pixels + 1) if at % width == 0 or at % 16 == 0} | {pixels}
    assert pieces_of(pixels, width) == len(ends) == pieces


def test_float32_is_turned_into_columns_piece_by_piece_on_a2() -> None:
    """The compiler's schedule copies a piece of a row at once, the written one pixel by pixel."""
    found = {}
    for kind in (np.float16, np.float32):
        x = images(7, 3, 27, 29, 16, kind=kind)
        y = np.zeros((7, 3, 13, 14, 16), kind)
        mask = np.zeros((7, 3, 9, 13, 16), np.uint16)
        found[kind] = cycles("Ascend910B2", "MaxPoolWithArgmax", [x], [y, mask])
    assert found[np.float32] < 0.8 * found[np.float16]


def adaptive(x: Array, size: tuple[int, int, int]) -> Array:
    """Means over windows from floor(i n / m) to ceil((i + 1) n / m), in float64."""
    out = np.zeros((*x.shape[:-3], *size))
    for index in np.ndindex(size):
        cut = tuple(
            slice(i * n // m, -(-(i + 1) * n // m))
            for i, n, m in zip(index, x.shape[-3:], size, strict=True)
        )
        out[(..., *index)] = x[(..., *cut)].astype(float).mean(axis=(-3, -2, -1))
    return out


@settings(max_examples=12, deadline=None)
@given(
    st.tuples(st.integers(1, 3), st.integers(1, 40), *[st.integers(1, 9)] * 3),
    st.tuples(*[st.integers(1, 10)] * 3),
    st.sampled_from(["Ascend910B2", "Ascend310P3"]),
    st.sampled_from([np.float32, np.float16, BFLOAT16]),
)
def test_means_of_windows_that_cover_an_image_evenly(
    shape: tuple[int, ...], size: tuple[int, int, int], chip: str, kind: Any
) -> None:
    if kind is BFLOAT16 and chip == "Ascend310P3":
        return
    x = np.random.default_rng(1).standard_normal(shape).astype(kind)
    out = np.zeros((*shape[:2], *size), kind)
    (found,) = run(chip, "AdaptiveAvgPool3D", [x], [out], output_size=list(size))
    tolerance = {np.float32: 1e-5, np.float16: 2e-3}.get(kind, 2e-2)
    np.testing.assert_allclose(found.astype(float), adaptive(x, size), tolerance, tolerance)


def test_pooling_of_other_layouts_is_refused() -> None:
    x = images(1, 3, 8, 8)
    with pytest.raises(KernelError, match="NC1HWC0"):
        kernels("Ascend910A", "MaxPoolWithArgmax", [x], [x, np.zeros((1, 3, 4, 5, 16), np.uint16)])


@pytest.mark.parametrize("chip", CHIPS)
def test_more_planes_take_longer_and_no_less_than_memory_needs(chip: str) -> None:
    times = []
    for planes in (8, 64, 512):
        x = images(planes, 1, 20, 20, 16)
        y, mask = np.zeros_like(x), np.zeros((planes, 1, 25, 26, 16), np.uint16)
        times.append(cycles(chip, "MaxPoolWithArgmax", [x], [y, mask]))
        assert_above_roofline(chip, "MaxPoolWithArgmax", [x], [y, mask])
    assert times == sorted(times)


# Windows that slide -------------------------------------------------------------------------------


def folded(x: Array, window: Pair, stride: int, pad: int) -> Array:
    """The elements of every window, nan where it reaches into the padding."""
    out = [(n + 2 * pad - k) // stride + 1 for n, k in zip(x.shape[2:4], window, strict=True)]
    wide = np.pad(x.astype(float), [(0, 0), (0, 0), (pad, pad), (pad, pad), (0, 0)],
                  constant_values=np.nan)  # fmt: skip
    return np.stack(
        [
            wide[:, :, i : i + (out[0] - 1) * stride + 1 : stride,
                 j : j + (out[1] - 1) * stride + 1 : stride]
            for i, j in np.ndindex(window)
        ]
    )  # fmt: skip


@settings(max_examples=12, deadline=None)
@given(
    chip=st.sampled_from(CHIPS),
    planes=st.sampled_from([(1, 1), (1, 3), (9, 5)]),
    size=st.sampled_from([(7, 7), (13, 14), (19, 33), (1, 65), (5, 2000)]),
    window=st.sampled_from([(1, 1), (2, 2), (3, 3), (1, 3), (5, 5)]),
    stride=st.integers(1, 3),
    pad=st.integers(0, 2),
)
def test_sliding_windows(
    chip: str, planes: Pair, size: Pair, window: Pair, stride: int, pad: int
) -> None:
    pad = min(pad, min(window) // 2)
    x = images(*planes, *size, 16)
    if any(n + 2 * pad < k for n, k in zip(size, window, strict=True)):
        return
    elements = folded(x, window, stride, pad)
    told = {"ksize": [1, 1, *window], "strides": [1, 1, stride, stride], "pads": [pad] * 4}
    y = np.zeros(elements.shape[1:], x.dtype)
    (largest,) = run(chip, "MaxPoolV3", [x], [y], **told)
    np.testing.assert_array_equal(largest, np.nanmax(elements, 0).astype(x.dtype))
    for exclusive, mean in ((True, np.nanmean(elements, 0)), (False, np.nansum(elements, 0))):
        divisor = 1 if exclusive else window[0] * window[1]
        (found,) = run(chip, "AvgPoolV2", [x], [y], exclusive=exclusive, **told)
        np.testing.assert_allclose(found, mean / divisor, atol=0.02)


@settings(max_examples=8, deadline=None)
@given(
    chip=st.sampled_from(CHIPS),
    size=st.sampled_from([(17, 31), (40, 23)]),
    window=st.sampled_from([(16, 16), (3, 17)]),
    strides=st.sampled_from([(1, 1), (5, 2), (64, 3)]),
)
def test_windows_on_the_ai_cpu(chip: str, size: Pair, window: Pair, strides: Pair) -> None:
    x = images(2, *size, 5)
    told = {"ksize": [1, *window, 1], "strides": [1, *strides, 1], "pads": [0] * 4,
            "data_format": "NHWC"}  # fmt: skip
    places = [range(0, n - k + 1, s) for n, k, s in zip(size, window, strides, strict=True)]
    cut = [
        [x[:, i : i + window[0], j : j + window[1]].astype(np.float32) for j in places[1]]
        for i in places[0]
    ]
    for op, fold in (("MaxPool", np.max), ("AvgPool", np.mean)):
        want = np.stack([np.stack([fold(each, (1, 2)) for each in row], 1) for row in cut], 1)
        y = np.zeros(want.shape, x.dtype)
        (found,) = run(chip, op, [x], [y], **told)
        np.testing.assert_allclose(found, want.astype(x.dtype), rtol=2e-3, atol=1e-3)
        (made,), _ = kernels(chip, op, [x], [y], told)
        assert made.runs_on == "AI CPU"


@settings(max_examples=10, deadline=None)
@given(
    chip=st.sampled_from(CHIPS),
    volume=st.sampled_from([(1, 4, 1, 7, 7), (2, 6, 2, 13, 14), (3, 2, 3, 5, 33)]),
    deep=st.sampled_from([1, 2]),
    window=st.sampled_from([(1, 1), (2, 2), (3, 3)]),
    stride=st.integers(1, 2),
)
def test_windows_of_volumes(
    chip: str, volume: tuple[int, ...], deep: int, window: Pair, stride: int
) -> None:
    x = images(*volume, 16)
    batch, planes, *rest = x.shape
    parts = x.reshape(batch * (planes // deep), deep, *rest).max(1)
    want = np.nanmax(folded(parts, window, stride, 0), 0).astype(x.dtype)
    y = np.zeros((batch, planes // deep, *want.shape[1:]), x.dtype)
    told = {"ksize": [1, 1, deep, *window], "strides": [1, 1, deep, stride, stride]}
    (found,) = run(chip, "MaxPool3D", [x], [y], pads=[0] * 6, **told)
    np.testing.assert_array_equal(found, want.reshape(y.shape))


@pytest.mark.parametrize(
    ("deep", "every", "before", "behind"), [(2, 1, 0, 0), (3, 1, 1, 1), (3, 2, 1, 0), (1, 2, 0, 0)]
)
def test_windows_that_overlap_in_depth(deep: int, every: int, before: int, behind: int) -> None:
    x = images(2, 5, 1, 7, 5, 16)
    rows = np.pad(x.astype(np.float64), [(0, 0), (before, behind), *[(0, 0)] * 4],
        constant_values=-np.inf)  # fmt: skip
    count = (5 + before + behind - deep) // every + 1
    want = np.stack([rows[:, p * every : p * every + deep].max(1) for p in range(count)], 1)
    want = np.maximum(want[..., :-1, :, :], want[..., 1:, :, :])
    told = {"ksize": [1, 1, deep, 2, 1], "strides": [1, 1, every, 1, 1]}
    y = np.zeros(want.shape, x.dtype)
    pads = [before, behind, 0, 0, 0, 0]
    (found,) = run("Ascend310P3", "MaxPool3D", [x], [y], pads=pads, **told)
    np.testing.assert_array_equal(found, want.astype(x.dtype))


def test_wide_windows_cost_more_than_narrow_ones() -> None:
    """Every element of a window but the first is an instruction."""
    x, y = images(8, 4, 56, 56, 16), images(8, 4, 28, 28, 16)
    narrow, wide = (
        cycles(
            "Ascend310P3", "MaxPoolV3", [x], [y],
            ksize=[1, 1, k, k], strides=[1, 1, 2, 2], pads=[p] * 4,
        )
        for k, p in ((2, 0), (13, 6))
    )  # fmt: skip
    assert wide > 1.5 * narrow


@pytest.mark.parametrize(
    ("told", "problem"),
    [({}, "without ksize"), ({"ksize": [1, 1, 2, 2], "pads": [0] * 4}, "aren't 9")],
)
def test_windows_must_make_the_result(told: dict[str, Any], problem: str) -> None:
    x = images(1, 1, 8, 8, 16)
    with pytest.raises(KernelError, match=problem):
        run("Ascend310P3", "MaxPoolV3", [x], [np.zeros((1, 1, 9, 9, 16), x.dtype)], **told)


@settings(max_examples=5, deadline=None)
@given(
    high=st.integers(4, 9), wide=st.integers(4, 9), window=st.sampled_from([(2, 2), (3, 2), (3, 3)])
)
def test_places_are_the_first_bytes_of_a_mask(high: int, wide: int, window: Pair) -> None:
    """aclnnMaxPool2dWithMask of A2 leaves what aclnnMaxPool2dWithIndices gives in its mask."""
    npu = Device("Ascend910B3")
    x = np.random.default_rng(high).permutation(3 * high * wide).reshape(1, 3, high, wide)
    x = x.astype(np.float16)
    told = {"kernelSize": list(window), "stride": [2, 2], "padding": [1, 1], "dilation": [1, 1]}
    plain = npu.run("aclnnMaxPool2dWithIndices", self=x, ceilMode=False, **told)
    masked = npu.run("aclnnMaxPool2dWithMask", self=x, ceilMode=False, **told)
    np.testing.assert_array_equal(masked.outputs["out"], plain.outputs["out"])
    places = plain.outputs["indices"].astype(np.int32)
    held = masked.outputs["indices"].reshape(-1)[: places.nbytes].view(np.int32)
    np.testing.assert_array_equal(held, places.reshape(-1))
    assert [task.name for task in masked.tasks] == ["MaxPool3DWithArgmaxV2"]
    wrong = np.zeros((1, 3, window[0] * window[1], 32), np.int8)
    with pytest.raises(AclnnError, match="indices should have sizes"):
        npu.run("aclnnMaxPool2dWithMask", self=x, ceilMode=False, indices=wrong, **told)


def test_results_with_masks_have_the_planes_that_are_pooled() -> None:
    shapes = {"x0": (3, 1, 9, 17, 16), "y0": (3, 0, 9, 17, 16), "y1": (3, 1, 25, 11, 16)}
    kinds = {"x0": "float32", "y0": "float32", "y1": "uint16"}
    call = {name: TensorSpec(shape, kinds[name]) for name, shape in shapes.items()}
    assert Device("Ascend310P3").check("MaxPoolWithArgmax", **call).code == 561002


@pytest.mark.parametrize("size", [[2, 3], [2], [0, 1, 1], [2, 3, 2, 1]])
def test_means_over_volumes_need_three_sizes(size: list[int]) -> None:
    device, volume = Device("Ascend910B3"), "fp32[1,3,7,4,4]"
    assert device.check("aclnnAdaptiveAvgPool3d", self=volume, outputSize=[2, 3, 2]).ok
    assert device.check("aclnnAdaptiveAvgPool3d", self=volume, outputSize=size).code == 161002
