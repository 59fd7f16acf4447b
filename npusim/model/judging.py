"""Is this speed normal? The kernels of a profiler's file, each against its estimate on the chip.

A kernel is unusual when its time lies above the 95 % interval of the estimate, or far above what
its equals in the file take. What the operators of one class have in common is the estimate's
fault more likely than the kernels': within the band, the class's own median moves the estimate, and
where kernels of a class scatter less in the file than in general, their own scatter is what is
usual. An estimate whose 95 % interval lies above the time says nothing of the kernel: it does less
than its shapes say, or the estimate is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import exp, log
from pathlib import Path
from statistics import NormalDist, median
from typing import TYPE_CHECKING, Final

from npusim.hardware import Profile
from npusim.model.profile_table import read_launches
from npusim.model.results import How, TimedItem
from npusim.model.retiming import retime
from npusim.runtime.device import Device
from npusim.values.takes import CALL, PATH, TEXT, maybe, of, takes

if TYPE_CHECKING:
    from os import PathLike

    from npusim.model.kernel_csv import Kernel
    from npusim.model.step import Step

# An 80 % interval of logarithms, to the power of this, is one of 95 %.
_TO_95: Final = NormalDist().inv_cdf(0.975) / NormalDist().inv_cdf(0.9)
_ENOUGH: Final = 5  # different kernels of a class, or equal ones, whose median says something
_SCATTER: Final = 1.14
"""Nine in ten of a step's identical kernels are within this factor of their median."""
_FAR: Final = 1.5  # times the median of its equals
_TOO_LONG: Final = 0.5  # of an estimate: a kernel that takes less isn't the one that was estimated
_ALIKE: Final = 8  # different kernels of a class, whose scatter says something
_SIGMAS: Final = 5.0  # of that scatter: kernels of a real step have longer tails than a normal's
_MAD_TO_SIGMA: Final = 1.4826  # of a normal distribution


@dataclass(frozen=True)
class Launch:
    """One kernel of the file: what it took, and what it usually takes.

    `usual_us` is the 95 % interval, up to at least what identical kernels scatter by; None where
    nothing is known to compare with. `equals_us` is what five or more kernels with the same tensors
    take in the middle. `least_us` is the lower end of the 95 % interval of the estimate alone, at
    most half of it.
    """

    kernel: Kernel
    timed: TimedItem
    measured_us: float | None
    expected_us: float
    usual_us: tuple[float, float] | None
    equals_us: float | None
    least_us: float = 0.0

    @property
    def is_overestimated(self) -> bool:
        """Whether it took less than `least_us`, the lower end of what the estimate allows."""
        return self.measured_us is not None and 0 < self.measured_us < self.least_us

    @property
    def is_unusual(self) -> bool:
        """Whether it took longer than it usually does."""
        if self.measured_us is None:
            return False
        beyond = self.usual_us is not None and self.measured_us > self.usual_us[1]
        return beyond or self.is_apart

    @property
    def is_apart(self) -> bool:
        """Whether it took far longer than its equals."""
        if self.measured_us is None or self.equals_us is None:
            return False
        return self.measured_us > _FAR * self.equals_us

    @property
    def lost_us(self) -> float:
        """Microseconds beyond what was expected; of one that is apart, beyond its equals."""
        if self.measured_us is None:
            return 0.0
        usual_us = self.equals_us if self.is_apart and self.equals_us else self.expected_us
        return max(0.0, self.measured_us - usual_us)


@dataclass(frozen=True)
class ClassSpeed:
    """The kernels of one class together: measured over estimated time, and how far that is usual.

    `ratio` is the median over different kernels, `spread` the factor from it beyond which none of
    them is expected: of a small class it is the one of the whole file, None where that is small.
    """

    kind: str
    count: int
    measured_us: float
    estimated_us: float
    ratio: float
    usual_ratio: tuple[float, float]
    spread: float | None = None

    @property
    def is_unusual(self) -> bool:
        """Whether most of the class lies outside the 80 % band of its estimates."""
        return not self.usual_ratio[0] <= self.ratio <= self.usual_ratio[1]


@dataclass(frozen=True)
class Comparison:
    """A file's kernels in their order, and their classes, the longest first."""

    step: Step
    profile: Profile
    launches: tuple[Launch, ...]
    classes: tuple[ClassSpeed, ...]

    @property
    def unusual(self) -> tuple[Launch, ...]:
        """Those that took longer than usual, the largest loss first."""
        found = [each for each in self.launches if each.is_unusual]
        return tuple(sorted(found, key=lambda each: (-each.lost_us, each.kernel.line)))

    @property
    def compared(self) -> int:
        """Kernels of which something is known to compare with."""
        return sum(
            each.usual_us is not None and not each.is_overestimated for each in self.launches
        )

    @property
    def overestimated(self) -> tuple[Launch, ...]:
        """Those whose estimates lie far above their times, in the order of the file."""
        return tuple(each for each in self.launches if each.is_overestimated)


@takes(file=PATH, device=of(Device, Profile, str), step=TEXT, device_id=TEXT, progress=maybe(CALL))
def judge(
    file: str | PathLike[str],
    device: Device | Profile | str,
    *,
    step: str = "",
    device_id: str = "",
    progress: Callable[[int, int], None] | None = None,
) -> Comparison:
    """Compare the kernels of an op_summary or kernel_details table with estimates.

    `file` may be the profiler's folder. `device` is the chip that they were measured on, `step` and
    `device_id` the Step Id and the device of a profile with several. Raises FileError for a file
    that isn't such a table, UnknownNameError for the step, the device or the chip.
    """
    profile = (device if isinstance(device, Device) else Device(device)).profile
    found, kernels = read_launches(Path(file), step, device_id)
    unmeasured = tuple(replace(item, measured_us=None) for item in found.items)
    timed = retime(replace(found, items=unmeasured), profile, progress=progress).items
    pairs = list(zip(kernels, timed, strict=True))
    classes = _classes(pairs)
    known = {each.kind: each for each in classes}
    equals = _equals(pairs)
    launches = tuple(_launch(kernel, each, known.get(each.kind), equals) for kernel, each in pairs)
    return Comparison(found, profile, launches, classes)


def _launch(
    kernel: Kernel, timed: TimedItem, kind: ClassSpeed | None, equals: dict[str, float]
) -> Launch:
    timing = timed.timing
    shift = 1.0 if kind is None else _within(kind.ratio, kind.usual_ratio)
    expected_us = timing.duration_us * shift
    usual_us, least_us = None, 0.0
    if _is_compared(timed):
        low, high = ((end / timing.duration_us) ** _TO_95 for end in timing.band_us)
        least_us = min(low, _TOO_LONG) * timing.duration_us
        if kind is not None and kind.spread is not None and not timed.item.operation.others:
            low, high = max(low, 1 / kind.spread), min(high, kind.spread)
        high = max(high, _SCATTER**2)  # which hardly any kernel is beyond by chance
        usual_us = (expected_us * low, expected_us * high)
    ratio = equals.get(timed.item.operation.signature)
    equals_us = None if ratio is None else ratio * timing.duration_us
    measured_us = kernel.duration_us
    return Launch(kernel, timed, measured_us, expected_us, usual_us, equals_us, least_us)


def _is_compared(timed: TimedItem) -> bool:
    """Whether there is an estimate: what isn't simulated has one too, with a wide band."""
    known = timed.timing.how in (How.SIMULATED, How.ROOFLINE) and not timed.item.engine
    return known and timed.timing.duration_us > 0


def _equals(pairs: Iterable[tuple[Kernel, TimedItem]]) -> dict[str, float]:
    """Measured over estimated time of kernels with the same tensors, where there are enough.

    Their estimates differ by what L2 holds when they start.
    """
    found: dict[str, list[float]] = {}
    for kernel, timed in pairs:
        if kernel.duration_us is not None and timed.timing.duration_us > 0:
            ratio = kernel.duration_us / timed.timing.duration_us
            found.setdefault(timed.item.operation.signature, []).append(ratio)
    return {key: median(ratios) for key, ratios in found.items() if len(ratios) >= _ENOUGH}


def _classes(pairs: Sequence[tuple[Kernel, TimedItem]]) -> tuple[ClassSpeed, ...]:
    members: dict[str, list[tuple[float, TimedItem]]] = {}
    for kernel, timed in pairs:
        if kernel.duration_us and _is_compared(timed):
            members.setdefault(timed.kind, []).append((kernel.duration_us, timed))
    found = [_class(kind, launches) for kind, launches in members.items()]
    whole = [pair for launches in members.values() for pair in launches]
    every = _class("", whole) if whole else None
    if every is not None and every.spread is not None:
        # Around 1, where the file's own middle may lie elsewhere.
        spread = every.spread * max(every.ratio, 1 / every.ratio)
        found = [replace(each, spread=each.spread or spread) for each in found]
    return tuple(sorted(found, key=lambda each: (-each.measured_us, each.kind)))


def _class(kind: str, launches: Sequence[tuple[float, TimedItem]]) -> ClassSpeed:
    ratios: dict[str, list[float]] = {}
    bands: dict[str, tuple[float, float]] = {}
    for measured_us, timed in launches:
        timing, signature = timed.timing, timed.item.operation.signature
        ratios.setdefault(signature, []).append(measured_us / timing.duration_us)
        low_us, high_us = timing.band_us
        bands[signature] = (low_us / timing.duration_us, high_us / timing.duration_us)
    logs = [log(median(each)) for each in ratios.values()]
    middle = exp(median(logs))
    return ClassSpeed(
        kind,
        len(launches),
        sum(measured_us for measured_us, _ in launches),
        sum(timed.timing.duration_us for _, timed in launches),
        middle if len(ratios) >= _ENOUGH else 1.0,
        (median(low for low, _ in bands.values()), median(high for _, high in bands.values())),
        _spread(logs),
    )


def _spread(logs: Sequence[float]) -> float | None:
    """The factor from the median that no kernel of a class is expected beyond."""
    if len(logs) < _ALIKE:
        return None
    middle = median(logs)
    sigma = _MAD_TO_SIGMA * median(abs(each - middle) for each in logs)
    return max(_FAR, exp(_SIGMAS * sigma))


def _within(ratio: float, ends: tuple[float, float]) -> float:
    return min(max(ratio, ends[0]), ends[1])
