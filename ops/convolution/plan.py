"""The device tasks of aclnnConvolution."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from npusim.ascendc.task import Task
from npusim.ascendc.windows import Padding, Window
from npusim.operators.tasks import kernels_on
from npusim.ops.convolution.contract import Axis, arithmetic, axes, out_channels
from npusim.ops.convolution.layouts import Layouts
from npusim.ops.convolution.plain import PLANAR
from npusim.ops.convolution.solid import Solid
from npusim.values.dtypes import BFLOAT16, FLOAT, FLOAT16, DType
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor, Kernel
    from npusim.operators.contract import Call
    from npusim.operators.task_chain import Chain


def build(call: Call, chain: Chain) -> None:
    """Casts and TransData of both operands, the convolution, TransData back, Cast, ViewCopy."""
    if call.spec("input").rank > PLANAR:
        _volumes(call, chain)
        return
    transposed, groups = call.flag("transposed"), call.integer("groups")
    kind, hf32 = arithmetic(call)
    x, weight = (chain.cast(planar(chain.input(name)), kind) for name in ("input", "weight"))
    out = chain.output("output", kind)
    rows, columns = _axes(call)
    plane = (each.result(transposed=transposed) for each in (rows, columns))
    y = out.view(x.shape[0], out_channels(call), *plane)
    bias = _bias(call, chain, kind)
    split = chain.profile.paths.l0c_to_gm is not None
    if split and not transposed and groups == 1 and _covers_plane(rows) and _covers_plane(columns):
        _as_product(chain, x, weight, bias, y, hf32=hf32)
    else:
        layouts = Layouts(chain.profile, window_of(call), groups, hf32=hf32)
        if transposed:
            queue(chain, layouts.back("Conv2DTranspose", x, weight, bias, y))
        else:
            queue(chain, layouts.forward("Conv2D", x, weight, bias, y))
    chain.finish("output", out)


def _volumes(call: Call, chain: Chain) -> None:
    """The same of volumes."""
    kind, hf32 = arithmetic(call)
    x, weight = (chain.cast(chain.input(name), kind) for name in ("input", "weight"))
    out = chain.output("output", kind)
    solid, bias = solid_of(call, chain, hf32=hf32), _bias(call, chain, kind)
    if call.flag("transposed"):
        queue(chain, solid.back("Conv3DTranspose", x, weight, bias, out))
    else:
        queue(chain, solid.forward(x, weight, bias, out))
    chain.finish("output", out)


def solid_of(call: Call, chain: Chain, *, hf32: bool) -> Solid:
    """The window over volumes; KernelError for groups."""
    if call.integer("groups") > 1:
        raise KernelError(call.contract.name, "groups of three dimensions aren't modelled")
    deep, rows, columns = axes(call)
    three = deep, rows, columns
    return Solid(
        chain.profile,
        (deep.kernel, rows.kernel, columns.kernel),
        (deep.stride, rows.stride, columns.stride),
        (deep.dilation, rows.dilation, columns.dilation),
        tuple(side for each in three for side in (each.before, each.after)),  # type: ignore[arg-type]
        hf32,
    )


def planar(tensor: GlobalTensor) -> GlobalTensor:
    """A line is a plane of one row."""
    if len(tensor.shape) == PLANAR:
        return tensor
    images, channels, columns = tensor.shape
    return tensor.view(images, channels, 1, columns)


def _axes(call: Call) -> tuple[Axis, Axis]:
    """Rows and columns; a line has one row."""
    found = axes(call)
    return (found[0], found[1]) if len(found) > 1 else (Axis(1, 1, 1, 1, 0, 0), found[0])


def window_of(call: Call) -> Window:
    """The window over planes."""
    rows, columns = _axes(call)
    return Window(
        (rows.kernel, columns.kernel),
        (rows.stride, columns.stride),
        (rows.dilation, columns.dilation),
        Padding(rows.before, rows.after, columns.before, columns.after),
    )


def _bias(call: Call, chain: Chain, kind: DType) -> GlobalTensor | None:
    """The bias as the kernel adds it: to float32 sums, but to results where they pass UB."""
    if not call.is_given("bias"):
        return None
    bias = chain.input("bias")
    bias = bias.view(bias.numel)
    through_ub = chain.profile.paths.l0c_to_gm is None
    narrow = kind is FLOAT16 and bias.dtype is FLOAT16
    wanted = kind if through_ub or narrow else FLOAT
    return chain.cast(bias, wanted) if bias.dtype is not BFLOAT16 else chain.cast(bias, FLOAT)


def _covers_plane(axis: Axis) -> bool:
    return (axis.kernel, axis.dilation, axis.before, axis.after) == (axis.size, 1, 0, 0)


def _as_product(
    chain: Chain,
    x: GlobalTensor,
    weight: GlobalTensor,
    bias: GlobalTensor | None,
    y: GlobalTensor,
    *,
    hf32: bool,
) -> None:
    """A kernel that covers the plane: images times kernels, a matrix product."""
    images, outs = x.shape[0], weight.shape[0]
    operands = (x.view(images, x.numel // images), weight.view(outs, weight.numel // outs), bias)
    said = {"transpose_x2": True, "enable_hf32": hf32}
    name = f"MatMulV{chain.profile.software.matmul_generation}"
    queue(chain, kernels_on(Task(chain.profile, name, operands, (y.view(images, outs),), said)))


def queue(chain: Chain, kernels: Iterable[Kernel]) -> None:
    """Queue kernels, and MemSet in front of those that add to what they find."""
    for kernel in kernels:
        chain.adopt(kernel)
        for cleared in kernel.adds_into:
            chain.launch("MemSet", cleared)
        chain.queue(kernel)
