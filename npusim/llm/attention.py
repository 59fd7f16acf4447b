"""The attention of a layer on one rank: grouped heads against a cache in pages.

Atlas A2 and A3 take FusedInferAttentionScore; products without it take PromptFlashAttention and
IncreFlashAttention, and where there are none either, products with a softmax between them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

from npusim.llm.work import Part, part, tensor
from npusim.values.dtypes import BOOL, INT8, INT32

if TYPE_CHECKING:
    from npusim.llm.architecture import Architecture
    from npusim.llm.projections import Projections
    from npusim.llm.workload import Batch
    from npusim.values.tensors import TensorSpec

_MASK = 2048  # rows of the mask that stands for any causal one (sparse mode 3)


@dataclass(frozen=True)
class Heads:
    """What one rank has: query heads, heads of keys and values, and their size."""

    queries: int
    keys: int
    size: int


def heads_of(model: Architecture, tp: int) -> Heads:
    """The heads of a rank; keys are kept several times where there are more ranks than heads."""
    return Heads(model.heads // tp, max(1, model.kv_heads // tp), model.head_dim)


def grouped_attention(
    to: Projections, model: Architecture, batch: Batch, tp: int, block: int
) -> None:
    """Projections, rotary embedding, cache and attention of one layer, before its exchange."""
    heads, tokens, kind = heads_of(model, tp), batch.tokens, to.precision.activations
    columns = (heads.queries + 2 * heads.keys) * heads.size
    to.product(tokens, model.hidden, columns)
    if model.qk_norm:
        to.norm(tokens * heads.queries, heads.size)
        to.norm(tokens * heads.keys, heads.size)
    query, key = (tensor(kind, tokens, 1, n, heads.size) for n in (heads.queries, heads.keys))
    angles = tensor(kind, tokens, 1, 1, heads.size)
    turned = [part("RotaryMul", (each, angles, angles), (each,)) for each in (query, key)]
    to.work.first_of(
        [part("ApplyRotaryPosEmb", (query, key, angles, angles), (query, key))], turned
    )
    store(to, tokens, 2 * heads.keys * heads.size)
    if batch.sequences:
        _attend(to, heads, batch.sequences, 1, batch.context + 1, block)
    if batch.prompts:
        _attend(to, heads, batch.prompts, batch.chunk, batch.before + batch.chunk, block)
    to.product(tokens, heads.queries * heads.size, model.hidden)


def store(to: Projections, tokens: int, numbers: int) -> None:
    """New keys and values go into the pages of the cache: read once, written once."""
    given = tensor(to.precision.activations, tokens, numbers)
    kept = tensor(to.precision.cache, tokens, numbers)
    to.work.first_of(
        [part("ReshapeAndCache", (given, tensor(INT32, tokens)), (kept,))],
        [part("ScatterNdUpdate", (kept, tensor(INT32, tokens, 1), given), (kept,))],
    )


def _attend(
    to: Projections, heads: Heads, sequences: int, queries: int, keys: int, block: int
) -> None:
    kind = to.precision.activations
    width = heads.queries * heads.size
    query = tensor(kind, sequences, queries, width)
    pages = ceil(keys / block)
    said: dict[str, Any] = {
        "num_heads": heads.queries,
        "num_key_value_heads": heads.keys,
        "input_layout": "BSH",
        "scale_value": heads.size**-0.5,
    }
    lengths: dict[str, Any] = {
        "actual_seq_lengths": [queries] * sequences,
        "actual_seq_lengths_kv": [keys] * sequences,
        "sparse_mode": 3 if queries > 1 else 0,
    }
    page = tensor(to.precision.cache, sequences * pages, block, heads.keys * heads.size)
    mask = tensor(INT8, _MASK, _MASK) if queries > 1 else None
    between: tuple[None, ...] = (None,) * 9
    table = tensor(INT32, sequences, pages)
    fused = part(
        "FusedInferAttentionScore", (query, page, page, None, mask, *between, table), (query,),
        **said, **lengths,
    )  # fmt: skip
    cache = tensor(kind, sequences, keys, heads.keys * heads.size)
    older = (
        part("IncreFlashAttention", (query, cache, cache), (query,), **said)
        if queries == 1
        else part("PromptFlashAttention",
                  (query, cache, cache, None, tensor(BOOL, queries, keys)), (query,), **said)
    )  # fmt: skip
    to.work.first_of([fused], [older], _composed(query, heads, keys))


def _composed(query: TensorSpec, heads: Heads, keys: int) -> list[Part]:
    """Scores, scaled, through a softmax, times values: every head's scores go through memory."""
    sequences, queries, _ = query.shape
    kind, rows = query.dtype, queries * heads.queries // heads.keys
    count = sequences * heads.keys
    q = tensor(kind, count, rows, heads.size)
    k = tensor(kind, count, heads.size, keys)
    v = tensor(kind, count, keys, heads.size)
    scores = tensor(kind, count, rows, keys)
    return [
        part("BatchMatMulV2", (q, k), (scores,)),
        part("Muls", (scores,), (scores,), value=heads.size**-0.5),
        part("SoftmaxV2", (scores,), (scores,)),
        part("BatchMatMulV2", (scores, v), (q,)),
    ]


def latent_attention(to: Projections, model: Architecture, batch: Batch, tp: int) -> None:
    """Latent attention (MLA) of one layer: decoding absorbs the products that widen the cache."""
    latent = model.latent
    if latent is None:
        raise TypeError("the model has no latent attention")
    heads, tokens, kind = model.heads // tp, batch.tokens, to.precision.activations
    whole = heads * (latent.nope + latent.rope)
    if latent.query_rank:
        to.product(tokens, model.hidden, latent.query_rank + latent.rank + latent.rope)
        to.norm(tokens, latent.query_rank)
        to.product(tokens, latent.query_rank, whole)
    else:
        to.product(tokens, model.hidden, whole)
        to.product(tokens, model.hidden, latent.rank + latent.rope)
    to.norm(tokens, latent.rank)
    for count in (heads, 1):
        turned, angles = (
            tensor(kind, tokens, 1, count, latent.rope),
            tensor(kind, tokens, 1, 1, latent.rope),
        )
        to.work.run(part("RotaryMul", (turned, angles, angles), (turned,)))
    store(to, tokens, latent.rank + latent.rope)
    if batch.sequences:
        _decode_latent(to, model, heads, batch.sequences, batch.context + 1)
    if batch.prompts:
        keys = batch.before + batch.chunk
        # Keys and values are widened to whole heads, and prompts attend as others do.
        to.product(
            batch.prompts * keys, latent.rank, heads * (latent.nope + latent.value), plain=True
        )
        size = latent.nope + latent.rope
        query = tensor(kind, batch.prompts, batch.chunk, heads * size)
        cache = tensor(kind, batch.prompts, keys, heads * size)
        to.work.run(part(
            "FusedInferAttentionScore", (query, cache, cache, None, tensor(INT8, _MASK, _MASK)),
            (query,), num_heads=heads, num_key_value_heads=heads, input_layout="BSH",
            scale_value=size**-0.5, sparse_mode=3,
        ))  # fmt: skip
    to.product(tokens, heads * latent.value, model.hidden)


def _decode_latent(
    to: Projections, model: Architecture, heads: int, sequences: int, keys: int
) -> None:
    """Queries turned into the cache's space, attention there, and its result turned back."""
    latent, kind = model.latent, to.precision.activations
    if latent is None:
        return

    def turned(into: int, out: int) -> None:
        x, y = tensor(kind, heads, sequences, into), tensor(kind, heads, sequences, out)
        weight = tensor(kind, heads, into, out)
        to.work.run(part("BatchMatMulV2", (x, weight), (y,), weights=(weight,)))

    turned(latent.nope, latent.rank)
    _attend_latent(to, latent.rank, latent.rope, heads, sequences, keys)
    turned(latent.rank, latent.value)


def _attend_latent(
    to: Projections, rank: int, rope: int, heads: int, sequences: int, keys: int
) -> None:
    kind = to.precision.activations
    query, query_rope = (tensor(kind, sequences, 1, heads, size) for size in (rank, rope))
    key, key_rope = (tensor(kind, sequences, keys, 1, size) for size in (rank, rope))
    to.work.run(part("MLA", (query, query_rope, key, key_rope, key), (query,)))
