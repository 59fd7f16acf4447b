"""Slices as profilers record them; where the start isn't recorded they begin at zero."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from npusim.ops.data_movement.last_axis import last_axis_slice
from npusim.ops.data_movement.runs import BlockwiseCopy, EqualRowCopy, RowCopy
from npusim.ops.data_movement.stepped import SteppedSlice, as_rows
from npusim.ops.data_movement.strided import StridedCopy
from npusim.values.errors import RefusedTaskError

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor, Kernel
    from npusim.ascendc.task import Task
    from npusim.hardware.profile import Profile


class Slice(StridedCopy):
    """A part of a tensor made contiguous."""

    op_type = "Slice"
    turns_short_rows = False  # the vendor's schedule moves short rows by the scalar unit
    row_copy: type[RowCopy] = EqualRowCopy

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        x, out = task.present(1, 1)
        shape = matched(task.op_type, x.shape, out.shape)
        begin = _numbers(task.first("begin", "offsets"), len(shape), 0)
        steps = _numbers(task.attributes.get("strides"), len(shape), 1)
        _check(task.op_type, x.shape, shape, begin, steps)
        view = replace(
            x,
            shape=shape,
            start=x.start + sum(a * b for a, b in zip(begin, x.steps, strict=True)),
            strides=tuple(a * b for a, b in zip(steps, x.steps, strict=True)),
        )
        dst = out.view(*shape)
        compiled = task.profile.software.compiled_for_shape
        if compiled and steps[-1:] > (1,) and dst.dtype.itemsize > 1 and dst.numel:
            rows = as_rows(view)
            if rows is not None:
                return (SteppedSlice.called(cls.op_type)(task.profile, rows, dst),)
        if not compiled or any(step != 1 for step in steps):
            return (cls(task.profile, view, dst),)
        return (cls._compiled(task.profile, x, view, dst, begin),)

    @classmethod
    def _compiled(
        cls,
        profile: Profile,
        x: GlobalTensor,
        view: GlobalTensor,
        dst: GlobalTensor,
        begin: Sequence[int],
    ) -> Kernel:
        """The kernel for a shape: by what is cut off."""
        cut = [a != b for a, b in zip(x.shape, dst.shape, strict=True)]
        if not any(cut):
            return BlockwiseCopy.called(cls.op_type)(profile, x, dst)
        first = max(axis for axis, each in enumerate(cut) if each)
        inner = prod(dst.shape[first + 1 :])
        if sum(cut) == 1 and first > 0 and inner * prod(dst.shape[:first]) > 0:
            columns, width = dst.shape[first] * inner, x.shape[first] * inner
            rows = prod(dst.shape[:first])
            block = profile.buffers.block_bytes // dst.dtype.itemsize
            fits = columns * dst.dtype.itemsize <= profile.buffers.ub_bytes
            if fits and (inner < block or columns % block):
                return last_axis_slice(
                    profile,
                    x.view(rows, width),
                    dst.view(rows, columns),
                    begin[first] * inner,
                    cls.op_type,
                    turning=cls.turns_short_rows,
                )
        return cls.row_copy.called(cls.op_type)(profile, view, dst)


class StridedSlice(Slice):
    """Every n-th element of a part of a tensor made contiguous."""

    op_type = "StridedSlice"
    turns_short_rows = True
    row_copy = RowCopy


def matched(op_type: str, whole: Sequence[int], part: Sequence[int]) -> tuple[int, ...]:
    """The part's shape with the axes that it lost as axes of one element."""
    found: list[int] = []
    rest = list(part)
    missing = len(whole) - len(part)
    for axis, size in enumerate(whole):
        left = len(whole) - axis
        if rest and (rest[0] <= size) and (left == len(rest) or rest[0] == size or not missing):
            found.append(rest.pop(0))
        elif missing > 0:
            found.append(1)
            missing -= 1
        elif rest and rest[0] <= size:
            found.append(rest.pop(0))
        else:
            raise RefusedTaskError(op_type, f"{tuple(part)} is no part of {tuple(whole)}")
    if rest:
        raise RefusedTaskError(op_type, f"{tuple(part)} is no part of {tuple(whole)}")
    return tuple(found)


def _numbers(found: object, rank: int, default: int) -> tuple[int, ...]:
    """An attribute with one number per axis; the default where it isn't recorded."""
    if not isinstance(found, list | tuple) or len(found) > rank:
        return (default,) * rank
    return (*map(int, found), *(default,) * (rank - len(found)))


def _check(
    op_type: str,
    whole: Sequence[int],
    part: Sequence[int],
    begin: Sequence[int],
    steps: Sequence[int],
) -> None:
    for size, taken, first, step in zip(whole, part, begin, steps, strict=True):
        if step < 1 or first < 0 or first + (taken - 1) * step >= size:
            raise RefusedTaskError(
                op_type, f"{taken} of {size} from {first} in steps of {step} is no slice"
            )
