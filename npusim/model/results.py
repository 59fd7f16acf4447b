"""The time of a step on one chip, and everything that it is made of."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from npusim.values.display import frame, latency, notebook_html
from npusim.values.language import say
from npusim.values.status import Verdict

if TYPE_CHECKING:
    from npusim.catalogue.verdicts import Outcome
    from npusim.hardware import Profile
    from npusim.model.step import Item, Step
    from npusim.runtime.timeline import TaskResult


DECIDED_UP_TO: Final = 0.1
"""Above this share of time that isn't simulated, simulation hasn't decided an answer."""


class How(Enum):
    """Where the time of an operator comes from."""

    SIMULATED = "simulated"
    MEASURED = "kept as measured on this chip"
    SCALED = "measured time scaled by the roofline ratio"
    UNSCALED = "measured time, not scaled"
    ROOFLINE = "roofline"
    NOTHING = "not counted"


class Evidence(Enum):
    """What the band of a simulated time rests on."""

    CHIP = "measured on this chip"
    SISTER = "measured on another chip of this microarchitecture"
    OTHER_CLASS = "other operators measured on this microarchitecture"
    PROFILE = "nothing measured on this microarchitecture"
    NONE = "not simulated"


@dataclass(frozen=True)
class Timing:
    """The time of one operator: estimate, 80 % band, what limits it, and where it comes from.

    `tasks` are the simulated device tasks, none where it isn't simulated. `note` is set where it
    isn't a plain simulation of what the file says.
    """

    duration_us: float
    band_us: tuple[float, float]
    bound: str
    how: How
    evidence: Evidence = Evidence.NONE
    tasks: tuple[TaskResult, ...] = ()
    workspace_bytes: int = 0
    note: str = ""
    assumptions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TimedItem:
    """An operator of the step with its timing on the chip; `kind` is its class."""

    item: Item
    timing: Timing
    kind: str

    @property
    def total_us(self) -> float:
        """Microseconds of all its repetitions."""
        return self.timing.duration_us * self.item.count

    @property
    def measured_us(self) -> float | None:
        """Measured microseconds of all its repetitions."""
        measured_us = self.item.measured_us
        return None if measured_us is None else measured_us * self.item.count


@dataclass(frozen=True)
class ClassTime:
    """The operators of one class together; `measured_us` is None where one of them has no time."""

    kind: str
    count: int
    duration_us: float
    band_us: tuple[float, float]
    measured_us: float | None
    share: float
    calibrated_share: float
    how: tuple[How, ...]


@dataclass(frozen=True)
class OperatorTime:
    """One operator with one set of tensors, wherever it occurs in the step."""

    op: str
    tensors: str
    kind: str
    count: int
    total_us: float
    timing: Timing
    measured_us: float | None


@dataclass(frozen=True)
class DtypeVerdict:
    """Whether one operator with its dtypes runs on the product; `count` is how often it occurs.

    `code` is the status that the call would return, None where that isn't known.
    """

    op: str
    dtypes: tuple[str, ...]
    outcome: Outcome
    why: str
    count: int
    code: int | None = 0


@dataclass(frozen=True)
class Memory:
    """Bytes that a step needs; None for what the file doesn't tell.

    `working_bytes` is the largest operator: inputs, outputs, workspace.  `activation_bytes` is what
    the file states, or else that.
    """

    weights_bytes: int | None
    activation_bytes: int | None
    working_bytes: int
    basis: str
    capacity_bytes: int

    @property
    def total_bytes(self) -> int | None:
        """Weights and activations, None where the file doesn't tell the weights."""
        if self.weights_bytes is None or self.activation_bytes is None:
            return None
        return self.weights_bytes + self.activation_bytes

    @property
    def fits(self) -> bool:
        """Whether that is no more than the device has, as far as the file tells."""
        return (self.total_bytes or self.working_bytes) <= self.capacity_bytes


@dataclass(frozen=True)
class StepResult:
    """A step on one chip.

    `duration_us` is the latency of the step, host dispatch included; `device_us` the sum of the
    operators' times. With several `streams` a step is in flight on each, and `duration_us` is what
    one of them takes then. Shares are of `device_us`.  `refused` are the operators that the product
    can't run even with FLOAT16 in the place of BFLOAT16; their time is counted as if it could.
    `profile` is the chip that it was timed on.
    """

    step: Step
    soc: str
    product_line: str
    l2: str
    measured_on: str
    duration_us: float
    band_us: tuple[float, float]
    band_basis: str
    device_us: float
    host_dispatch_us: float
    profile_dispatch_us: float
    eager_us: float
    items: tuple[TimedItem, ...]
    classes: tuple[ClassTime, ...]
    operators: tuple[OperatorTime, ...]
    bounds: tuple[tuple[str, float], ...]
    calibrated_share: float
    simulated_share: float
    verdicts: tuple[DtypeVerdict, ...]
    memory: Memory
    assumptions: tuple[str, ...]
    profile: Profile
    streams: int = 1

    @property
    def items_per_s(self) -> float | None:
        """Items of a batch in a second, one step after the other on every stream; None without."""
        if self.step.batch is None or not self.duration_us:
            return None
        return self.streams * self.step.batch / self.duration_us * 1e6

    @property
    def measured_us(self) -> float | None:
        """The measured device time of the step, None where an operator has none."""
        return self.step.measured_us

    @property
    def error(self) -> float | None:
        """Relative error of the step's device time; None unless it was measured on this chip."""
        if self.measured_us is None or self.measured_on != self.soc:
            return None
        return self.device_us / self.measured_us - 1

    @property
    def simulated_error(self) -> float | None:
        """The same for the simulated operators alone."""
        if self.error is None:
            return None
        mine = [each for each in self.items if each.timing.how is How.SIMULATED]
        measured_us = sum(each.measured_us or 0.0 for each in mine)
        return sum(each.total_us for each in mine) / measured_us - 1 if measured_us else None

    @property
    def not_simulated_share(self) -> float:
        """The share of time that isn't simulated; all of it where an operator isn't counted."""
        return 1.0 if self.not_counted else round(1 - self.simulated_share, 9)

    @property
    def not_counted(self) -> int:
        """Operators of which neither tensors nor a time are known: they are missing in the sum."""
        return sum(each.item.count for each in self.items if each.timing.how is How.NOTHING)

    @property
    def refused(self) -> tuple[DtypeVerdict, ...]:
        """Operators that this product can't run."""
        return tuple(each for each in self.verdicts if each.outcome.name == "REJECTED")

    @property
    def needs_fp16(self) -> tuple[DtypeVerdict, ...]:
        """Operators that run here after a change from BFLOAT16 to FLOAT16."""
        return tuple(each for each in self.verdicts if each.outcome.name == "AFTER_FP16")

    @property
    def runs(self) -> bool:
        """Whether nothing in the step is refused, be it after a change to FLOAT16, and it fits."""
        return not self.refused and self.memory.fits

    @property
    def verdict(self) -> Verdict:
        """Will the step run as it stands? Unknown where an operator isn't known to run here.

        What was measured on this very chip has run on it, and of what no list decides the kernel
        that was simulated says yes, as `npusim check` does.
        """
        if not self.runs_unchanged:
            return Verdict.NO
        if self.measured_on == self.soc:
            return Verdict.YES
        open_ = {each.item.op for each in self.items if each.timing.how is not How.SIMULATED}
        undecided = (each for each in self.verdicts if each.outcome.name == "UNKNOWN")
        return Verdict.UNKNOWN if any(each.op in open_ for each in undecided) else Verdict.YES

    @property
    def runs_unchanged(self) -> bool:
        """Whether nothing in the step is refused as it stands, and it fits."""
        return self.runs and not self.needs_fp16

    def to_frame(self) -> Any:
        """The operators in their order, a row each, as a pandas DataFrame.

        Raises UsageError where pandas isn't installed.
        """
        return frame(
            {
                "op": each.item.op,
                "class": each.kind,
                "tensors": each.item.operation.tensors,
                "count": each.item.count,
                "each_us": each.timing.duration_us,
                "low_us": each.timing.band_us[0],
                "high_us": each.timing.band_us[1],
                "measured_us": each.item.measured_us,
                "bound": each.timing.bound,
                "how": each.timing.how.value,
            }
            for each in self.items
        )

    def __repr__(self) -> str:
        time = latency(self.duration_us, self.band_us)
        rate = (
            ""
            if self.items_per_s is None
            else say(", {items_per_s:.3g} items/s").format(items_per_s=self.items_per_s)
        )
        share = say("{simulated_share:.0%} simulated").format(simulated_share=self.simulated_share)
        return f"<StepResult {self.step.name} on {self.soc}: {time}{rate}, {share}>"

    def _repr_html_(self) -> str:
        longest = sorted(self.items, key=lambda each: -each.total_us)
        rows = (
            (
                each.item.op,
                each.item.operation.tensors,
                each.item.count,
                latency(each.total_us),
                each.timing.bound,
                each.timing.how.value,
            )
            for each in longest
        )
        columns = ("operator", "tensors", "count", "time", "bound", "how")
        return notebook_html(repr(self)[1:-1], columns, rows)
