"""What a kernel over rows computes.

Its formula recorded for its tensors, and the buffers it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from npusim.schedules.formula import Quantity, Recorded, Step, Term
from npusim.schedules.rows.formula import Form, Pass, Passes, RowFormula, form_of
from npusim.schedules.rows.layouts import Need
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from npusim.ascendc.gm import GlobalTensor
    from npusim.values.dtypes import DType

Results = tuple[Term | None, ...]
COLUMN_SLOTS = 2  # of a buffer for a column: the sum so far, and that of a piece

Tensors = Sequence["GlobalTensor | None"]
_known: Recorded[_Recorded] = Recorded()


@dataclass(slots=True, eq=False)
class Bound:
    """A tensor, its value in the formula, what that consists of, and the bytes of an element."""

    index: int
    tensor: GlobalTensor
    term: Term
    form: Form
    width: int


class _Given(NamedTuple):
    """An operand of a formula: its form and dtype, or the number that the scalar unit reads."""

    form: Form
    dtype: DType | None
    number: Quantity | None


@dataclass(frozen=True, slots=True)
class _Recorded:
    """A formula's steps, the values of its operands and results, and the passes over its tiles.

    ``lines`` are the steps that are made of lines alone, ``small`` those on no tile, with the form
    of their results and their numbers; ``needs`` is what queues of so many slots need of UB.
    """

    terms: Results
    stored: Results
    steps: list[Step]
    used: frozenset[Term]
    passes: Passes
    whole: Pass
    lines: tuple[Step, ...]
    small: tuple[tuple[int, Term, Form], ...]
    needs: dict[int, Need]


class RowProgram:
    """A formula's steps on a kernel's tensors, and which buffers they take.

    ``whole`` is the pass over rows that fit into UB, ``passes`` are those over rows that don't.
    ``follows_from`` is all that it is made from, for who compares kernels.
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
        given = tuple(
            _Given(form, None, _number(tensor))
            if tensor is None or form is Form.NUMBER
            else _Given(form, tensor.dtype, None)
            for tensor, form in zip(inputs, forms, strict=True)
        )
        made = tuple(None if each is None else each.dtype for each in outputs)
        found = _recorded(formula, record, given, made, attributes, raw=raw)
        told = formula.profile, formula.dtype, formula.spreads
        tensors = tuple(inputs), tuple(forms), tuple(outputs)
        self.follows_from = *told, formula.in_fractals, record, *tensors, {**attributes}, raw
        self.steps = found.steps
        self.operands = [each for each in _bound(inputs, found.terms) if each.term in found.used]
        self.results = _bound(outputs, found.stored)
        self.by_term = {bound.term: bound for bound in (*self.operands, *self.results)}
        self.passes, self.whole = found.passes, found.whole
        self.lines, self.small, self._needs = found.lines, found.small, found.needs

    def need(self, depth: int) -> Need:
        """UB for queues of ``depth`` slots and buffers of their own for everything between."""
        if depth not in self._needs:
            self._needs[depth] = self._need(depth)
        return self._needs[depth]

    def _need(self, depth: int) -> Need:
        tiles = [each.width for each in (*self.operands, *self.results) if each.form is Form.TILE]
        passes = (self.whole, *self.passes.passes)
        own = max(each.plan.bytes_per_element for each in passes)
        return Need(depth * sum(tiles) + own, self._row_bytes(depth), self._place_bytes())

    def _row_bytes(self, depth: int) -> float:
        bound = (each.width for each in (*self.operands, *self.results) if each.form is Form.COLUMN)
        return depth * sum(bound) + COLUMN_SLOTS * self._own_bytes(Form.COLUMN)

    def _place_bytes(self) -> float:
        lines = sum(each.width for each in self.operands if each.form is Form.LINE)
        return lines + self._own_bytes(Form.LINE)

    def _own_bytes(self, form: Form) -> int:
        return sum(term.dtype.itemsize for _, term, own in self.small if own is form)


def _recorded(
    formula: RowFormula,
    record: Callable[..., Results],
    given: tuple[_Given, ...],
    made: tuple[DType | None, ...],
    attributes: Mapping[str, object],
    *,
    raw: bool,
) -> _Recorded:
    """What a formula records; found once for calls that differ in nothing that it is told."""
    told = formula.profile, formula.dtype, formula.spreads, formula.in_fractals

    def recorded() -> _Recorded:
        return _record(formula, record, given, made, attributes, raw=raw)

    if any(each.number is not None for each in given):
        return recorded()
    return _known.find((record, *told, given, made, raw), attributes, recorded)


def _record(
    formula: RowFormula,
    record: Callable[..., Results],
    given: tuple[_Given, ...],
    made: tuple[DType | None, ...],
    attributes: Mapping[str, object],
    *,
    raw: bool,
) -> _Recorded:
    terms = [
        None if each.dtype is None else formula.operand(each.dtype, each.form) for each in given
    ]
    handed = [
        each.number if term is None else term if raw else formula.cast(term, FLOAT)
        for each, term in zip(given, terms, strict=True)
    ]
    stored: list[Term | None] = []
    for term, kind in zip(record(formula, *handed, **attributes), made, strict=True):
        if term is None or kind is None:
            stored.append(None)
        else:
            stored.append(formula.result(term, kind, stored))
    steps = _wanted(formula.steps, stored)
    used = frozenset(source for step in steps for source in step.sources)
    wanted = [term for term in stored if term is not None]
    forms = [form_of(step.target) for step in steps]
    sides: tuple[list[Step], list[Step]] = ([], [])
    for step, form in zip(steps, forms, strict=True):
        sides[form is Form.LINE].append(step)
    small = tuple(
        (number, step.target, form)
        for number, (step, form) in enumerate(zip(steps, forms, strict=True))
        if form is not Form.TILE
    )
    whole = Pass.of((), sides[False], wanted)
    return _Recorded(
        tuple(terms), tuple(stored), steps, used, Passes.of(steps, wanted), whole,
        lines=tuple(sides[True]), small=small, needs={},
    )  # fmt: skip


def _number(tensor: GlobalTensor | None) -> Quantity | None:
    """A single element, read by the scalar unit."""
    if tensor is None:
        return None
    return Quantity(lambda core: core.load_scalar(tensor.view(tensor.numel).span(0, 1)))


def _bound(tensors: Tensors, terms: Sequence[Term | None]) -> list[Bound]:
    return [
        Bound(index, tensor, term, form_of(term), tensor.dtype.itemsize)
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
