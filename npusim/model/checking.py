"""Will this model run? One verdict per operator and product, and what FLOAT16 would change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from npusim.catalogue import facts, judging, names
from npusim.catalogue.families import Place, place_of
from npusim.catalogue.question import Question
from npusim.catalogue.verdicts import Answer, Outcome
from npusim.catalogue.verdicts import Verdict as CatalogueVerdict
from npusim.hardware.naming import load_profile
from npusim.model.feasibility import UNHEARD, WORST_FIRST, judge
from npusim.model.listed import Listed
from npusim.model.listing import read_model
from npusim.model.reading import NETWORKS, read_compiled
from npusim.model.results import DtypeVerdict
from npusim.operators.listed import task_verdict
from npusim.operators.registry import is_fused
from npusim.operators.tasks import TaskSpec
from npusim.values.errors import UnknownNameError
from npusim.values.language import say
from npusim.values.status import Verdict, worst_of

if TYPE_CHECKING:
    from npusim.catalogue.facts import Catalogue
    from npusim.catalogue.names import Subject
    from npusim.hardware import Profile
    from npusim.model.graph_model import Compilation
    from npusim.model.step import Item, Step


@dataclass(frozen=True, slots=True)
class Cell:
    """One operator on one product: the outcome, why, and the remedy where there is one.

    `count` is how often the model that is compiled for this product has it, None where all products
    are given the same operators.
    """

    place: Place
    outcome: Outcome
    why: str = ""
    remedy: str = ""
    count: int | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One kind of operator in a model: how often it occurs, its time, and a cell per product.

    A cell is None where the model, compiled for that product, hasn't got the operator.
    `op` is the file's name for it, `means` the catalogue's; `time_us` is 0 where the file has none.
    """

    op: str
    means: str
    dtypes: tuple[str, ...]
    outputs: tuple[str, ...]
    count: int
    time_us: float
    cells: tuple[Cell | None, ...]

    @property
    def ok(self) -> bool:
        """True when no product rejects it."""
        return all(cell.outcome.ok for cell in self.given)

    @property
    def given(self) -> tuple[Cell, ...]:
        """The cells of the products that have it."""
        return tuple(cell for cell in self.cells if cell is not None)


@dataclass(frozen=True)
class ModelCheck:
    """The verdict on a model: rows, the most time-consuming first where the file has times."""

    path: str
    kind: str
    places: tuple[Place, ...]
    rows: tuple[Row, ...] = field(repr=False)
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """True when nothing is rejected on any product."""
        return self.verdict is not Verdict.NO

    @property
    def verdict(self) -> Verdict:
        """No where any operator is refused on any product, unknown where one isn't known."""
        return worst_of(cell.outcome.verdict for row in self.rows for cell in row.given)

    def verdict_on(self, place: Place) -> Verdict:
        """The same for one product."""
        at = self.places.index(place)
        return worst_of(cell.outcome.verdict for row in self.rows if (cell := row.cells[at]))

    def counts(self, place: Place) -> Counter[Outcome]:
        """How many operators of the model (not kinds of them) end how on one product."""
        at = self.places.index(place)
        found: Counter[Outcome] = Counter()
        for row in self.rows:
            if cell := row.cells[at]:
                found[cell.outcome] += row.count if cell.count is None else cell.count
        return found


def check_model(
    path: str | Path,
    socs: Sequence[str | Place],
    *,
    how: Compilation | None = None,
    catalogue: Catalogue | None = None,
) -> ModelCheck:
    """Judge every operator in a model, a profiler's CSV or a list, on each chip or product.

    Networks (ONNX, torch.export) are compiled for each product first, as `npusim model` does and as
    `how` says. Raises FileError for a file that can't be read or compiled, UnknownNameError for a
    product, UsageError for `how` with a file that isn't a network.
    """
    asked = (place_of(soc) if isinstance(soc, str) else soc for soc in socs)
    places = tuple(dict.fromkeys(asked))
    known = catalogue or facts.catalogue()
    if how is not None or Path(path).suffix.lower() in NETWORKS:
        return _compiled(known, Path(path), places, how)
    model = read_model(path)
    rows = judge_all(model.operators, places, catalogue=known)
    return ModelCheck(str(path), model.kind, places, rows, model.notes)


def _compiled(
    catalogue: Catalogue, file: Path, places: tuple[Place, ...], how: Compilation | None
) -> ModelCheck:
    """A network compiled for each product, side by side."""
    model = read_compiled(file, how)
    rows: dict[_Key, Row] = {}
    for at, place in enumerate(places):
        for key, cell in _cells_of(catalogue, model.on(place.family), place).items():
            row = rows.get(key) or _row_of(catalogue, key, len(places))
            cells = (*row.cells[:at], cell, *row.cells[at + 1 :])
            rows[key] = replace(row, count=max(row.count, cell.count or 0), cells=cells)
    ordered = sorted(rows.values(), key=lambda row: (row.ok, row.op, row.dtypes))
    return ModelCheck(str(file), file.suffix[1:].lower(), places, tuple(ordered))


class _Key(NamedTuple):
    """What tells the rows of a network apart."""

    op: str
    dtypes: tuple[str, ...]
    outputs: tuple[str, ...]
    why_unknown: str

    @property
    def listed(self) -> Listed:
        """The operator as a row of a file."""
        kind = "word" if self.op.startswith("aclnn") else "kernel"
        return Listed(self.op, kind, self.dtypes, self.outputs, why_unknown=self.why_unknown)


def _row_of(catalogue: Catalogue, key: _Key, places: int) -> Row:
    subject = _subject(catalogue, key.listed)
    means = _means(subject) if subject else ""
    return Row(key.op, means, key.dtypes, key.outputs, 0, 0.0, (None,) * places)


def _cells_of(catalogue: Catalogue, step: Step, place: Place) -> dict[_Key, Cell]:
    """The operators of a step on a product; of those that differ in shapes alone the worst."""
    chip = _simulated(place)
    verdicts = judge(step, chip) if chip else {}
    found: dict[_Key, Cell] = {}
    for item in step.items:
        dtypes, outputs = (
            tuple(each.dtype.name for each in side) for side in (item.inputs, item.outputs)
        )
        key = _Key(item.op, dtypes, outputs, "" if item.work else item.operation.problem)
        verdict = verdicts.get(item.operation.signature) or _of_parts(item, place)
        cell = _judged(catalogue, key, place, verdict)
        before = found.get(key, replace(cell, count=0))
        worst = min(before, cell, key=lambda each: WORST_FIRST.index(each.outcome))
        found[key] = replace(worst, count=(before.count or 0) + item.count)
    return found


_OUTCOMES: Final = {
    Answer.SUPPORTED: Outcome.RUNS,
    Answer.REJECTED: Outcome.REJECTED,
    Answer.UNKNOWN: Outcome.UNKNOWN,
}


def _of_parts(item: Item, place: Place) -> DtypeVerdict | None:
    """What a whole family says of a fused kernel, None for what isn't one."""
    if not isinstance(item.work, TaskSpec) or not is_fused(item.op):
        return None
    verdict = task_verdict(item.work, place)
    if verdict is None:
        return None
    return DtypeVerdict(item.op, (), _OUTCOMES[verdict.answer], verdict.why, 0)


def _judged(catalogue: Catalogue, key: _Key, place: Place, verdict: DtypeVerdict | None) -> Cell:
    """What the model's verdict says, in the words of the catalogue where they agree."""
    subject = _subject(catalogue, key.listed)
    if subject is None:
        why = key.why_unknown or UNHEARD
        cell = Cell(place, Outcome.UNKNOWN, why)
    else:
        cell = _cell(catalogue, subject, key.listed, place)
    if verdict is None or verdict.outcome is cell.outcome:
        return cell
    return Cell(place, verdict.outcome, verdict.why)


def _simulated(place: Place) -> Profile | None:
    """The chip of a place, None where it is a whole family or isn't simulated."""
    if place.profile or not place.soc:
        return place.profile
    with suppress(UnknownNameError):
        return load_profile(place.soc)
    return None


def judge_all(
    operators: Iterable[Listed],
    places: Sequence[Place],
    *,
    catalogue: Catalogue | None = None,
) -> tuple[Row, ...]:
    """A row for each kind of operator, the most time-consuming first."""
    known = catalogue or facts.catalogue()
    found: dict[tuple[str, str, tuple[str, ...], tuple[str, ...]], Row] = {}
    for listed in operators:
        key = (listed.op, listed.api, listed.dtypes, listed.outputs)
        row = found.get(key) or _row(known, listed, places)
        count, time_us = row.count + listed.count, row.time_us + listed.time_us
        found[key] = replace(row, count=count, time_us=time_us)
    return tuple(sorted(found.values(), key=lambda row: (-row.time_us, row.ok, row.op, row.dtypes)))


def _row(catalogue: Catalogue, listed: Listed, places: Sequence[Place]) -> Row:
    subject = _subject(catalogue, listed)
    if subject is None:
        why = listed.why_unknown or UNHEARD
        cells = tuple(Cell(place, Outcome.UNKNOWN, why) for place in places)
        return Row(listed.op, "", listed.dtypes, listed.outputs, 0, 0.0, cells)
    cells = tuple(_cell(catalogue, subject, listed, place) for place in places)
    return Row(listed.op, _means(subject), listed.dtypes, listed.outputs, 0, 0.0, cells)


def _means(subject: Subject) -> str:
    return subject.apis[0] if subject.apis else "/".join(subject.op_types)


def _subject(catalogue: Catalogue, listed: Listed) -> Subject | None:
    """What a row of a file means; a kernel is an operator type."""
    if listed.why_unknown:
        return None
    if listed.kind == "kernel":
        subject = names.operator_named(catalogue, listed.op)
        api = names.api_named(catalogue, listed.api) if listed.api else None
        if subject and api:
            return replace(subject, apis=(api,))
        return subject or (names.Subject(names.API, api, (api,)) if api else None)
    if not listed.op.lower().startswith("acl"):
        found = names.operator_named(catalogue, listed.op) or names.onnx_named(catalogue, listed.op)
        if found:
            return found
    return names.find(catalogue, listed.op)


def _cell(catalogue: Catalogue, subject: Subject, listed: Listed, place: Place) -> Cell:
    question = Question(place.family, place.soc, inputs=listed.dtypes, outputs=listed.outputs)
    verdict = judging.judge(catalogue, subject, question)
    remark = _remark(verdict)
    runs = verdict.answer is Answer.SUPPORTED
    if runs and listed.kind == "kernel" and not (listed.dtypes or listed.outputs):
        return Cell(
            place, Outcome.UNKNOWN, say("the product has it; its dtypes aren't in the file")
        )
    if runs:
        return Cell(place, Outcome.RUNS, remark)
    if verdict.answer is Answer.UNKNOWN:
        return Cell(place, Outcome.UNKNOWN, verdict.why)
    full = judging.answer(catalogue, subject, question)
    helps = judging.fp16_helps(catalogue, subject, question)
    outcome = Outcome.AFTER_FP16 if helps else Outcome.REJECTED
    return Cell(place, outcome, verdict.status.sentence, full.remedy)


def _remark(verdict: CatalogueVerdict) -> str:
    """What is worth knowing about something that runs: slow engines, and products undocumented."""
    return next((note for note in verdict.notes if "AI CPU" in note or "undocumented" in note), "")
