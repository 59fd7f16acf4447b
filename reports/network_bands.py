"""Bands of whole networks on a chip whose operators nobody has measured.

They are hw_profiles/calibration/networks.yaml.

A network counts once, with however many batches it was published. The ends are quantiles of
published over simulated device time, by the mean time of an operator; those of a size are pulled
towards those of all sizes, by n / (n + 5) where there are n networks. Both are stretched until
bands that are made of four fifths of the networks hold 80 % of the rates of the other fifth.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from spreads import weighted_quantiles

from npusim.hardware.residuals import Spread

TARGET = Path(__file__).parent.parent / "hw_profiles" / "calibration" / "networks.yaml"
SIZES_US = (15.0, 60.0, 240.0)  # of a mean operator, at which bands say how wide they are
_INSIDE = 0.8
_MOST = float(np.log(3.0))  # of a logarithm: what is further off is out, by however much
_PULL = 5  # networks that what is pulled towards counts for
_FOLDS = 5
_STRETCHES = np.arange(1.0, 2.0, 0.02)
_BETWEEN_US = np.sqrt(np.array(SIZES_US[1:]) * SIZES_US[:-1])


class Left(NamedTuple):
    """What a rate left over: its network, device time published over simulated, operator time."""

    network: str
    ratio: float
    operator_us: float


@dataclass(frozen=True)
class Bands:
    """The spread, by how much it is stretched, and the share of rates that folds hold."""

    spread: Spread
    stretch: float
    held: float


def bands(left: Sequence[Left]) -> Bands:
    """The bands of what all rates left over, stretched to what folds need."""
    for stretch in _STRETCHES:
        held = share_held(left, float(stretch))
        if held >= _INSIDE:
            break
    return Bands(spread(left, float(stretch)), float(stretch), held)


def share_held(left: Sequence[Left], stretch: float) -> float:
    """The share of rates inside bands that were made without their fifth of the networks."""
    names = sorted({each.network for each in left})
    fold = {name: number % _FOLDS for number, name in enumerate(names)}
    inside = 0
    for number in range(_FOLDS):
        known = spread([each for each in left if fold[each.network] != number], stretch)
        for each in left:
            if fold[each.network] == number:
                low, high = known.at(each.operator_us, SIZES_US)
                inside += low <= each.ratio <= high
    return inside / len(left)


def spread(left: Sequence[Left], stretch: float) -> Spread:
    """Both ends by the time of a mean operator."""
    whole = _ends(left)
    low, high = [], []
    for size in range(len(SIZES_US)):
        mine = [each for each in left if np.searchsorted(_BETWEEN_US, each.operator_us) == size]
        count = len({each.network for each in mine})
        share = count / (count + _PULL)
        ends = _ends(mine) if mine else whole
        pulled = [share * end + (1 - share) * other for end, other in zip(ends, whole, strict=True)]
        low.append(round(float(np.exp(stretch * min(0.0, pulled[0]))), 3))
        high.append(round(float(np.exp(stretch * max(0.0, pulled[1]))), 3))
    networks = len({each.network for each in left})
    return Spread(low=tuple(low), high=tuple(high), rows=len(left), cases=networks)


def _ends(left: Sequence[Left]) -> Sequence[float]:
    times = Counter(each.network for each in left)
    tail = (1 - _INSIDE) / 2
    logarithms = np.log([each.ratio for each in left]).clip(-_MOST, _MOST)
    weights = np.array([1 / times[each.network] for each in left])
    return weighted_quantiles(logarithms, weights, (tail, 1 - tail))


def as_yaml(chip: str, found: Bands) -> str:
    """The file that npusim reads."""
    told = found.spread
    ends = f"low: {list(told.low)}, high: {list(told.high)}"
    return f"""\
# Made by reports/models.py. Published over simulated device time: 10 % and 90 % quantiles by the
# mean time of an operator, every network counting once; in logarithms stretched by
# {found.stretch:.2f}, with which bands of four fifths of the networks hold {found.held:.0%} of
# the rates of the others.
sizes_us: {list(SIZES_US)}
chips:
  {chip}: {{{ends}, rows: {told.rows}, cases: {told.cases}}}
"""
