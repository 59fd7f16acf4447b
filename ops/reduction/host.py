"""What the aclnn functions that reduce do on the host: sequences of operators.

Half types are brought to float32 first where a result goes into another sum.
"""

from __future__ import annotations

from math import inf, nan, prod
from typing import TYPE_CHECKING, Any

from npusim.values.dtypes import BFLOAT16, BOOL, FLOAT, FLOAT16, from_acl
from npusim.values.dtypes import dtype as named_dtype
from npusim.values.errors import KernelError, RefusedTaskError

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor
    from npusim.operators.host import Host, ScalarValue

_OF_NOTHING = {
    "ReduceSum": 0.0,
    "ReduceNansum": 0.0,
    "ReduceProd": 1.0,
    "ReduceAll": 1.0,
    "ReduceAny": 0.0,
}


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
    return _truth(host, "ReduceAll", x, axes, keep_dims=keep_dims)


def some(host: Host, x: GlobalTensor, *, axes: Any, keep_dims: bool = False) -> Any:
    """Whether any is other than zero."""
    return _truth(host, "ReduceAny", x, axes, keep_dims=keep_dims)


def variance(
    host: Host, x: GlobalTensor, *, axes: Any = None, correction: int = 1, keep_dims: bool = False
) -> Any:
    """The mean square of what is left without the mean, for so many elements less."""
    middle = whole(host, "ReduceMean", x, axes, keep_dims=True)
    told = {"axes": axes, "correction": int(correction), "keep_dims": keep_dims}
    return _spread(host, "ReduceStdV2Update", x, middle, told)


def variance_and_mean(
    host: Host, x: GlobalTensor, *, axes: Any = None, correction: int = 1, keep_dims: bool = False
) -> tuple[Any, Any]:
    """Both; the means are found twice where the second ones have other axes."""
    middle = whole(host, "ReduceMean", x, axes, keep_dims=keep_dims)
    again = middle if keep_dims else whole(host, "ReduceMean", x, axes, keep_dims=True)
    told = {"axes": axes, "correction": correction, "keep_dims": keep_dims}
    return _spread(host, "ReduceStdV2Update", x, again, told), middle


def deviation(
    host: Host, x: GlobalTensor, *, axes: Any = None, correction: int = 1, keep_dims: bool = False
) -> Any:
    """The root of the variance."""
    told = {"axes": axes, "correction": correction, "keep_dims": keep_dims}
    middle = whole(host, "ReduceMean", x, axes, keep_dims=True)
    return _spread(host, "ReduceStdWithMean", x, middle, told)


def deviation_and_mean(
    host: Host, x: GlobalTensor, *, axes: Any = None, correction: int = 1, keep_dims: bool = False
) -> tuple[Any, Any]:
    """Both."""
    middle = whole(host, "ReduceMean", x, axes, keep_dims=keep_dims)
    told = {"axes": axes, "correction": correction, "keep_dims": keep_dims}
    return _spread(host, "ReduceStdWithMean", x, middle, told), middle


def log_sum_exp(host: Host, x: GlobalTensor, *, axes: Any, keep_dims: bool = False) -> Any:
    """ln of the sum of e**x, with the largest outside."""
    wide = host.cast(x, FLOAT)
    most = whole(host, "ReduceMax", wide, axes, keep_dims=True)
    endless = host.together("Equal", host.run("Abs", most), inf)
    most = host.run("MaskedFill", most, endless, host.constant(0, FLOAT))
    found = host.run("Sub", wide, most)
    if x.shape:  # of a number the operator isn't asked
        found = whole(host, "ReduceLogSumExp", found, axes, keep_dims=keep_dims)
    found = host.run("Add", found, most.view(*found.shape))
    return host.result("out", found, x)


def log_sum(
    host: Host, x: GlobalTensor, *, axes: Any, keep_dims: bool = False, noop: bool = False
) -> Any:
    """ln of the sum."""
    return _unless_noop(host, "ReduceLogSum", x, axes, keep_dims=keep_dims, noop=noop)


def sum_of_numbers(
    host: Host, x: GlobalTensor, *, axes: Any, keep_dims: bool = False, dtype: Any = None
) -> Any:
    """The sum of all that are numbers; whole ones are all."""
    of_numbers = x.dtype.is_float
    x = _in(host, x, dtype)
    kind = "ReduceAny" if x.dtype is BOOL else "ReduceNansum" if of_numbers else "ReduceSum"
    return whole(host, kind, x, axes, keep_dims=keep_dims)


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
    """The root of that order of the sum of powers; an infinite one takes the largest.

    One task where the chip has bfloat16, in the dtype of the result where that is the elements' or
    float32 and in float32 where not; two of float32 elsewhere (ops-nn norm/lp_norm_v2, op_api).
    """
    if not x.numel:
        return whole(host, "ReduceSum", x, axes, keep_dims=keep_dims)
    power = abs(order) if isinstance(order, complex) else float(order)
    named: dict[str, Any] = {"p": power, "axes": _named(x, axes), "keep_dims": keep_dims}
    if not host.profile.features.bfloat16:
        total = host.run("LpNormReduceV2", host.cast(x, FLOAT), **named)
        return host.result("out", host.run("LpNormUpdateV2", total, p=power), x)
    told = host.told("out")
    wanted = told.dtype if told else x.dtype
    x = x if x.dtype.is_float and wanted in (x.dtype, FLOAT) else host.cast(x, FLOAT)
    (found,) = host.described("LpNormV2", (x,), named)
    found = host.empty(found.shape, wanted if wanted.is_float else FLOAT)
    return host.run("LpNormV2", x, outputs=(found,), **named)


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
    host: Host, op_type: str, x: GlobalTensor, mean_: GlobalTensor, told: dict[str, Any]
) -> Any:
    """Variances or deviations by the means, which are spread to the elements' shape."""
    axes, correction, shape = _named(x, told["axes"]), told["correction"], x.shape or (1,)
    count = prod(shape[axis] for axis in axes)
    named = {"axes": axes, "keep_dims": told["keep_dims"], "correction": correction}
    if count <= correction and (count == 1 or correction > 1):  # the host fills these in
        found = host.described(op_type, (x, x), named)
        return host.run("Fill", value=nan if count == 1 else inf, outputs=found)
    if x.shape:
        kept = [1 if axis in axes else size for axis, size in enumerate(shape)]
        mean_ = host.run("Expand", mean_.view(*kept), shape=list(shape))
    return host.run(op_type, x, mean_, **named)


def _truth(host: Host, op_type: str, x: GlobalTensor, axes: Any, *, keep_dims: bool) -> Any:
    """All or any, of truths; of floats themselves where the chip has bfloat16.

    Those leave a float that the result is cast from (ops-math math/reduce_all, op_api).
    """
    direct = x.dtype in (FLOAT, FLOAT16, BFLOAT16) and host.profile.features.bfloat16
    if not direct or not x.numel:
        return whole(host, op_type, host.cast(x, BOOL), axes, keep_dims=keep_dims)
    named: dict[str, Any] = {"axes": _named(x, axes), "keep_dims": keep_dims}
    (found,) = host.described(op_type, (x,), named)
    left = host.empty(found.shape, FLOAT16 if x.dtype is FLOAT16 else FLOAT)
    return host.cast(host.run(op_type, x, outputs=(left,), **named), BOOL)
