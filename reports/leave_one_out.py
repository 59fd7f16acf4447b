"""What a fit that hasn't seen a workload makes of it: errors, and how much of it lies in the bands.

The fits share their simulations. Every row of a sample is simulated with the constants of the
profiles, and with one of them changed at a time to a few values; the logarithms of its times are
taken to add up, and between the values they are interpolated. So each fit is a matter of seconds,
and only the workload that was left out is simulated with what it found.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from spreads import calibration_of, in_band, network, stretches

from npusim.engine import Memo
from npusim.hardware import load_profile
from npusim.validation.fitting import Constant, descend, value_of, with_values
from npusim.validation.replay import simulate_row

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from npusim.validation.replay import Prediction
    from npusim.validation.table import MeasuredRow

LEAST_ROWS = 10  # of a workload that is left out
_CAP = 0.5  # logarithm beyond which a row counts no further, as in a whole fit
_AROUND = 0.4  # spreads from both the fitted and the published value that are simulated
_FLAT = 1e-3  # a row that the furthest value moves by less isn't moved by others
_PART = 16  # rows that a process works on one after the other


@dataclass(frozen=True)
class Responses:
    """Logarithms of simulated times of rows: ``base``, and what each constant's values add.

    ``places`` are those values, in spreads from the one of the profiles; ``added`` has a row for
    each row and a column for each of them.
    """

    rows: Sequence[MeasuredRow]
    base: np.ndarray
    places: Mapping[str, np.ndarray]
    added: Mapping[str, np.ndarray]

    def logarithms(self, constants: Sequence[Constant], values: Mapping[str, float]) -> np.ndarray:
        """Of all rows' times with other constants."""
        total = self.base.copy()
        for each in constants:
            place = each.distance(values[each.key], fitted_value(self.rows, each))
            total += _between(self.places[each.key], self.added[each.key], place)
        return total


def fitted_value(rows: Sequence[MeasuredRow], constant: Constant) -> float:
    """What the profiles of the rows' architecture have."""
    return value_of(load_profile(rows[0].soc), constant.key)


def left_out(
    everything: Sequence[Prediction],
    sample: Sequence[MeasuredRow],
    constants: Sequence[Constant],
    published: Mapping[str, float],
    pool: Executor,
) -> Iterator[tuple[str, str, int, float, float, float]]:
    """Chips, workload, rows, median errors seen and not seen, and the share in band, not seen."""
    chosen = [each for each in constants if published[each.key]]
    responses = respond(sample, chosen, published, pool)
    found: list[_LeftOut] = []
    for name in sorted({network(each.row.workload) for each in everything}):
        inside = [each for each in everything if network(each.row.workload) == name]
        others = [each for each in everything if network(each.row.workload) != name]
        used = np.array([network(row.workload) != name for row in sample])
        if len(inside) < LEAST_ROWS or not others or not used.any():
            continue
        values = _fit(responses, used, chosen, published)
        rows = [each.row for each in inside]
        seen = statistics.median(abs(each.error or 0.0) for each in inside)
        found.append(_LeftOut(name, rows, simulated(rows, values, pool), seen))
    for each in found:
        others = [one for one in everything if network(one.row.workload) != each.name]
        known = calibration_of(others, stretches(others))
        chips = " ".join(sorted({row.chip for row in each.rows}))
        inside = [in_band(known, *pair) for pair in zip(each.rows, each.times, strict=True)]
        yield chips, each.name, len(each.rows), each.seen, each.unseen, statistics.mean(inside)


@dataclass(frozen=True)
class _LeftOut:
    """A workload: its rows, their times by the others' fit, and the median error of all rows'."""

    name: str
    rows: Sequence[MeasuredRow]
    times: Sequence[float]
    seen: float

    @property
    def unseen(self) -> float:
        """The median error of the others' fit."""
        pairs = zip(self.rows, self.times, strict=True)
        return statistics.median(abs(us / row.duration_us - 1) for row, us in pairs)


def simulated(
    rows: Sequence[MeasuredRow], values: Mapping[str, float], pool: Executor
) -> list[float]:
    """Times of rows in microseconds with other constants."""
    parts = [rows[at : at + _PART] for at in range(0, len(rows), _PART)]
    found = pool.map(_times, parts, [values] * len(parts))
    return list(chain.from_iterable(found))


def respond(
    rows: Sequence[MeasuredRow],
    constants: Sequence[Constant],
    published: Mapping[str, float],
    pool: Executor,
) -> Responses:
    """The responses of rows to each constant, around its fitted and its published value."""
    tried = {each.key: _tried(rows, each, published[each.key]) for each in constants}
    parts = [rows[at : at + _PART] for at in range(0, len(rows), _PART)]
    asked = {key: values for key, (_, values) in tried.items()}
    found = list(chain.from_iterable(pool.map(_moved, parts, [asked] * len(parts))))
    return Responses(
        rows,
        np.array([base for base, _ in found]),
        {key: np.array(places) for key, (places, _) in tried.items()},
        {key: np.array([added[key] for _, added in found]) for key in tried},
    )


def _tried(
    rows: Sequence[MeasuredRow], constant: Constant, published: float
) -> tuple[list[float], list[float]]:
    """Places in spreads from the fitted value, and the values there, from the lowest on."""
    fitted = fitted_value(rows, constant)
    ends = {constant.distance(value, fitted) for value in (fitted, published)}
    low, high = min(ends) - _AROUND, max(ends) + _AROUND
    places = sorted({low, *ends, high})
    return places, [constant.moved(fitted, place) for place in places]


def _moved(
    rows: Sequence[MeasuredRow], asked: Mapping[str, Sequence[float]]
) -> list[tuple[float, dict[str, list[float]]]]:
    """Of each row, the logarithm of its time and what each constant's values add to it."""
    found = []
    for row in rows:
        memo = Memo()
        base = math.log(_time(row, {}, memo))
        added = {}
        for key, values in asked.items():
            ends = [math.log(_time(row, {key: values[end]}, memo)) - base for end in (0, -1)]
            if max(map(abs, ends)) < _FLAT:
                added[key] = [0.0] * len(values)
                continue
            inner = [math.log(_time(row, {key: value}, memo)) - base for value in values[1:-1]]
            added[key] = [ends[0], *inner, ends[1]]
        found.append((base, added))
    return found


def _times(rows: Sequence[MeasuredRow], values: Mapping[str, float]) -> list[float]:
    memo = Memo()
    return [_time(row, values, memo) for row in rows]


def _time(row: MeasuredRow, values: Mapping[str, float], memo: Memo) -> float:
    if row.task is None:
        raise ValueError(row.problem)
    profile = with_values(load_profile(row.soc), values)
    return simulate_row(profile, row, row.task, "in_graph", memo).duration_us


def _between(places: np.ndarray, added: np.ndarray, place: float) -> np.ndarray:
    """What is added at a place between others; beyond the ends the last slope goes on."""
    right = int(np.clip(np.searchsorted(places, place), 1, len(places) - 1))
    share = (place - places[right - 1]) / (places[right] - places[right - 1])
    between: np.ndarray = added[:, right - 1] * (1 - share) + added[:, right] * share
    return between


def _fit(
    responses: Responses,
    used: np.ndarray,
    constants: Sequence[Constant],
    published: Mapping[str, float],
) -> Mapping[str, float]:
    """The constants that serve the rows in use best, every chip counting the same."""
    measured = np.log([row.duration_us for row in responses.rows])
    chips = np.array([row.soc for row in responses.rows])

    def loss(values: Mapping[str, float]) -> float:
        errors = np.abs(responses.logarithms(constants, values) - measured).clip(max=_CAP)
        members = sorted(set(chips[used]))
        return statistics.mean(float(errors[used & (chips == chip)].mean()) for chip in members)

    return descend(constants, published, loss, rows=int(used.sum())).values
