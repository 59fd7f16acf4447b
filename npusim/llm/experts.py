"""The mixture of experts of a layer on one rank: gate, routing, grouped products, sums.

Tokens are taken to spread evenly over experts, unless it is said how. With expert parallelism every
rank sends its share of tokens to the ranks of their experts and gets results back, by kernels of
their own where engines use these, else by AlltoAll; without it each expert is cut over the
tensor-parallel ranks.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any

from npusim.llm.work import part, tensor
from npusim.values.dtypes import FLOAT, INT8, INT32, INT64

if TYPE_CHECKING:
    from npusim.llm.architecture import Architecture
    from npusim.llm.layout import Layout
    from npusim.llm.parts import Experts
    from npusim.llm.projections import Projections

_MOST_SENT = 512  # tokens of a chip that MoeDistributeDispatch takes
_ASSIST = 128  # numbers that it leaves for combining, for each row


def mixture(to: Projections, model: Architecture, tokens: int, layout: Layout) -> None:
    """Everything between the norm in front of a layer of experts and its last exchange."""
    experts = model.experts
    if experts is None:
        return
    dealt = layout.experts > 1
    own = ceil(tokens / layout.tp) if dealt else tokens
    width = experts.width if dealt else max(1, experts.width // layout.tp)
    routed = own * layout.experts * experts.active / experts.count  # of one expert
    local = max(1, experts.count // layout.experts) if dealt else experts.count
    together = own * layout.experts if dealt else tokens
    hit, times = _hit(local, experts, together), 1.0
    if to.popularity is not None:
        most = to.popularity.busiest(experts.count, experts.active, layout.experts, together)
        hit, times = max(1, round(most.hit)), most.times
    rows = own * experts.active
    received = max(hit, round(times * routed * local)) if dealt else rows
    fused = dealt and _in_kernels(to, experts, own, layout)
    _choose(to, model.hidden, experts, own)
    if fused:
        _dispatch(to, model.hidden, experts, own, received, layout)
    else:
        _copy_out(to, model.hidden, experts, own)
    if dealt and not fused:
        sent = times * rows * model.hidden
        to.work.exchange("alltoall", layout.experts, sent * _sent_bytes(to), "dispatch")
    _grouped(to, received, hit, model.hidden, 2 * width, comes_quantised=fused)
    to.gate(received, width)
    _grouped(to, received, hit, width, model.hidden)
    if fused:
        _combine(to, model.hidden, experts, own, received, layout)
    else:
        kind = to.precision.activations
        if dealt:
            nbytes = times * rows * model.hidden * kind.itemsize
            to.work.exchange("alltoall", layout.experts, nbytes, "combine")
        _copy_back(to, model.hidden, experts, own)
    if experts.shared_width:
        to.feed_forward(own, model.hidden, experts.shared_width // (1 if dealt else layout.tp) or 1)


def _in_kernels(to: Projections, experts: Experts, own: int, layout: Layout) -> bool:
    """Whether vllm-ascend sends tokens by MoeDistributeDispatch: on A3, up to what that takes.

    Source: vllm_ascend/ascend_forward_context.py, select_moe_comm_method and capacity of MC2.
    """
    fits = own <= _MOST_SENT and experts.count % layout.experts == 0
    return to.work.chip.family == "A3" and fits


def _said(experts: Experts, layout: Layout) -> dict[str, Any]:
    return {"ep_world_size": layout.experts, "ep_rank_id": 0, "moe_expert_num": experts.count}


def _dispatch(
    to: Projections, hidden: int, experts: Experts, own: int, received: int, layout: Layout
) -> None:
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


def _combine(
    to: Projections, hidden: int, experts: Experts, own: int, received: int, layout: Layout
) -> None:
    kind, pairs = to.precision.activations, (own, experts.active)
    kernel = part(
        "MoeDistributeCombineV2",
        (tensor(kind, received, hidden), tensor(INT32, *pairs),
         tensor(INT32, received * _ASSIST), tensor(INT32, experts.count), tensor(FLOAT, *pairs)),
        (tensor(kind, own, hidden),), **_said(experts, layout),
    )  # fmt: skip
    nbytes = own * experts.active * hidden * kind.itemsize
    to.work.exchange(kernel.task.op_type, layout.experts, nbytes, "combine", kernel=kernel)


def _copy_back(to: Projections, hidden: int, experts: Experts, own: int) -> None:
    """The rows of each token, weighed and added up."""
    kind, rows = to.precision.activations, own * experts.active
    to.work.run(part(
        "MoeFinalizeRoutingV2",
        (tensor(kind, rows, hidden), tensor(INT32, rows), None, None, None,
         tensor(kind, own, experts.active), tensor(INT32, own, experts.active)),
        (tensor(kind, own, hidden),), drop_pad_mode=0,
    ))  # fmt: skip


def _choose(to: Projections, hidden: int, experts: Experts, tokens: int) -> None:
    """The gate."""
    kind = to.precision.activations
    to.product(tokens, hidden, experts.count, plain=True)
    chosen = tensor(INT32, tokens, experts.active)
    to.work.run(
        part("MoeGatingTopKSoftmax", (tensor(kind, tokens, experts.count),),
             (tensor(kind, tokens, experts.active), chosen, chosen), k=experts.active),
    )  # fmt: skip


def _copy_out(to: Projections, hidden: int, experts: Experts, tokens: int) -> None:
    """A row for every choice of a token, in the order of experts."""
    kind, rows = to.precision.activations, tokens * experts.active
    given = (tensor(kind, tokens, hidden), tensor(INT32, tokens, experts.active))
    made = (tensor(kind, rows, hidden), tensor(INT32, rows), tensor(INT32, experts.count))
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
