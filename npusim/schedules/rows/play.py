"""Playing a row program on one core: rows that fit into UB, and rows that don't."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from npusim.ascendc.folds import Fold
from npusim.ascendc.queues import TBuf, TPosition, TQue
from npusim.schedules.rows.formula import FOLD, SPREAD, Form, Pass, form_of
from npusim.schedules.rows.layouts import Piece, RowLayout
from npusim.schedules.rows.program import COLUMN_SLOTS, Bound, RowProgram
from npusim.schedules.runner import Runner

if TYPE_CHECKING:
    from npusim.ascendc.core import Core
    from npusim.ascendc.loops import Index
    from npusim.ascendc.tensors import LocalTensor
    from npusim.schedules.buffers import BufferPlan
    from npusim.schedules.formula import Step, Term
    from npusim.schedules.runner import Target, Values

Place = tuple[Piece, "Index", int]  # rows, and which part of them


class RowRun:
    """Buffers of one core, and what happens to a piece of the rows."""

    def __init__(
        self,
        core: Core,
        layout: RowLayout,
        program: RowProgram,
        depth: int,
        *,
        in_place: bool = False,
    ) -> None:
        self.core, self.layout, self.program = core, layout, program
        self.depth, self._in_place = depth, in_place
        self._reserve_queues()
        self._reserve_buffers()
        self.runner = Runner(core, program.steps, self._apply, columns=layout.columns)
        self.lines: Values = {}
        self.totals: Values = {}  # what the pieces of rows so far are folded into
        if layout.whole:
            self._prepare_lines()

    def pieces(self, pieces: Iterable[Piece]) -> None:
        """Everything for all rows."""
        for each in pieces:
            self.piece(each)

    def piece(self, piece: Piece) -> None:
        """Everything for some rows."""
        if self.layout.whole:
            self._whole(piece)
        else:
            self._in_chunks(piece)

    def free_lines(self) -> None:
        """Lines are kept until the last row is done."""
        for term, queue in self.queues.items():
            if term in self.lines:
                queue.free_tensor(self.lines[term])

    # -- buffers -----------------------------------------------------------------------------------

    def _reserve_queues(self) -> None:
        self.queues: dict[Term, TQue] = {}
        program, layout = self.program, self.layout
        sides = ((program.operands, TPosition.VECIN), (program.results, TPosition.VECOUT))
        for side, position in sides:
            for bound in side:
                slots = 1 if bound.form is Form.LINE else self.depth
                queue = self.queues[bound.term] = TQue(
                    position, slots, f"{'xy'[position is TPosition.VECOUT]}{bound.index}"
                )
                size = layout.elements(bound.form) * bound.width
                self.core.pipe.init_buffer(queue, slots, size)

    def _reserve_buffers(self) -> None:
        layout, program, core = self.layout, self.program, self.core
        plans = (program.whole,) if layout.whole else tuple(program.pieces)
        widths = [0] * max((len(plan.widths) for plan in plans), default=0)
        for plan in plans:
            for place, width in enumerate(plan.widths):
                widths[place] = max(widths[place], width)
        self.temps = [TBuf(f"t{index}") for index in range(len(widths))]
        for buffer, width in zip(self.temps, widths, strict=True):
            core.pipe.init_buffer(buffer, 1, layout.elements(Form.TILE) * width)
        self.small: dict[Term, TBuf] = {}
        for number, step in enumerate(program.steps):
            form = form_of(step.target)
            if form is not Form.TILE:
                slots = COLUMN_SLOTS if form is Form.COLUMN else 1
                buffer = self.small[step.target] = TBuf(f"{form}{number}")
                size = layout.elements(form) * step.target.dtype.itemsize
                core.pipe.init_buffer(buffer, slots, size)
        # Columns lie side by side in one buffer, as everything does where a core has a single row.
        several = len(self.queues) + len(self.temps) + bool(self.small)
        core.pipe.count_as(1 if layout.alone else several)

    def _prepare_lines(self) -> None:
        """Lines are loaded once per core, and what is made of them alone is computed once."""
        place = (Piece((0,), 1), 0, self.layout.columns)
        for bound in self._operands(Form.LINE):
            self.lines[bound.term] = self._load(bound, place)
        for step in self.program.steps:
            if form_of(step.target) is Form.LINE:
                self.runner.step(step, self.lines, self._target(place))

    # -- rows that fit -----------------------------------------------------------------------------

    def _whole(self, piece: Piece) -> None:
        place = (piece, 0, self.layout.columns)
        values = dict(self.lines)
        waiting = self._load_all(self._operands(Form.TILE, Form.COLUMN), place, values)
        steps = [step for step in self.program.steps if form_of(step.target) is not Form.LINE]
        results = self.program.results_terms
        self._run(
            steps, values, place, self._target(place, self.program.whole, results), waiting, results
        )

    # -- rows that don't fit -----------------------------------------------------------------------

    def _in_chunks(self, piece: Piece) -> None:
        """Rows that go by several times, a chunk at a time."""
        everything = (piece, 0, self.layout.columns)
        columns: Values = {}
        waiting = self._load_all(self._operands(Form.COLUMN), everything, columns)
        for each, plan in zip(self.program.passes.passes, self.program.pieces, strict=True):
            self._columns(each.before, columns, everything)
            for step in each.steps:
                if step.call is FOLD:
                    total = self.totals[step.target] = self._small(step.target, everything, 0)
                    self.core.duplicate(total, _fold_of(step).neutral_in(total.dtype))
            for begin, length in self.layout.chunks(self.core):
                self._chunk((piece, begin, length), each, plan, columns)
            columns.update(self.totals)
            self.totals.clear()
        self._columns(self.program.passes.after, columns, everything)
        for term, tensor in waiting.items():
            self.queues[term].free_tensor(tensor)

    def _chunk(self, place: Place, each: Pass, plan: BufferPlan, columns: Values) -> None:
        values = dict(columns)
        needed = {source for step in each.steps for source in step.sources}
        bounds = [b for b in self._operands(Form.TILE, Form.LINE) if b.term in needed]
        waiting = self._load_all(bounds, place, values)
        target = self._target(place, plan, each.results)
        self._run(each.steps, values, place, target, waiting, each.results)

    def _columns(self, steps: Sequence[Step], columns: Values, place: Place) -> None:
        """Steps on columns alone, and their results."""
        results = self.program.results_terms
        for step in steps:
            self.runner.step(step, columns, self._target(place, None, results))
            if step.target in results:
                self._store(step.target, columns[step.target], place)

    # -- steps -------------------------------------------------------------------------------------

    def _run(
        self,
        steps: Sequence[Step],
        values: Values,
        place: Place,
        target: Target,
        waiting: Values,
        results: Collection[Term],
    ) -> None:
        """Steps in their order; tiles are given back, and results stored, after their last use."""

        def used(term: Term) -> None:
            if term in waiting and not self._in_place:
                self.queues[term].free_tensor(waiting.pop(term))
            if term in results:
                self._store(term, values[term], place)

        self.runner.run(steps, values, target, used)
        for term, tensor in waiting.items():
            self.queues[term].free_tensor(tensor)

    def _apply(self, core: Core, step: Step, dst: LocalTensor, sources: list[LocalTensor]) -> None:
        if step.call is FOLD:
            self.layout.fold(core, _fold_of(step), dst, sources[0])
            total = self.totals.get(step.target)
            if total is not None:
                core.combine(_fold_of(step), total, total, dst)
        elif step.call is SPREAD:
            self.layout.spread(core, dst, sources[0])
        else:
            self.layout.apply(core, step, dst, sources)

    def _target(
        self, place: Place, plan: BufferPlan | None = None, queued: Collection[Term] = ()
    ) -> Target:
        """Where results of steps go.

        Into queues, the plan's buffers, or small ones of their own.
        """

        def find(term: Term, sources: list[LocalTensor]) -> LocalTensor:  # noqa: ARG001 - forms tell
            shape = self._shape(term, place)
            if term in queued:
                return self.queues[term].alloc_tensor(term.dtype, *shape)
            if plan is not None and form_of(term) is Form.TILE:
                return self.temps[plan.places[term]].get(term.dtype, *shape)
            return self._small(term, place, int(term in self.totals))

        return find

    def _load_all(self, bounds: Iterable[Bound], place: Place, values: Values) -> Values:
        loaded = {bound.term: self._load(bound, place) for bound in bounds}
        values.update(loaded)
        return loaded

    def _load(self, bound: Bound, place: Place) -> LocalTensor:
        source = self.layout.place(bound.tensor, bound.form, *place)
        value = self.queues[bound.term].copy_in(source, self._shape(bound.term, place))
        self.layout.space(self.core, bound.form, value)
        return value

    def _store(self, term: Term, value: LocalTensor, place: Place) -> None:
        bound = self.program.by_term[term]
        where = self.layout.place(bound.tensor, bound.form, *place)
        self.layout.space(self.core, bound.form, value)
        self.queues[term].copy_out(where, value)

    def _operands(self, *forms: Form) -> list[Bound]:
        return [bound for bound in self.program.operands if bound.form in forms]

    def _shape(self, term: Term, place: Place) -> tuple[int, ...]:
        return self.layout.shape(form_of(term), place[0], place[2])

    def _small(self, term: Term, place: Place, part: int) -> LocalTensor:
        return self.small[term].get(term.dtype, *self._shape(term, place), part=part)


def _fold_of(step: Step) -> Fold:
    fold = step.extras[0]
    assert isinstance(fold, Fold)
    return fold
