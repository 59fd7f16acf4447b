"""Small tasks of language models' kernels: inputs, outputs and attributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

if TYPE_CHECKING:
    from support.task_cases import Pick

BFLOAT16 = ml_dtypes.bfloat16
Array = np.ndarray[Any, Any]
Case = tuple[Sequence[Array | None], Sequence[Array], Mapping[str, object]]


def gating(pick: Pick, *, second: bool = False) -> Case:
    """Shares of experts of some tokens, few of them or many."""
    tokens, experts, kind = pick.size(), pick.of(4, 8, 40, 67, 130), pick.half()
    k = pick.of(1, 2, min(experts, 8), experts // 2)
    finished = pick.of(None, pick.numbers(tokens, kind=bool))
    places = [np.full((tokens, k), 77, np.int32) for _ in range(2)]
    given, results = (
        [pick.numbers(tokens, experts, kind=kind), finished],
        [np.full((tokens, k), 77, kind)],
    )
    if not second:
        return given, [*results, *places], {}
    results += [places[0], np.full((tokens, experts), 77, np.float32)]
    if k <= 8 and (experts % 8 == 0 or experts < 8) and pick.of(False, True):
        return given, results[:2], {"k": k, "renorm": 1}
    return given, results, {"k": k, "output_softmax_result_flag": True}


def gated_product(pick: Pick) -> Case:
    """Rows of int8 in groups, some of them empty, halves of which gate each other."""
    count, k, half = pick.of(1, 2, 5), pick.size(67), pick.size(67)
    lengths = [pick.of(0, 1, 7, 40) for _ in range(count)]
    lengths[-1] += 1
    m, n = sum(lengths), 2 * half
    x, weight = ((pick.numbers(*shape) * 5).astype(np.int8) for shape in ((m, k), (count, k, n)))
    ends = np.cumsum(lengths).astype(np.int64)
    given = [x, weight, pick.positive(count, n), pick.positive(m), ends]
    return given, [np.full((m, half), 77, np.int8), np.full(m, 77, np.float32)], {}


def routed(pick: Pick, op_type: str) -> Case:
    """Tokens with some experts each."""
    tokens, k, width, experts = pick.size(67), pick.of(1, 2, 3), pick.size(67), pick.of(1, 5, 16)
    kind = pick.half()
    x, chosen = pick.numbers(tokens, width, kind=kind), pick.places((tokens, k), experts)
    pairs = tokens * k
    outputs = [np.full((pairs, width), 77, kind), np.full(pairs, 77, np.int32)]
    if op_type == "MoeTokenPermute":
        return [x, chosen], outputs, {}
    if op_type in ("MoeInitRouting", "MoeInitRoutingQuant"):
        ids = np.arange(pairs, dtype=np.int32).reshape(k, tokens).T.copy()
        active = pick.of(1, tokens)
        outputs[0] = outputs[0][: active * k]
        if op_type.endswith("Quant"):
            outputs[0] = outputs[0].astype(np.int8)
        outputs.append(np.full(pairs, 77, np.int32))
        said: dict[str, object] = {"active_num": active, "scale": 20.0, "offset": 1.5}
        return [x, ids, chosen], outputs, said
    counts = np.full(experts, 77, np.int32)
    said = {"expert_num": experts, "expert_tokens_count_or_cumsum_flag": pick.of(1, 2)}
    if op_type == "MoeInitRoutingV2" and pick.of(False, True):
        said |= {"drop_pad_mode": 1, "expert_capacity": pick.of(1, tokens),
                 "expert_tokens_before_capacity_flag": True}  # fmt: skip
        outputs[0] = np.full((experts, said["expert_capacity"], width), 77, kind)
    if op_type == "MoeInitRoutingV2":
        return [x, chosen], [*outputs, counts], said
    if op_type == "MoeInitRoutingV3":
        return [x, chosen], [*outputs, counts.astype(np.int64)], {"expert_num": experts}
    outputs[0] = outputs[0].astype(np.int8)
    dynamic = pick.of(True, False)
    by = [None, None] if dynamic else [pick.positive(1) * 20, pick.numbers(1)]
    scales = np.full(pairs, 77, np.float32)
    said["quant_mode"] = int(dynamic)
    return [x, chosen, *by], [*outputs, counts, counts.copy(), scales], said


def routed_home(pick: Pick) -> Case:
    """Rows of tokens' experts, on their way back."""
    tokens, k, width, kind = pick.size(67), pick.of(1, 2, 3), pick.size(67), pick.half()
    rows, weights = pick.numbers(tokens * k, width, kind=kind), pick.numbers(tokens, k, kind=kind)
    given = [rows, pick.once(tokens * k, tokens * k), None if k == 1 else weights]
    return given, [np.full((tokens, width), 77, kind)], {}


def gradient_of_routed(pick: Pick, op_type: str) -> Case:
    """Gradients of tokens for the rows of their experts, or of rows for their tokens."""
    tokens, k, width, kind = pick.size(67), pick.of(1, 2, 3), pick.size(67), pick.half()
    places, weights = pick.once(tokens * k, tokens * k), pick.numbers(tokens, k, kind=kind)
    rows, grad = (pick.numbers(each, width, kind=kind) for each in (tokens * k, tokens))
    if op_type == "MoeInitRoutingV2Grad":
        out = np.full((tokens, width), 77, kind)
        return [rows, places], [out], {"top_k": k}
    if op_type == "MoeTokenPermuteGrad":
        return [rows, places], [np.full((tokens, width), 77, kind)], {"num_topk": k}
    results = [np.full(rows.shape, 77, kind), np.full(weights.shape, 77, kind)]
    if op_type == "MoeTokenUnpermuteGrad":
        alone = k == 1
        given = [rows, grad, places, None if alone else weights]
        return given, results[: 1 if alone else 2], {}
    biased = pick.of(False, True)
    bias = [pick.places((tokens, k), 3), pick.numbers(3, width, kind=kind)] if biased else []
    return [grad, places, rows, weights, *bias], results, {}


def neighbours(pick: Pick) -> Case:
    """Heads of tokens, pairs of whose neighbours are turned."""
    batch, heads, tokens, half = pick.of(1, 2), pick.of(1, 3, 8), pick.size(40), pick.of(8, 16)
    kind = pick.half()
    x = pick.numbers(batch, heads, tokens, 2 * half, kind=kind)
    angles = [pick.numbers(batch, 1, tokens, 2 * half, kind=kind) for _ in range(2)]
    return [x, *angles], [np.full(x.shape, 77, kind)], {}


def latent_queries(pick: Pick) -> Case:
    """Tokens of latent attention."""
    tokens, hidden, low, heads, kind = pick.size(40), pick.size(67), 32, pick.of(1, 3), np.float16
    shapes = ((tokens, hidden), (hidden, low), (low, heads * 32), (heads, 16, 48))
    shapes += ((hidden, 64), (low,), (48,), (tokens, 16), (tokens, 16))
    outputs = ((tokens, heads, 48), (tokens, heads, 16), (tokens, 48), (tokens, 16))
    given = [pick.numbers(*shape, kind=kind) / 9 for shape in shapes]
    return given, [np.full(shape, 77, kind) for shape in outputs], {}


def cached_queries(pick: Pick, *, index_first: bool) -> Case:
    """The same, with keys that go to caches, one of them nowhere."""
    tokens, hidden, heads, kind = pick.size(20), pick.size(67), pick.of(1, 3), np.float16
    shapes = ((tokens, hidden), (hidden, 32), (32, heads * 80), (heads, 16, 512), (hidden, 576))
    shapes += ((32,), (512,), (tokens, 64), (tokens, 64))
    given = [pick.numbers(*shape, kind=kind) / 9 for shape in shapes]
    index = np.random.default_rng(tokens).permutation(64)[:tokens].astype(np.int64)
    index[-1] = -1
    caches = [np.zeros((4, 16, 1, width), kind) for width in (512, 64)]
    outputs = [np.full((tokens, heads, width), 77, kind) for width in (512, 64)]
    stored = [index, *caches] if index_first else [*caches, index]
    return [*given, *stored], [*outputs, *caches], {}


def merged_parts(pick: Pick) -> Case:
    """Parts of an attention, and the logarithms of their sums."""
    rows, wide, kind = pick.size(67), pick.of(8, 64), pick.half()
    count = pick.of(1, 2, 5)
    lines = [pick.numbers(rows) for _ in range(count)]
    parts = [pick.numbers(rows, wide, kind=kind) for _ in range(count)]
    results = [np.full((rows, wide), 77, kind), np.full(rows, 77, np.float32)]
    return [*lines, *parts], results, {"update_type": 1}


def gating_in_groups(pick: Pick) -> Case:
    """Experts in groups of which some are left out, or none."""
    groups, each = pick.of(1, 4, 5, 8), pick.of(2, 8, 32, 40)
    tokens, experts, kind = pick.size(67), groups * each, pick.half()
    kept = pick.of(groups, max(1, groups // 2))
    k = pick.of(1, min(6, kept * each))
    said = {"k": k, "group_count": groups, "k_group": kept, "norm_type": pick.of(0, 1)}
    said |= {"group_select_mode": pick.of(0, 1), "out_flag": True, "routed_scaling_factor": 2.5}
    bias = pick.of(None, pick.numbers(experts, kind=kind))
    results = [np.full((tokens, k), 77, kind), np.full((tokens, k), 77, np.int32)]
    shares = np.full((tokens, experts), 77, np.float32)
    return [pick.numbers(tokens, experts, kind=kind), bias], [*results, shares], said


def hashed_gating(pick: Pick) -> Case:
    """The same, or experts by the numbers of tokens."""
    given, results, said = gating_in_groups(pick)
    if pick.of(True, False):
        return given, results, said
    (tokens, experts), k = given[0].shape, said["k"]
    ids = pick.places((tokens,), 50, pick.of(np.int32, np.int64))
    table = pick.places((50, k), experts, pick.of(np.int32, np.int64))
    said |= {"group_count": 1, "k_group": 1, "norm_type": pick.of(0, 1, 2)}
    return [*given, ids, table], results, said


def states_of_prompts(pick: Pick) -> Case:
    """Sequences of a chunk or several, the last one short."""
    lengths = pick.of((64,), (65, 1), (130,), (7, 0, 70))
    key_heads, keys, values = pick.of(1, 2), pick.of(32, 128), pick.of(16, 128)
    heads, tokens = key_heads * pick.of(1, 3), sum(lengths)
    rows = [(key_heads, keys), (key_heads, keys), (heads, values)]
    q, k, v = (pick.numbers(tokens, *each, kind=BFLOAT16) / BFLOAT16(16) for each in rows)
    beta = pick.numbers(tokens, heads, kind=BFLOAT16)
    state = pick.numbers(len(lengths), heads, values, keys, kind=BFLOAT16)
    decay = pick.of(None, -pick.positive(tokens, heads))
    given = [q, k, v, beta, state, np.array(lengths, np.int32), decay]
    return given, [np.zeros_like(v), np.zeros_like(state)], {"scale_value": 0.25}


def partly_turned(pick: Pick) -> Case:
    """Slices of rows, of tokens alone or of sequences."""
    kind, width = pick.of(np.float32, np.float16, BFLOAT16), pick.of(10, 32, 64, 96)
    tokens, more, heads = pick.size(67), pick.of(1, 3), pick.of(1, 4)
    first = pick.of(0, 3, 64)
    x = pick.numbers(tokens, more, heads, first + width + pick.of(0, 5), kind=kind)
    cos, sin = (pick.numbers(tokens, more, 1, width, kind=kind) for _ in range(2))
    return [x, cos, sin], [x.copy()], {"mode": 1, "partial_slice": [first, first + width]}


def sampled_tokens(pick: Pick) -> Case:
    """Rows with a k, or a p, both or neither."""
    kind = pick.of(np.float16, BFLOAT16)
    rows, length = pick.size(9), pick.of(1, 100, 701, 9001)
    logits, q = pick.numbers(rows, length, kind=kind), pick.positive(rows, length)
    k = pick.of(np.full(rows, -1, np.int32), 1 + pick.places((rows,), length))
    p = np.full(rows, pick.of(0.0, 0.25, 0.875)).astype(kind)
    said = {"eps": 1e-8, "is_need_logits": pick.of(True, False), "top_k_guess": 32}
    left = np.full((rows, length), 77, np.float32)
    return [logits, k, p, pick.of(None, q)], [np.full(rows, 77, np.int64), left], said


def recurrent(pick: Pick, op_type: str) -> Case:
    """Sequences of a few steps, with first states or without, forwards or backwards."""
    (steps, rows), (depth, columns) = (
        (pick.of(1, 2, 4), pick.size(40)),
        (pick.size(40), pick.size(67)),
    )
    kind = pick.half() if pick.profile.cores.style == "split" else np.float16
    gates = 4 if op_type == "DynamicRNN" else 3
    x = pick.numbers(steps, rows, depth, kind=kind) / 4
    shapes = ((depth, gates * columns), (columns, gates * columns))
    weights = [pick.numbers(*shape, kind=kind) / 8 for shape in shapes]
    biases = [pick.of(None, pick.numbers(gates * columns, kind=kind)) for _ in range(2)]
    starts = pick.of(False, True)
    first = [pick.numbers(1, rows, columns, kind=kind) if starts else None for _ in range(2)]
    said = {"direction": pick.of("UNIDIRECTIONAL", "REDIRECTIONAL")}
    said["is_training"] = pick.of(False, True)
    given: list[Array | None] = [x, *weights, *biases, None, first[0]]
    results = 6 if said["is_training"] else 2
    if op_type == "DynamicRNN":
        given = [x, np.concatenate(weights), biases[0], None, *first]
        results = 8 if said["is_training"] else 3
    return given, [np.full((steps, rows, columns), 77, kind) for _ in range(results)], said


def layer(pick: Pick) -> Case:
    """A layer as a framework has it: weights a row for each gate's column, biases, no states."""
    (steps, rows), (depth, columns) = (
        (pick.of(1, 2, 4), pick.size(40)),
        (pick.size(40), pick.size(67)),
    )
    kind = pick.half() if pick.profile.cores.style == "split" else np.float16
    shapes = ((4 * columns, depth), (4 * columns, columns), (4 * columns,), (4 * columns,))
    given = [pick.numbers(*shape, kind=kind) / 8 for shape in shapes]
    x = pick.numbers(steps, rows, depth, kind=kind) / 4
    return [x, *given], [np.full((steps, rows, columns), 77, kind)], {"hiddenSize": columns}


def cached_angles(pick: Pick) -> Case:
    """Heads of some tokens, turned by rows of a cache."""
    tokens, kind, (head, turned) = pick.size(67), pick.kind(), pick.of((64, 64), (128, 64))
    sections, neox = pick.of((), (8, 17, 7)), pick.of(True, False)
    positions = pick.places((3, tokens) if sections else (tokens,), 30, np.int64)
    xs = [pick.numbers(tokens, pick.of(1, 2, 5) * head, kind=kind) for _ in range(2)]
    given = [positions, *xs, pick.numbers(30, turned, kind=kind)]
    said = {"headSize": head, "mropeSection": [*sections], "isNeoxStyle": neox}
    return given, [np.full(x.shape, 77, kind) for x in xs], said


def sent_out(pick: Pick) -> Case:
    """Tokens to experts on some chips, of which this is the last."""
    tokens, k, width, ranks = pick.size(67), pick.of(1, 2, 3), pick.size(67), pick.of(1, 2, 4)
    experts, kind, quantised = ranks * pick.of(1, 4), pick.half(), pick.of(False, True)
    x, ids = pick.numbers(tokens, width, kind=kind), pick.places((tokens, k), experts)
    rows, local = tokens * ranks * k, experts // ranks
    outputs = [
        np.full((rows, width), 77, np.int8 if quantised else kind), np.full(rows, 77, np.float32),
        np.full(rows * 128, 77, np.int32), np.full(local, 77, np.int64),
        np.full(experts, 77, np.int32),
    ]  # fmt: skip
    said = {"ep_world_size": ranks, "ep_rank_id": ranks - 1, "moe_expert_num": experts,
            "quant_mode": 2 * quantised}  # fmt: skip
    return [x, ids], outputs, said


def sent_back(pick: Pick) -> Case:
    """Rows of a chip's experts to their tokens, of which some have none here."""
    tokens, k, width, ranks = pick.size(67), pick.of(1, 2, 3), pick.size(67), pick.of(1, 2)
    kind, pairs = pick.half(), tokens * k
    here = np.flatnonzero(pick.places((pairs,), 3))
    triples = np.zeros(ranks * pairs * 128, np.int32)
    of = [(chip, pair // k, pair % k) for chip in range(ranks) for pair in here]
    triples[: 3 * len(of)] = np.array(of, np.int32).reshape(-1)
    given = [
        pick.numbers(ranks * pairs, width, kind=kind), pick.places((tokens, k), ranks), triples,
        np.full(ranks, len(of), np.int32), pick.positive(tokens, k),
    ]  # fmt: skip
    said = {"ep_world_size": ranks, "ep_rank_id": 0, "moe_expert_num": ranks}
    return given, [np.full((tokens, width), 77, kind)], said


def states_of_tokens(pick: Pick) -> Case:
    """Tokens of some sequences, and states in places of their own."""
    lengths = np.array([pick.of(0, 1, 3, 8) for _ in range(pick.of(1, 3))], np.int32)
    lengths[-1] += lengths[-1] == 0
    tokens, shared = int(lengths.sum()), pick.of(1, 2)
    heads, keys, values = shared * pick.of(1, 2), pick.of(16, 40, 128), pick.of(16, 72, 128)
    q, k = (pick.numbers(tokens, shared, keys, kind=BFLOAT16) for _ in range(2))
    v, beta = (pick.numbers(tokens, heads, *size, kind=BFLOAT16) for size in ((values,), ()))
    state = pick.numbers(tokens + 1, heads, values, keys, kind=BFLOAT16)
    decay = pick.of(None, -np.abs(pick.numbers(tokens, heads)))
    accepted = pick.of(None, np.maximum(lengths, 1))
    places = np.arange(tokens, dtype=np.int32)[::-1].copy()
    given = [q, k, v, beta, state, lengths, places, decay, None, accepted]
    return given, [np.full_like(v, 77), state.copy()], {"scale_value": 0.5}


def chosen_keys(pick: Pick) -> Case:
    """Queries of some sequences, and the keys that each attends to, in pages or not."""
    batch, queries, heads = pick.of(1, 2), pick.of(1, 3), pick.of(1, 8, 32)
    keys, count = pick.of(40, 600), pick.of(3, 33)
    paged = pick.of(False, True)
    pages = -(-keys // 128)
    outer = (batch * pages, 128, 1) if paged else (batch, keys, 1)
    query, key = (
        pick.numbers(*each, 512, kind=BFLOAT16) for each in ((batch, queries, heads), outer)
    )
    ropes = [pick.numbers(*each, 64, kind=BFLOAT16) for each in ((batch, queries, heads), outer)]
    places = np.stack([pick.once(count, keys - queries) for _ in range(batch * queries)]).reshape(
        batch, queries, 1, count
    )
    table = np.arange(batch * pages)[::-1].astype(np.int32).reshape(batch, pages) if paged else None
    lengths = np.full(batch, keys, np.int32)
    given = [query, key, key, places.astype(np.int32), table, None, lengths, *ropes]
    return given, [np.full_like(query, 77)], {"scale_value": 0.05}


def indexed_keys(pick: Pick) -> Case:
    """Small heads of some queries, keys in pages or not, and weights of heads."""
    batch, queries, heads = pick.of(1, 2), pick.of(1, 3, 9), pick.of(1, 5, 16, 24)
    keys, paged = pick.of(30, 700, 1500), pick.of(False, True)
    pages = -(-keys // 128)
    outer = (batch * pages, 128, 1) if paged else (batch, keys, 1)
    query, key = (
        pick.numbers(*each, 128, kind=BFLOAT16) for each in ((batch, queries, heads), outer)
    )
    table = np.arange(batch * pages)[::-1].astype(np.int32).reshape(batch, pages) if paged else None
    given = [query, key, pick.numbers(batch, queries, heads, kind=pick.of(BFLOAT16, np.float32)),
             None, np.full(batch, keys, np.int32), table]  # fmt: skip
    count = pick.of(8, 300)
    return given, [np.full((batch, queries, 1, count), 77, np.int32)], {"sparse_count": count}


def likely_logits(pick: Pick) -> Case:
    """Sorted rows and their places, with limits of one kind or both."""
    rows, length, kind = pick.size(40), pick.of(9, 100, 700), pick.half()
    logits = pick.numbers(rows, length, kind=kind)
    order = np.argsort(logits.astype(np.float64), -1, kind="stable")
    limits = pick.of((True, True), (True, False), (False, True))
    p = np.full(rows, 0.7, kind) if limits[0] else None
    k = np.full(rows, pick.of(1, 5, length), np.int32) if limits[1] else None
    given = [np.take_along_axis(logits, order, -1), order.astype(np.int32), p, k, logits]
    return given, [np.full_like(logits, 77)], {}


def convolved_rows(pick: Pick) -> Case:
    """Rows of some sequences, taps, and states in places of their own."""
    update, taps, channels = pick.of(0, 1), pick.of(2, 3, 4), pick.of(16, 48, 400)
    lengths = np.array([pick.of(0, 1, 3, 21) for _ in range(pick.of(1, 3))])
    lengths[-1] += lengths[-1] == 0
    count, kind = len(lengths), pick.half()
    x, weight = (pick.numbers(n, channels, kind=kind) for n in (int(lengths.sum()), taps))
    bias = pick.of(None, pick.numbers(channels, kind=kind))
    states = pick.numbers(count, taps, channels, kind=kind)
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    begun = None if update else pick.of(None, np.arange(count, dtype=np.int32) % 2)
    given = [x, weight, bias, states, ends, np.arange(count, dtype=np.int32)[::-1].copy(), begun]
    return given, [np.full_like(x, 77), states.copy()], {"runMode": update, "activationMode": 1}


def turned_batches(pick: Pick) -> Case:
    """Matrices that lie beside each other, on the left or in the result alone."""
    batch, m, k, n = pick.of(1, 3, 8), pick.size(67), pick.size(67), pick.size(67)
    kind, rows_first, turned = pick.half(), pick.of(False, True), pick.of(False, True)
    x = pick.numbers(*((m, batch, k) if rows_first else (batch, m, k)), kind=kind)
    weight = pick.numbers(batch, *((n, k) if turned else (k, n)), kind=kind)
    said = {"perm_x1": [1, 0, 2] if rows_first else [0, 1, 2],
            "perm_x2": [0, 2, 1] if turned else [0, 1, 2], "perm_y": [1, 0, 2]}  # fmt: skip
    return [x, weight], [np.full((m, batch, n), 77, kind)], said


CASES: dict[str, Callable[[Pick], Case]] = {
    "TransposeBatchMatMul": turned_batches,
    "CausalConv1d": convolved_rows,
    "ApplyTopKTopPWithSorted": likely_logits,
    "SparseFlashAttention": chosen_keys,
    "LightningIndexer": indexed_keys,
    "RecurrentGatedDeltaRule": states_of_tokens,
    "ChunkGatedDeltaRule": states_of_prompts,
    **dict.fromkeys(("MoeDistributeDispatch", "MoeDistributeDispatchV2"), sent_out),
    **dict.fromkeys(("MoeDistributeCombine", "MoeDistributeCombineV2"), sent_back),
    **{
        name: partial(gradient_of_routed, op_type=name)
        for name in (
            *("MoeFinalizeRoutingV2Grad", "MoeTokenPermuteGrad", "MoeTokenUnpermuteGrad"),
            "MoeInitRoutingV2Grad",
        )
    },
    "InterleaveRope": neighbours,
    "RopeWithSinCosCache": cached_angles,
    "LSTM": layer,
    "AttentionUpdate": merged_parts,
    "MlaProlog": latent_queries,
    "MlaPrologV2": partial(cached_queries, index_first=True),
    "MlaPrologV3": partial(cached_queries, index_first=False),
    "MoeGatingTopK": gating_in_groups,
    "MoeGatingTopKHash": hashed_gating,
    "TopKTopPSample": sampled_tokens,
    "InplacePartialRotaryMul": partly_turned,
    "MoeGatingTopKSoftmax": gating,
    "MoeGatingTopKSoftmaxV2": partial(gating, second=True),
    "MoeTokenUnpermute": routed_home,
    **{
        name: partial(routed, op_type=name)
        for name in (
            *("MoeInitRouting", "MoeInitRoutingV2", "MoeInitRoutingQuantV2", "MoeInitRoutingV3"),
            "MoeInitRoutingQuant",
            "MoeTokenPermute",
        )
    },
    **dict.fromkeys(("GroupedMatmulSwigluQuant", "GroupedMatmulSwigluQuantV2"), gated_product),
    **{name: partial(recurrent, op_type=name) for name in ("DynamicRNN", "DynamicGRUV2", "Gru")},
}
