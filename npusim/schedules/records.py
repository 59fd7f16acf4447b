"""Reading a recorded task: its tensors and its attributes, as far as the record has them."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from npusim.ascendc.gm import GlobalTensor, GmBuffer
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from npusim.values.dtypes import DType


def present(
    op_type: str, tensors: tuple[GlobalTensor | None, ...], count: int
) -> tuple[GlobalTensor, ...]:
    """The first ``count`` tensors; raises KernelError where one is missing."""
    found = tuple(tensor for tensor in tensors[:count] if tensor is not None)
    if len(found) < count:
        raise KernelError(op_type, f"{len(found)} tensors where {count} are needed")
    return found


def number(attributes: Mapping[str, object], name: str, default: float) -> float:
    """An attribute that is a number, or ``default`` where the record doesn't have it."""
    value = attributes.get(name, default)
    return float(value) if isinstance(value, int | float) else default


def made(shape: tuple[int, ...], dtype: DType, name: str = "y") -> GlobalTensor:
    """A result that the record leaves out."""
    return GlobalTensor(GmBuffer(name, max(1, prod(shape)) * dtype.itemsize), dtype, shape)


def whole_number(attributes: Mapping[str, object], name: str, default: int) -> int:
    """An attribute that is a whole number, or ``default`` where the record doesn't have it."""
    value = attributes.get(name, default)
    return value if isinstance(value, int) and not isinstance(value, bool) else default
