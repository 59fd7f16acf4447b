"""Why a task takes as long as it does: what each pipe of its slowest core worked on and waited for.

Also the critical path: from the last instruction back, always along what it had to wait for.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from npusim.engine.arrows import linked
from npusim.engine.program import Pipe
from npusim.values.language import say

if TYPE_CHECKING:
    from npusim.engine import KernelRun
    from npusim.engine.timeline import CoreRecord, Span
    from npusim.hardware.profile import Profile

_WAITS_FOR_CORE = "wait_flag_dev"
_MOST_SPANS = 200_000  # that are looked at; what follows repeats them


@dataclass(frozen=True, slots=True)
class Share:
    """Time that a line of the kernel stands for; ``what`` it does, or is waited for."""

    what: str
    site: str
    us: float


@dataclass(frozen=True, slots=True)
class PipeTime:
    """What one pipe did from the core's start to its end.

    `busy_us` is as the profiler counts: until the data of an instruction have arrived, and for a
    Fixpipe with a unit flag from its issue on. `worked` is what instructions occupied the pipe for.
    """

    pipe: str
    busy_us: float
    idle_us: float
    worked: tuple[Share, ...]
    waited: tuple[Share, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """The slowest core of a task, and the launch before it.

    `seen_us` is how far the instructions that were looked at reach: to the end, unless there are
    very many.
    """

    core_us: float
    seen_us: float
    launch_us: float
    pipes: tuple[PipeTime, ...]
    path: tuple[Share, ...]


def explain(run: KernelRun, profile: Profile, *, path: bool = True) -> Explanation:
    """The time of a kernel by pipes, lines and reasons; of its slowest core.

    Without `path` the critical path, which takes longest to find, is left empty.
    """
    clock = profile.clock_mhz
    slowest = max(run.records, key=lambda record: record.end)
    of_block = [record for record in run.records if record.blocks == slowest.blocks]
    together = of_block if path else [slowest]
    cores = {id(record): list(islice(linked(record), _MOST_SPANS)) for record in together}
    spans = cores[id(slowest)]
    pipes = tuple(_pipe_time(str(pipe), spans, slowest, clock) for pipe in slowest.busy)
    way = _Path(list(cores.values())).back_from(spans, slowest.end) if path else {}
    is_cut = len(spans) == _MOST_SPANS
    seen = max(span.end for span, _ in spans) if is_cut else slowest.end
    return Explanation(
        slowest.end / clock, seen / clock, run.launch_cycles / clock, pipes, _shares(way, clock)
    )


_Linked = tuple["Span", tuple["Span", ...]]


def _pipe_time(name: str, spans: Sequence[_Linked], record: CoreRecord, clock: float) -> PipeTime:
    worked: dict[tuple[str, str], float] = defaultdict(float)
    waited: dict[tuple[str, str], float] = defaultdict(float)
    before = 0.0
    own = sorted((each for each in spans if each[0].pipe == name), key=lambda each: each[0].start)
    for span, origins in own:
        instruction = span.instruction
        worked[instruction.name, instruction.site] += span.end - span.start
        gap = span.start - before
        if gap > 0:
            waited[_reason(origins)] += gap
        before = max(before, span.end + span.instruction.latency)
    if record.end > before and len(spans) < _MOST_SPANS:
        waited["the end of other pipes", ""] += record.end - before
    idle = sum(waited.values())
    if len(spans) < _MOST_SPANS:
        idle = max(0.0, record.end - record.busy[Pipe(name)])
        busy = record.end - idle
    else:
        busy = sum(worked.values())
    shares = _shares(worked, clock), _shares(waited, clock)
    return PipeTime(name, busy / clock, idle / clock, *shares)


def _reason(origins: Sequence[Span]) -> tuple[str, str]:
    """What an instruction waited for: the last of those whose flags it took."""
    if not origins:
        return say("the instructions before it, or another core"), ""
    last = max(origins, key=lambda origin: origin.end)
    return f"{last.pipe}: {last.instruction.name}", last.instruction.site


class _Path:
    """The way back through the instructions of the cores of a block."""

    def __init__(self, cores: Sequence[Sequence[_Linked]]) -> None:
        self._waited: dict[int, tuple[Span, ...]] = {}
        self._before: dict[int, Span] = {}
        self._others: dict[int, list[Span]] = {}
        for core in cores:
            others = [span for other in cores if other is not core for span, _ in other]
            others.sort(key=lambda span: span.end)
            last: dict[str, Span] = {}
            for span, origins in sorted(core, key=lambda each: each[0].start):
                self._waited[id(span)], self._others[id(span)] = origins, others
                if str(span.pipe) in last:
                    self._before[id(span)] = last[str(span.pipe)]
                last[str(span.pipe)] = span

    def back_from(self, core: Sequence[_Linked], end: float) -> dict[tuple[str, str], float]:
        """Cycles by what was done and its line, from the core's last instruction to its start."""
        found: dict[tuple[str, str], float] = defaultdict(float)
        at = max((span for span, _ in core), key=lambda span: span.end, default=None)
        until = at.end if at is not None else 0.0
        if at is not None:
            found["latency", at.instruction.site] += end - at.end
        while at is not None:
            start = min(until, at.start)
            found[f"{at.pipe}: {at.instruction.name}", at.instruction.site] += until - start
            following = self._held_by(at)
            if following is not None:  # what lies between is latency, or issuing
                found["latency", following.instruction.site] += max(0.0, start - following.end)
                until = min(start, following.end)
            elif start > 0:
                found["the core's start", ""] += start
            at = following
        return found

    def _held_by(self, at: Span) -> Span | None:
        """What ended last of all that an instruction had to wait for."""
        held = [*self._waited[id(at)]]
        if id(at) in self._before:
            held.append(self._before[id(at)])
        if at.instruction.name == _WAITS_FOR_CORE:
            others = self._others[id(at)]
            place = bisect_right(others, at.end, key=lambda span: span.end)
            held += others[max(0, place - 1) : place]
        earlier = [each for each in held if each.start < at.start]
        return max(earlier, key=lambda each: each.end, default=None)


def _shares(cycles: dict[tuple[str, str], float], clock: float) -> tuple[Share, ...]:
    """The longest first."""
    ordered = sorted(cycles.items(), key=lambda each: -each[1])
    return tuple(Share(what, site, taken / clock) for (what, site), taken in ordered if taken > 0)
