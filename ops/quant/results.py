"""What quantisation makes: bytes as the numbers lie, and a scale for every row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from npusim.operators.results import described
from npusim.values.dtypes import FLOAT, INT8

if TYPE_CHECKING:
    from npusim.values.tensors import TensorSpec


def bytes_and_scales(
    given: Sequence[TensorSpec], attributes: Mapping[str, Any]
) -> list[TensorSpec]:
    """Bytes and a scale for each row; none where another dtype is asked for."""
    if attributes.get("dst_type") not in (None, INT8.acl):
        return []
    return [described(given[0].shape, INT8), described(given[0].shape[:-1], FLOAT)]
