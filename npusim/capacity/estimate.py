"""A quantity estimated over several seeds: its mean and its 95 % confidence interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Final, NamedTuple

CONFIDENCE: Final = 0.95

# Student's t, two-sided at 95 %, for 1, 2, 3 ... degrees of freedom (any table of the
# distribution).
_STUDENT_T: Final = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


class Estimate(NamedTuple):
    """Mean over the seeds, and both ends of its confidence interval (equal to it for one seed).

    The quantity can't be negative, so neither can its interval: it is taken on the logarithm, a
    factor below and above the mean (delta method), which for small spreads is the usual one.
    """

    mean: float
    lo: float
    hi: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Estimate:
        """The estimate from one value for each seed (values of one run aren't independent)."""
        mean = fmean(values)
        if len(values) < 2:
            return cls(mean, mean, mean)
        freedom = len(values) - 1
        # Beyond the table its last row is used: 4 % too wide for very many seeds, never too narrow.
        student = _STUDENT_T[min(freedom, len(_STUDENT_T)) - 1]
        half = student * stdev(values) / math.sqrt(len(values))
        factor = math.exp(half / mean) if mean else 1.0
        return cls(mean, mean / factor, mean * factor)
