"""A typical call of an operator on chips side by side: its tasks, and which of them dominates."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from npusim.reporting.call.tables import BAND_COLUMN, refusals
from npusim.reporting.document import Page, Section, Table, bullets
from npusim.reporting.spelling import latency, percent, size

if TYPE_CHECKING:
    from npusim.operators.contract import Typical
    from npusim.reporting.call.answers import Answer
    from npusim.runtime.results import Result
    from npusim.runtime.timeline import TaskResult
    from npusim.values.dtypes import DType


@dataclass(frozen=True)
class Sample:
    """What one chip says to the typical call in one dtype."""

    dtype: DType
    answer: Answer

    def as_json(self) -> dict[str, Any]:
        """The answer as one JSON object, with the share of every task in the time."""
        described = {"dtype": self.dtype.name, **self.answer.as_json()}
        if (res := self.answer.result) is not None:
            for task, told in zip(res.tasks, described["tasks"], strict=True):
                told["share"] = _share([task], res)
            described["dominated_by"] = _dominant_json(res)
        return described


def typical_json(typical: Typical, samples: Sequence[Sample]) -> dict[str, Any]:
    """The typical call and what the chips say to it as one JSON object."""
    return {
        "words": typical.words,
        "arguments": spelled(typical.arguments),
        "answers": [sample.as_json() for sample in samples],
    }


def typical_page(typical: Typical, samples: Sequence[Sample]) -> Page:
    """The typical call, its tasks on every chip, and what dominates there."""
    said = " ".join(f"{name}={text}" for name, text in spelled(typical.arguments).items())
    refused = refusals([answer for _, answer in _alike(samples)])
    results = (sample.answer.result for sample in samples)
    assumed = dict.fromkeys(line for res in results if res is not None for line in res.assumptions)
    tables = [chain_table(samples), dominance_table(samples), *refused]
    facts = (("what", typical.words), ("arguments", said))
    return Page(
        "a typical call", "", (), facts, [Section("", tables), *bullets("assumed", list(assumed))]
    )


def chain_table(samples: Sequence[Sample]) -> Table:
    """The tasks in order; neighbours of one type in one row, with the bound of the longest."""
    rows = []
    for dtypes, answer in _alike(samples):
        if (res := answer.result) is None:
            continue
        place = (answer.soc, dtypes)
        for _, same in itertools.groupby(res.tasks, key=lambda task: task.name):
            tasks = list(same)
            longest = max(tasks, key=lambda task: task.duration_us)
            time = latency(sum(task.duration_us for task in tasks))
            share = percent(_share(tasks, res))
            told = (_times(longest.name, tasks), str(longest.block_dim), time, share, longest.bound)
            rows.append((*place, *told))
            place = ("", "")
    columns = ("SoC", "dtype", "task", "cores", "time", "share", "bound by")
    return Table(columns, rows, ("cores", "time", "share"), "task chain", ("bound by",))


def dominance_table(samples: Sequence[Sample]) -> Table:
    """The time and the workspace per chip and dtype, and the task type that takes most."""
    rows = []
    for dtypes, answer in _alike(samples):
        if (res := answer.result) is None:
            continue
        totals = latency(res.duration_us, res.band_us), size(res.workspace_size)
        most = ("", "", "")
        if tasks := _dominant(res):
            most = _times(tasks[0].name, tasks), percent(_share(tasks, res)), tasks[0].bound
        rows.append((answer.soc, dtypes, *totals, *most))
    numbers = (BAND_COLUMN, "workspace", "share")
    columns = ("SoC", "dtype", BAND_COLUMN, "workspace", "task", "share", "bound by")
    return Table(columns, rows, numbers, "what dominates", ("bound by",))


def _alike(samples: Sequence[Sample]) -> Iterator[tuple[str, Answer]]:
    """The answers, with the dtypes to which a chip says the same in one."""
    for _, group in itertools.groupby(samples, key=_gist):
        same = list(group)
        yield ", ".join(sample.dtype.name for sample in same), same[0].answer


def _gist(sample: Sample) -> tuple[object, ...]:
    answer = sample.answer
    tasks = () if answer.result is None else answer.result.tasks
    times = tuple((task.name, task.cycles, task.bound) for task in tasks)
    return answer.soc, answer.reason, times


def spelled(arguments: Mapping[str, object]) -> dict[str, str]:
    """The arguments as the command line takes them."""
    return {name: _spelled(value) for name, value in arguments.items()}


def _spelled(value: object) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(_spelled, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _share(tasks: Sequence[TaskResult], res: Result) -> float:
    return sum(task.duration_us for task in tasks) / res.duration_us if res.duration_us else 0.0


def _dominant(res: Result) -> list[TaskResult]:
    """The tasks of the type that takes the most time, the longest of them first."""
    kinds: dict[str, list[TaskResult]] = {}
    for task in res.tasks:
        kinds.setdefault(task.name, []).append(task)
    most = max(kinds.values(), key=lambda tasks: _share(tasks, res), default=[])
    return sorted(most, key=lambda task: -task.duration_us)


def _times(name: str, tasks: Sequence[TaskResult]) -> str:
    return f"{name} x{len(tasks)}" if len(tasks) > 1 else name


def _dominant_json(res: Result) -> dict[str, Any] | None:
    tasks = _dominant(res)
    if not tasks:
        return None
    told = {"task": tasks[0].name, "times": len(tasks), "bound": tasks[0].bound}
    return {**told, "share": _share(tasks, res)}
