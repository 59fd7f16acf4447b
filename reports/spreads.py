"""The residuals of a set of predictions, by operator class: what bands are made of.

All rows of an operator in a network share one error: batch sizes and layers don't make it less.
So not rows but groups (networks x operators) are what was drawn: a row weighs 1 / sqrt(rows of
its group), and a network the root of what its rows do. The ends are pulled towards those of all
classes by n / (n + 5) where there are n groups, and quantiles are conformal over as many as count
for them, n + 5: 0.8 (1 + 1 / (n + 5)) lie between. A fit has seen the rows that are left over, so
they are taken to err as much more as workloads do that it hasn't seen. Bands hold for 80 % of all
rows, not of each class.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from npusim.operators.registry import band_class

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from npusim.validation.replay import Prediction

_INSIDE = 0.8  # of rows between the ends
_PULL = 5  # groups that all classes together count for

Table = dict[str, dict[str, float | int]]


class Residual(NamedTuple):
    """The logarithm of measured over simulated time of a row; its group, workload and shapes."""

    logarithm: float
    group: tuple[str, str]
    case: tuple[str, str] = ("", "")


def spreads(
    predictions: Iterable[Prediction],
    above: tuple[dict[str, float | int], Table] | None = None,
    unseen: float = 1.0,
) -> tuple[dict[str, float | int], Table]:
    """Quantiles of measured over simulated time: of all rows, and of each class.

    Those of a chip are pulled towards the ones ``above``, its microarchitecture's. ``unseen`` is
    how many times as much rows err that a fit hasn't seen (:func:`of_unseen`).
    """
    kinds: dict[str, list[Residual]] = {}
    for each in predictions:
        if each.simulated_us:
            residual = Residual(
                unseen * float(np.log(each.row.duration_us / each.simulated_us)),
                (network(each.row.workload), each.row.op),
                (each.row.workload, str(each.row.question)),
            )
            kinds.setdefault(band_class(each.row.op), []).append(residual)
    everything, classes = above or ({}, {})
    whole = _spread([each for values in kinds.values() for each in values], everything)
    return whole, {
        kind: _spread(values, classes.get(kind) or whole) for kind, values in sorted(kinds.items())
    }


def of_unseen(workloads: Iterable[tuple[float, float]]) -> float:
    """How many times as much rows err that a fit hasn't seen: 1 or more, the mean of workloads.

    Of each its median errors where the fit has seen it, and where not.
    """
    found = [np.log(unseen / seen) for seen, unseen in workloads if seen and unseen]
    return max(1.0, float(np.exp(np.mean(found)))) if found else 1.0


def network(workload: str) -> str:
    """A workload without batch sizes or test numbers: ``bert_128_32 train step`` is ``bert``.

    Several profiles of a language model's tokens are of one network.
    """
    return re.split(r"[/_,]| level| loop| decode| serving", workload)[0]


def as_yaml(tables: Mapping[str, tuple[dict[str, float | int], Table]], indent: str) -> str:
    """Spreads by chip or architecture, as a block of YAML."""
    lines = []
    for name, (everything, classes) in sorted(tables.items()):
        lines += [
            f"{indent}{name}:",
            f"{indent}  everything: {_flow(everything)}",
            f"{indent}  classes:",
        ]
        lines += [f"{indent}    {kind}: {_flow(spread)}" for kind, spread in classes.items()]
        if not classes:
            lines[-1] += " {}"
    return "\n".join(lines)


def _spread(
    residuals: Sequence[Residual], towards: Mapping[str, float | int]
) -> dict[str, float | int]:
    groups = len({each.group for each in residuals})
    counted = groups + _PULL if towards else groups
    tail = max(0.0, 1 - _INSIDE * (1 + 1 / counted)) / 2
    ends = _weighted_quantiles(
        np.array([each.logarithm for each in residuals]),
        _weights([each.group for each in residuals]),
        (tail, 1 - tail),
    )
    share = groups / counted
    low, high = (
        float(np.exp(share * end + (1 - share) * np.log(towards.get(name, 1.0))))
        for name, end in zip(("low", "high"), ends, strict=True)
    )
    cases = len({each.case for each in residuals})
    found = {"low": round(low, 3), "high": round(high, 3), "rows": len(residuals)}
    return found if cases == len(residuals) else {**found, "cases": cases}


def _weights(groups: Sequence[tuple[str, str]]) -> np.ndarray:
    """What rows count, by the network and the operator of each: roots of the rows of both."""
    sizes = Counter(groups)
    networks: Counter[str] = Counter()
    for group, rows in sizes.items():
        networks[group[0]] += rows**0.5
    return np.array([(sizes[each] * networks[each[0]]) ** -0.5 for each in groups])


def _weighted_quantiles(
    values: np.ndarray, weights: np.ndarray, quantiles: Sequence[float]
) -> Sequence[float]:
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order]) - weights[order] / 2
    found = np.interp(quantiles, reached / weights.sum(), values[order])
    return [float(each) for each in found]


def _flow(spread: Mapping[str, float | int]) -> str:
    return "{" + ", ".join(f"{key}: {value}" for key, value in spread.items()) + "}"
