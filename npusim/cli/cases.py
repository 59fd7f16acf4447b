"""Running the cases of a file and comparing the outputs with what the file says they must be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from npusim.cli import calls, output
from npusim.cli.casefile import Case, read_cases
from npusim.cli.chips import Chip, chips, progress_over
from npusim.values.errors import ArgumentError
from npusim.values.language import say
from npusim.values.status import Verdict

if TYPE_CHECKING:
    from npusim.reporting.call.answers import Answer
    from npusim.reporting.compare import Comparison


@dataclass(frozen=True)
class Outcome:
    """One case on one chip: `verdict` is pass, FAIL, ran, rejected or unknown.

    It ran where there is nothing to compare with.
    """

    case: Case
    answer: Answer
    comparisons: tuple[Comparison, ...]
    verdict: str
    note: str = ""


def run_cases(
    file: Path,
    op: str | None,
    soc: Sequence[str] | None,
    path: Path | None,
    *,
    force: bool,
    as_json: bool,
) -> None:
    """Run every case on every chip, show how far off the outputs are, exit 1 unless all is well.

    A chip that rejects a case is a failure if it is the only one, and an answer in a comparison.
    """
    listed = read_cases(file)
    names = [_name(case.op, case.arguments) for case in listed]
    if op is not None and (wanted := _name(op, {})) not in names:
        raise ArgumentError(
            say("{file} has no case of {wanted}").format(file=file, wanted=wanted),
            say("Leave the operator out."),
        )
    asked = chips(soc)
    if path is not None and (len(asked) > 1 or len(listed) > 1):
        raise ArgumentError(
            say("the outputs of one case on one chip only can be written"), say("Leave out -o.")
        )
    outcomes = []
    with progress_over(asked) as tell:
        for chip in asked:
            tell(chip)
            outcomes += [judge(case, chip, name) for case, name in zip(listed, names, strict=True)]
    if path is not None and (res := outcomes[0].answer.result) is not None:
        calls.write_outputs(res, path, force=force)
    _show(file, outcomes, as_json=as_json)
    verdicts = [outcome.verdict for outcome in outcomes]
    fine = "FAIL" not in verdicts and ("pass" in verdicts or "ran" in verdicts)
    if "FAIL" in verdicts or (len(asked) == 1 and "rejected" in verdicts):
        raise typer.Exit(1)
    if not fine or len(asked) == 1:
        is_known = "unknown" not in verdicts
        output.end_with((Verdict.YES if fine else Verdict.NO) if is_known else Verdict.UNKNOWN)


def _name(op: str, arguments: Mapping[str, Any]) -> str:
    """The operator's own name; UnknownNameError for a name that nobody knows."""
    from npusim.operators.oracle import contract_of

    contract = contract_of(op, arguments)
    return contract.name if contract else op


def judge(case: Case, chip: Chip, op: str) -> Outcome:
    """Run one case on one chip and compare the status and the outputs with what it expects."""
    from npusim.reporting.compare import compare

    answer = calls.ask(chip, lambda device: device.run(op, **case.arguments))
    code = 0 if answer.status is None else answer.status.code
    if case.status != 0:
        as_expected = code == case.status
        got_code = "unknown" if code is None else code
        note = (
            ""
            if as_expected
            else say("expected status {status}, got {got_code}").format(
                status=case.status, got_code=got_code
            )
        )
        return Outcome(case, answer, (), "pass" if as_expected else "FAIL", note)
    if answer.result is None:
        refused = "unknown" if answer.verdict is Verdict.UNKNOWN else "rejected"
        verdict = refused if answer.error is None else "FAIL"
        return Outcome(case, answer, (), verdict, answer.reason)
    got = answer.result.outputs or {}
    saturates = not chip.profile.features.inf_nan
    comparisons = tuple(
        compare(name, got.get(name), want, rtol=case.rtol, atol=case.atol, saturates=saturates)
        for name, want in case.outputs.items()
    )
    if not comparisons:
        return Outcome(case, answer, (), "ran", say("the case gives no outputs to compare with"))
    passed = all(comparison.passed for comparison in comparisons)
    return Outcome(case, answer, comparisons, "pass" if passed else "FAIL")


def _show(file: Path, outcomes: Sequence[Outcome], *, as_json: bool) -> None:
    if as_json:
        output.emit_json({"file": str(file), "cases": [_as_json(outcome) for outcome in outcomes]})
        return
    from npusim.reporting.call import tables

    rows = [row for outcome in outcomes for row in _rows(outcome)]
    output.emit(tables.cases_table(str(file), rows))


def _rows(outcome: Outcome) -> list[dict[str, str]]:
    """A row for each compared output, or one that says why there is none."""
    from npusim.reporting.call.tables import BAND_COLUMN
    from npusim.reporting.spelling import error_size, latency, percent

    time = ""
    if (res := outcome.answer.result) is not None:
        time = latency(res.duration_us, res.band_us)
    common = {"case": outcome.case.name, "SoC": outcome.answer.soc, BAND_COLUMN: time}
    if not outcome.comparisons:
        empty = {"output": "", "max error": "", "of tolerance": ""}
        return [{**common, **empty, "verdict": outcome.verdict, "note": outcome.note}]
    return [
        {
            **common,
            "output": item.name,
            "max error": error_size(item.max_error),
            "of tolerance": percent(item.share),
            "verdict": "pass" if item.passed else "FAIL",
            "note": item.problem,
        }
        for item in outcome.comparisons
    ]


def _as_json(outcome: Outcome) -> dict[str, Any]:
    from npusim.reporting.renderers.jsonout import fields

    return {
        **fields(outcome, "name=case.name outcome=verdict note"),
        "comparisons": [vars(comparison) for comparison in outcome.comparisons],
        **outcome.answer.as_json(),
    }
