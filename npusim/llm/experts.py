"""The mixture of experts of a layer on one rank: gate, routing, grouped products, sums.

Tokens are taken to spread evenly over experts. With expert parallelism every rank sends its share
of tokens to the ranks of their experts and gets results back; without it each expert is cut over
the tensor-parallel ranks.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from npusim.llm.work import part, tensor
from npusim.values.dtypes import FLOAT, INT8, INT32, INT64

if TYPE_CHECKING:
    from npusim.llm.architecture import Architecture
    from npusim.llm.layout import Layout
    from npusim.llm.parts import Experts
    from npusim.llm.projections import Projections


def mixture(to: Projections, model: Architecture, tokens: int, layout: Layout) -> None:
    """Everything between the norm in front of a layer of experts and its last exchange."""
    experts = model.experts
    if experts is None:
        return
    dealt = layout.experts > 1
    own = ceil(tokens / layout.tp) if dealt else tokens
    _gate(to, model.hidden, experts, own)
    rows = own * experts.active
    width = experts.width if dealt else max(1, experts.width // layout.tp)
    kind = to.precision.activations
    if dealt:
        sent = rows * model.hidden
        to.work.exchange("alltoall", layout.experts, sent * _sent_bytes(to), "dispatch")
    routed = own * layout.experts * experts.active / experts.count  # of one expert
    local = max(1, experts.count // layout.experts) if dealt else experts.count
    hit = _hit(local, experts, own * layout.experts if dealt else tokens)
    received = max(hit, round(routed * local)) if dealt else rows
    _grouped(to, received, hit, model.hidden, 2 * width)
    to.gate(received, width)
    _grouped(to, received, hit, width, model.hidden)
    if dealt:
        to.work.exchange("alltoall", layout.experts, rows * model.hidden * kind.itemsize, "combine")
    back = tensor(kind, own, model.hidden)
    to.work.run(part(
        "MoeFinalizeRoutingV2",
        (tensor(kind, rows, model.hidden), tensor(INT32, rows), None, None, None,
         tensor(kind, own, experts.active), tensor(INT32, own, experts.active)),
        (back,), drop_pad_mode=0,
    ))  # fmt: skip
    if experts.shared_width:
        to.feed_forward(own, model.hidden, experts.shared_width // (1 if dealt else layout.tp) or 1)


def _gate(to: Projections, hidden: int, experts: Experts, tokens: int) -> None:
    kind = to.precision.activations
    to.product(tokens, hidden, experts.count, plain=True)
    chosen = tensor(INT32, tokens, experts.active)
    to.work.run(
        part("MoeGatingTopKSoftmax", (tensor(kind, tokens, experts.count),),
             (tensor(kind, tokens, experts.active), chosen, chosen), k=experts.active),
        part("MoeInitRoutingV2", (tensor(kind, tokens, hidden), chosen),
             (tensor(kind, tokens * experts.active, hidden),
              tensor(INT32, tokens * experts.active), tensor(INT32, experts.count)),
             active_num=tokens * experts.active, expert_num=experts.count),
    )  # fmt: skip


def _grouped(to: Projections, rows: int, groups: int, depth: int, columns: int) -> None:
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
    scale = tensor(FLOAT, groups, columns)
    to.work.run(
        part("DynamicQuant", (tensor(kind, rows, depth),), (x, per_row)),
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
