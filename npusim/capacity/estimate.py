"""A quantity estimated over several seeds: its mean and its 95 % confidence interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist, fmean, stdev
from typing import Final, NamedTuple

CONFIDENCE: Final = 0.95


class Estimate(NamedTuple):
    """Mean over the seeds, and both ends of its confidence interval (equal to it for one seed).

    The quantity can't be negative, so neither can its interval: it is taken on the logarithm, a
    factor below and above the mean (delta method), which for small spreads is the usual one.
    """

    mean: float
    lo: float
    hi: float

    @classmethod
    def of(cls, values: Sequence[float], confidence: float = CONFIDENCE) -> Estimate:
        """The estimate from one value for each seed (values of one run aren't independent)."""
        mean = fmean(values)
        if len(values) < 2 or not math.isfinite(mean):
            return cls(mean, mean, mean)
        student = students_t(len(values) - 1, confidence)
        half = student * stdev(values) / math.sqrt(len(values))
        factor = math.exp(min(half / mean, _MOST)) if mean else 1.0
        return cls(mean, mean / factor, mean * factor)


_MOST: Final = 700.0  # what a double's exponent can take


def students_t(freedom: int, confidence: float) -> float:
    """Student's t, two-sided: exact for 1 and 2 degrees of freedom, else to 0.2 %.

    Abramowitz and Stegun 26.7.5.
    """
    if freedom == 1:
        return math.tan(math.pi / 2 * confidence)
    if freedom == 2:
        return confidence * math.sqrt(2 / (1 - confidence**2))
    z, n = NormalDist().inv_cdf((1 + confidence) / 2), float(freedom)
    return (
        z
        + (z**3 + z) / (4 * n)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3)
        + (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / (92160 * n**4)
    )
