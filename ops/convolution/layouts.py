"""Convolutions of plain tensors: TransData into the cube's layouts, the product, TransData back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.ascendc.task import Task, made
from npusim.operators.registry import kernel_class
from npusim.operators.tasks import kernels_on
from npusim.ops.convolution import geometry
from npusim.ops.convolution.filter_gradient import FilterGradient
from npusim.ops.convolution.forward import Conv2D
from npusim.ops.convolution.geometry import Geometry, feature_map, lanes_of
from npusim.ops.convolution.grouped import GroupedWeight
from npusim.ops.convolution.input_gradient import InputGradient
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor, Kernel
    from npusim.ascendc.windows import Window
    from npusim.hardware.profile import Profile
    from npusim.values.dtypes import DType


class Layouts:
    """A convolution between NCHW images, its transpose, and the gradient of its weight.

    Every tensor is brought into its storage format once, by the first that needs it.
    """

    def __init__(
        self, profile: Profile, window: Window, groups: int = 1, *, hf32: bool = False
    ) -> None:
        self._profile, self._window, self._groups, self._hf32 = profile, window, groups, hf32
        self._known: list[tuple[GlobalTensor, GlobalTensor]] = []

    def forward(
        self,
        op_type: str,
        x: GlobalTensor,
        weight: GlobalTensor,
        bias: GlobalTensor | None,
        y: GlobalTensor,
        *,
        stays: bool = False,
    ) -> list[Kernel]:
        """y = the convolution of x, which ``stays`` in the format that the cube stores."""
        tasks, stored = self._stored(x)
        more, taps = self._packed(weight, x.dtype)
        result = self._map(y)
        found = self._geometry(op_type, stored, taps, result)
        named = {"bias": bias, "hf32": self._hf32, "op_type": op_type}
        kernel = Conv2D(self._profile, stored, taps, result, found, **named)  # type: ignore[arg-type]
        return [*tasks, *more, kernel, *(() if stays else self._turned(result, y))]

    def back(
        self,
        op_type: str,
        y: GlobalTensor,
        weight: GlobalTensor,
        bias: GlobalTensor | None,
        x: GlobalTensor,
    ) -> list[Kernel]:
        """x = what of it the convolution would bring to y: its transpose, and its gradient."""
        tasks, stored = self._stored(y)
        more, taps = self._packed(weight, y.dtype)
        result = self._map(x)
        found = self._geometry(op_type, result, taps, stored)
        named = {"bias": bias, "hf32": self._hf32, "op_type": op_type}
        kernel = InputGradient(self._profile, stored, taps, result, found, **named)  # type: ignore[arg-type]
        return [*tasks, *more, kernel, *self._turned(result, x)]

    def of_weight(self, x: GlobalTensor, grads: GlobalTensor, dw: GlobalTensor) -> list[Kernel]:
        """dw, float32, = the gradient of the weight of a convolution from x to ``grads``."""
        tasks, stored = self._stored(x)
        more, given = self._stored(grads)
        result = self._fractals(dw, x.dtype)
        packs = self._geometry("Conv2DBackpropFilter", stored, result, given).groups
        kernel = FilterGradient(
            self._profile, stored, given, result, self._window, hf32=self._hf32, groups=packs
        )
        if self._groups > 1:
            back = GroupedWeight(self._profile, dw, result, self._groups, back=True)
            return [*tasks, *more, kernel, back]
        return [*tasks, *more, kernel, *self._turned(result, dw)]

    def _geometry(
        self, op_type: str, x: GlobalTensor, weight: GlobalTensor, y: GlobalTensor
    ) -> Geometry:
        window = self._window
        said: dict[str, object] = {
            "ksize": window.kernel,
            "strides": window.stride,
            "dilations": window.dilation,
            "pads": window.padding,
        }
        return Geometry.of(op_type, x, weight, y, said)

    def _map(self, plain: GlobalTensor) -> GlobalTensor:
        lanes = lanes_of(self._profile, plain.dtype)
        return made(feature_map(plain.shape, lanes), plain.dtype, f"{plain.buffer.name}_5hd")

    def _fractals(
        self, plain: GlobalTensor, kind: DType, groups: int | None = None
    ) -> GlobalTensor:
        """The weight of images in ``kind``; of all groups by default."""
        lanes, high = lanes_of(self._profile, kind), self._profile.cube.fractal_n
        shape = geometry.weight(plain.shape, lanes, high, groups=groups or self._groups)
        return made(shape, plain.dtype, f"{plain.buffer.name}_z")

    def _stored(self, plain: GlobalTensor) -> tuple[tuple[Kernel, ...], GlobalTensor]:
        """The feature map of images, and the task that makes it."""
        for known, stored in self._known:
            if known is plain:
                return (), stored
        stored = self._map(plain)
        self._known.append((plain, stored))
        return self._turned(plain, stored), stored

    def _packed(self, weight: GlobalTensor, kind: DType) -> tuple[tuple[Kernel, ...], GlobalTensor]:
        """The weight in FRACTAL_Z, and the task that makes it.

        That of groups is cleared and packed; on A2 it is brought into fractals without groups
        before, and fractals of halves are cleared too. Source: the lists of kernels that are
        published with measurements (hicann/cann-bench, tasks/level3/conv_2d and
        depthwise_conv_2d): one MemSet in all cases of halves, none in those of float32, and one
        TransData and one MemSet more where there are groups.
        """
        taps, split = self._fractals(weight, kind), self._profile.cores.style == "split"
        if self._groups == 1:
            return self._in_fractals(weight, taps), taps
        kernel = GroupedWeight(self._profile, weight, taps, self._groups)
        tasks: list[Kernel] = []
        if split:
            tasks += self._in_fractals(weight, self._fractals(weight, kind, 1))
        if split or kernel.leaves_rows:
            tasks.append(kernel_class("MemSet")(self._profile, taps))
        return (*tasks, kernel), taps

    def _in_fractals(self, weight: GlobalTensor, taps: GlobalTensor) -> tuple[Kernel, ...]:
        """The tasks that lay out a weight without groups."""
        tasks = self._turned(weight, taps)
        if self._profile.cores.style != "split" or taps.dtype.itemsize >= FLOAT.itemsize:
            return tasks
        return (kernel_class("MemSet")(self._profile, taps), *tasks)

    def _turned(self, source: GlobalTensor, target: GlobalTensor) -> tuple[Kernel, ...]:
        return kernels_on(Task(self._profile, "TransData", (source,), (target,)))
