"""`npusim estimate`: how long does this call take, from its shapes alone."""

from __future__ import annotations

from npusim.cli import calls, output, profiling
from npusim.cli.chips import chips
from npusim.cli.options import (
    L2,
    AsJson,
    Assignments,
    Assume,
    Exact,
    Explain,
    Force,
    Operator,
    Socs,
)
from npusim.values.errors import ArgumentError
from npusim.values.language import say


def estimate(
    op: Operator,
    assignments: Assignments = None,
    soc: Socs = None,
    assume: Assume = None,
    l2: L2 = "cold",
    exact: Exact = False,
    path: profiling.ProfileFolder = None,
    form: profiling.OutputFormat = None,
    timestamp: profiling.Timestamp = None,
    force: Force = False,
    explain: Explain = False,
    as_json: AsJson = False,
) -> None:
    """How long does it take? Latency, band, cycles, bound.

    Example: npusim estimate Add -s 910b3 x1=fp16[4096,4096] x2=fp16[4096,4096]
    """
    if (form is None) != (path is None) or form is profiling.Format.NPZ:
        raise ArgumentError(
            say("an estimate is written as --format msprof -o DIR"),
            say("For outputs use `npusim run`."),
        )
    question = calls.read_call(op, assignments)
    assumed = dict(_number(text) for text in assume or [])
    asked = chips(soc, exact=exact, l2=l2)
    if path is not None:
        profiling.prepare(path, timestamp, asked)
    answers = calls.ask_all(
        asked,
        lambda device: device.estimate(question.name, assume=assumed, **question.arguments),
    )
    if path is not None and answers[0].result is not None:
        profiling.write(answers[0].result, path, timestamp, force=force)
    calls.show(question, answers, as_json=as_json)
    if explain and not as_json:
        from npusim.reporting.explain import explained

        output.emit(*(explained(each.result) for each in answers if each.result is not None))


def _number(text: str) -> tuple[str, float]:
    name, mark, value = text.partition("=")
    try:
        return name.strip(), float(value)
    except ValueError:
        problem = "no number" if mark else "no '='"
        raise ArgumentError(
            f"--assume {text}: {problem}", say("Write --assume NAME=NUMBER.")
        ) from None
