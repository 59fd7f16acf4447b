"""How far predictions are from measurements: all rows, groups of them, steps of workloads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.validation.replay import Prediction


@dataclass(frozen=True)
class Accuracy:
    """Statistics of a set of rows.

    Errors are fractions of the measured time, None where nothing was modelled.
    """

    rows: int
    modelled: int
    median_abs_error: float | None
    p90_abs_error: float | None
    bias: float | None
    rank_correlation: float | None
    in_band: float | None
    roofline_median_abs_error: float | None

    def as_dict(self) -> dict[str, float | int | None]:
        """The fields as plain numbers."""
        return asdict(self)


def accuracy(predictions: Iterable[Prediction]) -> Accuracy:
    """Statistics of ``predictions``.

    Bias is the median signed error, rank correlation is Spearman's.
    """
    everything = list(predictions)
    modelled = [each for each in everything if each.simulated_us is not None]
    if not modelled:
        return Accuracy(len(everything), 0, None, None, None, None, None, None)
    measured = np.array([each.row.duration_us for each in modelled])
    simulated = np.array([each.simulated_us for each in modelled], float)
    errors = simulated / measured - 1
    bands = np.array([each.band_us for each in modelled], float)
    rooflines = np.array([each.roofline_us for each in modelled], float)
    inside = (bands[:, 0] <= measured) & (measured <= bands[:, 1])
    return Accuracy(
        rows=len(everything),
        modelled=len(modelled),
        median_abs_error=float(np.median(np.abs(errors))),
        p90_abs_error=float(np.quantile(np.abs(errors), 0.9)),
        bias=float(np.median(errors)),
        rank_correlation=spearman(simulated, measured),
        in_band=float(np.mean(inside)),
        roofline_median_abs_error=float(np.median(np.abs(rooflines / measured - 1))),
    )


@dataclass(frozen=True)
class StepAccuracy:
    """A workload's kernels added up: ``error`` of the sum, and of all errors as they are.

    Both are fractions of ``measured_us``; only modelled rows count, ``modelled_ratio`` of the time.
    """

    rows: int
    measured_us: float
    modelled_ratio: float
    error: float
    absolute_error: float

    def as_dict(self) -> dict[str, float | int]:
        """The fields as plain numbers."""
        return asdict(self)


def by_workload(predictions: Iterable[Prediction], least: int = 10) -> dict[str, StepAccuracy]:
    """Errors weighted by time for each workload of at least ``least`` modelled rows."""
    groups: dict[str, list[Prediction]] = {}
    for each in predictions:
        if each.row.workload:
            groups.setdefault(each.row.workload, []).append(each)
    found = {}
    for name, members in sorted(groups.items()):
        pairs = [
            (each.simulated_us, each.row.duration_us)
            for each in members
            if each.simulated_us is not None
        ]
        if len(pairs) < least:
            continue
        measured = sum(time for _, time in pairs)
        found[name] = StepAccuracy(
            rows=len(pairs),
            measured_us=measured,
            modelled_ratio=measured / sum(each.row.duration_us for each in members),
            error=sum(time for time, _ in pairs) / measured - 1,
            absolute_error=sum(abs(simulated - time) for simulated, time in pairs) / measured,
        )
    return found


def grouped(
    predictions: Iterable[Prediction], key: Callable[[Prediction], str]
) -> dict[str, Accuracy]:
    """Statistics by ``key``, most rows first."""
    groups: dict[str, list[Prediction]] = {}
    for each in predictions:
        groups.setdefault(key(each), []).append(each)
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    return {name: accuracy(members) for name, members in ordered}


def spearman(first: NDArray[np.float64], second: NDArray[np.float64]) -> float | None:
    """Spearman's rank correlation; ties share their mean rank. None where nothing can be ranked."""
    ranks = np.array([_ranks(first), _ranks(second)])
    if (ranks.std(axis=1) == 0).any():
        return None
    return float(np.corrcoef(ranks)[0, 1])


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    means = ends - (counts - 1) / 2
    return means[inverse]
