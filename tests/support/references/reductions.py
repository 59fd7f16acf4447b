"""References of reductions, running results, sorting and selection along an axis."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from support.references.row import Draw, Fill, Row, coarse, distinct, nonzero, positive, real, torch

Array = np.ndarray[Any, Any]


def over_axes(
    api: str,
    reference: Callable[..., Any],
    fill: Fill = real,
    *,
    names: str = "self dim keepDim",
    some: bool = False,
    low: int = 1,
    empty: bool = True,
    **more: Any,
) -> Row:
    """A reduction over a list of axes, none for all; ``extra`` are further arguments by name."""
    tensor, *rest = names.split()
    extra: Mapping[str, Any] = more.pop("extra", {})

    def make(d: Draw) -> Mapping[str, Any]:
        shape = d.shape(low, 8) if empty else d.sized(low, 8)
        made: dict[str, Any] = {tensor: d.tensor(tensor, shape, fill)}
        for name in rest:
            if name in ("dim", "dims", "axes"):
                made[name] = d.axes(len(shape), some=some)
            elif name in extra:
                made[name] = d.one_of(*extra[name])
            elif name == "dtype":
                made[name] = _summed(d.kind, api)
            else:
                made[name] = d.one_of(False, True)
        return made

    return Row(f"aclnn{api}", make, reference, **more)


def _summed(kind: str, api: str) -> str:
    """What a call asks to be computed in."""
    if "FLOAT" in kind or kind == "DOUBLE":
        return kind
    return "INT32" if "Sum" in api or "Prod" in api else "FLOAT"


def over_axis(
    api: str,
    reference: Callable[..., Any],
    fill: Fill = real,
    *,
    names: str = "self dim",
    low: int = 1,
    **more: Any,
) -> Row:
    """Along one axis, counted from behind now and then."""
    tensor, *rest = names.split()
    extra: Mapping[str, Any] = more.pop("extra", {})

    def make(d: Draw) -> Mapping[str, Any]:
        shape = d.sized(low, 8)
        made: dict[str, Any] = {tensor: d.tensor(tensor, shape, fill)}
        for name in rest:
            if name == "dim":
                made[name] = d.axis(len(shape))
            elif name in extra:
                made[name] = d.one_of(*extra[name])
            elif name == "dtype":
                made[name] = _summed(d.kind, api)
            else:
                made[name] = d.one_of(False, True)
        return made

    return Row(f"aclnn{api}", make, reference, **more)


def folded(function: Callable[..., Any]) -> Callable[..., Any]:
    """A NumPy reduction: no axes are all."""
    return lambda x, axes, keep=False, *_: function(x, axis=tuple(axes) or None, keepdims=keep)


def _whole(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, *_: function(x)


def _ddof(function: Callable[..., Any]) -> Callable[..., Any]:
    def reference(x: Array, axes: Any, unbiased: Any, keep: bool) -> Any:
        return function(x, axis=tuple(axes) or None, ddof=int(unbiased), keepdims=keep)

    return reference


def _sum_exp(x: Array, axes: Any, keep: bool) -> Any:
    return np.log(
        np.sum(np.exp(np.asarray(x, np.float64)), axis=tuple(axes) or None, keepdims=keep)
    )


def _norm(x: Array, order: float, axes: Any, keep: bool, *_: Any) -> Any:
    axis = tuple(axes) or None
    size = np.abs(x)
    if order == np.inf:
        return size.max(axis, keepdims=keep)
    if order == 0:
        return (x != 0).sum(axis, keepdims=keep).astype(np.float64)
    return (size**order).sum(axis, keepdims=keep) ** (1 / order)


def _median(x: Array, dim: int, keep: bool) -> Any:
    return kth(x, (x.shape[dim] + 1) // 2, dim, keep)


def kth(x: Array, k: int, dim: int, keep: bool) -> Any:
    """The k-th smallest along an axis, and its place."""
    places = np.take(np.argsort(x, dim, kind="stable"), [k - 1], dim)
    values = np.take_along_axis(x, places, dim)
    return (values, places) if keep else (values.squeeze(dim), places.squeeze(dim))


def _extreme(pick: Callable[..., Any]) -> Callable[..., Any]:
    def reference(x: Array, dim: int, keep: bool) -> Any:
        places = np.expand_dims(pick(x, dim), dim)
        values = np.take_along_axis(x, places, dim)
        return (values, places) if keep else (values.squeeze(dim), places.squeeze(dim))

    return reference


def _sorted(x: Array, _: bool, dim: int, descending: bool) -> Any:
    places = torch.argsort(torch.as_tensor(x), dim=dim, descending=descending, stable=True).numpy()
    return np.take_along_axis(x, places, dim), places


def _running(name: str) -> Callable[..., Any]:
    def reference(x: Array, dim: int) -> Any:
        values, places = getattr(torch, name)(torch.as_tensor(x), dim)
        return values.numpy(), places.numpy()

    return reference


def _product(x: Array, dim: int, keep: bool, *_: Any) -> Any:
    return np.prod(x, axis=dim, keepdims=keep)


def _of_all(api: str, reference: Callable[..., Any], fill: Fill = real, **more: Any) -> Row:
    return Row(
        f"aclnn{api}", lambda d: {"self": d.tensor("self", d.sized(0, 8), fill)}, reference, **more
    )


def _softmax(x: Array, dim: int) -> Any:
    grown = np.exp(x - x.max(dim, keepdims=True))
    return grown / grown.sum(dim, keepdims=True)


def _with_result(api: str, first: str, second: str, reference: Callable[..., Any]) -> Row:
    def make(d: Draw) -> Mapping[str, Any]:
        shape = d.sized(1, 6)
        x = d.tensor(first, shape)
        return {first: x, second: d.tensor(second, shape), "dim": d.axis(len(shape))}

    return Row(f"aclnn{api}", make, reference)


def _softmax_backward(grad: Array, y: Array, dim: int) -> Any:
    return y * (grad - (grad * y).sum(dim, keepdims=True))


def _kthvalue(d: Draw) -> Mapping[str, Any]:
    shape = d.sized(1, 5)
    x, dim = d.tensor("self", shape, distinct if np.prod(shape) < 100 else real), d.axis(len(shape))
    return {"self": x, "k": d.whole(1, shape[dim]), "dim": dim, "keepdim": d.one_of(False, True)}


def _first(d: Draw) -> Mapping[str, Any]:
    made = dict(_kthvalue(d))
    made.pop("keepdim")
    made["k"] = d.whole(0, made["k"])
    return {**made, "largest": d.one_of(False, True), "sorted": True}


def _in_front(x: Array, k: int, dim: int, largest: bool, _: bool) -> tuple[Array, Array]:
    places = np.argsort(-x if largest else x, axis=dim, kind="stable")
    places = np.take(places, range(k), axis=dim)
    return np.take_along_axis(x, places, dim), places


def _list(d: Draw) -> Mapping[str, Any]:
    shape = d.shape(1, 5)
    return {"tensors": [d.tensor("tensors", shape, coarse) for _ in range(d.whole(1, 4))]}


_UNBIASED = "self dim unbiased keepdim"
_CORRECTED = "self dim correction keepdim"
_HOW_MUCH = {"extra": {"correction": (0, 1, 2)}}
_FEW = {"low": 1, "empty": False}

ROWS = (
    over_axes("All", folded(np.all), coarse, names="self dim keepdim"),
    over_axes("Any", folded(np.any), coarse, names="self dim keepdim"),
    over_axes("Amax", folded(np.max), names="self dim keepDim", empty=False),
    over_axes("Amin", folded(np.min), names="self dim keepDim", empty=False),
    over_axes(
        "Aminmax",
        lambda x, axes, keep: (folded(np.min)(x, axes, keep), folded(np.max)(x, axes, keep)),
        empty=False,
    ),
    over_axes(
        "MaxV2",
        folded(np.max),
        names="self dims keepDims noopWithEmptyDims",
        empty=False,
        some=True,
    ),
    over_axes(
        "ReduceSum",
        folded(np.sum),
        coarse,
        names="self dims keepDims dtype",
        natural=False,
        loose=4,
    ),
    over_axes(
        "ReduceNansum",
        folded(np.nansum),
        coarse,
        names="self dim keepDim dtype",
        natural=False,
        loose=4,
    ),
    over_axes(
        "ReduceLogSum",
        lambda x, a, keep, *_: np.log(folded(np.sum)(x, a, keep)),
        positive,
        names="data axes keepDims noopWithEmptyAxes",
        some=True,
        empty=False,
    ),
    over_axes(
        "Mean", folded(np.mean), names="self dim keepDim dtype", natural=False, empty=False, loose=4
    ),
    over_axes(
        "MeanV2",
        lambda x, axes, keep, _: folded(np.mean)(x, axes, keep).astype(x.dtype),
        names="self dim keepDim noopWithEmptyAxes",
        some=True,
        natural=False,
        empty=False,
        loose=4,
    ),
    over_axes("LogSumExp", _sum_exp, names="self dim keepDim", some=True, **_FEW),
    over_axes(
        "Norm",
        _norm,
        names="self pScalar dim keepdim",
        extra={"pScalar": (1.0, 2.0, 3.0, np.inf, 0.0)},
        natural=False,
        loose=4,
        **_FEW,
    ),
    over_axes(
        "LinalgVectorNorm",
        _norm,
        names="self ord dims keepDims dtype",
        extra={"ord": (1.0, 2.0, 3.0)},
        natural=False,
        loose=4,
        **_FEW,
    ),
    over_axes("Var", _ddof(np.var), names=_UNBIASED, natural=False, loose=4, **_FEW),
    over_axes("Std", _ddof(np.std), names=_CORRECTED, natural=False, loose=4, **_FEW, **_HOW_MUCH),
    over_axes(
        "VarMean",
        lambda x, a, c, k: (_ddof(np.var)(x, a, c, k), folded(np.mean)(x, a, k)),
        names=_CORRECTED,
        natural=False,
        loose=4,
        **_FEW,
        **_HOW_MUCH,
    ),
    over_axes(
        "StdMeanCorrection",
        lambda x, a, c, k: (_ddof(np.std)(x, a, c, k), folded(np.mean)(x, a, k)),
        names=_CORRECTED,
        natural=False,
        loose=4,
        **_FEW,
        **_HOW_MUCH,
    ),
    over_axis(
        "ArgMax",
        lambda x, dim, keep: np.argmax(x, dim, keepdims=keep),
        names="self dim keepdim",
        natural=False,
    ),
    over_axis(
        "ArgMin",
        lambda x, dim, keep: np.argmin(x, dim, keepdims=keep),
        names="self dim keepdim",
        natural=False,
    ),
    over_axis("MaxDim", _extreme(np.argmax), names="self dim keepdim", natural=False),
    over_axis("MinDim", _extreme(np.argmin), names="self dim keepdim", natural=False),
    over_axis(
        "AminmaxDim",
        lambda x, dim, keep: (x.min(dim, keepdims=keep), x.max(dim, keepdims=keep)),
        names="self dim keepDim",
    ),
    over_axis("MedianDim", _median, coarse, names="self dim keepDim", natural=False),
    over_axis("ProdDim", _product, nonzero, names="self dim keepDim dtype", natural=False, loose=4),
    over_axis("Cummax", _running("cummax"), natural=False),
    over_axis("Cummin", _running("cummin"), natural=False),
    over_axis(
        "Sort",
        _sorted,
        coarse,
        names="self stable dim descending",
        extra={"stable": (True,)},
        natural=False,
    ),
    over_axis(
        "Argsort",
        lambda x, dim, down: _sorted(x, True, dim, down)[1],
        distinct,
        names="self dim descending",
        natural=False,
    ),
    over_axis("Softmax", _softmax),
    over_axis("LogSoftmax", lambda x, dim: np.log(_softmax(x, dim))),
    _with_result("SoftmaxBackward", "gradOutput", "output", _softmax_backward),
    _with_result(
        "LogSoftmaxBackward",
        "gradOutput",
        "output",
        lambda g, y, dim: g - np.exp(y) * g.sum(dim, keepdims=True),
    ),
    Row("aclnnKthvalue", _kthvalue, kth, natural=False),
    Row("aclnnTopk", _first, _in_front, natural=False),
    _of_all("Max", np.max),
    _of_all("Min", np.min),
    Row(
        "aclnnProd",
        lambda d: {
            "self": d.tensor("self", d.sized(0, 8), nonzero),
            "dtype": _summed(d.kind, d.api),
        },
        lambda x, _: np.prod(x),
        natural=False,
        loose=8,
    ),
    _of_all("AminmaxAll", lambda x: (x.min(), x.max())),
    _of_all("Median", lambda x: np.sort(x, axis=None)[(x.size - 1) // 2], natural=False),
    Row("aclnnMaxN", _list, lambda each: np.max(each, 0)),
    Row("aclnnMinN", _list, lambda each: np.min(each, 0)),
    Row("aclnnAddN", _list, lambda each: np.sum(each, 0)),
    Row("aclnnSum", _list, lambda each: np.sum(each, 0)),
)
