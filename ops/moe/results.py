"""What comes out of a routing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npusim.operators.results import described
from npusim.values.dtypes import FLOAT, INT32

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from npusim.values.tensors import TensorSpec


def gated(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec]:
    """For each token the shares, experts and row ids of its ``k`` experts."""
    shape = (*given[0].shape[:-1], attributes.get("k", 1))
    return [described(shape, given[0].dtype), *[described(shape, INT32)] * 2]


def chosen(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec]:
    """Shares and experts alone."""
    return gated(given, attributes)[:2]


def gated_in_groups(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec]:
    """For each token the shares and experts of its ``k`` experts, and the shares of all."""
    x = given[0]
    shape = (*x.shape[:-1], attributes.get("k", 1))
    found = [described(shape, x.dtype), described(shape, INT32)]
    return [*found, described(x.shape, FLOAT)] if attributes.get("out_flag") else found
