"""Formulas over rows: elementwise steps, folds of every row into one number, and what follows.

A value has a form: a tile of rows, a column (one number for each row), a line (one number for each
place in a row) or a single number. Where a row doesn't fit into the buffers its tiles go by several
times, once for every fold that has to be complete before the next step: :class:`Passes` says what
is computed when.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from npusim.ascendc.conversions import device_dtype
from npusim.ascendc.core import Core
from npusim.ascendc.folds import LARGEST, SUM, Fold
from npusim.ascendc.mistakes import site
from npusim.ascendc.rounding import RoundMode
from npusim.schedules.buffers import BufferPlan, endings
from npusim.schedules.formula import Call, Formula, Share, Step, Term
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.values.dtypes import DType


class Form(StrEnum):
    """What a value consists of."""

    TILE = "tile"
    COLUMN = "column"
    LINE = "line"
    NUMBER = "number"


@dataclass(eq=False, slots=True)
class Value(Term):
    """An operand or the result of a step, with its form."""

    form: Form = Form.TILE


# The steps that aren't element by element; each layout of rows has its own way of doing them.
FOLD = Core.reduce
SPREAD = Core.broadcast_column


@dataclass(slots=True)
class RowFormula(Formula):
    """Records steps on values of rows.

    ``spreads`` tells that columns are repeated to whole tiles before tiles meet them,
    ``in_fractals`` that rows lie in FRACTAL_NZ.
    """

    spreads: bool = False
    in_fractals: bool = False

    def operand(self, dtype: DType, form: Form = Form.TILE) -> Value:
        """A new value that isn't the result of a recorded step."""
        self._count += 1
        return Value(self._count, device_dtype(dtype), form)

    def sum(self, x: Term) -> Term:
        """The sum of every row."""
        return self._folded(x, SUM)

    def mean(self, x: Term) -> Term:
        """The mean of every row."""
        return self.mul(self.sum(x), Share(1.0))

    def largest(self, x: Term) -> Term:
        """The largest element of every row."""
        return self._folded(x, LARGEST)

    def rsqrt(self, x: Term) -> Term:
        """1 / square root, by a square root and a division, which is more exact than vrsqrt."""
        root = self.sqrt(x)
        return self.step(Core.div, (self._like(x, 1.0), root))

    def _folded(self, x: Term, fold: Fold) -> Term:
        target = self.operand(x.dtype, Form.COLUMN)
        self.steps.append(Step(FOLD, target, (x,), (fold,), site()))
        return target

    def _like(self, x: Term, number: float) -> Term:
        """A value of one number in the form of another."""
        target = self.operand(x.dtype, form_of(x))
        self.steps.append(Step(Core.duplicate, target, (), (number,), site()))
        return target

    def result(self, term: Term, dtype: DType, others: Sequence[Term | None]) -> Term:
        """``term`` in the type of an output, as a value that nobody else stores.

        A column that is needed further on is copied, and so is what isn't computed by a step.
        """
        stored = self.cast(term, dtype, RoundMode.CAST_RINT)
        maker = next((step for step in self.steps if step.target is stored), None)
        is_column = form_of(stored) is Form.COLUMN
        used = any(stored in step.sources for step in self.steps)
        if maker is None or stored in others or maker.call is FOLD or (is_column and used):
            return self.copied(stored)
        return stored

    def step(
        self,
        call: Call,
        sources: tuple[Term, ...],
        extras: tuple[object, ...] = (),
        dtype: DType | None = None,
    ) -> Term:
        forms = {form_of(source) for source in sources}
        form = next((each for each in Form if each in forms), Form.TILE)
        if form is Form.TILE and Form.COLUMN in forms and self.spreads:
            sources = tuple(self._spread(source) for source in sources)
        if form is Form.COLUMN and Form.LINE in forms:
            raise KernelError("formula", "a column and a line meet outside a tile")
        target = self.operand(dtype or sources[0].dtype, form)
        self.steps.append(Step(call, target, sources, extras, site()))
        return target

    def _spread(self, source: Term) -> Term:
        """A column repeated along the rows, by chips that have no operand for it."""
        if form_of(source) is not Form.COLUMN:
            return source
        for step in self.steps:
            if step.call is SPREAD and step.sources == (source,):
                return step.target
        target = self.operand(source.dtype)
        self.steps.append(Step(SPREAD, target, (source,), site=site()))
        return target


def form_of(term: Term) -> Form:
    """The form of a value."""
    return term.form if isinstance(term, Value) else Form.TILE


@lru_cache(maxsize=1 << 12)
def forms_of(step: Step) -> tuple[Form, ...]:
    """The forms of what a step takes and, at the end, of what it makes."""
    return (*map(form_of, step.sources), form_of(step.target))


class Pass(NamedTuple):
    """One time that the tiles of a row go by.

    ``before`` are steps on columns that come first, ``steps`` those on each tile; ``results`` are
    the values to be stored. ``taken`` are what steps take, ``ended`` what nobody takes after each,
    ``plan`` are the buffers of the tiles between.
    """

    before: tuple[Step, ...]
    steps: tuple[Step, ...]
    results: frozenset[Term]
    taken: frozenset[Term]
    ended: list[tuple[Term, ...]]
    plan: BufferPlan

    @classmethod
    def of(cls, before: Sequence[Step], steps: Sequence[Step], results: Sequence[Term]) -> Pass:
        """A pass of these steps."""
        taken = frozenset([source for step in steps for source in step.sources])
        plan = buffer_plan(steps, [each for each in results if form_of(each) is Form.TILE])
        return cls(tuple(before), tuple(steps), frozenset(results), taken, endings(steps), plan)


def buffer_plan(steps: Sequence[Step], results: Sequence[Term]) -> BufferPlan:
    """Buffers for the tiles that ``steps`` make, apart from the ``results``."""
    tiles = [
        Step(step.call, step.target, tuple([s for s in step.sources if form_of(s) is Form.TILE]))
        for step in steps
    ]
    others = [step.target for step in steps if form_of(step.target) is not Form.TILE]
    return BufferPlan.of(tiles, (*results, *others))


@dataclass(slots=True)
class Passes:
    """What is computed of a formula each time that the tiles go by; ``after`` comes last."""

    passes: list[Pass] = field(default_factory=list)
    after: tuple[Step, ...] = ()

    @classmethod
    def of(cls, steps: Sequence[Step], results: Sequence[Term]) -> Passes:
        """As few passes as the folds that depend on each other allow."""
        levels = _levels(steps)
        last = max(levels.values(), default=0)
        folds_of: dict[int, list[Step]] = {}
        columns_of: dict[int, list[Step]] = {}
        for step in steps:
            if step.call is FOLD:
                folds_of.setdefault(levels.get(step.sources[0], 0), []).append(step)
            elif form_of(step.target) is Form.COLUMN:
                columns_of.setdefault(levels[step.target], []).append(step)
        found = cls()
        for level in range(last + 1):
            tiles = [
                result
                for result in results
                if form_of(result) is Form.TILE and levels.get(result, 0) == level
            ]
            folds = folds_of.get(level, [])
            before = tuple(columns_of.get(level, ()))
            if not tiles and not folds:
                found.after += before
                continue
            roots = {*tiles, *(fold.sources[0] for fold in folds)}
            needed = {id(step) for step in (*_needed(steps, roots), *folds)}
            chosen = tuple([step for step in steps if id(step) in needed])
            found.passes.append(Pass.of(found.after + before, chosen, tiles))
            found.after = ()
        return found


def _levels(steps: Sequence[Step]) -> dict[Term, int]:
    """How many folds lie before each value."""
    levels: dict[Term, int] = {}
    for step in steps:
        below = max((levels.get(source, 0) for source in step.sources), default=0)
        levels[step.target] = below + (step.call is FOLD)
    return levels


def _needed(steps: Sequence[Step], roots: set[Term]) -> list[Step]:
    """The steps on tiles and lines that ``roots`` depend on."""
    wanted, needed = set(roots), []
    for step in reversed(steps):
        if step.target in wanted and form_of(step.target) is not Form.COLUMN:
            needed.append(step)
            wanted.update(step.sources)
    return needed
