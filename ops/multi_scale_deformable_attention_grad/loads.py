"""What every core has to do, brought to few kinds of load that are simulated once each.

How many points of each kind a core has differs from core to core. The slowest core is kept as it
is. The others do what the slowest one does, less as much as they move less on average: whole tasks,
and points of the last one. Cores in step with each other let the engine see the repetition.
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


def deal(tiling: Tiling, mixes: Sequence[Mix]) -> tuple[Load, ...]:
    """The load of every core."""
    slowest = max(mixes, key=lambda mix: _weigh(_TIME, mix))
    parts = _parts(tiling, mixes.index(slowest), slowest)
    others = [mix for mix in mixes if mix != slowest and mix.total]
    full = less = Load(_without_nothing(parts))
    if others:
        moved = sum(_weigh(_ROWS, mix) for mix in others) / len(others)
        less = Load(_without_nothing(_fewer(parts, _weigh(_ROWS, slowest) - moved)))
    idle = Load(())
    return tuple(full if mix == slowest else less if mix.total else idle for mix in mixes)


def _weigh(weights: Mix, mix: Mix) -> int:
    return sum(weight * count for weight, count in zip(weights, mix, strict=True))


def _parts(tiling: Tiling, block: int, mix: Mix) -> list[Part]:
    """Tasks at the end of a plane, whole tasks, and one task with the points left; may be none."""
    last = tiling.last_blocks_of(block)
    whole = len(tiling.tasks_of(block)) - last
    numbers = (
        (last - (not whole), tiling.last_queries),
        (whole - bool(whole), tiling.queries_per_task),
    )
    parts = [
        Part(tasks, queries, Mix(*(each * queries // mix.total for each in mix)))
        for tasks, queries in numbers
    ]
    done = [sum(part.tasks * part.mix[kind] for part in parts) for kind in range(len(mix))]
    rest = Mix(*(count - before for count, before in zip(mix, done, strict=True)))
    for index, part in enumerate(parts):
        parts[index], rest = _filled(part, mix, rest)
    return [*parts, Part(1, numbers[bool(whole)][1], rest)]


def _filled(part: Part, mix: Mix, rest: Mix) -> tuple[Part, Mix]:
    """The part with as many points as queries where ``rest`` has them, and what that leaves.

    Kinds come in the order of what rounding down has cost them. Otherwise the last task would get
    all that was cut off of the others: several times its own points.
    """
    lost = sorted(range(len(mix)), key=lambda kind: -(mix[kind] * part.queries % mix.total))
    counts, left = list(part.mix), list(rest)
    for kind in lost[: part.queries - sum(counts)]:
        if 0 < part.tasks <= left[kind]:
            counts[kind] += 1
            left[kind] -= part.tasks
    return replace(part, mix=Mix(*counts)), Mix(*left)


def _fewer(parts: list[Part], rows: float) -> list[Part]:
    """The same parts moving ``rows`` rows less: fewer tasks, and points outside in the last one."""
    *loops, final = parts
    most = max(loops, key=lambda part: part.tasks)
    each = max(1, _weigh(_ROWS, most.mix))
    dropped = min(most.tasks, int(rows / each))
    rest = rows - dropped * each
    moved_out = min(final.mix.interior, round(rest / (_ROWS.interior - _ROWS.outside)))
    mix = final.mix._replace(
        interior=final.mix.interior - moved_out, outside=final.mix.outside + moved_out
    )
    fewer = replace(most, tasks=most.tasks - dropped)
    return [*(fewer if part is most else part for part in loops), replace(final, mix=mix)]


def _without_nothing(parts: list[Part]) -> tuple[Part, ...]:
    return tuple(part for part in parts if part.tasks)
