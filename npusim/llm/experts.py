"""The mixture of experts of a layer on one rank: gate, routing, grouped products, sums.

Tokens are taken to spread evenly over experts, unless it is said how. With expert parallelism every
rank sends its share of tokens to the ranks of their experts and gets results back, by kernels of
their own where engines use these, else by AlltoAll, or all ranks gather all tokens; without it each
expert is cut over the tensor-parallel ranks.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

from npusim.llm.layout import shares_rows
from npusim.llm.work import part, tensor
from npusim.values.dtypes import FLOAT, INT8, INT32, INT64

if TYPE_CHECKING:
    from npusim.llm.architecture import Architecture
    from npusim.llm.layout import Layout
    from npusim.llm.parts import Experts
    from npusim.llm.projections import Projections

_MOST_SENT = 512  # tokens of the largest captured graph, which buffers of kernels are made for
_LEAST_SENDING, _MOST_LOCAL = 16, 24  # ranks at least, experts of one at most, on A2
_ASSIST = 128  # numbers that it leaves for combining, for each row


def mixture(to: Projections, model: Architecture, tokens: int, layout: Layout) -> bool:
    """Everything between the norm in front of a layer of experts and its last exchange.

    Whether what ranks of tensor parallelism have are parts of sums, still to be added up.
    """
    experts = model.experts
    if experts is None:
        return False
    way = _way(to, experts, tokens, layout)
    dealt = layout.experts > 1
    own = tokens if way.whole else ceil(tokens / layout.tp)
    width = experts.width if dealt else max(1, experts.width // layout.tp)
    local = max(1, experts.count // layout.experts)
    together = own * (layout.dp if way.whole else layout.tp * layout.dp) if dealt else tokens
    hit, times = _hit(local, experts, together), 1.0
    if to.popularity is not None:
        most = to.popularity.busiest(experts.count, experts.active, layout.experts, together)
        hit, times = max(1, round(most.hit)), most.times
    received = own * experts.active
    if dealt:
        received = max(hit, round(times * together * experts.active / experts.count * local))
    rows = _Rows(own, received, times * own * experts.active)
    _send(to, model.hidden, experts, way, rows, layout)
    _grouped(to, received, hit, model.hidden, 2 * width, comes_quantised=way.name == "kernels")
    to.gate(received, width)
    _grouped(to, received, hit, width, model.hidden)
    _return(to, model.hidden, experts, way, rows, layout)
    if experts.shared_width:
        shares = layout.tp if way.whole else 1
        to.feed_forward(own, model.hidden, experts.shared_width // shares or 1)
    return way.whole and dealt


@dataclass(frozen=True)
class _Way:
    """How tokens get to their experts: by ``kernels``, ``alltoall``, ``allgather`` or not at all.

    With `whole` every rank of tensor parallelism begins with all tokens, else with its share.
    Tokens are gathered from so many `ranks`, which lie `apart`.
    """

    name: str
    whole: bool = False
    ranks: int = 1
    apart: int = 1


@dataclass(frozen=True)
class _Rows:
    """Tokens of a rank's `own`, rows that its experts have `received`, and choices `sent` away."""

    own: int
    received: int
    sent: float


def _way(to: Projections, experts: Experts, tokens: int, layout: Layout) -> _Way:
    """As vllm-ascend chooses it, by the product, the ranks and the tokens.

    A3 sends by MoeDistributeDispatch as many tokens as graphs are captured for, more by AlltoAll.
    A2 does the former on 16 ranks and more with few experts each (priced as AlltoAll here);
    elsewhere, and on Atlas inference products, ranks gather all tokens and take those of their
    experts. Source: vllm_ascend/ascend_forward_context.py, select_moe_comm_method and
    set_mc2_tokens_capacity; ops/fused_moe/prepare_finalize.py.
    """
    if layout.experts == 1:
        return _Way("", whole=True)
    fits = tokens <= _MOST_SENT and experts.count % layout.experts == 0
    if to.work.chip.family == "A3":
        return _Way("kernels" if fits else "alltoall")
    if layout.experts >= _LEAST_SENDING and experts.count / layout.experts <= _MOST_LOCAL and fits:
        return _Way("alltoall")
    if shares_rows(layout, tokens):
        return _Way("allgather", ranks=layout.experts)
    return _Way("allgather", whole=True, ranks=layout.dp, apart=layout.tp)


def _send(
    to: Projections, hidden: int, experts: Experts, way: _Way, rows: _Rows, layout: Layout
) -> None:
    """From the gate to rows in the order of experts, on the ranks that have these."""
    to.product(rows.own, hidden, experts.count, plain=True)
    each = hidden * _sent_bytes(to) + experts.count * to.precision.activations.itemsize
    to.work.exchange(
        "allgather", way.ranks, rows.own * each, "tokens of all ranks", apart=way.apart
    )
    gathered = rows.own * way.ranks
    _choose(to, experts, gathered)
    if way.name == "kernels":
        _dispatch(to, hidden, experts, rows, layout)
        return
    routed = rows.received if way.name == "allgather" else rows.own * experts.active
    _copy_out(to, hidden, experts, gathered, routed)
    if way.name == "alltoall":
        nbytes = rows.sent * hidden * _sent_bytes(to)
        to.work.exchange("alltoall", layout.experts, nbytes, "dispatch")


def _return(
    to: Projections, hidden: int, experts: Experts, way: _Way, rows: _Rows, layout: Layout
) -> None:
    """From rows of experts to the sums of each token."""
    each = hidden * to.precision.activations.itemsize
    if way.name == "kernels":
        _combine(to, hidden, experts, rows, layout)
        return
    if way.name == "alltoall":
        to.work.exchange("alltoall", layout.experts, rows.sent * each, "combine")
    _copy_back(to, hidden, experts, rows.own * way.ranks)
    to.work.exchange(
        "reducescatter", way.ranks, rows.own * each, "sums of all experts", apart=way.apart
    )


def _said(experts: Experts, layout: Layout) -> dict[str, Any]:
    return {"ep_world_size": layout.experts, "ep_rank_id": 0, "moe_expert_num": experts.count}


def _dispatch(to: Projections, hidden: int, experts: Experts, rows: _Rows, layout: Layout) -> None:
    own, received = rows.own, rows.received
    kind, quantised = to.precision.activations, to.precision.quantised
    local = experts.count // layout.experts
    results = (
        tensor(INT8 if quantised else kind, received, hidden), tensor(FLOAT, received),
        tensor(INT32, received * _ASSIST), tensor(INT64, local),
        tensor(INT32, local * layout.experts),
    )  # fmt: skip
    kernel = part(
        "MoeDistributeDispatchV2",
        (tensor(kind, own, hidden), tensor(INT32, own, experts.active)), results,
        quant_mode=2 if quantised else 0, **_said(experts, layout),
    )  # fmt: skip
    nbytes = own * experts.active * hidden * _sent_bytes(to)
    to.work.exchange(kernel.task.op_type, layout.experts, nbytes, "dispatch", kernel=kernel)


def _combine(to: Projections, hidden: int, experts: Experts, rows: _Rows, layout: Layout) -> None:
    own, received = rows.own, rows.received
    kind, pairs = to.precision.activations, (own, experts.active)
    kernel = part(
        "MoeDistributeCombineV2",
        (tensor(kind, received, hidden), tensor(INT32, *pairs),
         tensor(INT32, received * _ASSIST), tensor(INT32, experts.count), tensor(FLOAT, *pairs)),
        (tensor(kind, own, hidden),), **_said(experts, layout),
    )  # fmt: skip
    nbytes = own * experts.active * hidden * kind.itemsize
    to.work.exchange(kernel.task.op_type, layout.experts, nbytes, "combine", kernel=kernel)


def _copy_back(to: Projections, hidden: int, experts: Experts, tokens: int) -> None:
    """The rows of each token, weighed and added up."""
    kind, rows = to.precision.activations, tokens * experts.active
    to.work.run(part(
        "MoeFinalizeRoutingV2",
        (tensor(kind, rows, hidden), tensor(INT32, rows), None, None, None,
         tensor(kind, tokens, experts.active), tensor(INT32, tokens, experts.active)),
        (tensor(kind, tokens, hidden),), drop_pad_mode=0,
    ))  # fmt: skip


def _choose(to: Projections, experts: Experts, tokens: int) -> None:
    """The experts of each token, by what the gate says."""
    kind = to.precision.activations
    chosen = tensor(INT32, tokens, experts.active)
    to.work.run(
        part("MoeGatingTopKSoftmax", (tensor(kind, tokens, experts.count),),
             (tensor(kind, tokens, experts.active), chosen, chosen), k=experts.active),
    )  # fmt: skip


def _copy_out(to: Projections, hidden: int, experts: Experts, tokens: int, rows: int) -> None:
    """A row for every choice of a token, or those of a rank's own experts, in their order."""
    kind = to.precision.activations
    given = (tensor(kind, tokens, hidden), tensor(INT32, tokens, experts.active))
    chosen = tensor(INT32, tokens * experts.active)
    made = (tensor(kind, rows, hidden), chosen, tensor(INT32, experts.count))
    to.work.run(part("MoeInitRoutingV2", given, made, active_num=rows, expert_num=experts.count))


def _grouped(
    to: Projections,
    rows: int,
    groups: int,
    depth: int,
    columns: int,
    *,
    comes_quantised: bool = False,
) -> None:
    """A product for each expert that has rows, in one launch."""
    precision = to.precision
    kind, stored = precision.activations, precision.weights
    weight, y = tensor(stored, groups, depth, columns), tensor(kind, rows, columns)
    lists = tensor(INT64, groups)
    if not precision.quantised:
        inputs = (tensor(kind, rows, depth), weight, *(None,) * 5, lists)
        to.work.run(part("GroupedMatmul", inputs, (y,), weights=(weight,), group_type=0))
        return
    x, per_row = tensor(INT8, rows, depth), tensor(FLOAT, rows)
    scale, weight = tensor(FLOAT, groups, columns), to.in_fractals(depth, columns, groups)
    if not comes_quantised:
        to.work.run(part("DynamicQuant", (tensor(kind, rows, depth),), (x, per_row)))
    to.work.run(
        part("GroupedMatmul", (x, weight, None, scale, *(None,) * 3, lists, per_row), (y,),
             weights=(weight,), group_type=0),
    )  # fmt: skip


def _hit(local: int, experts: Experts, tokens: int) -> int:
    """How many of the `local` experts some token goes to, on average, by an even chance."""
    missed = (1 - experts.active / experts.count) ** tokens
    return max(1, round(local * (1 - missed)))


def _sent_bytes(to: Projections) -> int:
    """Bytes of a number on its way to an expert: quantised before it is sent where it will be."""
    return 1 if to.precision.quantised else to.precision.activations.itemsize
