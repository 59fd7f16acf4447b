"""The residuals of a set of predictions, by operator class and size: what bands are made of.

All rows of an operator in a network share one error: batch sizes and layers don't make it less.
So not rows but groups (networks x operators) are what was drawn: a row weighs 1 / sqrt(rows of
its group), and a network the root of what its rows do. Quantiles are conformal over the groups.

The error depends on the class of the operator and on the simulated time, the two ends not alike.
There are few groups of a class and a size, so that their ends are pulled towards what class and
size say by themselves (the sum of both, less that of all rows), and those of a chip towards its
microarchitecture's, by n / (n + 5) where there are n groups.

What was written and fitted with the rows at hand errs less on them than on others, and ends of few
groups lie further out than the quantiles. Both ends are stretched or narrowed until bands that are
made of all other workloads hold 80 % of those that came after the schedules were written, each left
out in turn. They hold for 80 % of all rows, not of each class.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from npusim.ascendc.ai_cpu import AiCpuKernel
from npusim.hardware import load_profile
from npusim.hardware.residuals import Calibration
from npusim.operators.registry import band_class
from npusim.runtime.bands import AI_CPU, measured_band

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from npusim.validation.replay import Prediction
    from npusim.validation.table import MeasuredRow

SIZES_US = (1.7, 5.0, 14.0, 50.0, 200.0)  # at which bands say how wide they are
LEAST_OF_CHIP = 40  # rows of a chip that has bands of its own
WIDENING = 1.3  # of a band in logarithms where the class or the chip was not measured
_INSIDE = 0.8  # of rows between the ends
_MOST = float(np.log(3.0))  # of a logarithm: what is further off is out, by however much
_PULL = 5  # groups that what is pulled towards counts for
_LEAST_STRETCH, _MOST_STRETCH, _STEP = 0.5, 2.0, 0.02
_BETWEEN_US = np.sqrt(np.array(SIZES_US[1:]) * SIZES_US[:-1])

Ends = tuple[float, float]
"""Logarithms of the 10 % and the 90 % quantile of measured over simulated time."""
Cells = dict[int, Ends]
"""Ends by size."""


class Residual(NamedTuple):
    """The logarithm of measured over simulated time of a row; its group, workload and shapes."""

    logarithm: float
    group: tuple[str, str]
    size: int
    case: tuple[str, str] = ("", "")


class Spreads(NamedTuple):
    """The ends of all rows and of each class, by size, and the residuals that they are made of."""

    everything: Cells
    classes: dict[str, Cells]
    residuals: dict[str, list[Residual]]


def calibration_of(predictions: Iterable[Prediction], stretch: Mapping[str, float]) -> Calibration:
    """What bands are made of, after these predictions; ``stretch`` is by microarchitecture."""
    return Calibration.model_validate(as_mapping(predictions, stretch))


def as_mapping(predictions: Iterable[Prediction], stretch: Mapping[str, float]) -> dict[str, Any]:
    """The same as it stands in hw_profiles/calibration/residuals.yaml."""
    kinds: dict[str, dict[str, list[Prediction]]] = {}
    for each in predictions:
        kind = load_profile(each.row.soc).architecture
        kinds.setdefault(kind, {}).setdefault(each.row.soc, []).append(each)
    found: dict[str, Any] = {"unmeasured_widening": WIDENING, "sizes_us": list(SIZES_US)}
    found |= {"architectures": {}, "chips": {}}
    for kind, chips in sorted(kinds.items()):
        more = stretch.get(kind, 1.0)
        whole = spreads([each for members in chips.values() for each in members])
        found["architectures"][kind] = _told(whole, more)
        for soc, members in sorted(chips.items()):
            if len(members) > LEAST_OF_CHIP:
                found["chips"][soc] = _told(spreads(members, whole), more)
    return found


def stretches(predictions: Sequence[Prediction]) -> dict[str, float]:
    """By how much bands are stretched, by microarchitecture; 1 where nothing came later."""
    found: dict[str, float] = {}
    for kind in {load_profile(each.row.soc).architecture for each in predictions}:
        members = [each for each in predictions if load_profile(each.row.soc).architecture == kind]
        later = {network(each.row.workload) for each in members if each.row.later}
        needed: list[float] = []
        for name in sorted(later):
            known = calibration_of(_without(members, name), {})
            needed += [
                _needed(known, each.row, each.simulated_us, _kind(each))
                for each in members
                if network(each.row.workload) == name and each.simulated_us
            ]
        steps = np.arange(_LEAST_STRETCH, _MOST_STRETCH, _STEP)
        enough = [step for step in steps if needed and np.mean(np.array(needed) <= step) >= _INSIDE]
        found[kind] = round(float(enough[0] if enough else steps[-1]), 2) if needed else 1.0
    return found


def in_band(known: Calibration, row: MeasuredRow, simulated_us: float) -> bool:
    """Whether a row lies in the band of its simulated time."""
    return _needed(known, row, simulated_us) <= 1.0


def _needed(known: Calibration, row: MeasuredRow, simulated_us: float, kind: str = "") -> float:
    """By how much the band of a row has to be stretched to hold it."""
    name = AI_CPU if kind == AI_CPU else row.op
    found = measured_band(known, load_profile(row.soc), name, simulated_us)
    ratio = float(np.log(row.duration_us / simulated_us))
    if found is None or not ratio:
        return 0.0 if not ratio else float("inf")
    end = float(np.log(found.high if ratio > 0 else found.low))
    return ratio / end if end else float("inf")


def _without(predictions: Iterable[Prediction], name: str) -> list[Prediction]:
    return [each for each in predictions if network(each.row.workload) != name]


def spreads(predictions: Iterable[Prediction], above: Spreads | None = None) -> Spreads:
    """Ends of all rows and of each class, pulled towards those ``above`` where there are any."""
    kinds: dict[str, list[Residual]] = {}
    for each in predictions:
        if each.simulated_us:
            residual = Residual(
                float(np.clip(np.log(each.row.duration_us / each.simulated_us), -_MOST, _MOST)),
                (network(each.row.workload), each.row.op),
                int(np.searchsorted(_BETWEEN_US, each.simulated_us)),
                (each.row.workload, str(each.row.question)),
            )
            kinds.setdefault(_kind(each), []).append(residual)
    everything = [each for values in kinds.values() for each in values]
    if above is not None:
        classes = {
            kind: _cells(values, above.classes.get(kind, above.everything))
            for kind, values in sorted(kinds.items())
        }
        return Spreads(_cells(everything, above.everything), classes, kinds)
    whole = _ends(everything, None)
    sizes = _cells(everything, dict.fromkeys(range(len(SIZES_US)), whole))
    of_kind = {kind: _ends(values, whole) for kind, values in sorted(kinds.items())}
    expected = {
        kind: {at: (own[0] + size[0] - whole[0], own[1] + size[1] - whole[1])
               for at, size in sizes.items()}
        for kind, own in of_kind.items()
    }  # fmt: skip
    return Spreads(
        sizes, {kind: _cells(kinds[kind], ends) for kind, ends in expected.items()}, kinds
    )


def _kind(prediction: Prediction) -> str:
    """The class of a row: its operator's, or that of what AI CPUs run."""
    on_cpu = prediction.bound == AiCpuKernel.runs_on
    return AI_CPU if on_cpu else band_class(prediction.row.op)


def network(workload: str) -> str:
    """A workload without batch sizes or test numbers: ``bert_128_32 train step`` is ``bert``.

    Several profiles of a language model's tokens are of one network.
    """
    return re.split(r"[/_,]| level| loop| decode| serving", workload)[0]


def _cells(residuals: Sequence[Residual], towards: Cells) -> Cells:
    """Ends by size, each pulled towards others."""
    return {
        at: _ends([each for each in residuals if each.size == at], towards[at]) for at in towards
    }


def _ends(residuals: Sequence[Residual], towards: Ends | None) -> Ends:
    if not residuals:
        return towards or (0.0, 0.0)
    groups = len({each.group for each in residuals})
    counted = groups + _PULL if towards else groups
    tail = max(0.0, 1 - _INSIDE * (1 + 1 / counted)) / 2
    ends = weighted_quantiles(
        np.array([each.logarithm for each in residuals]),
        _weights([each.group for each in residuals]),
        (tail, 1 - tail),
    )
    share = groups / counted
    low, high = (
        share * end + (1 - share) * other for end, other in zip(ends, towards or ends, strict=True)
    )
    return low, high


def _weights(groups: Sequence[tuple[str, str]]) -> np.ndarray:
    """What rows count, by the network and the operator of each: roots of the rows of both."""
    sizes = Counter(groups)
    networks: Counter[str] = Counter()
    for group, rows in sizes.items():
        networks[group[0]] += rows**0.5
    return np.array([(sizes[each] * networks[each[0]]) ** -0.5 for each in groups])


def weighted_quantiles(
    values: np.ndarray, weights: np.ndarray, quantiles: Sequence[float]
) -> Sequence[float]:
    """Quantiles of values, in between them where weights end there."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order]) - weights[order] / 2
    found = np.interp(quantiles, reached / weights.sum(), values[order])
    return [float(each) for each in found]


def _told(found: Spreads, stretch: float) -> dict[str, Any]:
    everything = [each for values in found.residuals.values() for each in values]
    return {
        "everything": _spread(found.everything, everything, stretch),
        "classes": {
            kind: _spread(cells, found.residuals[kind], stretch)
            for kind, cells in found.classes.items()
        },
    }


def _spread(cells: Cells, residuals: Sequence[Residual], stretch: float) -> dict[str, Any]:
    """Factors by size; no end is on the other side of the estimate."""
    low = [round(float(np.exp(stretch * min(0.0, ends[0]))), 3) for ends in cells.values()]
    high = [round(float(np.exp(stretch * max(0.0, ends[1]))), 3) for ends in cells.values()]
    cases = len({each.case for each in residuals})
    found = {"low": low, "high": high, "rows": len(residuals)}
    return found if cases == len(residuals) else {**found, "cases": cases}


def as_yaml(known: Mapping[str, Any]) -> str:
    """The mapping as a file, a class on each line."""
    lines = [f"{key}: {known[key]}" for key in ("unmeasured_widening", "sizes_us")]
    for group in ("architectures", "chips"):
        lines.append(f"{group}:")
        for name, each in known[group].items():
            lines += [f"  {name}:", f"    everything: {_flow(each['everything'])}", "    classes:"]
            lines += [f"      {kind}: {_flow(one)}" for kind, one in each["classes"].items()]
            if not each["classes"]:
                lines[-1] += " {}"
    return "\n".join(lines)


def _flow(spread: Mapping[str, Any]) -> str:
    return "{" + ", ".join(f"{key}: {value}" for key, value in spread.items()) + "}"
