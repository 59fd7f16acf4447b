"""What the aclnn functions of quantised tensors do on the host."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from npusim.values.dtypes import BOOL, FLOAT, INT8, UINT8, UINT64
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npusim.ascendc import GlobalTensor
    from npusim.operators.host import Host

_DYNAMIC, _STATIC = "dynamic", "static"


def _line(host: Host, given: GlobalTensor | None, like: GlobalTensor) -> GlobalTensor | None:
    """A scale or an offset for each place of a row; one number is repeated."""
    if given is None or given.numel == like.numel:
        return given
    found: GlobalTensor = host.run("BroadcastTo", given.view(1), shape=[like.numel])
    return found


def _rows(x: GlobalTensor, gamma: GlobalTensor) -> tuple[int, ...]:
    """The axes of x in front of those of a row."""
    size, axes = 1, len(x.shape)
    while size < gamma.numel and axes:
        axes -= 1
        size *= x.shape[axes]
    return x.shape[:axes]


def layer_norm_quant(
    host: Host, x: GlobalTensor, gamma: GlobalTensor, beta: GlobalTensor, scale: GlobalTensor,
    offset: GlobalTensor | None = None, *, quant_mode: int, epsilon: float,
) -> Any:  # fmt: skip
    """Rows normalised and quantised by a scale, or by their own."""
    lines = [_line(host, each, gamma) for each in (scale, offset)]
    outputs = [host.empty(x.shape, INT8)]
    if quant_mode:
        outputs.append(host.empty(_rows(x, gamma), FLOAT, "scale"))
    return host.run("LayerNormQuant", x, gamma, beta, *lines, outputs=outputs,
                    quant_mode=quant_mode, epsilon=epsilon)  # fmt: skip


def rms_norm_quant(
    host: Host, x: GlobalTensor, gamma: GlobalTensor, beta: GlobalTensor, scale: GlobalTensor,
    offset: GlobalTensor, *, epsilon: float,
) -> Any:  # fmt: skip
    """Rows divided by the root of their mean square and quantised by one scale."""
    lines = [_line(host, each, gamma) for each in (scale, offset)]
    out = host.empty(x.shape, INT8)
    return host.run("RmsNormQuant", x, gamma, beta, *lines, outputs=(out,), epsilon=epsilon)


def add_layer_norm_quant(
    host: Host, x: GlobalTensor, other: GlobalTensor, gamma: GlobalTensor, beta: GlobalTensor,
    bias: GlobalTensor | None = None, scale: GlobalTensor | None = None,
    second: GlobalTensor | None = None, offset: GlobalTensor | None = None,
    shift: GlobalTensor | None = None, *, mode: str = _STATIC, epsilon: float,
    additional: bool = False, div_mode: bool = True,
) -> Any:  # fmt: skip
    """A sum normalised row by row and quantised twice, once for each scale."""
    del additional
    if mode not in (_DYNAMIC, _STATIC):
        raise KernelError("AddLayerNormQuant", f"quantMode should be static or dynamic, not {mode}")
    lines = [_line(host, each, gamma) for each in (scale, second, offset, shift)]
    rows = _rows(x, gamma)
    outputs = [
        *(host.empty(x.shape, INT8, f"y{number}") for number in (1, 2)),
        host.empty(x.shape, x.dtype, "x"), host.empty(x.shape, x.dtype, "normal"),
        *(host.empty(rows, FLOAT, f"scale{number}") for number in (1, 2)),
    ]  # fmt: skip
    found: Any = host.run(
        "AddLayerNormQuant", x, other, gamma, beta, bias, *lines, outputs=outputs,
        epsilon=epsilon, dynamic=mode == _DYNAMIC, div_mode=div_mode,
    )  # fmt: skip
    first, last, total, normal, own, other_own = found
    own, other_own = (own, other_own) if mode == _DYNAMIC else (None, None)
    has_second = second is not None
    return (first, last if has_second else None, total, normal, own,
            other_own if has_second else None)  # fmt: skip


def ada_layer_norm_quant(
    host: Host, x: GlobalTensor, scale: GlobalTensor, shift: GlobalTensor,
    weight: GlobalTensor | None = None, bias: GlobalTensor | None = None,
    smooth: GlobalTensor | None = None, *, epsilon: float, mode: str = _DYNAMIC,
) -> Any:  # fmt: skip
    """Rows normalised, stretched and moved image by image, and quantised by their own scale."""
    if mode != _DYNAMIC:
        raise KernelError("AdaLayerNormQuant", f"quantMode should be dynamic, not {mode}")
    y = host.run("LayerNormV3", x, weight, bias, epsilon=epsilon)[0]
    lines = (x.shape[0], 1, x.shape[-1])
    gain = host.together("Add", scale.view(*lines), 1.0, dtype=scale.dtype)
    y = host.run("Add", host.run("Mul", y, gain), shift.view(*lines))
    return host.run("DynamicQuant", y, smooth)


def add_rms_norm_dynamic_quant(
    host: Host, x: GlobalTensor, other: GlobalTensor, gamma: GlobalTensor,
    smooth: GlobalTensor | None = None, second: GlobalTensor | None = None,
    beta: GlobalTensor | None = None, *, epsilon: float, mask: Sequence[bool] | None = None,
) -> Any:  # fmt: skip
    """A sum normalised row by row, quantised by each row's own scale, once for each smoothing."""
    del mask
    rows = _rows(x, gamma)
    outputs = [
        *(host.empty(x.shape, INT8, f"y{number}") for number in (1, 2)),
        host.empty(x.shape, x.dtype, "x"),
        *(host.empty(rows, FLOAT, f"scale{number}") for number in (1, 2)),
    ]
    found: Any = host.run("AddRmsNormDynamicQuantV2", x, other, gamma, smooth, second, beta,
                          outputs=outputs, epsilon=epsilon)  # fmt: skip
    if second is not None:
        return found
    return found[0], None, found[2], found[3], None


def add_rms_norm_quant(
    host: Host, x: GlobalTensor, other: GlobalTensor, gamma: GlobalTensor, scale: GlobalTensor,
    second: GlobalTensor | None = None, offset: GlobalTensor | None = None,
    shift: GlobalTensor | None = None, beta: GlobalTensor | None = None, *,
    epsilon: float, div_mode: bool = True,
) -> Any:  # fmt: skip
    """A sum normalised row by row and quantised by scales that are given."""
    lines = [_line(host, each, gamma) for each in (scale, second, offset, shift)]
    outputs = [
        *(host.empty(x.shape, INT8, f"y{number}") for number in (1, 2)),
        host.empty(x.shape, x.dtype, "x"), host.empty(x.shape, x.dtype, "normal"),
    ]  # fmt: skip
    found: Any = host.run("AddRmsNormQuantV2", x, other, gamma, *lines, beta, outputs=outputs,
                          epsilon=epsilon, div_mode=div_mode)  # fmt: skip
    return found if second is not None else (found[0], None, *found[2:])


def packed_scales(
    host: Host, scale: GlobalTensor, offset: GlobalTensor | None = None, *, round_mode: int = 0
) -> Any:
    """Scales and offsets as the cube's output stage reads them: in one number of 64 bits each."""
    count = max(scale.numel, 1 if offset is None else offset.numel)
    shape = scale.shape if scale.numel == count or offset is None else offset.shape
    out = host.empty(shape, UINT64)
    return host.run("TransQuantParamV2", scale, offset, outputs=(out,), round_mode=round_mode)


def fake_quantised(
    host: Host, x: GlobalTensor, scale: GlobalTensor, zero: GlobalTensor, *,
    least: int, most: int, axis: int | None = None, enabled: float = 1.0,
) -> Any:  # fmt: skip
    """x as it comes back from whole numbers of a range, and where it was in that range."""
    told = host.told("mask")
    if enabled < 1:  # as it is, and everything counts as inside
        yes = host.constant(1, UINT8)
        truth = replace(yes, dtype=BOOL)
        return host.run("TensorMove", x), host.run("Fill", None, truth, dims=list(x.shape))
    whole, turn = x.view(*x.shape or (1,)), list(range(max(1, len(x.shape))))
    if axis is None:
        spread = [whole.shape[0]]
        scale, zero = (
            host.run("BroadcastTo", each.view(1), shape=spread) for each in (scale, zero)
        )
    else:
        at = axis % len(turn)
        turn[0], turn[at] = turn[at], turn[0]
    turned = turn != sorted(turn)
    given = host.run("Transpose", whole, perm=turn) if turned else whole
    results = (
        host.empty(given.shape, x.dtype),
        host.empty(given.shape, told.dtype if told else BOOL),
    )
    found = host.run(
        "FakeQuantAffineCachemask", given, scale, zero, outputs=results,
        axis=0, quant_min=least, quant_max=most,
    )  # fmt: skip
    if turned:
        found = tuple(host.run("Transpose", each, perm=turn) for each in found)
    return tuple(each.view(*x.shape) for each in found)


def quantised(
    host: Host, x: GlobalTensor, scale: GlobalTensor, zero: GlobalTensor | None = None, *, axis: int
) -> Any:
    """Whole numbers: x by the scale of its place along an axis, and the zero point."""
    told = host.told("out")
    out = host.empty(x.shape, told.dtype if told else INT8)
    return host.run("Quantize", x, scale, zero, axis=axis, outputs=(out,))


def grouped_quantised(
    host: Host, x: GlobalTensor, scale: GlobalTensor, groups: GlobalTensor,
    offset: GlobalTensor | None = None,
) -> Any:  # fmt: skip
    """Rows by the scale of the group that they are in, as int8; groups say where they end."""
    out = host.empty(x.shape, INT8)
    return host.run("GroupQuant", x, scale, groups, offset, outputs=(out,))
