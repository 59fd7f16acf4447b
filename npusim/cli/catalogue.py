"""The verbs that ask the whole catalogue, for `check` and `ops` to mount."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from npusim.cli import output
from npusim.cli.chips import places
from npusim.cli.options import SOC_FLAGS, AsJson, Force, Output
from npusim.reading.files import read_text
from npusim.values.errors import ArgumentError, FileError
from npusim.values.language import say
from npusim.values.spelling import ALL

if TYPE_CHECKING:
    from npusim.catalogue.families import Place
    from npusim.catalogue.verdicts import Verdict
    from npusim.model.graph_model import Compilation


Programs = Annotated[
    Path | None,
    typer.Option(metavar="TABLE.csv", help="With -o: example programs that don't run, listed too."),
]
Product = Annotated[
    str | None,
    typer.Option(*SOC_FLAGS, metavar="SOC", help="A chip or product family."),
]


def check_operator(
    op: str, words: Sequence[str], socs: Sequence[str] | None, *, as_json: bool
) -> None:
    """Will it run, by the catalogue? Exits as several products together answer."""
    from npusim.reporting import catalogue as report
    from npusim.values.status import best_of

    verdicts = _verdicts(op, words, places(socs))
    if as_json:
        output.emit_json(report.verdicts_json(verdicts))
    elif len(verdicts) == 1:
        output.emit(report.verdict_page(verdicts[0]))
    else:
        output.emit(report.verdicts_table(verdicts))
    output.end_with(best_of(each.answer.verdict for each in verdicts))


def show_operator(op: str, socs: Sequence[str] | None, *, as_json: bool) -> None:
    """What the catalogue knows of an operator: who takes it, and its tensors where it runs."""
    from npusim.catalogue.verdicts import Answer
    from npusim.reporting import catalogue as report

    verdicts = _verdicts(op, [], places(socs or [ALL]))
    if as_json:
        output.emit_json(report.verdicts_json(verdicts))
        return
    output.note(f"npusim has no kernel of {verdicts[0].subject}: this is what the catalogue knows")
    taken = [verdict for verdict in verdicts if verdict.answer is Answer.SUPPORTED]
    output.emit(report.verdicts_table(verdicts), report.verdict_page((taken or verdicts)[-1]))


def _verdicts(op: str, words: Sequence[str], asked: Sequence[Place]) -> list[Verdict]:
    """The verdicts on NAME=DTYPE and NAME=DTYPE[SIZES] words; what can't be judged is set aside."""
    from npusim.operators.listed import by_name, judged

    arguments = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals:
            raise ArgumentError(
                say("{word!r} is not NAME=DTYPE").format(word=word), say("Write e.g. self=bf16.")
            )
        arguments[name] = text
    aside = [name for name in arguments if name not in judged(op, arguments)]
    if aside:
        output.note(
            say("not judged, for the catalogue knows dtypes only: {aside}").format(
                aside=", ".join(aside)
            )
        )
    return [by_name(op, place, arguments)[0] for place in asked]


def check_model(
    path: Path, socs: Sequence[str] | None, how: Compilation | None, *, as_json: bool
) -> None:
    """Will this model run? Exit 1 when any operator is rejected on any of the products.

    Where none is, 3 when it isn't known of any.
    """
    from npusim.model.checking import check_model as check
    from npusim.reporting import catalogue as report

    result = check(path, places(socs), how=how)
    for note in result.notes:
        output.note(note)
    if as_json:
        output.emit_json(report.model_json(result))
    else:
        output.emit(report.model_page(result))
    output.end_with(result.verdict)


def search(text: str, product: str | None, *, as_json: bool) -> None:
    """The operators whose names hold the words, and which take the dtypes among them."""
    from npusim.catalogue.queries import search as find
    from npusim.reporting import catalogue as report

    rows = find(text, product)
    if as_json:
        output.emit_json([report.entry_json(each) for row in rows for each in row.entries])
    elif rows:
        output.emit(report.search_table(say("{rows} operators").format(rows=len(rows)), rows))
    else:
        output.note(say("no operator matches {text!r}").format(text=text))


def diff(
    first: Annotated[str, typer.Argument(metavar="A", help="A chip or product family.")],
    second: Annotated[str, typer.Argument(metavar="B", help="Another one.")],
    as_json: AsJson = False,
) -> None:
    """What one product has and the other lacks: operators, and dtypes of those that both have.

    Example: npusim ops diff 910b3 310p3
    """
    from npusim.catalogue.queries import diff as compare
    from npusim.reporting import catalogue as report

    places([first, second])  # says what should be known about the names
    difference = compare(first, second)
    if as_json:
        output.emit_json(report.difference_json(difference))
    else:
        output.emit(report.difference_page(difference))


def matrix(
    form: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="csv, json, markdown or html.")
    ] = "csv",
    file: Output = None,
    force: Force = False,
) -> None:
    """Every operator on every product, as a file.

    Example: npusim ops matrix -o matrix.csv
    """
    from npusim.catalogue.queries import matrix as every
    from npusim.reporting.matrix import FORMATS

    if form not in FORMATS:
        raise ArgumentError(
            say("unknown format {form!r}").format(form=form),
            say("Write one of {formats}.").format(formats=", ".join(FORMATS)),
        )
    _deliver(FORMATS[form](every()), file, force=force)


def summary(
    file: Output = None,
    force: Force = False,
    check: Annotated[
        Path | None,
        typer.Option("--check", metavar="FILE", help="Exit 1 unless FILE is this summary."),
    ] = None,
) -> None:
    """How many operators each product has, and how many take BF16, on one page of Markdown.

    Example: npusim ops summary -o catalogue.md
    """
    from npusim.catalogue.facts import catalogue
    from npusim.catalogue.queries import disagreements
    from npusim.catalogue.queries import summary as count
    from npusim.reporting.matrix import SUMMARY_COMMAND, summary_page

    page = summary_page(count(), catalogue().sources, disagreements())
    if check is None:
        _deliver(page, file, force=force)
        return
    if read_text(check) != page:
        output.complain(
            say("{check} isn't current").format(check=check),
            say("Write it anew: {summary_command} --force").format(summary_command=SUMMARY_COMMAND),
        )
        raise typer.Exit(1)
    output.note(say("{check} is current").format(check=check))


def coverage(
    soc: Product = None,
    programs: Programs = None,
    file: Output = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """How many aclnn interfaces run with numbers and time, on the AI CPU, or are checked only.

    Example: npusim ops coverage -s 910b3
    """
    from npusim.operators.coverage import covered
    from npusim.reporting.coverage import coverage_json, coverage_page, coverage_tables

    rows = list(covered([place.family for place in places([soc or ALL])]))
    if as_json:
        output.emit_json(coverage_json(rows))
    elif file is not None:
        _deliver(coverage_page(rows, _programs(programs)), file, force=force)
    else:
        output.emit(*coverage_tables(rows))


def _programs(file: Path | None) -> list[dict[str, str]]:
    """The rows of a table of example programs; FileError where a column lacks."""
    if file is None:
        return []
    from npusim.reading.tables import table_in

    columns = ("interface", "program", "product", "outcome", "reason", "taken")
    with table_in(file) as table:
        if lacking := [each for each in columns if each not in table.header]:
            raise FileError(
                file,
                say("has no column {lacking!r}").format(lacking=lacking[0]),
                say("It needs {columns}.").format(columns=", ".join(columns)),
            )
        return [row for _, row in table.records()]


def _deliver(text: str, file: Path | None, *, force: bool) -> None:
    if file is None:
        output.emit_text(text)
        return
    from npusim.reporting.files import write_text

    write_text(file, text, force=force)
    output.note(say("written: {file}").format(file=file))
