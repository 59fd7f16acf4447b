"""What every core has to do, brought to few kinds of load, so that cores with like work are simulated once.

How many points of each kind a core has differs from core to core. The slowest core is kept as it is, the others take
their average. All kinds of load share one mix of points per task and keep what is left over for their last task:
cores in step with each other let the engine see the repetition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from npusim.ops.multi_scale_deformable_attention_grad.points import Mix

if TYPE_CHECKING:
    from npusim.ops.multi_scale_deformable_attention_grad.tiling import Tiling

# What points weigh in the search for the slowest core: transfers of one with four corners, two, one and none.
_WEIGHTS = Mix(5, 3, 2, 1)


@dataclass(frozen=True, slots=True)
class Part:
    """``tasks`` alike tasks of ``queries`` queries each; ``mix`` counts the points of one of them."""

    tasks: int
    queries: int
    mix: Mix


@dataclass(frozen=True, slots=True)
class Load:
    """The tasks of a core, in order."""

    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class _Total:
    """A core's tasks and points: ``whole`` tasks with all queries, ``last`` ones at the end of their plane."""

    whole: int
    last: int
    mix: Mix


def deal(tiling: Tiling, mixes: Sequence[Mix]) -> tuple[Load, ...]:
    """The load of every core."""
    totals = _few([_total(tiling, block, mix) for block, mix in enumerate(mixes)], tiling)
    kinds = {total: Load(()) for total in totals}
    busy = [total for total in kinds if total.mix.total]
    queries = tiling.queries_per_task
    shared = [min(total.mix[kind] / total.mix.total for total in busy) for kind in range(len(Mix._fields))]
    whole, last = (Mix(*(int(share * n) for share in shared)) for n in (queries, tiling.last_queries))
    for total in busy:
        kinds[total] = _load(tiling, total, whole, last)
    return tuple(kinds[total] for total in totals)


def _total(tiling: Tiling, block: int, mix: Mix) -> _Total:
    last = tiling.last_blocks_of(block)
    return _Total(len(tiling.tasks_of(block)) - last, last, mix)


def _few(totals: list[_Total], tiling: Tiling) -> list[_Total]:
    """Replace all full cores but the slowest by their average; cores that come too late for a full share stay."""
    full = [block for block in range(len(totals)) if len(tiling.tasks_of(block)) == tiling.tasks_per_core]
    slowest = max(full, key=lambda block: _weight(totals[block].mix))
    others = [totals[block] for block in full if block != slowest]
    if not others:
        return totals
    average = _average(others, tiling)
    return [
        average if block in full and block != slowest else total for block, total in enumerate(totals)
    ]


def _weight(mix: Mix) -> int:
    return sum(weight * count for weight, count in zip(_WEIGHTS, mix, strict=True))


def _average(totals: list[_Total], tiling: Tiling) -> _Total:
    count = len(totals)
    last = round(sum(total.last for total in totals) / count)
    whole = tiling.tasks_per_core - last
    touching = [round(sum(total.mix[kind] for total in totals) / count) for kind in range(3)]
    queries = whole * tiling.queries_per_task + last * tiling.last_queries
    return _Total(whole, last, Mix(*touching, max(0, queries - sum(touching))))


def _load(tiling: Tiling, total: _Total, whole: Mix, last: Mix) -> Load:
    """Tasks with the shared mixes, and one with the points that are left."""
    rest = Mix(
        *(
            count - total.whole * per_whole - total.last * per_last
            for count, per_whole, per_last in zip(total.mix, whole, last, strict=True)
        )
    )
    parts = [Part(total.whole, tiling.queries_per_task, whole), Part(total.last, tiling.last_queries, last)]
    if rest.total:
        index = 0 if total.whole else 1
        final = parts[index]
        parts[index] = Part(final.tasks - 1, final.queries, final.mix)
        mix = Mix(*(count + more for count, more in zip(final.mix, rest, strict=True)))
        parts.append(Part(1, final.queries, mix))
    return Load(tuple(part for part in parts if part.tasks))
