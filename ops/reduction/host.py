"""What the aclnn functions that reduce do on the host: sequences of operators.

Half types are brought to float32 first where a result goes into another sum.
"""

from __future__ import annotations

from math import inf, prod
from typing import TYPE_CHECKING, Any

from npusim.values.dtypes import BOOL, FLOAT, from_acl
from npusim.values.dtypes import dtype as named_dtype
from npusim.values.errors import KernelError, RefusedTaskError

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor
    from npusim.operators.host import Host, ScalarValue

_OF_NOTHING = {"ReduceSum": 0.0, "ReduceProd": 1.0, "ReduceAll": 1.0, "ReduceAny": 0.0}


def whole(host: Host, op_type: str, x: GlobalTensor, axes: Any, *, keep_dims: bool) -> Any:
    """A reduction over axes, over all of them where none are named.

    Of nothing it is what leaves sums; nothing has a largest or a smallest element.
    """
    if not x.numel and op_type in _OF_NOTHING:
        kept = {axis % max(1, len(x.shape)) for axis in _named(x, axes)}
        sizes = (1 if axis in kept else size for axis, size in enumerate(x.shape))
        shape = [size for axis, size in enumerate(sizes) if keep_dims or axis not in kept]
        found = host.empty(shape, x.dtype)
        return host.run("Fill", value=_OF_NOTHING[op_type], outputs=(found,))
    if any(not x.shape[axis] for axis in _named(x, axes) if x.shape):
        if op_type == "ReduceMean":  # 0 / 0: what the device makes of it, no page says
            raise KernelError(op_type, "means of no elements aren't modelled")
        problem = "an axis to reduce has no elements, and nothing has no extreme"
        raise RefusedTaskError(op_type, problem)
    return host.run(op_type, x, axes=_named(x, axes), keep_dims=keep_dims)


def total(
    host: Host, x: GlobalTensor, *, axes: Any = None, keep_dims: bool = False, dtype: Any = None
) -> Any:
    """The sum, computed in ``dtype``."""
    return whole(host, "ReduceSum", _in(host, x, dtype), axes, keep_dims=keep_dims)


def product(
    host: Host, x: GlobalTensor, *, axes: Any = None, keep_dims: bool = False, dtype: Any = None
) -> Any:
    """The product, computed in ``dtype``."""
    return whole(host, "ReduceProd", _in(host, x, dtype), axes, keep_dims=keep_dims)


def _in(host: Host, x: GlobalTensor, wanted: Any) -> GlobalTensor:
    """A tensor in the dtype that a call asks for, by number or by name."""
    if wanted is None:
        return x
    return host.cast(x, from_acl(wanted) if isinstance(wanted, int) else named_dtype(wanted))


def mean(
    host: Host,
    x: GlobalTensor,
    *,
    axes: Any,
    keep_dims: bool = False,
    noop: bool = False,
    dtype: Any = None,
) -> Any:
    """The mean; the tensor itself where no axes mean no reduction."""
    x = _in(host, x, dtype)
    return _unless_noop(host, "ReduceMean", x, axes, keep_dims=keep_dims, noop=noop)


def largest(
    host: Host, x: GlobalTensor, *, axes: Any, keep_dims: bool = False, noop: bool = False
) -> Any:
    """The largest; the tensor itself where no axes mean no reduction."""
    return _unless_noop(host, "ReduceMax", x, axes, keep_dims=keep_dims, noop=noop)


def extremes(
    host: Host, x: GlobalTensor, *, axes: Any = None, keep_dims: bool = False
) -> tuple[Any, Any]:
    """The smallest and the largest."""
    low = whole(host, "ReduceMin", x, axes, keep_dims=keep_dims)
    return low, whole(host, "ReduceMax", x, axes, keep_dims=keep_dims)


def every(host: Host, x: GlobalTensor, *, axes: Any, keep_dims: bool = False) -> Any:
    """Whether all are other than zero."""
    return whole(host, "ReduceAll", _truth(host, x), axes, keep_dims=keep_dims)


def some(host: Host, x: GlobalTensor, *, axes: Any, keep_dims: bool = False) -> Any:
    """Whether any is other than zero."""
    return whole(host, "ReduceAny", _truth(host, x), axes, keep_dims=keep_dims)


def variance(
    host: Host, x: GlobalTensor, *, axes: Any = None, correction: int = 1, keep_dims: bool = False
) -> Any:
    """The mean square of what is left without the mean, for so many elements less."""
    return _spread(host, x, axes, float(correction), keep_dims=keep_dims)[0]


def variance_and_mean(
    host: Host, x: GlobalTensor, *, axes: Any = None, correction: int = 1, keep_dims: bool = False
) -> tuple[Any, Any]:
    """Both."""
    return _spread(host, x, axes, float(correction), keep_dims=keep_dims)


def deviation(
    host: Host, x: GlobalTensor, *, axes: Any = None, correction: int = 1, keep_dims: bool = False
) -> Any:
    """The root of the variance."""
    found = _spread(host, x, axes, float(correction), keep_dims=keep_dims)[0]
    return host.run("Sqrt", found)


def deviation_and_mean(
    host: Host, x: GlobalTensor, *, axes: Any = None, correction: int = 1, keep_dims: bool = False
) -> tuple[Any, Any]:
    """Both."""
    found, middle = _spread(host, x, axes, float(correction), keep_dims=keep_dims)
    return host.run("Sqrt", found), middle


def log_sum_exp(host: Host, x: GlobalTensor, *, axes: Any, keep_dims: bool = False) -> Any:
    """ln of the sum of e**x, with the largest outside."""
    wide = host.cast(x, FLOAT)
    most = whole(host, "ReduceMax", wide, axes, keep_dims=True)
    powers = host.run("Exp", host.run("Sub", wide, most))
    total = whole(host, "ReduceSum", powers, axes, keep_dims=keep_dims)
    found = host.run("Add", host.run("Log", total), most.view(*total.shape))
    return host.result("out", found, x)


def log_sum(
    host: Host, x: GlobalTensor, *, axes: Any, keep_dims: bool = False, noop: bool = False
) -> Any:
    """ln of the sum."""
    total = _unless_noop(host, "ReduceSum", x, axes, keep_dims=keep_dims, noop=noop)
    return host.run("Log", total)


def sum_of_numbers(
    host: Host, x: GlobalTensor, *, axes: Any, keep_dims: bool = False, dtype: Any = None
) -> Any:
    """The sum of all that are numbers."""
    x = _in(host, x, dtype)
    if not x.dtype.is_float:
        return whole(host, "ReduceSum", x, axes, keep_dims=keep_dims)
    none = host.run("NotEqual", x, x)
    filled = host.run("MaskedFill", x, none, host.constant(0, x.dtype))
    return whole(host, "ReduceSum", filled, axes, keep_dims=keep_dims)


def mean_of_images(host: Host, x: GlobalTensor) -> Any:
    """The mean of every channel of every image."""
    return whole(host, "ReduceMean", x, range(2, len(x.shape)), keep_dims=True)


def largest_of_images(host: Host, x: GlobalTensor) -> Any:
    """The largest of every channel of every image."""
    return whole(host, "ReduceMax", x, range(2, len(x.shape)), keep_dims=True)


def norm(
    host: Host,
    x: GlobalTensor,
    *,
    order: ScalarValue = 2,
    axes: Any = None,
    keep_dims: bool = False,
) -> Any:
    """The root of that order of the sum of powers; an infinite one takes the largest."""
    power = abs(order) if isinstance(order, complex) else float(order)
    wide = host.cast(x, FLOAT)
    if power == 0:
        there = host.cast(host.together("NotEqual", wide, 0.0), FLOAT)
        return whole(host, "ReduceSum", there, axes, keep_dims=keep_dims)
    size = host.run("Abs", wide)
    if abs(power) == inf:
        kind = "ReduceMax" if power > 0 else "ReduceMin"
        return whole(host, kind, size, axes, keep_dims=keep_dims)
    if power == 1:
        return whole(host, "ReduceSum", size, axes, keep_dims=keep_dims)
    if power == 2:
        total = whole(host, "ReduceSum", host.run("Square", wide), axes, keep_dims=keep_dims)
        return host.run("Sqrt", total)
    total = whole(host, "ReduceSum", host.together("Pow", size, power), axes, keep_dims=keep_dims)
    return host.together("Pow", total, 1.0 / power)


def _named(x: GlobalTensor, axes: Any) -> list[int]:
    rank = len(x.shape)
    if axes is None or (not isinstance(axes, int) and not len(axes)):
        return list(range(rank))
    return [axis % max(1, rank) for axis in ([axes] if isinstance(axes, int) else axes)]


def _unless_noop(
    host: Host, op_type: str, x: GlobalTensor, axes: Any, *, keep_dims: bool, noop: bool
) -> Any:
    if noop and not axes:
        return host.run("TensorMove", x)
    return whole(host, op_type, x, axes, keep_dims=keep_dims)


def _spread(
    host: Host, x: GlobalTensor, axes: Any, correction: float, *, keep_dims: bool
) -> tuple[Any, Any]:
    """Variance and mean, in float32."""
    wide = host.cast(x, FLOAT)
    middle = whole(host, "ReduceMean", wide, axes, keep_dims=True)
    apart = host.run("Square", host.run("Sub", wide, middle))
    total = whole(host, "ReduceSum", apart, axes, keep_dims=keep_dims)
    lengths = x.shape or (1,)  # a number has one axis, by both its names
    count = prod(lengths[axis] for axis in _named(x, axes)) - correction
    share = 1.0 / count if count > 0 else inf
    return host.run("Muls", total, value=share), middle.view(*total.shape)


def _truth(host: Host, x: GlobalTensor) -> Any:
    return x if x.dtype is BOOL else host.together("NotEqual", x, 0, dtype=x.dtype)
