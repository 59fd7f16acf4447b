"""The catalogue's answers on the terminal and as JSON; nothing here judges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npusim.catalogue.verdicts import Answer, Outcome
from npusim.hardware.families import plural
from npusim.report import jsonout
from npusim.report.spelling import percent

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

    from npusim.catalogue.models import ModelCheck, Row
    from npusim.catalogue.queries import Difference, Entry, MatrixRow
    from npusim.catalogue.verdicts import ParameterVerdict, Verdict

_STYLES: dict[Answer | Outcome, str] = {
    Answer.SUPPORTED: "green",
    Answer.REJECTED: "red",
    Answer.UNKNOWN: "yellow",
    Outcome.RUNS: "green",
    Outcome.AFTER_FP16: "magenta",
    Outcome.REJECTED: "red",
    Outcome.UNKNOWN: "yellow",
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
_TOO_MANY = 12  # a list of names longer than this is counted, not printed


def verdicts_table(verdicts: Sequence[Verdict]) -> Table:
    """One operator on several products: what each source says, and our verdict."""
    from npusim.report.tables import Grid

    columns = ("product", "page", "operator information", "verdict", "why")
    table = Grid(verdicts[0].subject, columns, wide="why")
    for verdict in verdicts:
        table.row(
            _place(verdict),
            _coloured(verdict.by_page),
            _coloured(verdict.by_operator),
            _coloured(verdict.answer),
            _reason(verdict),
        )
    return table


def verdict_page(verdict: Verdict) -> RenderableType:
    """One operator on one product: the verdict, and everything that it rests on."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    from npusim.report.tables import Grid, facts

    head = Text(f"{verdict.subject} on {_place(verdict)}: ", style="bold")
    head.append(_coloured(verdict.answer))
    supported = ", ".join(plural(family) for family in verdict.supported_by)
    lines = [("why", _reason(verdict))]
    lines += [("note", note) for note in verdict.notes]
    lines.append(("supported by", supported or "no product that we know of"))
    evidence = Grid("", ("by", "says", "what", "source"), wide="source")
    for each in verdict.evidence:
        evidence.row(each.column, _coloured(each.answer), each.text, each.source)
    parts: list[RenderableType] = [head, Padding(facts(lines), (0, 2))]
    if verdict.evidence:
        parts += ["", evidence]
    if verdict.parameters:
        parts += ["", parameters_table(verdict.parameters)]
    return Group(*parts)


def parameters_table(parameters: Iterable[ParameterVerdict]) -> Table:
    """The dtypes of every tensor by source; a doubted BFLOAT16 is in the first column only."""
    from npusim.report.tables import Grid

    columns = ("parameter", "", "asked", "by page", "after checking", "by operator information")
    table = Grid("", columns)
    for column in table.columns[3:]:
        column.no_wrap = False
        column.min_width = 14
    for each in parameters:
        asked = f"{each.given}: {each.answer}" if each.given else ""
        lists = (each.page, each.checked, each.operator)
        cells = (" ".join(names) if names else "-" for names in lists)
        table.row(each.name, each.io, asked, *cells)
    return table


def model_page(check: ModelCheck) -> RenderableType:
    """A model: a line of counts per product, the table of operators, and why some don't run."""
    from rich.console import Group
    from rich.text import Text

    from npusim.report.tables import Grid

    names = [place.soc or plural(place.family) for place in check.places]
    parts: list[RenderableType] = []
    for place, name in zip(check.places, names, strict=True):
        counts = check.counts(place)
        told = [f"{counts[each]} {_COUNTED[each]}" for each in Outcome if counts[each]]
        parts.append(Text(f"{name}: {', '.join(told)}"))
    total_us = sum(row.time_us for row in check.rows)
    numbers = ("n", "time")
    table = Grid("", ("operator", "stands for", *numbers, *names, "dtypes"), numbers, wide="dtypes")
    for row in check.rows:
        time = percent(row.time_us / total_us) if total_us else ""
        cells = [_coloured(cell.outcome, _SHORT[cell.outcome]) for cell in row.cells]
        table.row(row.op, row.means, str(row.count), time, *cells, spelled_dtypes(row))
    parts += ["", table]
    reasons = list(_reasons(check, names))
    if reasons:
        parts += ["", Text("why", style="bold"), *reasons]
    return Group(*parts)


def spelled_dtypes(row: Row) -> str:
    """``BFLOAT16, INT32 -> BFLOAT16``; equal neighbours are written once with their number."""
    incoming, outgoing = _runs(row.dtypes), _runs(row.outputs)
    return f"{incoming} -> {outgoing}" if outgoing else incoming


def search_table(title: str, rows: Sequence[MatrixRow]) -> Table:
    """The APIs that a search has found: the verdict per product, or the dtypes on a single one."""
    from npusim.report.tables import Grid

    if rows and len(rows[0].entries) == 1:
        columns = ("operator", "page", "operator information", "verdict", "dtypes")
        table = Grid(title, columns, wide="dtypes")
        for row in rows:
            (entry,) = row.entries
            said = (entry.by_page, entry.by_operator, entry.answer)
            table.row(row.api, *(_coloured(each) for each in said), " ".join(entry.dtypes))
        return table
    families = [entry.family for entry in rows[0].entries] if rows else []
    table = Grid(title, ("operator", *families))
    for row in rows:
        table.row(row.api, *(_coloured(entry.answer, cell(entry)) for entry in row.entries))
    return table


def cell(entry: Entry) -> str:
    """An API on a family in a few letters: yes, yes + BF16, no or unknown."""
    if entry.answer is Answer.SUPPORTED:
        return "yes, BF16" if entry.bf16 else "yes"
    return "no" if entry.answer is Answer.REJECTED else "unknown"


def difference_page(difference: Difference) -> RenderableType:
    """What one product has and the other lacks, then the dtypes that differ."""
    from rich.console import Group
    from rich.text import Text

    from npusim.report.tables import Grid

    first, second = difference.first, difference.second
    parts: list[RenderableType] = [
        Text(
            f"{difference.common} operators run on both {plural(first)} and {plural(second)}; "
            f"{len(difference.changes)} of them with other dtypes."
        )
    ]
    for family, names in ((first, difference.only_first), (second, difference.only_second)):
        parts += ["", Text(f"only on {plural(family)} ({len(names)})", style="bold")]
        parts.append(Text(", ".join(names) or "none"))
    # Hundreds of operators differ in the same few ways, BFLOAT16 before all.
    ways: dict[tuple[str, str], list[str]] = {}
    for change in difference.changes:
        way = (" ".join(change.only_first), " ".join(change.only_second))
        ways.setdefault(way, []).append(change.api)
    table = Grid("", (f"only on {first}", f"only on {second}", "n", "operators"), ("n",))
    for column in table.columns:
        column.no_wrap = False
    for way, apis in sorted(ways.items(), key=lambda item: -len(item[1])):
        table.row(*(text or "-" for text in way), str(len(apis)), ", ".join(apis))
    return Group(*parts, "", Text("other dtypes", style="bold"), table)


def verdict_json(verdict: Verdict) -> dict[str, Any]:
    """A verdict with its evidence and parameters as one JSON object."""
    status = verdict.status
    return {
        "operator": verdict.subject,
        "kind": verdict.kind,
        "family": verdict.family,
        "soc": verdict.soc or None,
        "verdict": verdict.answer,
        "by_page": verdict.by_page,
        "by_operator_information": verdict.by_operator,
        "disagree": verdict.disagree,
        "why": verdict.why,
        "remedy": verdict.remedy,
        "status": jsonout.status(status) if status else None,
        "supported_by": verdict.supported_by,
        "notes": verdict.notes,
        "evidence": [
            {"by": each.column, "says": each.answer, "what": each.text, "source": each.source}
            for each in verdict.evidence
        ],
        "parameters": [_parameter_json(each) for each in verdict.parameters],
    }


def model_json(check: ModelCheck) -> dict[str, Any]:
    """A model check as one JSON object."""
    return {
        "model": check.path,
        "kind": check.kind,
        "ok": check.ok,
        "products": [
            {
                "family": place.family,
                "soc": place.soc or None,
                "counts": {each.name.lower(): check.counts(place)[each] for each in Outcome},
            }
            for place in check.places
        ],
        "operators": [
            {
                "operator": row.op,
                "stands_for": row.means,
                "inputs": row.dtypes,
                "outputs": row.outputs,
                "count": row.count,
                "time_us": row.time_us or None,
                "answers": [
                    {
                        "family": each.place.family,
                        "soc": each.place.soc or None,
                        "outcome": each.outcome.name.lower(),
                        "why": each.why,
                        "remedy": each.remedy,
                    }
                    for each in row.cells
                ],
            }
            for row in check.rows
        ],
        "notes": check.notes,
    }


def entry_json(entry: Entry) -> dict[str, Any]:
    """One API on one family."""
    return {
        "operator": entry.api,
        "family": entry.family,
        "by_page": entry.by_page,
        "by_operator_information": entry.by_operator,
        "verdict": entry.answer,
        "dtypes": entry.dtypes,
        "doubted_dtypes": entry.doubted,
    }


def difference_json(difference: Difference) -> dict[str, Any]:
    """A comparison of two products."""
    return {
        "first": difference.first,
        "second": difference.second,
        "common": difference.common,
        "only_first": difference.only_first,
        "only_second": difference.only_second,
        "other_dtypes": [
            {
                "operator": each.api,
                "only_first": each.only_first,
                "only_second": each.only_second,
            }
            for each in difference.changes
        ],
    }


def _parameter_json(each: ParameterVerdict) -> dict[str, Any]:
    return {
        "name": each.name,
        "io": each.io,
        "type": each.c_type,
        "by_page": each.page,
        "after_checking": each.checked,
        "by_operator_information": each.operator,
        "formats": each.formats,
        "rank": each.rank,
        "optional": each.optional,
        "asked": each.given or None,
        "verdict": each.answer if each.given else None,
        "why": each.why,
        "flags": each.flags,
    }


def _place(verdict: Verdict) -> str:
    name = plural(verdict.family)
    return f"{verdict.soc} ({name})" if verdict.soc else name


def _reason(verdict: Verdict) -> str:
    status = verdict.status
    code = f"{status.name} ({status.code}): " if status and not status.ok else ""
    return f"{code}{verdict.why}. {verdict.remedy}".rstrip(" ") if verdict.why else verdict.remedy


def _reasons(check: ModelCheck, names: Sequence[str]) -> Iterable[Text]:
    """Each reason once: for whom, what, and at the end of a product what can be done."""
    from rich.text import Text

    for at, name in enumerate(names):
        told: dict[str, list[str]] = {}
        for row in check.rows:
            each = row.cells[at]
            if each.outcome is not Outcome.RUNS:
                reason = f"{each.why}. {each.remedy}".strip()
                told.setdefault(reason, []).append(row.op)
        for reason, ops in told.items():
            unique = list(dict.fromkeys(ops))
            shown = ", ".join(unique[:_TOO_MANY])
            more = f" and {len(unique) - _TOO_MANY} more" if len(unique) > _TOO_MANY else ""
            yield Text(f"- {name}, {shown}{more}: {reason}")


def _coloured(answer: Answer | Outcome, text: str = "") -> Text:
    from rich.text import Text

    return Text(text or str(answer), style=_STYLES[answer])


def _runs(names: Sequence[str]) -> str:
    """``BFLOAT16 x3, INT32``."""
    parts: list[list[Any]] = []
    for name in names:
        if parts and parts[-1][0] == name:
            parts[-1][1] += 1
        else:
            parts.append([name, 1])
    return ", ".join(f"{name or '-'} x{n}" if n > 1 else name or "-" for name, n in parts)
