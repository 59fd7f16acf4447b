"""What a model does with images or sound before its layers: the tower, and what merges patches."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from npusim.llm.attention import Heads, attend_all
from npusim.llm.projections import Projections
from npusim.llm.work import part, tensor

if TYPE_CHECKING:
    from npusim.llm.parts import Tower
    from npusim.llm.workload import Batch


def seen(to: Projections, tower: Tower, batch: Batch, tp: int, out: int) -> None:
    """All pictures of a step through the tower, and into a model that is `out` wide (0: as it is).

    Towers aren't quantised. Their heads are shared by ranks where that comes out even.
    """
    to = Projections(to.work, to.precision, gelu=not tower.gated, gated=tower.gated)
    rows, shared = batch.pictures * batch.patches, tp if tower.heads % tp == 0 else 1
    to.product(rows, tower.inputs, tower.hidden, plain=True)
    for count, near in (
        (tower.layers - tower.wide_layers if tower.near else 0, tower.near),
        (tower.wide_layers if tower.near else tower.layers, 0),
    ):
        if count:
            to.work.times = count
            _layer(to, tower, batch, near, shared)
    to.work.times = tower.mergers
    merged = batch.pictures * tower.tokens(batch.patches)
    into = tower.hidden * (1 if tower.pooled else tower.merged)
    if tower.projected:
        to.product(merged, into, tower.projected, plain=True)
        between = tensor(to.precision.activations, merged, tower.projected)
        to.work.run(part("Gelu", (between,), (between,)))
    if out:
        to.product(merged, tower.projected or into, out, plain=True)
    to.work.times = 1


def _layer(to: Projections, tower: Tower, batch: Batch, near: int, tp: int) -> None:
    rows, size = batch.pictures * batch.patches, tower.hidden // tower.heads
    heads = Heads(tower.heads // tp, tower.heads // tp, size)
    width, sent = heads.queries * size, rows * tower.hidden * to.precision.activations.itemsize
    to.norm(rows, tower.hidden)
    to.product(rows, tower.hidden, 3 * width, plain=True)
    if near and near < batch.patches:
        attend_all(to, heads, ceil(rows / near), near, near)
    else:
        attend_all(to, heads, batch.pictures, batch.patches, batch.patches)
    to.product(rows, width, tower.hidden, plain=True)
    to.work.exchange("allreduce", tp, sent, "sums of the tower", product="last")
    to.norm(rows, tower.hidden, added=True)
    to.feed_forward(rows, tower.hidden, tower.width // tp, plain=True)
    to.work.exchange("allreduce", tp, sent, "sums of the tower", product="last")
