"""What comes out of a routing."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from npusim.operators.results import described
from npusim.values.dtypes import FLOAT, INT8, INT32, INT64, DType

_FIRST = ("MoeInitRouting", "MoeInitRoutingQuant")  # interfaces that take ids of pairs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from npusim.values.tensors import TensorSpec


def gated(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec]:
    """For each token the shares, experts and row ids of its ``k`` experts."""
    shape = (*given[0].shape[:-1], attributes.get("k", 1))
    return [described(shape, given[0].dtype), *[described(shape, INT32)] * 2]


def gated_with_shares(
    given: Sequence[TensorSpec], attributes: Mapping[str, Any]
) -> list[TensorSpec | None]:
    """For each token the shares and experts of its ``k``, and of all if they are asked for."""
    asked = attributes.get("output_softmax_result_flag") and not attributes.get("renorm")
    return [*gated(given, attributes)[:2], described(given[0].shape, FLOAT) if asked else None]


def gated_in_groups(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec]:
    """For each token the shares and experts of its ``k`` experts, and the shares of all."""
    x = given[0]
    shape = (*x.shape[:-1], attributes.get("k", 1))
    found = [described(shape, x.dtype), described(shape, INT32)]
    return [*found, described(x.shape, FLOAT)] if attributes.get("out_flag") else found


def gated_with_all(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec]:
    """The same, whether the shares of all are stored or not."""
    return gated_in_groups(given, {**attributes, "out_flag": True})


def weighed(given: Sequence[TensorSpec], _: Mapping[str, Any]) -> list[TensorSpec | None]:
    """Gradients of rows, and of what they count for where that is given."""
    rows, _grad, _places, *weights = given
    return [described(rows.shape, rows.dtype), *weights]


def routed(
    given: Sequence[TensorSpec],
    attributes: Mapping[str, Any],
    *,
    op_type: str,
    kind: DType | None = None,
) -> list[TensorSpec | None]:
    """Rows of pairs, their places, tokens of experts as far as they're asked for, and scales."""
    x, *ids, experts = given[: 3 if op_type in _FIRST else 2]
    rows = routed_rows(op_type, x.shape, experts.shape, attributes)
    pairs = described((experts.numel,), INT32)
    found = [described(rows, kind or x.dtype), pairs]
    if ids:
        return [*found, pairs]
    counts = described((attributes.get("expert_num", 0),), INT32)
    padded = bool(attributes.get("drop_pad_mode"))
    before = padded and attributes.get("expert_tokens_before_capacity_flag")
    after = not padded and attributes.get("expert_tokens_count_or_cumsum_flag")
    scales = described((prod(rows[:-1]),), FLOAT) if attributes.get("quant_mode") else None
    return [*found, counts if after else None, counts if before else None, scales]


def routed_later(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec]:
    """Rows of experts, as int8 or as they are, where they are, counts, and scales."""
    x, experts, *_ = given
    pairs, quantised = experts.numel, attributes.get("quant_mode") == 1
    many = int(attributes.get("expert_num", 1)) if attributes.get("expert_tokens_num_flag") else 0
    found = [described((pairs, x.shape[-1]), INT8 if quantised else x.dtype)]
    found += [described((pairs,), INT32), described((many,), INT64)]
    return [*found, described((pairs if quantised else 0,), FLOAT)]


def routed_rows(
    op_type: str, x: Sequence[int], experts: Sequence[int], said: Mapping[str, Any]
) -> tuple[int, ...]:
    """The shape of routed rows: of pairs of a token and an expert, as many as are asked for.

    The first interfaces count tokens, the others pairs; those of a permutation that are nought or
    less are left out of all. Source: ops-transformer moe, shape inference of each.
    """
    pairs, asked = prod(experts), said.get("active_num", said.get("num_out_tokens"))
    if said.get("drop_pad_mode"):
        return (said.get("expert_num", 0), said.get("expert_capacity", 0), x[-1])
    if op_type in _FIRST and asked is not None:
        return (min(x[0], asked) * experts[-1], x[-1])
    if op_type == "MoeTokenPermute" and asked is not None:
        return (max(0, min(pairs, asked if asked > 0 else asked + pairs)), x[-1])
    return (min(pairs, asked) if asked else pairs, x[-1])
