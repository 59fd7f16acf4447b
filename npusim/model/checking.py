"""Will this model run? One verdict per operator and product, and what FLOAT16 would change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from npusim.catalogue import facts, judging, names
from npusim.catalogue.families import Place, place_of
from npusim.catalogue.question import Question
from npusim.catalogue.verdicts import Answer, Outcome, Verdict
from npusim.model.listing import read_model

if TYPE_CHECKING:
    from npusim.catalogue.facts import Catalogue
    from npusim.catalogue.names import Subject
    from npusim.model.listed import Listed

# What the graph compiler does with a float32 operator that only has a float16 kernel.
# Source: hiascend.com CANN 8.0 ATC, --precision_mode_v2: the default is fp16.
_IN_FP16 = "in FLOAT16, as ATC does by default (--precision_mode_v2=fp16)"


@dataclass(frozen=True, slots=True)
class Cell:
    """One operator on one product: the outcome, why, and the remedy where there is one."""

    place: Place
    outcome: Outcome
    why: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One kind of operator in a model: how often it occurs, its time, and a cell per product.

    `op` is the file's name for it, `means` the catalogue's; `time_us` is 0 where the file has none.
    """

    op: str
    means: str
    dtypes: tuple[str, ...]
    outputs: tuple[str, ...]
    count: int
    time_us: float
    cells: tuple[Cell, ...]

    @property
    def ok(self) -> bool:
        """True when no product rejects it."""
        return all(cell.outcome.ok for cell in self.cells)


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
        return all(row.ok for row in self.rows)

    def counts(self, place: Place) -> Counter[Outcome]:
        """How many operators of the model (not kinds of them) end how on one product."""
        at = self.places.index(place)
        found: Counter[Outcome] = Counter()
        for row in self.rows:
            found[row.cells[at].outcome] += row.count
        return found


def check_model(
    path: str | Path, socs: Sequence[str | Place], *, catalogue: Catalogue | None = None
) -> ModelCheck:
    """Judge every operator in a profiler's CSV, an ONNX model or a list, on each chip or product.

    Raises FileError for a file that can't be read, UnknownNameError for a product.
    """
    asked = (place_of(soc) if isinstance(soc, str) else soc for soc in socs)
    places = tuple(dict.fromkeys(asked))
    model = read_model(path)
    rows = judge_all(model.operators, places, is_graph=model.is_graph, catalogue=catalogue)
    return ModelCheck(str(path), model.kind, places, rows, model.notes)


def judge_all(
    operators: Iterable[Listed],
    places: Sequence[Place],
    *,
    is_graph: bool = False,
    catalogue: Catalogue | None = None,
) -> tuple[Row, ...]:
    """A row for each kind of operator, the most time-consuming first."""
    known = catalogue or facts.catalogue()
    found: dict[tuple[str, str, tuple[str, ...], tuple[str, ...]], Row] = {}
    for listed in operators:
        key = (listed.op, listed.api, listed.dtypes, listed.outputs)
        row = found.get(key) or _row(known, listed, places, is_graph)
        count, time_us = row.count + listed.count, row.time_us + listed.time_us
        found[key] = replace(row, count=count, time_us=time_us)
    return tuple(sorted(found.values(), key=lambda row: (-row.time_us, row.ok, row.op, row.dtypes)))


def _row(catalogue: Catalogue, listed: Listed, places: Sequence[Place], is_graph: bool) -> Row:
    subject = _subject(catalogue, listed)
    if subject is None:
        why = listed.why_unknown or "the catalogue doesn't know this operator"
        cells = tuple(Cell(place, Outcome.UNKNOWN, why) for place in places)
        return Row(listed.op, "", listed.dtypes, listed.outputs, 0, 0.0, cells)
    cells = tuple(_cell(catalogue, subject, listed, place, is_graph) for place in places)
    means = subject.apis[0] if subject.apis else "/".join(subject.op_types)
    return Row(listed.op, means, listed.dtypes, listed.outputs, 0, 0.0, cells)


def _subject(catalogue: Catalogue, listed: Listed) -> Subject | None:
    """What a row of a file means; a kernel is an operator type, an ONNX node an ONNX operator."""
    if listed.why_unknown:
        return None
    if listed.kind == "onnx":
        return names.onnx_named(catalogue, listed.op) or names.operator_named(catalogue, listed.op)
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


def _cell(
    catalogue: Catalogue, subject: Subject, listed: Listed, place: Place, is_graph: bool
) -> Cell:
    question = Question(place.family, place.soc, inputs=listed.dtypes, outputs=listed.outputs)
    verdict = judging.judge(catalogue, subject, question)
    remark = _remark(verdict)
    runs = verdict.answer is Answer.SUPPORTED
    if is_graph and "FLOAT" in question.dtypes and (not runs or "AI CPU" in remark):
        half = judging.judge(catalogue, subject, question.with_dtype("FLOAT", "FLOAT16"))
        if half.answer is Answer.SUPPORTED and "AI CPU" not in _remark(half):
            return Cell(place, Outcome.RUNS, _IN_FP16)
    if runs and listed.kind == "kernel" and not (listed.dtypes or listed.outputs):
        return Cell(place, Outcome.UNKNOWN, "the product has it; its dtypes aren't in the file")
    if runs:
        return Cell(place, Outcome.RUNS, remark)
    if verdict.answer is Answer.UNKNOWN:
        return Cell(place, Outcome.UNKNOWN, verdict.why)
    full = judging.answer(catalogue, subject, question)
    helps = judging.fp16_helps(catalogue, subject, question)
    outcome = Outcome.AFTER_FP16 if helps else Outcome.REJECTED
    status = verdict.status
    text = f"{status.name} ({status.code}): {verdict.why}" if status else verdict.why
    return Cell(place, outcome, text, full.remedy)


def _remark(verdict: Verdict) -> str:
    """What is worth knowing about something that runs: slow engines, and products undocumented."""
    return next((note for note in verdict.notes if "AI CPU" in note or "undocumented" in note), "")
