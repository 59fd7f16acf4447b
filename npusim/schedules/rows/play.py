"""Playing a row program on one core: rows that fit into UB, and rows that don't."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import zip_longest
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
        sizes = {form: layout.elements(form) for form in (Form.TILE, Form.COLUMN, Form.LINE)}
        self._reserve_queues(sizes)
        self._reserve_buffers(sizes)
        self.runner = Runner(core, program.steps, self._apply, columns=layout.columns)
        self.lines: Values = {}
        self._given = self._operands(Form.TILE, Form.COLUMN)
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
        """Lines are kept until the last row is done; then there are no more steps."""
        for term, queue in self.queues.items():
            if term in self.lines:
                queue.free_tensor(self.lines[term])
        del self.runner  # it knows this, and this it: only a search for garbage finds both

    # -- buffers -----------------------------------------------------------------------------------

    def _reserve_queues(self, sizes: dict[Form, int]) -> None:
        self.queues: dict[Term, TQue] = {}
        program = self.program
        sides = ((program.operands, TPosition.VECIN), (program.results, TPosition.VECOUT))
        for side, position in sides:
            for bound in side:
                slots = 1 if bound.form is Form.LINE else self.depth
                queue = self.queues[bound.term] = TQue(
                    position, slots, f"{'xy'[position is TPosition.VECOUT]}{bound.index}"
                )
                self.core.pipe.init_buffer(queue, slots, sizes[bound.form] * bound.width)

    def _reserve_buffers(self, sizes: dict[Form, int]) -> None:
        layout, program, core = self.layout, self.program, self.core
        passes = (program.whole,) if layout.whole else program.passes.passes
        plans = [each.plan.widths for each in passes]
        widths = [max(each) for each in zip_longest(*plans, fillvalue=0)]
        self.temps = [TBuf(f"t{index}") for index in range(len(widths))]
        for buffer, width in zip(self.temps, widths, strict=True):
            core.pipe.init_buffer(buffer, 1, sizes[Form.TILE] * width)
        self.small: dict[Term, TBuf] = {}
        for number, term, form in program.small:
            slots = COLUMN_SLOTS if form is Form.COLUMN else 1
            buffer = self.small[term] = TBuf(f"{form}{number}")
            core.pipe.init_buffer(buffer, slots, sizes[form] * term.dtype.itemsize)
        # Columns lie side by side in one buffer, as everything does where a core has a single row.
        several = len(self.queues) + len(self.temps) + bool(self.small)
        core.pipe.count_as(1 if layout.alone else several)

    def _prepare_lines(self) -> None:
        """Lines are loaded once per core, and what is made of them alone is computed once."""
        place = (Piece((0,), 1), 0, self.layout.columns)
        for bound in self._operands(Form.LINE):
            self.lines[bound.term] = self._load(bound, place)
        for step in self.program.lines:
            self.runner.step(step, self.lines, self._target(place))

    # -- rows that fit -----------------------------------------------------------------------------

    def _whole(self, piece: Piece) -> None:
        place, values = (piece, 0, self.layout.columns), dict(self.lines)
        waiting = self._load_all(self._given, place, values)
        self._run(self.program.whole, values, place, waiting)

    # -- rows that don't fit -----------------------------------------------------------------------

    def _in_chunks(self, piece: Piece) -> None:
        """Rows that go by several times, a chunk at a time."""
        everything = (piece, 0, self.layout.columns)
        columns: Values = {}
        waiting = self._load_all(self._operands(Form.COLUMN), everything, columns)
        for each in self.program.passes.passes:
            self._columns(each.before, columns, everything)
            for step in each.steps:
                if step.call is FOLD:
                    total = self.totals[step.target] = self._small(step.target, everything, 0)
                    self.core.duplicate(total, _fold_of(step).neutral_in(total.dtype))
            for begin, length in self.layout.chunks(self.core):
                self._chunk((piece, begin, length), each, columns)
            columns.update(self.totals)
            self.totals.clear()
        self._columns(self.program.passes.after, columns, everything)
        for term, tensor in waiting.items():
            self.queues[term].free_tensor(tensor)

    def _chunk(self, place: Place, each: Pass, columns: Values) -> None:
        values = dict(columns)
        bounds = [b for b in self._operands(Form.TILE, Form.LINE) if b.term in each.taken]
        waiting = self._load_all(bounds, place, values)
        self._run(each, values, place, waiting)

    def _columns(self, steps: Sequence[Step], columns: Values, place: Place) -> None:
        """Steps on columns alone, and their results."""
        results = self.program.whole.results
        for step in steps:
            self.runner.step(step, columns, self._target(place, None, results))
            if step.target in results:
                self._store(step.target, columns[step.target], place)

    # -- steps -------------------------------------------------------------------------------------

    def _run(self, work: Pass, values: Values, place: Place, waiting: Values) -> None:
        """Steps in their order; tiles are given back, and results stored, after their last use."""
        freed = {} if self._in_place else waiting
        results = work.results

        def used(term: Term) -> None:
            if term in freed:
                self.queues[term].free_tensor(waiting.pop(term))
            if term in results:
                self._store(term, values[term], place)

        target = self._target(place, work.plan, results)
        self.runner.run(work.steps, values, target, used, work.ended)
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
        piece, _, length = place
        shapes: dict[Form, tuple[int, ...]] = {}
        places = {} if plan is None else plan.places

        def find(term: Term, sources: list[LocalTensor]) -> LocalTensor:  # noqa: ARG001 - forms tell
            form = form_of(term)
            shape = shapes.get(form)
            if shape is None:
                shape = shapes[form] = self.layout.shape(form, piece, length)
            if term in queued:
                return self.queues[term].alloc_tensor(term.dtype, *shape)
            if term in places:
                return self.temps[places[term]].get(term.dtype, *shape)
            return self.small[term].get(term.dtype, *shape, part=int(term in self.totals))

        return find

    def _load_all(self, bounds: Iterable[Bound], place: Place, values: Values) -> Values:
        loaded = {bound.term: self._load(bound, place) for bound in bounds}
        values.update(loaded)
        return loaded

    def _load(self, bound: Bound, place: Place) -> LocalTensor:
        source = self.layout.place(bound.tensor, bound.form, *place)
        shape = self.layout.shape(bound.form, place[0], place[2])
        value = self.queues[bound.term].copy_in(source, shape)
        self.layout.space(self.core, bound.form, value)
        return value

    def _store(self, term: Term, value: LocalTensor, place: Place) -> None:
        bound = self.program.by_term[term]
        where = self.layout.place(bound.tensor, bound.form, *place)
        self.layout.space(self.core, bound.form, value)
        self.queues[term].copy_out(where, value)

    def _operands(self, *forms: Form) -> list[Bound]:
        return [bound for bound in self.program.operands if bound.form in forms]

    def _small(self, term: Term, place: Place, part: int) -> LocalTensor:
        shape = self.layout.shape(form_of(term), place[0], place[2])
        return self.small[term].get(term.dtype, *shape, part=part)


def _fold_of(step: Step) -> Fold:
    fold = step.extras[0]
    assert isinstance(fold, Fold)
    return fold
