"""A timeline as a trace that MindStudio Insight, Perfetto and chrome://tracing open.

The file follows the aggregate trace of `msprof op simulator` (Ascend/msopprof:
csrc/op_profiling/parse/data_visualizer/timeline_visualizer, timeline_defs.h and
core_timeline_visualizer.cpp).  What bites:

- Insight takes a JSON for an operator simulation only when `profilingType` and `op` stand before
  the first `[`, so the header keys come first, and it reads `pid` and `tid` as strings
  (Ascend/msinsight, project JSON parser).
- `ts` and `dur` are microseconds; Perfetto drops slices that overlap partly on one track.
- An arrow is a pair of `s` and `t` with one `id`; viewers tie its ends to the slices that they lie
  in, so both lie inside of theirs.  Perfetto reads a string `id` as a hexadecimal number and drops
  the arrow if it isn't one (google/perfetto: src/trace_processor/importers/json,
  MaybeExtractFlowIdentifier).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from math import inf
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from npusim.engine.timeline import pipe_order
from npusim.reporting.counters import Counters
from npusim.reporting.files import atomic_write
from npusim.values.errors import ArgumentError

if TYPE_CHECKING:
    from npusim.runtime.results import Result
    from npusim.runtime.timeline import Origin, Slice

HEADER = {"profilingType": "op", "schemaVersion": 2, "displayTimeUnit": "ns"}

# Chrome's palette names for the pipes, as msopprof gives them; any other pipe has the last one.
CNAMES = {
    "SCALAR": "startup",
    "FLOWCTRL": "cq_build_passed",
    "MTE1": "thread_state_running",
    "CUBE": "background_memory_dump",
    "FIXP": "thread_state_unknown",
    "MTE2": "thread_state_iowait",
    "VECTOR": "cq_build_failed",
    "MTE3": "rail_response",
    "CACHEMISS": "thread_state_runnable",
    "SCALARLDST": "startup",
    "ALL": "good",
    "USERMARK": "rail_load",
}
OTHER_CNAME = "thread_state_stopped"

# Of a microsecond: picoseconds are finer than any clock here, and hide the last bits of a division.
DECIMALS = 6

# An arrow leaves this much before its slice ends: within it also for viewers that count whole
# nanoseconds.
_INSIDE_US = 1e-3

# Our own lane above the cores: the device tasks of the call, one after the other.
TASKS_PROCESS = "tasks"
TASKS_LANE = "stream"

# One encoder for all events: json.dumps would make a new one each time.
_ENCODE = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode

Window = tuple[float, float]
"""The microseconds of the call between which something is shown."""

_SAY_EVERY = 20_000
_SAMPLE = 2_000  # events whose length is that of all

_CORE = re.compile(r"core(\d+)")
_VECTOR_CORE = re.compile(r"veccore(\d+)")


@dataclass(frozen=True)
class TraceSummary:
    """What was written: how many slices, on how many cores, and where the last one ends."""

    path: Path
    slices: int
    cores: int
    end_us: float


def write_trace(
    res: Result,
    path: str | Path,
    *,
    cores: tuple[int, ...] | None = None,
    window_us: Window | None = None,
    force: bool = False,
    progress: Callable[[int], None] | None = None,
) -> TraceSummary:
    """Write the timeline of `res` to `path`, event by event, so that its length costs no memory.

    `cores` keeps the cores with these numbers only, `window_us` what lies at least partly between
    two times; ArgumentError when none of the cores is used.  The same result gives the same bytes.
    `progress` hears how many slices have been looked at.
    """
    tally = _Tally(progress)
    with atomic_write(path, force=force) as stream:
        write_events(stream, _events(res, cores, window_us, tally))
    return TraceSummary(Path(path), tally.slices, len(tally.cores), tally.end_us)


def write_events(stream: IO[bytes], events: Iterable[str]) -> None:
    """The events of a trace, each as JSON, behind the header that viewers look for."""
    head = json.dumps(HEADER)[:-1]
    stream.write(f'{head}, "traceEvents": [\n'.encode())
    separator = b""
    for event in events:
        stream.write(separator + event.encode())
        separator = b",\n"
    stream.write(b"\n]}\n")


def estimated_bytes(res: Result, cores: tuple[int, ...] | None, window_us: Window | None) -> int:
    """About how large the file would be: its first events say how long one is."""
    tally = _Tally()
    events = islice(_events(res, cores, None, tally), _SAMPLE)
    sample = sum(len(event) + 2 for event in events)
    slices = res.timeline.count(_chosen(res, cores))
    if window_us is not None and res.duration_us:
        first, last = window_us
        seen_us = max(0.0, min(last, res.duration_us) - first)
        slices = round(slices * min(1.0, seen_us / res.duration_us))
    return round(sample / max(1, tally.slices) * max(slices, tally.slices))


@dataclass
class _Tally:
    progress: Callable[[int], None] | None = None
    looked_at: int = 0
    slices: int = 0
    arrows: int = 0
    end_us: float = 0.0

    def __post_init__(self) -> None:
        self.cores: dict[str, set[str]] = {}

    def look(self) -> None:
        """Count a slice, written or not."""
        self.looked_at += 1
        if self.progress is not None and self.looked_at % _SAY_EVERY == 0:
            self.progress(self.looked_at)


def _events(
    res: Result, cores: tuple[int, ...] | None, window_us: Window | None, tally: _Tally
) -> Iterator[str]:
    """The events as JSON, in the order of the file."""
    first_us, last_us = window_us or (0.0, inf)
    yield _metadata("process_sort_index", TASKS_PROCESS, TASKS_LANE, 0)
    for task in res.tasks:
        args = {"block_dim": task.block_dim, "bound": task.bound}
        frame = _frame(task.name, CNAMES["ALL"], TASKS_PROCESS, TASKS_LANE, _ENCODE(args))
        yield _timed(frame, task.start_us, task.duration_us)
    counters = Counters(res, first_us, min(last_us, res.duration_us))
    for item in res.timeline.slices(_chosen(res, cores), last_us):
        tally.look()
        if item.duration_us <= 0:
            continue  # viewers drop what has no width, and some complain
        if not first_us <= item.start_us + item.duration_us or item.start_us > last_us:
            continue
        yield from _lane_metadata(item, tally.cores)
        tally.slices += 1
        counters.add(item)
        tally.end_us = max(tally.end_us, item.start_us + item.duration_us)
        args_json = _args(item.task, item.site, item.detail, item.bytes)
        cname = CNAMES.get(item.pipe, OTHER_CNAME)
        frame = _frame(item.name, cname, item.core, item.pipe, args_json)
        yield _timed(frame, item.start_us, item.duration_us)
        for origin in item.waited_for:
            if origin.end_us > origin.start_us:
                tally.arrows += 1
                yield from _arrow(item, origin, tally.arrows)
    for name, at_us, values in counters.events():
        place = {"ph": "C", "pid": TASKS_PROCESS, "tid": name, "ts": round(at_us, DECIMALS)}
        yield _ENCODE({"name": name, **place, "args": values})


def _arrow(item: Slice, origin: Origin, number: int) -> Iterator[str]:
    """From the end of what an instruction waited for to its start (msopprof: GetFlowEvents)."""
    before, leaving, arriving = _arrow_frame(item.core, origin.pipe, item.pipe)
    leaves = round(max(origin.start_us, origin.end_us - _INSIDE_US), DECIMALS)
    yield f'{before}{number:x}","ph":"s","ts":{leaves!r}{leaving}'
    yield f'{before}{number:x}","ph":"t","ts":{round(item.start_us, DECIMALS)!r}{arriving}'


@lru_cache(maxsize=2**12)
def _arrow_frame(core: str, first: str, then: str) -> tuple[str, str, str]:
    """The JSON of an arrow before its number, and after the times of its two ends."""
    before = _ENCODE({"name": "flow", "cat": f"{first}To{then}", "id": ""})[:-2]
    leaves, arrives = (_ENCODE({"pid": core, "tid": pipe})[1:] for pipe in (first, then))
    return before, f",{leaves}", f",{arrives}"


@lru_cache(maxsize=2**16)
def _frame(name: str, cname: str, pid: str, tid: str, args_json: str) -> tuple[str, str]:
    """The JSON of a slice before and after its times: a long trace repeats few of them."""
    before = _ENCODE({"name": name, "cname": cname, "ph": "X"})[:-1]
    after = _ENCODE({"pid": pid, "tid": tid})[1:-1]
    return f'{before},"ts":', f',{after},"args":{args_json}}}'


@lru_cache(maxsize=2**16)
def _args(task: str, site: str, detail: str, moved_bytes: int) -> str:
    args: dict[str, Any] = {"task": task, "code": site, "detail": detail}
    if moved_bytes:
        args["process_bytes"] = moved_bytes
    return _ENCODE(args)


def _timed(frame: tuple[str, str], start_us: float, duration_us: float) -> str:
    """A slice; its end is rounded and not its duration, so that neighbours never overlap."""
    start = round(start_us, DECIMALS)
    duration = round(round(start_us + duration_us, DECIMALS) - start, DECIMALS)
    return f'{frame[0]}{start!r},"dur":{duration!r}{frame[1]}'


def _chosen(res: Result, numbers: tuple[int, ...] | None) -> list[str] | None:
    """The names of the cores with these numbers; ArgumentError when the call uses none of them."""
    if numbers is None:
        return None
    used = res.timeline.cores
    names = [core for core in used if core_number(core) in numbers]
    if not names:
        remedy = f"It uses {used[0]} to {used[-1]}." if used else "It uses no core at all."
        raise ArgumentError("the call doesn't use any of these cores", remedy)
    return names


def _lane_metadata(item: Slice, seen: dict[str, set[str]]) -> Iterator[str]:
    """The sort indices of a core and a pipe, the first time that each of them appears."""
    lanes = seen.get(item.core)
    if lanes is None:
        lanes = seen[item.core] = set()
        yield _metadata("process_sort_index", item.core, "NA", process_order(item.core))
    if item.pipe not in lanes:
        lanes.add(item.pipe)
        yield _metadata("thread_sort_index", item.core, item.pipe, pipe_order(item.pipe)[0])


def _metadata(name: str, pid: str, tid: str, index: int) -> str:
    args = {"sort_index": index}
    return _ENCODE({"name": name, "ph": "M", "pid": pid, "tid": tid, "args": args})


def process_order(core: str) -> int:
    """Three places for each core, as msopprof counts them: the cube core, then its vector cores."""
    number = core_number(core)
    vector = _VECTOR_CORE.search(core)
    return number * 3 + (2 + int(vector[1]) if vector else 1)


def core_number(core: str) -> int:
    """The number in a core's name; the cores of one cluster share it."""
    found = _CORE.search(core)
    return int(found[1]) if found else 0
