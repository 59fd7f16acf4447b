"""Why a kernel of a profile may have taken longer than usual."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from statistics import median
from typing import TYPE_CHECKING, Final

from npusim.model.timing import Timer
from npusim.values.display import latency
from npusim.values.language import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npusim.model.judging import Comparison, Launch

_KINDS: Final = 3  # kernels with equals, which tell a cold start from a slow kernel
_ELSE: Final = "something else ran, or the clock fell"
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
        self._alike: dict[str, list[Launch]] = {}
        self._opening: set[int] = set()  # lines before anything ran twice
        for number, each in enumerate(comparison.launches):
            alike = self._alike.setdefault(_signature(each), [])
            alike.append(each)
            if len(self._opening) == number and len(alike) == 1:
                self._opening.add(each.kernel.line)
        self._is_cold = _is_cold([first for first, *_ in self._alike.values()])

    def of(self, launch: Launch) -> Reason:
        """The most likely reason why a kernel took longer than usual."""
        tests = (self._started_cold, self._on_few_cores, self._apart, self._found_l2_cold)
        found = next(filter(None, (test(launch) for test in tests)), None)
        if found is not None:
            return found
        others = [each for each in self._alike[_signature(launch)] if each is not launch]
        normal = [each.measured_us for each in others if each.measured_us and not each.is_unusual]
        if normal:
            text = say("others with these tensors take {median}: {otherwise}").format(
                median=latency(median(normal)), otherwise=_ELSE
            )
            return Reason(Kind.APART, text)
        if others:
            number = len(others) + 1
            text = say(
                "all {number} with these tensors are slow: its tiling, or our estimate of it"
            ).format(number=number)
            return Reason(Kind.LIKE_ITS_EQUALS, text)
        return Reason(Kind.UNKNOWN, say("nothing in the file tells why"))

    def _started_cold(self, launch: Launch) -> Reason | None:
        line = launch.kernel.line
        if self._alike[_signature(launch)][0] is not launch or not launch.is_apart:
            return None
        if line not in self._opening and not self._is_cold:
            return None
        text = say(
            "the first of its kind: code and translations come with it; leave out the first step"
        )
        return Reason(Kind.COLD_START, text)

    def _on_few_cores(self, launch: Launch) -> Reason | None:
        tasks = launch.timed.timing.tasks
        blocks = launch.kernel.block_num
        if len(tasks) != 1 or not blocks or blocks >= _FEW * tasks[0].block_dim:
            return None
        text = say("it ran on {blocks} cores, where its tiling takes {block_dim}").format(
            blocks=blocks, block_dim=tasks[0].block_dim
        )
        return Reason(Kind.FEW_CORES, text)

    def _apart(self, launch: Launch) -> Reason | None:
        if not launch.is_apart or launch.equals_us is None:
            return None
        text = say("its equals take {equals_us}: {otherwise}").format(
            equals_us=latency(launch.equals_us), otherwise=_ELSE
        )
        return Reason(Kind.APART, text)

    def _found_l2_cold(self, launch: Launch) -> Reason | None:
        item = launch.timed.item
        cold = self._cold.time(item, (), None)
        if launch.measured_us is None or launch.measured_us > cold.band_us[1]:
            return None
        if cold.duration_us <= launch.timed.timing.duration_us:
            return None
        text = say("with nothing in L2 it takes {duration_us}: its inputs weren't there").format(
            duration_us=latency(cold.duration_us)
        )
        return Reason(Kind.COLD_L2, text)


def _is_cold(firsts: Sequence[Launch]) -> bool:
    """Whether most kernels with equals were slow when they ran first: code was loaded then."""
    known = [each for each in firsts if each.equals_us is not None]
    return len(known) >= _KINDS and 2 * sum(each.is_apart for each in known) > len(known)


def _signature(launch: Launch) -> str:
    return launch.timed.item.operation.signature
