"""What comes out of a routing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npusim.operators.results import described
from npusim.values.dtypes import FLOAT, INT8, INT32, INT64

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


def routed(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec]:
    """Rows of experts as int8, where they are, counts, none before capacities, and scales."""
    x, experts, *_ = given
    pairs, many = experts.numel, int(attributes.get("expert_num", 1))
    counts = (many if attributes.get("expert_tokens_count_or_cumsum_flag") else 0,)
    found = [described((pairs, x.shape[-1]), INT8), described((pairs,), INT32)]
    found += [described(counts, INT32), described((0,), INT32)]
    return [*found, described((pairs if attributes.get("quant_mode") == 1 else 0,), FLOAT)]


def routed_later(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec]:
    """Rows of experts, as int8 or as they are, where they are, counts, and scales."""
    x, experts, *_ = given
    pairs, quantised = experts.numel, attributes.get("quant_mode") == 1
    many = int(attributes.get("expert_num", 1)) if attributes.get("expert_tokens_num_flag") else 0
    found = [described((pairs, x.shape[-1]), INT8 if quantised else x.dtype)]
    found += [described((pairs,), INT32), described((many,), INT64)]
    return [*found, described((pairs if quantised else 0,), FLOAT)]
