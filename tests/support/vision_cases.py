"""Small tasks of the kernels of plain images: inputs, outputs and attributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from support.task_cases import Pick

Array = np.ndarray[Any, Any]
Case = tuple[Sequence[Array | None], Sequence[Array], Mapping[str, object]]


def empty(*shape: int, kind: Any = np.float32) -> Array:
    """An output that holds something no result is."""
    return np.full(shape, 77, kind)


def images(pick: Pick, axes: int, least: int = 3) -> Array:
    """One or some images with channels, in one to three dimensions; volumes are of few places."""
    spatial = [pick.of(least, 5, 9 if axes < 3 else 6) for _ in range(axes)]
    return pick.numbers(pick.of(1, 2), pick.of(1, 3, 17), *spatial, kind=pick.half())


def sliding(pick: Pick, axes: int, kind: str) -> Case:
    """Means (``kind`` mean) or largest elements of windows, or the gradients of them."""
    x, largest = images(pick, axes), "largest" in kind
    window, stride, pad = pick.of((2, 2, 0), (3, 2, 1), (3, 1, 0), (1, 2, 0))
    said: dict[str, object] = {"ksize": [window] * axes, "strides": [stride] * axes}
    said |= {"pads": [pad] * axes, "ceil_mode": False}
    out = [(size + 2 * pad - window) // stride + 1 for size in x.shape[2:]]
    shape = (*x.shape[:2], *out)
    if not largest:
        said["count_include_pad"] = pick.of(True, False)
    return _forward_or_back(pick, x, shape, said, kind)


def even(pick: Pick, axes: int, kind: str) -> Case:
    """The same of windows that cover images evenly."""
    x, size = images(pick, axes), [pick.of(1, 2, 3) for _ in range(axes)]
    return _forward_or_back(pick, x, (*x.shape[:2], *size), {"output_size": size}, kind)


def _forward_or_back(
    pick: Pick, x: Array, shape: tuple[int, ...], said: dict[str, object], kind: str
) -> Case:
    places = int(np.prod(x.shape[2:]))
    if "gradient" in kind:
        dy, result = pick.numbers(*shape, kind=x.dtype), empty(*x.shape, kind=x.dtype)
        given = [dy, x, *([pick.places(shape, places)] if "largest" in kind else [])]
        return given, [result], said
    found = [empty(*shape, kind=x.dtype)]
    if kind == "largest":
        found.append(empty(*shape, kind=np.int32))
    return [x], found, said


def resized(pick: Pick, axes: int, *, back: bool = False) -> Case:
    """Images to another size, or gradients back."""
    x = images(pick, axes, 1)
    size = [pick.of(1, 2, 4, 7) for _ in range(axes)]
    other = (*x.shape[:2], *size)
    align = {"align_corners": pick.of(True, False)}
    if back:
        said = {"size": size, "input_size": list(x.shape)} | align
        return [pick.numbers(*other, kind=x.dtype)], [empty(*x.shape, kind=x.dtype)], said
    return [x], [empty(*other, kind=x.dtype)], {"size": size} | align


def bordered(pick: Pick, axes: int, *, back: bool = False) -> Case:
    """Images padded by what is inside, or the gradients."""
    x = images(pick, axes)
    padding = [pick.of(0, 1, 2) for _ in range(2 * axes)]
    before, after = padding[::2][::-1], padding[1::2][::-1]
    each = zip(x.shape[2:], before, after, strict=True)
    shape = (*x.shape[:2], *(size + a + b for size, a, b in each))
    said = {"padding": padding}
    if back:
        return [pick.numbers(*shape, kind=x.dtype), x], [empty(*x.shape, kind=x.dtype)], said
    return [x], [empty(*shape, kind=x.dtype)], said


def framed(pick: Pick) -> Case:
    """A frame of one number, which may cut off."""
    x = pick.numbers(*pick.shape(), kind=pick.half())
    pad = [pick.of(0, 1, 3), pick.of(-1, 0, 2) if x.shape[-1] > 1 else 0]
    shape = (*x.shape[:-1], x.shape[-1] + sum(pad))
    return [x], [empty(*shape, kind=x.dtype)], {"pad": pad, "value": pick.of(0.0, 2.0)}


def likelihood_gradient(pick: Pick) -> Case:
    """Gradients of likelihoods of some rows, few classes or many."""
    rows, classes, kind = pick.size(), pick.of(1, 5, 33, 1000), pick.half()
    reduction = pick.of("none", "mean", "sum")
    grads = pick.numbers(*((rows,) if reduction == "none" else ()), kind=kind)
    target = pick.places((rows,), classes, pick.of(np.int32, np.int64))
    weight, total = pick.positive(classes, kind=kind), pick.positive(1, kind=kind)
    x = pick.numbers(rows, classes, kind=kind)
    said = {"reduction": reduction}
    return [x, np.asarray(grads), target, weight, total], [empty(*x.shape, kind=kind)], said


def unfolded(pick: Pick, *, back: bool = False) -> Case:
    """Windows laid side by side, or added up."""
    x = images(pick, 2)
    window, stride, pad = pick.of((2, 1, 0), (3, 2, 1), (1, 2, 0))
    said: dict[str, object] = {"ksize": [window] * 2, "strides": [stride] * 2}
    said |= {"pads": [pad] * 2, "dilations": [1, 1]}
    rows, columns = ((size + 2 * pad - window) // stride + 1 for size in x.shape[2:])
    shape = (x.shape[0], x.shape[1] * window**2, rows * columns)
    if back:
        said["input_size"] = list(x.shape[2:])
        return [pick.numbers(*shape, kind=x.dtype)], [empty(*x.shape, kind=x.dtype)], said
    return [x], [empty(*shape, kind=x.dtype)], said


def volume_weights(pick: Pick) -> Case:
    """Volumes and gradients of what they became to the gradient of the weight."""
    kernel, pad = pick.of(((2, 3, 1), 0), ((1, 3, 3), 0), ((3, 3, 3), 1))
    stride = pick.of(1, 2)
    channels, outs = pick.of(3, 20), pick.of(5, 17)
    x = pick.numbers(pick.of(1, 2), channels, 4, 5, pick.of(4, 7), kind=np.float16)
    results = [
        (size + 2 * pad - taps) // stride + 1
        for size, taps in zip(x.shape[2:], kernel, strict=True)
    ]
    dy = pick.numbers(x.shape[0], outs, *results, kind=np.float16)
    said = {"strides": [stride] * 3, "pads": [pad] * 6, "dilations": [1] * 3}
    said["filter_size"] = [outs, channels, *kernel]
    return [x, dy], [np.zeros((outs, channels, *kernel), np.float32)], said


def volume_inputs(pick: Pick, *, transposed: bool = False) -> Case:
    """A weight and gradients of what volumes became to the gradient of the volumes."""
    (x, dy), (dw,), said = volume_weights(pick)
    assert x is not None
    assert dy is not None
    weight = pick.numbers(*dw.shape, kind=np.float16)
    inputs = [dy, weight] if transposed else [weight, dy]
    del said["filter_size"]  # type: ignore[attr-defined]
    return inputs, [empty(*x.shape, kind=np.float16)], said


_MEAN, _MEAN_BACK = "mean", "gradient of mean"
_LARGEST, _LARGEST_BACK, _ALONE = "largest", "gradient of largest", "the largest alone"


def moved_places(pick: Pick) -> Case:
    """Places of images that a matrix each moves."""
    size = [pick.of(1, 3), 2, pick.of(1, 4, 9), pick.of(1, 5)]
    theta = pick.numbers(size[0], 2, 3)
    places = np.zeros((size[0], *size[2:], 2), np.float32)
    return [theta], [places], {"size": size, "align_corners": pick.of(False, True)}


def triangles(pick: Pick) -> Case:
    """Systems of equations whose matrix is half zeros."""
    count, columns = pick.of(1, 4, 9), pick.of(1, 3)
    matrix = pick.numbers(count, count) + 4 * np.eye(count, dtype=np.float32)
    right = pick.numbers(count, columns)
    return [right, matrix], [np.zeros_like(right)], {"upper": pick.of(False, True)}


CASES: dict[str, Callable[[Pick], Case]] = {
    "AdaptiveAvgPool2d": partial(even, axes=2, kind=_MEAN),
    "AdaptiveAvgPool2dGrad": partial(even, axes=2, kind=_MEAN_BACK),
    "AdaptiveAvgPool3dGrad": partial(even, axes=3, kind=_MEAN_BACK),
    "AdaptiveMaxPool2d": partial(even, axes=2, kind=_LARGEST),
    "AdaptiveMaxPool2dGrad": partial(even, axes=2, kind=_LARGEST_BACK),
    "AdaptiveMaxPool3d": partial(even, axes=3, kind=_LARGEST),
    "AdaptiveMaxPool3DGrad": partial(even, axes=3, kind=_LARGEST_BACK),
    "AvgPool2d": partial(sliding, axes=2, kind=_MEAN),
    "AvgPool2dGrad": partial(sliding, axes=2, kind=_MEAN_BACK),
    "AvgPool3D": partial(sliding, axes=3, kind=_MEAN),
    "AvgPool3DGrad": partial(sliding, axes=3, kind=_MEAN_BACK),
    "MaxPool2d": partial(sliding, axes=2, kind=_ALONE),
    "MaxPool2dWithIndices": partial(sliding, axes=2, kind=_LARGEST),
    "MaxPool2dWithIndicesGrad": partial(sliding, axes=2, kind=_LARGEST_BACK),
    "MaxPool3DWithArgmaxV2": partial(sliding, axes=3, kind=_LARGEST),
    "MaxPool3DGradWithArgmax": partial(sliding, axes=3, kind=_LARGEST_BACK),
    "Im2col": unfolded,
    "Col2im": partial(unfolded, back=True),
    "Conv3DBackpropFilter": volume_weights,
    "Conv3DBackpropFilterV2": volume_weights,
    "Conv3DBackpropInput": volume_inputs,
    "Conv3DBackpropInputV2": volume_inputs,
    "Conv3DTranspose": partial(volume_inputs, transposed=True),
    "Conv3DTransposeV2": partial(volume_inputs, transposed=True),
    "ConstantPadNd": framed,
    "NLLLossGrad": likelihood_gradient,
    **{
        f"{name}{axes}d{'Grad' * back}": partial(bordered, axes=axes, back=back)
        for name in ("ReflectionPad", "ReplicationPad", "CircularPad")
        for axes in (1, 2, 3)
        for back in (False, True)
        if (name, axes) != ("CircularPad", 1)
    },
    "AffineGrid": moved_places,
    "MatrixTriangularSolve": triangles,
    "UpsampleNearest1d": partial(resized, axes=1),
    "UpsampleNearest1dV2": partial(resized, axes=1),
    "UpsampleNearest2dV2": partial(resized, axes=2),
    "UpsampleNearest3d": partial(resized, axes=3),
    "UpsampleNearestExact1d": partial(resized, axes=1),
    "UpsampleNearestExact2d": partial(resized, axes=2),
    "UpsampleNearestExact3d": partial(resized, axes=3),
    "UpsampleLinear1d": partial(resized, axes=1),
    "ResizeUpsampleTrilinear": partial(resized, axes=3),
    "UpsampleBicubic2d": partial(resized, axes=2),
    "UpsampleBilinear2dAA": partial(resized, axes=2),
    "UpsampleBicubic2dAA": partial(resized, axes=2),
    "UpsampleNearest1dGrad": partial(resized, axes=1, back=True),
    "UpsampleNearest2dGrad": partial(resized, axes=2, back=True),
    "UpsampleNearest3dGrad": partial(resized, axes=3, back=True),
    "UpsampleNearestExact2dBackward": partial(resized, axes=2, back=True),
    "UpsampleNearestExact3dGrad": partial(resized, axes=3, back=True),
    "UpsampleLinear1dGrad": partial(resized, axes=1, back=True),
    "UpsampleBilinear2dGrad": partial(resized, axes=2, back=True),
    "UpsampleBilinear2dGradV2": partial(resized, axes=2, back=True),
    "UpsampleTrilinear3dBackward": partial(resized, axes=3, back=True),
    "UpsampleBicubic2dGrad": partial(resized, axes=2, back=True),
    "UpsampleBilinear2dAABackward": partial(resized, axes=2, back=True),
    "UpsampleBicubic2dAAGrad": partial(resized, axes=2, back=True),
}
