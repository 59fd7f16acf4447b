"""What every core has to do, brought to few kinds of load that are simulated once each.

How many points of each kind a core has differs from core to core. The slowest core is kept as it
is. Where tasks are many, the others do fewer tasks of the slowest core's kind, as many as move what
they move on average; else they do their own, averaged. All kinds of load share one mix of points
per task and leave the rest for the last one: cores in step with each other let the engine see the
repetition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from npusim.ops.multi_scale_deformable_attention_grad.points import Mix

if TYPE_CHECKING:
    from npusim.ops.multi_scale_deformable_attention_grad.tiling import Tiling

# Points with four corners, two, one, none: how long they take (roughly), rows that they move.
_TIME = Mix(6, 5, 4, 1)
_ROWS = Mix(9, 5, 3, 1)
_MANY_TASKS = 16  # per core: the error of a task more or less is small


@dataclass(frozen=True, slots=True)
class Part:
    """``tasks`` alike tasks of ``queries`` queries; ``mix`` counts the points of one of them."""

    tasks: int
    queries: int
    mix: Mix


@dataclass(frozen=True, slots=True)
class Load:
    """The tasks of a core, in order."""

    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class _Total:
    """A core's points and tasks: ``whole`` ones, and ``last`` ones at the end of their plane."""

    whole: int
    last: int
    mix: Mix


def deal(tiling: Tiling, mixes: Sequence[Mix]) -> tuple[Load, ...]:
    """The load of every core."""
    totals = [_total(tiling, block, mix) for block, mix in enumerate(mixes)]
    slowest = max(totals, key=lambda total: _weigh(_TIME, total.mix))
    if tiling.tasks_per_core < _MANY_TASKS:
        return _own_loads(tiling, _averaged(tiling, totals, slowest))
    load = _load(tiling, slowest, _per_task(tiling, [slowest]))
    rest = [total for total in totals if total != slowest] or [slowest]
    moved = sum(_weigh(_ROWS, total.mix) for total in rest) / len(rest)
    part = min(1.0, moved / _weigh(_ROWS, slowest.mix))
    fewer = replace(slowest, whole=round(slowest.whole * part), last=round(slowest.last * part))
    others = _load(tiling, fewer, _per_task(tiling, [slowest]), with_rest=False)
    return tuple(load if total == slowest else others for total in totals)


def _total(tiling: Tiling, block: int, mix: Mix) -> _Total:
    last = tiling.last_blocks_of(block)
    return _Total(len(tiling.tasks_of(block)) - last, last, mix)


def _weigh(weights: Mix, mix: Mix) -> int:
    return sum(weight * count for weight, count in zip(weights, mix, strict=True))


def _averaged(tiling: Tiling, totals: list[_Total], slowest: _Total) -> list[_Total]:
    """All cores with a full share of tasks but the slowest replaced by their average."""
    full = [total for total in totals if total.whole + total.last == tiling.tasks_per_core]
    others = [total for total in full if total != slowest]
    if not others:
        return totals
    counts = zip(*(total.mix for total in others), strict=True)
    last = round(sum(total.last for total in others) / len(others))
    mix = Mix(*(round(sum(each) / len(others)) for each in counts))
    average = _Total(tiling.tasks_per_core - last, last, mix)
    return [average if total in others else total for total in totals]


def _own_loads(tiling: Tiling, totals: list[_Total]) -> tuple[Load, ...]:
    """Every kind of core with its own points, in step as far as possible."""
    kinds = dict.fromkeys(totals, Load(()))
    busy = [total for total in kinds if total.whole + total.last]
    per_task = _per_task(tiling, busy)
    for total in busy:
        kinds[total] = _load(tiling, total, per_task)
    return tuple(kinds[total] for total in totals)


def _per_task(tiling: Tiling, totals: list[_Total]) -> tuple[Mix, Mix]:
    """Points that every task has at least, on every core: of whole tasks and of last ones."""
    shares = [_share(tiling, total) for total in totals]
    least = [min(share[kind] for share in shares) for kind in range(len(Mix._fields))]
    whole, last = (
        Mix(*(int(share * queries) for share in least))
        for queries in (tiling.queries_per_task, tiling.last_queries)
    )
    return whole, last


def _share(tiling: Tiling, total: _Total) -> tuple[float, ...]:
    """Points of each kind per query."""
    queries = total.whole * tiling.queries_per_task + total.last * tiling.last_queries
    return tuple(count / queries for count in total.mix)


def _load(
    tiling: Tiling, total: _Total, per_task: tuple[Mix, Mix], *, with_rest: bool = True
) -> Load:
    """Tasks with the shared mixes, and one with the points that are left."""
    whole, last = per_task
    parts = [
        Part(total.whole, tiling.queries_per_task, whole),
        Part(total.last, tiling.last_queries, last),
    ]
    rest = Mix(
        *(
            count - total.whole * per_whole - total.last * per_last
            for count, per_whole, per_last in zip(total.mix, whole, last, strict=True)
        )
    )
    if with_rest and any(rest):
        index = 0 if total.whole else 1
        final = parts[index]
        parts[index] = replace(final, tasks=final.tasks - 1)
        mix = Mix(*(count + more for count, more in zip(final.mix, rest, strict=True)))
        parts.append(replace(final, tasks=1, mix=mix))
    return Load(tuple(part for part in parts if part.tasks))
