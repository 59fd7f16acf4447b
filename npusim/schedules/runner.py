"""Runs the steps of a formula on a core: what all schedules that have a formula share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from npusim.ascendc.mistakes import on_behalf
from npusim.schedules.buffers import endings
from npusim.schedules.formula import Quantity, Share, Step, Term

if TYPE_CHECKING:
    from npusim.ascendc.core import Core
    from npusim.ascendc.tensors import LocalTensor

    Values = dict[Term, LocalTensor]
    Target = Callable[[Term, list[LocalTensor]], LocalTensor]
    Apply = Callable[[Core, Step, LocalTensor, list[LocalTensor]], None]


def apply_step(core: Core, step: Step, dst: LocalTensor, sources: list[LocalTensor]) -> None:
    """The instruction of a step, on tiles that have the shapes it takes."""
    step.call(core, dst, *sources, *step.extras)


class Runner:
    """A formula on one core: its single elements are read, and computed with, once.

    ``apply`` issues a step's instruction, where that takes more than its operands' tiles. In rows
    of ``columns`` elements shares of a row are numbers.
    """

    def __init__(
        self, core: Core, steps: Sequence[Step], apply: Apply = apply_step, *, columns: int = 1
    ) -> None:
        self.core, self._apply = core, apply
        numbers: dict[object, object] = {}
        self._told: dict[Step, Step] = {}  # steps with their numbers
        for step in steps:
            for extra in step.extras:
                if isinstance(extra, Quantity) and extra not in numbers:
                    numbers[extra] = extra.evaluate(core)
                elif isinstance(extra, Share):
                    numbers[extra] = extra.of / columns
            if not numbers.keys().isdisjoint(step.extras):
                extras = tuple([numbers.get(extra, extra) for extra in step.extras])
                self._told[step] = Step(step.call, step.target, step.sources, extras, step.site)

    def step(self, step: Step, values: Values, target: Target) -> None:
        """One step; ``target`` finds room for its result, which joins the ``values``."""
        sources = [values[source] for source in step.sources]
        result = values[step.target] = target(step.target, sources)
        told = self._told.get(step, step) if self._told else step
        if step.site:
            with on_behalf(step.site):
                self._apply(self.core, told, result, sources)
        else:
            self._apply(self.core, told, result, sources)

    def run(
        self,
        steps: Sequence[Step],
        values: Values,
        target: Target,
        used: Callable[[Term], None] = lambda _: None,
        ended: Sequence[Sequence[Term]] | None = None,
    ) -> None:
        """Steps in their order; ``used`` is told of each value after its last use among them.

        These are ``ended`` after each step, for who knows them already.
        """
        for step, after in zip(steps, ended or endings(steps), strict=True):
            self.step(step, values, target)
            for term in after:
                used(term)
