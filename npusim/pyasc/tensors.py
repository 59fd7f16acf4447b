"""Tensors and addresses of pyasc programs."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any, Self, TypeVar

from npusim.ascendc.flat import compute
from npusim.ascendc.flat.station import Station
from npusim.ascendc.queues import TPosition as Position
from npusim.pyasc.values import DataType, Int
from npusim.values.errors import KernelError, brief

if TYPE_CHECKING:
    from enum import IntEnum

    from npusim.ascendc.flat.copies import Address
    from npusim.ascendc.flat.memory import Place
    from npusim.pyasc.params import ShapeInfo

_Memory = TypeVar("_Memory", "Address", "Place")


def position_of(position: IntEnum) -> Position:
    """The position in the kernel language."""
    return Position(position.name)


class GlobalAddress:
    """A pointer into global memory: ``x + offset`` counts elements."""

    def __init__(self, inner: Address, dtype: DataType) -> None:
        self.inner, self.dtype = inner, dtype

    def __add__(self, elements: int) -> GlobalAddress:
        return GlobalAddress(self.inner.at(int(elements)), self.dtype)


class _Tensor:
    """What tensors in global and in local memory have in common."""

    shape_info: ShapeInfo | None = None

    def set_shape_info(self, shape_info: ShapeInfo) -> None:
        """Say what shape it is understood to have."""
        self.shape_info = shape_info

    def get_shape_info(self) -> ShapeInfo | None:
        return self.shape_info

    @staticmethod
    def _part(inner: _Memory, index: object) -> _Memory:
        """The elements of ``[first:end]``, or from ``[first]`` on."""
        if isinstance(index, int):
            return inner.at(int(index))
        if not isinstance(index, slice):
            problem = f"a tensor can't be indexed with {brief(index)}"
            raise KernelError("", problem, "Write tensor[first:].")
        moved = inner.at(int(index.start or 0))
        if index.stop is None:
            return moved
        limit = inner.start + int(index.stop) * moved.dtype.itemsize
        return replace(moved, limit=min(limit, moved.limit))


class GlobalTensor(_Tensor):
    """A tensor in global memory, from an address on."""

    def __init__(self, inner: Address | None = None) -> None:
        self._inner = inner

    @property
    def inner(self) -> Address:
        if self._inner is None:
            raise KernelError("", "a global tensor has no buffer", "Call set_global_buffer first.")
        return self._inner

    @property
    def dtype(self) -> DataType:
        return DataType.of(self.inner.dtype)

    def set_global_buffer(self, buffer: GlobalAddress, buffer_size: int | None = None) -> None:
        """Where it is; ``buffer_size`` counts elements."""
        inner = buffer.inner
        if buffer_size is not None:
            limit = inner.start + int(buffer_size) * inner.dtype.itemsize
            inner = replace(inner, limit=min(limit, inner.limit))
        self._inner = inner

    def __getitem__(self, index: object) -> GlobalTensor:
        return GlobalTensor(self._part(self.inner, index))

    def get_phy_addr(self, offset: int = 0) -> GlobalAddress:
        """Its address."""
        return GlobalAddress(self.inner.at(int(offset)), self.dtype)

    def get_size(self) -> Int:
        """Elements up to its end."""
        return Int((self.inner.limit - self.inner.start) // self.inner.dtype.itemsize)

    def get_value(self, offset: int) -> Any:
        """One element, read by the scalar unit through its cache."""
        slices = self.inner.at(int(offset)).runs(1, 1, 0)
        Station.here().core.load_scalar(slices)
        value = slices.read(0).item()
        return Int(value) if isinstance(value, int) else value

    def set_value(self, offset: int, value: float) -> None:
        """Store one element by the scalar unit."""
        core = Station.here().core
        core.emit_scalar("st_gm", stores=1, detail=self.inner.memory.name)
        slices = self.inner.at(int(offset)).runs(1, 1, 0)
        slices.read(0)[...] = value

    def set_l2_cache_hint(self, *hints: object, **named: object) -> None:
        """Hints change no number, and no time that is modelled."""


class LocalTensor(_Tensor):
    """A tensor in on-chip memory.

    ``LocalTensor(dtype, position, address, length)``, lengths in elements and addresses in bytes.
    """

    def __init__(
        self,
        dtype: DataType,
        pos: IntEnum | None = None,
        addr: int = 0,
        tile_size: int = 0,
        *,
        inner: Place | None = None,
    ) -> None:
        self.dtype, self._position = dtype, pos
        self._tag = 0
        if inner is None and pos is not None:
            station = Station.here()
            position = position_of(pos)
            nbytes = int(tile_size) * dtype.inner.itemsize
            if not nbytes:
                nbytes = station.memory(position).nbytes - int(addr)
            name = f"the tensor at {pos.name} {int(addr)}"
            inner = station.place(position, dtype.inner, int(addr), nbytes, name)
        self._inner = inner

    @property
    def inner(self) -> Place:
        if self._inner is None:
            raise KernelError("", "a local tensor has no address")
        return self._inner

    def _moved(self, inner: Place) -> LocalTensor:
        moved = LocalTensor(DataType.of(inner.dtype), inner=inner)
        moved._position = self._position
        return moved

    def __getitem__(self, index: object) -> LocalTensor:
        return self._moved(self._part(self.inner, index))

    def reinterpret_cast(self, dtype: DataType) -> LocalTensor:
        """The same bytes as elements of another type."""
        return self._moved(self.inner.cast(dtype.inner))

    def get_value(self, index: int) -> Any:
        """One element, read by the scalar unit."""
        value = compute.get_value(self.inner, int(index))
        return Int(value) if isinstance(value, int) else value

    def set_value(self, index: int, value: float) -> None:
        """Store one element by the scalar unit."""
        compute.set_value(self.inner, int(index), value)

    def get_size(self) -> Int:
        """Elements up to its end."""
        return Int(self.inner.length)

    def get_length(self) -> Int:
        """Bytes up to its end."""
        return Int(self.inner.limit - self.inner.start)

    def get_phy_addr(self, offset: int = 0) -> Int:
        """The address of an element in bytes."""
        return Int(self.inner.at(int(offset)).start)

    def get_position(self) -> Any:
        return self._position

    def get_user_tag(self) -> Int:
        return Int(self._tag)

    def set_user_tag(self, tag: int = 0) -> None:
        self._tag = int(tag)

    def set_size(self, size: int = 0) -> None:
        """End it behind so many elements."""
        self.set_buffer_len(int(size) * self.inner.dtype.itemsize)

    def set_buffer_len(self, data_len: int) -> None:
        """End it behind so many bytes."""
        self._inner = replace(self.inner, limit=self.inner.start + int(data_len))

    def set_addr_with_offset(self, src: Self, offset: int) -> None:
        """Put it where an element of another tensor is."""
        self._inner = src.inner.at(int(offset)).cast(self.dtype.inner)


class LocalTensorAuto(LocalTensor):
    """A tensor in UB that gets its address by itself, and whose users wait for each other."""

    def __init__(self, dtype: DataType, shape: int | tuple[int, ...]) -> None:
        count = prod(map(int, shape)) if isinstance(shape, tuple | list) else int(shape)
        nbytes = count * dtype.inner.itemsize
        place = Station.here().allocated(Position.VECCALC, dtype.inner, nbytes, "a local tensor")
        super().__init__(dtype, inner=place)
