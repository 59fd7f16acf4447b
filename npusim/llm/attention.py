"""The attention of a layer on one rank: grouped heads against a cache in pages.

Atlas A2 and A3 take FusedInferAttentionScore; products without it take PromptFlashAttention and
IncreFlashAttention, and where there are none either, products with a softmax between them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate
from math import ceil
from typing import TYPE_CHECKING, Any

from npusim.llm.context_parallel import gather_queries, merge_parts, merge_ranks
from npusim.llm.work import Part, part, tensor
from npusim.values.dtypes import BOOL, FLOAT, INT8, INT32, INT64
from npusim.values.language import say

if TYPE_CHECKING:
    from npusim.llm.architecture import Architecture
    from npusim.llm.layout import Layout
    from npusim.llm.parts import Latent
    from npusim.llm.projections import Projections
    from npusim.llm.workload import Batch
    from npusim.values.tensors import TensorSpec

_LEAST_PIECE = 128  # tokens of a prompt that kernels look at together
_FUSED = 512, 64  # latent numbers and turned ones that KvRmsNormRopeCache takes
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
    to: Projections, model: Architecture, batch: Batch, layout: Layout, block: int, window: int = 0
) -> None:
    """Projections, rotary embedding, cache and attention of one layer, before its exchange.

    With a `window` every token looks back so far at most.
    """
    heads, tokens = heads_of(model, layout.tp), batch.tokens
    gate = heads.queries if model.gated_heads else 0
    to.product(tokens, model.hidden, (heads.queries + gate + 2 * heads.keys) * heads.size)
    if model.qk_norm:
        to.norm(tokens * heads.queries, heads.size)
        to.norm(tokens * heads.keys, heads.size)
    if not model.positions and model.rotated:
        _turn(to, heads, tokens, max(1, round(heads.size * model.rotated)))
    if model.causal:
        _store(to, tokens, heads, block)
    keys = batch.context + batch.queries
    sizes = batch.sequences, batch.queries, min(keys, window or keys)
    if batch.sequences and batch.prompts and layout.dcp == 1 and not window and model.causal:
        chunks = batch.prompts, batch.chunk, batch.before + batch.chunk
        _attend_packed(to, heads, [sizes, chunks], block)
    else:
        _attend_groups(to, heads, batch, layout, block, window, sizes, causal=model.causal)
    width = heads.queries * heads.size
    if gate:
        half = tensor(to.precision.activations, tokens, width)
        to.work.run(part("Sigmoid", (half,), (half,)), part("Mul", (half, half), (half,)))
    to.product(tokens, width, model.hidden)


def _attend_groups(
    to: Projections,
    heads: Heads,
    batch: Batch,
    layout: Layout,
    block: int,
    window: int,
    decoding: tuple[int, int, int],
    *,
    causal: bool,
) -> None:
    """What decodes, and then the prompts."""
    if batch.sequences:
        _attend_apart(to, heads, *decoding, block, layout.dcp)
    if batch.prompts and layout.dcp > 1:
        _attend_chunks_apart(to, heads, batch, block, layout.dcp)
    elif batch.prompts:
        _attend_prompts(to, heads, batch, block, window, causal=causal)


def _turn(to: Projections, heads: Heads, tokens: int, size: int) -> None:
    """Queries and keys turned by their positions, `size` numbers of every head."""
    kind = to.precision.activations
    query, key = (tensor(kind, tokens, 1, n, size) for n in (heads.queries, heads.keys))
    angles = tensor(kind, tokens, 1, 1, size)
    turned = [part("RotaryMul", (each, angles, angles), (each,)) for each in (query, key)]
    to.work.first_of(
        [part("ApplyRotaryPosEmb", (query, key, angles, angles), (query, key))], turned
    )


def _attend_apart(
    to: Projections, heads: Heads, sequences: int, queries: int, keys: int, block: int, ranks: int
) -> None:
    """Attention where each of some ranks has a part of the keys, to the queries of all."""
    if ranks == 1:
        _attend(to, heads, sequences, queries, keys, block)
        return
    rows = sequences * queries
    gather_queries(to, rows, heads.queries * heads.size, ranks)
    every = replace(heads, queries=heads.queries * ranks)
    _attend(to, every, sequences, queries, ceil(keys / ranks), block)
    merge_ranks(to, rows, heads.queries, heads.size, ranks)


def _attend_chunks_apart(
    to: Projections, heads: Heads, batch: Batch, block: int, ranks: int
) -> None:
    """Chunks of prompts see themselves, which every rank has, and what was read before."""
    chunks = batch.prompts, batch.chunk
    _attend(to, heads, *chunks, batch.chunk, block)
    if batch.before:
        _attend_apart(to, heads, *chunks, batch.before, block, ranks)
        merge_parts(to, batch.prompts * batch.chunk * heads.queries, heads.size, 2)


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
    for sequences, queries in (
        (batch.sequences, batch.queries),
        (batch.prompts, read // (batch.prompts or 1)),
    ):
        if sequences:
            _attend(to, heads, sequences, queries, tower.fixed, 0, causal=False)
    to.product(batch.tokens, width, model.hidden)


def _store(to: Projections, tokens: int, heads: Heads, block: int) -> None:
    """New keys and values go into the pages of the cache: read once, written once."""
    given = tensor(to.precision.activations, tokens, heads.keys, heads.size)
    pages = tensor(to.precision.cache, ceil(tokens / block), block, heads.keys, heads.size)
    slots = tensor(INT32, tokens)
    to.work.first_of(
        [part("ScatterPaKvCache", (given, pages, slots, given, pages), (pages, pages))],
        _stored(to, tokens, 2 * heads.keys * heads.size),
        _scattered(to, tokens, 2 * heads.keys * heads.size),
    )


def _stored(to: Projections, tokens: int, numbers: int) -> list[Part]:
    """Rows into pages by the kernel of ATB."""
    given = tensor(to.precision.activations, tokens, numbers)
    kept = tensor(to.precision.cache, tokens, numbers)
    return [part("ReshapeAndCache", (given, tensor(INT32, tokens)), (kept,))]


def _scattered(to: Projections, tokens: int, numbers: int) -> list[Part]:
    """Rows to where their slots say."""
    given = tensor(to.precision.activations, tokens, numbers)
    kept = tensor(to.precision.cache, tokens, numbers)
    return [part("ScatterNdUpdate", (kept, tensor(INT32, tokens, 1), given), (kept,))]


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
    if causal:
        _attend_packed(to, heads, [(sequences, queries, keys)], block)
    else:
        attend_all(to, heads, sequences, queries, keys)


def _attend_packed(
    to: Projections, heads: Heads, groups: list[tuple[int, int, int]], block: int
) -> None:
    """Some sequences of so many queries and keys, and others: one call, packed, beside a mask.

    Source: vllm-ascend attention/attention_v1.py; what decodes beside prompts is in their call.
    """
    kind = to.precision.activations
    named = {
        "num_heads": heads.queries,
        "num_key_value_heads": heads.keys,
        "scale_value": heads.size**-0.5,
    }
    each = [sizes for count, *sizes in groups for _ in range(count)]
    packed: dict[str, Any] = {
        "input_layout": "TND",
        "actual_seq_lengths": list(accumulate(queries for queries, _ in each)),
        "actual_seq_lengths_kv": [keys for _, keys in each],
        "sparse_mode": 3,
    }
    rows = tensor(kind, packed["actual_seq_lengths"][-1], heads.queries, heads.size)
    pages = [ceil(keys / block) for _, keys in each]
    page = tensor(to.precision.cache, sum(pages), block, heads.keys * heads.size)
    given = (rows, page, page, None, tensor(INT8, _MASK, _MASK))
    between: tuple[None, ...] = (None,) * 9
    table = tensor(INT32, len(each), max(pages))
    fused = part("FusedInferAttentionScore", (*given, *between, table), (rows,), **named, **packed)
    said: dict[str, Any] = {**named, "input_layout": "BSH"}
    older, composed = list[Part](), list[Part]()
    for sequences, queries, keys in groups:
        query = tensor(kind, sequences, queries, heads.queries * heads.size)
        cache = tensor(kind, sequences, keys, heads.keys * heads.size)
        if queries == 1:
            older.append(part("IncreFlashAttention", (query, cache, cache), (query,), **said))
        else:
            masked = query, cache, cache, None, tensor(BOOL, queries, keys)
            older.append(part("PromptFlashAttention", masked, (query,), **said))
        composed += _composed(query, heads, keys)
    to.work.first_of([fused], older, composed)


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


def latent_attention(
    to: Projections, model: Architecture, batch: Batch, layout: Layout, block: int
) -> None:
    """Latent attention (MLA) of one layer: decoding absorbs the products that widen the cache."""
    latent = model.latent
    if latent is None:
        raise TypeError(say("the model has no latent attention"))
    heads, tokens, kind = model.heads // layout.tp, batch.tokens, to.precision.activations
    whole = heads * (latent.nope + latent.rope)
    if latent.query_rank:
        to.product(tokens, model.hidden, latent.query_rank + latent.rank + latent.rope)
        to.norm(tokens, latent.query_rank)
        to.product(tokens, latent.query_rank, whole)
    else:
        to.product(tokens, model.hidden, whole)
        to.product(tokens, model.hidden, latent.rank + latent.rope)
    _keep_latent(to, latent, heads, tokens, block)
    if batch.sequences:
        keys = batch.context + batch.queries
        _decode_latent(to, model, heads, (batch.sequences, batch.queries, keys), block, layout.dcp)
    if batch.prompts and latent.indexer is not None:
        keys = batch.before + batch.chunk
        _decode_latent(to, model, heads, (batch.prompts, batch.chunk, keys), block)
    elif batch.prompts:
        keys = batch.before + batch.chunk
        gathered = batch.prompts * ceil(batch.before / layout.dcp) * (latent.rank + latent.rope)
        to.work.exchange("allgather", layout.dcp, gathered * kind.itemsize, "keys of prompts")
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


def _keep_latent(to: Projections, latent: Latent, heads: int, tokens: int, block: int) -> None:
    """Queries turned; latent keys normalised and turned, into the pages of the cache.

    Keys are one kernel where there is one (vllm-ascend, attention/mla_v1.py).
    """
    kind, kept = to.precision.activations, to.precision.cache
    turned, angles = (tensor(kind, tokens, n, 1, latent.rope) for n in (heads, 1))
    rows, gamma = tensor(kind, tokens, 1, 1, latent.rank + latent.rope), tensor(kind, latent.rank)
    keys, whole = (
        tensor(kept, ceil(tokens / block), block, 1, size) for size in (latent.rope, latent.rank)
    )
    root, low = tensor(FLOAT, tokens, 1), tensor(kind, tokens, latent.rank)
    neighbours = [part("InterleaveRope", (turned, angles, angles), (turned,))]
    given = (rows, gamma, angles, angles, tensor(INT64, tokens), keys, whole)
    fused = [part("KvRmsNormRopeCache", given, (keys, whole), cache_mode="PA")]
    apart = [
        part("RmsNorm", (low, gamma), (low, root), weights=(gamma,)),
        part("RotaryMul", (angles, angles, angles), (angles,)),
    ]
    halves = [part("RotaryMul", (turned, angles, angles), (turned,))]
    to.work.first_of(neighbours, halves)
    numbers = latent.rank + latent.rope
    ways = ([*apart, *_stored(to, tokens, numbers)], [*apart, *_scattered(to, tokens, numbers)])
    to.work.first_of(*((fused,) if (latent.rank, latent.rope) == _FUSED else ()), *ways)
    if latent.indexer is not None:
        to.work.run(*_scattered(to, tokens, latent.indexer.size))


def _decode_latent(
    to: Projections,
    model: Architecture,
    heads: int,
    sizes: tuple[int, int, int],
    block: int,
    ranks: int = 1,
) -> None:
    """Queries turned into the cache's space, attention there, and its result turned back.

    `sizes` are sequences, queries and keys of each, which so many `ranks` share. With an indexer
    each query attends to the tokens that it chose, so many at most.
    """
    sequences, queries, keys = sizes
    latent, kind = model.latent, to.precision.activations
    if latent is None:
        return
    tokens = sequences * queries

    def turned(into: int, out: int) -> Part:
        x, y = tensor(kind, heads, tokens, into), tensor(kind, heads, tokens, out)
        weight = tensor(kind, heads, into, out)
        return part("BatchMatMulV2", (x, weight), (y,), weights=(weight,))

    to.work.run(turned(latent.nope, latent.rank))
    if latent.indexer is None:
        # Heads have their keys in common, and so have the queries of a sequence.
        every = heads * queries * ranks
        if ranks > 1:
            gather_queries(to, tokens, heads * (latent.rank + latent.rope), ranks)
        _attend_latent(to, latent.rank, latent.rope, every, sequences, ceil(keys / ranks))
        if ranks > 1:
            merge_ranks(to, tokens, heads, latent.rank, ranks)
    else:
        _attend_chosen(to, model.hidden, latent, heads, (sequences, queries, keys), block)
    heads_of_keys = tensor(kind, heads, latent.rank, latent.value)
    given = tensor(kind, heads, tokens, latent.rank), heads_of_keys
    beside = tensor(kind, tokens, heads, latent.value)
    to.work.first_of(
        [part("TransposeBatchMatMul", given, (beside,), weights=(heads_of_keys,))],
        [turned(latent.rank, latent.value)],
    )


def _attend_chosen(
    to: Projections,
    hidden: int,
    latent: Latent,
    heads: int,
    sizes: tuple[int, int, int],
    block: int,
) -> None:
    """Attention of queries to the keys that small heads choose, which every rank has all of.

    Keys of these heads are normalised, and theirs and queries' first numbers turned (vllm-ascend,
    attention/sfa_v1.py).
    """
    indexer, (sequences, queries, keys) = latent.indexer, sizes
    if indexer is None:
        return
    kind, tokens, size = to.precision.activations, sequences * queries, indexer.size
    to.product(tokens, latent.query_rank or hidden, indexer.heads * size)
    to.product(tokens, hidden, size + indexer.heads, plain=True)
    scale, row = tensor(kind, size), tensor(kind, tokens, size)
    statistic = tensor(FLOAT, tokens, 1)
    to.work.run(part("LayerNormV3", (row, scale, scale), (row, statistic, statistic)))
    for count in (indexer.heads, 1):
        _turn_rows(to, tokens, count, latent.rope)
    pages = ceil(keys / block)
    lengths, table = tensor(INT32, sequences), tensor(INT32, sequences, pages)

    def paged(width: int) -> TensorSpec:
        return tensor(kind, sequences * pages, block, 1, width)

    def asked(count: int, width: int) -> TensorSpec:
        return tensor(kind, sequences, queries, count, width)

    places = tensor(INT32, sequences, queries, 1, indexer.top)
    weights = tensor(kind, sequences, queries, indexer.heads)
    scored = (asked(indexer.heads, size), paged(size), weights, None, lengths, table)
    query, whole = asked(heads, latent.rank), paged(latent.rank)
    attended = (query, whole, whole, places, table, None, lengths, asked(heads, latent.rope),
                paged(latent.rope))  # fmt: skip
    said: dict[str, Any] = {"sparse_mode": 3, "layout_query": "BSND"}
    to.work.run(
        part("LightningIndexer", scored, (places,), sparse_count=indexer.top,
             layout_key="PA_BSND", **said),
        part("SparseFlashAttention", attended, (query,), layout_kv="PA_BSND",
             scale_value=(latent.nope + latent.rope) ** -0.5, **said),
    )  # fmt: skip


def _turn_rows(to: Projections, tokens: int, count: int, size: int) -> None:
    """Some numbers of every head turned by positions."""
    kind = to.precision.activations
    turned, angles = tensor(kind, tokens, 1, count, size), tensor(kind, tokens, 1, 1, size)
    to.work.run(part("RotaryMul", (turned, angles, angles), (turned,)))


def _attend_latent(
    to: Projections, rank: int, rope: int, heads: int, sequences: int, keys: int
) -> None:
    """Attention of heads in two parts; values are the first of keys."""
    kind = to.precision.activations
    query, query_rope = (tensor(kind, sequences, 1, heads, size) for size in (rank, rope))
    key, key_rope = (tensor(kind, sequences, keys, 1, size) for size in (rank, rope))
    to.work.run(part("MLA", (query, query_rope, key, key_rope, key), (query,)))
