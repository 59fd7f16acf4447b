"""Numbers of tiles of global memory: read, stored and added for all iterations of loops at once."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from npusim.ascendc.loops import LoopIndex, deepen
from npusim.ascendc.runs import assign
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from npusim.ascendc.gm_buffers import GmBuffer
    from npusim.ascendc.scalars import Scalar
    from npusim.values.dtypes import DType

_WORTH_A_CALL = 1024  # elements of a tile from which on adding it at once beats adding one by one


class Held(Protocol):
    """What a slice asks of its tensor (:class:`npusim.ascendc.gm.GlobalTensor`)."""

    @property
    def buffer(self) -> GmBuffer: ...
    @property
    def dtype(self) -> DType: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def start(self) -> int: ...
    @property
    def strides(self) -> tuple[int, ...] | None: ...
    @property
    def past_l2(self) -> bool: ...


class PlacedNumbers:
    """The numbers of a tile whose place loops and scalars move (:class:`GmSlice` says how)."""

    __slots__ = ()

    tensor: Held
    shape: tuple[int, ...]
    steps: tuple[int, ...]
    skips: bool
    _base: int
    _affine: dict[int, tuple[LoopIndex, int]]
    _irregular: dict[int, NDArray[np.int64]]
    _computed: tuple[tuple[Scalar, int], ...]
    _turned: dict[int, int]

    @property
    def depths(self) -> frozenset[int]:
        """The loops whose index the address depends on."""
        computed = (level for scalar, _ in self._computed for level in range(scalar.depth))
        turned = (depth for depth, step in self._turned.items() if step)
        return frozenset((*self._affine, *self._irregular, *computed, *turned))

    @property
    def numel(self) -> int:
        """How many elements there are."""
        return prod(self.shape)

    @property
    def is_scattered(self) -> bool:
        """True when the addresses of the iterations aren't evenly spaced."""
        return bool(self._irregular or self._computed)

    @property
    def _extent(self) -> int:
        """Elements from the tile's first to its last."""
        return 1 + sum((size - 1) * step for size, step in zip(self.shape, self.steps, strict=True))

    def read(self, depth: int) -> NDArray[Any]:
        """The numbers with ``depth`` stack axes, a view wherever NumPy can make one."""
        if not self.is_scattered:
            return self._view(depth)
        starts = self.starts(depth)
        view = self._even(starts)
        return self._windows()[starts] if view is None else view

    def own_place(self, depth: int) -> NDArray[Any] | None:
        """The memory itself, where it is evenly spaced and no two iterations meet in it."""
        return None if self.is_scattered or self._overlaps() else self._view(depth)

    def reached(self, depth: int) -> NDArray[Any]:
        """The memory that a store may write to."""
        return self.memory() if self.is_scattered else self._view(depth)

    def write(self, values: NDArray[Any], depth: int) -> None:
        """Store ``values`` (with ``depth`` stack axes).

        Where iterations store to one place the last one stays.
        """
        moving = self.depths
        last = tuple(slice(None) if level in moving else slice(-1, None) for level in range(depth))
        if self.is_scattered:
            starts = self.starts(depth)
            if self.skips:
                there = starts >= 0
                values = np.broadcast_to(values[last], (*starts.shape, *self.shape))
                self._windows()[starts[there]] = values[there]
                return
            view = self._even(starts, apart=True)
            if view is None:
                self._windows()[starts] = values[last]
            else:
                assign(view, values[last])
        else:
            self._assign(self._view(depth), values[last], depth)

    def _assign(self, view: NDArray[Any], values: NDArray[Any], depth: int) -> None:
        """Store to places of which some overlap, in order: NumPy would go through memory upwards.

        Only where that isn't the iterations' order.
        """
        steps = [step for index, step in self._affine.values() if index.last - index.first > 1]
        upwards = not steps or min(steps) >= max((*map(abs, self.steps), 0))
        if upwards or not self._overlaps():
            assign(view, values)
            return
        values = np.broadcast_to(values, view.shape)
        for turn in np.ndindex(view.shape[:depth]):
            view[turn] = values[turn]

    def accumulate(self, values: NDArray[Any], depth: int, *, in_turn: bool) -> None:
        """Add ``values``; iterations that address one element all count.

        Those of the outermost loop do one after the other if ``in_turn``.
        """
        moving = self.depths
        apart = in_turn and 0 not in moving
        for level in range(apart, depth):
            if level not in moving and values.shape[level] > 1:
                values = values.sum(axis=level, keepdims=True, dtype=values.dtype)
        parts = (values[turn : turn + 1] for turn in range(len(values))) if apart else (values,)
        if self.is_scattered or self._overlaps():
            for part in parts:
                self._accumulate_one_by_one(part, depth)
            return
        view = self._view(depth)
        for part in parts:
            view += part

    def _accumulate_one_by_one(self, values: NDArray[Any], depth: int) -> None:
        if self.numel < _WORTH_A_CALL:
            data, starts, tile = self.memory(), self.starts(depth), self.offsets()
            if data.dtype == values.dtype == np.float32 and self._is_of_pairs(starts):
                # A complex number adds both its parts: half as many additions, and the same bits.
                data = data[: data.size // 2 * 2].view(np.complex64)
                values = np.ascontiguousarray(values).view(np.complex64)
                starts, tile = starts // 2, tile[..., ::2] // 2
            # Flat operands take NumPy's fast path, which is four times faster.
            offsets = np.broadcast_to(np.add.outer(starts, tile), values.shape)
            np.add.at(data, offsets.reshape(-1), values.reshape(-1))
            return
        windows, add = self._windows(), np.add
        starts = np.broadcast_to(self.starts(depth), values.shape[:depth]).reshape(-1)
        for start, tile in zip(starts.tolist(), values.reshape(-1, *self.shape), strict=True):
            place = windows[start]
            add(place, tile, out=place)

    def memory(self) -> NDArray[Any]:
        """The numbers of the buffer that it lies in."""
        data = self.tensor.buffer.data
        if data is None:
            raise KernelError("", f"{self.tensor.buffer.name} has no numbers in this run")
        return data

    def _view(self, depth: int) -> NDArray[Any]:
        data = self.memory()
        first, sizes, steps = self._base, [], []
        for level in range(depth):
            index, step = self._affine.get(level, (None, 0))
            sizes.append(1 if index is None else index.last - index.first)
            steps.append(step)
            first += 0 if index is None else index.first * step
        strides = tuple(step * data.itemsize for step in (*steps, *self.steps))
        shape = (*sizes, *self.shape)
        return np.ndarray(shape, data.dtype, data, first * data.itemsize, strides)

    def _windows(self) -> NDArray[Any]:
        """The tile at every place of the buffer where it could start, as a view.

        Whole tiles are gathered at a time.
        """
        data = self.memory()
        strides = tuple(step * data.itemsize for step in (1, *self.steps))
        shape = (data.size - self._extent + 1, *self.shape)
        return np.ndarray(shape, data.dtype, data, 0, strides)

    def _even(self, starts: NDArray[np.int64], *, apart: bool = False) -> NDArray[Any] | None:
        """The tiles at ``starts`` as a view where these turn out to be evenly spaced, else None.

        As those of slices behind slices are, whose addresses are computed by ``//`` and ``%``.
        ``apart`` asks for tiles that don't meet.
        """
        data, moves = self.memory(), []
        for axis, turns in enumerate(starts.shape):
            gaps = np.diff(starts, axis=axis)
            if (gaps != (step := int(gaps.flat[0]) if gaps.size else 0)).any():
                return None
            moves.append((step, turns))
        if not starts.size or min((step for step, _ in moves), default=0) < 0:
            return None
        first, last = int(starts.flat[0]), int(starts.flat[-1])
        if first < 0 or last > data.size - self._extent or (apart and self._meets(moves)):
            return None
        steps = (*(step for step, _ in moves), *self.steps)
        strides = tuple(step * data.itemsize for step in steps)
        shape = (*starts.shape, *self.shape)
        return np.ndarray(shape, data.dtype, data, first * data.itemsize, strides)

    def starts(self, depth: int) -> NDArray[np.int64]:
        """The place of the tile's first element in every iteration."""
        total = np.full((1,) * depth, self._base, np.int64)
        for level in range(depth):
            offsets = self._irregular.get(level)
            if level in self._affine:
                index, step = self._affine[level]
                moved = np.arange(index.first, index.last, dtype=np.int64) * step
                offsets = moved if offsets is None else offsets + moved
            if offsets is not None:
                total = total + offsets.reshape((-1,) + (1,) * (depth - level - 1))
        for scalar, stride in self._computed:
            if scalar.value is not None:
                offsets = deepen(np.asarray(scalar.value).astype(np.int64), scalar.depth, depth)
                total = total + offsets * stride
        return total

    def offsets(self) -> NDArray[np.int64]:
        """The places of all elements of the tile, from its first on."""
        tile = np.zeros((), np.int64)
        for size, step in zip(self.shape, self.steps, strict=True):
            tile = np.add.outer(tile, np.arange(size, dtype=np.int64) * step)
        return tile

    def _is_of_pairs(self, starts: NDArray[np.int64]) -> bool:
        """Whether the tile consists of neighbours at even places, wherever it starts."""
        *steps, last = self.steps or (0,)
        even = last == 1 and self.shape[-1] % 2 == 0 and not any(step % 2 for step in steps)
        return even and not (starts & 1).any()

    def _overlaps(self) -> bool:
        return self._meets(
            (step, index.last - index.first) for index, step in self._affine.values()
        )

    def _meets(self, moves: Iterable[tuple[int, int]]) -> bool:
        """Whether tiles overlap that so many turns move by so many elements each."""
        extent = self._extent
        for step, turns in sorted(moves):
            if turns > 1 and step < extent:
                return True
            extent += (turns - 1) * step
        return False
