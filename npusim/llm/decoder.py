"""A step of a decoder on one rank, from tokens to samples: every task and every exchange."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from npusim.llm.attention import crossed_attention, grouped_attention, latent_attention
from npusim.llm.experts import mixture
from npusim.llm.layout import shares_rows
from npusim.llm.linear import linear_attention
from npusim.llm.projections import Projections
from npusim.llm.sampling import USUAL, Sampling, sampled
from npusim.llm.seeing import seen
from npusim.llm.work import Work, part, tensor
from npusim.values.dtypes import FLOAT, INT32

if TYPE_CHECKING:
    from npusim.hardware import Profile
    from npusim.llm.architecture import Architecture
    from npusim.llm.layout import Layout
    from npusim.llm.parts import Block, Mixer
    from npusim.llm.popularity import Popularity
    from npusim.llm.precision import Precision
    from npusim.llm.workload import Batch


def work_of(
    model: Architecture,
    chip: Profile,
    layout: Layout,
    precision: Precision,
    batch: Batch,
    *,
    block: int,
    sampling: Sampling = USUAL,
    popularity: Popularity | None = None,
) -> Work:
    """The work of one rank of every stage of the pipeline, one after the other."""
    work = Work(chip)
    gelu = model.activation == "gelu"
    to = Projections(work, precision, gelu=gelu, gated=model.gated, popularity=popularity)
    if model.tower is not None and batch.patches:
        work.part = "tower"
        seen(to, model.tower, batch, layout.tp, 0 if model.crossed else model.hidden)
    work.part = "embeddings"
    _embed(to, model, batch, layout)
    for block_of in model.stack:
        work.times = block_of.count
        _layer(to, model, batch, layout, block, block_of)
    if batch.drafted and model.drafts:
        _draft(to, model, batch, layout, block)
    work.times = layout.pp - 1
    sent = batch.tokens * model.hidden * precision.activations.itemsize
    if layout.pp > 1:
        work.exchange("sendrecv", 2, sent / layout.tp, "next stage", apart=layout.tp)
    work.times = 1
    work.part = "head"
    _head(to, model, batch, layout, sampling=sampling)
    return work


def _draft(to: Projections, model: Architecture, batch: Batch, layout: Layout, block: int) -> None:
    """The layer that proposes tokens, once for each of them: a token and its state beside it."""
    to.work.part, to.work.times = "draft", batch.drafted
    rows, columns = batch.sequences, ceil(model.vocabulary / layout.tp)
    to.product(batch.tokens, 2 * model.hidden, model.hidden, plain=True)
    _layer(to, model, batch, layout, block, model.stack[-1])
    to.product(rows, model.hidden, columns, plain=True)
    sent = rows * columns * to.precision.activations.itemsize
    to.work.exchange("allgather", layout.tp, sent, "logits of drafts")
    sampled(to.work, Sampling(greedy=True), rows, model.vocabulary)


def _layer(
    to: Projections, model: Architecture, batch: Batch, layout: Layout, page: int, block: Block
) -> None:
    tokens, tp = batch.tokens, layout.tp
    shared = shares_rows(layout, tokens)
    rows = ceil(tokens / tp) if shared else tokens
    _mix(to, model, batch, layout, page, block.mixer, shared=shared)
    to.work.part = "experts" if block.mixed else "feed forward"
    for _ in range(model.norms - 2):
        to.norm(rows, model.hidden)
    to.norm(rows, model.hidden, added=True)
    if block.mixed and layout.experts > 1:
        if mixture(to, model, tokens, layout):
            _reduce(to, model, tokens, tp, shared=False)
        elif not shared:
            _gather(to, model, tokens, tp, shared=True)
        return
    _gather(to, model, tokens, tp, shared=shared)
    if block.mixed:
        mixture(to, model, tokens, layout)
    else:
        to.feed_forward(tokens, model.hidden, max(1, model.width // tp))
    _reduce(to, model, tokens, tp, shared=shared)


def _mix(
    to: Projections,
    model: Architecture,
    batch: Batch,
    layout: Layout,
    page: int,
    mixer: Mixer,
    *,
    shared: bool,
) -> None:
    """The first half of a layer: its norm, what mixes tokens, and the exchange of its sums."""
    tokens, tp = batch.tokens, layout.tp
    rows = ceil(tokens / tp) if shared else tokens
    to.work.part = {"linear": "linear attention", "window": "window attention"}.get(
        mixer, "sparse attention" if model.latent and model.latent.indexer else "attention"
    )
    to.norm(rows, model.hidden, added=True)
    _gather(to, model, tokens, tp, shared=shared)
    if mixer == "linear" and model.state is not None:
        linear_attention(to, model.state, model.hidden, batch, tp)
    elif model.latent is not None:
        latent_attention(to, model, batch, layout, page)
    else:
        window = model.window if mixer == "window" else 0
        grouped_attention(to, model, batch, layout, page, window)
    if model.crossed:
        crossed_attention(to, model, batch, tp)
    _reduce(to, model, tokens, tp, shared=shared)


def _gather(to: Projections, model: Architecture, tokens: int, tp: int, *, shared: bool) -> None:
    if shared:
        nbytes = ceil(tokens / tp) * model.hidden * to.precision.activations.itemsize
        to.work.exchange("allgather", tp, nbytes, "rows of norms", product="next")


def _reduce(to: Projections, model: Architecture, tokens: int, tp: int, *, shared: bool) -> None:
    nbytes = tokens * model.hidden * to.precision.activations.itemsize
    operation, sent = ("reducescatter", nbytes / tp) if shared else ("allreduce", nbytes)
    to.work.exchange(operation, tp, sent, "sums of layers", product="last")


def _embed(to: Projections, model: Architecture, batch: Batch, layout: Layout) -> None:
    kind, tokens = to.precision.activations, batch.tokens
    table = tensor(kind, ceil(model.vocabulary / layout.tp), model.hidden)
    rows, axis = tensor(INT32, tokens), tensor(INT32, 1)
    found = tensor(kind, tokens, model.hidden)
    to.work.run(part("GatherV2", (table, rows, axis), (found,), weights=(table,)))
    to.work.exchange("allreduce", layout.tp, tokens * model.hidden * kind.itemsize, "embeddings")


def _head(
    to: Projections, model: Architecture, batch: Batch, layout: Layout, *, sampling: Sampling
) -> None:
    """The last norm, logits of the last token of every sequence, and a sample of each."""
    rows, columns = batch.rows, ceil(model.vocabulary / layout.tp)
    to.norm(batch.tokens, model.hidden, added=True)
    if not model.head:
        return
    to.product(rows, model.hidden, columns, plain=True)
    kind = to.precision.activations
    to.work.exchange("allgather", layout.tp, rows * columns * kind.itemsize, "logits")
    logits = tensor(FLOAT, rows, model.vocabulary)
    to.work.run(part("Cast", (tensor(kind, rows, model.vocabulary),), (logits,)))
    sampled(to.work, sampling, rows, model.vocabulary)
