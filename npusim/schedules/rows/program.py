"""What a kernel over rows computes.

Its formula recorded for its tensors, and the buffers it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from npusim.schedules.formula import Quantity, Step, Term
from npusim.schedules.rows.formula import Form, Passes, RowFormula, buffer_plan, form_of
from npusim.schedules.rows.layouts import Need
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from npusim.ascendc.gm import GlobalTensor

Results = tuple[Term | None, ...]
COLUMN_SLOTS = 2  # of a buffer for a column: the sum so far, and that of a piece

Tensors = Sequence["GlobalTensor | None"]


@dataclass(frozen=True, slots=True)
class Bound:
    """A tensor, its value in the formula, and the value's form."""

    index: int
    tensor: GlobalTensor
    term: Term

    @property
    def form(self) -> Form:
        """What the value consists of."""
        return form_of(self.term)

    @property
    def width(self) -> int:
        """Bytes of an element."""
        return self.tensor.dtype.itemsize


class RowProgram:
    """A formula's steps on a kernel's tensors, and which buffers they take.

    ``whole`` is the plan for rows that fit into UB, ``pieces`` are those of the passes over rows
    that don't.
    """

    def __init__(
        self,
        formula: RowFormula,
        record: Callable[..., Results],
        inputs: Tensors,
        forms: Sequence[Form],
        outputs: Tensors,
        attributes: Mapping[str, object],
        *,
        raw: bool = False,
    ) -> None:
        terms = [
            None if tensor is None or form is Form.NUMBER else formula.operand(tensor.dtype, form)
            for tensor, form in zip(inputs, forms, strict=True)
        ]
        handed = [
            _number(tensor) if term is None else term if raw else formula.cast(term, FLOAT)
            for tensor, term in zip(inputs, terms, strict=True)
        ]
        found = record(formula, *handed, **attributes)
        stored: list[Term | None] = []
        for term, tensor in zip(found, outputs, strict=True):
            if term is None or tensor is None:
                stored.append(None)
            else:
                stored.append(formula.result(term, tensor.dtype, stored))
        self.steps = _wanted(formula.steps, stored)
        used = {source for step in self.steps for source in step.sources}
        self.operands = [bound for bound in _bound(inputs, terms) if bound.term in used]
        self.results = _bound(outputs, stored)
        self.by_term = {bound.term: bound for bound in (*self.operands, *self.results)}
        wanted = [bound.term for bound in self.results]
        tiles = [term for term in wanted if form_of(term) is Form.TILE]
        self.passes = Passes.of(self.steps, wanted)
        self.whole = buffer_plan(self.steps, tiles)
        self.pieces = [buffer_plan(each.steps, each.results) for each in self.passes.passes]

    @property
    def results_terms(self) -> frozenset[Term]:
        """The values that are stored."""
        return frozenset(bound.term for bound in self.results)

    def need(self, depth: int) -> Need:
        """UB for queues of ``depth`` slots and buffers of their own for everything between."""
        tiles = [each.width for each in (*self.operands, *self.results) if each.form is Form.TILE]
        plans = (self.whole, *self.pieces)
        own = max(plan.bytes_per_element for plan in plans)
        return Need(depth * sum(tiles) + own, self._row_bytes(depth), self._place_bytes())

    def _row_bytes(self, depth: int) -> float:
        bound = (each.width for each in (*self.operands, *self.results) if each.form is Form.COLUMN)
        return depth * sum(bound) + COLUMN_SLOTS * self._own_bytes(Form.COLUMN)

    def _place_bytes(self) -> float:
        lines = sum(each.width for each in self.operands if each.form is Form.LINE)
        return lines + self._own_bytes(Form.LINE)

    def _own_bytes(self, form: Form) -> int:
        return sum(s.target.dtype.itemsize for s in self.steps if form_of(s.target) is form)


def _number(tensor: GlobalTensor | None) -> Quantity | None:
    """A single element, read by the scalar unit."""
    if tensor is None:
        return None
    return Quantity(lambda core: core.load_scalar(tensor.view(tensor.numel).span(0, 1)))


def _bound(tensors: Tensors, terms: Sequence[Term | None]) -> list[Bound]:
    return [
        Bound(index, tensor, term)
        for index, (tensor, term) in enumerate(zip(tensors, terms, strict=True))
        if tensor is not None and term is not None
    ]


def _wanted(steps: Sequence[Step], results: Sequence[Term | None]) -> list[Step]:
    """The steps without those whose results nobody wants."""
    wanted = {term for term in results if term is not None}
    kept = []
    for step in reversed(steps):
        if step.target in wanted:
            kept.append(step)
            wanted.update(step.sources)
    return kept[::-1]
