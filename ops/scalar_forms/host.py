"""What these functions do on the host: operands to the dtype that they have together, the operator.

A number becomes a tensor of one element, which the operator broadcasts. Source: op_api of
hicann/ops-math (``ConvertToTensor`` of the scalar, Cast, the operator, Cast).
"""

from __future__ import annotations

from collections.abc import Callable
from math import log
from typing import TYPE_CHECKING, Any

from npusim.values.dtypes import BOOL, FLOAT

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor
    from npusim.operators.host import Host, ScalarValue

    Function = Callable[..., Any]
    Operand = GlobalTensor | ScalarValue


def _form(op_type: str) -> Function:
    """The operator on one or two tensors and perhaps a number: the first, or the other one."""

    def form(
        host: Host,
        *tensors: GlobalTensor,
        first: ScalarValue | None = None,
        other: ScalarValue | None = None,
    ) -> GlobalTensor:
        numbers = [each for each in (other,) if each is not None]
        before = [each for each in (first,) if each is not None]
        found: GlobalTensor = host.together(op_type, *before, *tensors, *numbers)
        return found

    return form


def _quotient(host: Host, x: GlobalTensor, divisor: GlobalTensor | ScalarValue) -> GlobalTensor:
    """True division: whole numbers are divided in float32."""
    wanted = host.joint_dtype(x, divisor)
    wanted = wanted if wanted.category in ("float", "complex") else FLOAT
    found: GlobalTensor = host.together("RealDiv", x, divisor, dtype=wanted)
    return found


def divided(
    host: Host, x: GlobalTensor, divisor: GlobalTensor | None = None, *,
    other: ScalarValue | None = None, mode: int = 0,
) -> GlobalTensor:  # fmt: skip
    """x / y; ``mode`` 1 cuts the fraction off, 2 rounds down."""
    by = divisor if divisor is not None else other
    assert by is not None
    if mode == _DOWN:
        floored: GlobalTensor = host.together("FloorDiv", x, by)
        return floored
    quotient = _quotient(host, x, by)
    if mode == _CUT:
        cut: GlobalTensor = host.run("Trunc", quotient)
        return cut
    return quotient


_CUT, _DOWN = 1, 2


def subtracted(
    host: Host, x: GlobalTensor, *, other: ScalarValue, alpha: ScalarValue = 1
) -> GlobalTensor:
    """x less alpha times a number."""
    found: GlobalTensor = host.together("Sub", x, other * alpha)
    return found


def subtracted_from(
    host: Host,
    x: GlobalTensor,
    minuend: GlobalTensor | None = None,
    *,
    other: ScalarValue | None = None,
    alpha: ScalarValue = 1,
) -> GlobalTensor:
    """What is left of ``other`` without alpha times x."""
    whole = minuend if minuend is not None else other
    wanted = host.joint_dtype(x, whole)
    scaled = x if alpha == 1 else host.together("Mul", x, alpha, dtype=wanted)
    found: GlobalTensor = host.together("Sub", whole, scaled, dtype=wanted)
    return found


def _logarithm(base: float) -> Function:
    def logarithm(host: Host, x: GlobalTensor) -> GlobalTensor:
        """The logarithm, scaled; of whole numbers in float32."""
        x = x if x.dtype.category in ("float", "complex") else host.cast(x, FLOAT)
        found: GlobalTensor = host.together("Mul", host.run("Log", x), 1.0 / log(base))
        return found

    return logarithm


def power_of_two(host: Host, x: GlobalTensor) -> GlobalTensor:
    """2 to the power of x."""
    found: GlobalTensor = host.together("Pow", 2.0, x)
    return found


def filled(
    host: Host, x: GlobalTensor, number: GlobalTensor | None = None, *,
    value: ScalarValue | None = None,
) -> GlobalTensor:  # fmt: skip
    """One number everywhere."""
    given = host.constant(value, x.dtype) if number is None and value is not None else number
    assert given is not None
    found: GlobalTensor = host.run("Fill", None, host.cast(given, x.dtype), dims=list(x.shape))
    return found


def zeros(host: Host, x: GlobalTensor) -> GlobalTensor:
    """Zero everywhere."""
    return filled(host, x, value=0)


def ones(host: Host, x: GlobalTensor) -> GlobalTensor:
    """One everywhere."""
    return filled(host, x, value=1)


def _clipped(
    host: Host, x: GlobalTensor, low: Operand | None, high: Operand | None
) -> GlobalTensor:
    """x, but at least ``low`` and at most ``high``, in the dtype of x."""
    bounds = [None if each is None else host.operand(each, x.dtype) for each in (low, high)]
    found: GlobalTensor = host.run("ClipByValueV2", x, *bounds)
    return found


def clamped(
    host: Host, x: GlobalTensor, *, low: ScalarValue | None = None, high: ScalarValue | None = None
) -> GlobalTensor:
    """x between two numbers, each of which may be missing."""
    return _clipped(host, x, low, high)


def at_least(host: Host, x: GlobalTensor, low: GlobalTensor) -> GlobalTensor:
    """The larger of x and ``low``."""
    found: GlobalTensor = host.together("Maximum", x, low)
    return found


def at_most(host: Host, x: GlobalTensor, high: GlobalTensor) -> GlobalTensor:
    """The smaller of x and ``high``."""
    found: GlobalTensor = host.together("Minimum", x, high)
    return found


def masked_fill(
    host: Host, x: GlobalTensor, mask: GlobalTensor, *, value: ScalarValue
) -> GlobalTensor:
    """A number where the mask is set."""
    found: GlobalTensor = host.run("MaskedFill", x, mask, host.constant(value, x.dtype))
    return found


def _added(op_type: str) -> Function:
    def added(
        host: Host, x: GlobalTensor, first: GlobalTensor, second: GlobalTensor, *,
        value: ScalarValue = 1,
    ) -> GlobalTensor:  # fmt: skip
        """x and a number times the product, or the quotient, of two tensors."""
        wanted = host.joint_dtype(x, first, second)
        found: GlobalTensor = host.together(op_type, x, first, second, value, dtype=wanted)
        return found

    return added


def log_add_exp2(host: Host, x: GlobalTensor, other: GlobalTensor) -> GlobalTensor:
    """The logarithm to base 2 of the sum of powers of 2."""
    wanted = host.joint_dtype(x, other)
    found: GlobalTensor = host.together("LogAddExp", x, other, dtype=wanted, base=2.0)
    return found


def lerped(host: Host, x: GlobalTensor, end: GlobalTensor, *, weight: ScalarValue) -> GlobalTensor:
    """So far from x to ``end``."""
    found: GlobalTensor = host.together("Lerp", x, end, weight, dtype=x.dtype)
    return found


def exclusive_or(host: Host, x: GlobalTensor, other: GlobalTensor) -> GlobalTensor:
    """Where just one of two is true."""
    found: GlobalTensor = host.run("NotEqual", host.cast(x, BOOL), host.cast(other, BOOL))
    return found


def is_negative(host: Host, x: GlobalTensor) -> GlobalTensor:
    """x < 0."""
    found: GlobalTensor = host.together("Less", x, 0)
    return found


def sinc(host: Host, x: GlobalTensor) -> GlobalTensor:
    """sin(pi x) / (pi x), 1 at zero."""
    x = x if x.dtype.is_float else host.cast(x, FLOAT)
    turned = host.together("Mul", x, 3.141592653589793)
    quotient = host.run("RealDiv", host.run("Sin", turned), turned)
    at_zero = host.together("Equal", x, 0)
    found: GlobalTensor = host.run("SelectV2", at_zero, host.run("OnesLike", x), quotient)
    return found


def all_of(op_type: str) -> Function:
    """An operator on all tensors of a list, one after the other."""

    def folded(host: Host, tensors: list[GlobalTensor]) -> GlobalTensor:
        total = tensors[0]
        for each in tensors[1:]:
            total = host.together(op_type, total, each)
        return total

    return folded


def arranged(
    host: Host, *, start: ScalarValue, end: ScalarValue, step: ScalarValue
) -> GlobalTensor:
    """start, start + step ... as many as the output has room for."""
    return _ranged(host, start, end, step)


def spaced(host: Host, *, start: ScalarValue, end: ScalarValue, steps: int) -> GlobalTensor:
    """So many numbers from ``start`` to ``end`` itself, evenly."""
    step = (end - start) / (steps - 1) if steps > 1 else 1.0
    return _ranged(host, float(start.real), float((end + step).real), step, steps)


def _ranged(
    host: Host, start: ScalarValue, end: ScalarValue, step: ScalarValue, count: int | None = None
) -> GlobalTensor:
    out = host.told("out")
    numbers = [start, end, step]
    own = FLOAT if any(isinstance(each, float) for each in numbers) else host.joint_dtype(start)
    kind = out.dtype if out is not None else own
    found = -(-(end - start) // step) if count is None else count  # type: ignore[operator]
    shape = out.shape if out is not None else (max(0, int(found)),)
    limits = (host.constant(each, FLOAT) for each in numbers)
    made: GlobalTensor = host.run("Range", *limits, outputs=(host.empty(shape, FLOAT),))
    return host.cast(made, kind)


KERNELS: dict[str, Function] = {
    each: _form(each)
    for each in (
        "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Equal", "FloorDiv", "FloorMod", "Greater",
        "GreaterEqual", "LeftShift", "Less", "LessEqual", "LogicalXor", "Mod", "NotEqual", "Pow",
        "RightShift", "Xlogy", "Maximum", "Minimum",
    )
}  # fmt: skip
KERNELS |= {"log2": _logarithm(2.0), "log10": _logarithm(10.0)}
KERNELS |= {"addcmul": _added("Addcmul"), "addcdiv": _added("Addcdiv")}
KERNELS |= {"maximum_of": all_of("Maximum"), "minimum_of": all_of("Minimum")}
