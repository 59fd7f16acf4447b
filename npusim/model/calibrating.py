"""A chip fitted to the kernels of a user's own profile: rates of memory and what a launch takes.

Only numbers that differ from card to card are moved, and only those of which kernels that are left
out get better by more than chance (`significance`). Every fourth kernel is kept aside from all of
that: a fit that doesn't make those better isn't one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isclose, log
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING, Final

from npusim.engine import Memo
from npusim.hardware import Profile, profile_names
from npusim.model import feasibility
from npusim.model.cache_state import ORDER, Follower, Residency
from npusim.model.profile_table import LEVEL_0, read_launches
from npusim.model.results import How
from npusim.model.retiming import planned_readers
from npusim.model.significance import Gain, deciding
from npusim.model.timing import Timer
from npusim.runtime.device import Device
from npusim.validation.fitting import CONSTANTS, capped_error, descend, value_of, with_values
from npusim.values.errors import FileError, UsageError
from npusim.values.language import say
from npusim.values.takes import FLAG, LISTENER, PATH, TEXT, maybe, of, takes

if TYPE_CHECKING:
    from os import PathLike

    from npusim.model.kernel_csv import Kernel
    from npusim.model.step import Item, Step

KEYS: Final = (
    "memory.hbm_sustained_fraction",
    "memory.l2_sustained_fraction",
    "launch.base_us",
    "launch.per_block_us",
)
"""What is fitted: other constants are the microarchitecture's, the same on every card."""

_LEAST: Final = 20  # different kernels, of which every fourth is kept aside
_LEAST_THAT_FEEL: Final = 5  # a constant that fewer kernels depend on stays
_FELT: Final = 0.01  # of a kernel's time, when the constant moves half a spread
_MOST: Final = 80  # different kernels that are simulated again and again
_GAIN: Final = 0.02  # of the error of kernels kept aside: less isn't worth a chip
_FARTHEST: Final = log(3.0)  # median of measured over estimated time beyond which it isn't the chip


@dataclass(frozen=True)
class Constant:
    """One number of the chip: what it was, what it is now, and how many kernels depend on it.

    `gain` is what it does for kernels that are left out, None where too few depend on it.
    """

    key: str
    meaning: str
    before: float
    after: float
    kernels: int
    gain: Gain | None = None

    @property
    def has_moved(self) -> bool:
        """Whether the kernels ask for another value."""
        return not isclose(self.before, self.after, rel_tol=1e-6)


@dataclass(frozen=True)
class Calibration:
    """A fit: constants, kernels fitted and kept aside, and the errors of both before and after.

    Errors are mean absolute logarithms of estimated over measured time, each at most 0.5.
    """

    file: str
    step: Step
    profile: Profile
    launches: int
    constants: tuple[Constant, ...]
    fitted: int
    aside: int
    fitted_error: tuple[float, float]
    aside_error: tuple[float, float]

    @property
    def moved(self) -> Mapping[str, float]:
        """The new values by dotted key."""
        return {each.key: each.after for each in self.constants if each.has_moved}

    @property
    def holds(self) -> bool:
        """Whether kernels that the fit hasn't seen are estimated better by it."""
        before, after = self.aside_error
        return bool(self.moved) and after < (1 - _GAIN) * before


@dataclass(frozen=True)
class _Sample:
    """Launches with the same answer, and the median of what they took in microseconds.

    `times` is how often the step runs the operation, whatever it finds in L2.
    """

    item: Item
    residency: Residency
    write_back: float | None
    measured_us: float
    launches: int
    times: int


@takes(
    file=PATH, device=of(Device, Profile, str), step=TEXT, device_id=TEXT, any_chip=FLAG,
    progress=maybe(LISTENER),
)  # fmt: skip
def calibrate(
    file: str | PathLike[str],
    device: Device | Profile | str,
    *,
    step: str = "",
    device_id: str = "",
    any_chip: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Calibration:
    """Fit rates of memory and times of a launch to an op_summary or kernel_details table.

    `device` is the built-in chip that the card is one of, `step` and `device_id` the Step Id and
    the device of a profile with several; `any_chip` fits one that the file can't be of, `progress`
    hears of every constant. Raises FileError for a file that isn't such a table, has too few
    kernels, or was measured on another chip; UsageError for a chip that no file can inherit from.
    """
    profile = (device if isinstance(device, Device) else Device(device)).profile
    if profile.name not in profile_names():
        raise UsageError(
            say("{profile} has no name that a chip file can inherit from").format(
                profile=profile.name
            ),
            say("Give the built-in chip that the card is one of, e.g. -s Ascend910B3."),
        )
    path = Path(file)
    found, kernels = read_launches(path, step, device_id)
    if not any_chip:
        _refuse_another_chip(path, found, profile)
    ask = _Asking(profile, found)
    samples = _enough(path, found, ask.known(_samples(found, kernels, profile)))
    _refuse_far_off(path, ask.ratios(samples, {}), profile)
    every = samples[:: max(1, -(-len(samples) // _MOST))]
    aside = every[3::4]
    seen = [each for number, each in enumerate(every) if number % 4 != 3]
    before = {key: value_of(profile, key) for key in KEYS}
    felt = {each.key: ask.felt(each.key, seen, before) for each in CONSTANTS if each.key in KEYS}
    chosen = [each for each in CONSTANTS if felt.get(each.key, 0) >= _LEAST_THAT_FEEL]
    measured_us = [each.measured_us for each in seen]
    moving, gains = deciding(
        chosen, before, measured_us, lambda trial: ask.times_us(seen, trial), progress
    )
    fit = descend(
        moving, before, lambda trial: ask.error(seen, trial), rows=len(seen), progress=progress
    )
    constants = tuple(
        Constant(each.key, each.meaning, before[each.key],
                 fit.values.get(each.key, before[each.key]), felt[each.key],
                 gains.get(each.key))
        for each in CONSTANTS if each.key in KEYS
    )  # fmt: skip
    return Calibration(
        path.name,
        found,
        profile,
        sum(each.launches for each in samples),
        constants,
        len(seen),
        len(aside),
        (ask.error(seen, {}), ask.error(seen, fit.values)),
        (ask.error(aside, {}), ask.error(aside, fit.values)),
    )


def _enough(path: Path, step: Step, samples: list[_Sample]) -> list[_Sample]:
    """The samples; FileError where they are too few."""
    if step.profiled is not None and step.profiled.level_0:
        problem, _, remedy = LEVEL_0.partition("; ")
        raise FileError(path, problem, f"{remedy[0].upper()}{remedy[1:]}.")
    if len(samples) < _LEAST:
        raise FileError(
            path,
            say(
                "has {samples} different kernels that are simulated, too few to fit a chip to"
            ).format(samples=len(samples)),
            say("At least {least} are needed: give the profile of a whole step of a model.").format(
                least=_LEAST
            ),
        )
    return samples


class _Asking:
    """The samples' estimated times under changed constants."""

    def __init__(self, profile: Profile, step: Step) -> None:
        self._profile, self._one_shape = profile, step.one_shape
        self._verdicts = feasibility.judge(step, profile)

    def known(self, samples: Sequence[_Sample]) -> list[_Sample]:
        """Those that are simulated, by duration."""
        timer = Timer(self._profile, ORDER, None, one_shape=self._one_shape)
        return sorted(
            (each for each in samples if self._time(timer, each) is not None),
            key=lambda each: (
                each.measured_us,
                each.item.operation.signature,
                each.residency,
                each.times,
            ),
        )

    def times_us(self, samples: Sequence[_Sample], values: Mapping[str, float]) -> list[float]:
        changed = with_values(self._profile, values)
        timer = Timer(changed, ORDER, None, Memo(), one_shape=self._one_shape)
        return [self._time(timer, each) or each.measured_us for each in samples]

    def ratios(self, samples: Sequence[_Sample], values: Mapping[str, float]) -> list[float]:
        """Measured over estimated times."""
        times_us = self.times_us(samples, values)
        return [each.measured_us / us for each, us in zip(samples, times_us, strict=True)]

    def error(self, samples: Sequence[_Sample], values: Mapping[str, float]) -> float:
        """The mean absolute logarithm, each at most 0.5."""
        return mean(capped_error(1.0, ratio) for ratio in self.ratios(samples, values))

    def felt(self, key: str, samples: Sequence[_Sample], before: Mapping[str, float]) -> int:
        """How many samples depend on a constant."""
        constant = next(each for each in CONSTANTS if each.key == key)
        moved = self.times_us(samples, {key: constant.moved(before[key], -0.5)})
        pairs = zip(self.times_us(samples, {}), moved, strict=True)
        return sum(abs(there / here - 1) > _FELT for here, there in pairs)

    def _time(self, timer: Timer, sample: _Sample) -> float | None:
        verdict = self._verdicts.get(sample.item.operation.signature)
        timing = timer.time(sample.item, sample.residency, verdict, sample.write_back, sample.times)
        return timing.duration_us if timing.how is How.SIMULATED and timing.duration_us else None


def _samples(step: Step, kernels: Sequence[Kernel], profile: Profile) -> list[_Sample]:
    """The step's different kernels, each as it finds L2 in the order of the file.

    Rows whose shapes allow several attributes say nothing about the chip.
    """
    follower = Follower(profile, planned_readers(step))
    times = Counter(item.operation.signature for item in step.items)
    found: dict[tuple[str, Residency, float | None], tuple[Item, list[float]]] = {}
    for kernel, item in zip(kernels, step.items, strict=True):
        residency, operation = follower.pass_through(item.operation), item.operation
        if item.work is None or item.engine or operation.others or not kernel.duration_us:
            continue
        key = (operation.signature, residency, follower.write_back)
        _, taken = found.setdefault(key, (replace(item, measured_us=None), []))
        taken.append(kernel.duration_us)
    return [
        _Sample(item, key[1], key[2], median(taken), len(taken), times[key[0]])
        for key, (item, taken) in found.items()
    ]


def _refuse_another_chip(path: Path, step: Step, profile: Profile) -> None:
    """Refuse a table whose clock or cores are another chip's."""
    if step.profiled is not None and (doubt := step.profiled.chip.doubt(profile)):
        remedy = say("{remedy} To fit {profile} all the same: --force.").format(
            remedy=step.profiled.chip.remedy(), profile=profile.name
        )
        raise FileError(path, doubt, remedy)


def _refuse_far_off(file: Path, ratios: Sequence[float], profile: Profile) -> None:
    middle = median(ratios)
    if abs(log(middle)) > _FARTHEST:
        raise FileError(
            file,
            say(
                "kernels take {middle:.2g} times what {profile} needs in the "
                "middle, which no rate of memory explains"
            ).format(middle=middle, profile=profile.name),
            say("Give the chip that it was measured on."),
        )
