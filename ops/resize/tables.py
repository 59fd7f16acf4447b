"""Images brought to another size axis by axis, by any rule, and the gradients.

Every pixel of a result is a weighted sum along each axis, so a rule is a table of an axis
(npusim/library/axis_maps.py), and gradients have the transposed one. Sources of the rules: the
aclnn pages of the Upsample interfaces, which name those of torch.nn.functional.interpolate. The
device multiplies by such tables on its cubes or gathers pixels; what a tile takes here follows from
the elements of its sums.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc.task import Task, made
from npusim.library.axis_maps import AxisMap
from npusim.library.mapping import mapped
from npusim.operators.checks import invalid, sizes
from npusim.operators.results import described, numbers
from npusim.operators.shape_checks import entries

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc import Kernel
    from npusim.operators.contract import Call, Check, Finding
    from npusim.values.tensors import TensorSpec

    Places = NDArray[np.float64]
    Rule = Callable[[int, int, float, bool], AxisMap]

_CUBIC, _CUBIC_SMOOTHED = (
    -0.75,
    -0.5,
)  # of the cubic kernels, the second where sizes shrink smoothly
_SCALES = {1: ("scale",), 2: ("scale_h", "scale_w"), 3: ("scale_d", "scale_h", "scale_w")}


def nearest(inside: int, out: int, step: float, align: bool) -> AxisMap:
    """The pixel that a pixel's beginning falls on."""
    del align
    places = np.floor(np.arange(out, dtype=np.float32) * np.float32(step)).astype(np.int64)
    return AxisMap.taking(inside, np.minimum(places, inside - 1))


def nearest_exact(inside: int, out: int, step: float, align: bool) -> AxisMap:
    """The pixel that a pixel's centre falls on."""
    del align
    centres = (np.arange(out, dtype=np.float32) + np.float32(0.5)) * np.float32(step)
    return AxisMap.taking(inside, np.minimum(np.floor(centres).astype(np.int64), inside - 1))


def linear(inside: int, out: int, step: float, align: bool) -> AxisMap:
    """Between the two pixels around it."""
    places = np.maximum(_centres(out, step, align), 0.0)
    low = np.minimum(np.floor(places).astype(np.int64), inside - 1)
    share = places - low
    both = np.stack([low, np.minimum(low + 1, inside - 1)], axis=1)
    return AxisMap(inside, both, np.stack([1 - share, share], axis=1))


def cubic(inside: int, out: int, step: float, align: bool) -> AxisMap:
    """By the cubic kernel over four pixels, those at the border again where there are none."""
    places = _centres(out, step, align)
    first = np.floor(places).astype(np.int64) - 1
    taps = first[:, None] + np.arange(4)
    weights = _cubic(np.abs(places[:, None] - taps), _CUBIC)
    return AxisMap(inside, np.clip(taps, 0, inside - 1), weights)


def linear_smoothed(inside: int, out: int, step: float, align: bool) -> AxisMap:
    """By a triangle as wide as what it shrinks."""
    del align  # only the step is another
    return _smoothed(inside, out, step, 1.0, lambda x: np.maximum(1 - np.abs(x), 0))


def cubic_smoothed(inside: int, out: int, step: float, align: bool) -> AxisMap:
    """By a cubic kernel as wide as what it shrinks."""
    del align
    kernel = partial(_cubic, factor=_CUBIC_SMOOTHED)
    return _smoothed(inside, out, step, 2.0, lambda x: kernel(np.abs(x)))


def _smoothed(
    inside: int,
    out: int,
    step: float,
    reach: float,
    kernel: Callable[[Places], Places],
) -> AxisMap:
    """Weights of a kernel around centres, of sum one."""
    wide = max(step, 1.0)
    centres = (np.arange(out) + 0.5) * step
    first = np.maximum((centres - reach * wide + 0.5).astype(np.int64), 0)
    behind = np.minimum((centres + reach * wide + 0.5).astype(np.int64), inside)
    taps = first[:, None] + np.arange(max(1, int((behind - first).max(initial=1))))
    weights = kernel((taps - centres[:, None] + 0.5) / wide) * (taps < behind[:, None])
    total = weights.sum(axis=1, keepdims=True)
    return AxisMap(inside, np.clip(taps, 0, inside - 1), weights / np.where(total, total, 1))


def _centres(out: int, step: float, align: bool) -> Places:
    places = np.arange(out, dtype=np.float64)
    return places * step if align else (places + 0.5) * step - 0.5


def _cubic(x: Places, factor: float) -> Places:
    """The cubic convolution kernel at distances ``x``."""
    near = ((factor + 2) * x - (factor + 3)) * x * x + 1
    far = ((x - 5) * x + 8) * x * factor - 4 * factor
    found: Places = np.where(x <= 1, near, np.where(x < 2, far, 0.0))
    return found


def _maps(
    rule: Rule, inside: Sequence[int], outside: Sequence[int], attributes: Mapping[str, object]
) -> list[AxisMap]:
    """A table for each axis; a scale that is told decides the step."""
    align = bool(attributes.get("align_corners"))
    found = []
    for size, out, name in zip(inside, outside, _SCALES[len(inside)], strict=True):
        told = attributes.get(name)
        step = size / out
        if align:
            step = (size - 1) / (out - 1) if out > 1 else 0.0
        elif isinstance(told, int | float) and told > 0:
            step = 1 / told
        found.append(rule(size, out, step, align))
    return found


def _resized(task: Task, rule: Rule, axes: int) -> tuple[Kernel, ...]:
    """x to images of the size that is told, or that the result has."""
    (x,) = task.present(1)
    size = numbers(task.first("size")) or (task.outputs and task.outputs[0].shape[2:]) or ()
    if len(size) != axes or len(x.shape) != axes + 2:
        raise task.unfit(f"{x.shape} to {tuple(size)}")
    out = task.outputs[0] if task.outputs else made((*x.shape[:2], *size), x.dtype)
    maps = _maps(rule, x.shape[2:], size, task.attributes)
    return (mapped(task.op_type, task.profile, x, out, maps),)


def _gradient(task: Task, rule: Rule, axes: int) -> tuple[Kernel, ...]:
    """The gradient of the result to that of images of the size that is told."""
    (grads,) = task.present(1)
    size = numbers(task.first("input_size")) or (task.outputs and task.outputs[0].shape) or ()
    if len(size) != axes + 2 or len(grads.shape) != axes + 2:
        raise task.unfit(f"{grads.shape} to {tuple(size)}")
    out = task.outputs[0] if task.outputs else made(tuple(size), grads.dtype)
    maps = _maps(rule, size[2:], grads.shape[2:], task.attributes)
    tables = [each.transposed() for each in maps]
    return (mapped(task.op_type, task.profile, grads, out, tables),)


def _both(rule: Rule, axes: int) -> tuple[Callable[[Task], tuple[Kernel, ...]], ...]:
    return partial(_resized, rule=rule, axes=axes), partial(_gradient, rule=rule, axes=axes)


nearest_1d, nearest_1d_grad = _both(nearest, 1)
nearest_2d, nearest_2d_grad = _both(nearest, 2)
nearest_3d, nearest_3d_grad = _both(nearest, 3)
exact_1d, _ = _both(nearest_exact, 1)
exact_2d, exact_2d_grad = _both(nearest_exact, 2)
exact_3d, exact_3d_grad = _both(nearest_exact, 3)
linear_1d, linear_1d_grad = _both(linear, 1)
_, bilinear_2d_grad = _both(linear, 2)
trilinear_3d, trilinear_3d_grad = _both(linear, 3)
bicubic_2d, bicubic_2d_grad = _both(cubic, 2)
bilinear_aa, bilinear_aa_grad = _both(linear_smoothed, 2)
bicubic_aa, bicubic_aa_grad = _both(cubic_smoothed, 2)


def to_size(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec]:
    """Images of the size that is told."""
    size, x = numbers(attributes.get("size")), given[0]
    return [] if size is None else [described((*x.shape[:2], *size), x.dtype)]


def to_input(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec]:
    """The gradient of images of the size that is told."""
    size = numbers(attributes.get("input_size"))
    return [] if size is None else [described(size, given[0].dtype)]


def gradient_sizes(grads: str, size: str, input_size: str, *, axes: int) -> Check:
    """161002 for gradients that aren't of the size, or of the images, that are told."""

    def test(call: Call) -> Finding:
        outside, inside = (entries(call, name) for name in (size, input_size))
        if outside is None or inside is None:
            return None
        if len(inside) != axes + 2 or min(inside, default=0) < 1:
            return f"{input_size} should be {axes + 2} positive numbers, but is {sizes(inside)}."
        for name, spec in call.given(grads):
            if spec.shape != (*inside[:2], *outside):
                wanted = sizes((*inside[:2], *outside))
                return f"{name} should be {wanted}, but has sizes {sizes(spec.shape)}."
        return None

    return invalid(f"{grads} isn't of {size} and {input_size}", test)
