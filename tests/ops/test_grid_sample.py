"""Images sampled at places that a grid tells."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim import Device, Result, TensorSpec
from npusim.values.errors import AclnnError, KernelError
from support.tasks import cycles, kernels, run

Array = np.ndarray[Any, Any]
A2 = "Ascend910B2"
MODES, PADDINGS = ("bilinear", "nearest"), ("zeros", "border", "reflection")


def place(given: float, size: int, padding: str, corners: bool) -> float:
    """Where a number between -1 and 1 lies on an axis, by the definition."""
    found = (given + 1) / 2 * (size - 1) if corners else ((given + 1) * size - 1) / 2
    if padding == "reflection":
        low, high = (0.0, size - 1.0) if corners else (-0.5, size - 0.5)
        while high > low and not low <= found <= high:
            found = 2 * low - found if found < low else 2 * high - found
        if high == low:
            found = 0.0
    return found if padding == "zeros" else min(max(found, 0.0), size - 1.0)


def sampled(x: Array, grid: Array, mode: str, padding: str, corners: bool) -> Array:
    """Sample by sample, in float64."""
    out = np.zeros((*x.shape[:2], *grid.shape[1:4]))
    for index in np.ndindex(*grid.shape[:4]):
        image, *where = index
        axes = []
        for axis in range(3):
            at = place(float(grid[(*index, 2 - axis)]), x.shape[2 + axis], padding, corners)
            low = int(np.floor(at))
            sides = [(low, low + 1 - at), (low + 1, at - low)]
            axes.append([(int(np.rint(at)), 1.0)] if mode == "nearest" else sides)
        for i, a in axes[0]:
            for j, b in axes[1]:
                for k, c in axes[2]:
                    if all(0 <= n < m for n, m in zip((i, j, k), x.shape[2:], strict=True)):
                        out[(image, slice(None), *where)] += a * b * c * x[image, :, i, j, k]
    return out


@settings(max_examples=20, deadline=None)
@given(
    st.tuples(st.integers(1, 2), st.integers(1, 70), *[st.integers(1, 5)] * 3),
    st.tuples(*[st.integers(1, 6)] * 3),
    st.sampled_from(["bilinear", "nearest"]),
    st.sampled_from(["zeros", "border", "reflection"]),
    st.booleans(),
    st.sampled_from([np.float32, np.float16]),
)
def test_samples_between_voxels(
    shape: tuple[int, ...],
    samples: tuple[int, int, int],
    mode: str,
    padding: str,
    corners: bool,
    kind: Any,
) -> None:
    random = np.random.default_rng(sum(shape))
    x = random.standard_normal(shape).astype(kind)
    grid = random.uniform(-1.4, 1.4, (shape[0], *samples, 3)).astype(kind)
    (found,) = run(
        A2,
        "GridSampler3D",
        [x, grid],
        [np.zeros((*shape[:2], *samples), kind)],
        interpolation_mode=mode,
        padding_mode=padding,
        align_corners=corners,
    )
    tolerance = 1e-4 if kind is np.float32 else 2e-2
    expected = sampled(x.astype(float), grid, mode, padding, corners)
    close = np.isclose(found.astype(float), expected, tolerance, tolerance)
    # Half-way between two voxels, float32 and float64 may take different ones.
    assert close.mean() > (0.98 if mode == "nearest" else 0.9999)


@settings(max_examples=15, deadline=None)
@given(
    st.tuples(st.integers(1, 2), st.integers(1, 70), *[st.integers(1, 6)] * 2),
    st.tuples(*[st.integers(1, 7)] * 2),
    st.integers(0, 1),
    st.integers(0, 2),
    st.booleans(),
)
def test_samples_between_pixels(
    shape: tuple[int, ...], samples: tuple[int, int], mode: int, padding: int, corners: bool
) -> None:
    """A plane is a volume of one plane, sampled in its middle."""
    random = np.random.default_rng(sum(shape))
    x = random.standard_normal(shape).astype(np.float32)
    grid = random.uniform(-1.4, 1.4, (shape[0], *samples, 2)).astype(np.float32)
    said = {"interpolationMode": mode, "paddingMode": padding, "alignCorners": corners}
    found = Device(A2).run("aclnnGridSampler2D", input=x, grid=grid, **said).outputs["out"]
    words = ("bilinear", "nearest")[mode], ("zeros", "border", "reflection")[padding]
    lifted = np.concatenate([grid, np.zeros((*grid.shape[:-1], 1))], axis=-1)[:, None]
    expected = sampled(x.astype(float)[:, :, None], lifted, *words, corners)[:, :, 0]
    close = np.isclose(found, expected, 1e-4, 1e-4)
    assert close.mean() > (0.98 if mode else 0.9999)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"paddingMode": 3}, "paddingMode should be 0 to 2"),
        ({"grid": TensorSpec((2, 5, 5, 3), "float32")}, "grid should be [n i j 2]"),
        ({"input": TensorSpec((3, 4, 8, 8), "float32")}, "grid should be [n i j 2], n [3]"),
    ],
)
def test_what_is_refused(changed: dict[str, Any], words: str) -> None:
    said = {"input": TensorSpec((2, 4, 8, 8), "float32"), "interpolationMode": 0}
    said |= {"grid": TensorSpec((2, 5, 5, 2), "float32"), "paddingMode": 0, "alignCorners": True}
    with pytest.raises(AclnnError, match="161002") as refused:
        Device(A2).estimate("aclnnGridSampler2D", **said | changed)
    assert words in str(refused.value)


def test_more_neighbours_and_channels_take_longer() -> None:
    times = []
    for mode, channels in (("nearest", 16), ("bilinear", 16), ("bilinear", 64)):
        x, grid = (
            np.zeros((1, channels, 8, 8, 8), np.float32),
            np.zeros((1, 8, 8, 8, 3), np.float32),
        )
        out = np.zeros((1, channels, 8, 8, 8), np.float32)
        times.append(cycles(A2, "GridSampler3D", [x, grid], [out], interpolation_mode=mode))
    assert times[0] < times[1] < times[2]


def test_other_modes_are_refused() -> None:
    x, grid = np.zeros((1, 4, 8, 8, 8), np.float32), np.zeros((1, 8, 8, 8, 3), np.float32)
    with pytest.raises(KernelError, match="interpolation_mode bicubic"):
        kernels(A2, "GridSampler3D", [x, grid], [], {"interpolation_mode": "bicubic"})
    with pytest.raises(KernelError, match="padding_mode mirror"):
        kernels(A2, "GridSampler3D", [x, grid], [], {"padding_mode": "mirror"})


@pytest.mark.parametrize("axes", [2, 3])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("corners", [False, True])
def test_gradients_are_those_of_autograd(axes: int, mode: str, padding: str, corners: bool) -> None:
    dice = np.random.default_rng(axes)
    sizes, outer = (4, 6, 3)[:axes], (3, 5, 2)[:axes]
    x, dy = (dice.standard_normal((2, 9, *each)).astype(np.float32) for each in (sizes, outer))
    grid = dice.uniform(-1.5, 1.5, (2, *outer, axes)).astype(np.float32)
    told = {"interpolationMode": MODES.index(mode), "paddingMode": PADDINGS.index(padding)}
    found = Device(A2).run(
        f"aclnnGridSampler{axes}DBackward", gradOutput=dy, input=x, grid=grid,
        outputMask=[True, True], alignCorners=corners, **told,
    ).outputs  # fmt: skip
    torch = pytest.importorskip("torch")
    image, places = (torch.tensor(each, dtype=torch.float64, requires_grad=True)
                     for each in (x, grid))  # fmt: skip
    sampled = torch.nn.functional.grid_sample(image, places, mode, padding, corners)
    sampled.backward(torch.tensor(dy, dtype=torch.float64))
    for name, want in (("inputGrad", image.grad), ("gridGrad", places.grad)):
        assert want is not None
        np.testing.assert_allclose(found[name], want.numpy(), atol=2e-5, rtol=1e-5)


def test_a_gradient_takes_its_chain_and_the_longer_the_more_samples() -> None:
    def estimate(samples: int, kind: str) -> Result:
        x, grid, dy = (
            TensorSpec(shape, kind)
            for shape in ((2, 32, 40, 40), (2, samples, 40, 2), (2, 32, samples, 40))
        )
        return Device(A2).estimate(
            "aclnnGridSampler2DBackward", gradOutput=dy, input=x, grid=grid, interpolationMode=0,
            paddingMode=0, alignCorners=False, outputMask=[True, True],
        )  # fmt: skip

    result = estimate(40, "fp16")
    kernel = next(each for each in result.tasks if each.name == "GridSampler2DGrad")
    assert [each.name for each in result.tasks].count("Cast") == 5
    assert "MemSet" in [each.name for each in result.tasks]
    longer = next(each for each in estimate(160, "fp16").tasks if each.name == "GridSampler2DGrad")
    assert 3 < longer.duration_us / kernel.duration_us < 4.5
