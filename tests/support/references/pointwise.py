"""References of elementwise interfaces, a row each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from support.references.row import (
    Draw,
    Fill,
    Row,
    above_one,
    bounded,
    coarse,
    nonzero,
    odd,
    positive,
    real,
    small,
    torch,
)  # fmt: skip

Array = np.ndarray[Any, Any]
Reference = Callable[..., Any]
Numbers = Mapping[str, Sequence[Any]]


def pointwise(
    api: str,
    tensors: str,
    reference: Reference,
    fill: Fill | Mapping[str, Fill] = real,
    *,
    order: str = "",
    alike: bool = False,
    least: int = 0,
    **more: Any,
) -> Row:
    """Tensors that broadcast to the first (``alike`` ones have its shape), and numbers.

    ``numbers`` has what to choose each from; ``order`` names the parameters as the reference takes
    them where that is another order. ``mixed`` tensors are of different dtypes now and then.
    """
    numbers: Numbers = more.pop("numbers", {})
    mixed: bool = more.pop("mixed", False)
    promoting: tuple[str, ...] = more.get("promoting", ())
    names = tensors.split()

    def make(d: Draw) -> Mapping[str, Any]:
        shape = d.shape(least)
        made: dict[str, Any] = {}
        for place, name in enumerate(names):
            own = shape if alike or not place else narrowed(d, shape)
            if place and mixed and d.one_of(False, False, True):
                d.kind = ""
            each = fill[name] if isinstance(fill, Mapping) else fill
            made[name] = d.tensor(name, own, each)
        kinds = [np.asarray(each).dtype.kind for each in made.values()]
        for name, options in numbers.items():  # no fraction of whole numbers, where it isn't theirs
            fits = name in promoting or not set(kinds) <= set("iub")
            fitting = [each for each in options if fits or not isinstance(each, float)]
            if "u" in kinds:
                fitting = [each for each in fitting if each >= 0]
            if name in promoting and d.api.startswith("aclnnInplace"):  # what it is stored into
                fitting = [each for each in fitting if _held(each, kinds[0])] or [True]
            made[name] = d.one_of(*(fitting or options))
        return {name: made[name] for name in order.split() or made}

    return Row(f"aclnn{api}", make, reference, **more)


def _held(number: Any, kind: str) -> bool:
    """Whether a tensor of a kind can hold what it and a number make together."""
    return (
        isinstance(number, bool) or kind not in "iub" or (isinstance(number, int) and kind != "b")
    )


def quotient(x: Array, y: Array, *, whole: bool) -> Array:
    """Whole numbers lose the fraction, where what they are added to is ``whole`` too."""
    whole &= x.dtype.kind in "iub" and y.dtype.kind in "iub"
    return np.trunc(x / y).astype(np.int64) if whole else x / y


def narrowed(d: Draw, shape: Sequence[int]) -> tuple[int, ...]:
    """A shape that broadcasts to another: axes of one, and none in front."""
    way = d.one_of("same", "same", "ones", "fewer")
    if way == "same":
        return tuple(shape)
    kept = [1 if d.one_of(True, False) else size for size in shape]
    return bounded(kept[d.whole(0, len(kept)) :] if way == "fewer" else kept)


def of_one(
    api: str, reference: Reference, fill: Fill = real, name: str = "self", **more: Any
) -> Row:
    """A function of one number."""
    return pointwise(api, name, reference, fill, **more)


def function(
    api: str, reference: Reference, fill: Fill = real, name: str = "self", **more: Any
) -> Row:
    """One that makes fractions of whole numbers."""
    return pointwise(api, name, fractions(reference), fill, **more)


def of_two(
    api: str, reference: Reference, fill: Any = real, tensors: str = "self other", **more: Any
) -> Row:
    """Two tensors in the dtype that they have together."""
    return pointwise(api, tensors, reference, fill, mixed=True, **more)


def with_number(
    api: str,
    reference: Reference,
    options: Sequence[Any] = (2, -1, 3, 2.5, -0.75),
    fill: Fill = real,
    *,
    tensor: str = "self",
    number: str = "other",
    **more: Any,
) -> Row:
    """A tensor and a number that takes part in the promotion."""
    numbers = {number: options, **more.pop("numbers", {})}
    return pointwise(api, tensor, reference, fill, numbers=numbers, promoting=(number,), **more)


def fractions(reference: Reference) -> Reference:
    """A function on float64, whatever is given."""
    return lambda *given: reference(
        *(np.asarray(each, np.float64) if isinstance(each, np.ndarray) else each for each in given)
    )


def by_torch(name: str) -> Reference:
    """A function of PyTorch by its place, on tensors."""

    def reference(*given: Any) -> Any:
        found = torch
        for part in name.split("."):
            found = getattr(found, part)
        tensors = (torch.as_tensor(e) if isinstance(e, np.ndarray) else e for e in given)
        return found(*tensors).numpy()

    return reference


def _times_log(x: Any, y: Any) -> Any:
    return np.where(x == 0, 0.0, x * np.log(y))


def _divided(x: Any, y: Any, mode: int) -> Any:
    if mode == 1:
        both = (np.asarray(each).dtype.kind in "iub" for each in (x, y))
        return np.trunc(np.true_divide(x, y)).astype(np.int64 if all(both) else np.float64)
    return np.floor_divide(x, y) if mode else np.true_divide(x, y)


def power(x: Any, y: Any) -> Any:
    """x to the power of y; of whole numbers what is before the point."""
    if all(np.asarray(each).dtype.kind in "iub" for each in (x, y)):
        return np.trunc(np.power(np.asarray(x, np.float64), y)).astype(np.int64)
    return np.power(np.asarray(x, np.float64), y)


def _added(x: Any, y: Any, alpha: Any) -> Any:
    return x + alpha * y if alpha != 1 else np.add(x, y)


def _shrunk(x: Any, limit: float, bias: float) -> Any:
    return np.where(x < -limit, x + bias, np.where(x > limit, x - bias, 0))


_ALPHA = {"alpha": (1, 2, 3, 1.2)}
_TIMES = {"alpha": (1, 2)}
_BITS = {"And": np.bitwise_and, "Or": np.bitwise_or, "Xor": np.bitwise_xor}
_COMPARED = {
    "Eq": np.equal, "Ne": np.not_equal, "Gt": np.greater, "Ge": np.greater_equal, "Lt": np.less,
    "Le": np.less_equal,
}  # fmt: skip
_WEIGHED = "self tensor1 tensor2"
_LIMITS = {"clipValueMin": (0, 1, 0.5), "clipValueMax": (2, 3, 2.5)}

ROWS = (
    of_one("Abs", np.abs),
    function("Acos", np.arccos, small, "input", loose=3),  # of a series, near 0.7
    function("Acosh", np.arccosh, above_one),
    function("Asin", np.arcsin, small, loose=3),
    function("Asinh", np.arcsinh, name="input"),
    function("Atan", np.arctan, name="input"),
    function("Atanh", np.arctanh, small, "input"),
    of_one("BitwiseNot", np.invert),
    of_one("Cast", lambda x, _: x, natural=False, given=True, numbers={"dtype": (0,)}),
    of_one("Ceil", np.ceil),
    function("Cos", np.cos, name="input"),
    function("Cosh", np.cosh),
    function("Erf", by_torch("erf")),
    function("Erfc", by_torch("erfc")),
    function("Digamma", by_torch("digamma"), positive),
    function("Lgamma", by_torch("lgamma"), positive),
    function("Erfinv", by_torch("erfinv"), small),
    function("Exp", np.exp),
    function("Exp2", np.exp2),
    function("Expm1", np.expm1),
    of_one("Floor", np.floor),
    of_one("Frac", lambda x: x - np.trunc(x), name="input"),
    of_one("IsFinite", np.isfinite, odd),
    of_one("IsInf", np.isinf, odd, "x"),
    of_one("IsNegInf", np.isneginf, odd),
    of_one("IsPosInf", np.isposinf, odd),
    function("Log", np.log, positive),
    function("Log10", np.log10, positive),
    function("Log1p", np.log1p, positive),
    function("Log2", np.log2, positive),
    of_one("LogicalNot", np.logical_not, coarse),
    of_one("Neg", np.negative),
    function("Reciprocal", lambda x: 1 / x, nonzero),
    of_one("Round", lambda x: np.rint(x).astype(x.dtype)),
    function("Rsqrt", lambda x: 1 / np.sqrt(x), positive),
    of_one("Sign", lambda x: x if x.dtype == bool else np.sign(x), coarse),
    of_one("Signbit", lambda x: np.zeros_like(x) if x.dtype == bool else x < 0),
    function("Sin", np.sin),
    function("Sinc", np.sinc),
    function("Sinh", np.sinh),
    function("Sqrt", np.sqrt, positive),
    function("Tan", np.tan, small),
    function("Tanh", np.tanh),
    of_one("Trunc", np.trunc),
    of_one("RoundDecimals", np.round, numbers={"decimals": (0, 1, 2)}),
    of_one(
        "NanToNum",
        lambda x, nan, high, low: np.nan_to_num(x, nan=nan, posinf=high, neginf=low),
        odd,
        numbers={"nan": (0.0, 1.5), "posinf": (3.0,), "neginf": (-7.0, -1.0)},
    ),
    of_two("Add", _added, numbers=_ALPHA),
    of_two("Sub", lambda x, y, alpha: x - alpha * y, numbers=_ALPHA),
    of_two("Rsub", lambda x, y, alpha: y - alpha * x, numbers=_ALPHA),
    of_two("AddRelu", lambda x, y, alpha: np.maximum(x + alpha * y, 0), numbers=_ALPHA),
    of_two("Mul", np.multiply),
    of_two("Div", np.true_divide, nonzero),
    of_two("DivMod", _divided, nonzero, numbers={"mode": (0, 1, 2)}),
    of_two("FloorDivide", np.floor_divide, nonzero),
    of_two("FmodTensor", np.fmod, nonzero),
    of_two("RemainderTensorTensor", np.remainder, nonzero),
    of_two("Maximum", np.maximum, coarse),
    of_two("Minimum", np.minimum, coarse),
    of_two("Atan2", fractions(np.arctan2)),
    of_two("LogAddExp", fractions(np.logaddexp)),
    of_two("LogAddExp2", fractions(np.logaddexp2)),
    of_two("PowTensorTensor", power, positive, "self exponent"),
    of_two("XLogYTensor", fractions(_times_log), {"self": coarse, "other": positive}),
    *(of_two(f"{name}Tensor", each, coarse) for name, each in _COMPARED.items()),
    *(
        with_number(f"{name}Scalar", each, (1, 0, -1.0, 0.5), coarse)
        for name, each in _COMPARED.items()
    ),
    *(of_two(f"Bitwise{name}Tensor", each) for name, each in _BITS.items()),
    *(with_number(f"Bitwise{name}Scalar", each, (1, 3, 6)) for name, each in _BITS.items()),
    of_two("LogicalAnd", np.logical_and, coarse),
    of_two("LogicalOr", np.logical_or, coarse),
    of_two("LogicalXor", np.logical_xor, coarse),
    of_two(
        "IsClose",
        lambda x, y, rtol, atol, nan: np.isclose(x, y, rtol, atol, equal_nan=nan),
        coarse,
        numbers={"rtol": (1e-5, 0.3), "atol": (1e-8, 0.25), "equal_nan": (False, True)},
    ),
    pointwise("Heaviside", "input values", np.heaviside, {"input": coarse, "values": real}),
    with_number("Adds", lambda x, y, alpha: x + alpha * y, numbers=_TIMES),
    with_number("Subs", lambda x, y, alpha: x - alpha * y, numbers=_TIMES),
    with_number("Rsubs", lambda x, y, alpha: y - alpha * x, numbers=_TIMES),
    with_number("Muls", np.multiply),
    with_number("Divs", np.true_divide),
    with_number("DivMods", _divided, numbers={"mode": (0, 1, 2)}),
    with_number("FloorDivides", np.floor_divide),
    with_number("FmodScalar", np.fmod),
    with_number("RemainderTensorScalar", np.remainder),
    with_number(
        "RemainderScalarTensor",
        lambda y, x: np.remainder(x, y),
        fill=nonzero,
        tensor="other",
        number="self",
    ),
    with_number("PowTensorScalar", power, (2, 3, 0.5, 1.5), positive, number="exponent"),
    with_number(
        "PowScalarTensor",
        lambda y, x: power(x, y),
        (2, 2.5),
        positive,
        tensor="exponent",
        number="self",
    ),
    with_number("XLogYScalarOther", fractions(_times_log), (2, 3.5), coarse),
    with_number(
        "XLogYScalarSelf",
        fractions(lambda y, x: _times_log(np.float64(x), y)),
        (2, 3.5),
        positive,
        tensor="other",
        number="self",
    ),
    with_number(
        "IsInTensorScalar",
        lambda x, y, _, invert: (x == y) ^ invert,
        (1, 0, 0.5),
        coarse,
        tensor="element",
        number="testElement",
        numbers={"assumeUnique": (False,), "invert": (False, True)},
    ),
    of_two(
        "Addcmul",
        lambda x, a, b, value: x + value * a * b,
        tensors=_WEIGHED,
        numbers={"value": (1, 2, 1.5)},
    ),
    of_two(
        "Addcdiv",
        lambda x, a, b, value: x + value * quotient(a, b, whole=x.dtype.kind in "iub"),
        nonzero,
        tensors=_WEIGHED,
        numbers={"value": (1, 2, 1.5)},
    ),
    of_one("Clamp", np.clip, numbers=_LIMITS),
    of_one("Hardtanh", np.clip, numbers=_LIMITS),
    of_one("ClampMin", np.maximum, numbers={"clipValueMin": (0, 1, 0.5)}),
    of_one("ClampMax", np.minimum, numbers={"clipValueMax": (1, 2, 0.5)}),
    of_two("ClampMinTensor", np.maximum, tensors="self clipValueMin"),
    of_two("ClampMaxTensor", np.minimum, tensors="self max"),
    of_two(
        "ClampTensor",
        lambda x, low, high: np.minimum(np.maximum(x, low), high),
        tensors="self clipValueMin clipValueMax",
    ),
    pointwise("Lerp", "self end weight", lambda x, y, w: x + w * (y - x)),
    pointwise("Lerps", "self end", lambda x, y, w: x + w * (y - x), numbers={"weight": (0.3, 2)}),
    pointwise(
        "SWhere",
        "condition self other",
        np.where,
        {"condition": coarse, "self": real, "other": real},
    ),
    of_one("InplaceZero", np.zeros_like, name="selfRef"),
    of_one("InplaceOne", np.ones_like, name="selfRef"),
    of_one(
        "InplaceFillScalar",
        lambda x, value: np.full(x.shape, value),
        name="selfRef",
        numbers={"value": (2, 0, 2.5)},
    ),
    of_one(
        "Shrink",
        _shrunk,
        numbers={"lambd": (0.5, 1.0), "bias": (0.0, 0.25)},
    ),
)
