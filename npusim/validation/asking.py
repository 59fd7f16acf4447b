"""Measured kernels replayed, from Python: a table in, how far off the simulator is out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from npusim.hardware.naming import resolve_soc
from npusim.runtime.cache_start import MODES
from npusim.validation.replay import replay
from npusim.validation.statistics import accuracy, by_workload, grouped
from npusim.validation.table import read_rows
from npusim.values.display import frame, notebook_html
from npusim.values.errors import UnknownNameError
from npusim.values.host import cores
from npusim.values.takes import FLAG, LISTENER, PATH, TEXT, WHOLE, each, maybe, takes

if TYPE_CHECKING:
    from os import PathLike

    from npusim.hardware.naming import Resolution
    from npusim.validation.replay import Prediction
    from npusim.validation.statistics import Accuracy, StepAccuracy
    from npusim.validation.table import MeasuredRow


@dataclass(frozen=True, eq=False)
class Validation:
    """What the simulator says of every measured row; errors are fractions of the measured time."""

    predictions: tuple[Prediction, ...]

    @cached_property
    def overall(self) -> Accuracy:
        """All rows together."""
        return accuracy(self.predictions)

    @cached_property
    def by_chip(self) -> Mapping[str, Accuracy]:
        """The rows of each chip."""
        return grouped(self.predictions, lambda each: each.row.chip)

    @cached_property
    def by_family(self) -> Mapping[str, Accuracy]:
        """The rows of each family of operators."""
        return grouped(self.predictions, lambda each: each.row.family or "?")

    @cached_property
    def by_workload(self) -> Mapping[str, StepAccuracy]:
        """Steps of workloads: their kernels added up."""
        return by_workload(self.predictions)

    @cached_property
    def later(self) -> Accuracy | None:
        """The rows that came after the schedules were written; None where none are said to."""
        found = [each for each in self.predictions if each.row.later]
        return accuracy(found) if found else None

    @property
    def not_modelled(self) -> Mapping[str, int]:
        """Why rows have no simulated time, and how many; the most frequent first."""
        counts = Counter(each.reason for each in self.predictions if each.reason)
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    def as_dict(self) -> dict[str, Any]:
        """All of it as plain numbers, as ``npusim validate --json`` prints it."""
        return {
            "overall": self.overall.as_dict(),
            "later": self.later.as_dict() if self.later else None,
            "by_chip": {name: each.as_dict() for name, each in self.by_chip.items()},
            "by_family": {name: each.as_dict() for name, each in self.by_family.items()},
            "by_workload": {name: each.as_dict() for name, each in self.by_workload.items()},
            "not_modelled": dict(self.not_modelled),
        }

    def to_frame(self) -> Any:
        """A row for each measurement, times in us, as a pandas DataFrame.

        Raises UsageError where pandas isn't installed.
        """
        return frame(
            {
                "line": each.row.line,
                "chip": each.row.chip,
                "op": each.row.op,
                "family": each.row.family,
                "measured_us": each.row.duration_us,
                "simulated_us": each.simulated_us,
                "low_us": each.band_us[0] if each.band_us else None,
                "high_us": each.band_us[1] if each.band_us else None,
                "error": each.error,
                "bound": each.bound,
                "reason": each.reason,
            }
            for each in self.predictions
        )

    def __repr__(self) -> str:
        found = self.overall
        text = f"<Validation of {found.rows:,} rows: {found.modelled:,} modelled"
        if found.median_abs_error is None or found.p90_abs_error is None:
            return f"{text}>"
        return f"{text}, median error {found.median_abs_error:.0%}, P90 {found.p90_abs_error:.0%}>"

    def _repr_html_(self) -> str:
        rows = (
            (name, each.rows, each.modelled, _percent(each.median_abs_error), _percent(each.bias))
            for name, each in self.by_chip.items()
        )
        columns = ("chip", "rows", "modelled", "median error", "bias")
        return notebook_html(repr(self)[1:-1], columns, rows)


@takes(
    table=PATH, chips=each(TEXT), builtin=FLAG, without=maybe(PATH), l2=TEXT, workers=WHOLE,
    progress=maybe(LISTENER),
)  # fmt: skip
def validate(
    table: str | PathLike[str],
    *,
    chips: Sequence[str] = (),
    builtin: bool = False,
    without: str | PathLike[str] | None = None,
    l2: str = "in_graph",
    workers: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Validation:
    """Replay a table of measured kernels (.csv, .csv.gz) and compare: ``npusim.validate(FILE)``.

    `chips` keeps rows whose chip has one of these words in its name or is called so, `builtin` only
    builtin kernels that a profiler timed; rows that ask what a row of the table `without` asks are
    left out: they don't say how far off others are. `l2` is what a kernel finds in L2. `workers`
    are processes, 0 for one per core; `progress` hears how many of how many rows are done. Raises
    FileError for a file that is no such table, UnknownNameError for a state of L2 that nobody
    knows.
    """
    if l2 not in MODES:
        raise UnknownNameError("state of L2", l2, MODES)
    known = {row.asked for row in read_rows(str(without))} if without is not None else set()
    socs = {each.name for each in map(_named, chips) if each is not None}
    rows = [
        row
        for row in read_rows(str(table))
        if row.asked not in known and _wanted(row, chips, socs, builtin)
    ]

    def say(done: int) -> None:
        if progress is not None:
            progress(done, len(rows))

    return Validation(tuple(replay(rows, l2=l2, workers=workers or cores(), progress=say)))


def _named(chip: str) -> Resolution | None:
    """The SoC that a word names; None where it is a part of a name."""
    try:
        return resolve_soc(chip)
    except UnknownNameError:
        return None


def _wanted(row: MeasuredRow, chips: Sequence[str], socs: Collection[str], builtin: bool) -> bool:
    among = row.soc in socs or any(name.lower() in row.chip.lower() for name in chips)
    if chips and not among:
        return False
    return not builtin or (row.impl.startswith("builtin") and row.trust in ("A", "A-"))


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"
