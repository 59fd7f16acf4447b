"""Where the windows of poolings lie along an axis, as tables; what comes out, and what can't.

``ksize``, ``strides``, ``pads`` and ``dilations`` are those of the aclnn interfaces: an entry for
each spatial axis or one for all, strides as wide as windows where there are none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from npusim.library.axis_maps import AxisMap
from npusim.operators.checks import invalid, sizes
from npusim.operators.results import described, numbers
from npusim.operators.shape_checks import entries
from npusim.values.dtypes import INT32, UINT16
from npusim.values.errors import RefusedTaskError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc.task import Task
    from npusim.operators.contract import Call, Check, Finding
    from npusim.values.tensors import TensorSpec


_PLANE = 2  # axes
_LINE = 16  # words of masks come in lines of so many


class Line(NamedTuple):
    """The windows along one axis of ``size`` elements."""

    size: int
    window: int
    stride: int
    pad: int
    dilation: int = 1
    ceil: bool = False

    @property
    def extent(self) -> int:
        """Elements from the first of a window to its last."""
        return (self.window - 1) * self.dilation + 1

    @property
    def out(self) -> int:
        """Windows; the last one begins inside or in the padding before the axis."""
        room = self.size + 2 * self.pad - self.extent
        count = (-(-room // self.stride) if self.ceil else room // self.stride) + 1
        return count - (self.ceil and (count - 1) * self.stride >= self.size + self.pad)

    def windows(self) -> AxisMap:
        """The elements of every window, each counting once."""
        places = self._starts[:, None] + np.arange(self.window) * self.dilation
        exists = (places >= 0) & (places < self.size)
        return AxisMap(self.size, np.where(exists, places, 0), exists.astype(np.float32))

    def means(self, *, with_padding: bool) -> AxisMap:
        """The means of all windows, of their padding too or of what isn't padding."""
        windows, starts = self.windows(), self._starts
        ends = np.minimum(starts + self.window, self.size + self.pad)
        held = np.minimum(ends, self.size) - np.maximum(starts, 0)
        divisors = (ends - starts if with_padding else np.maximum(held, 1))[:, None]
        weights = windows.weights / divisors.astype(np.float32)
        return AxisMap(self.size, windows.places, weights.astype(np.float32))

    @property
    def _starts(self) -> NDArray[np.int64]:
        return np.arange(self.out, dtype=np.int64) * self.stride - self.pad


def even_windows(size: int, out: int) -> AxisMap:
    """``out`` windows that cover an axis evenly and may overlap by an element."""
    starts = np.arange(out, dtype=np.int64) * size // out
    ends = -(-(np.arange(1, out + 1, dtype=np.int64) * size) // out)
    places = starts[:, None] + np.arange(int((ends - starts).max(initial=1)))
    exists = places < ends[:, None]
    return AxisMap(size, np.where(exists, places, 0), exists.astype(np.float32))


def even_means(size: int, out: int) -> AxisMap:
    """The means of windows that cover an axis evenly."""
    windows = even_windows(size, out)
    share = windows.weights / windows.weights.sum(axis=1, keepdims=True)
    return AxisMap(size, windows.places, share)


def lines(attributes: Mapping[str, object], inside: Sequence[int]) -> list[Line]:
    """The windows along the spatial axes; ValueError for attributes that aren't theirs."""
    axes = len(inside)
    window = _entries(attributes.get("ksize"), axes, "ksize")
    stride = _entries(attributes.get("strides") or window, axes, "strides")
    dilation = _entries(attributes.get("dilations") or [1], axes, "dilations")
    pad = _entries(attributes.get("pads") or [0], axes, "pads")
    ceil = bool(attributes.get("ceil_mode"))
    found = []
    for each in zip(inside, window, stride, pad, dilation, strict=True):
        line = Line(*each, ceil)
        if min(line.window, line.stride, line.dilation) < 1 or line.pad < 0:
            raise ValueError(
                "windows, strides and dilations are at least 1, padding isn't negative"
            )
        if 2 * line.pad > line.window:
            raise ValueError(f"padding {line.pad} is more than half of a window of {line.window}")
        if line.out < 1:
            raise ValueError(f"a window of {line.extent} doesn't fit into {line.size} elements")
        found.append(line)
    return found


def _entries(value: object, axes: int, name: str) -> list[int]:
    """An entry for each axis; windows around both sides of planes may be told four times."""
    told = numbers(value) or []
    if name == "pads" and len(told) == 2 * axes:
        if told[:axes] != told[axes:]:
            raise ValueError("padding before and behind an axis is the same")
        told = told[:axes]
    if len(told) not in (1, axes):
        raise ValueError(f"{name} has {len(told)} entries, not 1 or {axes}")
    return told * axes if len(told) == 1 else told


def lines_of(task: Task, inside: Sequence[int]) -> list[Line]:
    """The windows that a task tells; KernelError for others."""
    try:
        return lines(task.attributes, inside)
    except ValueError as error:
        raise RefusedTaskError(task.op_type, str(error)) from error


def windows_fit(
    x: str, ksize: str, strides: str = "", pads: str = "", dilations: str = "", *, axes: int
) -> Check:
    """161002 for windows that can't slide over the last ``axes`` axes."""
    spelled = {"ksize": ksize, "strides": strides, "pads": pads, "dilations": dilations}

    def test(call: Call) -> Finding:
        attributes = {name: call.arguments.get(own) for name, own in spelled.items()}
        for _, spec in call.given(x):
            if spec.rank not in (axes + 1, axes + 2):
                wanted = f"{x} should have {axes + 1} or {axes + 2} dimensions"
                return f"{wanted}, but has sizes {sizes(spec.shape)}."
            try:
                lines(attributes, spec.shape[-axes:])
            except ValueError as error:
                return f"{ksize}: {error}."
        return None

    return invalid(f"windows of {ksize} can't slide over {x}", test)


def mask_shape(out: Sequence[int], ksize: Sequence[int]) -> tuple[int, ...]:
    """Bytes of a mask: a word of two for each pixel of the result, for each element of a window."""
    *outer, high, wide = out
    both = tuple(ksize) * (_PLANE // len(ksize))
    words = (ceil(high * wide / _LINE) + 1) * _LINE
    return (*outer, prod(both), words * UINT16.itemsize)


def masked(out: str, mask: str, ksize: str) -> Check:
    """161002 for a mask that isn't as large as the windows and the result make it."""

    def test(call: Call) -> Finding:
        specs, told = dict(call.given(out, mask)), entries(call, ksize)
        if len(specs) < len((out, mask)) or not told or specs[out].rank < _PLANE:
            return None
        wanted = mask_shape(specs[out].shape, told)
        if specs[mask].shape == wanted:
            return None
        return f"{mask} should have sizes {sizes(wanted)}, but has {sizes(specs[mask].shape)}."

    return invalid(f"{mask} isn't of {out} and {ksize}", test)


def even_sizes(x: str, size: str, *, axes: int) -> Check:
    """161002 for sizes of a result that aren't one positive number for each axis."""

    def test(call: Call) -> Finding:
        told = entries(call, size)
        for _, spec in call.given(x):
            if spec.rank not in (axes + 1, axes + 2):
                wanted = f"{x} should have {axes + 1} or {axes + 2} dimensions"
                return f"{wanted}, but has sizes {sizes(spec.shape)}."
        if told is not None and (len(told) != axes or min(told) < 1):
            return f"{size} should be {axes} positive numbers, but is {sizes(told)}."
        return None

    return invalid(f"{size} isn't {axes} positive numbers", test)


def pooled(axes: int, *, places: bool = False) -> Any:
    """The rule for results of sliding windows, and int32 places of what was taken."""

    def rule(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec]:
        x = given[0]
        try:
            outs = [each.out for each in lines(attributes, x.shape[-axes:])]
        except ValueError:
            return []
        shape = (*x.shape[:-axes], *outs)
        more = [described(shape, INT32)] if places else []
        return [described(shape, x.dtype), *more]

    return rule


def evenly(axes: int, *, places: bool = False) -> Any:
    """The rule for results of windows that cover images evenly."""

    def rule(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec]:
        size, x = numbers(attributes.get("output_size")), given[0]
        if size is None or len(size) != axes:
            return []
        shape = (*x.shape[:-axes], *size)
        more = [described(shape, INT32)] if places else []
        return [described(shape, x.dtype), *more]

    return rule
