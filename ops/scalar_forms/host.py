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
    target = host.empty(shape, kind)
    limits = (host.constant(each, kind) for each in numbers)
    made: GlobalTensor = host.run("Range", *limits, outputs=(target,))
    return made


KERNELS: dict[str, Function] = {
    each: _form(each)
    for each in (
        "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Equal", "FloorDiv", "FloorMod", "Greater",
        "GreaterEqual", "LeftShift", "Less", "LessEqual", "LogicalXor", "Mod", "NotEqual", "Pow",
        "RightShift", "Xlogy", "Maximum", "Minimum",
    )
}  # fmt: skip
KERNELS |= {"log2": _logarithm(2.0), "log10": _logarithm(10.0)}
KERNELS |= {"maximum_of": all_of("Maximum"), "minimum_of": all_of("Minimum")}
