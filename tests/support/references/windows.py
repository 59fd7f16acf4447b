"""References of pooling, of windows as columns, and of resizing, and their gradients: PyTorch's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np

from support.references.activations import by_torch, gradient
from support.references.row import Draw, Row, distinct, real, torch

NEW = (1, 2, 3, 5, 7)


def _image(
    d: Draw, axes: int, name: str = "self", *, batched: bool = False, low: int = 4, **more: Any
) -> Any:
    front = (d.whole(1, 3),) if batched or d.one_of(True, True, False) else ()
    shape = (*front, d.whole(1, 5), *(d.whole(low, 9) for _ in range(axes)))
    return d.tensor(name, shape, more.pop("fill", real), **more)


def _window(d: Draw, axes: int, names: str) -> dict[str, Any]:
    kernel, stride, pad = names.split()
    return {
        kernel: [d.whole(2, 3) for _ in range(axes)],
        stride: [d.whole(1, 3) for _ in range(axes)],
        pad: [d.whole(0, 1) for _ in range(axes)],
    }


def _average(axes: int) -> Callable[..., Any]:
    def pool(
        x: Any, kernel: Any, stride: Any, pad: Any, ceil: bool, counted: bool, divisor: int, *_: Any
    ) -> Any:
        run = getattr(torch.nn.functional, f"avg_pool{axes}d")
        return run(x, kernel, stride, pad, ceil, counted, divisor or None)

    return pool


def _avg(api: str, axes: int, names: str, *, backward: bool = False) -> Row:
    def make(d: Draw) -> Mapping[str, Any]:
        x = _image(d, axes)
        made: dict[str, Any] = {
            "self": x,
            **_window(d, axes, names),
            "ceilMode": d.one_of(False, True),
            "countIncludePad": d.one_of(False, True),
            "divisorOverride": d.one_of(0, 0, 3),
        }
        if axes == 2:
            made["cubeMathType"] = 0
        if not backward:
            return made
        shape = by_torch(_average(axes))(np.zeros(x.shape), *list(made.values())[1:]).shape
        grad = "gradOuput" if axes == 3 else "gradOutput"
        return {grad: d.tensor(grad, shape, kind=d.kind), **made}

    reference = gradient(_average(axes)) if backward else by_torch(_average(axes))
    return Row(f"aclnn{api}", make, reference, loose=2)


def _adaptive(kind: str, axes: int, *, backward: bool = False) -> Row:
    def pool(x: Any, size: Any) -> Any:
        return getattr(torch.nn.functional, f"adaptive_{kind}_pool{axes}d")(
            x, size, *([True] if kind == "max" else [])
        )

    def make(d: Draw) -> Mapping[str, Any]:
        x = _image(d, axes, fill=distinct if kind == "max" else real)
        size = [d.one_of(1, 2, 3, 5) for _ in range(axes)]
        if not backward:
            return {"self": x, "outputSize": size}
        grad = d.tensor("gradOutput", (*x.shape[: x.ndim - axes], *size), kind=d.kind)
        if kind == "avg":
            return {"gradOutput": grad, "self": x}
        places = by_torch(pool)(np.asarray(x, np.float64), size)[1]
        return {
            "gradOutput": grad,
            "self": x,
            "indices": places.astype(np.int64 if axes == 2 else np.int32),
        }

    def back(grad: Any, x: Any, places: Any = None) -> Any:
        if places is None:
            return gradient(pool)(grad, x, list(grad.shape[-axes:]))
        return _by_place(grad, x, places, axes)

    name = f"aclnnAdaptive{kind.title()}Pool{axes}d{'Backward' if backward else ''}"
    return Row(name, make, back if backward else by_torch(pool), natural=False, given=True, loose=2)


def _by_place(grad: Any, x: Any, places: Any, axes: int) -> Any:
    rows = prod(x.shape[: x.ndim - axes])
    found = np.zeros((rows, prod(x.shape[-axes:])))
    for row, at, each in zip(found, places.reshape(rows, -1), grad.reshape(rows, -1), strict=True):
        np.add.at(row, at, each)
    return found.reshape(x.shape)


def _largest(axes: int) -> Callable[..., Any]:
    def pool(x: Any, kernel: Any, stride: Any, pad: Any, dilation: Any, ceil: bool) -> Any:
        run = getattr(torch.nn.functional, f"max_pool{axes}d")
        return run(x, kernel, stride, pad, dilation, ceil, return_indices=True)

    return pool


def _max(api: str, axes: int, *, backward: bool = False) -> Row:
    def make(d: Draw) -> Mapping[str, Any]:
        x = _image(d, axes, fill=distinct, low=5)
        made = {
            "self": x,
            **_window(d, axes, "kernelSize stride padding"),
            "dilation": [1] * axes,
            "ceilMode": d.one_of(False, True),
        }
        if not backward:
            return made
        values, places = by_torch(_largest(axes))(
            np.asarray(x, np.float64), *list(made.values())[1:]
        )
        made.pop("self")
        grad = d.tensor("gradOutput", values.shape, kind=d.kind)
        return {"gradOutput": grad, "self": x, "indices": places.astype(np.int32), **made}

    def back(grad: Any, x: Any, places: Any, *_: Any) -> Any:
        return _by_place(grad, x, places, axes)

    return Row(
        f"aclnn{api}", make, back if backward else by_torch(_largest(axes)), natural=False, loose=2
    )


def _plain_max(d: Draw) -> Mapping[str, Any]:
    x = _image(d, 2, batched=True, fill=distinct)
    window = _window(d, 2, "kernelShape strides p")
    pad = window.pop("p")
    return {
        "self": x,
        **window,
        "autoPad": 0,
        "pads": [*pad, *pad],
        "dilations": [1, 1],
        "ceilMode": d.whole(0, 1),
    }


def _im2col(d: Draw) -> Mapping[str, Any]:
    x = _image(d, 2)
    return {
        "self": x,
        "kernelSize": [d.whole(1, 3), d.whole(1, 3)],
        "dilation": [1, 1],
        "padding": [d.whole(0, 1), d.whole(0, 1)],
        "stride": [d.whole(1, 2), d.whole(1, 2)],
    }


def _unfold(x: Any, kernel: Any, dilation: Any, pad: Any, stride: Any) -> Any:
    return torch.nn.functional.unfold(x, kernel, dilation, pad, stride)


def _col2im(d: Draw) -> Mapping[str, Any]:
    d.dtype("gradOutput")
    made = dict(_im2col(d))
    x = made.pop("self")
    columns = by_torch(_unfold)(np.zeros(x.shape), *made.values())
    return {
        "gradOutput": d.tensor("gradOutput", columns.shape, kind=d.kind),
        "inputSize": list(x.shape[-2:]),
        **made,
    }


def _fold(grad: Any, size: Any, kernel: Any, dilation: Any, pad: Any, stride: Any) -> Any:
    return torch.nn.functional.fold(grad, size, kernel, dilation, pad, stride)


def _resized(mode: str, size: Any, corners: Any, x: Any, *, antialias: bool = False) -> Any:
    more = {} if corners is None else {"align_corners": corners}
    if antialias:
        more["antialias"] = True
    return torch.nn.functional.interpolate(x.double(), tuple(size), mode=mode, **more)


def upsample(
    api: str, mode: str, axes: int, names: str, *, x: str = "self", antialias: bool = False
) -> Row:
    """Resizing to a size, scales left to follow from both sizes; gradients by the name."""
    is_back = "Grad" in api or "Backward" in api

    def make(d: Draw) -> Mapping[str, Any]:
        shape = (d.whole(1, 3), d.whole(1, 5), *(d.whole(2, 9) for _ in range(axes)))
        size = [d.one_of(2, 3, 5, 8, 13) for _ in range(axes)]
        made: dict[str, Any] = {
            "alignCorners": d.one_of(False, True),
            "outputSize": size,
            "inputSize": list(shape),
        }
        tensor = (*shape[:2], *size) if is_back else shape
        made[x] = d.tensor(x, tensor)
        return {name: made.get(name, 0.0) for name in names.split()}

    def reference(tensor: Any, *given: Any) -> Any:
        named = dict(zip(names.split()[1:], given, strict=True))
        corners, size = named.get("alignCorners"), named["outputSize"]
        corners = bool(corners) if mode in ("linear", "bilinear", "bicubic", "trilinear") else None
        run = lambda t: _resized(mode, size, corners, t, antialias=antialias)  # noqa: E731
        if is_back:
            return gradient(run)(tensor, np.zeros(named["inputSize"]))
        found = by_torch(run)(tensor)
        return found.astype(tensor.dtype) if mode.startswith("nearest") else found

    return Row(f"aclnn{api}", make, reference, loose=8)


def _moved(d: Draw) -> Mapping[str, Any]:
    images, axes = d.whole(1, 3), d.one_of(2, 3)
    size = [images, 2, *(d.whole(1, 5) for _ in range(axes))]
    theta = d.tensor("theta", (images, axes, axes + 1))
    return {"theta": theta, "size": size, "alignCorners": d.one_of(False, True)}


def _affine(theta: Any, size: list[int], corners: bool) -> Any:
    return torch.nn.functional.affine_grid(theta, size, align_corners=corners)


def _grid(d: Draw) -> Mapping[str, Any]:
    axes = 2 if d.api.endswith("2D") else 3
    x = d.tensor("input", (d.whole(1, 3), d.whole(1, 5), *(d.whole(2, 7) for _ in range(axes))))
    grid = d.tensor(
        "grid",
        (x.shape[0], *(d.whole(1, 6) for _ in range(axes)), axes),
        lambda r, s: r.uniform(-1.2, 1.2, s),
        kind=d.kind,
    )
    return {
        "input": x,
        "grid": grid,
        "interpolationMode": d.whole(0, 1),
        "paddingMode": d.whole(0, 1),
        "alignCorners": d.one_of(False, True),
    }


def _sampled(x: Any, grid: Any, mode: int, pad: int, corners: bool) -> Any:
    return torch.nn.functional.grid_sample(
        x, grid, ("bilinear", "nearest")[mode], ("zeros", "border")[pad], corners
    )


def _whole_image(api: str, fold: Callable[..., Any]) -> Row:
    def make(d: Draw) -> Mapping[str, Any]:
        return {"self": d.tensor("self", d.sized(4, 6))}

    return Row(
        f"aclnn{api}", make, lambda x: fold(x, axis=tuple(range(2, x.ndim)), keepdims=True), loose=4
    )


_2D, _3D = "kernelSize strides paddings", "kernelSize stride padding"

ROWS = (
    _avg("AvgPool2d", 2, _2D),
    _avg("AvgPool2dBackward", 2, _3D, backward=True),
    _avg("AvgPool3d", 3, _3D),
    _avg("AvgPool3dBackward", 3, _3D, backward=True),
    *(
        _adaptive(kind, axes, backward=back)
        for kind in ("avg", "max")
        for axes in (2, 3)
        for back in (False, True)
    ),
    _max("MaxPool2dWithIndices", 2),
    _max("MaxPool2dWithIndicesBackward", 2, backward=True),
    _max("MaxPool3dWithArgmax", 3),
    _max("MaxPool3dWithArgmaxBackward", 3, backward=True),
    Row(
        "aclnnMaxPool",
        _plain_max,
        by_torch(
            lambda x, k, s, _, p, d, c: torch.nn.functional.max_pool2d(x, k, s, p[:2], d, bool(c))
        ),
    ),
    _whole_image("GlobalAveragePool", np.mean),
    _whole_image("GlobalMaxPool", np.max),
    Row("aclnnIm2col", _im2col, by_torch(_unfold)),
    Row("aclnnIm2colBackward", _col2im, by_torch(_fold), loose=2),
    Row("aclnnAffineGrid", _moved, by_torch(_affine), loose=4),
    Row("aclnnGridSampler2D", _grid, by_torch(_sampled), loose=16),
    Row("aclnnGridSampler3D", _grid, by_torch(_sampled), loose=16),
    upsample("UpsampleNearest1d", "nearest", 1, "self outputSize"),
    upsample("UpsampleNearest2d", "nearest", 2, "self outputSize"),
    upsample("UpsampleNearest3d", "nearest", 3, "self outputSize scalesD scalesH scalesW"),
    upsample("UpsampleNearest1dV2", "nearest", 1, "self outputSize scaleL"),
    upsample("UpsampleNearest2dV2", "nearest", 2, "self outputSize scalesH scalesW"),
    upsample(
        "UpsampleNearest1dBackward",
        "nearest",
        1,
        "gradOut outputSize inputSize scales",
        x="gradOut",
    ),
    upsample(
        "UpsampleNearest2dBackward",
        "nearest",
        2,
        "gradOut outputSize inputSize scalesH scalesW",
        x="gradOut",
    ),
    upsample(
        "UpsampleNearest3dBackward",
        "nearest",
        3,
        "gradOut outputSize inputSize scalesD scalesH scalesW",
        x="gradOut",
    ),
    upsample("UpsampleNearestExact1d", "nearest-exact", 1, "self outputSize scales"),
    upsample("UpsampleNearestExact2d", "nearest-exact", 2, "self outputSize scalesH scalesW"),
    upsample(
        "UpsampleNearestExact3d", "nearest-exact", 3, "self outputSize scalesD scalesH scalesW"
    ),
    upsample(
        "UpsampleNearestExact1dBackward",
        "nearest-exact",
        1,
        "gradOutput outputSize inputSize scales",
        x="gradOutput",
    ),
    upsample(
        "UpsampleNearestExact2dBackward",
        "nearest-exact",
        2,
        "gradOutput outputSize inputSize scalesH scalesW",
        x="gradOutput",
    ),
    upsample(
        "UpsampleNearestExact3dBackward",
        "nearest-exact",
        3,
        "gradOut outputSize inputSize scalesD scalesH scalesW",
        x="gradOut",
    ),
    upsample("UpsampleLinear1d", "linear", 1, "self outputSize alignCorners scales"),
    upsample(
        "UpsampleLinear1dBackward",
        "linear",
        1,
        "gradOut outputSize inputSize alignCorners scales",
        x="gradOut",
    ),
    upsample("UpsampleBilinear2d", "bilinear", 2, "self outputSize alignCorners scalesH scalesW"),
    upsample(
        "UpsampleBilinear2dBackward",
        "bilinear",
        2,
        "gradOut outputSize inputSize alignCorners scalesH scalesW",
        x="gradOut",
    ),
    upsample(
        "UpsampleBilinear2dBackwardV2",
        "bilinear",
        2,
        "gradOut outputSize inputSize alignCorners scalesH scalesW",
        x="gradOut",
    ),
    upsample(
        "UpsampleBilinear2dAA",
        "bilinear",
        2,
        "input outputSize alignCorners scalesH scalesW",
        x="input",
        antialias=True,
    ),
    upsample(
        "UpsampleBilinear2dAABackward",
        "bilinear",
        2,
        "gradOutput outputSize inputSize alignCorners scalesH scalesW",
        x="gradOutput",
        antialias=True,
    ),
    upsample("UpsampleBicubic2d", "bicubic", 2, "self outputSize alignCorners scalesH scalesW"),
    upsample(
        "UpsampleBicubic2dBackward",
        "bicubic",
        2,
        "gradOut outputSize inputSize alignCorners scalesH scalesW",
        x="gradOut",
    ),
    upsample(
        "UpsampleBicubic2dAA",
        "bicubic",
        2,
        "x outputSize alignCorners scalesH scalesW",
        x="x",
        antialias=True,
    ),
    upsample(
        "UpsampleBicubic2dAAGrad",
        "bicubic",
        2,
        "gradOutput outputSize inputSize alignCorners scalesH scalesW",
        x="gradOutput",
        antialias=True,
    ),
    upsample(
        "UpsampleTrilinear3d",
        "trilinear",
        3,
        "self outputSize alignCorners scalesD scalesH scalesW",
    ),
    upsample(
        "UpsampleTrilinear3dBackward",
        "trilinear",
        3,
        "gradOut outputSize inputSize alignCorners scalesD scalesH scalesW",
        x="gradOut",
    ),
)
