"""Why a kernel of a profile may have taken longer than usual."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from npusim.model.timing import Timer
from npusim.values.display import latency

if TYPE_CHECKING:
    from npusim.model.judging import Comparison, Launch

_FEW: Final = 0.75  # of the cores that its tiling takes


class Kind(Enum):
    """What may be the matter with a slow kernel; the value is what JSON calls it."""

    COLD_START = "cold_start"
    FEW_CORES = "few_cores"
    APART = "slower_than_its_equals"
    COLD_L2 = "cold_l2"
    LIKE_ITS_EQUALS = "slow_like_its_equals"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Reason:
    """What may be the matter with a kernel, and what to do."""

    kind: Kind
    text: str


class Reasons:
    """Looks for reasons in one comparison."""

    def __init__(self, comparison: Comparison) -> None:
        self._profile = comparison.profile
        self._cold = Timer(comparison.profile, "cold", None)
        self._first: dict[str, int] = {}
        self._counts: dict[str, int] = {}
        for each in comparison.launches:
            key = _signature(each)
            self._first.setdefault(key, each.kernel.line)
            self._counts[key] = self._counts.get(key, 0) + 1

    def of(self, launch: Launch) -> Reason:
        """The most likely reason why a kernel took longer than usual."""
        tests = (self._started_cold, self._on_few_cores, self._apart, self._found_l2_cold)
        found = next(filter(None, (test(launch) for test in tests)), None)
        if found is not None:
            return found
        if (count := self._counts[_signature(launch)]) > 1:
            text = f"all {count} with these tensors are slow: its tiling, or our estimate of it"
            return Reason(Kind.LIKE_ITS_EQUALS, text)
        return Reason(Kind.UNKNOWN, "nothing in the file tells why")

    def _started_cold(self, launch: Launch) -> Reason | None:
        first = self._first[_signature(launch)] == launch.kernel.line
        if not first or not launch.is_apart:
            return None
        text = "the first of its kind: code and translations come with it; leave out the first step"
        return Reason(Kind.COLD_START, text)

    def _on_few_cores(self, launch: Launch) -> Reason | None:
        tasks = launch.timed.timing.tasks
        blocks = launch.kernel.block_num
        if len(tasks) != 1 or not blocks or blocks >= _FEW * tasks[0].block_dim:
            return None
        text = f"it ran on {blocks} cores, where its tiling takes {tasks[0].block_dim}"
        return Reason(Kind.FEW_CORES, text)

    def _apart(self, launch: Launch) -> Reason | None:
        if not launch.is_apart or launch.equals_us is None:
            return None
        text = f"its equals take {latency(launch.equals_us)}: something else ran, or the clock fell"
        return Reason(Kind.APART, text)

    def _found_l2_cold(self, launch: Launch) -> Reason | None:
        item = launch.timed.item
        cold = self._cold.time(item, (), None)
        if launch.measured_us is None or launch.measured_us > cold.band_us[1]:
            return None
        if cold.duration_us <= launch.timed.timing.duration_us:
            return None
        text = f"with nothing in L2 it takes {latency(cold.duration_us)}: its inputs weren't there"
        return Reason(Kind.COLD_L2, text)


def _signature(launch: Launch) -> str:
    return launch.timed.item.operation.signature
