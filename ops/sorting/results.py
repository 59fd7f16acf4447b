"""What comes out where a token of each row is chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from npusim.operators.results import described
from npusim.values.dtypes import FLOAT, INT64

if TYPE_CHECKING:
    from npusim.values.tensors import TensorSpec


def sampled(given: Sequence[TensorSpec], _: Mapping[str, Any]) -> list[TensorSpec]:
    """A token for each row, and its logits in float32."""
    logits = given[0]
    return [described(logits.shape[:1], INT64), described(logits.shape, FLOAT)]
