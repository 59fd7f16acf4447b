"""What comes out of attention where a call leaves it out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from npusim.operators.results import described
from npusim.ops.attention.call import LANES
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from npusim.values.tensors import TensorSpec


def inference(
    given: Sequence[TensorSpec], attributes: Mapping[str, Any]
) -> list[TensorSpec | None]:
    """The attention; without logarithms of sums any tensor comes back as it is."""
    query, _, value, *_ = given
    if not query.rank or not value.rank:
        return []
    last = query.shape[-1] if query.rank == 3 and attributes.get("input_layout") != "TND" else (
        value.shape[-1])  # fmt: skip
    return [described((*query.shape[:-1], last), query.dtype), None]


def prompt(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec | None]:
    """The attention alone."""
    return inference(given, attributes)[:1]


def forward(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec]:
    """Maxima and sums of every row of scores, no softmax, and the attention."""
    query, _, value, *_ = given
    layout = str(attributes.get("input_layout", ""))
    if len(layout) != query.rank:
        return []
    sizes = dict(zip(layout, query.shape, strict=True))
    heads = int(attributes.get("head_num", 0)) or sizes.get("N", 1)
    own = (sizes.get("T"), heads) if "T" in sizes else (sizes["B"], heads, sizes["S"])
    columns = query.shape[-1] // (heads if layout[-1] == "H" else 1)
    last = value.shape[-1] if layout[-1] == "D" else query.shape[-1]
    if layout[-1] == "H" and columns:
        last = query.shape[-1]
    stats = described((*own, LANES), FLOAT)
    out = described((*query.shape[:-1], last), query.dtype)
    return [stats, stats, described((0,), query.dtype), out]


def backward(given: Sequence[TensorSpec], _: Mapping[str, Any]) -> list[TensorSpec]:
    """Gradients like query, key and value, and none of a shift."""
    query, key, value, *_rest = given
    found = [described(each.shape, each.dtype) for each in (query, key, value)]
    return [*found, described((0,), query.dtype)]
