"""Small tasks of convolutions' gradients: ragged channels, odd planes, strides and padding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc.windows import Padding, Window
from support.convolution import in_fractals, in_slices

if TYPE_CHECKING:
    from support.task_cases import Pick

Array = np.ndarray[Any, Any]


def drawn(
    pick: Pick, *, reaching: bool = False, half: bool = False
) -> tuple[Array, Array, Array, Window]:
    """Images, weights (out channels, channels, rows, columns) and what the output would hold.

    Windows that are ``reaching`` have more taps than the padding is broad.
    """
    wide = "float32" in pick.profile.cube.dtypes and not half
    kind = pick.of(np.float16, np.float32) if wide else np.float16
    kernel, stride = (pick.of(1, 2, 3), pick.of(1, 3)), (pick.of(1, 2), pick.of(1, 2))
    most = [(0, 1) if size > 1 or not reaching else (0,) for size in kernel for _ in range(2)]
    window = Window(kernel, stride, (1, 1), Padding(*(pick.of(*each) for each in most)))
    plane = pick.of(3, 5, 8), pick.of(4, 7)
    images, channels, outs = pick.of(1, 2, 3), pick.of(3, 16, 20), pick.of(5, 16, 33)
    x = pick.numbers(images, channels, *plane, kind=kind)
    weight = pick.numbers(outs, channels, *kernel, kind=kind)
    dy = pick.numbers(images, outs, *window.positions(plane), kind=kind)
    return x, weight, dy, window


def attributes(window: Window) -> dict[str, object]:
    """What a record tells of a window."""
    return {
        "kernel_size": list(window.kernel),
        "strides": list(window.stride),
        "pads": list(window.padding),
        "dilations": list(window.dilation),
    }


def stored(array: Array) -> Array:
    """NCHW as NC1HWC0."""
    return in_slices(array, 32 // array.dtype.itemsize)


def stored_weight(array: Array, like: Array) -> Array:
    """Weights as FRACTAL_Z, in slices of as many channels as images of the type of ``like``."""
    return in_fractals(array, 32 // like.dtype.itemsize)
