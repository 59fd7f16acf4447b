"""What operations on elements compute in NumPy, and the vector instructions that they become.

Names are those of MLIR's arith and math dialects without the dialect.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from npusim.values.dtypes import BFLOAT16, BOOL, FLOAT, FLOAT16, INT8, INT16, INT32, INT64
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.values.dtypes import DType

Computation = Callable[..., Any]


class _Known(dict[str, "DType"]):
    """Element types that the chip's cores have."""

    def __missing__(self, element: str) -> DType:
        raise KernelError(
            "",
            f"numbers of type {element} aren't simulated",
            f"Cast them to one of {', '.join(each for each in self if each != 'index')}.",
        )


DTYPES: dict[str, DType] = _Known({
    "f32": FLOAT, "f16": FLOAT16, "bf16": BFLOAT16, "i1": BOOL, "i8": INT8, "i16": INT16,
    "i32": INT32, "i64": INT64, "index": INT64,
})  # fmt: skip
INTEGER_BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "index": 64}


class Row(NamedTuple):
    """An operation on elements: what it computes, and the instructions one after the other."""

    compute: Computation
    instructions: tuple[str, ...]
    with_number: str = ""  # the instruction where the second operand is a number


def _unsigned(work: Computation) -> Computation:
    def computed(a: Any, b: Any) -> Any:
        kind = np.asarray(a).dtype
        wide = np.dtype(f"u{kind.itemsize}")
        return work(np.asarray(a).view(wide), np.asarray(b).view(wide)).view(kind)

    return computed


def _quotient(a: Any, b: Any) -> Any:
    """Rounded towards zero; a division by zero gives what the hardware leaves undefined: 0."""
    safe = np.where(b == 0, 1, b)
    whole = np.floor_divide(np.abs(a), np.abs(safe))
    return np.where(b == 0, 0, np.where((a < 0) != (b < 0), -whole, whole)).astype(a.dtype)


def _remainder(a: Any, b: Any) -> Any:
    return (a - _quotient(a, b) * b).astype(a.dtype)


def _shifted_left(a: Any, b: Any) -> Any:
    return np.left_shift(a, b)


def _xor(a: Any, b: Any) -> Any:
    return np.bitwise_xor(a, b)


_QUOTIENT = ("vconv", "vconv", "vdiv", "vconv", "vconv")  # by way of float32, rounded to zero
BINARY: dict[str, Row] = {
    "addf": Row(np.add, ("vadd",), "vadds"),
    "subf": Row(np.subtract, ("vsub",), "vadds"),
    "mulf": Row(np.multiply, ("vmul",), "vmuls"),
    "divf": Row(np.divide, ("vdiv",)),
    "maxnumf": Row(np.fmax, ("vmax",), "vmaxs"),
    "minnumf": Row(np.fmin, ("vmin",), "vmins"),
    "maximumf": Row(np.maximum, ("vmax",), "vmaxs"),
    "minimumf": Row(np.minimum, ("vmin",), "vmins"),
    "remf": Row(np.fmod, ("vdiv", "vconv", "vconv", "vmul", "vsub")),
    "addi": Row(np.add, ("vadd",), "vadds"),
    "subi": Row(np.subtract, ("vsub",), "vadds"),
    "muli": Row(np.multiply, ("vmul",), "vmuls"),
    "maxsi": Row(np.maximum, ("vmax",), "vmaxs"),
    "minsi": Row(np.minimum, ("vmin",), "vmins"),
    "maxui": Row(_unsigned(np.maximum), ("vmax",), "vmaxs"),
    "minui": Row(_unsigned(np.minimum), ("vmin",), "vmins"),
    "andi": Row(np.bitwise_and, ("vand",)),
    "ori": Row(np.bitwise_or, ("vor",)),
    "xori": Row(_xor, ("vor", "vand", "vnot", "vand")),
    "shli": Row(_shifted_left, ("vshl",)),
    "shrsi": Row(np.right_shift, ("vshr",)),
    "shrui": Row(_unsigned(np.right_shift), ("vshr",)),
    "divsi": Row(_quotient, _QUOTIENT),
    "divui": Row(_unsigned(_quotient), _QUOTIENT),
    "remsi": Row(_remainder, (*_QUOTIENT, "vmul", "vsub")),
    "remui": Row(_unsigned(_remainder), (*_QUOTIENT, "vmul", "vsub")),
}


def _of_floats(function: Computation) -> Computation:
    """A function that is computed in float32 and rounded once."""

    def computed(values: Any, *others: Any) -> Any:
        kind = np.asarray(values).dtype
        wide = [np.asarray(each, np.float32) for each in (values, *others)]
        return function(*wide).astype(kind)

    return computed


def _erf(values: Any) -> Any:
    from math import erf

    return np.vectorize(erf, otypes=[np.float64])(values)


def _polynomial(degree: int, *around: str) -> tuple[str, ...]:
    """A polynomial by Horner's rule, and what stands around it."""
    return (*("vmul", "vadds") * degree, *around)


_ROUND = ("vconv", "vconv")  # to whole numbers and back
UNARY: dict[str, Row] = {
    "exp": Row(_of_floats(np.exp), ("vexp",)),
    "exp2": Row(_of_floats(np.exp2), ("vmuls", "vexp")),
    "expm1": Row(_of_floats(np.expm1), ("vexp", "vadds")),
    "log": Row(_of_floats(np.log), ("vln",)),
    "log2": Row(_of_floats(np.log2), ("vln", "vmuls")),
    "log10": Row(_of_floats(np.log10), ("vln", "vmuls")),
    "log1p": Row(_of_floats(np.log1p), ("vadds", "vln")),
    "sqrt": Row(_of_floats(np.sqrt), ("vsqrt",)),
    "rsqrt": Row(_of_floats(lambda x: np.float32(1) / np.sqrt(x)), ("vrsqrt",)),
    "absf": Row(np.absolute, ("vabs",)),
    "absi": Row(np.absolute, ("vmuls", "vmax")),
    "negf": Row(np.negative, ("vmuls",)),
    "floor": Row(_of_floats(np.floor), _ROUND),
    "ceil": Row(_of_floats(np.ceil), _ROUND),
    "trunc": Row(_of_floats(np.trunc), _ROUND),
    "round": Row(_of_floats(lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x)), _ROUND),
    "roundeven": Row(_of_floats(np.rint), _ROUND),
    # Polynomials of the degrees that the formulas of ops/elementwise have for these functions.
    "erf": Row(_of_floats(_erf), ("vmins", "vmaxs", "vmul", *_polynomial(10, "vmul", "vdiv"))),
    "tanh": Row(_of_floats(np.tanh), ("vmins", "vmaxs", "vmuls", "vexp", "vadds", "vadds", "vdiv")),
    "sin": Row(_of_floats(np.sin), ("vmuls", *_ROUND, "vmul", "vsub", "vmul", *_polynomial(5))),
    "cos": Row(_of_floats(np.cos), ("vmuls", *_ROUND, "vmul", "vsub", "vmul", *_polynomial(5))),
    "tan": Row(_of_floats(np.tan), ("vmuls", *_ROUND, "vmul", "vsub", *_polynomial(8, "vdiv"))),
    "atan": Row(_of_floats(np.arctan), ("vabs", "vdiv", "vmul", *_polynomial(8, "vmul"))),
    "isnan": Row(np.isnan, ("vcmpv_ne",)),
}
POWER = Row(_of_floats(np.power), ("vabs", "vln", "vmul", "vexp"))
FUSED = Row(_of_floats(lambda a, b, c: a * b + c), ("vmul", "vadd"))

COMPARISONS: dict[str, tuple[Computation, str]] = {
    "eq": (np.equal, "eq"), "ne": (np.not_equal, "ne"), "slt": (np.less, "lt"),
    "sle": (np.less_equal, "le"), "sgt": (np.greater, "gt"), "sge": (np.greater_equal, "ge"),
    "oeq": (np.equal, "eq"), "one": (lambda a, b: (a < b) | (a > b), "ne"),
    "une": (np.not_equal, "ne"), "olt": (np.less, "lt"), "ole": (np.less_equal, "le"),
    "ogt": (np.greater, "gt"), "oge": (np.greater_equal, "ge"),
    "ult": (np.less, "lt"), "ule": (np.less_equal, "le"), "ugt": (np.greater, "gt"),
    "uge": (np.greater_equal, "ge"), "ueq": (lambda a, b: ~((a < b) | (a > b)), "eq"),
    "uno": (lambda a, b: np.isnan(a) | np.isnan(b), "ne"),
    "ord": (lambda a, b: ~(np.isnan(a) | np.isnan(b)), "eq"),
}  # fmt: skip
_UNSIGNED = {"ult", "ule", "ugt", "uge"}


def compared(predicate: str, a: Any, b: Any, *, floats: bool) -> Any:
    """The truth values of a comparison."""
    work, _ = COMPARISONS[predicate]
    if predicate in _UNSIGNED and not floats:
        kind = np.asarray(a).dtype
        wide = np.dtype(bool) if kind == np.bool_ else np.dtype(f"u{kind.itemsize}")
        return work(np.asarray(a).view(wide), np.asarray(b).view(wide))
    if predicate in _UNSIGNED:  # or unordered
        return work(a, b) | np.isnan(a) | np.isnan(b)
    return work(a, b)


def converted(values: Any, source: str, target: str, name: str) -> Any:
    """A conversion between element types, as its operation's name says."""
    kind = DTYPES[target].numpy
    if name in ("fptosi", "fptoui"):
        wide = np.nan_to_num(np.trunc(values.astype(np.float64)), nan=0.0)
        bits = INTEGER_BITS[target]
        return np.clip(wide, -(2.0 ** (bits - 1)), 2.0 ** (bits - 1) - 1).astype(kind)
    if name in ("extui", "uitofp", "index_castui") and source != "i1":
        return values.view(np.dtype(f"u{values.dtype.itemsize}")).astype(kind)
    if name in ("extsi", "sitofp") and source == "i1":
        return -values.astype(np.int8).astype(kind)
    if name == "trunci" and target == "i1":
        return (values & 1).astype(np.bool_)
    return values.astype(kind)


def wrapped(number: int, element: str) -> int:
    """An integer in the bits of its type, signed."""
    bits = INTEGER_BITS[element]
    half = 1 << (bits - 1)
    if bits == 1:
        return number & 1
    return (number + half) % (1 << bits) - half


def halvings(count: int, until: int) -> int:
    """How often a number is halved until it is no more than another."""
    times = 0
    while count > until:
        count, times = ceil(count / 2), times + 1
    return times
