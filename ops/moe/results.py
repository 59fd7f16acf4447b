"""What comes out of a routing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npusim.operators.results import described
from npusim.values.dtypes import INT32

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from npusim.values.tensors import TensorSpec


def gated(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec]:
    """For each token the shares, experts and row ids of its ``k`` experts."""
    shape = (*given[0].shape[:-1], attributes.get("k", 1))
    return [described(shape, given[0].dtype), *[described(shape, INT32)] * 2]
