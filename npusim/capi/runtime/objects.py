"""What a program describes: tensors and scalars as a call takes them, kernels that it compiles."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from npusim.capi.runtime.memory import AddressError, Block, DeviceMemory
from npusim.operators.contract import TensorArg
from npusim.values.dtypes import BOOL
from npusim.values.errors import ArgumentError
from npusim.values.formats import Format
from npusim.values.tensors import MOST_ELEMENTS, TensorSpec, contiguous_strides

if TYPE_CHECKING:
    import ctypes
    from collections.abc import Callable

    from npusim.values.dtypes import DType


@dataclass(frozen=True, eq=False)
class Tensor:
    """An aclTensor: a view of device memory. `offset` counts elements from `address`."""

    spec: TensorSpec
    offset: int
    storage: tuple[int, ...]
    address: int


@dataclass(frozen=True, eq=False)
class Scalar:
    """An aclScalar: a value and its dtype."""

    value: complex
    dtype: DType

    @property
    def number(self) -> complex | float | int:
        """The value as its dtype has it."""
        if self.dtype.category == "complex":
            return self.value
        if self.dtype is BOOL:
            return bool(self.value)
        return self.value.real if self.dtype.is_float else int(self.value.real)


class Bound(NamedTuple):
    """A tensor as an argument: on its block's memory, or on zeros with the reason why."""

    argument: TensorArg
    block: Block | None = None
    problem: AddressError | None = None


def bind(tensor: Tensor, name: str, memory: DeviceMemory) -> Bound:
    """The argument that a tensor makes.

    A tensor that its memory doesn't hold gets zeros in the same shape: the first phase can't see
    memory, the task that runs later does.
    """
    spec, kind = _as_stored(tensor).addressable(), tensor.spec.dtype.numpy
    if spec.nbytes > MOST_ELEMENTS:
        raise ArgumentError(f"{name}: {spec} is larger than any memory")
    if kind is None or spec.dtype.bits < 8 or spec.is_empty:
        return Bound(TensorArg(spec, _zeros(spec, kind)))
    width = spec.dtype.itemsize
    try:
        block, offset = memory.find(
            tensor.address, (tensor.offset * width) + spec.storage_bytes, f"the memory of {name},"
        )
    except AddressError as problem:
        return Bound(TensorArg(spec, _zeros(spec, kind)), None, problem)
    steps = contiguous_strides(spec.stored) if spec.stored != spec.shape else spec.strides
    array = np.ndarray(
        spec.stored,
        kind,
        block.content,
        offset + tensor.offset * width,
        tuple(step * width for step in steps),
    )
    return Bound(TensorArg(spec, array), block)


def in_blocks(tensor: Tensor) -> Tensor:
    """The tensor with its matrices in FRACTAL_NZ, in the same memory."""
    spec = TensorSpec(tensor.spec.shape, tensor.spec.dtype, Format.FRACTAL_NZ)
    return replace(tensor, spec=spec, storage=spec.stored)


def _zeros(spec: TensorSpec, kind: np.dtype[Any] | None) -> np.ndarray[Any, Any]:
    if spec.is_empty:
        return np.zeros(spec.shape, kind or np.uint8)
    one = np.zeros(1, kind or np.uint8)  # which all elements share: nobody stores into it
    return np.ndarray(spec.stored, one.dtype, one, 0, (0,) * len(spec.stored))


def _as_stored(tensor: Tensor) -> TensorSpec:
    """The tensor, in the blocks that its storage shape says where those aren't its dtype's."""
    spec = tensor.spec
    if spec.format is Format.FRACTAL_NZ:
        blocks = TensorSpec(tensor.storage, spec.dtype, spec.format)
        if blocks.is_in_blocks and blocks.shape[-1] != spec.stored[-1]:
            return blocks
    return spec


@dataclass
class Source:
    """A text of kernels, and what became of it."""

    text: str
    name: str
    headers: dict[str, str]
    expressions: list[str] = field(default_factory=list)
    binary: bytes | None = None
    log: bytes = b"\0"


@dataclass(frozen=True)
class Binary:
    """A library of compiled kernels."""

    library: ctypes.CDLL


@dataclass(frozen=True)
class Kernel:
    """A kernel of a binary: launched with blocks, stream, addresses of arguments."""

    launch: Callable[[int, int, int], int]
