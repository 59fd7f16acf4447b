"""What comes out of a change of size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from npusim.operators.results import described, numbers

if TYPE_CHECKING:
    from npusim.values.tensors import TensorSpec


def resized(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec]:
    """The third and the fourth axis as large as is said."""
    size, x = numbers(attributes.get("size")), given[0]
    return [] if size is None else [described((*x.shape[:2], *size, *x.shape[4:]), x.dtype)]
