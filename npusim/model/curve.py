"""A model at several batches: how its rate grows, and which batch is best under a latency limit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npusim.model.results import StepResult


@dataclass(frozen=True)
class Curve:
    """The steps of one model on one chip, by batch; `within_us` is the limit of their latency."""

    results: tuple[StepResult, ...]
    within_us: float | None = None

    @property
    def best(self) -> StepResult | None:
        """The step with the highest rate that keeps the limit and fits the memory; None if none."""
        within = self.within_us
        fitting = [
            each
            for each in self.results
            if each.memory.fits and (within is None or each.duration_us <= within)
        ]
        return max(fitting, key=lambda each: each.items_per_s or 0.0, default=None)


def curves(results: Iterable[StepResult], within_us: float | None) -> Sequence[Curve]:
    """The curves of steps of one model, a curve for each chip in the order in which they come."""
    by_chip: dict[str, list[StepResult]] = {}
    for each in results:
        by_chip.setdefault(each.soc, []).append(each)
    return [Curve(tuple(steps), within_us) for steps in by_chip.values()]
