"""What measurements left over.

How far real kernels were from simulated ones, by chip and operator class.

hw_profiles/calibration/residuals.yaml holds, for each microarchitecture and each of its measured
chips, the 10 % and 90 % quantiles of measured over simulated time, by operator class (the folder
of its kernel) and simulated time, stretched to what workloads need that came later. Beside it,
networks.yaml has those of whole networks on chips whose operators nobody has measured.
"""

from bisect import bisect
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources.abc import Traversable
from math import log
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from npusim.hardware.numbers import Positive
from npusim.hardware.reading import data_folder, validated
from npusim.reading.files import read_text
from npusim.reading.kept import remembered
from npusim.reading.markup import yaml_mapping


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


_LEAST_ROWS, _LEAST_CASES = 3, 2


class _Rows(_Frozen):
    """Rows behind quantiles."""

    rows: Annotated[int, Field(ge=1)] = Field(description="measured rows behind the quantiles")
    cases: Annotated[int, Field(ge=1)] | None = Field(
        None,
        description="pairs of workload and shapes among them; as many as rows where it isn't told",
    )

    @property
    def calibrates(self) -> bool:
        """Whether these rows are enough to call an estimate calibrated: three, of two cases."""
        return self.rows >= _LEAST_ROWS and (self.cases or self.rows) >= _LEAST_CASES


class Spread(_Rows):
    """Quantiles of measured over simulated time, by simulated time."""

    low: tuple[Positive, ...] = Field(
        description="10 % quantile of measured over simulated time, for each of the sizes"
    )
    high: tuple[Positive, ...] = Field(description="90 % quantile, for each of the sizes")

    def at(self, simulated_us: float, sizes_us: Sequence[float]) -> tuple[float, float]:
        """Both ends for a simulated time; in between the ``sizes_us`` they go over smoothly."""
        places = [log(size) for size in sizes_us]
        at = log(max(simulated_us, sizes_us[0]))
        right = min(bisect(places, at), len(places) - 1)
        left = max(0, right - 1)
        share = min(1.0, (at - places[left]) / (places[right] - places[left])) if right else 0.0
        low, high = (
            ends[left] ** (1 - share) * ends[right] ** share for ends in (self.low, self.high)
        )
        return low, high


class Residuals(_Frozen):
    """Spreads of one chip, or of all measured chips of a microarchitecture."""

    everything: Spread = Field(description="all operators")
    classes: Mapping[str, Spread] = Field(description="class of operators -> its own")

    def of(self, kind: str) -> Spread | None:
        """The spread of a class of operators, if enough rows of it are known."""
        found = self.classes.get(kind)
        return found if found is not None and found.calibrates else None


class Yardstick(_Frozen):
    """Efficiencies and static costs of a roofline."""

    compute_efficiency: Positive = Field(description="part of the peak that is reached")
    memory_efficiency: Positive = Field(description="part of the memory's rate that is reached")
    matrix_static_us: Positive = Field(description="matrix products, beside their work")
    vector_static_us: Positive = Field(description="other operators, beside their work")
    provenance: Mapping[str, str] = Field(description="key -> where it is from")


class Family(_Rows):
    """Quantiles of measured over roofline time, with the median by which a roofline is raised."""

    low: Positive = Field(description="10 % quantile of measured over roofline time")
    high: Positive = Field(description="90 % quantile")
    median: Positive = Field(description="median, by which a roofline is raised")


class Rooflines(_Frozen):
    """What measurements left over from rooflines, by family of operators that have no kernel."""

    yardstick: Yardstick = Field(description="the roofline")
    everything: Family = Field(description="all families")
    classes: Mapping[str, Family] = Field(description="family of operators -> its own")

    def of(self, family: str) -> Family:
        """The spread of a family, or that of everything where too few rows are known."""
        return self.classes.get(family, self.everything)


class Calibration(_Frozen):
    """Residuals by microarchitecture and chip, and how much wider bands are without any.

    Spreads say how wide bands are at the simulated times ``sizes_us``.
    """

    unmeasured_widening: Positive = Field(
        description="how much wider bands are where nothing was measured"
    )
    sizes_us: tuple[Positive, ...] = Field(
        description="simulated times at which spreads are told, microseconds"
    )
    architectures: Mapping[str, Residuals] = Field(
        description="microarchitecture -> residuals of its measured chips"
    )
    chips: Mapping[str, Residuals] = Field(description="chip -> its own")


class Networks(_Frozen):
    """Spreads of whole networks by chip: device time, by the mean time of an operator."""

    sizes_us: tuple[Positive, ...] = Field(
        description="mean times of an operator at which spreads are told, microseconds"
    )
    chips: Mapping[str, Spread] = Field(description="chip -> spread of whole networks")


_Known = TypeVar("_Known", Calibration, Rooflines, Networks)


@cache
def calibration() -> Calibration:
    """The residuals that come with this version."""
    file = data_folder() / "calibration" / "residuals.yaml"
    return _remembered("residuals", file, Calibration)


@cache
def rooflines() -> Rooflines:
    """Rooflines and what measurements left over from them, over all chips."""
    file = data_folder() / "calibration" / "rooflines.yaml"
    return _remembered("rooflines", file, Rooflines)


@cache
def networks() -> Networks:
    """What published rates of whole networks left over, on chips without measured operators."""
    file = data_folder() / "calibration" / "networks.yaml"
    return _remembered("networks", file, Networks)


def _remembered(kind: str, file: Traversable, model: type[_Known]) -> _Known:
    text = read_text(file)

    def read() -> _Known:
        return validated(str(file), model, yaml_mapping(text, str(file)))

    return remembered(kind, [text], model, read, (Residuals, Spread))
