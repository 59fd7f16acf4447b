"""Windows of planes laid side by side (Im2col), and windows added up into planes (Col2im).

A row of a plane's windows is a map along an axis: for every tap the elements that it sees. What
comes out has taps and positions of rows before those of columns, and is turned once more.
Source: the aclnn pages of Im2col and Im2colBackward.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from npusim.ascendc.task import Task, made
from npusim.library.axis_maps import AxisMap
from npusim.library.mapping import Mapped
from npusim.operators.checks import invalid, sizes
from npusim.operators.results import described, numbers
from npusim.operators.shape_checks import entries
from npusim.operators.tasks import kernels_on
from npusim.ops.pooling.tables import Line

if TYPE_CHECKING:
    from npusim.ascendc import Kernel
    from npusim.operators.contract import Call, Check, Finding
    from npusim.values.tensors import TensorSpec

_PLANE = 2  # axes
_LISTS = ("ksize", "strides", "pads", "dilations")


def _lines(attributes: Mapping[str, object], inside: Sequence[int]) -> list[Line]:
    """The windows along rows and columns; ValueError for lists that aren't theirs."""
    told = []
    for name in _LISTS:
        found = numbers(attributes.get(name)) or []
        least = 0 if name == "pads" else 1
        if len(found) != _PLANE or min(found) < least:
            raise ValueError(f"{name} should be two numbers from {least} on, but is {found}")
        told.append(found)
    lines = [Line(*each) for each in zip(inside, *told, strict=True)]
    for line in lines:
        if line.out < 1:
            raise ValueError(f"a window of {line.extent} doesn't fit into {line.size} elements")
    return lines


def _by_taps(line: Line) -> AxisMap:
    """What the first tap sees at all positions, then the second ..."""
    windows = line.windows()
    return AxisMap(line.size, windows.places.T.reshape(-1, 1), windows.weights.T.reshape(-1, 1))


def _lines_of(task: Task, inside: Sequence[int]) -> list[Line]:
    try:
        return _lines(task.attributes, inside)
    except ValueError as error:
        raise task.unfit(str(error)) from error


def im2col(task: Task) -> tuple[Kernel, ...]:
    """x (..., channels, rows, columns) to (..., channels * taps, positions)."""
    (x,) = task.present(1)
    rows, columns = _lines_of(task, x.shape[-_PLANE:])
    *outer, channels = x.shape[:-_PLANE]
    shape = (*outer, channels * rows.window * columns.window, rows.out * columns.out)
    out = task.outputs[0] if task.outputs else made(shape, x.dtype)
    planes = x.numel // (rows.size * columns.size)
    sizes_ = (planes, rows.window, rows.out, columns.window, columns.out)
    side = made((planes, rows.window * rows.out, columns.window * columns.out), x.dtype)
    maps = [_by_taps(rows), _by_taps(columns)]
    order = {"perm": [0, 1, 3, 2, 4]}
    turned = out.view(planes, rows.window, columns.window, rows.out, columns.out)
    there = Task(task.profile, "Transpose", (side.view(*sizes_),), (turned,), order)
    return (Mapped.called("Im2col")(task.profile, x, side, maps), *kernels_on(there))


def col2im(task: Task) -> tuple[Kernel, ...]:
    """Gradients of windows (..., channels * taps, positions) to those of planes."""
    (grads,) = task.present(1)
    inside = numbers(task.first("input_size")) or []
    if len(inside) != _PLANE:
        raise task.refused(f"planes of {inside}")
    rows, columns = _lines_of(task, inside)
    taps = rows.window * columns.window
    *outer, deep, positions = grads.shape
    if deep % taps or positions != rows.out * columns.out:
        raise task.refused(f"{grads.shape} isn't of {rows.out} x {columns.out} windows")
    shape = (*outer, deep // taps, *inside)
    out = task.outputs[0] if task.outputs else made(shape, grads.dtype)
    planes = grads.numel // (taps * positions)
    given = grads.view(planes, rows.window, columns.window, rows.out, columns.out)
    sizes_ = (planes, rows.window, rows.out, columns.window, columns.out)
    side = made((planes, rows.window * rows.out, columns.window * columns.out), grads.dtype)
    order = {"perm": [0, 1, 3, 2, 4]}
    there = Task(task.profile, "Transpose", (given,), (side.view(*sizes_),), order)
    maps = [_by_taps(line).transposed() for line in (rows, columns)]
    return (*kernels_on(there), Mapped.called("Col2im")(task.profile, side, out, maps))


def unfolded(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec]:
    """A column for each window."""
    x = given[0]
    try:
        rows, columns = _lines(attributes, x.shape[-_PLANE:])
    except ValueError:
        return []
    *outer, channels = x.shape[:-_PLANE]
    taps, positions = rows.window * columns.window, rows.out * columns.out
    return [described((*outer, channels * taps, positions), x.dtype)]


def folded(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec]:
    """Planes of the size that is told."""
    size, window = (numbers(attributes.get(name)) for name in ("input_size", "ksize"))
    if size is None or window is None or len(window) != _PLANE or min(window) < 1:
        return []
    *outer, deep, _ = given[0].shape
    return [described((*outer, deep // (window[0] * window[1]), *size), given[0].dtype)]


def unfolds(
    x: str, ksize: str, strides: str, pads: str, dilations: str, size: str = "", *, rank: int
) -> Check:
    """161002 for windows that can't slide over planes: those of x, or of ``size``."""
    spelled = dict(zip(_LISTS, (ksize, strides, pads, dilations), strict=True))

    def test(call: Call) -> Finding:
        told = {name: call.arguments.get(own) for name, own in spelled.items()}
        for name, spec in call.given(x):
            if spec.rank not in (rank - 1, rank):
                wanted = f"{name} should have {rank - 1} or {rank} dimensions"
                return f"{wanted}, but has sizes {sizes(spec.shape)}."
            inside = entries(call, size) if size else spec.shape[-_PLANE:]
            if inside is None or len(inside) != _PLANE or min(inside) < 1:
                return f"{size} should be two positive numbers."
            try:
                rows, columns = _lines(told, [int(each) for each in inside])
            except ValueError as error:
                return f"{error}."
            taps, positions = rows.window * columns.window, rows.out * columns.out
            if size and (spec.shape[-2] % taps or spec.shape[-1] != positions):
                wanted = f"a multiple of {taps}, {positions}"
                return f"{name} should end with {wanted}, but has sizes {sizes(spec.shape)}."
        return None

    return invalid(f"windows of {ksize} can't slide over {size or x}", test)
