"""Which buffers the values of a formula occupy: by their lifetimes, as a compiler assigns them.

Operands and results have queues of their own. Every other value gets the buffer of one that
nobody needs any more, in place where the widths agree, and a new one only where there is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from npusim.schedules.formula import Step, Term


@dataclass(slots=True)
class BufferPlan:
    """``places`` of values among the buffers, ``widths`` (bytes per element) of the buffers.

    ``last_use`` is the step after which a value is no longer needed. All of it follows from the
    steps and results, which kernels have beside it: nothing else tells kernels apart.
    """

    follows_from: ClassVar[tuple[()]] = ()
    places: dict[Term, int] = field(default_factory=dict)
    widths: list[int] = field(default_factory=list)
    last_use: dict[Term, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls, steps: Sequence[Step], results: Sequence[Term], kept: Sequence[Term] = ()
    ) -> BufferPlan:
        """Buffers for the values of ``steps`` but ``results``; ``kept`` are needed to the end."""
        plan = cls(last_use=last_use(steps))
        plan.last_use.update(dict.fromkeys(kept, len(steps)))
        held = set(results)
        free: list[int] = []
        for index, step in enumerate(steps):
            ending = [
                plan.places[source]
                for source in dict.fromkeys(step.sources)
                if plan.last_use[source] == index and source in plan.places
            ]
            if step.target not in held:
                plan._assign(step.target, free, ending)
            free += [place for place in ending if place != plan.places.get(step.target)]
            if plan.last_use[step.target] == index and step.target in plan.places:
                free.append(plan.places[step.target])
        return plan

    @property
    def bytes_per_element(self) -> int:
        """Bytes of all buffers together, per element of a tile."""
        return sum(self.widths)

    def _assign(self, term: Term, free: list[int], ending: list[int]) -> None:
        width = term.dtype.itemsize
        in_place = [place for place in ending if self.widths[place] == width]
        if in_place:
            self.places[term] = in_place[0]
            return
        if free:
            fitting = [place for place in free if self.widths[place] >= width]
            place = min(fitting or free, key=lambda each: abs(self.widths[each] - width))
            free.remove(place)
            self.widths[place] = max(self.widths[place], width)
        else:
            place = len(self.widths)
            self.widths.append(width)
        self.places[term] = place


def endings(steps: Sequence[Step]) -> list[tuple[Term, ...]]:
    """For each step the values, among those that it takes or makes, that nobody takes after it."""
    last = last_use(steps)
    sides = [dict.fromkeys((*step.sources, step.target)) for step in steps]
    return [tuple([e for e in each if last[e] == number]) for number, each in enumerate(sides)]


def last_use(steps: Sequence[Step]) -> dict[Term, int]:
    """The step after which nobody takes a value any more; at the earliest the one that makes it."""
    last: dict[Term, int] = {}
    for index, step in enumerate(steps):
        last[step.target] = index
        last.update(dict.fromkeys(step.sources, index))
    return last
