"""Vector work at addresses that the scalar unit has computed, and the scalar work for it."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc.issuer import Issuer
from npusim.ascendc.loops import Index, LoopIndex
from npusim.ascendc.scalars import Scalar
from npusim.values.arithmetic import round_up
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc.tensors import LocalTensor


_BLOCK_ROWS = 16  # rows that vnchwconv turns at a time


class Addressing(Issuer):
    """The address-computing part of :class:`npusim.ascendc.core.Core`."""

    def counter(self, index: Index) -> Scalar:
        """A loop's index as a number that the scalar unit can reckon with."""
        if isinstance(index, int):
            return Scalar(self, np.full((1,) * self.depth, index), self.depth)
        values = index.values() if isinstance(index, LoopIndex) else index.values
        values = values.reshape((1,) * index.depth + (-1,))
        return Scalar(self, values, index.depth + 1)

    def scalar_min(self, a: Scalar, b: Scalar | float) -> Scalar:
        """The smaller of two numbers (one operation of the scalar ALU)."""
        return a.combine(b, np.minimum)

    def scalar_max(self, a: Scalar, b: Scalar | float) -> Scalar:
        """The larger of two numbers (one operation of the scalar ALU)."""
        return a.combine(b, np.maximum)

    def turn_by_scalar(self, dst: LocalTensor, src: LocalTensor) -> LocalTensor:
        """dst[j, i] = src[i, j], element by element: a load and a store of the scalar unit each.

        Rows of ``dst`` may be longer than ``src`` is; what lies behind stays as it is.
        """
        count, detail = src.numel, f"{src.buffer} turned"
        self.emit_scalar("ld_st_ub", loads=count, stores=count, detail=detail)
        if self.numerics:
            depth = self.depth
            turned = src.values(depth).swapaxes(-1, -2)
            dst.target(depth, whole=False)[..., : src.shape[-2]] = turned
        return dst

    def count_up(self, dst: LocalTensor) -> LocalTensor:
        """dst[i] = i, stored one by one by the scalar unit in a loop."""
        count, detail = dst.numel, f"{dst.buffer} counts up"
        self.emit_scalar("st_ub", stores=count, turns=count, detail=detail)
        if self.numerics:
            dst.target(self.depth)[...] = np.arange(dst.numel).reshape(dst.shape)
        return dst

    def turn(self, dst: LocalTensor, src: LocalTensor) -> LocalTensor:
        """dst[..., i, j] = src[..., j, i] by vnchwconv, as far as both reach; the rest is zero.

        The instruction takes the address of each of the 16 rows it turns, so missing ones come from
        a row of zeros. A chip that turns only 16-bit numbers needs two passes for wider ones.
        """
        if dst.shape[:-2] != src.shape[:-2] or dst.rows == 0:
            raise KernelError(self.kernel_name, f"vnchwconv from {src.shape} into {dst.shape}")
        if self.recording:
            dtype, itemsize = src.dtype.intrinsic, src.dtype.itemsize
            passes = 1 if self.profile.supports_vector("vnchwconv", dtype) else ceil(itemsize / 2)
            for turn in range(passes):
                chained = turn > 0 or self.reads_last(src)
                elements, planes = _turned_size(src, dst)
                self.emit_vector(
                    "vnchwconv",
                    src.dtype,
                    elements,
                    rows=planes,
                    chained=chained,
                    detail=f"{dtype} {planes}x{elements} turned",
                )
        self.wrote(dst)
        if self.numerics:
            depth = self.depth
            turned, target = src.values(depth).swapaxes(-1, -2), dst.target(depth)
            rows, columns = (
                min(pair) for pair in zip(turned.shape[-2:], dst.shape[-2:], strict=True)
            )
            target[..., :rows, :columns] = turned[..., :rows, :columns]
            target[..., columns:] = 0
            target[..., rows:, :] = 0
        return dst

    def at(self, tensor: LocalTensor, place: Scalar) -> LocalTensor:
        """The part of ``tensor`` at ``place`` of its last axis but one, to be read."""
        shape = (*tensor.shape[:-2], tensor.shape[-1])
        depth = max(tensor.depth, place.depth)
        part = tensor.same_place(*shape, depth=depth)
        if self.numerics:
            part.alias(_gather(tensor.values(depth), place.values(depth).astype(np.intp)))
        return part

    def add_at(self, dst: LocalTensor, place: Scalar, src: LocalTensor) -> LocalTensor:
        """``dst`` at ``place`` of its last axis but one += ``src`` (vadd, a repeat per row).

        Iterations that add to the same tile follow each other.
        """
        if src.shape != (*dst.shape[:-2], dst.shape[-1]):
            raise KernelError(self.kernel_name, f"vadd of {src.shape} to a part of {dst.shape}")
        self.require("vadd", dst, src)
        self.issue("vadd", src, (src,), writes=dst)
        if self.numerics:
            depth = max(src.depth, place.depth)
            places = place.values(depth).astype(np.intp)
            _add(dst.target(dst.depth, whole=False), dst.depth, places, src.values(depth))
        return dst


def _turned_size(src: LocalTensor, dst: LocalTensor) -> tuple[int, int]:
    """Elements of a turned plane, in whole blocks of 16 rows of 32 bytes, and the planes."""
    sides = (max(src.shape[-2], dst.shape[-1]), max(src.shape[-1], dst.shape[-2]))
    short, long = min(sides), max(sides)
    row = src.core.block_bytes // src.dtype.itemsize
    elements = round_up(short, row) * ceil(long / _BLOCK_ROWS) * _BLOCK_ROWS
    return elements, src.rows // src.shape[-2]


def _gather(values: NDArray[Any], places: NDArray[np.intp]) -> NDArray[Any]:
    """``values[..., place, :]`` for every iteration's place; a view where all places are one."""
    first = int(places.flat[0])
    if (places == first).all():
        return values[..., first, :]
    index: tuple[Any, ...] = (*_grid(values.shape[: places.ndim]), *_lead(values, places), places)
    return np.asarray(values[index])


def _add(target: NDArray[Any], depth: int, places: NDArray[np.intp], values: NDArray[Any]) -> None:
    """``target[..., place, :] += values``; iterations below ``depth`` add to one tile in turn."""
    for turn in np.ndindex(values.shape[depth : places.ndim]):
        here = (slice(None),) * depth + tuple(
            0 if size == 1 else step for size, step in zip(places.shape[depth:], turn, strict=True)
        )
        place, addend = places[here], values[(slice(None),) * depth + turn]
        first = int(place.flat[0])
        if (place == first).all():
            part = target[..., first, :]
            np.add(part, addend, out=part)
            continue
        index: tuple[Any, ...] = (*_grid(target.shape[:depth]), *_lead(target, place), place)
        target[index] += addend


def _grid(stack: tuple[int, ...]) -> Iterator[NDArray[np.intp]]:
    """One index array per stack axis; together they name every iteration."""
    for axis, size in enumerate(stack):
        steps = np.arange(size, dtype=np.intp)
        yield steps.reshape((-1,) + (1,) * (len(stack) - axis - 1))


def _lead(values: NDArray[Any], places: NDArray[np.intp]) -> tuple[slice, ...]:
    """The axes of a tile in front of the one that ``places`` counts along."""
    return (slice(None),) * (values.ndim - places.ndim - 2)
