"""What comes out of sampling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from npusim.operators.results import described

if TYPE_CHECKING:
    from npusim.values.tensors import TensorSpec


def sampled(given: Sequence[TensorSpec], _: Mapping[str, Any]) -> list[TensorSpec]:
    """A sample for every place of the grid."""
    x, grid = given[:2]
    return [described((*x.shape[:2], *grid.shape[1:-1]), x.dtype)]


def spread(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec]:
    """A place for every pixel of the images."""
    images, _, *outer = attributes["size"]
    return [described((images, *outer, len(outer)), given[0].dtype)]
