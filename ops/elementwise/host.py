"""What the aclnn functions of elementwise operators do on the host beside calling them."""

from __future__ import annotations

from math import ceil, floor, pi, prod
from typing import TYPE_CHECKING, Any

from npusim.values.dtypes import BFLOAT16, BOOL, FLOAT, FLOAT16, INT32, INT64
from npusim.values.errors import RefusedTaskError

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor
    from npusim.operators.host import Host, ScalarValue
    from npusim.values.dtypes import DType


def add(host: Host, x: GlobalTensor, other: GlobalTensor, *, alpha: ScalarValue = 1) -> Any:
    """x + alpha other: an Axpy where the host has one for the dtype (aclnn_add.cpp)."""
    return _scaled(host, "Add", x, other, alpha, (FLOAT, FLOAT16, INT32))


def sub(host: Host, x: GlobalTensor, other: GlobalTensor, *, alpha: ScalarValue = 1) -> Any:
    """x - alpha other: an Axpy of -alpha where the host has one for the dtype (aclnn_sub.cpp)."""
    return _scaled(host, "Sub", x, other, alpha, (FLOAT, FLOAT16, BFLOAT16))


def adds(host: Host, x: GlobalTensor, *, other: ScalarValue, alpha: ScalarValue = 1) -> Any:
    """x + alpha times a number, which the host multiplies."""
    return host.together("Add", x, other * alpha)


def muls(host: Host, x: GlobalTensor, *, other: ScalarValue) -> Any:
    """x times a number."""
    return host.together("Mul", x, other)


def _scaled(
    host: Host,
    op_type: str,
    x: GlobalTensor,
    other: GlobalTensor,
    alpha: ScalarValue,
    at_once: tuple[DType, ...],
) -> Any:
    wanted = host.joint_dtype(x, other)
    if alpha != 1 and not isinstance(alpha, complex) and wanted in at_once:
        factor = float(alpha) if op_type == "Add" else -float(alpha)
        return host.together("Axpy", x, other, dtype=wanted, alpha=factor)
    if alpha != 1:
        other = host.together("Mul", other, alpha, dtype=wanted)
    return host.together(op_type, x, other, dtype=wanted)


def subtracted_from(
    host: Host, x: GlobalTensor, other: GlobalTensor | ScalarValue, *, alpha: ScalarValue = 1
) -> Any:
    """other - alpha x."""
    wanted = host.joint_dtype(x, other)
    if alpha != 1:
        x = host.together("Mul", x, alpha, dtype=wanted)
    return host.together("Sub", other, x, dtype=wanted)


_QUOTIENTS = {0: "RealDiv", 1: "TruncateDiv", 2: "FloorDiv"}


def divide(host: Host, x: GlobalTensor, other: GlobalTensor | ScalarValue, *, mode: int = 0) -> Any:
    """The quotient as it is, cut off towards zero, or rounded down."""
    if mode not in _QUOTIENTS:
        raise RefusedTaskError("Div", f"mode should be 0, 1 or 2, but is {mode}")
    wanted = host.joint_dtype(x, other)
    if not mode and not _is_fraction(wanted):
        wanted = FLOAT
    return host.together(_QUOTIENTS[mode], x, other, dtype=wanted)


def power(host: Host, x: GlobalTensor, *, exponent: ScalarValue) -> Any:
    """x to a number: as a square where it is two."""
    wanted = host.joint_dtype(x, exponent)
    if exponent == 2:
        return host.run("Square", host.cast(x, wanted))
    return host.together("Pow", x, exponent, dtype=wanted)


def exp2(host: Host, x: GlobalTensor) -> Any:
    """Two to the power of x."""
    return host.together("Pow", 2.0, _fraction(host, x))


def log2(host: Host, x: GlobalTensor) -> Any:
    """The logarithm to base two."""
    return host.run("Log", _fraction(host, x), base=2.0)


def log10(host: Host, x: GlobalTensor) -> Any:
    """The logarithm to base ten."""
    return host.run("Log", _fraction(host, x), base=10.0)


def log_add_exp2(host: Host, x: GlobalTensor, other: GlobalTensor) -> Any:
    """The logarithm to base two of 2**x + 2**other."""
    wanted = host.joint_dtype(x, other)
    wanted = wanted if _is_fraction(wanted) else FLOAT
    return host.together("LogAddExp", x, other, dtype=wanted, base=2.0)


def sinc(host: Host, x: GlobalTensor) -> Any:
    """sin(pi x) / (pi x), which is one at zero."""
    x = _fraction(host, x)
    angle = host.together("Mul", x, pi, dtype=x.dtype)
    share = host.run("RealDiv", host.run("Sin", angle), angle)
    zero = host.together("Equal", x, 0, dtype=x.dtype)
    one = host.constant(1, x.dtype)
    return host.run("SelectV2", zero, one, share)


def frac(host: Host, x: GlobalTensor) -> Any:
    """What is behind the point."""
    return host.run("Sub", x, host.run("Trunc", x))


def sign_bit(host: Host, x: GlobalTensor) -> Any:
    """Whether a number is below zero."""
    return host.together("Less", x, 0, dtype=x.dtype)


def logical_and(host: Host, x: GlobalTensor, other: GlobalTensor) -> Any:
    """Whether both are true."""
    return host.run("LogicalAnd", _truth(host, x), _truth(host, other))


def logical_or(host: Host, x: GlobalTensor, other: GlobalTensor) -> Any:
    """Whether one of both is true."""
    return host.run("LogicalOr", _truth(host, x), _truth(host, other))


def logical_not(host: Host, x: GlobalTensor) -> Any:
    """Whether a number is zero."""
    return host.run("LogicalNot", _truth(host, x))


def nan_to_num(host: Host, x: GlobalTensor, **instead: Any) -> Any:
    """Numbers instead of what is none, and of infinities; whole numbers have neither."""
    return host.run("NanToNum" if _is_fraction(x.dtype) else "TensorMove", x, **instead)


def logical_xor(host: Host, x: GlobalTensor, other: GlobalTensor) -> Any:
    """Whether one of both is true, but not the other."""
    return host.run("NotEqual", _truth(host, x), _truth(host, other))


def equal(host: Host, x: GlobalTensor, other: GlobalTensor) -> Any:
    """Whether two tensors have one shape and equal numbers."""
    if x.shape != other.shape:
        return host.run("Fill", value=0.0, outputs=(host.empty((1,), BOOL),))
    same = host.together("Equal", x, other)
    return host.run("ReduceAll", same, axes=list(range(len(x.shape)))).view(1)


def number_is_in(host: Host, elements: GlobalTensor, *, element: ScalarValue, invert: bool) -> Any:
    """Whether a number is among the elements (or isn't)."""
    same = host.together("Equal", elements, element)
    found: GlobalTensor = host.run("ReduceAny", same, axes=list(range(len(elements.shape))))
    return host.run("LogicalNot", found) if invert else found


def is_in_number(
    host: Host,
    elements: GlobalTensor,
    *,
    number: ScalarValue,
    invert: bool,
) -> Any:
    """Which elements are a number (or aren't)."""
    kind = "NotEqual" if invert else "Equal"
    return host.together(kind, elements, number)


def largest(host: Host, tensors: list[GlobalTensor]) -> Any:
    """The largest of all tensors, place by place."""
    return _folded(host, "Maximum", tensors)


def smallest(host: Host, tensors: list[GlobalTensor]) -> Any:
    """The smallest of all tensors, place by place."""
    return _folded(host, "Minimum", tensors)


def clamp_max(host: Host, x: GlobalTensor, limit: GlobalTensor) -> Any:
    """At most as large as another tensor."""
    return host.together("ClipByValueV2", x, None, limit)


def masked_fill(
    host: Host, x: GlobalTensor, mask: GlobalTensor, value: GlobalTensor | ScalarValue
) -> Any:
    """A number where the mask is set."""
    return host.run("MaskedFill", x, mask, host.operand(value, x.dtype))


def filled(host: Host, x: GlobalTensor, value: GlobalTensor | ScalarValue) -> Any:
    """A number everywhere."""
    number = host.operand(value, x.dtype)
    return host.run("Fill", None, number, outputs=(host.empty(x.shape, x.dtype),))


def ones(host: Host, x: GlobalTensor) -> Any:
    """One everywhere."""
    return host.run("OnesLike", x)


def zeros(host: Host, x: GlobalTensor) -> Any:
    """Zero everywhere."""
    return host.run("ZerosLike", x)


def dropped(host: Host, x: GlobalTensor, mask: GlobalTensor, *, prob: float) -> Any:
    """Elements of x that the mask keeps, scaled up by how many are lost."""
    return _dropped(host, x, mask, prob)


def dropped_gradient(host: Host, grad: GlobalTensor, mask: GlobalTensor, *, scale: float) -> Any:
    """The gradient of what the mask kept, scaled."""
    return _dropped(host, grad, mask, 1.0 - 1.0 / scale if scale else 1.0)


def _dropped(host: Host, x: GlobalTensor, mask: GlobalTensor, lost: float) -> Any:
    """The mask isn't asked where nothing is lost, or everything; nor is a unit without the dtype.

    Source: ops-math random/dsa_gen_bit_mask/op_host/op_api/dropout_common.h and
    random/drop_out_do_mask/op_api/aclnn_dropout_backward.cpp.
    """
    if lost in (0, 1):
        return host.run("ZerosLike" if lost else "TensorMove", x)
    wide = host.cast(x, FLOAT) if x.dtype is BFLOAT16 else x
    found = host.run("DropOutDoMask", wide, mask, host.constant(1.0 - lost, wide.dtype))
    return host.cast(found, x.dtype)


def subs(host: Host, x: GlobalTensor, *, other: ScalarValue, alpha: ScalarValue = 1) -> Any:
    """x - alpha times a number, which the host multiplies."""
    return host.together("Sub", x, other * alpha)


def arranged(host: Host, *, start: ScalarValue, end: ScalarValue, step: ScalarValue) -> Any:
    """``start``, and on in steps, as many as the output has room for."""
    count = ceil(((end - start) / step).real)
    return _ranged(host, "Range", (start, end, step), count)


def arranged_through(host: Host, *, start: ScalarValue, end: ScalarValue, step: ScalarValue) -> Any:
    """The same, the end among them where the steps meet it."""
    count = floor(((end - start) / step).real) + 1
    return _ranged(host, "Range", (start, end, step), count)


def spaced(host: Host, *, start: ScalarValue, end: ScalarValue, steps: int) -> Any:
    """So many numbers from ``start`` to ``end`` itself, evenly."""
    return _ranged(host, "LinSpace", (start, end, steps), steps)


def _ranged(host: Host, op_type: str, limits: tuple[ScalarValue, ...], count: int) -> Any:
    """Numbers in float32, cast to what the caller wants, or to what the limits are."""
    out = host.told("out")
    shape = (max(0, count),) if out is None else out.shape
    whole = op_type == "Range" and all(isinstance(each, int) for each in limits)
    dtype = out.dtype if out is not None else INT64 if whole else FLOAT
    if not prod(shape):
        return host.empty(shape, dtype)
    given = [host.constant(each, FLOAT) for each in limits]
    found = host.run(op_type, *given, outputs=(host.empty(shape, FLOAT),))
    return host.cast(found, dtype)


def _folded(host: Host, op_type: str, tensors: list[GlobalTensor]) -> Any:
    wanted = host.joint_dtype(*tensors)
    found, *others = tensors
    for other in others:
        found = host.together(op_type, found, other, dtype=wanted)
    return found if others else host.run("TensorMove", found)


def _is_fraction(kind: DType) -> bool:
    return kind.category in ("float", "complex")


def _fraction(host: Host, x: GlobalTensor) -> Any:
    """Whole numbers in float32."""
    return x if _is_fraction(x.dtype) else host.cast(x, FLOAT)


def _truth(host: Host, x: GlobalTensor) -> Any:
    """Whether numbers aren't zero."""
    return host.cast(x, BOOL)
