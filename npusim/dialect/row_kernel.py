"""Kernels over rows made from a row of a table: an operator's formula and the forms of its tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from npusim.dialect.formula_buffers import BufferPlan
from npusim.dialect.formulas import Step
from npusim.dialect.kernel import Kernel
from npusim.dialect.pipe import TBuf, TPosition, TQue
from npusim.dialect.records import made
from npusim.dialect.folds import Fold
from npusim.dialect.row_formulas import (
    FOLD,
    SPREAD,
    Form,
    Pass,
    Passes,
    RowFormula,
    form_of,
    tile_steps,
)
from npusim.dialect.row_layouts import Need, Piece, RowLayout, RowsLayout
from npusim.dialect.spreading import compiled_for_shape
from npusim.values.dtypes import FLOAT, DType
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from collections.abc import Container, Hashable, Sequence

    from npusim.dialect.core import Core
    from npusim.dialect.formulas import Term
    from npusim.dialect.gm import GlobalTensor
    from npusim.dialect.local import LocalTensor
    from npusim.dialect.loops import Index
    from npusim.hardware.profile import Profile

Results = tuple["Term | None", ...]
_COLUMN_SLOTS = 2


@dataclass(frozen=True)
class RowOperator:
    """One row of a family's table.

    ``formula`` takes a :class:`RowFormula`, the operands in float32 (None where one is absent) and
    the ``attributes``, which are given with their defaults. ``operands`` and ``results`` are the
    forms of the tensors; ``wide`` results are float32 where a record leaves them out.
    ``generated`` kernels come from a compiler, others are written by hand (on chips with cores of
    their own for vectors).
    """

    op_type: str
    formula: Callable[..., Results]
    operands: tuple[Form, ...] = (Form.TILE,)
    results: tuple[Form, ...] = (Form.TILE,)
    wide: tuple[int, ...] = ()
    attributes: Mapping[str, object] = field(default_factory=dict)
    least_rows: int = 1
    generated: bool = True


class RowKernel(Kernel):
    """An operator over rows: ``(profile, *inputs, *outputs, **attributes)``."""

    row: ClassVar[RowOperator]

    def __init__(
        self, profile: Profile, *tensors: GlobalTensor | None, **attributes: object
    ) -> None:
        split = len(self.row.operands)
        self.inputs, self.outputs = tensors[:split], tensors[split:]
        self.layout = self.make_layout(profile, attributes)
        spreads = self.row.generated or compiled_for_shape(profile)
        self.formula = RowFormula(profile, FLOAT, columns=self.layout.columns, spreads=spreads)
        known = {name: attributes[name] for name in self.row.attributes if name in attributes}
        self._record({**self.row.attributes, **known})
        self.layout.plan(self._need(), self._tight_need())
        self.block_dim = self.layout.block_dim
        self.reads = tuple(tensor for tensor in self.inputs if tensor is not None)
        self.writes = tuple(tensor for tensor in self.outputs if tensor is not None)

    @classmethod
    def from_task(
        cls,
        profile: Profile,
        inputs: tuple[GlobalTensor | None, ...],
        outputs: tuple[GlobalTensor, ...],
        attributes: Mapping[str, object],
    ) -> Kernel:
        given = (*inputs, *(None,) * len(cls.row.operands))[: len(cls.row.operands)]
        if given[0] is None:
            raise KernelError(cls.op_type, "the record has no input")
        results: tuple[GlobalTensor | None, ...] = outputs[: len(cls.row.results)]
        if not outputs:
            results = cls._made(given, attributes)
        results += (None,) * (len(cls.row.results) - len(results))
        return cls(profile, *given, *results, **attributes)

    def make_layout(self, profile: Profile, attributes: Mapping[str, object]) -> RowLayout:
        """Rows along the last axis, or as long as a line is."""
        del attributes
        x = self.inputs[0]
        assert x is not None
        columns = self.row_length(x, self.inputs)
        if x.numel % columns:
            raise KernelError(self.op_type, f"{x.shape} has no rows of {columns}")
        itemsize = min(t.dtype.itemsize for t in (*self.inputs, *self.outputs) if t is not None)
        return RowsLayout(
            profile,
            x.numel // columns,
            columns,
            itemsize,
            self.row.least_rows,
            generated=self.row.generated,
        )

    @classmethod
    def row_length(cls, x: GlobalTensor, inputs: Sequence[GlobalTensor | None]) -> int:
        """Elements of a row: those of a line where there is one, else the last axis."""
        for tensor, form in zip(inputs, cls.row.operands, strict=False):
            if tensor is not None and form is Form.LINE:
                return tensor.numel
        return x.shape[-1] if x.shape else 1

    def work(self, block_idx: int) -> Hashable:
        return self.layout.work(block_idx)

    def process(self, core: Core) -> None:
        self._reserve(core)
        if self.layout.whole:
            self._load_lines(core, Piece((0,), 1), 0, self.layout.columns)
        for piece in self.layout.pieces(core):
            if self.layout.whole:
                self._whole(core, piece)
            else:
                self._in_chunks(core, piece)

    # -- what the formula looks like ---------------------------------------------------------------

    def _record(self, attributes: Mapping[str, object]) -> None:
        formula = self.formula
        self.operands: list[Term | None] = []
        handed: list[Term | None] = []
        for tensor, form in zip(self.inputs, self.row.operands, strict=True):
            term = None if tensor is None else formula.operand(tensor.dtype, form)
            self.operands.append(term)
            handed.append(None if term is None else formula.cast(term, FLOAT))
        found = self.row.formula(formula, *handed, **attributes)
        self.results: list[Term | None] = []
        for term, tensor in zip(found, self.outputs, strict=True):
            if term is None or tensor is None:
                self.results.append(None)
                continue
            self.results.append(formula.result(term, tensor.dtype, self.results))
        self._drop_unused()
        wanted = [term for term in self.results if term is not None]
        self.passes = Passes.of(formula.steps, wanted)
        self.plans = [
            BufferPlan.of(tile_steps(each.steps), each.results) for each in self.passes.passes
        ]
        tiles = [term for term in wanted if form_of(term) is Form.TILE]
        self.whole_plan = BufferPlan.of(tile_steps(formula.steps), tiles)
        loads = [
            Step("load", term, ())
            for term in self.operands
            if term is not None and form_of(term) is Form.TILE
        ]
        self.tight_plan = BufferPlan.of((*loads, *tile_steps(formula.steps)), (), tiles)

    def _drop_unused(self) -> None:
        """Steps whose results nobody wants."""
        wanted = {term for term in self.results if term is not None}
        kept = []
        for step in reversed(self.formula.steps):
            if step.target in wanted:
                kept.append(step)
                wanted.update(step.sources)
        self.formula.steps[:] = reversed(kept)

    def _need(self) -> Need:
        depth = self.buffer_num
        element = row = place = 0.0
        for tensor, form in zip(self.inputs, self.row.operands, strict=True):
            if tensor is None:
                continue
            width = tensor.dtype.itemsize
            element += depth * width if form is Form.TILE else 0
            row += depth * width if form is Form.COLUMN else 0
            place += width if form is Form.LINE else 0
        for term in self.results:
            if term is not None:
                element += depth * term.dtype.itemsize if form_of(term) is Form.TILE else 0
                row += depth * term.dtype.itemsize if form_of(term) is Form.COLUMN else 0
        element += max(plan.bytes_per_element for plan in (self.whole_plan, *self.plans))
        for step in self.formula.steps:
            width = step.target.dtype.itemsize
            row += _COLUMN_SLOTS * width if form_of(step.target) is Form.COLUMN else 0
            place += width if form_of(step.target) is Form.LINE else 0
        return Need(element, row, place)

    def _tight_need(self) -> Need:
        """What is needed where tiles aren't double buffered and every buffer is used again."""
        need = self._need()
        return Need(float(self.tight_plan.bytes_per_element), need.row, need.place)

    # -- buffers -----------------------------------------------------------------------------------

    def _reserve(self, core: Core) -> None:
        layout, depth = self.layout, self.buffer_num
        self.in_ques: dict[int, TQue] = {}
        for index, (tensor, form) in enumerate(zip(self.inputs, self.row.operands, strict=True)):
            if tensor is None:
                continue
            slots = 1 if form is Form.LINE else depth
            queue = self.in_ques[index] = TQue(TPosition.VECIN, slots, f"x{index}")
            core.pipe.init_buffer(queue, slots, layout.elements(form) * tensor.dtype.itemsize)
        self.out_ques: dict[Term, TQue] = {}
        for index, term in enumerate(self.results):
            if term is not None:
                queue = self.out_ques[term] = TQue(TPosition.VECOUT, depth, f"y{index}")
                size = layout.elements(form_of(term)) * term.dtype.itemsize
                core.pipe.init_buffer(queue, depth, size)
        plans = (self.whole_plan,) if layout.whole else tuple(self.plans)
        widths = [0] * max((len(plan.widths) for plan in plans), default=0)
        for plan in plans:
            for place, width in enumerate(plan.widths):
                widths[place] = max(widths[place], width)
        self.temps = [TBuf(f"t{index}") for index in range(len(widths))]
        for buffer, width in zip(self.temps, widths, strict=True):
            core.pipe.init_buffer(buffer, 1, layout.elements(Form.TILE) * width)
        self.small: dict[Term, TBuf] = {}
        for number, step in enumerate(self.formula.steps):
            form = form_of(step.target)
            if form is not Form.TILE:
                slots = _COLUMN_SLOTS if form is Form.COLUMN else 1
                buffer = self.small[step.target] = TBuf(f"{form}{number}")
                width = step.target.dtype.itemsize
                core.pipe.init_buffer(buffer, slots, layout.elements(form) * width)

    # -- what happens to a piece -------------------------------------------------------------------

    def _load_lines(self, core: Core, piece: Piece, begin: Index, length: int) -> None:
        """Lines are loaded once per core, and what is made of them alone is computed once."""
        self.lines: dict[Term, LocalTensor] = {}
        for index, term in enumerate(self.operands):
            if term is not None and form_of(term) is Form.LINE:
                self.lines[term] = self._operand(index, piece, begin, length)
        for step in self.formula.steps:
            if form_of(step.target) is Form.LINE:
                self._step(core, step, self.lines, piece, length)

    def _whole(self, core: Core, piece: Piece) -> None:
        """Rows that fit into UB: everything in one go."""
        layout, values = self.layout, dict(self.lines)
        waiting = dict(self._loaded(piece, 0, layout.columns, values))
        steps = [step for step in self.formula.steps if form_of(step.target) is not Form.LINE]
        last = _last_use(steps)
        for number, step in enumerate(steps):
            self._step(core, step, values, piece, layout.columns, self.whole_plan, self.out_ques)
            self._free(waiting, last, number)
            self._store_done(values, last, number, (piece, 0, layout.columns), self.out_ques)

    def _in_chunks(self, core: Core, piece: Piece) -> None:
        """Rows that go by several times, a chunk at a time."""
        layout = self.layout
        columns: dict[Term, LocalTensor] = {}
        for index, term in enumerate(self.operands):
            if term is not None and form_of(term) is Form.COLUMN:
                columns[term] = self._operand(index, piece, 0, layout.columns)
        for each, plan in zip(self.passes.passes, self.plans, strict=True):
            self._columns(core, each.before, columns, piece)
            for step in each.steps:
                if step.call == FOLD:
                    sums = columns[step.target] = self._small(step.target, piece, 0)
                    core.duplicate(sums, _fold_of(step).neutral)
            for begin, length in layout.chunks(core):
                self._chunk(core, (piece, begin, length), each, plan, columns)
        self._columns(core, self.passes.after, columns, piece)
        for index, term in enumerate(self.operands):
            if term is not None and form_of(term) is Form.COLUMN:
                self.in_ques[index].free_tensor(columns[term])

    def _chunk(
        self,
        core: Core,
        place: tuple[Piece, Index, int],
        each: Pass,
        plan: BufferPlan,
        columns: dict[Term, LocalTensor],
    ) -> None:
        piece, begin, length = place
        values = dict(columns)
        needed = {source for step in each.steps for source in step.sources}
        lines = [i for i, t in enumerate(self.operands) if t in needed and form_of(t) is Form.LINE]
        for index in lines:
            values[self.operands[index]] = self._operand(index, piece, begin, length)
        waiting = dict(self._loaded(piece, begin, length, values, needed))
        last = _last_use(each.steps)
        for number, step in enumerate(each.steps):
            if step.call == FOLD:
                part = self._small(step.target, piece, 1)
                self.layout.fold(core, _fold_of(step), part, values[step.sources[0]])
                core.combine(_fold_of(step), columns[step.target], columns[step.target], part)
            else:
                self._step(core, step, values, piece, length, plan, each.results)
            self._free(waiting, last, number)
            self._store_done(values, last, number, place, each.results)
        for index in lines:
            self.in_ques[index].free_tensor(values[self.operands[index]])

    def _columns(
        self, core: Core, steps: Sequence[Step], columns: dict[Term, LocalTensor], piece: Piece
    ) -> None:
        """Steps on columns alone, and their results."""
        for step in steps:
            self._step(core, step, columns, piece, self.layout.chunk, results=self.out_ques)
            if step.target in self.out_ques:
                self._store(step.target, columns[step.target], (piece, 0, self.layout.columns))

    def _step(
        self,
        core: Core,
        step: Step,
        values: dict[Term, LocalTensor],
        piece: Piece,
        length: int,
        plan: BufferPlan | None = None,
        results: Container[Term] = (),
    ) -> None:
        form = form_of(step.target)
        shape, dtype = self.layout.shape(form, piece, length), step.target.dtype
        if step.target in results:
            target = self.out_ques[step.target].alloc_tensor(dtype, *shape)
        elif form is Form.TILE and plan is not None:
            target = self.temps[plan.places[step.target]].get(dtype, *shape)
        else:
            target = self.small[step.target].get(dtype, *shape)
        values[step.target] = target
        sources = [values[source] for source in step.sources]
        if step.call == FOLD:
            self.layout.fold(core, _fold_of(step), target, sources[0])
        elif step.call == SPREAD:
            self.layout.spread(core, target, sources[0])
        else:
            self.layout.apply(core, step, target, sources)

    def _store_done(
        self,
        values: dict[Term, LocalTensor],
        last: dict[Term, int],
        number: int,
        place: tuple[Piece, Index, int],
        results: Container[Term],
    ) -> None:
        """Store the results that no later step takes."""
        for term in [term for term in values if term in results and last[term] == number]:
            self._store(term, values.pop(term), place)

    def _loaded(
        self,
        piece: Piece,
        begin: Index,
        length: int,
        values: dict[Term, LocalTensor],
        needed: set[Term] | None = None,
    ) -> list[tuple[Term, tuple[TQue, LocalTensor]]]:
        """Load the tiles (and, with whole rows, the columns) of a piece."""
        found = []
        for index, term in enumerate(self.operands):
            if term is None or form_of(term) is Form.LINE:
                continue
            if needed is not None and (term not in needed or form_of(term) is Form.COLUMN):
                continue
            values[term] = self._operand(index, piece, begin, length)
            found.append((term, (self.in_ques[index], values[term])))
        return found

    def _operand(
        self, index: int, piece: Piece, begin: Index, length: int
    ) -> LocalTensor:
        tensor, form = self.inputs[index], self.row.operands[index]
        assert tensor is not None
        source = self.layout.place(tensor, form, piece, begin, length)
        return self.in_ques[index].copy_in(source, self.layout.shape(form, piece, length))

    def _store(
        self, term: Term, value: LocalTensor, place: tuple[Piece, Index, int]
    ) -> None:
        tensor = self.outputs[self.results.index(term)]
        assert tensor is not None
        self.out_ques[term].copy_out(self.layout.place(tensor, form_of(term), *place), value)

    def _small(self, term: Term, piece: Piece, part: int) -> LocalTensor:
        shape = self.layout.shape(form_of(term), piece, self.layout.chunk)
        return self.small[term].get(term.dtype, *shape, part=part)

    @staticmethod
    def _free(
        waiting: dict[Term, tuple[TQue, LocalTensor]], last: dict[Term, int], number: int
    ) -> None:
        for term in [term for term in waiting if last.get(term, 0) == number]:
            queue, tensor = waiting.pop(term)
            queue.free_tensor(tensor)

    @classmethod
    def _made(
        cls, inputs: tuple[GlobalTensor | None, ...], attributes: Mapping[str, object]
    ) -> tuple[GlobalTensor | None, ...]:
        """Results for a task that was recorded without them: those of the first form alone."""
        del attributes
        x = inputs[0]
        assert x is not None
        rows = x.numel // max(1, cls.row_length(x, inputs))
        results = []
        for index, form in enumerate(cls.row.results):
            dtype: DType = FLOAT if index in cls.row.wide else x.dtype
            shape = x.shape if form is Form.TILE else (rows,)
            results.append(made(shape, dtype, f"y{index}"))
        return tuple(results)


def kernel_of(row: RowOperator, base: type[RowKernel] = RowKernel) -> type[RowKernel]:
    """The kernel class of a row."""
    return type(row.op_type, (base,), {"row": row, "op_type": row.op_type, "__doc__": row.op_type})


def _fold_of(step: Step) -> Fold:
    fold = step.extras[0]
    assert isinstance(fold, Fold)
    return fold


def _last_use(steps: Sequence[Step]) -> dict[Term, int]:
    """The step after which nobody takes a value any more; at the earliest the one that makes it."""
    last: dict[Term, int] = {}
    for number, step in enumerate(steps):
        last[step.target] = number
        last.update(dict.fromkeys(step.sources, number))
    return last
