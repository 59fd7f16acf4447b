"""References of the interfaces that work on lists: each tensor as the interface of one does it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from support.references import pointwise
from support.references.row import (
    Draw,
    Fill,
    Row,
    coarse,
    dtypes_of,
    nonzero,
    positive,
    real,
    small,
)

Reference = Callable[..., Any]
_FORMS = ("List", "Scalar", "ScalarV2", "ScalarList")


def listed(api: str, tensors: str, reference: Reference, fill: Fill = real, **numbers: Any) -> Row:
    """Lists of tensors of one shape each, and numbers that all of them share."""
    names = tensors.split()
    order = numbers.pop("order", None)
    more = {key: numbers.pop(key) for key in ("loose", "natural") if key in numbers}

    def make(d: Draw) -> Mapping[str, Any]:
        shapes = [d.shape(0, 5) for _ in range(d.whole(1, 3))]
        made: dict[str, Any] = {
            name: [d.tensor(name, shape, fill) for shape in shapes] for name in names
        }
        made |= {name: number(d, len(shapes)) for name, number in numbers.items()}
        return {name: made[name] for name in order or made}

    def each(*given: Any) -> Any:
        count = next(len(value) for value in given if isinstance(value, list))
        return ([np.asarray(reference(*(_own(g, n) for g in given))) for n in range(count)],)

    return Row(f"aclnnForeach{api}", make, each, natural=False, **more)


def _own(given: Any, place: int) -> Any:
    """What one tensor of the list has: its own, or the one number for all."""
    if isinstance(given, list):
        return given[place]
    if isinstance(given, np.ndarray):
        return given.reshape(-1)[place if given.size > 1 else 0]
    return given


def scalar(*options: Any) -> Callable[[Draw, int], Any]:
    """An aclScalar for all: whole for whole numbers."""
    return lambda d, _: d.one_of(*(each for each in options if _fits(d, each)))


def scalars(*options: Any) -> Callable[[Draw, int], Any]:
    """An aclScalarList, a number for each tensor."""
    return lambda d, count: [
        d.one_of(*(each for each in options if _fits(d, each))) for _ in range(count)
    ]


def one(name: str, *options: Any) -> Callable[[Draw, int], Any]:
    """A tensor of one element for all."""

    def make(d: Draw, _: int) -> Any:
        value = d.one_of(*(each for each in options if _fits(d, each)))
        listed = dtypes_of(d.api, name, d.family)
        wide = "FLOAT" if "FLOAT" in d.kind else "INT32"
        kind = d.kind if d.kind in listed else wide
        return d.tensor(name, (1,), lambda *_: np.full((1,), value), kind=kind)

    return make


def several(name: str, *options: Any) -> Callable[[Draw, int], Any]:
    """A tensor with a number for each tensor of the lists."""

    def make(d: Draw, count: int) -> Any:
        fitting = [each for each in options if _fits(d, each)]
        values = [d.one_of(*fitting) for _ in range(count)]
        return d.tensor(name, (count,), lambda *_: np.array(values), kind=d.kind)

    return make


def _fits(d: Draw, value: Any) -> bool:
    return not isinstance(value, float) or d.kind.endswith(("FLOAT", "FLOAT16"))


def _unary(name: str, fill: Fill = real) -> Row:
    own = next(row for row in pointwise.ROWS if row.api == f"aclnn{name}")
    return listed(name, "x", own.reference, fill, loose=own.loose)


def _binary(
    name: str, reference: Reference, options: tuple[Any, ...], fill: Fill = real
) -> list[Row]:
    """With another list, with a number for all as tensor and scalar, with one for each."""
    return [
        listed(f"{name}Scalar", "x", reference, fill, scalar=one("scalar", *options)),
        listed(f"{name}ScalarV2", "x", reference, fill, scalar=scalar(*options)),
        listed(f"{name}ScalarList", "x", reference, fill, scalars=scalars(*options)),
    ]


def _weighed(name: str, reference: Reference, fill: Fill = real) -> list[Row]:
    tensors, options = "x1 x2 x3", (1, 2, 1.5)
    return [
        listed(f"{name}Scalar", tensors, reference, fill, scalar=one("scalar", *options)),
        listed(f"{name}ScalarV2", tensors, reference, fill, scalar=scalar(*options)),
    ]


def _zeroed(d: Draw) -> Mapping[str, Any]:
    return {"x": [d.tensor("x", d.shape(0, 5)) for _ in range(d.whole(1, 3))]}


def _rounded(x: Any, mode: int) -> Any:
    return {1: np.rint, 2: np.floor, 3: np.ceil, 5: np.trunc}[mode](x)


_ALPHA = (1, 2, 1.5)
_BY = (2, 3, 2.5)

ROWS = (
    *(
        _unary(name)
        for name in (
            "Abs",
            "Asin",
            "Acos",
            "Atan",
            "Cos",
            "Cosh",
            "Erf",
            "Erfc",
            "Exp",
            "Expm1",
            "Neg",
            "Sin",
            "Sinh",
            "Tanh",
        )
        if name not in ("Asin", "Acos")
    ),
    _unary("Asin", small),
    _unary("Acos", small),
    _unary("Tan", small),
    _unary("Sign", coarse),
    _unary("Reciprocal", nonzero),
    *(_unary(name, positive) for name in ("Log", "Log10", "Log1p", "Log2", "Sqrt")),
    listed("Sigmoid", "x", lambda x: 1 / (1 + np.exp(-x))),
    Row("aclnnForeachZeroInplace", _zeroed, lambda x: ([np.zeros_like(each) for each in x],)),
    listed("RoundOffNumberV2", "x", _rounded, roundMode=scalar(1, 2, 3, 5)),
    listed("Copy", "x", lambda x: x),
    listed("AddList", "x1 x2", lambda x, y, a: x + a * y, alpha=one("alpha", *_ALPHA)),
    listed("AddListV2", "x1 x2", lambda x, y, a: x + a * y, alpha=scalar(*_ALPHA)),
    listed("SubList", "x1 x2", lambda x, y, a: x - a * y, alpha=one("alpha", *_ALPHA)),
    listed("SubListV2", "x1 x2", lambda x, y, a: x - a * y, alpha=scalar(*_ALPHA)),
    listed("MulList", "x1 x2", np.multiply),
    listed("DivList", "x1 x2", np.true_divide, nonzero),
    listed("MaximumList", "x1 x2", np.maximum),
    listed("MinimumList", "x1 x2", np.minimum),
    listed("PowList", "x1 x2", pointwise.power, positive),
    *_binary("Add", lambda x, y: x + y, _BY),
    *_binary("Sub", lambda x, y: x - y, _BY),
    *_binary("Mul", lambda x, y: x * y, _BY),
    *_binary("Div", lambda x, y: x / y, _BY),
    *_binary("Maximum", np.maximum, _BY),
    *_binary("Minimum", np.minimum, _BY),
    *_binary("Pow", pointwise.power, _BY, positive),
    listed(
        "PowScalarAndTensor",
        "x",
        pointwise.power,
        positive,
        scalar=scalar(2, 3),
        order=("scalar", "x"),
    ),
    *(
        listed(
            f"Addcdiv{form}",
            "x1 x2 x3",
            lambda x, a, b, v: x + v * a / b,
            nonzero,
            scalars=several("scalars", 1, 2, 3),
        )
        for form in ("List", "ScalarList")
    ),
    *(
        listed(
            f"Addcmul{form}",
            "x1 x2 x3",
            lambda x, a, b, v: x + v * a * b,
            scalars=several("scalars", 1, 2, 3),
        )
        for form in ("List", "ScalarList")
    ),
    listed(
        "Norm", "x", lambda x, p: np.linalg.norm(x.reshape(-1), p), scalar=scalar(1.0, 2.0), loose=8
    ),
    *_weighed("Addcdiv", lambda x, a, b, value: x + value * a / b, nonzero),
    *_weighed("Addcmul", lambda x, a, b, value: x + value * a * b),
    listed("LerpList", "x1 x2 weight", lambda x, y, w: x + w * (y - x)),
    listed("LerpScalar", "x1 x2", lambda x, y, w: x + w * (y - x), weight=scalar(0.25, 0.75)),
)
