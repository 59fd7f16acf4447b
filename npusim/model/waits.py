"""Why the device's main stream stands still: the host, a collective, or another stream.

The main stream is the one whose kernels take the most time. Where it stands still for longer than a
host takes to launch an operator, the time in which a collective runs is the collective's, of what
is left the time in which a kernel runs on another stream is that stream's, and the rest is the
host's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from npusim.model.step import COMMUNICATION

if TYPE_CHECKING:
    from npusim.model.judging import Comparison, Launch


class Cause(Enum):
    """What the main stream waits for; the value is what JSON calls it."""

    HOST = "host"
    COLLECTIVE = "collective"
    STREAM = "other_stream"


@dataclass(frozen=True)
class Wait:
    """A gap before the kernel `before`, and how much of it has which cause.

    `runs` are the launches that run in it beside the main stream, the longest first.
    """

    before: Launch
    us: float
    parts_us: dict[Cause, float]
    runs: tuple[Launch, ...]

    @property
    def cause(self) -> Cause:
        """What most of it is for."""
        return max(self.parts_us, key=lambda each: self.parts_us[each])

    def running(self, cause: Cause) -> Launch | None:
        """The longest launch of this cause that runs in it; None for the host."""
        of_hccl = cause is Cause.COLLECTIVE
        found = (each for each in self.runs if _is_collective(each) == of_hccl)
        return None if cause is Cause.HOST else next(found, None)


@dataclass(frozen=True)
class Waits:
    """All gaps of a step, the longest first, in a time of `whole_us`."""

    whole_us: float
    gaps: tuple[Wait, ...]

    def us(self, cause: Cause) -> float:
        """The time that the main stream waits for something."""
        return sum(each.parts_us[cause] for each in self.gaps)

    def by_operation(self) -> dict[str, float]:
        """The time for collectives by the longest one that runs in a gap, the most time first."""
        found: dict[str, float] = {}
        for gap in self.gaps:
            if (running := gap.running(Cause.COLLECTIVE)) is not None:
                name = running.kernel.op.strip("_")
                found[name] = found.get(name, 0.0) + gap.parts_us[Cause.COLLECTIVE]
        return dict(sorted(found.items(), key=lambda entry: -entry[1]))

    def of(self, cause: Cause) -> tuple[Wait, ...]:
        """The gaps that have some of this cause, the longest part first."""
        found = [each for each in self.gaps if each.parts_us[cause] > 0]
        return tuple(sorted(found, key=lambda each: -each.parts_us[cause]))


class _Span(NamedTuple):
    start_us: float
    end_us: float
    launch: Launch


def waits_of(comparison: Comparison) -> Waits:
    """The gaps of the main stream that are longer than a host takes to launch an operator."""
    dispatch_us = comparison.profile.launch.host_dispatch_us
    spans = sorted(
        (
            _Span(start_us, start_us + each.measured_us, each)
            for each in comparison.launches
            if (start_us := each.kernel.start_us) is not None and each.measured_us is not None
        ),
        key=lambda span: span[:2],
    )
    kernels = [each for each in spans if not _is_collective(each.launch)]
    if not kernels:
        return Waits(0.0, ())
    main = _main_stream(kernels)
    mine = [each for each in kernels if each.launch.kernel.stream == main]
    others = [
        each for each in spans if each.launch.kernel.stream != main or _is_collective(each.launch)
    ]
    found: list[Wait] = []
    done_us, place = mine[0].end_us, 0
    for each in mine[1:]:
        if each.start_us - done_us > dispatch_us:
            while place < len(others) and others[place].end_us <= done_us:
                place += 1
            found.append(_wait(done_us, each, islice(others, place, None), dispatch_us))
        done_us = max(done_us, each.end_us)
    ranked = sorted(found, key=lambda wait: -wait.us)
    return Waits(done_us - mine[0].start_us, tuple(ranked))


def _wait(done_us: float, after: _Span, later: Iterable[_Span], dispatch_us: float) -> Wait:
    inside: list[_Span] = []
    for each in later:
        if each.start_us >= after.start_us:
            break
        if each.end_us > done_us:
            inside.append(_Span(max(each.start_us, done_us), min(each.end_us, after.start_us),
                                each.launch))  # fmt: skip
    gap_us = after.start_us - done_us
    collective_us = _covered_us(each for each in inside if _is_collective(each.launch))
    covered_us = _covered_us(inside)
    host_us = gap_us - covered_us
    parts_us = {
        Cause.HOST: host_us if host_us > dispatch_us else 0.0,
        Cause.COLLECTIVE: collective_us,
        Cause.STREAM: covered_us - collective_us,
    }
    ranked = sorted(inside, key=lambda each: each.start_us - each.end_us)
    return Wait(after.launch, gap_us, parts_us, tuple(each.launch for each in ranked))


def _covered_us(spans: Iterable[_Span]) -> float:
    """How long at least one of the spans, which are sorted by their starts, lasts."""
    total_us, done_us = 0.0, float("-inf")
    for each in spans:
        total_us += max(0.0, each.end_us - max(each.start_us, done_us))
        done_us = max(done_us, each.end_us)
    return total_us


def _main_stream(kernels: Iterable[_Span]) -> str:
    busy: dict[str, float] = {}
    for each in kernels:
        stream = each.launch.kernel.stream
        busy[stream] = busy.get(stream, 0.0) + each.end_us - each.start_us
    return max(busy, key=lambda stream: busy[stream])


def _is_collective(launch: Launch) -> bool:
    return launch.timed.item.engine == COMMUNICATION
