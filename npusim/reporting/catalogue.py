"""The catalogue's answers on the terminal and as JSON; nothing here judges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from npusim.catalogue.verdicts import Answer, Outcome, ParameterVerdict, Verdict
from npusim.hardware.families import plural
from npusim.reporting.document import Page, Section, Table, Text, Tone, Toned, bullets
from npusim.reporting.document import Verdict as VerdictLine
from npusim.reporting.renderers import jsonout
from npusim.reporting.renderers.jsonout import fields
from npusim.reporting.spelling import percent
from npusim.values.language import say

if TYPE_CHECKING:
    from npusim.catalogue.queries import Difference, Entry, MatrixRow
    from npusim.model.checking import ModelCheck, Row

_TONES: dict[Answer | Outcome, Tone] = {
    Answer.SUPPORTED: "good",
    Answer.REJECTED: "bad",
    Answer.UNKNOWN: "open",
    Outcome.RUNS: "good",
    Outcome.AFTER_FP16: "changed",
    Outcome.REJECTED: "bad",
    Outcome.UNKNOWN: "open",
}
_SHORT = {
    Outcome.RUNS: "runs",
    Outcome.AFTER_FP16: "after BF16->FP16",
    Outcome.REJECTED: "rejected",
    Outcome.UNKNOWN: "unknown",
}
_COUNTED = {
    Outcome.RUNS: "run",
    Outcome.AFTER_FP16: "would run after BF16 -> FP16",
    Outcome.REJECTED: "rejected",
    Outcome.UNKNOWN: "unknown",
}
_RULES = "dtypes by the page were checked, further rules of the page weren't"
_TOO_MANY = 12  # a list of names longer than this is counted, not printed


def verdicts_table(verdicts: Sequence[Verdict]) -> Table:
    """One operator on several products: what each source says, and our verdict."""
    rows = [
        (
            _place(verdict),
            _toned(verdict.by_page),
            _toned(verdict.by_operator),
            _toned(verdict.answer),
            _reason(verdict),
        )
        for verdict in verdicts
    ]
    columns = ("product", "page", "operator information", "verdict", "why")
    return Table(columns, rows, caption=verdicts[0].subject, wide=("why",))


_MOST_KIN = 5


def _with_floats(entry: Entry) -> str:
    floats = [name for name in entry.dtypes if "FLOAT" in name]
    return f"{entry.api} ({' '.join(floats)})" if floats else entry.api


def verdict_page(verdict: Verdict) -> Page:
    """One operator on one product: the verdict, and everything that it rests on."""
    from npusim.catalogue.names import API
    from npusim.catalogue.queries import relatives

    supported = ", ".join(plural(family) for family in verdict.supported_by)
    facts = [("why", _reason(verdict)), *(("note", note) for note in verdict.notes)]
    if verdict.answer is Answer.SUPPORTED:
        facts.append(("rules", _RULES))
    facts.append(("supported by", supported or say("no product that we know of")))
    if verdict.kind == API and (here := relatives(verdict.subject, verdict.family)):
        facts.append(("offered here", ", ".join(_with_floats(each) for each in here[:_MOST_KIN])))
    rows = [(each.column, _toned(each.answer), each.text, each.source) for each in verdict.evidence]
    tables = [Table(("by", "says", "what", "source"), rows, wide=("source",))] if rows else []
    if verdict.parameters:
        tables.append(parameters_table(verdict.parameters))
    title = say("{subject} on {place}: {answer}").format(
        subject=verdict.subject, place=_place(verdict), answer=verdict.answer
    )
    return Page(title, facts=facts, sections=[Section("", tables)])


def parameters_table(parameters: Iterable[ParameterVerdict]) -> Table:
    """The dtypes of every tensor by source; a doubted BFLOAT16 is in the first column only."""
    rows = []
    for each in parameters:
        asked = f"{each.given}: {each.answer}" if each.given else ""
        lists = (each.page, each.checked, each.operator)
        cells = (" ".join(names) if names else "-" for names in lists)
        rows.append((each.name, each.io, asked, *cells))
    sources = ("by page", "after checking", "by operator information")
    return Table(("parameter", "", "asked", *sources), rows, wide=sources)


def model_page(check: ModelCheck) -> Page:
    """A model: a line of counts per product, the table of operators, and why some don't run."""
    names = [place.soc or plural(place.family) for place in check.places]
    lines = []
    for place, name in zip(check.places, names, strict=True):
        counts = check.counts(place)
        told = [f"{counts[each]} {_COUNTED[each]}" for each in Outcome if counts[each]]
        lines.append(f"{name}: {', '.join(told)}")
    total_us = sum(row.time_us for row in check.rows)
    rows = []
    for row in check.rows:
        time = percent(row.time_us / total_us) if total_us else ""
        cells = [_toned(cell.outcome, _SHORT[cell.outcome]) if cell else "" for cell in row.cells]
        rows.append((row.op, row.means, str(row.count), time, *cells, spelled_dtypes(row)))
    columns = ("operator", "stands for", "n", "time", *names, "dtypes")
    table = Table(columns, rows, ("n", "time"), wide=("dtypes",))
    reasons = list(_reasons(check, names))
    verdicts = [VerdictLine(line) for line in lines]
    sections = [Section("", [table]), *bullets("why", reasons)]
    return Page(
        say("{rows} operators").format(rows=len(check.rows)), verdicts=verdicts, sections=sections
    )


def spelled_dtypes(row: Row) -> str:
    """``BFLOAT16, INT32 -> BFLOAT16``; equal neighbours are written once with their number."""
    incoming, outgoing = _runs(row.dtypes), _runs(row.outputs)
    return f"{incoming} -> {outgoing}" if outgoing else incoming


def search_table(title: str, rows: Sequence[MatrixRow]) -> Table:
    """The APIs that a search has found: the verdict per product, or the dtypes on a single one."""
    if rows and len(rows[0].entries) == 1:
        told = []
        for row in rows:
            (entry,) = row.entries
            said = (entry.by_page, entry.by_operator, entry.answer)
            told.append((row.api, *map(_toned, said), " ".join(entry.dtypes)))
        columns = ("operator", "page", "operator information", "verdict", "dtypes")
        return Table(columns, told, caption=title, wide=("dtypes",))
    return matrix_table(rows, title)


def matrix_table(rows: Sequence[MatrixRow], title: str = "", *, sortable: bool = False) -> Table:
    """A line for each API and a column for each product family."""
    families = [entry.family for entry in rows[0].entries] if rows else []
    told = [(row.api, *map(_entry, row.entries)) for row in rows]
    return Table(("operator", *families), told, caption=title, sortable=sortable)


def _entry(entry: Entry) -> str:
    doubted = (
        say(" (doubted: {doubted})").format(doubted=" ".join(entry.doubted))
        if entry.doubted
        else ""
    )
    return Toned(cell(entry), _TONES[entry.answer], f"{' '.join(entry.dtypes)}{doubted}")


def cell(entry: Entry) -> str:
    """An API on a family in a few letters: yes, yes + BF16, no or unknown."""
    if entry.answer is Answer.SUPPORTED:
        return "yes, BF16" if entry.bf16 else "yes"
    return "no" if entry.answer is Answer.REJECTED else "unknown"


def difference_page(difference: Difference) -> Page:
    """What one product has and the other lacks, then the dtypes that differ."""
    first, second = difference.first, difference.second
    sections = [
        Section(
            say("only on {family} ({names})").format(family=plural(family), names=len(names)),
            [Text(", ".join(names) or "none")],
        )
        for family, names in ((first, difference.only_first), (second, difference.only_second))
    ]
    # Hundreds of operators differ in the same few ways, BFLOAT16 before all.
    ways: dict[tuple[str, str], list[str]] = {}
    for change in difference.changes:
        way = (" ".join(change.only_first), " ".join(change.only_second))
        ways.setdefault(way, []).append(change.api)
    rows = [
        (*(text or "-" for text in way), str(len(apis)), ", ".join(apis))
        for way, apis in sorted(ways.items(), key=lambda item: -len(item[1]))
    ]
    columns = (
        say("only on {first}").format(first=first),
        say("only on {second}").format(second=second),
        "n",
        "operators",
    )
    sections.append(Section("other dtypes", [Table(columns, rows, ("n",), wide=columns)]))
    return Page(
        say(
            "{common} operators run on both {first} and {second}; "
            "{changes} of them with other dtypes."
        ).format(
            common=difference.common,
            first=plural(first),
            second=plural(second),
            changes=len(difference.changes),
        ),
        sections=sections,
    )


def verdicts_json(verdicts: Iterable[Verdict]) -> dict[str, Any]:
    """Verdicts with their evidence and parameters as one JSON object."""
    return {"answers": [_verdict_json(each) for each in verdicts]}


def _verdict_json(verdict: Verdict) -> dict[str, Any]:
    return {
        **fields(verdict, "operator=subject kind family"),
        "soc": verdict.soc or None,
        **fields(
            verdict,
            "verdict=answer by_page by_operator_information=by_operator disagree why remedy",
        ),
        "status": jsonout.status(verdict.status),
        **fields(verdict, "supported_by notes"),
        "evidence": [
            fields(each, "by=column says=answer what=text source") for each in verdict.evidence
        ],
        "parameters": [_parameter_json(each) for each in verdict.parameters],
    }


def model_json(check: ModelCheck) -> dict[str, Any]:
    """A model check as one JSON object."""
    return {
        **fields(check, "model=path kind ok verdict"),
        "products": [
            {
                "family": place.family,
                "soc": place.soc or None,
                "verdict": check.verdict_on(place),
                "counts": {each.name.lower(): check.counts(place)[each] for each in Outcome},
            }
            for place in check.places
        ],
        "operators": [
            {
                **fields(row, "operator=op stands_for=means inputs=dtypes outputs count"),
                "time_us": row.time_us or None,
                "answers": [
                    {
                        "family": each.place.family,
                        "soc": each.place.soc or None,
                        "outcome": each.outcome.name.lower(),
                        "verdict": each.outcome.verdict,
                        "count": row.count if each.count is None else each.count,
                        **fields(each, "why remedy"),
                    }
                    for each in row.given
                ],
            }
            for row in check.rows
        ],
        "notes": check.notes,
    }


def entry_json(entry: Entry) -> dict[str, Any]:
    """One API on one family."""
    return fields(
        entry,
        "operator=api family by_page by_operator_information=by_operator "
        "verdict=answer dtypes doubted_dtypes=doubted",
    )


def difference_json(difference: Difference) -> dict[str, Any]:
    """A comparison of two products."""
    return {
        **fields(difference, "first second common only_first only_second"),
        "other_dtypes": [
            fields(each, "operator=api only_first only_second") for each in difference.changes
        ],
    }


def _parameter_json(each: ParameterVerdict) -> dict[str, Any]:
    return {
        **fields(
            each,
            "name io type=c_type by_page=page after_checking=checked "
            "by_operator_information=operator formats rank optional",
        ),
        "asked": each.given or None,
        "verdict": each.answer if each.given else None,
        **fields(each, "why flags"),
    }


def _place(verdict: Verdict) -> str:
    name = plural(verdict.family)
    return f"{verdict.soc} ({name})" if verdict.soc else name


def _reason(verdict: Verdict) -> str:
    status = verdict.status
    code = f"{status.name} ({status.code}): " if status.code else ""
    return f"{code}{verdict.why}. {verdict.remedy}".rstrip(" ") if verdict.why else verdict.remedy


def _reasons(check: ModelCheck, names: Sequence[str]) -> Iterable[str]:
    """Each reason once: for whom, what, and at the end of a product what can be done."""
    for at, name in enumerate(names):
        told: dict[str, list[str]] = {}
        for row in check.rows:
            each = row.cells[at]
            if each and each.outcome is not Outcome.RUNS:
                reason = f"{each.why}. {each.remedy}".strip()
                told.setdefault(reason, []).append(row.op)
        for reason, ops in told.items():
            unique = list(dict.fromkeys(ops))
            shown = ", ".join(unique[:_TOO_MANY])
            more = (
                say(" and {unique} more").format(unique=len(unique) - _TOO_MANY)
                if len(unique) > _TOO_MANY
                else ""
            )
            yield f"{name}, {shown}{more}: {reason}"


def _toned(answer: Answer | Outcome, text: str = "") -> str:
    return Toned(text or str(answer), _TONES[answer])


def _runs(names: Sequence[str]) -> str:
    """``BFLOAT16 x3, INT32``."""
    parts: list[list[Any]] = []
    for name in names:
        if parts and parts[-1][0] == name:
            parts[-1][1] += 1
        else:
            parts.append([name, 1])
    return ", ".join(f"{name or '-'} x{n}" if n > 1 else name or "-" for name, n in parts)
