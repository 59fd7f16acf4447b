"""What comes out of attention where a call leaves it out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from npusim.operators.results import described
from npusim.ops.attention.call import LANES
from npusim.values.dtypes import FLOAT, INT32

if TYPE_CHECKING:
    from npusim.values.tensors import TensorSpec

_WITHOUT_HEADS, _IN_FRACTALS = 3, 5  # axes of a cache in pages


def inference(
    given: Sequence[TensorSpec], attributes: Mapping[str, Any]
) -> list[TensorSpec | None]:
    """The attention; without logarithms of sums any tensor comes back as it is.

    Heads have as many columns as those of values, but where a latent layout names another for the
    result: as those of queries. Source: fused_infer_attention_score_infershape.cpp.
    """
    query, _, value, *more = given
    if not query.rank or not value.rank:
        return []
    usual = "BSH" if query.rank == _WITHOUT_HEADS else "BNSD"
    axes, _, wanted = str(attributes.get("input_layout") or usual).partition("_")
    if len(axes) != query.rank or not {"D", "H"}.intersection(axes):
        return []
    sizes = dict(zip(axes, query.shape, strict=True))
    heads = sizes.get("N") or int(attributes.get("num_heads") or 1)
    columns = sizes["D"] if "D" in sizes else sizes["H"] // heads
    if not (wanted.endswith("NBSD") or wanted == "NTD"):
        table = any(each.dtype is INT32 for each in more)
        shared = int(attributes.get("num_key_value_heads") or heads)
        own = _columns(value, attributes) if table else value.shape[-1]
        columns = (own if table or "D" in axes else own // shared) or columns
    sizes |= {"N": heads, "D": columns, "H": heads * columns}
    return [described(tuple(sizes[axis] for axis in wanted or axes), query.dtype), None]


def _columns(pages: TensorSpec, attributes: Mapping[str, Any]) -> int:
    """D of a cache in pages: (pages, tokens, H), (pages, N, tokens, D) or in fractals.

    Source: fused_infer_attention_score_infershape.cpp.
    """
    if pages.rank == _IN_FRACTALS:  # (pages, N, D / 16, tokens, 16)
        return pages.shape[2] * pages.shape[4]
    if pages.rank == _WITHOUT_HEADS:
        heads = attributes.get("num_key_value_heads") or attributes.get("num_heads") or 1
        return pages.shape[-1] // int(heads)
    return pages.shape[-1]


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
    last = value.shape[-1]
    if layout[-1] == "H":
        columns = query.shape[-1] // heads
        shared = given[1].shape[-1] // columns if columns else 0
        last = heads * (last // shared) if shared else query.shape[-1]
    stats = described((*own, LANES), FLOAT)
    out = described((*query.shape[:-1], last), query.dtype)
    return [stats, stats, described((0,), query.dtype), out]


def backward(given: Sequence[TensorSpec], _: Mapping[str, Any]) -> list[TensorSpec]:
    """Gradients like query, key and value, and none of a shift."""
    query, key, value, *_rest = given
    found = [described(each.shape, each.dtype) for each in (query, key, value)]
    return [*found, described((0,), query.dtype)]


def best_keys(given: Sequence[TensorSpec], said: Mapping[str, Any]) -> list[TensorSpec | None]:
    """Places of the best keys of each query, and their scores."""
    shape = (*given[0].shape[:-2], 1, int(said.get("sparse_count") or 2048))
    return [described(shape, INT32), described(shape, given[1].dtype)]


def merged(given: Sequence[TensorSpec], _: Mapping[str, Any]) -> list[TensorSpec | None]:
    """Rows as each part has them."""
    return [described(given[-1].shape, given[-1].dtype), None]
