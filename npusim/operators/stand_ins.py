"""Axes without elements, which get a size that no other has, to be found again in what is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from npusim.values.tensors import TensorSpec

if TYPE_CHECKING:
    from collections.abc import Iterable

_STAND_INS: Final = (61, 67, 71, 73, 79, 83, 89, 97)  # sizes for axes without elements


def standing_in(shapes: Iterable[tuple[int, ...]]) -> int:
    """A size that no axis has, for axes without elements; nought where there are none."""
    sizes = {size for shape in shapes for size in shape}
    free = (each for each in _STAND_INS if all(size % each or not size for size in sizes))
    return next(free, 0) if 0 in sizes else 0


def with_elements(spec: TensorSpec, standing: int) -> TensorSpec:
    """A tensor with that size for axes that have none."""
    return TensorSpec([size or standing for size in spec.shape], spec.dtype, spec.format)


def emptied(shape: tuple[int, ...], standing: int) -> tuple[int, ...]:
    """A shape that was made so, without elements again."""
    return tuple(0 if standing and size % standing == 0 else size for size in shape)
