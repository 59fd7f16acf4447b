"""Convolutions of volumes in NCDHW: Conv3D and the gradient of its weight between layouts."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod
from typing import TYPE_CHECKING

from npusim.ascendc.task import Task, made
from npusim.ascendc.windows import Padding, Window
from npusim.operators.registry import kernel_class
from npusim.operators.results import numbers
from npusim.operators.tasks import kernels_on
from npusim.ops.convolution.geometry import lanes_of
from npusim.ops.convolution.volume_gradient import VolumeFilterGradient
from npusim.ops.convolution.volume_input_gradient import VolumeInputGradient
from npusim.ops.convolution.volumes import Conv3D, Depth, along_depth
from npusim.values.dtypes import FLOAT
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npusim.ascendc import GlobalTensor, Kernel
    from npusim.hardware.profile import Profile
    from npusim.values.dtypes import DType

VOLUMES = 5  # axes of NCDHW
STORED = 6  # and of NDC1HWC0


@dataclass(frozen=True)
class Solid:
    """A window over volumes, and TransData into its layouts and back."""

    profile: Profile
    kernel: tuple[int, int, int]
    stride: tuple[int, int, int]
    dilation: tuple[int, int, int]
    pads: tuple[int, int, int, int, int, int]
    hf32: bool = False

    @property
    def window(self) -> Window:
        """The window over planes."""
        *_, top, bottom, left, right = self.pads
        (_, *kernel), (_, *stride), (_, *dilation) = self.kernel, self.stride, self.dilation
        around = Padding(top, bottom, left, right)
        return Window(
            (kernel[0], kernel[1]), (stride[0], stride[1]), (dilation[0], dilation[1]), around
        )

    def results(self, inside: Sequence[int]) -> tuple[int, int, int]:
        """Results along depth, rows and columns."""
        extent = (self.kernel[0] - 1) * self.dilation[0] + 1
        room = inside[0] + self.pads[0] + self.pads[1] - extent
        deep = room // self.stride[0] + 1 if room >= 0 else 0
        return (deep, *self.window.positions((inside[1], inside[2])))

    def forward(
        self, x: GlobalTensor, weight: GlobalTensor, bias: GlobalTensor | None, y: GlobalTensor
    ) -> list[Kernel]:
        """y = the convolution of x."""
        if self.dilation[0] != 1:
            raise KernelError("Conv3D", "a dilation of the depth isn't modelled")
        if max(self.pads[:2]) >= self.kernel[0]:
            raise KernelError("Conv3D", "planes that see zeros alone aren't modelled")
        stored, result = self._slices(x), self._slices(y)
        taps = self._fractals(weight, x.dtype)
        depth = self._depth(x, y)
        kernel = Conv3D(
            self.profile, stored, taps, result, depth, self._said, bias=bias, hf32=self.hf32
        )
        return [
            *self._turned(x, stored),
            *self._turned(weight, taps),
            kernel,
            *self._turned(result, y),
        ]

    @property
    def _said(self) -> dict[str, object]:
        """The window on planes as attributes."""
        window = self.window
        return {
            "ksize": window.kernel,
            "strides": window.stride,
            "dilations": window.dilation,
            "pads": window.padding,
        }

    def back(
        self,
        op_type: str,
        y: GlobalTensor,
        weight: GlobalTensor,
        bias: GlobalTensor | None,
        x: GlobalTensor,
    ) -> list[Kernel]:
        """x = what of it the convolution would bring to y: its transpose, and its gradient."""
        stored, result, taps = self._slices(y), self._slices(x), self._fractals(weight, y.dtype)
        kernel = VolumeInputGradient(
            self.profile, stored, taps, result, self._depth(x, y), self._said,
            bias=bias, hf32=self.hf32, op_type=op_type,
        )  # fmt: skip
        return [
            *self._turned(y, stored),
            *self._turned(weight, taps),
            kernel,
            *self._turned(result, x),
        ]

    def of_weight(self, x: GlobalTensor, grads: GlobalTensor, dw: GlobalTensor) -> list[Kernel]:
        """dw, float32, = the gradient of the weight."""
        stored, given = self._slices(x), self._slices(grads)
        result = self._fractals(dw, x.dtype)
        depth = self._depth(x, grads)
        kernel = VolumeFilterGradient(
            self.profile, stored, given, result, self.window, depth, hf32=self.hf32
        )
        return [
            *self._turned(x, stored),
            *self._turned(grads, given),
            kernel,
            *self._turned(result, dw),
        ]

    def _depth(self, x: GlobalTensor, y: GlobalTensor) -> Depth:
        planes, results = x.shape[2], y.shape[2]
        return Depth(
            planes, results, self.kernel[0], self.stride[0], self.pads[0], self.dilation[0]
        )

    def _slices(self, plain: GlobalTensor) -> GlobalTensor:
        """NDC1HWC0."""
        volumes, channels, planes, *plane = plain.shape
        lanes = lanes_of(self.profile, plain.dtype)
        shape = (volumes, planes, ceil(channels / lanes), *plane, lanes)
        return made(shape, plain.dtype, f"{plain.buffer.name}_6hd")

    def _fractals(self, plain: GlobalTensor, kind: DType) -> GlobalTensor:
        """FRACTAL_Z_3D of a weight of volumes in ``kind``."""
        outs, channels, *taps = plain.shape
        lanes, high = lanes_of(self.profile, kind), self.profile.cube.fractal_n
        shape = (prod(taps) * ceil(channels / lanes), ceil(outs / high), high, lanes)
        return made(shape, plain.dtype, f"{plain.buffer.name}_z3d")

    def _turned(self, source: GlobalTensor, target: GlobalTensor) -> tuple[Kernel, ...]:
        return kernels_on(Task(self.profile, "TransData", (source,), (target,)))


def filter_gradient(task: Task) -> tuple[Kernel, ...]:
    """x and gradients in NCDHW to the gradient of the weight, float32, which is cleared before.

    Source: the lists of kernels that are published with measurements (hicann/cann-bench,
    tasks/level3/conv_3d_backprop_filter).
    """
    x, grads = task.present(2)
    size = numbers(task.first("filter_size")) or (task.outputs and task.outputs[0].shape) or ()
    if len(x.shape) != VOLUMES or len(grads.shape) != VOLUMES or len(size) != VOLUMES:
        raise task.unfit(f"{x.shape}, {grads.shape} and weights of {tuple(size)}")
    if size[1] != x.shape[1] or size[0] != grads.shape[1]:
        raise task.refused("groups of volumes aren't modelled")
    solid = _told(task, size[2:], x.dtype)
    if solid.results(x.shape[2:]) != grads.shape[2:]:
        raise task.unfit(f"{x.shape} doesn't become {grads.shape}")
    dw = task.outputs[0] if task.outputs else made(tuple(size), FLOAT)
    kernels: list[Kernel] = []
    for kernel in solid.of_weight(x, grads, dw):
        kernels += [kernel_class("MemSet")(task.profile, each) for each in kernel.adds_into]
        kernels.append(kernel)
    return tuple(kernels)


def input_gradient(task: Task) -> tuple[Kernel, ...]:
    """A weight and gradients in NCDHW to the gradient of the input; its size may come first.

    Networks have them in NDC1HWC0 and FRACTAL_Z_3D.
    """
    grads, weight = (task.present(2)[at] for at in (1, 0))
    size = numbers(task.first("input_size")) or (task.outputs and task.outputs[0].shape) or ()
    if task.op_type.startswith("Conv3DTranspose"):
        grads, weight = weight, grads
    if len(grads.shape) == STORED and task.outputs:
        return _stored(task, grads, weight, task.outputs[0])
    if len(weight.shape) != VOLUMES or len(grads.shape) != VOLUMES or len(size) != VOLUMES:
        raise task.unfit(f"{weight.shape}, {grads.shape} and volumes of {tuple(size)}")
    if (weight.shape[0], weight.shape[1]) != (grads.shape[1], size[1]):
        raise task.refused("groups of volumes aren't modelled")
    solid = _told(task, weight.shape[2:], grads.dtype)
    if solid.results(size[2:]) != grads.shape[2:]:
        raise task.unfit(f"{tuple(size)} doesn't become {grads.shape}")
    dx = task.outputs[0] if task.outputs else made(tuple(size), grads.dtype)
    return tuple(solid.back(task.op_type, grads, weight, None, dx))


def _stored(
    task: Task, grads: GlobalTensor, weight: GlobalTensor, dx: GlobalTensor
) -> tuple[Kernel, ...]:
    """The same for tensors that lie as the cube takes them; a bias is the third operand."""
    if len(dx.shape) != STORED or dx.shape[0] != grads.shape[0]:
        raise task.unfit(f"{grads.shape} doesn't become {dx.shape}")
    depth, attributes = along_depth(task, dx, weight, grads)
    bias = task.inputs[2] if len(task.inputs) > 2 else None
    kernel = VolumeInputGradient(
        task.profile, grads, weight, dx, depth, attributes, bias=bias, op_type=task.op_type
    )
    return (kernel,)


def _told(task: Task, kernel: Sequence[int], kind: DType) -> Solid:
    """How a window moves that is as large as ``kernel``."""
    stride, dilation, pads = (
        numbers(task.first(name)) or default
        for name, default in (("strides", [1] * 3), ("dilations", [1] * 3), ("pads", [0] * 6))
    )
    lists = tuple(kernel), tuple(stride), tuple(dilation), tuple(pads)
    if tuple(map(len, lists)) != (3, 3, 3, 6):
        raise task.unfit(f"strides {stride}, dilations {dilation} and pads {pads}")
    hf32 = kind is FLOAT and bool(task.first("enable_hf32", "hf32"))
    return Solid(task.profile, *lists, hf32)  # type: ignore[arg-type]
