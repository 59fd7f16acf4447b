"""The answers of chips to one call, side by side or one by one; nothing here computes a result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from npusim.engine.timeline import pipe_order
from npusim.reporting.document import Block, Page, Section, Table, Text, Tone, Toned, bullets
from npusim.reporting.spelling import count, error_size, latency, percent, significant, size
from npusim.values.language import say
from npusim.values.status import Verdict

if TYPE_CHECKING:
    import numpy as np

    from npusim.reporting.call.answers import Answer
    from npusim.reporting.compare import Comparison
    from npusim.runtime.results import Result
    from npusim.runtime.timeline import TaskResult

    Array = np.ndarray[Any, Any]

BAND_COLUMN = "latency (80 % band)"

TONES: dict[Verdict, Tone] = {Verdict.YES: "good", Verdict.NO: "bad", Verdict.UNKNOWN: "open"}
_TONES: dict[str, Tone] = {"pass": "good", "FAIL": "bad", "rejected": "bad", "unknown": "open"}


def check_table(operator: str, answers: Sequence[Answer]) -> Table:
    """Who runs it, and why the others don't."""
    rows = [
        (
            answer.product_line,
            answer.soc,
            _verdict(answer),
            _sentences(answer.reason, answer.remedy),
        )
        for answer in answers
    ]
    return Table(("product", "SoC", "runs", "reason"), rows, caption=operator, wide=("reason",))


def rules_lines(answers: Sequence[Answer]) -> list[str]:
    """Under a yes: what else speaks for it, and whether every rule of its page was asked."""
    accepted = [each.status for each in answers if each.ok and each.status is not None]
    lines = [
        say("yes: every rule of {rules_source} was checked").format(
            rules_source=status.rules_source
        )
        if status.rules_checked
        else say(
            "yes: null pointers, dtypes, formats, axes and shapes were "
            "checked, further rules of the operator's page weren't"
        )
        for status in accepted
    ]
    notes = [status.message for status in accepted if status.message and status.is_modelled]
    return list(dict.fromkeys([*notes, *lines]))


def comparison(operator: str, answers: Sequence[Answer]) -> Page:
    """The products side by side, and below the table why some of them don't run it."""
    rows = []
    for answer in answers:
        cells = [""] * 4
        if (res := answer.result) is not None:
            time = latency(res.duration_us, res.band_us)
            cells = [time, count(res.cycles), str(len(res.tasks)), res.bound]
        rows.append((answer.soc, _verdict(answer), *cells))
    numbers = (BAND_COLUMN, "cycles", "tasks")
    columns = ("SoC", "runs", *numbers, "bound by")
    table = Table(columns, rows, numbers, wide=("bound by",))
    return Page(operator, sections=[Section("", [table, *refusals(answers)])])


def refusals(answers: Sequence[Answer]) -> list[Block]:
    """Why some don't run it, or aren't known to: a line for each reason, with all its chips."""
    return [Text(f"{', '.join(socs)}: {reason}") for reason, socs in refused(answers).items()]


def refused(answers: Sequence[Answer], *, alike: bool = False) -> dict[str, list[str]]:
    """The chips by why they don't run it; ``alike`` where only the chip's name differs."""
    chips: dict[str, list[str]] = {}
    for answer in answers:
        if not answer.ok:
            reason = answer.reason.replace(answer.soc, "the chip") if alike else answer.reason
            chips.setdefault(_sentences(reason, answer.remedy), []).append(answer.soc)
    return chips


def _sentences(reason: str, remedy: str) -> str:
    """Both, with a full stop between them."""
    stop = "." if reason and remedy and not reason.endswith((".", "!", "?")) else ""
    return f"{reason}{stop} {remedy}".strip()


def result_page(res: Result) -> Page:
    """One call on one product: the time and its band, the tasks, what was assumed."""
    facts = (
        ("latency", latency(res.duration_us, res.band_us)),
        ("band", f"80 %, {res.band_basis}"),
        ("cycles", count(res.cycles)),
        ("bound by", res.bound),
        ("workspace", size(res.workspace_size)),
    )
    tasks = [Section("", [task_table(res.tasks)])] if res.tasks else []
    assumed = bullets("assumed", res.assumptions)
    return Page(
        say("{op} on {soc}").format(op=res.op, soc=res.soc),
        facts=facts,
        sections=[*tasks, *assumed],
    )


def task_table(tasks: Sequence[TaskResult]) -> Table:
    """The device tasks in order, with the share of time that each pipe is busy."""
    pipes = _used_pipes(tasks)
    numbers = ("cores", "start", "time", "cycles", "read", "written", *pipes)
    rows = [
        (
            task.name,
            str(task.block_dim),
            latency(task.start_us),
            latency(task.duration_us),
            count(task.cycles),
            size(task.bytes_read),
            size(task.bytes_written),
            *(percent(task.pipes[pipe]) if pipe in task.pipes else "" for pipe in pipes),
            task.bound,
        )
        for task in tasks
    ]
    return Table(("task", *numbers, "bound by"), rows, numbers)


def outputs_table(outputs: Mapping[str, Array]) -> Table:
    """The tensors of a run: name, dtype, shape and the extent of the values."""
    extents = ("min", "max", "mean")
    rows = []
    for name, data in outputs.items():
        values = data.astype(float)
        extent = (values.min(), values.max(), values.mean()) if data.size else ()
        numbers = [significant(float(value), 4) for value in extent] or [""] * 3
        rows.append((name, str(data.dtype), str(list(data.shape)), *numbers))
    return Table(("output", "dtype", "shape", *extents), rows, extents)


def accuracy_table(title: str, comparisons: Mapping[str, Sequence[Comparison]]) -> Table:
    """For each chip the largest error of every output, and how much of the tolerance that uses."""
    names = list(dict.fromkeys(item.name for group in comparisons.values() for item in group))
    numbers = (*names, "of tolerance")
    rows = []
    for soc, group in comparisons.items():
        errors = {item.name: error_size(item.max_error) for item in group}
        worst = max((item.share for item in group), default=0.0)
        verdict = "pass" if all(item.passed for item in group) else "FAIL"
        told = Toned(verdict, _TONES[verdict])
        rows.append((soc, *(errors.get(name, "") for name in names), percent(worst), told))
    return Table(("SoC", *numbers, "verdict"), rows, numbers, title)


def cases_table(title: str, rows: Iterable[Mapping[str, str]]) -> Table:
    """Cases of a file: what was expected, how far off the result is, and whether that passes."""
    numbers = (BAND_COLUMN, "max error", "of tolerance")
    columns = ("case", "SoC", BAND_COLUMN, "output", "max error", "of tolerance", "verdict", "note")
    told = [{**row, "verdict": _toned(row["verdict"])} for row in rows]
    cells = [[row[name] for name in columns] for row in told]
    return Table(columns, cells, numbers, title, ("note",))


def _toned(verdict: str) -> str:
    return Toned(verdict, _TONES[verdict]) if verdict in _TONES else verdict


def _verdict(answer: Answer) -> str:
    return Toned(str(answer.verdict), TONES[answer.verdict])


def _used_pipes(tasks: Sequence[TaskResult]) -> list[str]:
    """The pipes that at least one task uses, in the order of the lanes of a trace."""
    used = {pipe for task in tasks for pipe, ratio in task.pipes.items() if ratio > 0}
    return sorted(used, key=pipe_order)
