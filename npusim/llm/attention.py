"""The attention of a layer on one rank: grouped heads against a cache in pages.

Atlas A2 and A3 take FusedInferAttentionScore; products without it take PromptFlashAttention and
IncreFlashAttention, and where there are none either, products with a softmax between them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

from npusim.llm.work import Part, part, tensor
from npusim.values.dtypes import BOOL, FLOAT, INT8, INT32
from npusim.values.language import say

if TYPE_CHECKING:
    from npusim.llm.architecture import Architecture
    from npusim.llm.parts import Latent
    from npusim.llm.projections import Projections
    from npusim.llm.workload import Batch
    from npusim.values.tensors import TensorSpec

_LEAST_PIECE = 128  # tokens of a prompt that kernels look at together
_BLOCK = 16  # columns of a value that the cube multiplies at once
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
    to: Projections, model: Architecture, batch: Batch, tp: int, block: int, window: int = 0
) -> None:
    """Projections, rotary embedding, cache and attention of one layer, before its exchange.

    With a `window` every token looks back so far at most.
    """
    heads, tokens = heads_of(model, tp), batch.tokens
    gate = heads.queries if model.gated_heads else 0
    to.product(tokens, model.hidden, (heads.queries + gate + 2 * heads.keys) * heads.size)
    if model.qk_norm:
        to.norm(tokens * heads.queries, heads.size)
        to.norm(tokens * heads.keys, heads.size)
    if not model.positions and model.rotated:
        _turn(to, heads, tokens, max(1, round(heads.size * model.rotated)))
    if model.causal:
        store(to, tokens, 2 * heads.keys * heads.size)
    if batch.sequences:
        keys = batch.context + 1
        _attend(to, heads, batch.sequences, 1, min(keys, window or keys), block)
    if batch.prompts:
        _attend_prompts(to, heads, batch, block, window, causal=model.causal)
    width = heads.queries * heads.size
    if gate:
        half = tensor(to.precision.activations, tokens, width)
        to.work.run(part("Sigmoid", (half,), (half,)), part("Mul", (half, half), (half,)))
    to.product(tokens, width, model.hidden)


def _turn(to: Projections, heads: Heads, tokens: int, size: int) -> None:
    """Queries and keys turned by their positions, `size` numbers of every head."""
    kind = to.precision.activations
    query, key = (tensor(kind, tokens, 1, n, size) for n in (heads.queries, heads.keys))
    angles = tensor(kind, tokens, 1, 1, size)
    turned = [part("RotaryMul", (each, angles, angles), (each,)) for each in (query, key)]
    to.work.first_of(
        [part("ApplyRotaryPosEmb", (query, key, angles, angles), (query, key))], turned
    )


def _attend_prompts(
    to: Projections, heads: Heads, batch: Batch, block: int, window: int, *, causal: bool
) -> None:
    """Attention of chunks of prompts.

    Kernels leave out blocks that a window hides: every piece of a quarter of it (128 tokens at
    least) sees itself and the window in front of it.
    """
    keys = batch.before + batch.chunk
    if not window or keys <= window:
        _attend(to, heads, batch.prompts, batch.chunk, keys, block, causal=causal)
        return
    piece = min(batch.chunk, max(_LEAST_PIECE, window // 4))
    pieces = batch.prompts * ceil(batch.chunk / piece)
    _attend(to, heads, pieces, piece, min(keys, window + piece), block, causal=causal)


def crossed_attention(to: Projections, model: Architecture, batch: Batch, tp: int) -> None:
    """Attention to what the tower heard, whose keys and values a prompt makes once."""
    tower = model.tower
    if tower is None:
        return
    heads, width = heads_of(model, tp), model.heads // tp * model.head_dim
    to.product(batch.tokens, model.hidden, width)
    if batch.prompts:
        to.product(batch.prompts * tower.fixed, model.hidden, 2 * width)
    read = batch.prompts * batch.chunk
    for sequences, queries in ((batch.sequences, 1), (batch.prompts, read // (batch.prompts or 1))):
        if sequences:
            _attend(to, heads, sequences, queries, tower.fixed, 0, causal=False)
    to.product(batch.tokens, width, model.hidden)


def store(to: Projections, tokens: int, numbers: int) -> None:
    """New keys and values go into the pages of the cache: read once, written once."""
    given = tensor(to.precision.activations, tokens, numbers)
    kept = tensor(to.precision.cache, tokens, numbers)
    to.work.first_of(
        [part("ReshapeAndCache", (given, tensor(INT32, tokens)), (kept,))],
        [part("ScatterNdUpdate", (kept, tensor(INT32, tokens, 1), given), (kept,))],
    )


def _attend(
    to: Projections,
    heads: Heads,
    sequences: int,
    queries: int,
    keys: int,
    block: int,
    *,
    causal: bool = True,
) -> None:
    """Attention to keys in pages of `block` tokens, or to keys that lie together."""
    if not causal:
        attend_all(to, heads, sequences, queries, keys)
        return
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


def attend_all(to: Projections, heads: Heads, sequences: int, queries: int, keys: int) -> None:
    """Attention of every query to every key; nothing of it is in pages."""
    kind = to.precision.activations
    query = tensor(kind, sequences, queries, heads.queries * heads.size)
    given = tensor(kind, sequences, keys, heads.keys * heads.size)
    said: dict[str, Any] = {
        "num_heads": heads.queries,
        "num_key_value_heads": heads.keys,
        "input_layout": "BSH",
        "scale_value": heads.size**-0.5,
    }
    names = ("FusedInferAttentionScore", "PromptFlashAttention")
    ways = [[part(name, (query, given, given), (query,), **said)] for name in names]
    to.work.first_of(*ways, _composed(query, heads, keys))


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
        raise TypeError(say("the model has no latent attention"))
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
    store(to, tokens, latent.cached)
    if batch.sequences:
        _decode_latent(to, model, heads, batch.sequences, 1, batch.context + 1)
    if batch.prompts and latent.indexer is not None:
        keys = batch.before + batch.chunk
        _decode_latent(to, model, heads, batch.prompts, batch.chunk, keys)
    elif batch.prompts:
        keys = batch.before + batch.chunk
        # Keys and values are widened to whole heads, and prompts attend as others do.
        to.product(
            batch.prompts * keys, latent.rank, heads * (latent.nope + latent.value), plain=True
        )
        size = latent.nope + latent.rope
        query = tensor(kind, batch.prompts, batch.chunk, heads * size)
        cache = tensor(kind, batch.prompts, keys, heads * size)
        said: dict[str, Any] = {
            "num_heads": heads, "num_key_value_heads": heads, "input_layout": "BSH",
            "scale_value": size**-0.5,
        }  # fmt: skip
        fused, whole_mask = tensor(INT8, _MASK, _MASK), tensor(BOOL, batch.chunk, keys)
        to.work.first_of(
            [part("FusedInferAttentionScore", (query, cache, cache, None, fused), (query,), **said,
                  sparse_mode=3)],
            [part("PromptFlashAttention", (query, cache, cache, None, whole_mask), (query,),
                  **said)],
            _composed(query, Heads(heads, heads, size), keys),
        )  # fmt: skip
    to.product(tokens, heads * latent.value, model.hidden)


def _decode_latent(
    to: Projections, model: Architecture, heads: int, sequences: int, queries: int, keys: int
) -> None:
    """Queries turned into the cache's space, attention there, and its result turned back.

    With an indexer each query attends to the tokens that it chose, so many at most.
    """
    latent, kind = model.latent, to.precision.activations
    if latent is None:
        return
    tokens = sequences * queries

    def turned(into: int, out: int) -> None:
        x, y = tensor(kind, heads, tokens, into), tensor(kind, heads, tokens, out)
        weight = tensor(kind, heads, into, out)
        to.work.run(part("BatchMatMulV2", (x, weight), (y,), weights=(weight,)))

    if latent.indexer is not None:
        choose(to, model.hidden, latent, sequences, queries, keys)
        keys = min(keys, latent.indexer.top)
    turned(latent.nope, latent.rank)
    _attend_latent(to, latent.rank, latent.rope, heads, tokens, keys)
    turned(latent.rank, latent.value)


def choose(
    to: Projections, hidden: int, latent: Latent, sequences: int, queries: int, keys: int
) -> None:
    """The indexer of a sparse attention: small heads score every key, and the best are kept.

    Scores are taken to cost what attention of as many heads does, to values of one block where
    each sequence has one query; every rank makes all of them.
    """
    indexer, tokens = latent.indexer, sequences * queries
    if indexer is None:
        return
    to.product(tokens, latent.query_rank or hidden, indexer.heads * indexer.size)
    to.product(tokens, hidden, indexer.size + indexer.heads, plain=True)
    if keys <= indexer.top:
        return  # all are kept
    if queries == 1:
        half = indexer.size // 2  # of a head: a query's and a key's come in two parts
        _attend_latent(to, half, indexer.size - half, indexer.heads, sequences, keys, _BLOCK)
    else:
        attend_all(to, Heads(indexer.heads, 1, indexer.size), sequences, queries, keys)
    scores, order = tensor(FLOAT, tokens, keys), tensor(INT32, tokens, indexer.top)
    best = tensor(FLOAT, tokens, indexer.top)
    to.work.run(part("TopKV2", (scores, tensor(INT32, 1)), (best, order), k=indexer.top))


def _attend_latent(
    to: Projections, rank: int, rope: int, heads: int, sequences: int, keys: int, wide: int = 0
) -> None:
    """Attention of heads in two parts; values are the first of keys, or ``wide``."""
    kind = to.precision.activations
    query, query_rope = (tensor(kind, sequences, 1, heads, size) for size in (rank, rope))
    key, key_rope = (tensor(kind, sequences, keys, 1, size) for size in (rank, rope))
    value = tensor(kind, sequences, keys, 1, wide) if wide else key
    out = tensor(kind, sequences, 1, heads, wide or rank)
    to.work.run(part("MLA", (query, query_rope, key, key_rope, value), (out,)))
