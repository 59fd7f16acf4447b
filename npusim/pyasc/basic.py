"""Vector, scalar and copying functions of pyasc."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from npusim.ascendc import CmpMode, Core, RoundMode
from npusim.ascendc.flat import compute, copies
from npusim.ascendc.flat.spans import Count, Repeats, Span
from npusim.ascendc.folds import LARGEST, SMALLEST, SUM, Fold
from npusim.pyasc.params import (
    BinaryRepeatParams,
    DataCopyExtParams,
    DataCopyPadExtParams,
    DataCopyParams,
    UnaryRepeatParams,
)
from npusim.pyasc.tensors import GlobalTensor, LocalTensor
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from enum import IntEnum

_Function = Callable[..., None]


def _span(default: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Span:
    """What ``count``, or ``mask, repeat_times, repeat_params``, says."""
    names = ("mask", "repeat_times", "repeat_params")
    if "count" in named or (len(args) == 1 and not isinstance(args[0], list)):
        return Count(int(named["count"] if "count" in named else args[0]))
    given = dict(zip(names, args, strict=False)) | named
    missing = [name for name in names[:2] if name not in given]
    if missing:
        raise TypeError(f"neither count nor {missing[0]} is given")
    mask = given["mask"]
    strides = given.get("repeat_params", default).strides
    kept = tuple(int(each) for each in mask) if isinstance(mask, list | tuple) else int(mask)
    times = int(given["repeat_times"])
    return Repeats(kept, times, tuple((int(a), int(b)) for a, b in strides))


def _binary(name: str, *, updates: bool = False) -> _Function:
    def function(
        dst: LocalTensor, src0: LocalTensor, src1: LocalTensor, *args: Any, **named: Any
    ) -> None:
        span = _span(BinaryRepeatParams(), args, named)
        sources = [src0.inner, src1.inner]
        compute.vector(_intrinsic(name), span, dst.inner, sources, updates=updates)

    return _called(function, name)


def _unary(name: str) -> _Function:
    def function(dst: LocalTensor, src: LocalTensor, *args: Any, **named: Any) -> None:
        span = _span(UnaryRepeatParams(), args, named)
        compute.vector(_intrinsic(name), span, dst.inner, [src.inner])

    return _called(function, name)


def _with_number(name: str, *, updates: bool = False) -> _Function:
    def function(
        dst: LocalTensor, src: LocalTensor, scalar: float, *args: Any, **named: Any
    ) -> None:
        span = _span(UnaryRepeatParams(), args, named)
        work = _intrinsic(name)
        compute.vector(work, span, dst.inner, [src.inner], _plain(scalar), updates=updates)

    return _called(function, name)


def _intrinsic(name: str) -> Callable[[Core], Callable[..., object]]:
    def of(core: Core) -> Callable[..., object]:
        found: Callable[..., object] = getattr(core, name)
        return found

    return of


def _called(function: _Function, name: str) -> _Function:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = getattr(getattr(Core, name), "__doc__", None)
    return function


def _plain(number: Any) -> int | float:
    return int(number) if isinstance(number, int) else float(number)


add, sub, mul, div = (_binary(name) for name in ("add", "sub", "mul", "div"))
max, min = (_binary(name) for name in ("max", "min"))
add_relu = _binary("add_relu")
bitwise_and, bitwise_or = _binary("bitwise_and"), _binary("bitwise_or")
fused_mul_add = _binary("fused_mul_add", updates=True)
fused_mul_add_relu = _binary("fused_mul_add_relu", updates=True)
mul_add_dst = _binary("mul_add_dst", updates=True)
adds, muls, maxs, mins = (_with_number(name) for name in ("adds", "muls", "maxs", "mins"))
leaky_relu, axpy = _with_number("leaky_relu"), _with_number("axpy", updates=True)
shift_left, shift_right = _with_number("shift_left"), _with_number("shift_right")
abs, exp, ln, sqrt = (_unary(name) for name in ("abs", "exp", "ln", "sqrt"))
rsqrt, reciprocal, relu = (_unary(name) for name in ("rsqrt", "reciprocal", "relu"))
bitwise_not = _unary("bitwise_not")


def duplicate(dst: LocalTensor, scalar: float, *args: Any, **named: Any) -> None:
    """Fill with a number."""
    names = ("mask", "repeat_times", "dst_blk_stride", "dst_rep_stride")
    if len(args) > 1 or "mask" in named:
        given = {"dst_blk_stride": 1, "dst_rep_stride": 8}
        given |= dict(zip(names, args, strict=False)) | named
        mask: Any = given["mask"]
        kept = tuple(map(int, mask)) if isinstance(mask, list) else int(mask)
        strides = ((int(given["dst_blk_stride"]), int(given["dst_rep_stride"])),)
        span: Span = Repeats(kept, int(given["repeat_times"]), strides)
    else:
        span = _span(None, args, named)
    compute.vector(_intrinsic("duplicate"), span, dst.inner, [], _plain(scalar))


def cast(dst: LocalTensor, src: LocalTensor, round_mode: IntEnum, *args: Any, **named: Any) -> None:
    """Convert to another type, rounded as ``round_mode`` says."""
    span = _span(UnaryRepeatParams(), args, named)
    mode = RoundMode(round_mode.name)
    compute.vector(_intrinsic("cast"), span, dst.inner, [src.inner], mode)


def copy(
    dst: LocalTensor, src: LocalTensor, mask: Any, repeat_time: int, repeat_params: Any,
    is_set_mask: bool = True,
) -> None:  # fmt: skip
    """Copy repeats within UB."""
    span = _span(repeat_params, (mask, repeat_time, repeat_params), {})
    compute.vector(_intrinsic("copy"), span, dst.inner, [src.inner])


def compare(
    dst: LocalTensor, src0: LocalTensor, src1: LocalTensor, cmp_mode: IntEnum, count: int
) -> None:
    """A bit for each element: whether the comparison holds."""
    mode = CmpMode(cmp_mode.name.lower())
    compute.compare(dst.inner, src0.inner, src1.inner, mode, int(count))


def compare_scalar(
    dst: LocalTensor, src0: LocalTensor, src1: float, cmp_mode: IntEnum, count: int
) -> None:
    """A bit for each element: whether the comparison with a number holds."""
    mode = CmpMode(cmp_mode.name.lower())
    compute.compare(dst.inner, src0.inner, _plain(src1), mode, int(count))


def select(
    dst: LocalTensor, sel_mask: LocalTensor, src0: LocalTensor, src1: Any, sel_mode: IntEnum,
    count: int,
) -> None:  # fmt: skip
    """``src0`` where a bit is set, else ``src1``."""
    other = src1.inner if isinstance(src1, LocalTensor) else _plain(src1)
    compute.select(dst.inner, sel_mask.inner, src0.inner, other, int(count))


def _reduction(fold: Fold, name: str) -> _Function:
    def function(
        dst: LocalTensor, src: LocalTensor, shared_tmp_buffer: LocalTensor, count: int, **named: Any
    ) -> None:
        if named.get("cal_index"):
            raise KernelError("", f"{name} with cal_index isn't simulated", "Leave it out.")
        compute.reduce(fold, dst.inner, src.inner, int(count))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The {fold.name} of ``count`` elements."
    return function


reduce_sum = _reduction(SUM, "reduce_sum")
reduce_max = _reduction(LARGEST, "reduce_max")
reduce_min = _reduction(SMALLEST, "reduce_min")


def _by_repeats(fold: Fold, name: str, *, blocks: bool) -> _Function:
    """One number of each repeat, or with ``blocks`` of each block of a repeat."""

    def function(dst: LocalTensor, src: LocalTensor, *args: Any, **named: Any) -> None:
        if blocks:
            names = ("repeat", "mask", "dst_rep_stride", "src_blk_stride", "src_rep_stride")
        else:
            names = ("mask", "repeat_times", "dst_rep_stride", "src_blk_stride", "src_rep_stride")
        given = dict(zip(names, args, strict=False)) | named
        mask, size = given["mask"], dst.inner.dtype.itemsize
        times = int(given["repeat"] if blocks else given["repeat_times"])
        kept = tuple(map(int, mask)) if isinstance(mask, list) else int(mask)
        both = (int(given["src_blk_stride"]), int(given["src_rep_stride"]))
        span = Repeats(kept, times, (both, both))
        groups = 8 if blocks else 1
        step = size * (1 if blocks else int(given["dst_rep_stride"]))
        compute.reduce_repeats(fold, dst.inner, src.inner, span, step=step, groups=groups)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The {fold.name} of each {'block' if blocks else 'repeat'}."
    return function


whole_reduce_sum = _by_repeats(SUM, "whole_reduce_sum", blocks=False)
whole_reduce_max = _by_repeats(LARGEST, "whole_reduce_max", blocks=False)
whole_reduce_min = _by_repeats(SMALLEST, "whole_reduce_min", blocks=False)
block_reduce_sum = _by_repeats(SUM, "block_reduce_sum", blocks=True)
block_reduce_max = _by_repeats(LARGEST, "block_reduce_max", blocks=True)
block_reduce_min = _by_repeats(SMALLEST, "block_reduce_min", blocks=True)


def data_copy(
    dst: LocalTensor | GlobalTensor, src: LocalTensor | GlobalTensor, *args: Any, **named: Any
) -> None:
    """Copy ``count`` elements, or runs of blocks as DataCopyParams says."""
    what = next(iter((*args, *named.values())), None)
    if isinstance(what, int):
        copies.copy(dst.inner, src.inner, int(what))
    elif isinstance(what, DataCopyParams) and len(args) + len(named) == 1:
        count, blocks = int(what.block_count), int(what.block_len)
        gaps = int(what.src_stride), int(what.dst_stride)
        copies.copy_blocks(dst.inner, src.inner, count, blocks, *gaps)
    else:
        raise KernelError(
            "",
            f"data_copy with {type(what).__name__} isn't simulated",
            "Copy by count or with DataCopyParams.",
        )


def data_copy_pad(
    dst: LocalTensor | GlobalTensor,
    src: LocalTensor | GlobalTensor,
    data_copy_params: DataCopyExtParams | DataCopyParams,
    pad_params: DataCopyPadExtParams | None = None,
) -> None:
    """Copy runs of any length, with padding around each on their way into UB."""
    params = data_copy_params
    around: dict[str, Any] = {}
    if pad_params is not None and pad_params.is_pad:
        around = {
            "left": int(pad_params.left_padding),
            "right": int(pad_params.right_padding),
            "fill": pad_params.padding_value,
        }
    copies.copy_pad(
        dst.inner, src.inner, int(params.block_count), int(params.block_len),
        int(params.src_stride), int(params.dst_stride), **around,
    )  # fmt: skip
