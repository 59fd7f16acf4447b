"""A step of a model as a trace: a row for each stream, tasks inside the modules they belong to.

Same format as the traces of calls (`npusim.reporting.trace`): MindStudio Insight, Perfetto and
chrome://tracing open it. Slices of one row nest by their times: a module spans its tasks.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from npusim.reporting.files import atomic_write
from npusim.reporting.trace import DECIMALS, write_events

if TYPE_CHECKING:
    from npusim.model.results import StepResult, TimedItem

_SEPARATOR: Final = "/"


def write_step_trace(
    result: StepResult, path: str | Path, *, force: bool = False
) -> tuple[Path, int]:
    """Write a step's tasks with the modules of their layers; returns the path and the slices.

    Raises OutputExistsError for a file that exists unless `force`d.
    """
    found: Counter[str] = Counter()

    def told() -> Iterator[str]:
        for event in _events(result):
            found[event["ph"]] += 1
            yield json.dumps(event)

    with atomic_write(path, force=force) as stream:
        write_events(stream, told())
    return Path(path), found["X"]


def _events(result: StepResult) -> Iterator[dict[str, Any]]:
    process = f"{result.step.name} on {result.soc}"
    for number in range(result.streams):
        row = {"pid": process, "tid": f"stream {number}"}
        yield {"name": "thread_sort_index", "ph": "M", **row, "args": {"sort_index": number}}
        yield from _row(result, row)
    yield from _counters(result, process)


def _counters(result: StepResult, process: str) -> Iterator[dict[str, Any]]:
    """What the streams' tasks carry on average of their time, and nought at the end."""
    longer = result.duration_us / result.device_us if result.device_us else 1.0
    ends = accumulate((each.total_us * longer for each in result.items), initial=0.0)
    before: dict[str, dict[str, float]] = {}
    for each, at_us in zip_longest(result.items, ends):
        now = (
            _rates(each, longer / result.streams)
            if each is not None
            else {key: {} for key in before}
        )
        for name, series in now.items():
            told = series or dict.fromkeys(before[name], 0.0)
            if before.get(name) != told:
                before[name] = told
                yield {"name": name, "ph": "C", "pid": process, "tid": name,
                       "ts": round(at_us, DECIMALS), "args": told}  # fmt: skip


def _rates(each: TimedItem, share: float) -> dict[str, dict[str, float]]:
    """GB/s of a task in `share` of its time, by counter; nought where it isn't simulated."""
    time_us = each.timing.duration_us * share
    tasks = each.timing.tasks if time_us else ()

    def gbps(nbytes: int) -> float:
        return round(nbytes / time_us / 1e3, 3) if nbytes else 0.0

    return {
        "L2, GB/s": {
            "read": gbps(sum(task.bytes_read for task in tasks)),
            "written": gbps(sum(task.bytes_written for task in tasks)),
        },
        "HBM, GB/s": {"HBM": gbps(sum(task.hbm_bytes for task in tasks))},
    }


def _row(result: StepResult, row: dict[str, str]) -> Iterator[dict[str, Any]]:
    """The tasks of one stream, and a slice for every module while its tasks go on."""
    longer = result.duration_us / result.device_us if result.device_us else 1.0
    opened: list[tuple[str, float]] = []
    now_us = 0.0
    for each in result.items:
        path = _modules(each)
        kept = _alike([name for name, _ in opened], path)
        yield from (_slice(*opened.pop(), now_us, row) for _ in range(len(opened) - kept))
        opened += [(name, now_us) for name in path[kept:]]
        end_us = now_us + each.total_us * longer
        more = {"tensors": each.item.operation.tensors, "bound": each.timing.bound,
                "layers": ", ".join(each.item.layers), "count": each.item.count}  # fmt: skip
        yield {**_slice(each.item.op, now_us, end_us, row), "args": more}
        now_us = end_us
    while opened:
        yield _slice(*opened.pop(), now_us, row)


def _modules(each: TimedItem) -> list[str]:
    """The modules around a task, outermost first, from the name of its first layer."""
    name = each.item.layers[0] if each.item.layers else ""
    return [part for part in name.split(_SEPARATOR)[:-1] if part]


def _alike(left: Sequence[str], right: Sequence[str]) -> int:
    pairs = zip(left, right, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(left), len(right)))


def _slice(name: str, start_us: float, end_us: float, row: dict[str, str]) -> dict[str, Any]:
    start = round(start_us, DECIMALS)
    return {"name": name, "ph": "X", "ts": start, "dur": round(round(end_us, DECIMALS) - start,
            DECIMALS), **row}  # fmt: skip
